"""The meeting point of threads that run one kernel together (SPMD).

Every thread runs the same kernel with its own number `tid` of `n_threads` and waits at barriers for the others.
Inside a kernel a barrier costs 0.4 µs; a thread-pool round trip costs 54 to 86 µs.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from stagewise.kernels.jit import JIT, atomic_add, atomic_load, cycles, device, kernel, yield_core
from stagewise.kernels.reducer import ALONE, Reducer

__all__ = [
    "ABORT",
    "GATE_SIZE",
    "TURN",
    "Team",
    "available_cores",
    "barrier",
    "call_off",
    "changes",
    "lock",
    "next_turn",
    "read_cycles",
    "share",
    "tell",
    "unlock",
    "was_called_off",
    "watch",
]

GATE_SIZE = 56
"""int64 words of a gate: arrivals at 0, generation at 8, abort flag at 16, turns at 24, tickets of the lock at 32, the
one that holds it at 40, news at 48; one cache line each."""

ABORT, TURN, TICKET, SERVED, NEWS = 16, 24, 32, 40, 48

_SPINS = 64
"""Checks before a waiting thread gives its core away. With both cores busy with another program a barrier that spun
2,000 times made a fit take 17 s instead of 0.8 s."""


@device
def barrier(gate, n_threads):
    """All threads pass together. True when the work was called off: then the caller must return at once."""
    if n_threads == 1:
        return False
    generation = atomic_load(gate, 8)
    if atomic_add(gate, 0, 1) == n_threads - 1:
        atomic_add(gate, 0, -n_threads)
        atomic_add(gate, 8, 1)
    else:
        spins = 0
        while atomic_load(gate, 8) == generation:
            spins += 1
            if spins > _SPINS:
                if atomic_load(gate, 16) != 0:
                    return True
                yield_core()
    return atomic_load(gate, 16) != 0


@device
def call_off(gate):
    """End the work of all threads: each returns from its next barrier."""
    atomic_add(gate, 16, 1)


@device
def next_turn(gate):
    """0, 1, 2, ... : each number once, to the thread that asks first. Work that is taken piece by piece ends for all at
    the same time, also when one core is slower than another."""
    return atomic_add(gate, TURN, 1)


@device
def was_called_off(gate):
    return atomic_load(gate, ABORT) != 0


@device
def lock(gate):
    """Wait until no other thread holds the lock. Who holds it must not take long."""
    ticket, spins = atomic_add(gate, TICKET, 1), 0
    while atomic_load(gate, SERVED) != ticket:
        spins += 1
        if spins > _SPINS:
            yield_core()


@device
def unlock(gate):
    atomic_add(gate, SERVED, 1)


@device
def changes(gate):
    """How often `tell` was called."""
    return atomic_load(gate, NEWS)


@device
def tell(gate):
    """There is something new for threads that `watch`."""
    atomic_add(gate, NEWS, 1)


@device
def watch(gate, seen):
    """Wait until there was more to tell than `seen`, or the work was called off."""
    spins = 0
    while atomic_load(gate, NEWS) == seen and atomic_load(gate, ABORT) == 0:
        spins += 1
        if spins > _SPINS:
            yield_core()


@kernel
def read_cycles():
    """The counter that deadlines inside kernels are compared with."""
    return cycles()


@device
def share(start, stop, tid, n_threads):
    """This thread's part of start..stop."""
    length = stop - start
    return start + length * tid // n_threads, start + length * (tid + 1) // n_threads


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Team:
    """Threads that run one kernel together; made for one fit or one prediction, and gone after it.

        with Team(2) as team:
            team.run(kernel, *args)        # kernel(tid, n_threads, *args) on every thread

    Plain threads, nothing kept between calls: two fits at once, a fork after a fit and worker processes all work.
    If a thread cannot be started the team is smaller; results do not depend on its size.
    """

    def __init__(self, n_threads: int, reducer: Reducer = ALONE) -> None:
        """reducer: makes sums over this machine's rows sums over all rows, when others hold the rest."""
        self.reducer = reducer
        self.gate = np.zeros(GATE_SIZE, np.int64)
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._jobs: list[queue.SimpleQueue[tuple[Callable[..., Any], int, tuple[Any, ...]] | None]] = []
        for tid in range(1, n_threads if JIT else 1):  # plain Python cannot meet at a barrier: it would hold the GIL
            jobs: queue.SimpleQueue[tuple[Callable[..., Any], int, tuple[Any, ...]] | None] = queue.SimpleQueue()
            thread = threading.Thread(target=self._work, args=(tid, jobs), daemon=True, name=f"stagewise-{tid}")
            try:
                thread.start()
            except RuntimeError:
                break
            self._jobs.append(jobs)
        self.n_threads = 1 + len(self._jobs)
        self.active = self.n_threads  # how many work; backends/pace.py lowers it while the machine is busy

    def _work(self, tid: int, jobs: queue.SimpleQueue[tuple[Callable[..., Any], int, tuple[Any, ...]] | None]) -> None:
        while (job := jobs.get()) is not None:
            function, n_threads, args = job
            error: BaseException | None = None
            try:
                function(tid, n_threads, *args)
            except BaseException as caught:  # reported by run(); the others must not wait for this thread
                error = caught
                self.gate[ABORT] = 1
            del job, function, args  # an idle thread must not keep the arrays of the last call alive
            self._done.put(error)

    def run(self, function: Callable[..., Any], *args: Any, n_threads: int | None = None) -> Any:
        """Run a kernel on n_threads (the active ones by default); the result of thread 0."""
        n_threads = min(n_threads or self.active, self.n_threads)
        self.gate[:] = 0
        if n_threads == 1:
            return function(0, 1, *args)
        for jobs in self._jobs[: n_threads - 1]:
            jobs.put((function, n_threads, args))
        errors: list[BaseException] = []
        result = None
        try:
            result = function(0, n_threads, *args)
        except BaseException as caught:
            errors.append(caught)
            self.gate[ABORT] = 1
        for _ in range(n_threads - 1):
            error = self._done.get()
            if error is not None:
                errors.append(error)
        if errors:
            raise errors[0]
        return result

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for jobs in self._jobs:
            jobs.put(None)
