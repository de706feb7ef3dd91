"""Which rows a stage's trees are grown on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stagewise.kernels.exact import hash_threshold_counts, mix_rows, stream_key

__all__ = ["Rows", "Sampler", "UniformSampler", "smallest_hashes"]

_PURPOSE = 0x726F7773  # "rows"
_NO_ROWS = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Row numbers in use, ascending uint32; `index` is empty when all rows are. `rest` are the others."""

    index: np.ndarray
    rest: np.ndarray


def smallest_hashes(key: np.uint64, skip: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """The `wanted` rows with the smallest hashes among those not skipped, and all other rows, both ascending.

    Exact in number and independent of order: counts by the top 16 bits find the bucket in which the last one lies;
    only that bucket is sorted.
    """
    n = len(skip)
    counts = np.zeros(1 << 16, np.int64)
    hash_threshold_counts(key, skip, counts)
    running = np.cumsum(counts)
    bucket = int(np.searchsorted(running, wanted))
    inside = wanted - (int(running[bucket - 1]) if bucket else 0)
    chosen, rest, edge = (
        np.empty(wanted, np.uint32),
        np.empty(n - wanted, np.uint32),
        np.empty(counts[bucket], np.uint64),
    )
    mix_rows(key, skip, bucket, np.uint64(0), chosen[:0], rest[:0], edge)
    threshold = np.sort(edge)[inside - 1]
    mix_rows(key, skip, bucket, threshold, chosen, rest, edge[:0])
    return chosen, rest


class Sampler:
    """All rows that are in training, at every stage."""

    def __init__(self, n_rows: int, skip: np.ndarray) -> None:
        self.n_rows, self.skip = n_rows, skip
        out = np.flatnonzero(skip).astype(np.uint32)
        self.all = Rows(np.flatnonzero(~skip).astype(np.uint32) if len(out) else _NO_ROWS, out)

    def __call__(self, stage: int) -> Rows:
        return self.all


class UniformSampler(Sampler):
    """A fresh share of the training rows at every stage, without replacement (Friedman 2002, stochastic boosting)."""

    def __init__(self, n_rows: int, skip: np.ndarray, share: float, seed: int) -> None:
        super().__init__(n_rows, skip)
        in_training = n_rows - int(skip.sum())
        self.wanted, self.seed = max(1, round(share * in_training)), seed

    def __call__(self, stage: int) -> Rows:
        return Rows(*smallest_hashes(stream_key(self.seed, _PURPOSE, stage), self.skip, self.wanted))
