"""A Dataset: a table binned once, ready for any number of fits.

    ds = sw.Dataset(X, y)
    for depth in (3, 5, 7):
        GradientBoostingRegressor(max_depth=depth).fit(ds)

The model is the same as from X and y themselves, with the same weights. Folds are views, for which nothing is copied:

    for train, test in KFold(5).split(np.arange(ds.n_rows)):
        model = GradientBoostingRegressor().fit(ds.subset(train))
        model.predict(ds.subset(test))
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from stagewise.data.binning import find_cuts
from stagewise.data.table import Schema, Table, read_table
from stagewise.data.target import read_weights, take_rows
from stagewise.data.view import read_rows
from stagewise.errors import InputError, InputTypeError
from stagewise.kernels.binning import bin_column, bin_matrix, interleave
from stagewise.kernels.histogram import Bins
from stagewise.kernels.team import Team, available_cores
from stagewise.params import check_count, job_count

__all__ = ["Dataset", "bin_table", "padded_cuts"]


class Dataset:
    """The bin codes of a table, the cut points that made them, and optionally y and sample weights.

    X: any table (NumPy, pandas, polars, Arrow); y: target or labels, needed for `fit(dataset)`.
    max_bins: 2 to 255. n_jobs: threads for binning; the result does not depend on it.
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
        like: Dataset | None = None,
    ) -> None:
        if like is not None and not isinstance(like, Dataset):
            raise InputTypeError(f"like={type(like).__name__} must be a Dataset, or None.")
        schema = None if like is None else like.schema
        table = X if isinstance(X, Table) else read_table(X, like=schema, estimator_name="the other Dataset")
        if table.n_rows >= 2**31:  # row numbers and the packing of gradients have room for fewer
            raise InputError(f"X has {table.n_rows:,} rows; at most 2,147,483,647 can be trained on at once.")
        max_bins = check_count("max_bins", max_bins, 2, 255)
        threads = job_count(n_jobs, available_cores())
        self.y = y
        self.sample_weight = read_weights(sample_weight, table.n_rows)
        self.max_bins = max_bins
        self.n_rows = table.n_rows
        self.n_columns = table.n_columns
        if like is None:
            self.schema = Schema(table.n_columns, table.names)
            self.cuts, self.marginals = find_cuts(table, self.sample_weight, max_bins, threads)
        else:
            self.schema, self.cuts, self.marginals, self.max_bins = (
                like.schema,
                like.cuts,
                like.marginals,
                like.max_bins,
            )
        self.bins = bin_table(table, self.cuts, threads)

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

    @property
    def names(self) -> tuple[str, ...] | None:
        """Column names, None when the input had none."""
        return self.schema.names

    def __repr__(self) -> str:
        bins = int(self.bins.n_bins.sum())
        return f"Dataset({self.n_rows:,} rows × {self.n_columns:,} columns, {bins:,} bins)"


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
