"""Looking inside: SHAP values against the other libraries' own, dependence against scikit-learn's brute force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.contest import hold
from benchmarks.options import Options, Outcome
from benchmarks.rivals import OURS, RIVALS
from benchmarks.settings import Settings
from benchmarks.timing import Plan, medians, say, stopwatch
from benchmarks.workloads import binary

__all__ = ["run"]

_POINTS = 100
_RIVALS = (OURS, "lightgbm", "xgboost-lossguide")  # the two with SHAP values of their own, and trees like ours


def run(options: Options) -> Outcome:
    n, stages = options.size(100_000, 2_000), options.size(100, 5)
    X, y = binary(np.random.default_rng(7), 2 * n, 28)
    settings = Settings("binary", stages, options.threads)
    models = {}
    for name in _RIVALS:
        say(f"  inspection: fitting {name}")
        models[name] = RIVALS[name].fit(settings, X[:n], y[:n])
    shap = _shap(models, X[n:].copy(), options, stages)
    dependence = _dependence(models[OURS], X[n:].copy(), options, stages)
    larger = RIVALS[OURS].fit(replace(settings, stages=options.size(500, 5)), X[:n], y[:n])
    grid = [np.linspace(-2.0, 2.0, _POINTS)] * 2
    seconds = _median(lambda: _ours(larger, [0, 1], grid), options)
    text = f"two-way dependence, {_POINTS} × {_POINTS} on {larger.n_estimators_} trees: {1e3 * seconds:.1f} ms"
    data = {"shap": shap.data, "dependence": dependence.data, "two_way": {"seconds": seconds}}
    return Outcome("\n\n".join((shap.text, dependence.text, text)), data)


def _median(action: Callable[[], Any], options: Options) -> float:
    action()
    return medians({"": [stopwatch(action)[0] for _ in range(3 if options.quick else 9)]})[""]


def _ours(model: Any, columns: list[int], grid: Any) -> Any:
    from stagewise.inspection import partial_dependence

    return partial_dependence(model, columns, grid)


def _shap(models: dict[str, Any], rows: np.ndarray, options: Options, stages: int) -> Outcome:
    """Path-dependent SHAP values of all rows."""
    import xgboost

    from stagewise.inspection import shap_values

    held = xgboost.DMatrix(rows, nthread=options.threads)
    actions: dict[str, Callable[[], Any]] = {
        OURS: lambda: shap_values(models[OURS], rows),
        "lightgbm": lambda: models["lightgbm"].predict(rows, pred_contrib=True),
        "xgboost-lossguide": lambda: models["xgboost-lossguide"].get_booster().predict(held, pred_contribs=True),
    }
    shap_values(models[OURS], rows[:200])  # compiled
    contestants = {name: (lambda action=action: stopwatch(action)[0]) for name, action in actions.items()}
    title = f"SHAP values: {len(rows):,} rows × 28, {stages} trees × 31 leaves, {options.threads} threads"
    return hold(title, contestants, Plan(options.repeats, 0.0))


def _dependence(model: Any, rows: np.ndarray, options: Options, stages: int) -> Outcome:
    """One column, the same model: by traversal here, by brute force there and here."""
    from sklearn.inspection import partial_dependence as their_dependence

    from stagewise.inspection import partial_dependence

    rows = rows[: options.size(len(rows), 500)]
    grid = np.linspace(-2.0, 2.0, _POINTS)
    actions: dict[str, Callable[[], Any]] = {
        OURS: lambda: _ours(model, [0], grid),
        "stagewise-brute": lambda: partial_dependence(model, 0, grid, method="brute", X=rows),
        "scikit-learn-brute": lambda: their_dependence(
            model, rows, [0], custom_values={0: grid}, method="brute", response_method="decision_function"
        ),
    }
    for action in actions.values():
        action()
    contestants = {name: (lambda action=action: stopwatch(action)[0]) for name, action in actions.items()}
    title = f"dependence: {_POINTS} points, {stages} trees × 31 leaves; brute force over {len(rows):,} rows"
    return hold(title, contestants, Plan(options.repeats), unit="ms")
