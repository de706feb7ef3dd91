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
        self.reducer = reducer
        columns = [
            np.append(j * PITCH + np.arange(n, dtype=np.int64), j * PITCH + 255) for j, n in enumerate(n_bins.tolist())
        ]
        bounds = [(0, len(columns))] * reducer.size if ends is None else list(pairwise(ends))
        none = np.empty(0, np.int64)
        self.entries = [np.concatenate([none, *columns[a:b]]) for a, b in bounds]
        self.same = ends is None
        self._rooms: dict[tuple[int, int], np.ndarray] = {}
        self._turn = 0
        self.first = bounds[reducer.rank][0] * PITCH if bounds[reducer.rank][0] < bounds[reducer.rank][1] else -1

    def add_up(self, grad: np.ndarray, hess: np.ndarray, packing: Packing, pools: Pools, slots: np.ndarray) -> None:
        """Put Σ over the members of wide histograms (n, stride * PITCH) into slots of the pools, for own columns."""
        own = self.entries[self.reducer.rank]
        for slot, more, words in zip(slots.tolist(), grad, hess, strict=True):
            pools.grad[slot], pools.hess[slot] = more, words
        if self.reducer.size == 1:
            return
        self.reducer.histograms += len(slots)
        self._turn = 1 - self._turn
        outgoing: list[np.ndarray] = []
        for rank, entries in enumerate(self.entries):
            if rank == self.reducer.rank:
                outgoing.append(np.empty(0, np.uint8))
            elif outgoing and self.same and len(outgoing[-1]):
                outgoing.append(outgoing[-1])
            else:
                outgoing.append(_packed(grad, hess, entries, packing, self._buffer(rank, len(grad) * len(entries))))
        for rank, message in enumerate(self.reducer.exchange(outgoing)):
            if rank != self.reducer.rank and len(own):
                _add(message, own, packing, pools, slots)

    def _buffer(self, rank: int, entries: int) -> np.ndarray:
        """Room for a message to a member. There are two, in turn: one may still be on its way."""
        room = self._rooms.get((rank, self._turn))
        if room is None or len(room) < 12 * entries + 1:
            room = self._rooms[rank, self._turn] = np.empty(16 * entries + 1, np.uint8)
        return room

    def node_totals(self, pools: Pools, slot: int) -> tuple[int, int]:
        """The sums of a node's two words, from any column of its histogram: every row is in one of its bins."""
        totals = np.zeros(2, np.int64)
        if self.first >= 0:
            bins = self.entries[self.reducer.rank]
            bins = bins[bins < self.first + PITCH]
            totals[:] = pools.grad[slot, bins].sum(), pools.hess[slot, bins].sum()
        if not self.same and self.reducer.size > 1:
            parts = self.reducer.gather(totals)
            totals = next((part for part in parts if part[1] != 0), totals)
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


def _packed(grad: np.ndarray, hess: np.ndarray, entries: np.ndarray, packing: Packing, room: np.ndarray) -> np.ndarray:
    """Histograms as bytes: lines of int32, the last byte their number; or two of int64, and 0."""
    lines = 2 if packing.hess_step == 0.0 else 3  # a constant second derivative is the count
    out = room[: 4 * lines * len(grad) * len(entries) + 1]
    out[-1] = lines
    if to_narrow(grad, hess, entries, packing.count_bits, out[:-1].view(np.int32).reshape(lines, -1)):
        return out
    wide = np.concatenate([grad[:, entries].ravel(), hess[:, entries].ravel()])
    return np.append(wide.view(np.uint8), np.uint8(0))


def _add(message: np.ndarray, entries: np.ndarray, packing: Packing, pools: Pools, slots: np.ndarray) -> None:
    lines, body = int(message[-1]), message[:-1]
    if not body.flags.writeable or body.ctypes.data % 8:  # kernels want it aligned and writable
        body = body.copy()
    if lines:
        add_narrow(body.view(np.int32).reshape(lines, -1), entries, packing.count_bits, pools.grad, pools.hess, slots)
        return
    wide = body.view(np.int64).reshape(2, len(slots), len(entries))
    pools.grad[slots[:, None], entries] += wide[0]
    pools.hess[slots[:, None], entries] += wide[1]
