"""Files of tables: which kind they are, and reading them whole, with pyarrow.

One reader for all: the same file gives the same columns on every machine, and so the same model.
"""

from __future__ import annotations

import glob
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from stagewise.errors import InputError, MissingExtraError
from stagewise.files.disk import read_file
from stagewise.params import check_choice

__all__ = ["FORMS", "arrow", "kind_of", "read_arrow"]

FORMS = ("csv", "parquet", "arrow", "jsonl")

_ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
}  # fmt: skip
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_PACKED_ENDINGS = (".gz", ".zst", ".zstd")
_LOOK = 65536  # bytes looked at to tell text from other things


def arrow(*modules: str) -> Any:
    """pyarrow with some of its modules, or an error that says how to get it."""
    try:
        import pyarrow

        for name in modules:
            __import__(f"pyarrow.{name}")
    except ImportError:
        raise MissingExtraError("reading and writing tables needs pyarrow: pip install 'stagewise[cli]'") from None
    return pyarrow


def read_arrow(path: str, form: str | None = None, delimiter: str | None = None) -> Any:
    """All rows of a file (or of several, by a pattern such as "part-*.csv"; "-" is stdin) as a pyarrow.Table."""
    if form is not None:
        check_choice("--format", form, FORMS)
    if delimiter is not None and len(delimiter.replace("\\t", "\t").encode()) != 1:
        raise InputError(f"--delimiter {delimiter!r} must be one character, such as ';'.")
    pa = arrow()
    files = [path]
    if path != "-" and not Path(path).exists() and glob.has_magic(path):
        files = sorted(glob.glob(path))  # noqa: PTH207  patterns may be absolute
        if not files:
            raise InputError(f"no file matches {path!r}.")
    tables = [_read_one(own, form, delimiter) for own in files]
    try:
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"the files of {path!r} do not fit together: {error}") from error
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise InputError(f"{path} has more than one column named {twice[0]!r}; rename them.")
    if table.num_rows == 0:
        raise InputError(f"{path} has no rows.")
    return table


def _read_one(path: str, form: str | None, delimiter: str | None) -> Any:
    data = _bytes(path)
    pa = arrow("csv", "feather", "json", "parquet")
    packing = next((name for magic, name in _PACKED.items() if data[:4].startswith(magic)), None)
    try:
        if packing:
            data = pa.CompressedInputStream(pa.BufferReader(data), packing).read()
        kind = kind_of(path, data[:_LOOK], form)
        return _readers(pa, delimiter, path)[kind](pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        what = f"{packing} data" if packing and "kind" not in locals() else _TITLES.get(locals().get("kind", ""), "")
        hint = " Name another --delimiter?" if "columns" in str(error) else ""
        raise InputError(f"{path} cannot be read as {what}: {_trimmed(error)}{hint}") from error


_TITLES = {"csv": "CSV", "parquet": "Parquet", "arrow": "an Arrow file", "jsonl": "JSON lines"}


def _trimmed(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text if len(text) <= 200 else text[:197] + "...").rstrip(".") + "."


def _bytes(path: str) -> bytes:
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        if Path(path).is_dir():
            raise InputError(f"{path} is a folder; name a file, or files by a pattern such as '{path}/*.parquet'.")
        data = read_file(path)
    if not data.strip():
        raise InputError(f"{'stdin' if path == '-' else path} is empty.")
    return data


def kind_of(path: str, start: bytes, form: str | None = None) -> str:
    """The kind of a file: what its first bytes say, else what was asked for, else what its name says."""
    if start.startswith(b"PAR1"):
        found: str | None = "parquet"
    elif start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        found = "arrow"
    else:
        found = None
    if form is None:
        name = path.lower()
        for ending in _PACKED_ENDINGS:
            name = name.removesuffix(ending)
        form = found or _ENDINGS.get(Path(name).suffix) or ("jsonl" if start.lstrip()[:1] == b"{" else "csv")
    if found is None and form in ("csv", "jsonl") and b"\0" in start:
        raise InputError(f"{path} is no text, nor a kind of table that is known; --format takes {', '.join(FORMS)}.")
    return form


def _readers(pa: Any, delimiter: str | None, path: str) -> dict[str, Any]:
    def csv(source: Any) -> Any:
        tabs = path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
        between = (delimiter or ("\t" if tabs else ",")).replace("\\t", "\t")
        return pa.csv.read_csv(
            source,
            parse_options=pa.csv.ParseOptions(delimiter=between, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(strings_can_be_null=True),
        )

    def arrow_file(source: Any) -> Any:
        try:
            return pa.feather.read_table(source)
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()

    def jsonl(source: Any) -> Any:
        return pa.json.read_json(source, read_options=pa.json.ReadOptions(block_size=1 << 26))

    return {"csv": csv, "parquet": pa.parquet.read_table, "arrow": arrow_file, "jsonl": jsonl}
