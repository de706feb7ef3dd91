"""Which features share a column of codes: exclusive feature bundling (see `kernels/bundles.py` for what that means).

Columns of a sparse matrix always try to; of a dense one, those that are almost always in one bin. Two share a column
when no row has both off their default bin, so nothing is lost and the model is the same; with a conflict rate above 0
some rows may, and there the feature of the lowest number keeps its value and the others seem to be at their default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stagewise.data.binning import Marginal
from stagewise.data.memory import check_room
from stagewise.data.sparse import Sparse
from stagewise.kernels.binning import aligned_bytes, interleave, row_bytes
from stagewise.kernels.bundles import MIXED, PLAIN, SINGLE, WITH_MISSING, Bundles
from stagewise.kernels.entries import WORDS, assign_bundles, entry_codes, write_bundles
from stagewise.kernels.histogram import Bins
from stagewise.kernels.team import Team

__all__ = ["bin_entries", "bundle_columns", "unbundled"]

MISSING = 255

_USUAL = 0.8
"""Share of a dense column's weight in one bin from which on it may be bundled."""

_WORTH = 0.75
"""A dense table is bundled when this share of its columns, or less, is left."""


class Codes(NamedTuple):
    """The bin codes of columns that differ from a column's default code, and perhaps some that do not."""

    start: np.ndarray  # int64 (n_columns + 1)
    rows: np.ndarray  # int32
    codes: np.ndarray  # uint8
    default: np.ndarray  # uint8 (n_columns): 255 when most of it is missing
    n_bins: np.ndarray  # int64 (n_columns)
    n_rows: int


def bin_entries(table: Sparse, cuts: Sequence[np.ndarray], n_threads: int, conflict_rate: float = 0.0) -> Bins:
    """The bins of a sparse matrix under given cut points, bundled."""
    entries, (n_rows, n_columns) = table.by_column(), table.shape
    n_cuts = np.array([len(own) for own in cuts], np.int64)
    codes, zero = np.empty(len(entries.place), np.uint8), np.empty(n_columns, np.uint8)
    with Team(n_threads if len(codes) >= 50_000 else 1) as team:
        team.run(
            entry_codes, entries.start, entries.values, np.append(0, np.cumsum(n_cuts)),
            np.concatenate([np.empty(0), *cuts]), table.empty, codes, zero,
        )  # fmt: skip
    found = Codes(entries.start, entries.place, codes, zero, n_cuts + 1, n_rows)
    return laid_out(found, find_bundles(found, conflict_rate), n_threads)


def bundle_columns(bins: Bins, marginals: Sequence[Marginal], n_threads: int, conflict_rate: float = 0.0) -> Bins:
    """Bins of a dense table with its mostly constant columns bundled; as they were when that does not pay."""
    usual = [len(own.shares) > 0 and own.shares.max() >= _USUAL for own in marginals]
    if sum(usual) < (1.0 - _WORTH) * len(usual):
        return bins
    default = np.array([int(own.shares.argmax()) if can else 0 for own, can in zip(marginals, usual, strict=True)])
    rows = [
        np.flatnonzero(bins.by_column[j] != default[j]).astype(np.int32) if can else np.empty(0, np.int32)
        for j, can in enumerate(usual)
    ]
    found = Codes(
        np.append(0, np.cumsum([len(own) for own in rows])),
        np.concatenate(rows),
        np.concatenate([bins.by_column[j, own] for j, own in enumerate(rows)]),
        default.astype(np.uint8),
        bins.n_bins,
        bins.by_column.shape[1],
    )
    bundles = find_bundles(found, conflict_rate, np.array(usual))
    if len(bundles.kind) > _WORTH * len(usual):
        return bins
    return laid_out(found, bundles, n_threads, bins)


def find_bundles(found: Codes, conflict_rate: float, usual: np.ndarray | None = None) -> Bundles:
    """Who shares a column with whom: greedily, in the order of the columns and by descending number of rows off the
    default; the better of the two. usual: columns that may be bundled, None for all."""
    n_bins, n_columns = found.n_bins, len(found.n_bins)
    counts = np.diff(found.start)
    column = np.repeat(np.arange(n_columns), counts)
    missing = np.zeros(n_columns, np.bool_)
    missing[column[found.codes == MISSING]] = True
    default = np.where(found.default == MISSING, n_bins, found.default).astype(np.int64)
    size = np.where(default == n_bins, n_bins, n_bins - 1 + missing)
    # a missing code comes last in its range: only with the lowest bin as default are the sides of all splits ranges
    size[missing & (default > 0) & (default < n_bins)] = -1
    if usual is not None:
        size[~usual] = -1
    best, fewest = np.empty(0, np.int64), n_columns + 1
    tries = [(most, order) for most in sorted({0, int(conflict_rate * found.n_rows)}) for order in ("given", "dense")]
    for most, first in tries:  # conflicts are allowed only where they save a column
        order = np.arange(n_columns) if first == "given" else np.argsort(-counts, kind="stable")
        out = np.empty(n_columns, np.int64)
        marks = np.zeros((found.n_rows, WORDS), np.uint64)
        n = assign_bundles(
            found.start, found.rows, found.codes, found.default, size, order.astype(np.int64), most, marks, out
        )
        if n < fewest:
            best, fewest = out, n
    return _bundles(best, size, default, n_bins)


def _bundles(assigned: np.ndarray, size: np.ndarray, default: np.ndarray, n_bins: np.ndarray) -> Bundles:
    """The records of bundles; a feature alone keeps its own codes. Bundles in the order of their first members."""
    _, lowest, number = np.unique(assigned, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(lowest))[number]  # of each feature's bundle
    member = np.argsort(place, kind="stable")
    start = np.append(0, np.cumsum(np.bincount(place)))
    alone = np.diff(start) == 1
    own = np.where(alone[place], 0, size)
    codes_before = np.append(0, np.cumsum(own[member]))
    n_codes = np.diff(codes_before[start])
    before = codes_before[:-1] - np.repeat(codes_before[start[:-1]], np.diff(start))  # of a member, in its bundle
    # base codes of neighbouring columns in different cache lines, eight entries each: see kernels/bundles.py
    wanted = 8 * (5 * np.arange(len(alone)) % 31) % (n_codes + 1)
    base = np.minimum.reduceat(np.where(before >= np.repeat(wanted, np.diff(start)), before, 255), start[:-1])
    base = np.minimum(base, n_codes)
    first = np.empty(len(size), np.int64)
    first[member] = before + (before >= np.repeat(base, np.diff(start)))
    first[alone[place]] = -1
    single = np.maximum.reduceat((own != 1)[member].astype(np.int64), start[:-1]) == 0
    with_missing = np.maximum.reduceat((own == n_bins)[member].astype(np.int64), start[:-1]) == 1
    kind = np.where(alone, PLAIN, np.where(single, SINGLE, np.where(with_missing, WITH_MISSING, MIXED)))
    return Bundles(
        kind=kind.astype(np.int64),
        base=base.astype(np.int64),
        start=start.astype(np.int64),
        member=member.astype(np.int64),
        column=place.astype(np.int64),
        first=first,
        size=own.astype(np.int64),
        default=default,
        n_bins=n_bins,
    )


def laid_out(found: Codes, bundles: Bundles, n_threads: int, plain: Bins | None = None) -> Bins:
    """The bins of bundles; plain: where the codes of columns that stay alone are."""
    n_columns, n_rows = len(bundles.kind), found.n_rows
    stride = row_bytes(n_columns)
    check_room(n_rows * (stride + n_columns), f"The bin codes of X, {n_rows:,} rows in {n_columns:,} bundles,")
    by_column, by_row = np.empty((n_columns, n_rows), np.uint8), aligned_bytes(n_rows * stride)
    with Team(n_threads if by_row.size >= 50_000 else 1) as team:
        team.run(
            write_bundles, team.gate, bundles, found.start, found.rows, found.codes, found.default, by_column
        )  # fmt: skip
        if plain is not None:
            for c in np.flatnonzero(bundles.kind == PLAIN):
                by_column[c] = plain.by_column[bundles.member[bundles.start[c]]]
        team.run(interleave, by_column, stride, by_row)
    alone = bundles.kind == PLAIN
    codes = 1 + np.add.reduceat(bundles.size[bundles.member], bundles.start[:-1])
    n_bins = np.where(alone, found.n_bins[bundles.member[bundles.start[:-1]]], codes).astype(np.int64)
    if alone.all() and (bundles.member == np.arange(len(bundles.member))).all():
        return Bins(by_row, by_column, n_bins, stride)
    return Bins(by_row, by_column, n_bins, stride, bundles)


def unbundled(bins: Bins) -> Bins:
    """The same codes with a column for each feature, for learners that look at features one by one."""
    bundles = bins.bundles
    if len(bundles.column) == 0:
        return bins
    n_features, n_rows = len(bundles.column), bins.by_column.shape[1]
    stride = row_bytes(n_features)
    check_room(n_rows * (stride + n_features), f"The bin codes of {n_rows:,} × {n_features:,} cells, not bundled,")
    by_column, by_row = np.empty((n_features, n_rows), np.uint8), aligned_bytes(n_rows * stride)
    for j in range(n_features):
        codes = bins.by_column[bundles.column[j]]
        if bundles.first[j] >= 0:
            d, n, size = int(bundles.default[j]), int(bundles.n_bins[j]), int(bundles.size[j])
            table = np.full(256, MISSING if d == n else d, np.uint8)
            own = np.delete(np.arange(n), d) if d < n else np.arange(n)
            table[bundles.first[j] + np.arange(size)] = np.append(own, MISSING)[:size]
            codes = table[codes]
        by_column[j] = codes
    with Team(1) as team:
        team.run(interleave, by_column, stride, by_row)
    return Bins(by_row, by_column, bundles.n_bins, stride)
