"""One row through each scikit-learn estimator's predict, call after call: what a web service does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.contest import hold
from benchmarks.options import Options, Outcome
from benchmarks.rivals import RIVALS, Rival
from benchmarks.timing import Plan, say, stopwatch
from benchmarks.training import settings_of
from benchmarks.workloads import WORKLOADS

__all__ = ["run"]


def run(options: Options) -> Outcome:
    workload, calls = WORKLOADS["D"].sized(options.quick), options.size(300, 20)
    data, settings = workload.data(), settings_of(workload, options.threads)
    rows = [data.X_test[k : k + 1] for k in range(calls)]

    def timed(rival: Rival) -> Callable[[], float]:
        say(f"  onerow: fitting {rival.name}")
        with rival.limited(options.threads):
            model: Any = rival.fit(settings, data.X, data.y)

        def burst() -> None:
            for row in rows:
                model.predict(row)

        burst()

        def once() -> float:
            with rival.limited(options.threads):
                return stopwatch(burst)[0] / calls

        return once

    contestants = {name: timed(rival) for name, rival in RIVALS.items()}
    title = f"onerow: one row of {data.X.shape[1]} through predict, {workload.stages} trees × 31 leaves, {calls} calls"
    return hold(title, contestants, Plan.of(options), unit="µs")
