"""Histograms on their way between members: only bins that exist, three numbers of 32 bits each where they fit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from stagewise.kernels.exact import Packing
from stagewise.kernels.histogram import PITCH, Pools
from stagewise.kernels.reducer import Reducer
from stagewise.kernels.shards import add_narrow, to_narrow

__all__ = ["Wire"]


class Wire:
    """Adds up the members' histograms. ends: member k gets columns ends[k]..ends[k + 1]; None: all get all of them."""

    def __init__(self, reducer: Reducer, n_bins: np.ndarray, ends: list[int] | None) -> None:
        self.reducer, self.n_bins, self.same = reducer, n_bins, ends is None
        self.bounds = [(0, len(n_bins))] * reducer.size if ends is None else list(pairwise(ends))
        self.columns = self.bounds[reducer.rank]  # those of this member

    def add_up(self, packing: Packing, pools: Pools, slots: np.ndarray) -> None:
        """Slots of the pools hold this member's wide histograms; now Σ over the members, for this one's columns."""
        reducer = self.reducer
        if reducer.size == 1:
            return
        reducer.histograms += len(slots)
        outgoing = [np.empty(0, np.int32)] * reducer.size
        message: np.ndarray | None = None
        for rank, columns in enumerate(self.bounds):
            if rank != reducer.rank:
                if message is None or not self.same:
                    message = self._message(rank, columns, packing, pools, slots)
                outgoing[rank] = message
        for rank, came in enumerate(reducer.exchange(outgoing)):
            if rank != reducer.rank and len(came):
                self._add(came, packing, pools, slots)

    def _message(
        self, rank: int, columns: tuple[int, int], packing: Packing, pools: Pools, slots: np.ndarray
    ) -> np.ndarray:
        """Lines of int32 (grad, hess, count; where the second derivative is constant, that is the count), or of int64
        (both words) when a number is too large."""
        lines, n = _lines(packing), len(slots) * int((self.n_bins[slice(*columns)] + 1).sum())
        out = self.reducer.room(rank, 4 * lines * n).view(np.int32)
        room = out.reshape(lines, -1)
        if to_narrow(pools.grad, pools.hess, slots, self.n_bins, *columns, packing.count_bits, room):
            return out
        at = self._entries(columns)
        return np.concatenate([own[slots[:, None], at].ravel() for own in (pools.grad, pools.hess)])

    def _add(self, came: np.ndarray, packing: Packing, pools: Pools, slots: np.ndarray) -> None:
        if not came.flags.writeable or came.ctypes.data % 8:  # kernels want it aligned and writable
            came = came.copy()
        if came.dtype == np.int32:
            room = came.reshape(_lines(packing), -1)
            add_narrow(room, slots, self.n_bins, *self.columns, packing.count_bits, pools.grad, pools.hess)
            return
        at = self._entries(self.columns)
        wide = came.reshape(2, len(slots), len(at))
        pools.grad[slots[:, None], at] += wide[0]
        pools.hess[slots[:, None], at] += wide[1]

    def _entries(self, columns: tuple[int, int]) -> np.ndarray:
        """Where the bins of some columns are, in the order of `to_narrow`."""
        each = [np.append(j * PITCH + np.arange(self.n_bins[j]), j * PITCH + 255) for j in range(*columns)]
        return np.concatenate([np.empty(0, np.int64), *each]).astype(np.int64)

    def node_totals(self, pools: Pools, slot: int) -> tuple[int, int]:
        """The sums of a node's two words, from any column of its histogram: every row is in one of its bins."""
        totals = np.zeros(2, np.int64)
        first, last = self.columns
        if first < last:
            bins = self._entries((first, first + 1))
            totals[:] = pools.grad[slot, bins].sum(), pools.hess[slot, bins].sum()
        if any(a == b for a, b in self.bounds):  # some members have no column
            totals = next((part for part in self.reducer.gather(totals) if part[1] != 0), totals)
        return int(totals[0]), int(totals[1])

    def findings(self, found: np.ndarray, gains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What all members' threads found, (n_jobs, members * threads, ...), in the order of their columns."""
        parts = self.reducer.gather(np.concatenate([found.ravel(), gains.ravel().view(np.int64)]))
        n_jobs, _, two, fields = found.shape
        all_found, all_gains = [], []
        for part in parts:  # members may have different numbers of threads
            threads = len(part) // (n_jobs * two * (fields + 1))
            cut = n_jobs * threads * two * fields
            all_found.append(part[:cut].reshape(n_jobs, threads, two, fields))
            all_gains.append(part[cut:].view(np.float64).reshape(n_jobs, threads, two))
        return np.ascontiguousarray(np.concatenate(all_found, 1)), np.ascontiguousarray(np.concatenate(all_gains, 1))


def _lines(packing: Packing) -> int:
    return 2 if packing.hess_step == 0.0 else 3
