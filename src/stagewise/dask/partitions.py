"""What is asked of one partition at a time, as plain Dask tasks: Dask runs them again when a worker is lost.

Row groups of a file are read in batches, so that what a task needs beside its result does not depend on their size.

look      how many rows, which columns, what y and the weights are like
sample    the rows whose numbers have small hashes: cut points are computed from those of all partitions
few       the distinct values of columns that seem to have few
bin_rows  the bin codes, one byte a value, with y and weights: what stays on the workers
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stagewise.dask.room import Room, check_rows
from stagewise.data.binning import SAMPLE_ROWS, integer_weights
from stagewise.data.categories import Levels
from stagewise.data.dataset import bin_table
from stagewise.data.leveltables import level_counts
from stagewise.data.memory import give_back
from stagewise.data.table import Schema, Table, read_table
from stagewise.data.target import class_numbers, encode_labels, read_init_score, read_target, read_weights, tally_labels
from stagewise.errors import InputError
from stagewise.kernels.exact import hash_values, stream_key
from stagewise.storage.mapping import is_mapped

__all__ = [
    "BinnedPart",
    "Given",
    "Look",
    "Piece",
    "Plan",
    "bin_rows",
    "few",
    "joined",
    "look",
    "merged",
    "on_part",
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

    def batches(self) -> Iterator[Any]:
        """Arrow tables of some rows each. A buffer rather than whole column chunks: row groups can be large."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path, buffer_size=1 << 16, pre_buffer=False) as file:
            rows = Room().batch_rows(len(file.schema_arrow.names))
            for batch in file.iter_batches(rows, row_groups=list(self.groups), use_threads=False):
                yield pa.Table.from_batches([batch])
        pa.default_memory_pool().release_unused()
        give_back()


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """One partition as it came: y and weight are what belongs to the rows of X, or names of its columns, or None."""

    X: Any
    y: Any
    weight: Any = None
    score: Any = None
    statistics: np.ndarray | None = None  # (n_crowds, n_rows): see crowds.py

    def batches(self) -> Iterator[Given]:
        """The rows, some at a time, with the named columns taken out of X."""
        at = 0
        for X in self.X.batches() if isinstance(self.X, Piece) else (self.X,):
            some, own = slice(at, at + n_rows_of(X)), self.statistics
            if own is not None:
                check_rows(some.stop, own.shape[1], last=False)
            yield replace(self, X=X, statistics=None if own is None else own[:, some])._opened()
            at = some.stop

    def read(self, schema: Schema | None) -> Table:
        """The cells of a batch, with ordered target statistics where there are such."""
        table = read_table(self.X, like=schema, estimator_name="the fit")
        if self.statistics is None or schema is None:
            return table
        crowds = [(j, own) for j, own in enumerate(schema.levels) if own is not None and own.by_target]
        return table.with_columns({j: (own, row) for (j, own), row in zip(crowds, self.statistics, strict=True)})

    def _opened(self) -> Given:
        named = [name for name in (self.y, self.weight, self.score) if isinstance(name, str)]
        if not named:
            return self
        import narwhals as nw

        frame = nw.from_native(self.X, eager_only=True)
        absent = [name for name in named if name not in frame.columns]
        if absent:
            raise InputError(f"There is no column {absent[0]!r}; the columns are {frame.columns[:20]}.")
        taken = [frame[own] if isinstance(own, str) else own for own in (self.y, self.weight, self.score)]
        y, weight, score = (own.to_native() if hasattr(own, "to_native") else own for own in taken)
        return Given(frame.drop(named).to_native(), y, weight, score, self.statistics)


def on_part(function: Callable[..., Any], X: Any, y: Any, weight: Any, score: Any, own: Any, *more: Any) -> Any:
    """Run a function of a `Given` on what Dask has put together. own: statistics, or None."""
    return function(Given(X, y, weight, score, own), *more)


def n_rows_of(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What the client wants to know of a batch of rows before it plans."""

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


def look(given: Given, labels: bool, categorical: Any) -> list[Look]:
    """Of every batch that has rows. labels: y holds classes. categorical: categorical_features of the estimator."""
    return [_look(own, labels, categorical) for own in given.batches() if n_rows_of(own.X)]


def _look(given: Given, labels: bool, categorical: Any) -> Look:
    n = n_rows_of(given.X)
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
    return class_numbers(codes, len(plan.classes)), weight


def kept_rows(given: Given, plan: Plan) -> Iterator[tuple[Table, np.ndarray | None]]:
    """The rows that cut points depend on, with their weights: all, or those that weigh something."""
    for own in given.batches():
        table = own.read(plan.schema)
        if not plan.weighted:
            yield table, None
            continue
        _, weight = rows_weights(own, plan, table.n_rows)
        assert weight is not None
        keep = np.flatnonzero(weight > 0.0)
        yield (table if len(keep) == table.n_rows else table.take(keep)), weight[keep]


def weigh(given: Given, plan: Plan) -> tuple[int, float, float]:
    """How many rows weigh something; the smallest and the largest weight."""
    n, least, most = 0, np.inf, -np.inf
    for own in given.batches():
        _, weight = rows_weights(own, plan, n_rows_of(own.X))
        assert weight is not None
        n += int(np.count_nonzero(weight > 0.0))
        least, most = min(least, weight.min(initial=np.inf)), max(most, weight.max(initial=-np.inf))
    return n, float(least), float(most)


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
    cells, weights = [], []
    for table, weight in kept_rows(given, plan):
        n = table.n_rows
        if edge is not None:
            hashes = np.empty(n, np.uint64)
            hash_values(_CUTS, first, hashes)
            chosen = np.flatnonzero(hashes <= np.uint64(edge))
            table, weight = table.take(chosen), None if weight is None else weight[chosen]
        first += n
        cells.append(table.to_matrix())
        weights.append(weight)
    return np.concatenate(cells), joined(weights)


def few(given: Given, plan: Plan, columns: list[int], n_rows: int, peak: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """The distinct values of some columns, float64, and the weight of each."""
    seen = [(np.empty(0), np.empty(0, np.int64)) for _ in columns]
    for table, weight in kept_rows(given, plan):
        weights = np.ones(table.n_rows, np.int64) if weight is None else integer_weights(weight, n_rows, peak)
        for k, j in enumerate(columns):
            values = np.concatenate([seen[k][0], table.column(j).astype(np.float64)])
            seen[k] = merged(values, np.concatenate([seen[k][1], weights]))
    return seen


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
        return sum(array.nbytes for array in own if array is not None and not is_mapped(array))

    def __reduce__(self) -> tuple[Any, ...]:
        """Codes that are on disk go to a disk again: where they are sent, or when Dask reads back what it spilled."""
        return _restored, (self.codes, self.y, self.weight, self.score, is_mapped(self.codes))


def _restored(codes: np.ndarray, y: np.ndarray, weight: Any, score: Any, mapped: bool) -> BinnedPart:
    return BinnedPart(Room().on_disk([codes], *codes.shape) if mapped else codes, y, weight, score)


def bin_rows(
    given: Given, plan: Plan, schema: Schema, cuts: tuple[np.ndarray, ...], n_rows: int, n_all: int
) -> BinnedPart:
    """Codes under the cut points. n_rows: of this partition; n_all: of all of them.

    Codes stay in memory where this worker could train on those of all partitions (three times as much, for a moment):
    others may die, and its share grow.
    """
    more: list[tuple[np.ndarray, np.ndarray | None, np.ndarray | None]] = []

    def codes() -> Iterator[np.ndarray]:
        for own in given.batches():
            table = own.read(schema)
            if table.entries is not None:  # bundles would differ from partition to partition
                table = replace(table, matrix=table.to_matrix(), entries=None)
            n = table.n_rows
            more.append((*rows_weights(own, plan, n), read_init_score(own.score, n, plan.n_outputs)))
            yield bin_table(table, cuts, 1).by_column

    room = Room()
    if room.fits(3 * len(cuts) * n_all):
        none = np.empty((len(cuts), 0), np.uint8)
        binned = np.concatenate([none, *codes()], axis=1)
        check_rows(binned.shape[1], n_rows)
    else:
        binned = room.on_disk(codes(), len(cuts), n_rows)
    y, weight, score = zip(*more, strict=True)
    return BinnedPart(binned, np.concatenate(y), joined(weight), joined(score))


def joined(arrays: Sequence[Any]) -> np.ndarray | None:
    """One array after the other, along the rows; None when there are none."""
    return None if not arrays or arrays[0] is None else np.concatenate(arrays, axis=-1)
