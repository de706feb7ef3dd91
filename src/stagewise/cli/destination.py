"""Where results go: checked before the work begins, written in one step."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stagewise.cli.source import arrow, kind_of
from stagewise.errors import InputError
from stagewise.storage.disk import replace_file, replacing

__all__ = ["check_destination", "check_destinations", "table_bytes", "write_out", "write_pieces"]


def check_destination(path: str, option: str, force: bool) -> None:
    """Complain before the work, not after it. "-" is stdout."""
    if path == "-":
        return
    own = Path(path)
    if own.is_dir():
        raise InputError(f"{path} is a folder; {option} must name a file.")
    if not own.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {own.parent}. Create it first.")
    if not os.access(own.parent, os.W_OK):
        raise InputError(f"{path} cannot be written: the folder {own.parent.resolve()} does not allow it.")
    if own.exists() and not force:
        raise InputError(f"{path} exists already; choose another name for {option}, or add --force to replace it.")


def check_destinations(paths: Mapping[str, str | None], sources: tuple[str, ...], force: bool) -> None:
    """Several of them by their options; no two the same, and none of them a file that is read."""
    seen: dict[Path, str] = {}
    inputs = {Path(own).resolve() for own in sources if own != "-"}
    for option, path in paths.items():
        if path is None:
            continue
        check_destination(path, option, force)
        place = Path(path).resolve()
        if path != "-" and place in inputs:
            raise InputError(f"{option} {path} is also what is read; choose another name.")
        if place in seen:
            raise InputError(f"{seen[place]} and {option} both name {path}; give each a file of its own.")
        seen[place] = option


def write_out(path: str, data: bytes) -> str:
    """Write a whole file, or to stdout; the path in full."""
    if path == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return path
    replace_file(path, data)
    return str(Path(path).resolve())


def table_bytes(columns: Mapping[str, Any], path: str, form: str | None) -> bytes:
    """Columns as a file of the kind that the name, or the form, says; numbers so that reading gives the same bits."""
    pa = arrow("csv", "feather", "json", "parquet")
    kind, packing = kind_of(path, b"", form), _packing(path)
    table = pa.table({name: pa.array(own) for name, own in columns.items()})
    if kind in ("csv", "jsonl"):
        plain = _text(pa, table, path, kind)
    else:
        sink = pa.BufferOutputStream()
        (pa.parquet.write_table if kind == "parquet" else pa.feather.write_feather)(table, sink)
        plain = sink.getvalue().to_pybytes()
    if packing is None:
        return plain
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, packing) as stream:
        stream.write(plain)
    return bytes(sink.getvalue().to_pybytes())


def write_pieces(pieces: Iterable[Mapping[str, Any]], path: str) -> tuple[str, list[str], int]:
    """Write columns that come some rows at a time, to a file of the kind that its name says, or to stdout as CSV; it
    appears when it is complete. The place in full, the names of the columns, and the number of rows."""
    if path != "-":
        with replacing(path) as beside, beside.open("wb") as file:
            names, rows = _write_into(pieces, file, path, None)
        return str(Path(path).resolve()), names, rows
    with tempfile.TemporaryFile() as file:
        names, rows = _write_into(pieces, file, "", "csv")
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    return path, names, rows


def _write_into(pieces: Iterable[Mapping[str, Any]], file: Any, path: str, form: str | None) -> tuple[list[str], int]:
    pa = arrow("csv", "parquet")
    kind, packing = kind_of(path, b"", form), _packing(path)
    names: list[str] = []
    rows, writer = 0, None
    with ExitStack() as stack:
        sink = pa.PythonFile(file, "w")
        if packing is not None:
            sink = stack.enter_context(pa.CompressedOutputStream(sink, packing))
        for columns in pieces:
            table = pa.table({name: _undivided(pa, own) for name, own in columns.items()})
            if kind in ("csv", "jsonl"):
                sink.write(_text(pa, table, path, kind, head=not names))
            else:
                if writer is None:
                    make = pa.parquet.ParquetWriter if kind == "parquet" else pa.ipc.new_file
                    writer = stack.enter_context(make(sink, table.schema))
                writer.write_table(table)
            names, rows = table.column_names, rows + table.num_rows
    return names, rows


def _undivided(pa: Any, column: Any) -> Any:
    """A dictionary column as what it stands for: in an Arrow file all pieces must have the same dictionary."""
    own = pa.array(column) if not hasattr(column, "type") else column
    return own.cast(own.type.value_type) if pa.types.is_dictionary(own.type) else own


def _packing(path: str) -> str | None:
    return next((name for ending, name in ((".gz", "gzip"), (".zst", "zstd")) if path.lower().endswith(ending)), None)


def _text(pa: Any, table: Any, path: str, kind: str, head: bool = True) -> bytes:
    if kind == "csv":
        tabs = path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
        return _csv(pa, table, "\t" if tabs else ",", head)
    batches = table.to_batches(max_chunksize=10_000)
    return "".join(json.dumps(row) + "\n" for batch in batches for row in batch.to_pylist()).encode()


def _csv(pa: Any, table: Any, between: str, named: bool) -> bytes:
    """Quotes only where something needs them; pyarrow alone would put every text into quotes. named: with a line of
    names."""
    head = io.StringIO()
    if named:
        csv.writer(head, delimiter=between, lineterminator="\n").writerow(table.column_names)
    for style in ("none", "needed"):
        sink = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=False, delimiter=between, quoting_style=style)
        try:
            pa.csv.write_csv(table, sink, options)
        except pa.ArrowInvalid:  # a text holds a quote, a delimiter or a line break
            if style == "needed":
                raise
            continue
        return head.getvalue().encode() + bytes(sink.getvalue().to_pybytes())
    raise AssertionError("one of the two styles writes, or raises")
