"""A Dataset: a table binned once, ready for any number of fits.

    ds = sw.Dataset(X, y)
    for depth in (3, 5, 7):
        GradientBoostingRegressor(max_depth=depth).fit(ds)

The model is the same as from X and y themselves, with the same weights. It can be made from files that are larger than
memory, and be kept on disk: the model is still the same.

    ds = sw.Dataset.from_parquet("data/*.parquet", target="price", cache="cache/prices")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stagewise.data.binning import find_cuts
from stagewise.data.table import Schema, Table, read_table
from stagewise.data.target import read_weights
from stagewise.errors import InputError, InputTypeError
from stagewise.kernels.binning import bin_column, bin_matrix, interleave
from stagewise.kernels.histogram import Bins
from stagewise.kernels.team import Team, available_cores
from stagewise.params import check_count, job_count

if TYPE_CHECKING:
    from stagewise.data.builder import Plan
    from stagewise.data.cache import Parts

__all__ = ["Dataset", "bin_table", "padded_cuts"]


class Dataset:
    """The bin codes of a table, the cut points that made them, and optionally y and sample weights.

    X: any table (NumPy, pandas, polars, Arrow); y: target or labels, needed for `fit(dataset)`.
    max_bins: 2 to 255. n_jobs: threads for binning; the result does not depend on it. like: a Dataset whose cut points
    are used, as the rows of a validation sample (`eval_set`) need it.
    """

    schema: Schema

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
            self.schema, self.max_bins = like.schema, like.max_bins
            self.cuts, self.marginals = like.cuts, like.marginals
        self.bins = bin_table(table, self.cuts, threads)

    def same_cuts(self, other: Dataset) -> bool:
        """Whether codes mean the same in both."""
        return self.cuts is other.cuts or (
            len(self.cuts) == len(other.cuts) and all(map(np.array_equal, self.cuts, other.cuts))
        )

    @property
    def names(self) -> tuple[str, ...] | None:
        """Column names, None when the input had none."""
        return self.schema.names

    # --- larger than memory ------------------------------------------------------------------------------------------

    @classmethod
    def from_parquet(
        cls,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        target: str | None = None,
        *,
        sample_weight: str | None = None,
        columns: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        cache: str | os.PathLike[str] | None = None,
        max_bins: int = 255,
        n_jobs: int | None = None,
        verbose: int = 0,
        like: Dataset | None = None,
    ) -> Self:
        """A Dataset of Parquet files that need not fit into memory: they are read some rows at a time, twice.

        files: a path, a pattern, a folder, or a list of these; rows are in the order of the sorted names. target,
        sample_weight: the names of their columns. columns: those of X, in this order; else all others but `ignore`.
        cache: a folder that keeps the bins. When it holds those of the same files, unchanged, and the same settings, it
        is used; else it is built anew. Without it they lie in the system's folder for temporary files while the Dataset
        lives. verbose=1 shows a progress bar. like: a Dataset whose cut points are used (for `eval_set`).
        """
        from stagewise.data.arrow import ParquetFiles, find_files
        from stagewise.data.batches import Roles

        roles = Roles.check(target, sample_weight, columns, ignore)
        plan = cls._plan(max_bins, n_jobs, verbose, like)
        return cls._from_files(ParquetFiles, find_files(files, "parquet"), roles, cache, plan)

    @classmethod
    def from_csv(
        cls,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        target: str | None = None,
        *,
        sample_weight: str | None = None,
        columns: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        cache: str | os.PathLike[str] | None = None,
        max_bins: int = 255,
        n_jobs: int | None = None,
        verbose: int = 0,
        like: Dataset | None = None,
    ) -> Self:
        """A Dataset of CSV files with a line of names, as `from_parquet`. They are read once more, to learn types."""
        from stagewise.data.arrow import CsvFiles, find_files
        from stagewise.data.batches import Roles

        roles = Roles.check(target, sample_weight, columns, ignore)
        plan = cls._plan(max_bins, n_jobs, verbose, like)
        return cls._from_files(CsvFiles, find_files(files, "csv"), roles, cache, plan)

    @classmethod
    def from_batches(
        cls,
        batches: Callable[[], Iterable[Any]] | Iterable[Any],
        target: str | None = None,
        *,
        sample_weight: str | None = None,
        columns: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        cache: str | os.PathLike[str] | None = None,
        max_bins: int = 255,
        n_jobs: int | None = None,
        verbose: int = 0,
        like: Dataset | None = None,
    ) -> Self:
        """A Dataset of a table that comes in batches: frames, Arrow record batches, or tuples (X, y), (X, y, weight).

        batches: a callable that gives an iterable at every call, or something that can be iterated over again: both are
        read twice; or an iterator, which is read once and kept on disk meanwhile. Other options as in `from_parquet`;
        `cache` is always built anew, because nobody knows whether batches are the same; open it with `load`.
        """
        from stagewise.data.batches import Roles
        from stagewise.data.builder import from_pieces
        from stagewise.data.cache import Made

        roles = Roles.check(target, sample_weight, columns, ignore)
        plan = cls._plan(max_bins, n_jobs, verbose, like)
        if not callable(batches) and not isinstance(batches, Iterable):
            raise InputError(f"batches={type(batches).__name__} must be a callable, an iterable or an iterator.")
        folder = None if cache is None else Path(cache).absolute()
        return cls.from_parts(from_pieces(batches, roles, folder, Made(None, {}), plan))

    @staticmethod
    def _plan(max_bins: Any, n_jobs: Any, verbose: Any, like: Any) -> Plan:
        from stagewise.data.builder import Plan

        if like is not None and not isinstance(like, Dataset):
            raise InputTypeError(f"like={type(like).__name__} must be a Dataset, or None.")
        max_bins = check_count("max_bins", max_bins, 2, 255) if like is None else like.max_bins
        verbose = check_count("verbose", int(verbose) if isinstance(verbose, bool) else verbose, 0)
        return Plan(max_bins, job_count(n_jobs, available_cores()), verbose, like)

    @classmethod
    def _from_files(cls, kind: Any, files: tuple[Path, ...], roles: Any, cache: Any, plan: Plan) -> Self:
        from dataclasses import replace

        from stagewise.data.arrow import prints
        from stagewise.data.builder import build_parts, cached_parts
        from stagewise.data.cache import Made, digest_of

        settings = {
            "kind": kind.__name__, "target": roles.target, "weight": roles.weight, "ignore": list(roles.ignore),
            "columns": None if roles.columns is None else list(roles.columns), "max_bins": plan.max_bins,
            "like": None if plan.like is None else digest_of(plan.like.cuts),
        }  # fmt: skip

        def made() -> Made:
            return Made(prints(files), settings)

        if cache is None:
            return cls.from_parts(build_parts(kind(files, replace(roles)), plan))
        return cls.from_parts(cached_parts(lambda: kind(files, replace(roles)), Path(cache).absolute(), made, plan))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the Dataset into a folder: bins, cut points, y and weights. What was there before is replaced."""
        from stagewise.data.builder import save_parts

        save_parts(Path(folder).absolute(), self._parts())

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, rows: tuple[int, int] | None = None, verify: bool = True) -> Self:
        """The Dataset of a folder that `save` or `cache` wrote, mapped; nothing is read into memory.

        rows: (first, stop) for a part of it. verify: compare the checksums of all files first, which reads them once.
        """
        from stagewise.data.cache import KIND, open_parts
        from stagewise.storage.store import open_store

        store = open_store(Path(folder).absolute(), KIND, verify)
        return cls.from_parts(open_parts(store, rows))

    @classmethod
    def from_parts(cls, parts: Parts) -> Self:
        """A Dataset of what it is made of, which is taken as it is."""
        made = cls.__new__(cls)
        made.bins, made.cuts, made.marginals, made.schema = parts.bins, parts.cuts, parts.marginals, parts.schema
        made.y, made.sample_weight, made.max_bins = parts.y, parts.weight, parts.max_bins
        made.n_columns, made.n_rows = len(parts.cuts), parts.bins.by_column.shape[1]
        return made

    def _parts(self) -> Parts:
        from stagewise.data.cache import Parts

        return Parts(self.bins, self.cuts, self.marginals, self.schema, self.y, self.sample_weight, self.max_bins)

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
