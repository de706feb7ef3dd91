"""From batches to bin codes on disk, without ever holding the table.

look      y and the weights are collected; the survey finds cut points                       (survey.py)
recount   columns that have few distinct values in the sample, but many in all: rarely needed
write     codes of every batch, row by row and column by column, into files of a store
"""

from __future__ import annotations

import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stagewise.data.batches import Batch, FrameBatches, Roles, Source, within
from stagewise.data.binning import Marginal
from stagewise.data.cache import (
    KIND,
    Header,
    Made,
    Parts,
    crowd_file,
    fresh,
    numbers_of,
    open_parts,
    stride_of,
    write_vectors,
)
from stagewise.data.categories import MOST_CODES, Levels, pooled
from stagewise.data.dataset import bin_table
from stagewise.data.frame import by_dtype, open_frame
from stagewise.data.labels import Labels, Vector
from stagewise.data.leveltables import LevelCounts
from stagewise.data.memory import give_back
from stagewise.data.ondisk import OnDisk
from stagewise.data.progress import row_bar
from stagewise.data.spool import spooled
from stagewise.data.survey import Found, Survey, Unequal, recount, shares_of_codes, whole_weights
from stagewise.data.table import Schema, Table, read_table
from stagewise.data.target import check_finite, read_weights
from stagewise.errors import InputError
from stagewise.storage.store import Building, StoreFile, build_store, locked, open_store

__all__ = ["Plan", "build_parts", "cached_parts", "from_pieces", "save_parts"]

_MOST_ROWS = 2**31
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to bin."""

    max_bins: int
    n_threads: int
    verbose: int
    like: OnDisk | None  # whose cut points to use
    categorical: Any = None  # which columns hold categories, see table.read_table


@dataclass(frozen=True, slots=True, eq=False)
class _Looked:
    """What a first look at all batches gives."""

    schema: Schema  # level tables have all levels
    reading: Schema  # ... and here they give the codes of levels, or their numbers where there are more than codes
    n_rows: int
    y: np.ndarray | Labels | None
    weight: np.ndarray | None
    found: Found | None  # None: the cut points are those of another Dataset
    print: int  # of some values: the second look must see the same
    crowds: dict[int, Levels]  # columns of more levels than codes: all levels, numbered


def cached_parts(
    make: Callable[[], Source], folder: Path, made: Callable[[], Made], plan: Plan, rebuild: bool = False
) -> Parts:
    """The Dataset of a cache folder, which is built first when it is not there, stale, or damaged.

    make: opens the source, only when it must be read. made: looks at the source files, before and after.
    """
    if not rebuild:
        parts, _ = _usable(folder, made())
        if parts is not None:
            return parts
    with locked(folder):
        before = made()
        if not rebuild:
            parts, why = _usable(folder, before)  # another process may have built it while we waited
            if parts is not None:
                return parts
            if why:
                warnings.warn(f"The dataset in {folder} is built anew: {why}.", stacklevel=4)
        with build_store(folder) as building:
            _build(make(), building, before, plan, made)
        return open_parts(open_store(folder, KIND, verify=False))


def _usable(folder: Path, made: Made) -> tuple[Parts | None, str]:
    """The parts of a cache, or None and why it cannot be used (empty when there is none)."""
    if not (folder / "manifest.stagewise").exists():
        return None, ""
    try:
        store = open_store(folder, KIND)
        why = fresh(store, made)
        return (None, why) if why else (open_parts(store), "")
    except InputError as error:
        return None, str(error).rstrip(".")


def build_parts(source: Source, plan: Plan) -> Parts:
    """Without a cache folder: the files have no name once they are mapped, so nothing stays behind."""
    with tempfile.TemporaryDirectory(prefix="stagewise-") as name:
        folder = Path(name)
        with build_store(folder) as building:
            made = Made(None, {})
            _build(source, building, made, plan, lambda: made)
        return open_parts(open_store(folder, KIND, verify=False))


def from_pieces(pieces: Any, roles: Roles, folder: Path | None, made: Made, plan: Plan) -> Parts:
    """A Dataset of frames or tuples; an iterator is kept on disk first."""
    with ExitStack() as stack:
        if isinstance(pieces, Iterator):
            room = stack.enter_context(tempfile.TemporaryDirectory(prefix="stagewise-", dir=_beside(folder)))
            pieces = stack.enter_context(spooled(pieces, Path(room)))
        named = (("columns", roles.columns is not None), ("ignore", bool(roles.ignore)))
        source = FrameBatches(pieces, roles, tuple(name for name, given in named if given))
        if folder is None:
            return build_parts(source, plan)
        return cached_parts(lambda: source, folder, lambda: made, plan, rebuild=True)


def _beside(folder: Path | None) -> Path | None:
    """Where an iterator is kept: on the disk of the cache, which has room, rather than in the system's folder."""
    if folder is None:
        return None
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder.parent


def save_parts(folder: Path, parts: Parts) -> None:
    """Write a Dataset that exists."""
    n, f = parts.bins.by_column.shape[1], parts.schema.n_columns
    y = parts.y
    if y is not None and not isinstance(y, Labels):
        vector = Vector("y")
        vector.add(y, n)
        y = vector.finish()
    crowds = {j: own.levels for j, own in parts.crowds.items()}
    header = Header(parts.cuts, parts.marginals, parts.schema, n, parts.max_bins, crowds)
    with locked(folder), build_store(folder) as building:
        stride = stride_of(f)
        rows, given = building.create("rows", n * stride), parts.bins.by_row.reshape(n, -1)
        for a in range(0, n, _ROWS_AT_ONCE):
            rows.write(0, given[a : a + _ROWS_AT_ONCE, :stride])
        columns = building.create("columns", n * f, f)
        for j in range(f):
            columns.write(j, parts.bins.by_column[j])
        for j, own in parts.crowds.items():
            building.create(crowd_file(j), 4 * n).write(0, own.level.astype(np.int32))
        write_vectors(building, y, parts.weight)
        building.commit(header.content(Made(None, {}), y, parts.weight))


# --- the looks -------------------------------------------------------------------------------------------------------


def _build(source: Source, building: Building, made: Made, plan: Plan, now: Callable[[], Made]) -> None:
    """Everything from the first look to the commit. now: what `made` would be now, when all is read."""
    looked = _look(source, plan)
    found, like = looked.found, plan.like
    if like is not None:
        cuts, marginals = list(like.cuts), list(like.marginals)
    else:
        assert found is not None
        cuts, marginals = found.columns.cuts, found.columns.marginals
        if found.open_cuts:
            names = looked.schema.names
            only = None if names is None else tuple(names[j] for j in found.open_cuts)
            for j, own, marginal in recount(_tables(source, looked, only, found.open_cuts), found, plan.max_bins):
                cuts[j], marginals[j] = own, marginal
        for j, levels in _in_sets(looked.schema):  # codes have a bin each, whatever max_bins says
            cuts[j] = np.arange(max(0, levels.n_codes - 1), dtype=np.float64)
            marginals[j] = Marginal(np.arange(levels.n_codes, dtype=np.float64), np.empty(0), 0.0)
    counts = _write(source, building, looked, tuple(cuts), plan)
    for j, weights in counts.items():
        marginals[j] = shares_of_codes(marginals[j].points, weights)
    header = Header(tuple(cuts), tuple(marginals), looked.schema, looked.n_rows, plan.max_bins, looked.crowds)
    write_vectors(building, looked.y, looked.weight)
    if now().sources != made.sources:
        raise InputError("The source files changed while they were read; run again when they are at rest.")
    building.commit(header.content(made, looked.y, looked.weight))
    give_back()


def _in_sets(schema: Schema) -> Iterator[tuple[int, Levels]]:
    return ((j, own) for j, own in enumerate(schema.levels) if own is not None)


def _read(batch: Batch, like: Schema | None, categorical: Any = None) -> Table:
    with within(batch.where):
        table = read_table(batch.X, like=like, categorical=categorical, estimator_name="the first batch")
        # on disk every column has its own codes: a batch of a sparse matrix is taken as a dense one
        return table if table.entries is None else replace(table, matrix=table.to_matrix(), entries=None)


def _look(source: Source, plan: Plan) -> _Looked:
    """One look at all batches, and another one where it turns out late that a column holds text."""
    categorical = plan.categorical
    while True:
        try:
            return _look_once(source, plan, categorical)
        except _LateTextError as found:
            categorical = found.categorical


def _look_once(source: Source, plan: Plan, categorical: Any) -> _Looked:
    y, weights, survey = Vector("y"), Vector("sample_weight"), None
    known = None if plan.like is None else plan.like.whole_schema
    schema, by_type = known, isinstance(plan.categorical, str)
    levels: dict[int, LevelCounts] = {}
    n, seal = 0, 0
    with row_bar(plan.verbose, "looking", source.n_rows) as bar:
        for batch in source.batches():
            if survey is not None and by_type:
                _check_late_text(batch, survey, levels)
            table = _read(batch, known, categorical)
            if n == 0:
                has_y, has_weight = batch.y is not None, batch.weight is not None
                if plan.like is None:
                    schema, categorical = Schema(table.n_columns, table.names), sorted(table.schema.coded)
                    survey = Survey(table.n_columns, plan.max_bins, table.schema.coded)
                    levels = {j: LevelCounts(schema.label(j)) for j in categorical}
            assert schema is not None
            with within(batch.where):
                schema.check_names(table.names, table.n_columns, "the first batch")
                for name, came, here in (("y", has_y, batch.y), ("sample_weight", has_weight, batch.weight)):
                    if here is not None and not came:
                        raise InputError(f"{name} comes with these rows, but did not with the {n:,} before them.")
                if has_y:
                    y.add(batch.y, table.n_rows)
                weight = weights.add(batch.weight, table.n_rows) if has_weight else None
                for j, own in levels.items():
                    batch_levels = table.levels[j]
                    assert batch_levels is not None
                    own.add(batch_levels, table.column(j))
            n, seal = n + table.n_rows, _seal(table, seal)
            if n >= _MOST_ROWS:
                raise InputError(f"There are more than {_MOST_ROWS - 1:,} rows, which cannot be trained on at once.")
            if survey is not None:
                survey.add(table, weight)
            bar(table.n_rows)
    if n == 0 or schema is None:
        raise InputError("Found array with 0 sample(s): no batch has any rows, while a minimum of 1 is required.")
    target = y.finish() if has_y else None
    if isinstance(target, np.ndarray) and target.dtype.kind == "f":
        check_finite(target, "y")
    weight = read_weights(weights.finish(), n) if has_weight else None
    found = None if survey is None else survey.finish(weight, plan.n_threads)
    schema, reading, crowds = _leveled(schema, levels)
    if plan.like is not None:
        schema, crowds = plan.like.schema, {j: own.levels for j, own in plan.like.crowds.items()}
    return _Looked(schema, reading, n, target, weight, found, seal, crowds)


class _LateTextError(Exception):
    """A column had nothing but nulls, of no type, up to a batch in which it holds text or categories."""

    def __init__(self, categorical: list[int]) -> None:
        super().__init__()
        self.categorical = categorical


def _check_late_text(batch: Batch, survey: Survey, levels: dict[int, LevelCounts]) -> None:
    """Raise _LateTextError where a batch says by its types that more columns are categories than those of `levels`."""
    if (frame := open_frame(batch.X)) is not None:
        late = by_dtype(frame) - set(levels)
        if late and all(survey.is_empty(j) for j in late):
            raise _LateTextError(sorted({*levels, *late}))


def _leveled(schema: Schema, counted: dict[int, LevelCounts]) -> tuple[Schema, Schema, dict[int, Levels]]:
    """The schema with level tables, the one to read batches with, and the columns of more levels than codes."""
    if not counted:
        return schema, schema, {}
    codes: list[Levels | None] = [None] * schema.n_columns
    reading, crowds = codes.copy(), {}
    for j, own in counted.items():
        levels, counts = own.finish()
        codes[j] = reading[j] = pooled(levels, counts)
        if levels.n_codes > MOST_CODES:
            reading[j], crowds[j] = numbers_of(levels), levels
    return replace(schema, levels=tuple(codes)), replace(schema, levels=tuple(reading)), crowds


def _seal(table: Table, before: int) -> int:
    """A checksum of the first column of numbers, to notice a source that gives other rows when it is read again."""
    plain = next((j for j in range(table.n_columns) if j not in table.schema.coded), None)
    values = np.array([table.n_rows]) if plain is None else np.ascontiguousarray(table.column(plain))
    return zlib.crc32(values.view(np.uint8).data, before)


def _tables(
    source: Source, looked: _Looked, only: tuple[str, ...] | None, columns: tuple[int, ...]
) -> Iterator[tuple[Table, np.ndarray | None]]:
    """The tables of some columns, and the weights of their rows."""
    at = 0
    for batch in source.batches(only):
        if only is None:
            table = _read(batch, looked.reading)
            own = tuple(np.ascontiguousarray(table.column(j)) for j in columns)
            table = Table(None, own, None, table.n_rows, len(columns))
        else:
            table = _read(batch, None)
        weight = None if looked.weight is None else looked.weight[at : at + table.n_rows]
        at += table.n_rows
        _check_length(at, looked.n_rows)
        yield table, weight


def _write(
    source: Source, building: Building, looked: _Looked, cuts: tuple[np.ndarray, ...], plan: Plan
) -> dict[int, np.ndarray]:
    """Write the codes of all batches; for columns whose bins have no weights yet, the weight of every code (256)."""
    n, f = looked.n_rows, len(cuts)
    rows: StoreFile = building.create("rows", n * stride_of(f))
    columns: StoreFile = building.create("columns", n * f, f)
    numbers = {j: building.create(crowd_file(j), 4 * n) for j in looked.crowds}
    weighing = _Weighing(looked)
    at, seal = 0, 0
    with row_bar(plan.verbose, "binning", n) as bar:
        for batch in source.batches():
            table = _read(batch, looked.reading)
            seal = _seal(table, seal)
            _check_length(at + table.n_rows, n)
            table = _pooled(table, looked, numbers)
            bins = bin_table(table, cuts, plan.n_threads)
            rows.write(0, bins.by_row)
            for j in range(f):
                columns.write(j, bins.by_column[j])
            weighing.add(bins.by_column, at)
            at += table.n_rows
            bar(table.n_rows)
    if at != n or seal != looked.print:
        raise _OtherRowsError(at, n)
    return weighing.counts


def _pooled(table: Table, looked: _Looked, files: dict[int, StoreFile]) -> Table:
    """The table with codes in columns of more levels than codes; the numbers of the levels go to their files."""
    changed: dict[int, tuple[Levels, Any]] = {}
    for j, file in files.items():
        levels, cells = looked.schema.levels[j], table.column(j)
        assert levels is not None
        index = np.where(np.isnan(cells), -1, cells).astype(np.int32)
        file.write(0, index)
        # the last two: levels that the other Dataset has not, -2, and missing values
        changed[j] = levels, np.append(levels.numbers, [np.nan, np.nan]).astype(np.float32)[index]
    return table.with_columns(changed) if changed else table


class _Weighing:
    """The weight of every code of the columns for which the first look did not say it."""

    def __init__(self, looked: _Looked) -> None:
        found, self._weight = looked.found, looked.weight
        numbers = () if found is None else found.open_shares
        sets = () if found is None else tuple(j for j, _ in _in_sets(looked.schema))
        self.counts = {j: np.zeros(256, np.int64) for j in (*numbers, *sets)}
        # columns of numbers count rows that have weight, equal weights as 1; categories all rows (see Dataset)
        every = None if looked.weight is None else Unequal(looked.n_rows, float(looked.weight.max()))
        self._ways = [(numbers, None if found is None else found.unequal), (sets, every)]

    def add(self, codes: np.ndarray, at: int) -> None:
        """codes: uint8 (n_columns, rows) of the rows from `at` on."""
        weight = None if self._weight is None else self._weight[at : at + codes.shape[1]]
        for columns, unequal in self._ways:
            whole = whole_weights(weight, unequal) if columns else np.empty(0)
            for j in columns:  # exact: all sums are below 2**53
                self.counts[j] += np.bincount(codes[j], whole if len(whole) else None, 256).astype(np.int64)


def _check_length(at: int, n: int) -> None:
    if at > n:
        raise _OtherRowsError(at, n)


class _OtherRowsError(InputError):
    def __init__(self, now: int, before: int) -> None:
        what = f"{now:,} rows instead of {before:,}" if now != before else "other rows"
        super().__init__(
            f"The source gave {what} when it was read a second time. Give a callable that starts anew at every call, "
            "or an iterator, which is read once and kept on disk."
        )
