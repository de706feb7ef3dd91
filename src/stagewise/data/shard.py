"""A shard: some of a table's rows, held by one of several members that train one model together.

Random choices are hashes of row numbers, so a shard knows the numbers that its rows have in the whole table: they come
in runs (a partition of a collection is one), and need not be neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stagewise.kernels.exact import hash_values, shifted
from stagewise.kernels.reducer import Reducer

__all__ = ["Shard"]


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """Rows first[k] .. first[k] + length[k] of the table, run after run, are rows 0, 1, ... here."""

    reducer: Reducer
    first: np.ndarray  # int64 (n_runs)
    length: np.ndarray  # int64 (n_runs)

    @property
    def n_rows(self) -> int:
        return int(self.length.sum())

    def hashes(self, key: np.uint64) -> np.ndarray:
        """uint64 (n_rows): the hash of each row's number."""
        out = np.empty(self.n_rows, np.uint64)
        for start, stop, own in self.runs(key):
            hash_values(own, 0, out[start:stop])
        return out

    def runs(self, key: np.uint64) -> Iterator[tuple[int, int, np.uint64]]:
        """Of each run: where it starts and stops here, and a key under which 0, 1, ... have its rows' hashes."""
        at = 0
        for first, length in zip(self.first.tolist(), self.length.tolist(), strict=True):
            yield at, at + length, shifted(key, first)
            at += length

    def smallest_hashes(self, key: np.uint64, skip: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray]:
        """`boosting.sampling.smallest_hashes` over all shards: this one's chosen rows, and its others, ascending.

        Counts by the top bits, of all members, find the bucket of the last one; its hashes are exchanged. There are
        about as many buckets as rows in a bucket: both travel.
        """
        hashes = self.hashes(key)
        bits = min(16, max(4, self.reducer.count(self.n_rows).bit_length() // 2))
        top = (hashes >> np.uint64(64 - bits)).astype(np.int64)
        running = np.cumsum(self.reducer.sum(np.bincount(top[~skip], minlength=1 << bits)))
        bucket = int(np.searchsorted(running, wanted))
        inside = wanted - (int(running[bucket - 1]) if bucket else 0)
        edge = np.concatenate(self.reducer.gather(hashes[~skip & (top == bucket)].view(np.int64))).view(np.uint64)
        chosen = ~skip & (hashes <= np.sort(edge)[inside - 1])
        return np.flatnonzero(chosen).astype(np.uint32), np.flatnonzero(~chosen).astype(np.uint32)

    def first_beyond(self, values: np.ndarray, weights: np.ndarray, before: int, target: float) -> float | None:
        """The smallest of all members' values (none negative) at which the running sum of their weights (int64), from
        `before` on, goes beyond the target; None when it never does. Bits of the floats are settled 16 at a time."""
        bits = (values + 0.0).view(np.uint64)
        prefix = 0
        for shift in (48, 32, 16, 0):
            sums = np.zeros(1 << 16, np.int64)
            np.add.at(sums, ((bits >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64), weights)
            running = before + np.cumsum(self.reducer.sum(sums))
            if running[-1] <= target:
                return None
            digit = int(np.argmax(running > target))
            before = int(running[digit - 1]) if digit else before
            prefix = (prefix << 16) | digit
            kept = bits >> np.uint64(shift) == np.uint64(prefix)
            bits, weights = bits[kept], weights[kept]
        return float(np.array([prefix], np.uint64).view(np.float64)[0])
