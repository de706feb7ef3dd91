"""A LightGBM model, imported and explained, without LightGBM from then on.

The imported model reaches the same leaf for every row, so its raw predictions are LightGBM's, bit for bit. It then has
everything that a model trained here has: exact SHAP values, dependence from the trees alone, interactions, one file.

SHAP values are not quite LightGBM's own `pred_contrib`: where a column is left out, a row goes both ways, and LightGBM
weighs the ways by the number of training rows, this library by their weight (second derivatives). Both add up to the
raw prediction.

    python examples/imported_lightgbm.py [--small] [--out DIR]
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from canvas import options, panels, save
from sklearn.datasets import load_breast_cancer

import stagewise as sw


def best_of(repeats: int, work: Any) -> tuple[Any, float]:
    """A result, and the least seconds it took."""
    seconds, result = np.inf, None
    for _ in range(repeats):
        began = time.perf_counter()
        result = work()
        seconds = min(seconds, time.perf_counter() - began)
    return result, seconds


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    given = options(__doc__, arguments)
    import lightgbm

    cancers = load_breast_cancer(as_frame=True)
    X = cancers.data.rename(columns=lambda name: name.replace(" ", "_"))  # LightGBM would do so itself
    y = cancers.target
    settings = {"objective": "binary", "num_leaves": 8, "learning_rate": 0.05, "verbosity": -1}
    theirs = lightgbm.train(settings, lightgbm.Dataset(X, y), given.size(200, 20))
    model = sw.import_lightgbm(theirs)

    many = X.iloc[np.tile(np.arange(len(X)), given.size(50, 2))]
    repeats = given.size(5, 1)
    raw, seconds = best_of(repeats, lambda: model.decision_function(many))
    their_raw, their_seconds = best_of(repeats, lambda: theirs.predict(many, raw_score=True))
    explained, shap_seconds = best_of(repeats, lambda: sw.inspection.shap_values(model, many))
    their_shap, their_shap_seconds = best_of(1, lambda: theirs.predict(many, pred_contrib=True))
    found = {
        "raw": float(np.abs(raw - their_raw).max()),
        "shap": float(np.abs(explained.values.sum(axis=1) - (their_raw - explained.expected)).max()),
        "contributions": float(np.abs(explained.values - np.asarray(their_shap)[:, :-1]).max()),
        "faster": their_seconds / seconds,
        "shap faster": their_shap_seconds / shap_seconds,
    }
    print(f"{len(many):,} rows, {model.n_estimators_} trees            ours     LightGBM   largest difference")
    print(f"  raw predictions         {seconds:9.4f} s  {their_seconds:9.4f} s   {found['raw']:.1e}")
    print(f"  SHAP values             {shap_seconds:9.4f} s  {their_shap_seconds:9.4f} s   {found['shap']:.1e} (sums)")
    print(sw.inspection.h_statistic(model, X))

    figure, (left, right) = panels(2, 6.6, 4.6)
    sw.plots.shap_summary(sw.inspection.shap_values(model, X), top=12, ax=left)
    first = X.columns[int(sw.inspection.feature_importance(model).order[0])]
    low, high = (float(X[first].quantile(level)) for level in (0.01, 0.99))
    grid = np.linspace(low, high, 100)  # LightGBM's file does not say what the columns held
    sw.plots.partial_dependence(sw.inspection.partial_dependence(model, first, grid), ax=right)
    left.set_title("SHAP values")
    right.set_title("Dependence of the log-odds")
    save(figure, given, "imported_lightgbm")
    return found


if __name__ == "__main__":
    main()
