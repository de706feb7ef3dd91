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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stagewise.data.batches import Batch, FrameBatches, Roles, Source, spooled, within
from stagewise.data.cache import KIND, Header, Made, Parts, fresh, open_parts, stride_of, write_vectors
from stagewise.data.dataset import Dataset, bin_table
from stagewise.data.labels import Labels, Vector
from stagewise.data.progress import row_bar
from stagewise.data.survey import Found, Survey, recount, shares_of_codes, whole_weights
from stagewise.data.table import Schema, Table, read_table
from stagewise.data.target import check_finite, read_weights
from stagewise.errors import InputError
from stagewise.storage.store import Building, StoreFile, build_store, locked, open_store

__all__ = ["Plan", "build_parts", "cached_parts", "from_pieces", "save_parts"]

_MOST_ROWS = 2**31


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to bin."""

    max_bins: int
    n_threads: int
    verbose: int
    like: Dataset | None  # whose cut points to use


@dataclass(frozen=True, slots=True, eq=False)
class _Looked:
    """What a first look at all batches gives."""

    schema: Schema
    n_rows: int
    y: np.ndarray | Labels | None
    weight: np.ndarray | None
    found: Found | None  # None: the cut points are those of another Dataset
    print: int  # of some values: the second look must see the same


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
            _build(make(), building, before, plan)
            if made().sources != before.sources:
                raise InputError("The source files changed while they were read; run again when they are at rest.")
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
            _build(source, building, Made(None, {}), plan)
        return open_parts(open_store(folder, KIND, verify=False))


def from_pieces(pieces: Any, roles: Roles, folder: Path | None, made: Made, plan: Plan) -> Parts:
    """A Dataset of frames or tuples; an iterator is kept on disk first."""
    with ExitStack() as stack:
        if isinstance(pieces, Iterator):
            room = stack.enter_context(tempfile.TemporaryDirectory(prefix="stagewise-", dir=_beside(folder)))
            pieces = stack.enter_context(spooled(pieces, Path(room)))
        source = FrameBatches(pieces, roles)
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
    n, f = parts.bins.by_column.shape[1], len(parts.cuts)
    y = parts.y
    if y is not None and not isinstance(y, Labels):
        vector = Vector("y")
        vector.add(y, n)
        y = vector.finish()
    header = Header(parts.cuts, parts.marginals, parts.schema, n, parts.max_bins)
    with locked(folder), build_store(folder) as building:
        building.create("rows", n * parts.bins.stride).write(0, parts.bins.by_row)
        columns = building.create("columns", n * f, f)
        for j in range(f):
            columns.write(j, parts.bins.by_column[j])
        write_vectors(building, y, parts.weight)
        building.commit(header.content(Made(None, {}), y, parts.weight))


# --- the looks -------------------------------------------------------------------------------------------------------


def _build(source: Source, building: Building, made: Made, plan: Plan) -> None:
    looked = _look(source, plan)
    if plan.like is not None:
        cuts, marginals = list(plan.like.cuts), list(plan.like.marginals)
    else:
        assert looked.found is not None
        columns = looked.found.columns
        cuts, marginals = columns.cuts, columns.marginals
        if looked.found.open_cuts:
            names = looked.schema.names
            only = None if names is None else tuple(names[j] for j in looked.found.open_cuts)
            for j, own, marginal in recount(
                _tables(source, looked, only, looked.found.open_cuts), looked.found, plan.max_bins
            ):
                cuts[j], marginals[j] = own, marginal
    counts = _write(source, building, looked, tuple(cuts), plan)
    for j, own in counts.items():
        marginals[j] = shares_of_codes(marginals[j].points, own)
    header = Header(tuple(cuts), tuple(marginals), looked.schema, looked.n_rows, plan.max_bins)
    write_vectors(building, looked.y, looked.weight)
    building.commit(header.content(made, looked.y, looked.weight))


def _read(batch: Batch, like: Schema | None) -> Table:
    with within(batch.where):
        return read_table(batch.X, like=like, estimator_name="the first batch")


def _look(source: Source, plan: Plan) -> _Looked:
    """One look at all batches."""
    y, weights, survey = Vector("y"), Vector("sample_weight"), None
    schema = None if plan.like is None else plan.like.schema
    n, seal = 0, 0
    with row_bar(plan.verbose, "looking", source.n_rows) as bar:
        for batch in source.batches():
            table = _read(batch, schema)
            if n == 0:
                schema, has_y, has_weight = table.schema, batch.y is not None, batch.weight is not None
                if plan.like is None:
                    survey = Survey(table.n_columns, plan.max_bins)
            if has_y:
                with within(batch.where):
                    y.add(batch.y, table.n_rows)
            weight = None
            if has_weight:
                with within(batch.where):
                    weight = weights.add(batch.weight, table.n_rows)
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
    return _Looked(schema, n, target, weight, found, seal)


def _seal(table: Table, before: int) -> int:
    """A checksum of the first column, to notice a source that gives other rows when it is read again."""
    return zlib.crc32(np.ascontiguousarray(table.column(0)).view(np.uint8).data, before)


def _tables(
    source: Source, looked: _Looked, only: tuple[str, ...] | None, columns: tuple[int, ...]
) -> Iterator[tuple[Table, np.ndarray | None]]:
    """The tables of some columns, and the weights of their rows."""
    at = 0
    for batch in source.batches(only):
        table = _read(batch, None)
        if only is None:
            own = tuple(np.ascontiguousarray(table.column(j)) for j in columns)
            table = Table(None, own, None, table.n_rows, len(columns))
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
    found = looked.found
    counts = {j: np.zeros(256, np.int64) for j in (() if found is None else found.open_shares)}
    at, seal = 0, 0
    with row_bar(plan.verbose, "binning", n) as bar:
        for batch in source.batches():
            table = _read(batch, looked.schema)
            seal = _seal(table, seal)
            _check_length(at + table.n_rows, n)
            bins = bin_table(table, cuts, plan.n_threads)
            rows.write(0, bins.by_row)
            for j in range(f):
                columns.write(j, bins.by_column[j])
            if counts and found is not None:
                weight = None if looked.weight is None else looked.weight[at : at + table.n_rows]
                _count_codes(counts, bins.by_column, weight, found)
            at += table.n_rows
            bar(table.n_rows)
    if at != n or seal != looked.print:
        raise _OtherRowsError(at, n)
    return counts


def _count_codes(counts: dict[int, np.ndarray], codes: np.ndarray, weight: np.ndarray | None, found: Found) -> None:
    whole = whole_weights(weight, found.unequal)
    for j, own in counts.items():
        own += np.bincount(codes[j], whole if len(whole) else None, 256).astype(np.int64)  # exact: below 2**53


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
