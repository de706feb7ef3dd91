"""Held-out loss on every real table with categories: all four libraries, with their own treatment of categories.

First with equal settings (see rivals.py; each library splits categories in its own way), as the mean over random
divisions, with the standard error of our difference from LightGBM. Then as each is meant to be used: CatBoost with its
defaults (1,000 trees, its statistics and combinations of categories) against ours as docs/categories.md recommends:
early stopping to find the number of stages, then a fit on all rows.

CatBoost's thousand trees on a large table take minutes, so everyone trains on the same 20,000 random rows at most, and
on fewer divisions where rows are many; then as many others are held out, which makes up for some of it. Losses are
kept as they come (ledger.py): a run that was stopped goes on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks import tables
from benchmarks.ledger import Ledger, version_of
from benchmarks.options import Options, Outcome
from benchmarks.results import folder_of
from benchmarks.rivals import RIVALS
from benchmarks.scores import LOSS_NAMES, held_out_loss
from benchmarks.settings import Settings
from benchmarks.table import plain
from benchmarks.timing import say

__all__ = ["compare", "run"]

_ROWS = 20_000
"""For training, and to be held out, at most."""

_DIVISIONS = ((1_500, 5, 5), (12_000, 3, 2), (math.inf, 2, 1))
"""For tables of up to so many rows: random divisions with equal settings, and as meant to be used."""

_STAGES = 1_000  # as meant to be used: CatBoost's default, and the most for ours
_NAMES = ("stagewise", "lightgbm", "xgboost-lossguide", "catboost-lossguide")
_MISSING = "missing"  # what CatBoost is told: it takes text only

RECOMMENDED: dict[str, Any] = {
    "learning_rate": 0.03,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 5,
    "l2_regularization": 3.0,
    "subsample": 0.8,
    "max_features": 0.5,
}
"""docs/categories.md: chosen on some of the tables, judged on the others."""

STOPPING: dict[str, Any] = {"early_stopping": True, "n_iter_no_change": 50, "validation_fraction": 0.2}
"""Of a first fit, which finds how many stages the second one, on all rows, is to have: 1.1 times as many."""

CHOSEN_ON = (
    "saheart", "titanic", "ames", "nyc_taxis", "hmeq", "wine_quality", "mushroom", "bike_sharing_hour",
)  # fmt: skip
"""The tables that these settings were chosen on."""


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


def read(name: str, seed: int, most: int = _ROWS) -> Table:
    """At most `most` rows of a table for training; of the others as many, but at least a fifth of all, are held out."""
    import pandas as pd

    workload = tables.named()[name]
    (left_out, _) = workload.source.args  # type: ignore[attr-defined]
    frame = pd.read_parquet(tables.FOLDER / f"{name}.parquet").drop(columns=list(left_out))
    order = np.random.default_rng(seed).permutation(len(frame))[: 2 * most]
    y, task = frame.pop("target").to_numpy(), workload.task
    for column in frame:
        if not isinstance(frame[column].dtype, pd.CategoricalDtype):
            frame[column] = frame[column].astype(np.float64)
    y = y.astype(np.int64 if task in ("binary", "multiclass") else np.float64)
    cut = max(len(order) // 5, len(order) - most)
    test, train = order[:cut], order[cut:]
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

    loss = {"count": "poisson", "regression": "squared_error"}.get(settings.task, "log_loss")
    kind = GradientBoostingClassifier if settings.classes else GradientBoostingRegressor
    own = {**RECOMMENDED, "n_jobs": settings.threads}
    probe = kind(loss, n_estimators=settings.stages, **STOPPING, **own).fit(table.X, table.y)
    model = kind(loss, n_estimators=round(1.1 * probe.n_estimators_), early_stopping=False, **own)
    model.fit(table.X, table.y)
    return np.asarray(model.predict_proba(table.X_test) if settings.classes else model.predict(table.X_test))


def _catboost_by_default(table: Table, settings: Settings) -> np.ndarray:
    from catboost import CatBoostClassifier, CatBoostRegressor

    (X, categories), (X_test, _) = _texts(table.X), _texts(table.X_test)
    options = {"thread_count": settings.threads, "allow_writing_files": False, "logging_level": "Silent"}
    options |= {"iterations": settings.stages} if settings.stages < 1000 else {}
    if settings.classes:
        return np.asarray(CatBoostClassifier(cat_features=categories, **options).fit(X, table.y).predict_proba(X_test))
    options |= {"loss_function": "Poisson"} if settings.task == "count" else {}
    return np.asarray(CatBoostRegressor(cat_features=categories, **options).fit(X, table.y).predict(X_test))


def _divisions(name: str) -> tuple[int, int]:
    workload = tables.named()[name]
    return next((equal, meant) for rows, equal, meant in _DIVISIONS if workload.rows + workload.held_out <= rows)


def compare(name: str, ledger: Ledger, options: Options) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Losses of a table, one a division, by library: with equal settings, and as meant to be used."""
    most = options.size(_ROWS, 2_000)
    equal: dict[str, list[float]] = {}
    meant: dict[str, list[float]] = {}
    of_equal, of_meant = (1, 1) if options.quick else _divisions(name)
    for seed in range(max(of_equal, of_meant)):
        table = read(name, seed, most)
        key = name, f"division {seed + 1}", f"{len(table.y)} rows"

        def loss(predict: Callable[..., np.ndarray], *arguments: Any, table: Table = table) -> Callable[[], float]:
            return lambda: held_out_loss(table.task, table.y_test, predict(*arguments))

        if seed < of_equal:
            settings = Settings(table.task, options.size(30 if table.task == "multiclass" else 100, 5), options.threads)
            for rival in _NAMES:
                own = *key, f"{settings.stages} stages", rival, version_of(rival.partition("-")[0])
                equal.setdefault(rival, []).append(ledger.loss(own, loss(_equal, rival, table, settings)))
        if seed < of_meant:
            settings = Settings(table.task, options.size(_STAGES, 5), options.threads)
            for rival, predict, how in (
                ("stagewise", _ours_as_recommended, {**RECOMMENDED, **STOPPING}),
                ("catboost", _catboost_by_default, "defaults"),
            ):
                own = *key, f"{settings.stages} stages", how, rival, version_of(rival)
                meant.setdefault(rival, []).append(ledger.loss(own, loss(predict, table, settings)))
    return equal, meant


def run(options: Options) -> Outcome:
    known = tables.named()
    chosen = sorted(names(), key=lambda name: known[name].rows)[: 2 if options.quick else None]
    if not chosen:
        say(f"  categories: {tables.FOLDER} is absent, and scikit-learn's bundled tables have no categories")
        return Outcome("categories: no table", {})
    ledger = Ledger((options.folder or folder_of(options)) / "categories.json")
    equal: dict[str, dict[str, list[float]]] = {}
    meant: dict[str, dict[str, list[float]]] = {}
    for name in chosen:
        equal[name], meant[name] = compare(name, ledger, options)
        used = ", ".join(f"{rival} {np.mean(own):.6g}" for rival, own in meant[name].items())
        alike = ", ".join(f"{rival} {np.mean(own):.6g}" for rival, own in equal[name].items())
        say(f"  categories: {name}: equal settings: {alike}; as meant to be used: {used}")
    return Outcome(report(equal, meant), {"equal": equal, "meant": meant})


def report(equal: dict[str, dict[str, list[float]]], meant: dict[str, dict[str, list[float]]]) -> str:
    """Both tables, and the counts that the goals are about."""
    titles = {name: LOSS_NAMES[tables.named()[name].task] for name in {**equal, **meant}}
    rows, used, gaps = [], [], {}
    for name, by in equal.items():
        gaps[name] = gap, error = _gap(by["stagewise"], by["lightgbm"])
        cells = [f"{np.mean(by[rival]):.6g}" for rival in _NAMES]
        rows.append(
            [name, titles[name], *cells, f"{100 * gap:+.2f} %", f"± {100 * error:.2f}", f"{len(by['lightgbm'])}"]
        )
    ends = {name: _gap(by["stagewise"], by["catboost"]) for name, by in meant.items()}
    for name, (gap, error) in ends.items():
        cells = [f"{np.mean(own):.6g}" for own in meant[name].values()]
        several, title = f"± {100 * error:.2f}" if error == error else "", name + " *" * (name in CHOSEN_ON)
        used.append([title, titles[name], *cells, f"{100 * gap:+.2f} %", several, f"{len(meant[name]['catboost'])}"])
    beyond = sum(gap > 2.0 * error for gap, error in gaps.values())
    header = ["table", "loss", *(RIVALS[rival].title for rival in _NAMES), "ours against LightGBM", "", "divisions"]
    return "\n".join(
        [
            f"categories: equal settings, at most {_ROWS:,} rows for training, mean of the divisions",
            plain(header, rows),
            f"  no worse than LightGBM: {_no_worse(gaps)}; worse by more than two standard errors: {beyond}",
            "",
            f"categories: as meant to be used, at most {_ROWS:,} rows for training (* our settings were chosen on it)",
            plain(
                ["table", "loss", "stagewise, recommended", "CatBoost, defaults", "difference", "", "divisions"], used
            ),
            f"  no worse than CatBoost: {_no_worse(ends)}; of the tables that the settings were not chosen on: "
            f"{_no_worse({name: own for name, own in ends.items() if name not in CHOSEN_ON})}",
        ]
    )


def _gap(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """Mean of the logarithm of the ratio, and its standard error (NaN for one division)."""
    ratio = np.log(np.array(ours) / np.array(theirs))
    return float(ratio.mean()), float(ratio.std(ddof=1)) / math.sqrt(len(ratio)) if len(ratio) > 1 else math.nan


def _no_worse(gaps: dict[str, tuple[float, float]]) -> str:
    return f"{sum(gap <= 0.0 for gap, _ in gaps.values())} of {len(gaps)}"
