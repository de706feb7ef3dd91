"""History, early stopping, Ctrl-C: what watches a fit."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from stagewise.boosting.model import History
from stagewise.boosting.monitor import GoingOn, Monitor, deferred_interrupt

NO_CALLBACKS: list[object] = []


def monitor(patience, tol=0.0, before=None, on_train=False, callbacks=NO_CALLBACKS):
    return Monitor(100, patience, tol, callbacks, 1.0, before, on_train)


def stop_after(watch: Monitor, values) -> int | None:
    """The stage after which the monitor says stop."""
    for number, value in enumerate(values, 1):
        if watch(0.0, value, 10):
            return number
    return None


@pytest.mark.parametrize(
    "patience, values, stops, best",
    [
        (2, [5, 4, 3, 2, 1], None, 5),
        (2, [5, 4, 4, 4, 1], 4, 2),
        (1, [5, 5], 2, 1),
        (3, [5, 6, 7, 4, 5, 6, 7], 7, 4),
        (2, [1, 2, 3], 3, 1),
        (9, [3, 2, 1, 2], None, 3),
    ],
)
def test_patience(patience, values, stops, best):
    watch = monitor(patience)
    assert stop_after(watch, values) == stops
    assert watch.best() == best
    assert watch.history().best == best


def test_small_improvements_do_not_count():
    assert stop_after(monitor(2, tol=0.5), [5.0, 4.7, 4.6, 4.5]) == 3
    assert stop_after(monitor(2, tol=0.5), [5.0, 4.4, 3.8, 3.2]) is None


def test_without_patience_all_stages_are_kept():
    watch = monitor(None)
    assert stop_after(watch, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]) is None
    assert watch.best() == 12


def test_the_training_deviance_can_be_watched():
    watch = monitor(2, on_train=True)
    answers = [watch(train, None, 10) for train in (3.0, 2.0, 2.0, 2.0)]
    assert answers == [False, False, False, True]
    assert watch.best() == 2


def test_a_warm_start_goes_on_after_the_best_stage():
    before = History(np.array([3.0, 2.0, 1.0]), np.array([5.0, 4.0, 6.0]), np.array([9, 9, 9]), 2, 7.0)
    watch = monitor(5, before=before)
    watch(0.5, 3.0, 8)
    history = watch.history()
    assert history.train.tolist() == [3.0, 2.0, 0.5]
    assert history.validation.tolist() == [5.0, 4.0, 3.0]
    assert history.rows.tolist() == [9, 9, 8]
    assert history.best == 3


def test_a_validation_sample_that_came_later():
    before = History(np.array([3.0, 2.0]), np.empty(0), np.array([9, 9]), 2, 7.0)
    watch = monitor(2, before=before)
    assert [watch(1.0, value, 9) for value in (4.0, 5.0, 6.0)] == [False, False, True]
    assert watch.best() == 3
    assert watch.history().validation.tolist() == [4.0, 5.0, 6.0]


LATER = History(np.array([3.0, 2.0]), np.array([0.5, 0.4]), np.array([9, 9]), 2, 7.0)


def test_deviances_of_the_same_rows_are_gone_on_with():
    watch = Monitor(100, 2, 0.0, [], 7.0, LATER, False, GoingOn(2, 2.0, 0.4))
    assert [watch(1.0, value, 9) for value in (0.45, 0.43)] == [False, True]
    assert watch.best() == 2
    assert watch.history().validation.tolist() == [0.5, 0.4, 0.45, 0.43]


def test_deviances_of_other_rows_are_no_measure():
    """The model that is gone on from is the first that counts, by its deviance on these rows."""
    watch = Monitor(100, 2, 0.0, [], 7.0, LATER, False, GoingOn(2, 9.0, 30.0))
    assert stop_after(watch, [20.0, 10.0, 11.0, 12.0]) == 4
    assert watch.best() == 4
    assert watch.history().validation.tolist() == [30.0, 20.0, 10.0, 11.0, 12.0]
    useless = Monitor(100, 2, 0.0, [], 7.0, LATER, False, GoingOn(2, 9.0, 30.0))
    assert stop_after(useless, [40.0, 50.0]) == 2
    assert useless.best() == 2, "no new stage is better than none"


def test_training_deviances_of_other_rows_are_no_measure():
    watch = Monitor(100, 2, 0.0, [], 7.0, LATER, True, GoingOn(2, 9.0, None))
    assert [watch(value, None, 9) for value in (8.0, 7.0, 7.5, 7.6)] == [False, False, False, True]
    assert watch.best() == 4
    assert watch.history().train.tolist() == [3.0, 2.0, 8.0, 7.0, 7.5, 7.6]


def test_validation_deviances_belong_to_the_last_stages():
    watch = Monitor(100, None, 0.0, [], 7.0, LATER, True, GoingOn(2, 2.0, None))
    watch(1.0, None, 9)
    assert watch.history().validation.tolist() == []


def test_a_checkpoint_has_compared_already():
    found = History(np.array([3.0, 2.0, 1.0]), np.array([30.0, 20.0]), np.array([9, 9, 9]), 3, 7.0)
    watch = Monitor(100, 2, 0.0, [], 7.0, found, False, GoingOn(2, 9.0, 30.0))
    assert watch.history().validation.tolist() == [30.0, 20.0]


def test_only_true_stops():
    class Answers:
        def __init__(self, answer):
            self.answer = answer

        def on_stage(self, stage):
            return self.answer

    answers = (
        (True, True),
        (np.True_, True),
        (False, False),
        (np.False_, False),
        (None, False),
        (1, False),
        ("stop", False),
    )
    for answer, stops in answers:
        assert monitor(None, callbacks=[Answers(answer)])(1.0, None, 5) is stops


# ------------------------------------------------------------------------------------------------------------- Ctrl-C


def test_the_first_ctrl_c_is_noted_and_the_second_breaks_in():
    with deferred_interrupt() as interrupt:
        assert not interrupt.pressed
        signal.raise_signal(signal.SIGINT)
        assert interrupt.pressed
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_other_handlers_are_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with deferred_interrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGINT]
        assert not interrupt.pressed
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_touch_no_handler():
    found = []

    def work():
        with deferred_interrupt() as interrupt:
            found.append((signal.getsignal(signal.SIGINT), interrupt.pressed))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert found == [(signal.default_int_handler, False)]


@pytest.mark.skipif(not hasattr(os, "kill"), reason="no signals")
def test_the_handler_comes_back_after_an_error():
    with pytest.raises(ZeroDivisionError), deferred_interrupt():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_history_that_was_watched_from_a_later_stage_on_can_be_shown():
    late = History(np.array([3.0, 2.0, 1.0]), np.array([5.0, 4.0]), np.array([9, 9, 9]), 3, 4.0)
    assert repr(late) == "History(3 stages, train 1, validation 4 at stage 3)"
    assert "validation" not in repr(History(late.train, late.validation, late.rows, 1, 4.0))
