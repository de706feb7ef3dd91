"""Predicting many rows: 100 trees of 31 leaves; and symmetric trees of 32 leaves, ours against CatBoost's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contest import hold
from benchmarks.options import Options, Outcome
from benchmarks.rivals import RIVALS, Rival, Stagewise
from benchmarks.settings import Settings
from benchmarks.timing import Plan, say, stopwatch
from benchmarks.workloads import binary

__all__ = ["run"]


def run(options: Options) -> Outcome:
    n, stages = options.size(100_000, 2_000), options.size(100, 5)
    X, y = binary(np.random.default_rng(7), 2 * n, 28)
    train, rows = slice(0, n), X[n:].copy()
    settings = Settings("binary", stages, options.threads)
    plan = Plan(10) if not options.quick else Plan.of(options)

    def timed(rival: Rival, call: Callable[[Any], Any] | None = None) -> Callable[[], float]:
        say(f"  predict: fitting {rival.name}")
        with rival.limited(options.threads):
            model = rival.fit(settings, X[train], y[train])
        action = call or (lambda model: rival.predict(settings, model, rows))
        action(model)

        def once() -> float:
            with rival.limited(options.threads):
                return stopwatch(lambda: action(model))[0]

        return once

    contestants = {name: timed(rival) for name, rival in RIVALS.items()}
    contestants["xgboost-inplace"] = timed(
        RIVALS["xgboost-lossguide"], lambda model: model.get_booster().inplace_predict(rows)
    )
    contestants["stagewise-symmetric"] = timed(Stagewise("symmetric"))
    title = f"predict: {n:,} rows × 28, {stages} trees × 31 leaves (symmetric: 32), {options.threads} threads"
    outcome = hold(title, contestants, plan, unit="ms")
    ours, peer = (outcome.data["seconds"][name]["median"] for name in ("stagewise-symmetric", "catboost"))
    outcome.data["symmetric_ratio"] = peer / ours
    return Outcome(f"{outcome.text}\n  symmetric trees, CatBoost ÷ ours: {peer / ours:.2f}", outcome.data)
