"""Held-out loss on every real table with categories: all four libraries, with their own treatment of categories.

First with equal settings (see rivals.py; each library splits categories in its own way), as the mean over random
divisions, with the standard error of our difference from LightGBM. Then as each is meant to be used: CatBoost with its
defaults (1,000 trees, its statistics and combinations of categories) against ours with `category_encoding="auto"` and
the number of trees chosen by early stopping.

Large tables are cut to the same random rows for everyone, so that the whole takes minutes and not hours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from benchmarks import tables
from benchmarks.options import Options, Outcome
from benchmarks.rivals import RIVALS
from benchmarks.scores import LOSS_NAMES, held_out_loss
from benchmarks.settings import Settings
from benchmarks.table import plain
from benchmarks.timing import say

__all__ = ["compare", "run"]

_ROWS, _ROWS_OF_DEFAULTS = 100_000, 20_000
_DIVISIONS = 3
_NAMES = ("stagewise", "lightgbm", "xgboost-lossguide", "catboost-lossguide")
_MISSING = "missing"  # what CatBoost is told: it takes text only


class Table(NamedTuple):
    """A frame with categorical columns, divided."""

    task: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def names() -> list[str]:
    """The tables that have categorical columns."""
    manifest = (tables.FOLDER / "MANIFEST.md").read_text(encoding="utf-8") if tables.named() else ""
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in manifest.splitlines()]
    known = tables.named()
    return [cells[0] for cells in lines if cells[0] in known and re.search(r"/[1-9]", cells[3])]


def read(name: str, seed: int, most: int) -> Table:
    """At most `most` rows of a table, a fifth of them held out."""
    import pandas as pd

    workload = tables.named()[name]
    (left_out, _) = workload.source.args  # type: ignore[attr-defined]
    frame = pd.read_parquet(tables.FOLDER / f"{name}.parquet").drop(columns=list(left_out))
    order = np.random.default_rng(seed).permutation(len(frame))[:most]
    y, task = frame.pop("target").to_numpy(), workload.task
    for column in frame:
        if not isinstance(frame[column].dtype, pd.CategoricalDtype):
            frame[column] = frame[column].astype(np.float64)
    y = y.astype(np.int64 if task in ("binary", "multiclass") else np.float64)
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    if y.dtype == np.int64:
        seen = np.unique(y[train])
        test, y = test[np.isin(y[test], seen)], np.searchsorted(seen, y)
    parts = [frame.iloc[rows].reset_index(drop=True) for rows in (train, test)]
    return Table(task, parts[0], y[train], parts[1], y[test])


def _texts(frame: Any) -> tuple[Any, list[str]]:
    """For CatBoost: categories as text."""
    own = [column for column in frame if frame[column].dtype == "category"]
    return frame.assign(**{c: frame[c].astype(object).where(frame[c].notna(), _MISSING).astype(str) for c in own}), own


def _equal(rival: str, table: Table, settings: Settings) -> np.ndarray:
    """Predictions with equal settings and the library's own splits of categories."""
    own, X, X_test = RIVALS[rival], table.X, table.X_test
    if rival.startswith("catboost"):
        from catboost import Pool

        (X, categories), (X_test, _) = _texts(X), _texts(X_test)
        start = math.log(float(table.y.mean())) if settings.task == "count" else None
        baseline = None if start is None else np.full(len(X), start)
        model = own.estimator(settings).fit(Pool(X, table.y, cat_features=categories, baseline=baseline))
        return own.predict(settings, model if start is None else (model, start), X_test)
    estimator = own.estimator(settings)
    if rival.startswith("xgboost"):
        estimator.set_params(enable_categorical=True)
    return own.predict(settings, estimator.fit(X, table.y), X_test)


def _ours_as_recommended(table: Table, settings: Settings) -> np.ndarray:
    from stagewise import GradientBoostingClassifier, GradientBoostingRegressor

    options: dict[str, Any] = {
        "n_estimators": settings.stages,
        "learning_rate": 0.03,
        "max_leaf_nodes": 15,
        "l2_regularization": 3.0,
        "subsample": 0.8,
        "early_stopping": True,
        "n_iter_no_change": 50,
        "n_jobs": settings.threads,
    }
    if settings.classes:
        return np.asarray(GradientBoostingClassifier(**options).fit(table.X, table.y).predict_proba(table.X_test))
    loss = "poisson" if settings.task == "count" else "squared_error"
    return np.asarray(GradientBoostingRegressor(loss, **options).fit(table.X, table.y).predict(table.X_test))


def _catboost_by_default(table: Table, settings: Settings) -> np.ndarray:
    from catboost import CatBoostClassifier, CatBoostRegressor

    (X, categories), (X_test, _) = _texts(table.X), _texts(table.X_test)
    options = {"thread_count": settings.threads, "allow_writing_files": False, "logging_level": "Silent"}
    options |= {"iterations": settings.stages} if settings.stages < 1000 else {}
    if settings.classes:
        return np.asarray(CatBoostClassifier(cat_features=categories, **options).fit(X, table.y).predict_proba(X_test))
    options |= {"loss_function": "Poisson"} if settings.task == "count" else {}
    return np.asarray(CatBoostRegressor(cat_features=categories, **options).fit(X, table.y).predict(X_test))


def _loss(table: Table, predict: Callable[[], np.ndarray]) -> float:
    return held_out_loss(table.task, table.y_test, predict())


def compare(chosen: Iterable[str], options: Options) -> tuple[dict[str, Any], dict[str, Any]]:
    """Losses of equal settings, by table and library, one a division; and (ours, CatBoost's) as meant to be used."""
    equal: dict[str, dict[str, list[float]]] = {}
    meant: dict[str, tuple[float, float]] = {}
    for name in chosen:
        for seed in range(options.size(_DIVISIONS, 1)):
            table = read(name, seed, options.size(_ROWS, 2_000))
            stages = options.size(30 if table.task == "multiclass" else 100, 5)
            settings = Settings(table.task, stages, options.threads)
            for rival in _NAMES:
                own = _loss(table, lambda r=rival, t=table, s=settings: _equal(r, t, s))  # type: ignore[misc]
                equal.setdefault(name, {}).setdefault(rival, []).append(own)
            say(f"  categories: {name}, division {seed + 1}")
        table = read(name, 0, options.size(_ROWS_OF_DEFAULTS, 2_000))
        settings = Settings(table.task, options.size(1000, 5), options.threads)
        ours = _loss(table, lambda t=table, s=settings: _ours_as_recommended(t, s))  # type: ignore[misc]
        theirs = _loss(table, lambda t=table, s=settings: _catboost_by_default(t, s))  # type: ignore[misc]
        meant[name] = ours, theirs
        say(f"  categories: {name}, as meant to be used: ours {ours:.6g}, CatBoost {theirs:.6g}")
    return equal, meant


def run(options: Options) -> Outcome:
    chosen = names()[: 2 if options.quick else None]
    if not chosen:
        say(f"  categories: {tables.FOLDER} is absent, and scikit-learn's bundled tables have no categories")
        return Outcome("categories: no table", {})
    equal, meant = compare(chosen, options)
    return Outcome(report(equal, meant), {"equal": equal, "meant": meant})


def report(equal: dict[str, Any], meant: dict[str, Any]) -> str:
    """Both tables, and the counts that the goals are about."""
    tasks = {name: tables.named()[name].task for name in equal}
    rows, gaps = [], {}
    for name, by in equal.items():
        ratio = np.log(np.array(by["stagewise"]) / np.array(by["lightgbm"]))
        error = ratio.std(ddof=1) / math.sqrt(len(ratio)) if len(ratio) > 1 else float("nan")
        gaps[name] = ratio.mean(), error
        cells = [f"{np.mean(by[rival]):.6g}" for rival in _NAMES]
        rows.append([name, LOSS_NAMES[tasks[name]], *cells, f"{100 * ratio.mean():+.2f} %", f"± {100 * error:.2f}"])
    header = ["table", "loss", *(RIVALS[rival].title for rival in _NAMES), "ours against LightGBM", ""]
    better = sum(gap <= 0.0 for gap, _ in gaps.values())
    beyond = sum(gap > 2.0 * error for gap, error in gaps.values())
    used = [
        [name, LOSS_NAMES[tasks[name]], f"{a:.6g}", f"{b:.6g}", f"{100 * (a / b - 1.0):+.2f} %"]
        for name, (a, b) in meant.items()
    ]
    no_worse = sum(a <= b for a, b in meant.values())
    return "\n".join(
        [
            "categories: equal settings, mean of the divisions",
            plain(header, rows),
            f"  no worse than LightGBM: {better} of {len(gaps)}; worse by more than two standard errors: {beyond}",
            "",
            f"categories: as meant to be used, at most {_ROWS_OF_DEFAULTS:,} rows, one division",
            plain(["table", "loss", "stagewise, early stopping", "CatBoost, defaults", "difference"], used),
            f"  no worse than CatBoost: {no_worse} of {len(meant)}",
        ]
    )
