"""Models of other libraries, at home and imported here: predicting many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contest import hold
from benchmarks.options import Options, Outcome
from benchmarks.rivals import RIVALS
from benchmarks.settings import Settings
from benchmarks.timing import Plan, say, stopwatch
from benchmarks.workloads import binary

__all__ = ["run"]


def run(options: Options) -> Outcome:
    import stagewise as sw

    n, stages = options.size(100_000, 2_000), options.size(100, 5)
    X, y = binary(np.random.default_rng(7), 2 * n, 28)
    rows = X[n:].copy()
    settings = Settings("binary", stages, options.threads)
    plan = Plan(10) if not options.quick else Plan.of(options)
    texts, data, contestants = [], {}, {}

    def timed(action: Callable[[Any], Any], model: Any) -> Callable[[], float]:
        action(model)
        return lambda: stopwatch(lambda: action(model))[0]

    for name, read in (("lightgbm", sw.import_lightgbm), ("xgboost-lossguide", sw.import_xgboost)):
        say(f"  imported: fitting {name}")
        home = RIVALS[name].fit(settings, X[:n], y[:n])
        ours = read(home).set_params(n_jobs=options.threads)
        gap = float(np.abs(ours.predict_proba(rows) - home.predict_proba(rows)).max())
        contestants = {
            "stagewise": timed(lambda model: model.predict_proba(rows), ours),
            f"{name} at home": timed(lambda model: model.predict_proba(rows), home),
        }
        if name.startswith("xgboost"):
            contestants["xgboost inplace"] = timed(lambda model: model.get_booster().inplace_predict(rows), home)
        title = f"imported {name}: {n:,} rows × 28, {stages} trees × 31 leaves, {options.threads} threads"
        outcome = hold(title, contestants, plan, unit="ms")
        texts.append(f"{outcome.text}\n  largest difference of a probability: {gap:.1e}")
        data[name] = {**outcome.data, "gap": gap}
    return Outcome("\n".join(texts), {"title": "imported", **data})
