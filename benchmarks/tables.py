"""Real tables from ../shared/data, described by its MANIFEST.md; and scikit-learn's bundled ones where that is absent.

Everyone gets the same numbers: float32, a categorical column as the numbers of its levels (in the order of the file's
dictionary), missing values as NaN. Categorical splits come later, so nobody is told which columns are categorical.
Columns that the manifest calls no features are left out; exposure is used by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import Data, Workload, regression

__all__ = ["FOLDER", "bundled", "large", "named"]

FOLDER = Path(__file__).parents[2] / "shared" / "data"

_LARGE = 10_000
_SHARE = 0.2  # held out
_TASKS = ("binary", "multiclass", "regression", "count")


def named(seed: int = 0) -> dict[str, Workload]:
    """Every table whose task we know, by name; empty when the folder is absent. seed: of the held-out part."""
    manifest = FOLDER / "MANIFEST.md"
    if not manifest.is_file():
        return {}
    found = {}
    for line in manifest.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 7 or cells[1].split()[0] not in _TASKS or not (FOLDER / f"{cells[0]}.parquet").is_file():
            continue
        name, task, rows, columns = cells[0], cells[1].split()[0], int(cells[2].replace(",", "")), cells[3].split()[0]
        left_out = tuple(re.findall(r": '([^']+)'", cells[6]))
        held_out = int(_SHARE * rows)
        found[name] = Workload(
            name, task, rows - held_out, int(columns), _stages(task), partial(_read, left_out, seed), held_out=held_out
        )
    return found


def large() -> dict[str, Workload]:
    """Those with more than 10,000 rows."""
    return {name: table for name, table in named().items() if table.rows + table.held_out > _LARGE}


def _stages(task: str) -> int:
    return 30 if task == "multiclass" else 100  # K trees a stage, as in workload F


def _read(left_out: tuple[str, ...], seed: int, workload: Workload) -> Data:
    import pyarrow.parquet as parquet

    table = parquet.read_table(FOLDER / f"{workload.name}.parquet").unify_dictionaries()
    features = [name for name in table.column_names if name != "target" and name not in left_out]
    X = np.empty((table.num_rows, len(features)), np.float32)
    for j, name in enumerate(features):
        X[:, j] = _numbers(table.column(name))
    y = table.column("target").to_numpy()
    y = y.astype(np.int64 if workload.task in ("binary", "multiclass") else np.float64)
    return _divide(X, y, seed, workload)


def _numbers(column: Any) -> np.ndarray:
    """A column as numbers, null as NaN."""
    import pyarrow as pa

    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # pyarrow keeps a column of no or many chunks as it is
        whole = pa.concat_arrays(whole.chunks)
    if isinstance(whole, pa.DictionaryArray):
        whole = whole.indices
    return np.asarray(whole.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float32)


def _divide(X: np.ndarray, y: np.ndarray, seed: int, workload: Workload) -> Data:
    """Held-out rows at random: some files are sorted. Classes are numbered as they occur in the training part."""
    order = np.random.default_rng(seed).permutation(len(y))
    test = order[: workload.held_out]
    train = order[workload.held_out : workload.held_out + workload.rows]
    if workload.task in ("binary", "multiclass"):
        seen = np.unique(y[train])
        test = test[np.isin(y[test], seen)]
        y = np.searchsorted(seen, y)
    return Data(X[train], y[train], X[test], y[test])


def bundled(seed: int = 0) -> dict[str, Workload]:
    """Small tables that everyone has: five of scikit-learn's, and Friedman's first problem."""
    from sklearn import datasets

    def source(load: Callable[..., Any], workload: Workload) -> Data:
        X, y = load(return_X_y=True)
        return _divide(X.astype(np.float32), y, seed, workload)

    def friedman(return_X_y: bool) -> tuple[np.ndarray, np.ndarray]:
        return regression(np.random.default_rng(0), 2_000, 10)

    found = {}
    for name, task, load in (
        ("breast_cancer", "binary", datasets.load_breast_cancer),
        ("diabetes", "regression", datasets.load_diabetes),
        ("digits", "multiclass", datasets.load_digits),
        ("iris", "multiclass", datasets.load_iris),
        ("wine", "multiclass", datasets.load_wine),
        ("friedman1", "regression", friedman),
    ):
        rows, columns = load(return_X_y=True)[0].shape
        held_out = int(_SHARE * rows)
        found[name] = Workload(
            name, task, rows - held_out, columns, _stages(task), partial(source, load), held_out=held_out
        )
    return found
