"""Files of tables: which kind they are, and reading them whole, with pyarrow.

One reader for all: the same file gives the same columns on every machine, and so the same model.
"""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from stagewise.errors import InputError, MissingExtraError
from stagewise.params import check_choice

__all__ = ["FORMS", "arrow", "kind_of", "memory_free", "memory_needed", "read_arrow"]

FORMS = ("csv", "parquet", "arrow", "jsonl")

_ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
}  # fmt: skip
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_PACKED_ENDINGS = (".gz", ".zst", ".zstd")
_LOOK = 65536  # bytes looked at to tell text from other things
_COPIES = 3  # of a table in memory at the same time: as read, as chosen from, as floats
_UNPACKED = 5  # how many times a packed file grows, usually


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
    needed, free = memory_needed(path), memory_free()
    if needed > free:
        sizes = f"about {needed / 2**30:.1f} GB of memory, and {free / 2**30:.1f} GB are free"
        raise InputError(f"{path} needs {sizes}; use fewer rows or columns.")
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


def _check_text(path: str, table: Any) -> None:
    """Raise for text that is not UTF-8: pyarrow leaves the bytes of such columns as they are."""
    types = arrow().types
    try:
        kinds = zip(table.column_names, table.schema.types, strict=True)
        wrong = [name for name, kind in kinds if types.is_binary(kind)]
    except UnicodeDecodeError:
        wrong = ["the names of the columns"]
    if wrong:
        raise InputError(
            f"{path} has text that is not UTF-8 ({wrong[0]}); convert it, as with iconv -f latin1 -t utf8."
        )


def _read_one(path: str, form: str | None, delimiter: str | None) -> Any:
    pa = arrow("csv", "feather", "json", "parquet")
    data, title = _content(path), "a table"
    packing = _packing(bytes(data[:4]))
    try:
        if packing:
            title = f"{packing} data"
            data = pa.CompressedInputStream(pa.BufferReader(data), packing).read_buffer()
        kind = kind_of(path, bytes(data[:_LOOK]), form)
        title = _TITLES[kind]
        table = _readers(pa, delimiter, path)[kind](pa.BufferReader(data))
        if kind == "csv":
            _check_text(path, table)
        return table
    except (pa.ArrowException, OSError) as error:
        hint = " Name another --delimiter?" if "columns, got" in str(error) else ""
        raise InputError(f"{path} cannot be read as {title}: {_trimmed(error)}{hint}") from error


def _packing(start: bytes) -> str | None:
    return next((name for magic, name in _PACKED.items() if start.startswith(magic)), None)


_TITLES = {"csv": "CSV", "parquet": "Parquet", "arrow": "an Arrow file", "jsonl": "JSON lines"}


def _trimmed(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text if len(text) <= 200 else text[:197] + "...").rstrip(".") + "."


def _content(path: str) -> Any:
    """All of a file as a pyarrow.Buffer: mapped rather than read where it lies on disk."""
    pa = arrow()
    if path == "-":
        data = pa.py_buffer(sys.stdin.buffer.read())
    else:
        status = os.stat(path)  # noqa: PTH116  errors name the path as it was given
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{path} is a folder; name a file, or files by a pattern such as '{path}/*.parquet'.")
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
            raise InputError(f"{path} is neither a file nor a pipe; it might have no end.")
        if stat.S_ISREG(status.st_mode) and status.st_size:
            with open(path, "rb"):  # noqa: PTH123  pyarrow's own error says less
                data = pa.memory_map(path).read_buffer()
        else:
            data = pa.py_buffer(Path(path).read_bytes())
    if not bytes(data[:_LOOK]).strip():
        raise InputError(f"{'stdin' if path == '-' else path} is empty.")
    return data


def memory_needed(path: str) -> int:
    """Bytes that a table will take in memory, roughly: read, chosen from and turned into floats."""
    files = [path] if Path(path).exists() or path == "-" else glob.glob(path)  # noqa: PTH207
    return sum(_size(own) for own in files) * _COPIES


def _size(path: str) -> int:
    """Of one file, unpacked."""
    if path == "-" or not Path(path).is_file():
        return 0
    with open(path, "rb") as file:  # noqa: PTH123
        start = file.read(4)
    size = Path(path).stat().st_size
    if start == b"PAR1":
        pa = arrow("parquet")
        try:
            about = pa.parquet.read_metadata(path)
        except pa.ArrowException:  # damaged: reading it will say so
            return size
        widest = 8 * about.num_rows * about.num_columns  # encoded columns are smaller than their values
        return int(max(widest, sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))))
    return size * (_UNPACKED if _packing(start) else 1)


def memory_free() -> int:
    """Bytes that can be had without swapping; a great many where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return 2**62


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
