"""A Dataset: a table binned once, ready for any number of fits.

    ds = sw.Dataset(X, y)
    for depth in (3, 5, 7):
        GradientBoostingRegressor(max_depth=depth).fit(ds)

The model is the same as from X and y themselves, with the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from stagewise.data.binning import Marginal, find_cuts, integer_weights
from stagewise.data.categories import FROM_DTYPE, MOST_CODES, Levels, level_index, pooled
from stagewise.data.statistics import target_statistics
from stagewise.data.table import Table, read_table
from stagewise.data.target import read_weights
from stagewise.errors import InputError
from stagewise.kernels.binning import bin_column, bin_matrix, interleave
from stagewise.kernels.histogram import Bins
from stagewise.kernels.partition import MISSING
from stagewise.kernels.team import Team, available_cores
from stagewise.params import check_count, job_count

__all__ = ["Dataset", "bin_table", "padded_cuts"]


class Crowd(NamedTuple):
    """All levels of a column, and the one of each row."""

    levels: Levels
    level: np.ndarray  # int32 (n_rows,), -1 where missing, -2 for a level that is not among them


class Dataset:
    """The bin codes of a table, the cut points that made them, and optionally y and sample weights.

    X: any table (NumPy, pandas, polars, Arrow); y: target or labels, needed for `fit(dataset)`.
    max_bins: 2 to 255. n_jobs: threads for binning; the result does not depend on it.
    categorical_features: as in `GradientBoostingRegressor`.
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        max_bins: int = 255,
        n_jobs: int | None = None,
        categorical_features: Any = FROM_DTYPE,
    ) -> None:
        table = X if isinstance(X, Table) else read_table(X, categorical=categorical_features)
        if table.n_rows >= 2**31:  # row numbers and the packing of gradients have room for fewer
            raise InputError(f"X has {table.n_rows:,} rows; at most 2,147,483,647 can be trained on at once.")
        max_bins = check_count("max_bins", max_bins, 2, 255)
        threads = job_count(n_jobs, available_cores())
        self.y = y
        self.sample_weight = read_weights(sample_weight, table.n_rows)
        self.max_bins = max_bins
        self.n_rows = table.n_rows
        self.n_columns = table.n_columns
        self.crowds = _crowds(table)
        table = pool_table(table)
        self.schema = table.schema
        self.cuts, self.marginals = _divided(table, self.sample_weight, max_bins, threads)
        self.bins = bin_table(table, self.cuts, threads)

    def by_target(
        self,
        crowds: Mapping[int, Crowd],
        y: np.ndarray,
        weight: np.ndarray | None,
        training: np.ndarray,
        n_jobs: int,
    ) -> tuple[Dataset, dict[int, tuple[Levels, np.ndarray]]]:
        """The same data with ordered target statistics in some of its columns, and these columns.

        y, weight and training (bool) have an entry for each row; see statistics.py. A crowd that brings statistics (of
        a model to go on from) keeps them; where they are those of this data too, rows get ordered ones all the same.
        """
        levels, cuts, marginals = list(self.schema.levels), list(self.cuts), list(self.marginals)
        n_bins, by_column = self.bins.n_bins.copy(), self.bins.by_column.copy()
        made: dict[int, tuple[Levels, np.ndarray]] = {}
        for j, (own, index) in crowds.items():
            found = target_statistics(np.maximum(index, -1), len(own.values), y, weight, training)
            same = np.array_equal(found.levels, own.numbers) and found.prior == own.unseen
            if own.by_target and not same:
                rows = np.concatenate([own.numbers, [own.unseen, np.nan]])[index]
                found = found._replace(rows=rows, levels=own.numbers, prior=own.unseen)
            made[j] = Levels(own.values, found.levels, True, found.prior), found.rows
            levels[j] = made[j][0]
            alone = Table(None, (found.rows,), None, self.n_rows, 1)
            (cuts[j],), (marginals[j],) = find_cuts(alone, self.sample_weight, self.max_bins, n_jobs)
            binned = bin_table(alone, (cuts[j],), n_jobs)
            n_bins[j], by_column[j] = binned.n_bins[0], binned.by_column[0]
        changed = copy(self)
        changed.schema = replace(self.schema, levels=tuple(levels))
        changed.cuts, changed.marginals = tuple(cuts), tuple(marginals)
        by_row = np.empty_like(self.bins.by_row)
        with Team(n_jobs if by_row.size >= 50_000 else 1) as team:
            team.run(interleave, by_column, self.bins.stride, by_row)
        changed.bins = Bins(by_row, by_column, n_bins, self.bins.stride)
        return changed, made

    def crowd(self, j: int) -> Crowd:
        """The levels of a categorical column; where they are few, its codes are their numbers."""
        codes, levels = self.bins.by_column[j].astype(np.int32), self.schema.levels[j]
        assert levels is not None
        return self.crowds[j] if j in self.crowds else Crowd(levels, np.where(codes == MISSING, -1, codes))

    @property
    def names(self) -> tuple[str, ...] | None:
        """Column names, None when the input had none."""
        return self.schema.names

    def __repr__(self) -> str:
        bins = int(self.bins.n_bins.sum())
        return f"Dataset({self.n_rows:,} rows × {self.n_columns:,} columns, {bins:,} bins)"


def _crowds(table: Table) -> dict[int, Crowd]:
    """Columns of more levels than there are codes."""
    found = {}
    for j, levels in enumerate(table.levels):
        if levels is not None and levels.n_codes > MOST_CODES:
            found[j] = Crowd(levels, level_index(table.column(j)))
    return found


def pool_table(table: Table) -> Table:
    """The table with at most 255 codes in a categorical column: where there are more levels, rare ones share a code."""
    changed = {}
    for j, levels in enumerate(table.levels):
        if levels is not None and levels.n_codes > MOST_CODES:
            cells = table.column(j)
            own = pooled(levels, np.bincount(cells[~np.isnan(cells)].astype(np.int64), minlength=levels.n_codes))
            codes = np.append(own.numbers, np.nan).astype(np.float32)
            changed[j] = own, codes[np.where(np.isnan(cells), -1, cells).astype(np.int64)]
    return table.with_columns(changed) if changed else table


def _divided(
    table: Table, weight: np.ndarray | None, max_bins: int, n_threads: int
) -> tuple[tuple[np.ndarray, ...], tuple[Marginal, ...]]:
    """Cut points and distribution of every column. Codes have a bin each, whatever max_bins says."""
    found = find_cuts(table, weight, max_bins, n_threads)
    cuts, marginals = list(found[0]), list(found[1])
    whole = None if weight is None else integer_weights(weight)
    for j in np.flatnonzero(table.schema.in_sets).tolist():
        levels, cells = table.levels[j], table.column(j)
        assert levels is not None
        known = ~np.isnan(cells)
        shares = np.bincount(
            cells[known].astype(np.int64), None if whole is None else whole[known], minlength=levels.n_codes
        )
        total = float(len(cells) if whole is None else whole.sum())
        cuts[j] = np.arange(max(0, levels.n_codes - 1), dtype=np.float64)
        missing = (total - float(shares.sum())) / total
        marginals[j] = Marginal(np.arange(levels.n_codes, dtype=np.float64), shares / total, missing)
    return tuple(cuts), tuple(marginals)


def padded_cuts(cuts: tuple[np.ndarray, ...]) -> np.ndarray:
    """Cut points as float64 (n_columns, 256), padded with +inf: code b of a column is value <= padded[b]."""
    padded = np.full((len(cuts), 256), np.inf)
    for j, own in enumerate(cuts):
        padded[j, : len(own)] = own
    return padded


def narrowed(padded: np.ndarray) -> np.ndarray:
    """Cut points for float32 values: the largest float32 not above each. value > cut is the same question for both."""
    with np.errstate(over="ignore"):
        narrow = padded.astype(np.float32)
    return np.where(narrow > padded, np.nextafter(narrow, np.float32(-np.inf)), narrow)


def bin_table(table: Table, cuts: tuple[np.ndarray, ...], n_threads: int) -> Bins:
    """Codes of a table under given cut points (those of the training data, for a validation set)."""
    n, f = table.n_rows, table.n_columns
    stride = -(-f // 4) * 4
    padded = padded_cuts(cuts)
    by_row = np.empty(n * stride, np.uint8)
    by_column = np.empty((f, n), np.uint8)
    with Team(n_threads if n * f >= 50_000 else 1) as team:
        if table.matrix is not None:
            own = narrowed(padded) if table.matrix.dtype == np.float32 else padded
            team.run(bin_matrix, table.matrix, own, stride, by_row, by_column)
        else:
            for j in range(f):
                team.run(bin_column, table.column(j), padded[j], by_column[j])
            team.run(interleave, by_column, stride, by_row)
    n_bins = np.array([len(own) + 1 for own in cuts], np.int64)
    return Bins(by_row=by_row, by_column=by_column, n_bins=n_bins, stride=stride)
