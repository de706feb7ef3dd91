"""How many threads a tree is grown with, judged by the clock.

Threads that wait for each other suffer when other programs hold the cores: every meeting may cost a time slice. So a
tree that took suspiciously long is followed by one grown alone; whichever was faster is kept, and the other is tried
again after longer and longer spells. (Both cores busy, a fit of 2.5 s with one thread: 43 s with two, 3.4 s with this.)

The model does not depend on any of this: only the time does.
"""

from __future__ import annotations

__all__ = ["Pace"]

_SUSPICIOUS = 2.0
"""Times the expected work of a single thread at which a tree grown by several is suspicious."""


class Pace:
    """Chooses between all threads and one, tree by tree."""

    def __init__(self, n_threads: int, expected: float) -> None:
        """expected: seconds that one thread needs for a tree, roughly; a wrong guess costs one tree grown alone."""
        self._all, self._limit = n_threads, _SUSPICIOUS * expected
        self._together = 0.0  # seconds of the last tree grown by all
        self._alone = 0  # trees still to be grown alone
        self._spell = 8

    @property
    def threads(self) -> int:
        """Threads for the next tree."""
        return 1 if self._alone > 0 else self._all

    def note(self, seconds: float) -> None:
        """Take in how long the tree took that `threads` was asked for."""
        if self._all == 1:
            return
        if self._alone == 0:
            self._together = seconds
            if seconds > self._limit:
                self._alone = self._spell
                self._spell *= 4
        elif seconds > self._together:  # alone is no faster: the guess was wrong, or the machine is idle again
            self._alone, self._spell = 0, 8
            self._limit = max(self._limit, _SUSPICIOUS * self._together)
        else:
            self._alone -= 1
            self._limit = max(self._limit, _SUSPICIOUS * seconds)
