"""Parquet and CSV files as batches, through pyarrow: read in order, some rows at a time."""

from __future__ import annotations

import csv
import glob
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar

from stagewise.data.batches import Batch, Roles, pyarrow
from stagewise.errors import InputError, InputTypeError

__all__ = ["CsvFiles", "ParquetFiles", "ahead", "find_files", "prints", "rows_of"]

_CELLS = 1 << 22
"""Cells of a batch: 16 MiB as float32. Larger ones are no faster, and a batch is in memory a few times."""

_BUFFER = 1 << 20

T = TypeVar("T")


def find_files(paths: Any, ending: str) -> tuple[Path, ...]:
    """The files of a path, a pattern, a folder, or a list of these: sorted by name within each, none twice."""
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(given, list | tuple) or not all(isinstance(own, str | os.PathLike) for own in given):
        raise InputTypeError(f"{type(paths).__name__} names no files; give a path, a pattern such as data/*.{ending}, "
                             "or a list of them.")  # fmt: skip
    found: dict[Path, None] = {}
    for own in given:
        text = os.fspath(own)
        if Path(text).is_dir():
            matches = sorted(glob.glob(f"{glob.escape(text)}/*.{ending}"))  # noqa: PTH207  patterns may be absolute
        else:
            matches = [text] if Path(text).is_file() else sorted(glob.glob(text, recursive=True))  # noqa: PTH207
        files = [Path(match).absolute() for match in matches if Path(match).is_file()]
        if not files:
            raise InputError(f"No file matches {text!r}; give a path, or a pattern such as data/*.{ending}.")
        found.update(dict.fromkeys(files))
    return tuple(found)


def prints(files: tuple[Path, ...]) -> list[list[Any]]:
    """What tells whether files have changed: path, size and time of the last change."""
    out: list[list[Any]] = []
    for path in files:
        status = path.stat()
        out.append([str(path), status.st_size, status.st_mtime_ns])
    return out


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items; while one is worked on, a thread gets the next."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    arrow = pyarrow("reading Parquet and CSV files")
    try:
        yield
    except (arrow.ArrowException, OSError) as error:  # damaged pages are an OSError, which has no number then
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def rows_of(width: int) -> int:
    """Rows of a batch of so many columns."""
    return max(1 << 10, min(1 << 18, _CELLS // max(1, width)))


def _frame(table: Any) -> Any:
    import narwhals as nw

    return nw.from_native(table, eager_only=True)


class ParquetFiles:
    """Parquet files, one after the other. Only the columns that are needed are read."""

    def __init__(self, files: tuple[Path, ...], roles: Roles) -> None:
        self._arrow = pyarrow("reading Parquet files")
        self.files, self.roles, self.n_rows = files, roles, 0
        for path in files:
            with self._open(path) as file:
                names = file.schema_arrow.names
                if len(set(names)) < len(names):
                    twice = next(name for name in names if names.count(name) > 1)
                    raise InputError(f"{path} has two columns of the name {twice!r}; rename one.")
                roles.learn(_frame(file.schema_arrow.empty_table()), str(path))
                self.n_rows += file.metadata.num_rows

    @contextmanager
    def _open(self, path: Path) -> Iterator[Any]:
        import pyarrow.parquet as parquet

        # A buffer rather than whole column chunks at once: row groups can be large.
        with _reading(path), parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
            yield file

    def batches(self, only: tuple[str, ...] | None = None) -> Iterator[Batch]:
        return ahead(self._batches(only))

    def _batches(self, only: tuple[str, ...] | None) -> Iterator[Batch]:
        roles = self.roles
        names = roles.wanted if only is None else (*only, *(() if roles.weight is None else (roles.weight,)))
        for path in self.files:
            with self._open(path) as file:
                for piece in file.iter_batches(rows_of(len(names)), columns=list(names), use_threads=False):
                    if piece.num_rows:
                        yield roles.split(_frame(self._arrow.Table.from_batches([piece])), str(path), only)
        self._arrow.default_memory_pool().release_unused()


class CsvFiles:
    """CSV files, one after the other. A first look through all of them finds a type for every column that fits every
    cell: whole numbers, else numbers, else text; or text, where roles say so: there 01 stays 01. Empty cells, NA, NaN,
    null and the like are missing."""

    def __init__(self, files: tuple[Path, ...], roles: Roles) -> None:
        self._arrow = pyarrow("reading CSV files")
        self.files, self.roles, self.n_rows = files, roles, 0
        self._types: dict[str, Any] = dict.fromkeys(roles.texts, self._arrow.string())
        self._unknown: set[str] = set()  # columns that had nothing but missing values at first
        for path in files:
            while True:
                try:
                    n_rows = sum(piece.num_rows for piece in self._read(path, None))
                except _WiderError:
                    continue
                break
            self.n_rows += n_rows
        for path in files:  # now that types are known
            with _reading(path), self._open(path, None) as reader:
                roles.learn(_frame(reader.schema.empty_table()), str(path))
        for name in roles.wanted:
            if self._types[name] == self._arrow.binary():
                raise InputError(
                    f"column {name!r} holds text that is not UTF-8; convert the files, as with iconv -f latin1 -t utf8."
                )

    def batches(self, only: tuple[str, ...] | None = None) -> Iterator[Batch]:
        return ahead(self._batches(only))

    def _batches(self, only: tuple[str, ...] | None) -> Iterator[Batch]:
        roles = self.roles
        names = roles.wanted if only is None else (*only, *(() if roles.weight is None else (roles.weight,)))
        most = rows_of(len(names))
        for path in self.files:
            for block in self._read(path, list(names)):
                table = self._arrow.Table.from_batches([block])
                for start in range(0, table.num_rows, most):
                    yield roles.split(_frame(table.slice(start, most)), str(path), only)

    def _open(self, path: Path, names: list[str] | None) -> Any:
        from pyarrow import csv as reader

        convert = reader.ConvertOptions(column_types=self._types, include_columns=names, strings_can_be_null=True)
        return reader.open_csv(path, reader.ReadOptions(block_size=_CELLS), convert_options=convert)

    def _read(self, path: Path, names: list[str] | None) -> Iterator[Any]:
        """Record batches. Without names this is the first look: types are noted, and widened where they do not fit."""
        try:
            with _reading(path), self._open(path, names) as reader:
                seen = reader.schema.names
                if len(set(seen)) < len(seen):
                    twice = next(name for name in seen if seen.count(name) > 1)
                    raise InputError(f"{path} has two columns of the name {twice!r}; rename one.")
                for name, kind in zip(seen, reader.schema.types, strict=True):
                    if self._types.setdefault(name, kind) == self._arrow.null():
                        self._unknown.add(name)
                yield from reader
        except InputError as error:
            wrong = re.search(r"CSV column #(\d+): CSV conversion error[^:]*: (.*)", str(error))
            if wrong is None or names is not None:
                raise
            with self._arrow.input_stream(path) as packed, TextIOWrapper(packed, "utf-8-sig", newline="") as file:
                header = next(csv.reader(file))
            self._widen(header[int(wrong[1])], path, wrong[2])
            raise _WiderError from error

    def _widen(self, name: str, path: Path, what: str) -> None:
        """A wider type for a column: numbers for whole numbers; text only where no number was seen before."""
        arrow, kind = self._arrow, self._types.get(name, self._arrow.null())
        steps = (arrow.null(), arrow.int64(), arrow.float64())
        if kind in steps[:2]:
            self._types[name] = steps[steps.index(kind) + 1]
        elif name in self._unknown or arrow.types.is_temporal(kind):
            self._types[name] = arrow.string()
        else:
            raise InputError(
                f"column {name!r} holds {kind} at first, but in {path} there is an {what}. Correct the file, leave the "
                "column out with ignore=[...], or write such cells as NA."
            )


class _WiderError(Exception):
    """A column needs a wider type: read again."""
