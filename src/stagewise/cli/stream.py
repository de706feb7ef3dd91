"""Files of tables read some rows at a time: the same columns and types as `read_arrow` gives, in bounded memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stagewise.cli.source import (
    arrow,
    check_text,
    csv_options,
    files_of,
    kind_of,
    packing_of,
    reading,
    start_of,
    too_large,
)
from stagewise.data.frame import is_index
from stagewise.errors import InputError

__all__ = ["Stream", "on_disk"]

_CELLS = 1 << 21  # of a batch: 16 MiB as float64
_BLOCK = 1 << 22  # bytes of CSV that are parsed at once
_BUFFER = 1 << 20  # bytes of a Parquet column that are read at once


def on_disk(path: str, form: str | None, delimiter: str | None, wanted: bool | None) -> bool:
    """Whether a table stays on disk: as wanted; None: when it needs more memory than is free, and can."""
    if wanted is False or (wanted is None and not too_large(path)):
        return False
    other = next((own for own in files_of(path, form, delimiter) if not _streamable(own, form)), None)
    if wanted and other is not None:
        raise InputError(f"--on-disk takes files of CSV, and of Parquet that is not packed; {other} is none.")
    return other is None


def _streamable(path: str, form: str | None) -> bool:
    if path == "-" or not Path(path).is_file():
        return False
    with open(path, "rb") as file:  # noqa: PTH123
        packed = packing_of(file.read(4)) is not None
    try:
        kind = kind_of(path, start_of(path), form)
    except (InputError, OSError):  # reading it will say what is wrong
        return False
    return kind == "csv" or (kind == "parquet" and not packed)


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """CSV and Parquet files as batches, from the beginning at every call of `batches`.

    schema: of all files together, as reading them whole would find it.
    """

    files: tuple[Any, ...]
    schema: Any
    n_rows: int

    @classmethod
    def open(cls, path: str, form: str | None = None, delimiter: str | None = None) -> Stream:
        """Looks through CSV files once, for types that fit every cell."""
        pa, files = arrow("csv", "parquet"), []
        for own in files_of(path, form, delimiter):
            start = start_of(own)
            if not start.strip():
                raise InputError(f"{own} is empty.")
            files.append(_Csv(own, delimiter) if kind_of(own, start, form) == "csv" else _Parquet(own))
        schemas = [own.look() for own in files]
        for schema in schemas:
            twice = [name for name, count in Counter(schema.names).items() if count > 1]
            if twice:
                raise InputError(f"{path} has more than one column named {twice[0]!r}; rename them.")
        try:
            schema = pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as error:
            raise InputError(f"the files of {path!r} do not fit together: {error}") from error
        n_rows = sum(own.n_rows for own in files)
        if n_rows == 0:
            raise InputError(f"{path} has no rows.")
        columns = [own for own in schema if not is_index(own.name)]
        return cls(tuple(files), pa.schema(columns), n_rows)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """All rows in order, as tables of at least one row. columns: only these, in the order of the files."""
        pa = arrow()
        wanted = [own for own in self.schema if columns is None or own.name in columns]
        schema = pa.schema(wanted)
        most = max(1 << 10, min(1 << 18, _CELLS // max(1, len(wanted))))
        for file in self.files:
            with closing(file.pieces([own.name for own in wanted], most)) as pieces:
                for piece in pieces:
                    table = pa.Table.from_batches([piece]).replace_schema_metadata()
                    if table.schema != schema:  # another file has a wider type, or columns that this one lacks
                        table = pa.concat_tables([schema.empty_table(), table], promote_options="permissive")
                        table = table.select(schema.names)
                    for at in range(0, table.num_rows, most):
                        yield table.slice(at, most)


@dataclass(slots=True, eq=False)
class _Parquet:
    path: str
    n_rows: int = 0
    _names: frozenset[str] = frozenset()

    def _open(self) -> Any:
        return arrow("parquet").parquet.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False)

    def look(self) -> Any:
        with reading(self.path, "parquet"), self._open() as file:
            self.n_rows, schema = file.metadata.num_rows, file.schema_arrow
            self._names = frozenset(schema.names)
            return schema

    def pieces(self, names: list[str], most: int) -> Iterator[Any]:
        own = [name for name in names if name in self._names]
        with reading(self.path, "parquet"), self._open() as file:
            yield from file.iter_batches(most, columns=own, use_threads=False)


@dataclass(slots=True, eq=False)
class _Csv:
    """pyarrow takes the types of a stream from its first block. Where a later cell does not fit, the column gets the
    next type of those that pyarrow tries, in its order, when it reads a file whole; and the look begins again."""

    path: str
    delimiter: str | None
    n_rows: int = 0
    _types: dict[str, Any] = field(default_factory=dict)

    def _open(self, names: list[str] | None) -> Any:
        pa = arrow("csv")
        file = pa.OSFile(self.path)
        packing = packing_of(file.read(4))
        file.seek(0)
        options = csv_options(self.path, self.delimiter, column_types=self._types, include_columns=names)
        source = pa.CompressedInputStream(file, packing) if packing else file
        return pa.csv.open_csv(source, pa.csv.ReadOptions(block_size=_BLOCK), **options)

    def look(self) -> Any:
        pa = arrow()
        order = [
            pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s"), pa.timestamp("ns"),
            pa.float64(), pa.string(),
        ]  # fmt: skip
        columns: list[str] = []
        while True:
            try:
                with reading(self.path, "csv"), self._open(None) as reader:
                    if not columns:
                        columns = reader.schema.names
                        if len(set(columns)) < len(columns):
                            return reader.schema
                    check_text(self.path, reader.schema.empty_table())
                    self._types = dict(zip(columns, reader.schema.types, strict=True))
                    self.n_rows = sum(piece.num_rows for piece in reader)
                    return reader.schema
            except InputError as error:
                wrong = re.search(r"CSV column #(\d+): CSV conversion error", str(error))
                kind = self._types[columns[int(wrong[1])]] if wrong and columns else None
                if wrong is None or kind not in order[:-1]:
                    raise
                self._types[columns[int(wrong[1])]] = order[order.index(kind) + 1]

    def pieces(self, names: list[str], most: int) -> Iterator[Any]:
        own = [name for name in names if name in self._types]
        with reading(self.path, "csv"), self._open(own) as reader:
            yield from reader
