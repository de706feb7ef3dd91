"""Threads that run one kernel together: barriers, shares, and errors that reach the caller."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numba
import numpy as np
import pytest

from kernels.build import every_team, from_python
from stagewise.kernels.jit import JIT, atomic_add
from stagewise.kernels.team import ABORT, Team, available_cores, barrier, next_turn, share

needs_threads = pytest.mark.skipif(not JIT, reason="without the JIT a team has one thread")
within_seconds = 30.0


def compiled(function):
    return numba.njit(nogil=True)(function) if JIT else function


@compiled
def meet(gate, n_threads):
    return barrier(gate, n_threads)


@compiled
def rounds(tid, n_threads, gate, n_rounds, turns, wrong):
    """In every round each thread adds 1, and after the barrier all must see all of them."""
    for k in range(n_rounds):
        atomic_add(turns, 0, 1)
        if barrier(gate, n_threads):
            return -1
        if turns[0] != (k + 1) * n_threads:
            wrong[tid] += 1
        if barrier(gate, n_threads):
            return -1
    return n_rounds


@pytest.mark.nojit
@pytest.mark.parametrize("start, stop", [(0, 0), (0, 1), (0, 7), (5, 5), (3, 100), (10, 2**40)])
@pytest.mark.parametrize("n_threads", [1, 2, 3, 8, 64])
def test_shares_are_a_division(start, stop, n_threads):
    part = from_python(share)
    parts = [part(start, stop, tid, n_threads) for tid in range(n_threads)]
    assert parts[0][0] == start
    assert parts[-1][1] == stop
    assert all(a[1] == b[0] for a, b in pairwise(parts))
    sizes = [b - a for a, b in parts]
    assert max(sizes) - min(sizes) <= 1


@every_team
def test_all_threads_meet(n_threads):
    with Team(n_threads) as team:
        for _ in range(3):
            turns, wrong = np.zeros(1, np.int64), np.zeros(n_threads, np.int64)
            assert team.run(rounds, team.gate, 300, turns, wrong) == 300
            assert turns[0] == 300 * n_threads
            assert not wrong.any()


@compiled
def take_turns(tid, n_threads, gate, taken):
    """Every thread writes its number into the pieces whose turn it gets."""
    k = next_turn(gate)
    while k < taken.shape[0]:
        taken[k] += tid + 1
        k = next_turn(gate)


@every_team
def test_every_piece_is_taken_once(n_threads):
    with Team(n_threads) as team:
        for n_pieces in (0, 1, 5_000):
            taken = np.zeros(n_pieces, np.int64)
            team.run(take_turns, team.gate, taken)  # begins with 0 in every run
            assert ((taken > 0) & (taken <= n_threads)).all()


@needs_threads
def test_some_of_the_threads():
    with Team(4) as team:
        for n_threads in (1, 2, 3, 4, 9, None):
            turns, wrong = np.zeros(1, np.int64), np.zeros(4, np.int64)
            team.run(rounds, team.gate, 5, turns, wrong, n_threads=n_threads)
            assert turns[0] == 5 * min(n_threads or 4, 4)


@pytest.mark.nojit
def test_the_result_is_that_of_thread_0():
    with Team(3) as team:
        assert team.run(lambda tid, n_threads, x: (tid, x), "x") == (0, "x")
        seen = []
        team.run(lambda tid, n_threads: seen.append((tid, n_threads)))
        assert sorted(seen) == [(tid, team.n_threads) for tid in range(team.n_threads)]


@needs_threads
@pytest.mark.parametrize("n_threads", [2, 3, 8])
@pytest.mark.parametrize("culprit", [0, 1, -1])
def test_an_error_reaches_the_caller_while_others_wait(n_threads, culprit):
    culprit %= n_threads

    def work(tid, n_threads, gate):
        if tid == culprit:
            time.sleep(0.01)  # the others are at the barrier by now
            raise ValueError(f"thread {tid}")
        assert meet(gate, n_threads), "called off"

    with Team(n_threads) as team:
        for _ in range(3):  # the team still works afterwards
            start = time.perf_counter()
            with pytest.raises(ValueError, match=f"thread {culprit}"):
                team.run(work, team.gate)
            assert time.perf_counter() - start < within_seconds
            turns, wrong = np.zeros(1, np.int64), np.zeros(n_threads, np.int64)
            team.run(rounds, team.gate, 20, turns, wrong)
            assert turns[0] == 20 * n_threads
            assert not wrong.any()


@pytest.mark.nojit
def test_an_error_in_a_team_of_one():
    def work(tid, n_threads):
        raise KeyError("alone")

    with Team(1) as team, pytest.raises(KeyError, match="alone"):
        team.run(work)


@needs_threads
def test_an_interrupt_ends_all_threads():
    def work(tid, n_threads, gate):
        if tid == 0:
            raise KeyboardInterrupt
        meet(gate, n_threads)

    with Team(3) as team, pytest.raises(KeyboardInterrupt):
        team.run(work, team.gate)


@needs_threads
def test_every_thread_fails():
    def work(tid, n_threads):
        raise ValueError(str(tid))

    with Team(4) as team:
        with pytest.raises(ValueError, match="0"):
            team.run(work)
        assert team.gate[ABORT] == 1
        assert team.run(lambda tid, n_threads: n_threads) == 4


@needs_threads
def test_threads_end_with_the_team():
    before = set(threading.enumerate())
    with Team(5) as team:
        own = set(threading.enumerate()) - before
        assert len(own) == 4
        team.run(lambda tid, n_threads: None)
    for thread in own:
        thread.join(within_seconds)
        assert not thread.is_alive()


@needs_threads
def test_two_teams_at_once():
    def many(seed):
        with Team(3) as team:
            turns, wrong = np.zeros(1, np.int64), np.zeros(3, np.int64)
            for _ in range(20):
                team.run(rounds, team.gate, 20, turns * 0, wrong)
            return int(wrong.sum())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(many, range(8))) == [0] * 8


@needs_threads
def test_a_thread_that_cannot_start_makes_a_smaller_team(monkeypatch):
    start = threading.Thread.start
    started = []

    def refuse_the_third(self):
        if self.name.startswith("stagewise") and len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(self.name)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse_the_third)
    with Team(8) as team:
        assert team.n_threads == 3
        assert team.run(lambda tid, n_threads: n_threads) == 3


@pytest.mark.nojit
def test_without_the_jit_a_team_is_one():
    with Team(4) as team:
        assert team.n_threads == (4 if JIT else 1)
    assert available_cores() >= 1
