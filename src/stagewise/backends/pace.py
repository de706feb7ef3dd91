"""How many threads a tree is grown with, judged by the clock.

Threads that wait for each other suffer when other programs hold the cores: every meeting may cost a time slice. So a
tree that takes suspiciously long is given up and grown by one thread, and so are the next ones; all threads are tried
again after longer and longer spells. (Both cores busy: two threads that always wait for each other once took 43 s where
one took 2.1. With this a fit of 1.8 s with one thread takes 1.2 s when the two happen to run side by side, else 1.8 s.)

The model does not depend on any of this: only the time does.
"""

from __future__ import annotations

import math
import time

from stagewise.kernels.team import read_cycles
from stagewise.params import TreeParams

__all__ = ["Pace", "rows_apart", "threads_for", "tree_work"]

_SUSPICIOUS = 2.0
"""Times the expected work of a single thread at which a tree grown by several is suspicious."""

_TRIAL = 1.25
"""The same for a trial after a spell of trees grown alone, times the fastest of those."""

_SPELL = 2
"""Trees grown alone after the first suspicious one; four times as many after each further one, until as many trees in a
row were grown by all in good time. (A pause of 50 ms on an idle machine, twice in a fit of 100 trees, should not cost
forty trees grown alone.)"""

_WORK_A_THREAD = 500_000
"""Work on a tree, in nanoseconds, that is worth a thread: waiting for each other costs a tree about that much."""

_ROWS_APART, _WIDEST_APART = 65_536, 64
"""Rows of a node, and columns of a table, up to which a thread splits a node by itself (kernels/ahead.py).

Growth with two threads, share of its time without: workload H 0.88, F 0.96, GOSS on A 0.98, A the same. With half
and twice as many rows H gains less. Where leaves keep their histograms (B) it would lose a quarter: those of 50 columns
take 100 kB, and what one core has written the other has to fetch. When threads divide the columns, each has its own at
hand.
"""


def tree_work(n_rows: int, n_columns: int, params: TreeParams) -> float:
    """Nanoseconds that one thread needs for a tree, roughly."""
    leaves = min(params.max_leaf_nodes, max(2, n_rows // params.min_samples_leaf))
    return (0.9 * n_rows + 540.0 * leaves) * n_columns


def threads_for(n_rows: int, n_columns: int, params: TreeParams, n_jobs: int) -> int:
    """Threads that pay: none waits longer than it works. The model does not depend on it.

    A tree's histograms take some 2 visits of each value at 0.45 ns, its split search 0.27 µs for each column of twice
    its leaves. Measured with 20 columns: at 10,000 rows a second thread made a fit 17 % slower, at 20,000 it broke
    even; with 100 columns it made one of 2,000 rows 30 % faster.
    """
    return max(1, min(n_jobs, int(tree_work(n_rows, n_columns, params) / _WORK_A_THREAD)))


def rows_apart(n_columns: int, width: int, params: TreeParams, n_threads: int) -> int:
    """Rows up to which a thread splits a node by itself; 0: never. width: columns of a histogram.

    Columns that are drawn for a node depend on its number, which is not known ahead of its turn.
    """
    drawn = params.split_columns < min(params.tree_columns, n_columns)
    together = n_threads == 1 or params.growth == "symmetric" or width > _WIDEST_APART or drawn
    return 0 if together else _ROWS_APART


class Pace:
    """Chooses between all threads and one, tree by tree."""

    def __init__(self, n_threads: int, expected: float) -> None:
        """expected: seconds that one thread needs for a tree, roughly; a wrong guess costs one tree grown alone."""
        self._all, self._limit = n_threads, _SUSPICIOUS * expected
        self._together = 0.0  # seconds of the last tree grown by all
        self._alone = 0  # trees still to be grown alone
        self._lone = math.inf  # seconds of the fastest of those since all threads were given up
        self._spell = _SPELL  # how many the next time
        self._good = 0  # trees in a row that were grown by all in good time
        self._began = (time.perf_counter(), read_cycles()) if n_threads > 1 else (0.0, 0)

    @property
    def threads(self) -> int:
        """Threads for the next tree."""
        return 1 if self._alone > 0 else self._all

    @property
    def limit(self) -> float:
        """Seconds from which a tree grown by all is too slow: a trial need not take long to show that it fails."""
        return min(self._limit, _TRIAL * self._lone)

    def deadline(self) -> int:
        """The cycle count at which several threads give up the tree that they begin now; 0 when it is not known."""
        seconds, cycles = time.perf_counter() - self._began[0], read_cycles()
        passed = cycles - self._began[1]
        return int(cycles + self.limit * passed / seconds) if passed > 0 and seconds > 0.0 else 0

    def note(self, seconds: float, given_up: bool = False) -> None:
        """Take in how long the tree took that `threads` was asked for, or how long until it was given up."""
        if self._all == 1:
            return
        if self._alone == 0:
            if given_up or seconds > self.limit:
                self._alone, self._good = self._spell, 0
                self._spell *= 4
            else:
                self._good += 1
                self._spell = _SPELL if self._good >= self._spell else self._spell
            self._together = seconds
            if self._lone < math.inf:  # how long a trial took before it was given up says nothing about the guess
                self._limit, self._together = max(self._limit, _SUSPICIOUS * self._lone), math.inf
            self._lone = math.inf
        elif seconds > self._together:  # alone is no faster: the guess was wrong, or the machine is idle again
            self._alone, self._spell, self._lone = 0, _SPELL, math.inf
            self._limit = max(self._limit, _SUSPICIOUS * seconds)
        else:
            self._alone -= 1
            self._lone = min(self._lone, seconds)
