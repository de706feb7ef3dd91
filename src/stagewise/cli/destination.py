"""Where results go: checked before the work begins, written in one step."""

from __future__ import annotations

import io
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
    plain = io.BytesIO()
    if kind == "csv":
        tabs = path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
        options = pa.csv.WriteOptions(delimiter="\t" if tabs else ",", quoting_style="needed")
        pa.csv.write_csv(table, plain, options)
    elif kind == "parquet":
        pa.parquet.write_table(table, plain)
    elif kind == "arrow":
        pa.feather.write_feather(table, plain)
    else:
        import json

        for batch in table.to_batches(max_chunksize=10_000):
            plain.write("".join(json.dumps(row) + "\n" for row in batch.to_pylist()).encode())
    if packing is None:
        return plain.getvalue()
    packed = io.BytesIO()
    with pa.CompressedOutputStream(pa.PythonFile(packed), packing) as stream:
        stream.write(plain.getvalue())
        stream.flush()
        stream.close()
        return packed.getvalue()
