"""A Dataset: a table binned once, ready for any number of fits.

    ds = sw.Dataset(X, y)
    for depth in (3, 5, 7):
        GradientBoostingRegressor(max_depth=depth).fit(ds)

The model is the same as from X and y themselves, with the same weights. Folds are views, for which nothing is copied:

    for train, test in KFold(5).split(np.arange(ds.n_rows)):
        model = GradientBoostingRegressor().fit(ds.subset(train))
        model.predict(ds.subset(test))

It can be made from files that are larger than memory, and be kept on disk: the model is still the same.

    ds = sw.Dataset.from_parquet("data/*.parquet", target="price", cache="cache/prices")
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from stagewise.data.binning import Marginal, find_cuts, integer_weights
from stagewise.data.bundling import bin_entries, bundle_columns
from stagewise.data.categories import FROM_DTYPE, MOST_CODES, Levels, level_index, pooled
from stagewise.data.leveltables import Crowd
from stagewise.data.ondisk import OnDisk
from stagewise.data.rebinned import with_codes
from stagewise.data.statistics import target_statistics
from stagewise.data.table import Schema, Table, read_table
from stagewise.data.target import read_weights, take_rows
from stagewise.data.view import read_rows
from stagewise.errors import InputError, InputTypeError, ParameterError
from stagewise.kernels.binning import aligned_bytes, bin_column, bin_matrix, interleave, row_bytes
from stagewise.kernels.histogram import Bins
from stagewise.kernels.partition import MISSING
from stagewise.kernels.team import Team, available_cores
from stagewise.params import check_choice, check_count, check_number, job_count

__all__ = ["Dataset", "bin_table", "coded_bins", "padded_cuts"]


class Dataset(OnDisk):
    """The bin codes of a table, the cut points that made them, and optionally y and sample weights.

    X: any table (NumPy, pandas, polars, Arrow, scipy.sparse); y: target or labels, needed for `fit(dataset)`.
    max_bins: 2 to 255. n_jobs: threads for binning; the result does not depend on it.
    zeros: "values", or "missing" when a zero (stored or not) says that there is no value; a model remembers it.
    max_conflict_rate: columns that are never off their most frequent bin together share a column of bins, which changes
    nothing in the model; with a rate above 0 they may meet in this share of the rows, where all but the first of them
    are taken to be at their most frequent bin in training.
    categorical_features: as in `GradientBoostingRegressor`.
    like: another Dataset, whose columns and cut points this one takes over: for an eval_set that is used often.
    """

    schema: Schema
    rows: np.ndarray | None = None
    """Of a subset: its rows as numbers of the rows of `bins` (uint32); None: all of them, in order."""

    def __init__(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        max_bins: int = 255,
        n_jobs: int | None = None,
        categorical_features: Any = FROM_DTYPE,
        zeros: str = "values",
        max_conflict_rate: float = 0.0,
        like: Dataset | None = None,
    ) -> None:
        zeros_missing = check_choice("zeros", zeros, ("values", "missing")) == "missing"
        rate = check_number("max_conflict_rate", max_conflict_rate, 0.0, 1.0, high_open=True, hint="try 0.01")
        if like is not None and not isinstance(like, Dataset):
            raise InputTypeError(f"like={type(like).__name__} must be a Dataset, or None.")
        if like is not None and zeros_missing and not like.schema.zeros_missing:
            raise ParameterError('zeros="missing" contradicts like: zeros are values in the other Dataset.')
        if isinstance(X, Table):
            table = X
        elif like is None:
            table = read_table(X, categorical=categorical_features, zeros_missing=zeros_missing)
        else:
            table = read_table(X, like=like.whole_schema, estimator_name="the other Dataset")
        if table.n_rows >= 2**31:  # row numbers and the packing of gradients have room for fewer
            raise InputError(f"X has {table.n_rows:,} rows; at most 2,147,483,647 can be trained on at once.")
        max_bins = check_count("max_bins", max_bins, 2, 255)
        threads = job_count(n_jobs, available_cores())
        self.y = y
        self.sample_weight = read_weights(sample_weight, table.n_rows)
        self.max_bins = max_bins
        self.n_rows = table.n_rows
        self.n_columns = table.n_columns
        self.crowds = _crowds(table) if like is None else like.crowds_of(table)
        if like is None:
            table = pool_table(table)
            self.schema = table.schema
            self.cuts, self.marginals = _divided(table, self.sample_weight, max_bins, threads)
        else:
            if self.crowds:
                table = table.with_columns({j: like.pooled_column(j, own) for j, own in self.crowds.items()})
            self.schema, self.cuts, self.marginals = like.schema, like.cuts, like.marginals
            self.max_bins = like.max_bins
        # codes of categories are changed column by column: such a table is not bundled
        marginals = () if like is not None or self.schema.levels else self.marginals
        self.bins = bin_table(table, self.cuts, threads, marginals, rate)

    def subset(self, rows: Any) -> Dataset:
        """Some rows of this Dataset as a Dataset of its own, in the order given: a view, for which no bins are copied.

        rows: whole numbers from 0 on, each at most once (scikit-learn's splitters give such), or a mask of booleans.
        It has the cut points of the whole Dataset; otherwise a fit on it is what a fit on a table of these rows in
        this order would be, random draws included: they go by the position in the subset.
        """
        chosen = read_rows(rows, self.n_rows)
        made = copy(self)
        made.n_rows = len(chosen)
        made.rows = chosen if self.rows is None else self.rows[chosen]
        made.y = None if self.y is None else take_rows(self.y, chosen, self.n_rows)
        made.sample_weight = None if self.sample_weight is None else self.sample_weight[chosen]
        return made

    def same_cuts(self, other: Dataset) -> bool:
        """Whether codes mean the same in both."""
        return self.cuts is other.cuts or (
            len(self.cuts) == len(other.cuts) and all(map(np.array_equal, self.cuts, other.cuts))
        )

    # --- categories of very many levels ------------------------------------------------------------------------------

    def crowds_of(self, table: Table) -> dict[int, Crowd]:
        """The crowded columns of another table, read with `whole_schema`."""
        return {j: Crowd(own.levels, level_index(table.column(j))) for j, own in self.crowds.items()}

    def pooled_column(self, j: int, crowd: Crowd) -> tuple[Levels, np.ndarray]:
        """The level table in which rare levels are pooled, and the codes (float32) of the rows."""
        levels = self.schema.levels[j]
        assert levels is not None
        codes: np.ndarray = np.append(levels.numbers, [np.nan, np.nan]).astype(np.float32)[crowd.level]
        return levels, codes

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
        made: dict[int, tuple[Levels, np.ndarray]] = {}
        for j, (own, level) in crowds.items():
            found = target_statistics(np.maximum(level, -1), len(own.values), y, weight, training)
            same = np.array_equal(found.levels, own.numbers) and found.prior == own.unseen
            if own.by_target and not same:
                rows = np.concatenate([own.numbers, [own.unseen, np.nan]])[level]
                found = found._replace(rows=rows, levels=own.numbers, prior=own.unseen)
            made[j] = Levels(own.values, found.levels, True, found.prior), found.rows
            levels[j] = made[j][0]
            alone = Table(None, (found.rows,), None, self.n_rows, 1)
            (cuts[j],), (marginals[j],) = find_cuts(alone, self.sample_weight, self.max_bins, n_jobs)
        changed = copy(self)
        changed.schema = replace(self.schema, levels=tuple(levels))
        changed.cuts, changed.marginals = tuple(cuts), tuple(marginals)
        changed.bins = self._recoded({j: own for j, (_, own) in made.items()}, changed.cuts, n_jobs)
        return changed, made

    def following(
        self,
        schema: Schema,
        cuts: tuple[np.ndarray, ...],
        n_jobs: int,
        ordered: Mapping[int, np.ndarray] | None = None,
    ) -> Dataset | None:
        """This data with the target statistics that a model or another Dataset has; None when its categories have
        other codes there. ordered: the statistics of some columns row by row, where a fit goes on from the model."""
        columns = {}
        for j, (mine, theirs) in enumerate(zip(self.schema.levels, schema.levels, strict=False)):
            if mine is None or theirs is None:
                if mine is not theirs:
                    return None
            elif theirs.by_target:
                crowd = self.crowd(j)
                if not np.array_equal(crowd.levels.values, theirs.values):
                    return None
                columns[j] = np.append(theirs.numbers, [theirs.unseen, np.nan])[crowd.level]
                if ordered is not None and j in ordered:
                    columns[j] = ordered[j]
            elif not (np.array_equal(mine.values, theirs.values) and np.array_equal(mine.numbers, theirs.numbers)):
                return None
        if bool(self.schema.levels) != bool(schema.levels):
            return None
        if not columns:
            return self
        changed, mixed = copy(self), list(self.cuts)
        for j in columns:
            mixed[j] = cuts[j]
        changed.schema, changed.cuts = schema, tuple(mixed)
        changed.bins = self._recoded(columns, cuts, n_jobs)
        return changed

    def _recoded(self, columns: dict[int, np.ndarray], cuts: tuple[np.ndarray, ...], n_jobs: int) -> Bins:
        """The bins with other values in some columns, for the rows of this Dataset."""
        n_bins, codes = self.bins.n_bins.copy(), {}
        for j, values in columns.items():
            binned = bin_table(Table(None, (values,), None, self.n_rows, 1), (cuts[j],), n_jobs)
            n_bins[j], codes[j] = binned.n_bins[0], binned.by_column[0]
            if self.rows is not None:
                codes[j] = self.bins.by_column[j].copy()
                codes[j][self.rows] = binned.by_column[0]
        return with_codes(self.bins, codes, n_bins, n_jobs)

    def crowd(self, j: int) -> Crowd:
        """All levels of a categorical column, for the rows of this Dataset. Codes of few levels are their numbers."""
        rows = slice(None) if self.rows is None else self.rows
        if j in self.crowds:
            return Crowd(self.crowds[j].levels, self.crowds[j].level[rows])
        codes, levels = self.bins.by_column[j, rows].astype(np.int32), self.schema.levels[j]
        assert levels is not None
        return Crowd(levels, np.where(codes == MISSING, -1, codes))

    @property
    def names(self) -> tuple[str, ...] | None:
        """Column names, None when the input had none."""
        return self.schema.names

    def __repr__(self) -> str:
        bins = sum(len(own) + 1 for own in self.cuts)
        bundles = "" if len(self.bins.n_bins) == self.n_columns else f" in {len(self.bins.n_bins):,} bundles"
        return f"Dataset({self.n_rows:,} rows × {self.n_columns:,} columns{bundles}, {bins:,} bins)"


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
    """Cut points and distribution of every column."""
    found = find_cuts(table, weight, max_bins, n_threads)
    cuts, marginals = list(found[0]), list(found[1])
    whole = np.ones(table.n_rows, np.int64)
    if weight is not None:
        whole = np.where(weight > 0.0, integer_weights(weight, int(np.count_nonzero(weight))), 0)
    for j in np.flatnonzero(table.schema.in_sets).tolist():
        cuts[j], marginals[j] = coded_bins(table.levels[j], table.column(j), whole)
    return tuple(cuts), tuple(marginals)


def coded_bins(levels: Levels | None, cells: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, Marginal]:
    """Cut points and distribution of a column of codes: each has a bin, whatever max_bins says.

    cells: codes, NaN where missing; weight: int64, theirs.
    """
    assert levels is not None
    known, n = ~np.isnan(cells), levels.n_codes
    shares, total = np.zeros(n, np.int64), int(weight.sum())
    np.add.at(shares, cells[known].astype(np.int64), weight[known])
    missing = float(total - int(shares.sum())) / total
    return np.arange(max(0, n - 1), dtype=np.float64), Marginal(np.arange(n, dtype=np.float64), shares / total, missing)


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


def bin_table(
    table: Table,
    cuts: tuple[np.ndarray, ...],
    n_threads: int,
    marginals: tuple[Marginal, ...] = (),
    conflict_rate: float = 0.0,
) -> Bins:
    """Codes of a table under given cut points (those of the training data, for a validation set).

    A sparse one is bundled, and a dense one where that pays, if its marginals are given. Whose rows never meet in one
    table may do so in another: each has bundles of its own.
    """
    if table.entries is not None:
        return bin_entries(table.entries, cuts, n_threads, conflict_rate)
    n, f = table.n_rows, table.n_columns
    stride, padded = row_bytes(f), padded_cuts(cuts)
    by_row = aligned_bytes(n * stride)
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
    bins = Bins(by_row=by_row, by_column=by_column, n_bins=n_bins, stride=stride)
    return bundle_columns(bins, marginals, n_threads, conflict_rate) if marginals else bins
