"""Round trips: our models written for others, the models of others read; predictions compared on the thresholds."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import Options, Outcome
from benchmarks.table import plain
from benchmarks.timing import say

__all__ = ["run"]

_LOSSES = ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie")


def _table(rows: int, missing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Smooth, coarse, skewed and half-missing columns, and a target between -3 and 3."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, 6))
    X[:, 2] = rng.integers(-3, 4, rows)
    X[:, 3] = np.exp(X[:, 3])
    X[:, 4] = np.where(rng.random(rows) < 0.6, 0.0, X[:, 4])
    f = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * X[:, 2] + 0.1 * X[:, 3] + X[:, 4] + 0.3 * rng.normal(size=rows)
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X, np.clip(f, -3.0, 3.0)


def _ours(rows: int, stages: int) -> Iterator[tuple[str, Any]]:
    """(what, fitted estimator): every loss and number of classes, with and without missing values, leafwise and not."""
    from stagewise import GradientBoostingClassifier, GradientBoostingRegressor

    for missing in (False, True):
        X, f = _table(rows, missing)
        for growth in ("leafwise", "symmetric"):
            options = {"n_estimators": stages, "growth": growth, "max_leaf_nodes": 16, "min_samples_leaf": 5}
            about = f"{growth}{', missing' if missing else ''}"
            for loss in _LOSSES if growth == "leafwise" or not missing else _LOSSES[:2]:
                y = np.exp(f) if loss in ("poisson", "gamma", "tweedie") else f
                yield f"{loss}, {about}", GradientBoostingRegressor(loss, **options).fit(X, y)
            for k in (2, 3, 5):
                y = np.digitize(f, np.quantile(f, np.arange(1, k) / k))
                yield f"{k} classes, {about}", GradientBoostingClassifier(**options).fit(X, y)
            yield f"exponential, {about}", GradientBoostingClassifier("exponential", **options).fit(X, f > 0)


def _said(largest: float, differ: int, rows: int) -> str:
    if differ:
        return f"{differ} of {rows} rows differ"
    return "same bits" if largest == 0.0 else f"{largest:.0e}"


def _out(model: Any, folder: Path) -> list[str]:
    """What each export's own proof found."""
    import stagewise as sw

    path = folder / "m"
    proofs = [
        sw.export_lightgbm(model, path, on_difference="warn"),
        sw.export_xgboost(model, path, on_difference="warn"),
        sw.export_onnx(model, path, on_difference="warn"),
        sw.export_onnx(model, path, dtype="float32", on_difference="warn"),
        sw.export_python(model, path, on_difference="warn"),
    ]
    if shutil.which("cc"):
        proofs.append(sw.export_c(model, path, on_difference="warn"))
    return [f"{proofs[0].rows:,}", *(_said(proof.largest, proof.differences, proof.rows) for proof in proofs)]


def _theirs(rows: int, stages: int) -> Iterator[tuple[str, Any, Any, Callable[[np.ndarray], np.ndarray], bool]]:
    """(what, their model, ours, their raw predictions, whether they add up in float32)."""
    import lightgbm as lgb
    import xgboost as xgb
    from sklearn import ensemble

    import stagewise as sw

    X, f = _table(rows, True)
    targets = {"number": f, "amount": np.exp(f), "two": (f > 0).astype(int), "three": np.digitize(f, [-0.5, 1.0])}
    light = {
        "regression": "number", "l1": "number", "poisson": "amount", "gamma": "amount", "tweedie": "amount",
        "quantile": "number", "binary": "two", "multiclass": "three", "multiclassova": "three",
    }  # fmt: skip
    for objective, target in light.items():
        for more in ({}, {"zero_as_missing": True}) if objective in ("regression", "multiclass") else ({},):
            options = {
                "objective": objective,
                "num_leaves": 16,
                "verbose": -1,
                "num_class": 3 if "multi" in objective else 1,
            }
            theirs = lgb.train({**options, **more}, lgb.Dataset(X, targets[target]), stages)
            about = f"LightGBM {objective}{', zero_as_missing' if more else ''}"
            yield (
                about,
                theirs,
                sw.import_lightgbm(theirs),
                lambda rows, m=theirs: m.predict(rows, raw_score=True),
                False,
            )
    boosters = {
        "reg:squarederror": "number", "reg:absoluteerror": "number", "count:poisson": "amount", "reg:gamma": "amount",
        "reg:tweedie": "amount", "binary:logistic": "two", "multi:softprob": "three",
    }  # fmt: skip
    for objective, target in boosters.items():
        for more in ({}, {"booster": "dart", "rate_drop": 0.2}) if objective == "multi:softprob" else ({},):
            options = {"objective": objective, "max_depth": 4, **({"num_class": 3} if "multi" in objective else {})}
            theirs = xgb.train({**options, **more}, xgb.DMatrix(X, targets[target]), stages)
            about = f"XGBoost {objective}{', dart' if more else ''}"

            def margin(rows: np.ndarray, m: Any = theirs) -> np.ndarray:
                return np.asarray(m.predict(xgb.DMatrix(rows), output_margin=True))

            yield about, theirs, sw.import_xgboost(bytes(theirs.save_raw("ubj"))), margin, True
    for kind, target in (("Regressor", "number"), ("Classifier", "two"), ("Classifier", "three")):
        theirs = getattr(ensemble, f"HistGradientBoosting{kind}")(max_iter=stages).fit(X, targets[target])
        yield f"scikit-learn Hist{kind}, {target}", theirs, sw.import_sklearn(theirs), theirs._raw_predict, False
        filled = np.nan_to_num(X)
        theirs = getattr(ensemble, f"GradientBoosting{kind}")(n_estimators=stages).fit(filled, targets[target])

        def raw(rows: np.ndarray, m: Any = theirs) -> np.ndarray:
            return np.asarray(m._raw_predict(np.ascontiguousarray(rows, np.float32)))

        yield f"scikit-learn {kind}, {target}", theirs, sw.import_sklearn(theirs), raw, False


def _in(ours: Any, raw: Callable[[np.ndarray], np.ndarray], single: bool, X: np.ndarray) -> list[str]:
    """Rows that differ at home and here, summed up in the precision of home; and the largest difference as we add."""
    from stagewise.io.proof import probe_rows

    trees = [tree for stage in ours.model_.stages for tree in stage]
    rows = np.concatenate([probe_rows(trees, X.shape[1], infinite=not single), X])
    with np.errstate(over="ignore"):
        rows = rows[~np.isinf(rows.astype(np.float32)).any(axis=1)]
    rows = rows if np.isnan(X).any() else np.nan_to_num(rows, nan=0.125)
    home = np.asarray(raw(rows), np.float64).reshape(len(rows), -1)
    here = ours.model_.raw(rows).T
    alike = here
    if single:
        k, leaves = ours.model_.n_outputs, ours.model_.forest.leaves(rows)
        alike = np.tile(ours.model_.initial.astype(np.float32), (len(rows), 1))
        for t, tree in enumerate(trees):
            alike[:, t % k] += tree.value[leaves[:, t]].astype(np.float32)
    differ = int((alike != home).any(axis=1).sum())
    return [f"{len(rows):,}", f"{differ}", f"{np.abs(here - home).max():.0e}"]


def run(options: Options) -> Outcome:
    rows, stages = options.size(1_000, 300), options.size(20, 3)
    data: dict[str, Any] = {"out": {}, "in": {}}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, model in _ours(rows, stages):
            say(f"  exchange: {what}")
            data["out"][what] = _out(model, Path(folder))
        X, _ = _table(rows, True)
        for what, _, ours, raw, single in _theirs(rows, stages):
            say(f"  exchange: {what}")
            whole = "scikit" in what and "Hist" not in what  # takes no missing values
            data["in"][what] = _in(ours, raw, single, np.nan_to_num(X) if whole else X)
    header = ["ours", "rows", "→ LightGBM", "→ XGBoost", "→ ONNX", "→ ONNX 32", "→ Python", "→ C"]
    lines = [[what, *cells, *["-"] * (len(header) - 1 - len(cells))] for what, cells in data["out"].items()]
    out = plain(header, lines)
    came = plain(
        ["theirs", "rows", "rows that differ", "largest"], [[what, *cells] for what, cells in data["in"].items()]
    )
    title = f"exchange: {len(data['out'])} models out and {len(data['in'])} in, on rows at and around every threshold"
    note = (
        "out: the largest difference of raw predictions (LightGBM, XGBoost) or of predictions; in: rows whose raw\n"
        "prediction differs from home when added up as at home (XGBoost: float32), and the largest difference as we add"
    )
    return Outcome(f"{title}\n{out}\n\n{came}\n{note}", data)
