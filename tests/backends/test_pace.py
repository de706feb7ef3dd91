"""Choosing between all threads and one by the clock."""

from __future__ import annotations

from stagewise.backends.pace import Pace


def test_an_idle_machine_keeps_all_threads():
    pace = Pace(2, expected=1.0)
    for _ in range(50):
        assert pace.threads == 2
        pace.note(0.6)


def test_a_busy_machine_is_left_to_one_thread():
    """All threads are tried again after 8, 32, ... trees."""
    pace = Pace(2, expected=1.0)
    used = []
    for _ in range(200):
        used.append(pace.threads)
        pace.note(40.0 if pace.threads == 2 else 1.5)
    tried = [k for k, threads in enumerate(used) if threads == 2]
    assert tried == [0, 9, 42, 171]


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
