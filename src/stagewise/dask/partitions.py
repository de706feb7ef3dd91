"""What is asked of one partition at a time, as plain Dask tasks: Dask runs them again when a worker is lost.

look      how many rows, which columns, what y and the weights are like
sample    the rows whose numbers have small hashes: cut points are computed from those of all partitions
few       the distinct values of columns that seem to have few
bin_rows  the bin codes, one byte a value, with y and weights: what stays on the workers
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stagewise.data.binning import SAMPLE_ROWS, integer_weights
from stagewise.data.categories import Levels
from stagewise.data.dataset import bin_table
from stagewise.data.leveltables import level_counts
from stagewise.data.table import Schema, Table, read_table
from stagewise.data.target import encode_labels, read_init_score, read_target, read_weights, tally_labels
from stagewise.errors import InputError
from stagewise.kernels.exact import hash_values, stream_key

__all__ = [
    "BinnedPart",
    "Given",
    "Look",
    "Piece",
    "Plan",
    "bin_rows",
    "few",
    "look",
    "merged",
    "sample",
    "sample_edge",
    "weigh",
]

_CUTS = stream_key(0, 0x62696E73)  # the stream of data/binning.py


@dataclass(frozen=True, slots=True)
class Piece:
    """Row groups of a Parquet file, which a worker reads when it needs them."""

    path: str
    groups: tuple[int, ...]

    def read(self) -> Any:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            return file.read_row_groups(list(self.groups))


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """One partition as it came: y and weight are what belongs to the rows of X, or names of its columns, or None."""

    X: Any
    y: Any
    weight: Any = None
    score: Any = None

    def opened(self) -> Given:
        """With the named columns taken out of X."""
        X = self.X.read() if isinstance(self.X, Piece) else self.X
        named = [name for name in (self.y, self.weight, self.score) if isinstance(name, str)]
        if not named:
            return Given(X, self.y, self.weight, self.score)
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        absent = [name for name in named if name not in frame.columns]
        if absent:
            raise InputError(f"There is no column {absent[0]!r}; the columns are {frame.columns[:20]}.")
        taken = [frame[own] if isinstance(own, str) else own for own in (self.y, self.weight, self.score)]
        return Given(
            frame.drop(named).to_native(), *(own.to_native() if hasattr(own, "to_native") else own for own in taken)
        )


def n_rows_of(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What the client wants to know of a partition before it plans."""

    n_rows: int
    schema: Schema | None = None
    labels: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # classes, their rows, those that weigh something
    bounds: tuple[float, float] = (np.inf, -np.inf)  # of y, for regression
    levels: tuple[tuple[Levels, np.ndarray] | None, ...] = ()  # of each column, with the rows of each; () without any


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How weights and labels of all partitions are read: what depends on all of them is settled here."""

    classes: np.ndarray | None  # labels, None for regression
    by_class: np.ndarray | None  # weights of the classes
    weighted: bool
    n_outputs: int = 1
    schema: Schema | None = None  # with the level tables of all partitions


def _weights(weight: Any, n_rows: int) -> np.ndarray | None:
    """Those of a partition may all be zero."""
    if weight is None:
        return None
    values = np.asarray(weight)
    if values.ndim == 1:
        values = np.append(values, 1)  # a partition may have no weight at all, a table not
        n_rows += 1
    read = read_weights(values, n_rows)
    return None if read is None else read[: n_rows - 1] if values.ndim == 1 else read


def look(given: Given, labels: bool, categorical: Any) -> Look:
    """labels: y holds classes. categorical: categorical_features of the estimator."""
    given = given.opened()
    n = n_rows_of(given.X)
    if n == 0:
        return Look(0)
    table = read_table(given.X, categorical=categorical)
    weight = _weights(given.weight, n)
    seen = tuple(
        None if own is None else (own, level_counts(own, table.column(j))) for j, own in enumerate(table.levels)
    )
    schema = replace(table.schema, levels=())
    if labels:
        return Look(n, schema, tally_labels(given.y, n, weight), levels=seen)
    y = read_target(given.y, n)
    return Look(n, schema, None, (float(y.min()), float(y.max())), seen)


def rows_weights(given: Given, plan: Plan, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """y as numbers, and the weights in force."""
    weight = _weights(given.weight, n)
    if plan.classes is None:
        return read_target(given.y, n), weight
    codes = encode_labels(given.y, plan.classes, n)
    if plan.by_class is not None:
        own = plan.by_class[codes]
        weight = own if weight is None else weight * own
    return codes.astype(np.float64), weight


def kept_rows(given: Given, plan: Plan) -> tuple[Table, np.ndarray | None]:
    """The rows that cut points depend on, with their weights: all, or those that weigh something."""
    given = given.opened()
    table = read_table(given.X, like=plan.schema, estimator_name="the fit")
    if not plan.weighted:
        return table, None
    _, weight = rows_weights(given, plan, table.n_rows)
    assert weight is not None
    keep = np.flatnonzero(weight > 0.0)
    return (table if len(keep) == table.n_rows else table.take(keep)), weight[keep]


def weigh(given: Given, plan: Plan) -> tuple[int, float, float]:
    """How many rows weigh something; the smallest and the largest weight."""
    given = given.opened()
    _, weight = rows_weights(given, plan, n_rows_of(given.X))
    assert weight is not None
    return int(np.count_nonzero(weight > 0.0)), float(weight.min()), float(weight.max())


def sample_edge(n_rows: int) -> int | None:
    """The largest hash of a row that belongs to the sample of n_rows rows; None: all rows do."""
    if n_rows <= SAMPLE_ROWS:
        return None
    share = SAMPLE_ROWS / n_rows
    bound = np.uint64(min(2**64 - 1, int((share + 8.0 * (share / n_rows) ** 0.5) * 2.0**64)))  # surely enough of them
    found, block = [], 1 << 22
    for first in range(0, n_rows, block):
        hashes = np.empty(min(block, n_rows - first), np.uint64)
        hash_values(_CUTS, first, hashes)
        found.append(hashes[hashes <= bound])
    hashes = np.concatenate(found)
    return int(np.partition(hashes, SAMPLE_ROWS - 1)[SAMPLE_ROWS - 1])


def sample(given: Given, plan: Plan, first: int, edge: int | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Cells and weights of the rows with hashes up to `edge`; `first` is the number of the first row that counts."""
    table, weight = kept_rows(given, plan)
    if edge is not None:
        hashes = np.empty(table.n_rows, np.uint64)
        hash_values(_CUTS, first, hashes)
        chosen = np.flatnonzero(hashes <= np.uint64(edge))
        table, weight = table.take(chosen), None if weight is None else weight[chosen]
    return table.to_matrix(), weight


def few(given: Given, plan: Plan, columns: list[int], n_rows: int, peak: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """The distinct values of some columns, float64, and the weight of each."""
    table, weight = kept_rows(given, plan)
    weights = np.ones(table.n_rows, np.int64) if weight is None else integer_weights(weight, n_rows, peak)
    return [merged(table.column(j).astype(np.float64), weights) for j in columns]


def merged(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values (NaN is one) and the sums of their weights."""
    distinct, place = np.unique(values, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, weights)
    return distinct, sums


@dataclass(frozen=True, slots=True, eq=False)
class BinnedPart:
    """A partition ready for training."""

    codes: np.ndarray  # uint8 (n_columns, n_rows)
    y: np.ndarray
    weight: np.ndarray | None
    score: np.ndarray | None  # (n_outputs, n_rows)

    def __sizeof__(self) -> int:
        """For Dask, which spills to disk what does not fit."""
        own = (self.codes, self.y, self.weight, self.score)
        return sum(array.nbytes for array in own if array is not None)


def bin_rows(given: Given, plan: Plan, schema: Schema, cuts: tuple[np.ndarray, ...]) -> BinnedPart:
    """Codes under the cut points."""
    given = given.opened()
    n = n_rows_of(given.X)
    table = read_table(given.X, like=schema, estimator_name="the fit")
    y, weight = rows_weights(given, plan, n)
    score = read_init_score(given.score, n, plan.n_outputs)
    return BinnedPart(bin_table(table, cuts, 1).by_column, y, weight, score)
