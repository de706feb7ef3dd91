"""The built-in log-loss against the same one written by a user: three scalar Python functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.contest import hold
from benchmarks.options import Options, Outcome
from benchmarks.scores import held_out_loss
from benchmarks.timing import Plan, stopwatch
from benchmarks.training import settings_of
from benchmarks.workloads import WORKLOADS
from stagewise import GradientBoostingClassifier, Loss

__all__ = ["LogLossAgain", "run"]


class LogLossAgain(Loss):
    """Two-class log-loss on the log-odds. Scalar functions, as a user would write them."""

    @staticmethod
    def loss(y: float, f: float) -> float:
        return math.log(1.0 + math.exp(-abs(f))) + max(f, 0.0) - y * f

    @staticmethod
    def gradient(y: float, f: float) -> float:
        return 1.0 / (1.0 + math.exp(-f)) - y

    @staticmethod
    def hessian(y: float, f: float) -> float:
        p = 1.0 / (1.0 + math.exp(-f))
        return p * (1.0 - p)

    def from_mean(self, mean: np.ndarray) -> np.ndarray:
        return np.log(mean / (1.0 - mean))

    def predict(self, raw: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-raw[0]))  # type: ignore[no-any-return]


def run(options: Options) -> Outcome:
    workload = replace(WORKLOADS["A"], rows=300_000, held_out=20_000).sized(options.quick)
    data, settings = workload.data(), settings_of(workload, options.threads)
    losses: dict[str, float] = {}

    def timed(name: str, loss: Any) -> Callable[[], float]:
        def model(stages: int) -> Any:
            return GradientBoostingClassifier(
                loss, n_estimators=stages, l2_regularization=settings.l2, n_jobs=options.threads
            )

        model(2).fit(data.X, data.y)  # compiles

        def once() -> float:
            seconds, fitted = stopwatch(lambda: model(workload.stages).fit(data.X, data.y))
            if name not in losses:
                losses[name] = held_out_loss("binary", data.y_test, fitted.predict_proba(data.X_test))
            return seconds

        return once

    contestants = {"log_loss": timed("log_loss", "log_loss"), "LogLossAgain": timed("LogLossAgain", LogLossAgain())}
    outcome = hold(f"customloss: {workload.title}", contestants, Plan.of(options), base="log_loss")
    outcome.data["held_out"] = losses
    same = ", ".join(f"{name} {loss:.6f}" for name, loss in losses.items())
    return Outcome(f"{outcome.text}\n  held-out log-loss: {same}", outcome.data)
