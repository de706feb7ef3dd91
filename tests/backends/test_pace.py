"""Choosing between all threads and one by the clock."""

from __future__ import annotations

import time

import numpy as np
import pytest

import stagewise as sw
from estimators.fingerprint import fingerprint
from stagewise.backends.pace import Pace
from stagewise.kernels.jit import JIT
from stagewise.kernels.team import read_cycles


def test_an_idle_machine_keeps_all_threads():
    pace = Pace(2, expected=1.0)
    for _ in range(50):
        assert pace.threads == 2
        pace.note(0.6)


def test_a_busy_machine_is_left_to_one_thread():
    """All threads are tried again after 2, 8, 32, ... trees."""
    pace = Pace(2, expected=1.0)
    used = []
    for _ in range(200):
        used.append(pace.threads)
        pace.note(40.0 if pace.threads == 2 else 1.5)
    tried = [k for k, threads in enumerate(used) if threads == 2]
    assert tried == [0, 3, 12, 45, 174]


def test_a_trial_is_soon_given_up():
    """After a spell of trees grown alone, all threads get little more time than the fastest of those took."""
    pace = Pace(2, expected=1.0)
    assert pace.limit == 2.0
    pace.note(2.0, given_up=True)
    for k in range(2):
        assert pace.threads == 1
        pace.note(0.8 + 0.1 * k)
    assert (pace.threads, pace.limit) == (2, 1.0)
    pace.note(1.0, given_up=True)
    assert pace.threads == 1
    for _ in range(8):
        pace.note(3.0)  # slower than the trial, which says nothing about the guess
    assert (pace.threads, pace.limit) == (2, 2.0)
    pace.note(1.5)
    assert (pace.threads, pace.limit) == (2, 6.0)  # it went well: from here on only twice the work is suspicious


def test_a_pause_now_and_then_costs_two_trees():
    """A tree in thirty is held up, on a machine that is idle: spells of trees grown alone do not get longer."""
    pace, used = Pace(2, expected=1.0), []
    for k in range(300):
        used.append(pace.threads)
        pace.note((5.0 if k % 30 == 10 else 0.6) if pace.threads == 2 else 1.1)
    assert used.count(1) == 20
    for k in range(4):  # held up again and again: they do
        while pace.threads == 2:
            pace.note(5.0)
        alone = 0
        while pace.threads == 1:
            pace.note(1.1)
            alone += 1
        assert alone == 2 * 4**k


def test_a_wrong_guess_costs_one_tree():
    """A slow machine, not a busy one: alone is slower, so all threads come back and stay."""
    pace = Pace(4, expected=1e-6)
    used = []
    for _ in range(30):
        used.append(pace.threads)
        pace.note(1.0 if pace.threads == 4 else 3.5)
    assert used == [4, 1] + [4] * 28


def test_the_machine_becomes_idle_again():
    pace = Pace(2, expected=1.0)
    for k in range(100):
        busy = k < 20
        pace.note((40.0 if busy else 0.6) if pace.threads == 2 else (1.5 if busy else 1.0))
    assert pace.threads == 2


def test_one_thread_has_no_choice():
    pace = Pace(1, expected=1.0)
    pace.note(100.0)
    assert pace.threads == 1


def test_a_tree_that_is_given_up_counts_as_slow():
    pace = Pace(2, expected=1.0)
    pace.note(0.0, given_up=True)
    assert pace.threads == 1


def test_the_deadline_lies_ahead():
    pace = Pace(2, expected=0.5)
    time.sleep(0.01)
    now, deadline = read_cycles(), pace.deadline()
    if deadline:  # a machine may have no such counter
        time.sleep(0.02)
        assert now < read_cycles() < deadline


def fit(n_jobs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 6))
    y = (X[:, 0] * X[:, 1] + rng.normal(size=6000) > 0).astype(int)
    return fingerprint(sw.GradientBoostingClassifier(n_estimators=12, n_jobs=n_jobs).fit(X, y))


@pytest.mark.skipif(not JIT, reason="plain Python has one thread")
def test_a_tree_that_was_given_up_is_the_same_tree(monkeypatch):
    alone = fit(1)
    given_up = []
    note = Pace.note

    def noted(self, seconds, called_off=False):
        given_up.append(called_off)
        note(self, seconds, called_off)

    monkeypatch.setattr("stagewise.backends.pace._WORK_A_THREAD", 1)
    monkeypatch.setattr(Pace, "deadline", lambda self: 1)
    monkeypatch.setattr(Pace, "note", noted)
    assert fit(2) == alone
    assert True in given_up


@pytest.mark.skipif(not JIT, reason="plain Python has one thread")
def test_threads_may_come_and_go_between_trees(monkeypatch):
    alone = fit(1)
    turns = iter([3, 1, 2, 2, 1, 3, 1, 1, 2, 3, 1, 2] * 10)
    monkeypatch.setattr("stagewise.backends.pace._WORK_A_THREAD", 1)
    monkeypatch.setattr(Pace, "threads", property(lambda self: next(turns)))
    assert fit(3) == alone
