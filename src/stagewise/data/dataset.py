"""A Dataset: a table binned once, ready for any number of fits.

    ds = sw.Dataset(X, y)
    for depth in (3, 5, 7):
        GradientBoostingRegressor(max_depth=depth).fit(ds)

The model is the same as from X and y themselves, with the same weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.data.binning import Marginal, find_cuts
from stagewise.data.bundling import bin_entries, bundle_columns
from stagewise.data.table import Table, read_table
from stagewise.data.target import read_weights
from stagewise.errors import InputError
from stagewise.kernels.binning import bin_column, bin_matrix, interleave
from stagewise.kernels.histogram import Bins
from stagewise.kernels.team import Team, available_cores
from stagewise.params import check_choice, check_count, check_number, job_count

__all__ = ["Dataset", "bin_table", "padded_cuts"]


class Dataset:
    """The bin codes of a table, the cut points that made them, and optionally y and sample weights.

    X: any table (NumPy, pandas, polars, Arrow, scipy.sparse); y: target or labels, needed for `fit(dataset)`.
    max_bins: 2 to 255. n_jobs: threads for binning; the result does not depend on it.
    zeros: "values", or "missing" when a zero (stored or not) says that there is no value; a model remembers it.
    max_conflict_rate: columns that are never off their most frequent bin together share a column of bins, which changes
    nothing in the model; with a rate above 0 they may meet in this share of the rows, where all but the first of them
    are taken to be at their most frequent bin in training.
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        max_bins: int = 255,
        zeros: str = "values",
        max_conflict_rate: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        zeros_missing = check_choice("zeros", zeros, ("values", "missing")) == "missing"
        rate = check_number("max_conflict_rate", max_conflict_rate, 0.0, 1.0, high_open=True, hint="try 0.01")
        table = X if isinstance(X, Table) else read_table(X, zeros_missing=zeros_missing)
        if table.n_rows >= 2**31:  # row numbers and the packing of gradients have room for fewer
            raise InputError(f"X has {table.n_rows:,} rows; at most 2,147,483,647 can be trained on at once.")
        max_bins = check_count("max_bins", max_bins, 2, 255)
        threads = job_count(n_jobs, available_cores())
        self.y = y
        self.sample_weight = read_weights(sample_weight, table.n_rows)
        self.max_bins = max_bins
        self.n_rows = table.n_rows
        self.n_columns = table.n_columns
        self.schema = table.schema
        self.cuts, self.marginals = find_cuts(table, self.sample_weight, max_bins, threads)
        self.bins = bin_table(table, self.cuts, threads, self.marginals, rate)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Column names, None when the input had none."""
        return self.schema.names

    def __repr__(self) -> str:
        bins = sum(len(own) + 1 for own in self.cuts)
        bundles = "" if len(self.bins.n_bins) == self.n_columns else f" in {len(self.bins.n_bins):,} bundles"
        return f"Dataset({self.n_rows:,} rows × {self.n_columns:,} columns{bundles}, {bins:,} bins)"


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
    bins = Bins(by_row=by_row, by_column=by_column, n_bins=n_bins, stride=stride)
    return bundle_columns(bins, marginals, n_threads, conflict_rate) if marginals else bins
