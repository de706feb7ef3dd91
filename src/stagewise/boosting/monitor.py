"""What watches a fit: history, early stopping, callbacks, the progress bar, Ctrl-C."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.boosting.model import History

__all__ = ["GoingOn", "Interrupt", "Monitor", "Stage", "deferred_interrupt"]

_NONE: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Stage:
    """What a callback is told after each stage."""

    number: int  # 1 for the first
    total: int  # n_estimators
    train: float  # deviance
    validation: float | None
    seconds: float  # since training began


@dataclass(frozen=True, slots=True)
class GoingOn:
    """What the model that a fit goes on from is worth on the rows of this fit, and by its loss."""

    stages: int
    train: float  # deviance
    validation: float | None


class Interrupt:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.pressed = False


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[Interrupt]:
    """While a fit runs, the first Ctrl-C only asks it to stop after the current stage; a second one breaks in.

    Signals reach the main thread alone; elsewhere nothing changes.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # someone else handles it, or ignores it: leave it to them
        yield interrupt
        return

    def pressed(number: int, frame: Any) -> None:
        if interrupt.pressed:
            raise KeyboardInterrupt
        interrupt.pressed = True

    signal.signal(signal.SIGINT, pressed)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


class Monitor:
    """Collects the history and says when to stop."""

    def __init__(
        self,
        total: int,
        patience: int | None,
        tol: float,
        callbacks: Sequence[Any],
        initial: float,
        before: History | None,
        on_train: bool,
        going_on: GoingOn | None = None,
    ) -> None:
        self.total, self.patience, self.tol, self.callbacks, self.initial = total, patience, tol, callbacks, initial
        self._on_train = on_train  # stop on the training deviance when there is no validation sample
        kept = 0 if before is None else before.best  # a warm start goes on from there
        self.train = [] if before is None else list(before.train[:kept])
        watched_later = len(self.train) if before is None else len(before.train) - len(before.validation)
        self.validation = [] if before is None else list(before.validation[: max(0, kept - watched_later)])
        self.rows = [] if before is None else list(before.rows[:kept])
        self.kept = [] if before is None else list(before.kept[:kept])
        self.notes = {} if before is None else {name: list(own[:kept]) for name, own in before.notes.items()}
        self._since = 0, math.nan  # stages whose training deviances are of other rows, and what it is on these
        if going_on is not None and going_on.stages:
            self._compare(going_on)
        self._began = time.perf_counter()
        for callback in callbacks:
            if hasattr(callback, "on_start"):
                callback.on_start(total, len(self.train))

    def _compare(self, now: GoingOn) -> None:
        """Deviances of other rows, or by another loss, are no measure for those to come: where the last one of the
        earlier stages is not what it is now, the model that is gone on from is the first that counts."""
        if not _same(self.train[: now.stages], now.train):
            self._since = now.stages, now.train
        if len(self.train) > now.stages:  # from a checkpoint: this was done before its first stage
            return
        if now.validation is None:
            self.validation = []  # they belong to the last stages, and those to come will have none
        elif not _same(self.validation, now.validation):
            self.validation = [now.validation]

    def __call__(
        self, train: float, validation: float | None, rows: int, kept: float = 1.0, notes: Mapping[str, float] = _NONE
    ) -> bool:
        """Record a stage; True when training should stop."""
        self.train.append(train)
        self.rows.append(rows)
        self.kept.append(kept)
        for name, value in notes.items():
            self.notes.setdefault(name, []).append(value)
        if validation is not None:
            self.validation.append(validation)
        asked = []
        if self.callbacks:
            seconds = time.perf_counter() - self._began
            stage = Stage(len(self.train), self.total, train, validation, seconds)
            asked = [callback.on_stage(stage) for callback in self.callbacks if hasattr(callback, "on_stage")]
        return any(isinstance(answer, (bool, np.bool_)) and bool(answer) for answer in asked) or self._stalled()

    def _watched(self) -> list[float]:
        """Deviances that stopping looks at. One that is not known (an imported model's) is worse than any other."""
        stages, now = self._since
        watched = self.validation
        if self._on_train:
            watched = [now, *self.train[stages:]] if stages else self.train
        return [math.inf if math.isnan(value) else value for value in watched]

    def _stalled(self) -> bool:
        if self.patience is None:
            return False
        watched = self._watched()
        if len(watched) <= self.patience:
            return False
        recent, earlier = watched[-self.patience :], watched[: -self.patience]
        return not min(recent) < min(earlier) - self.tol

    def best(self) -> int:
        """How many stages to keep: up to the smallest watched deviance when stopping early is on, else all."""
        watched = self._watched()
        if self.patience is None or not watched:
            return len(self.train)
        return len(self.train) - len(watched) + int(np.argmin(watched)) + 1

    def history(self) -> History:
        notes = {name: np.array(own) for name, own in self.notes.items()}
        return History(
            np.array(self.train), np.array(self.validation), np.array(self.rows, np.int64), self.best(), self.initial,
            np.array(self.kept, np.float64), notes,
        )  # fmt: skip

    def end(self) -> None:
        """Tell the callbacks that training is over."""
        history = self.history()
        for callback in self.callbacks:
            if hasattr(callback, "on_end"):
                callback.on_end(history)


def _same(values: Sequence[float], now: float) -> bool:
    """Whether the last value is this one."""
    return len(values) > 0 and math.isclose(values[-1], now, rel_tol=1e-9)
