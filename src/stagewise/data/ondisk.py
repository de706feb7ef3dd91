"""Datasets of files and of batches, and Datasets kept in a folder: what `Dataset` can do with a disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stagewise.data.binning import Marginal
from stagewise.data.bundling import unbundled
from stagewise.data.categories import FROM_DTYPE
from stagewise.data.table import Schema
from stagewise.errors import InputError, InputTypeError
from stagewise.kernels.histogram import Bins
from stagewise.kernels.team import available_cores
from stagewise.params import check_count, job_count

if TYPE_CHECKING:
    from stagewise.data.builder import Plan
    from stagewise.data.cache import Parts
    from stagewise.data.leveltables import Crowd

__all__ = ["OnDisk"]


def _plain(given: Any) -> Any:
    """categorical_features as JSON has it."""
    return given if given is None or isinstance(given, str) else np.asarray(given).tolist()


class OnDisk:
    """The constructors of a Dataset that read and write files."""

    bins: Bins
    cuts: tuple[np.ndarray, ...]
    marginals: tuple[Marginal, ...]
    schema: Schema
    crowds: dict[int, Crowd]
    rows: np.ndarray | None
    y: Any
    sample_weight: np.ndarray | None
    max_bins: int
    n_rows: int
    n_columns: int

    @property
    def whole_schema(self) -> Schema:
        """The schema with every level of a crowded column, for reading other tables: numbers are those of levels."""
        levels = list(self.schema.levels)
        for j, crowd in self.crowds.items():
            levels[j] = crowd.levels.numbered()
        return replace(self.schema, levels=tuple(levels))

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
        categorical_features: Any = FROM_DTYPE,
        max_bins: int = 255,
        n_jobs: int | None = None,
        verbose: int = 0,
        like: Any = None,
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
        plan = cls._plan(max_bins, n_jobs, verbose, like, categorical_features)
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
        categorical_features: Any = FROM_DTYPE,
        max_bins: int = 255,
        n_jobs: int | None = None,
        verbose: int = 0,
        like: Any = None,
    ) -> Self:
        """A Dataset of CSV files with a line of names, as `from_parquet`. They are read once more, to learn types."""
        from stagewise.data.arrow import CsvFiles, find_files
        from stagewise.data.batches import Roles

        roles = Roles.check(target, sample_weight, columns, ignore)
        plan = cls._plan(max_bins, n_jobs, verbose, like, categorical_features)
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
        categorical_features: Any = FROM_DTYPE,
        max_bins: int = 255,
        n_jobs: int | None = None,
        verbose: int = 0,
        like: Any = None,
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
        plan = cls._plan(max_bins, n_jobs, verbose, like, categorical_features)
        if not callable(batches) and not isinstance(batches, Iterable):
            raise InputError(f"batches={type(batches).__name__} must be a callable, an iterable or an iterator.")
        folder = None if cache is None else Path(cache).absolute()
        return cls.from_parts(from_pieces(batches, roles, folder, Made(None, {}), plan))

    @staticmethod
    def _plan(max_bins: Any, n_jobs: Any, verbose: Any, like: Any, categorical: Any) -> Plan:
        from stagewise.data.builder import Plan

        if like is not None and not isinstance(like, OnDisk):
            raise InputTypeError(f"like={type(like).__name__} must be a Dataset, or None.")
        max_bins = check_count("max_bins", max_bins, 2, 255) if like is None else like.max_bins
        verbose = check_count("verbose", int(verbose) if isinstance(verbose, bool) else verbose, 0)
        return Plan(max_bins, job_count(n_jobs, available_cores()), verbose, like, categorical)

    @classmethod
    def _from_files(cls, kind: Any, files: tuple[Path, ...], roles: Any, cache: Any, plan: Plan) -> Self:
        from stagewise.data.arrow import prints
        from stagewise.data.builder import build_parts, cached_parts
        from stagewise.data.cache import Made, digest_of

        settings = {
            "kind": kind.__name__, "target": roles.target, "weight": roles.weight, "ignore": list(roles.ignore),
            "columns": None if roles.columns is None else list(roles.columns), "max_bins": plan.max_bins,
            "categorical": _plain(plan.categorical),
            "like": None if plan.like is None else digest_of(plan.like.cuts, plan.like.schema),
        }  # fmt: skip

        roles = roles if plan.like is None else replace(roles, texts=plan.like.schema.texts)

        def made() -> Made:
            return Made(prints(files), settings)

        if cache is None:
            return cls.from_parts(build_parts(kind(files, replace(roles)), plan))
        return cls.from_parts(cached_parts(lambda: kind(files, replace(roles)), Path(cache).absolute(), made, plan))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the Dataset into a folder: bins, cut points, y and weights. What was there before is replaced."""
        from stagewise.data.builder import save_parts

        parts = self._parts()  # in a folder every column has its own codes
        if self.rows is not None:
            raise InputError("A subset cannot be saved; save the whole Dataset, and take subsets of what load gives.")
        save_parts(Path(folder).absolute(), parts._replace(bins=unbundled(parts.bins)))

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
        made.n_columns, made.n_rows = parts.schema.n_columns, parts.bins.by_column.shape[1]
        made.crowds = parts.crowds
        return made

    def _parts(self) -> Parts:
        from stagewise.data.cache import Parts

        return Parts(
            self.bins, self.cuts, self.marginals, self.schema, self.y, self.sample_weight, self.max_bins, self.crowds
        )
