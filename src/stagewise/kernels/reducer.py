"""Members that each hold some of the rows and run the same program: how their sums become sums over all rows.

Whatever decides something is a sum of integers, a maximum or a selection, so every member ends up with the same
numbers, and with the same model. The base class is a member alone: all rows are its own. `Circle` makes members out of
the threads of one process; those of a cluster are in stagewise/dask.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from stagewise.errors import ClusterError

__all__ = ["ALONE", "Circle", "Reducer"]


class Reducer:
    """One member, number `rank` of `size`; all members must make the same calls in the same order."""

    size = 1
    rank = 0
    histograms = 0  # of nodes, exchanged so far

    def __init__(self) -> None:
        self._rooms: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def stopped(self) -> bool:
        """Whether a member was asked to end after this stage; all of them see it after the same exchange."""
        return False

    def exchange(self, outgoing: Sequence[np.ndarray]) -> list[np.ndarray]:
        """outgoing[k] goes to member k; what members 0, 1, ... sent here. Arrays are one-dimensional.

        What came is good until the next exchange, and what goes must stay as it is until the one after that has begun:
        then everybody has got it.
        """
        return list(outgoing)

    def room(self, rank: int, size: int) -> np.ndarray:
        """uint8 (size): where the next message to a member can be written. Fresh memory costs more than the journey;
        there are two rooms, in turn, because the last message may still be on its way."""
        other, room = self._rooms.get(rank, (np.empty(0, np.uint8), np.empty(0, np.uint8)))
        if len(room) < size:
            room = np.empty(size + size // 4, np.uint8)
        self._rooms[rank] = room, other
        return room[:size]

    def gather(self, values: np.ndarray) -> list[np.ndarray]:
        """The arrays of all members, which may differ in length."""
        return [values] if self.size == 1 else self.exchange([values] * self.size)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Σ over the members, of int64 arrays of one shape."""
        return values if self.size == 1 else self.total(values, np.empty(0))[0]

    def max(self, values: np.ndarray) -> np.ndarray:
        """The largest, entry by entry, of float64 arrays of one shape."""
        return values if self.size == 1 else self.total(np.empty(0, np.int64), values)[1]

    def total(self, sums: np.ndarray, peaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both at once."""
        if self.size == 1:
            return sums, peaks
        n = sums.size
        parts = self.gather(np.concatenate([sums.ravel(), peaks.ravel().view(np.int64)]))
        total, largest = parts[0][:n].copy(), parts[0][n:].view(np.float64).copy()
        for part in parts[1:]:
            total += part[:n]
            np.maximum(largest, part[n:].view(np.float64), out=largest)
        return total.reshape(sums.shape), largest.reshape(peaks.shape)

    def count(self, number: int) -> int:
        """Σ of one number a member."""
        return number if self.size == 1 else int(self.sum(np.array([number], np.int64))[0])

    def largest(self, number: float) -> float:
        return number if self.size == 1 else float(self.max(np.array([number]))[0])


ALONE = Reducer()


class Circle:
    """Members in one process: `members[k]` is used by one thread each."""

    def __init__(self, size: int, seconds: float = 300.0) -> None:
        """seconds: how long a member waits for the others before it gives up."""
        self._given: list[Sequence[np.ndarray]] = [()] * size
        self._barrier = threading.Barrier(size, timeout=seconds)
        self.members = [_Neighbour(self, rank, size) for rank in range(size)]

    def leave(self) -> None:
        """Whoever waits, or will, gets an error: a member has failed."""
        self._barrier.abort()

    def trade(self, rank: int, outgoing: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            self._given[rank] = outgoing
            self._barrier.wait()
            incoming = [given[rank].copy() for given in self._given]
            self._barrier.wait()
        except threading.BrokenBarrierError:
            raise ClusterError("Another member of this fit has failed or takes too long; its error says why.") from None
        return incoming


class _Neighbour(Reducer):
    def __init__(self, circle: Circle, rank: int, size: int) -> None:
        super().__init__()
        self.circle, self.rank, self.size = circle, rank, size

    def exchange(self, outgoing: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self.circle.trade(self.rank, outgoing)
