"""Where results go: checked before the work begins, written in one step."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stagewise.cli.source import arrow, kind_of
from stagewise.errors import InputError
from stagewise.files.disk import replace_file

__all__ = ["check_destination", "check_destinations", "table_bytes", "write_out"]


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
    kind = kind_of(path, b"", form)
    packing = next(
        (name for ending, name in ((".gz", "gzip"), (".zst", "zstd")) if path.lower().endswith(ending)), None
    )
    table = pa.table({name: pa.array(own) for name, own in columns.items()})
    if kind == "csv":
        tabs = path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
        plain = _csv(pa, table, "\t" if tabs else ",")
    elif kind == "jsonl":
        batches = table.to_batches(max_chunksize=10_000)
        plain = "".join(json.dumps(row) + "\n" for batch in batches for row in batch.to_pylist()).encode()
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


def _csv(pa: Any, table: Any, between: str) -> bytes:
    """Quotes only where something needs them; pyarrow alone would put every text into quotes."""
    head = io.StringIO()
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
