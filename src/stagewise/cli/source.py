"""Files of tables: which kind they are, and reading them whole, with pyarrow.

One reader for all: the same file gives the same columns on every machine, and so the same model.
"""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stagewise.data.frame import is_index
from stagewise.errors import InputError, MissingExtraError
from stagewise.params import check_choice

__all__ = [
    "FORMS", "arrow", "check_text", "csv_options", "files_of", "kind_of", "memory_free", "memory_needed", "packing_of",
    "read_arrow", "reading", "start_of", "too_large",
]  # fmt: skip

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


def files_of(path: str, form: str | None = None, delimiter: str | None = None) -> list[str]:
    """The files of a path or a pattern, sorted; raises for a form or a delimiter that cannot be."""
    if form is not None:
        check_choice("--format", form, FORMS)
    if delimiter is not None and len(delimiter.replace("\\t", "\t").encode()) != 1:
        raise InputError(f"--delimiter {delimiter!r} must be one character, such as ';'.")
    if path == "-" or Path(path).exists() or not glob.has_magic(path):
        return [path]
    files = sorted(glob.glob(path))  # noqa: PTH207  patterns may be absolute
    if not files:
        raise InputError(f"no file matches {path!r}.")
    return files


def read_arrow(path: str, form: str | None = None, delimiter: str | None = None) -> Any:
    """All rows of a file (or of several, by a pattern such as "part-*.csv"; "-" is stdin) as a pyarrow.Table."""
    files, pa = files_of(path, form, delimiter), arrow()
    if too_large(path):
        needed, free = memory_needed(path), memory_free()
        sizes = f"about {needed / 2**30:.1f} GB of memory, and {free / 2**30:.1f} GB are free"
        raise InputError(
            f"{path} needs {sizes}; use fewer rows or columns. train and predict take CSV and Parquet of any size."
        )
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
    return table.select([name for name in table.column_names if not is_index(name)])


def check_text(path: str, table: Any) -> None:
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
    packing = packing_of(bytes(data[:4]))
    try:
        if packing:
            title = f"{packing} data"
            data = pa.CompressedInputStream(pa.BufferReader(data), packing).read_buffer()
        kind = kind_of(path, bytes(data[:_LOOK]), form)
        title = _TITLES[kind]
        table = _readers(pa, delimiter, path)[kind](pa.BufferReader(data))
        if kind == "csv":
            check_text(path, table)
        return table
    except (pa.ArrowException, OSError) as error:
        raise _unread(path, title, error) from error


def _unread(path: str, title: str, error: BaseException) -> InputError:
    hint = " Name another --delimiter?" if "columns, got" in str(error) else ""
    return InputError(f"{path} cannot be read as {title}: {_trimmed(error)}{hint}")


@contextmanager
def reading(path: str, kind: str) -> Iterator[None]:
    """What pyarrow says of a file, in our words."""
    try:
        yield
    except (arrow().ArrowException, OSError) as error:
        raise _unread(path, _TITLES[kind], error) from error


def packing_of(start: bytes) -> str | None:
    return next((name for magic, name in _PACKED.items() if start.startswith(magic)), None)


_TITLES = {"csv": "CSV", "parquet": "Parquet", "arrow": "an Arrow file", "jsonl": "JSON lines"}


def _trimmed(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text if len(text) <= 200 else text[:197] + "...").rstrip(".") + "."


def start_of(path: str) -> bytes:
    """The first bytes of a file, unpacked: enough to tell what it is."""
    pa = arrow()
    with open(path, "rb") as file:  # noqa: PTH123
        packing = packing_of(file.read(4))
        file.seek(0)
        return bytes((pa.CompressedInputStream(file, packing) if packing else file).read(_LOOK))


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


def too_large(path: str) -> bool:
    """Whether a table needs more memory than there is."""
    return memory_needed(path) > memory_free()


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
    return size * (_UNPACKED if packing_of(start) else 1)


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


def csv_options(path: str, delimiter: str | None, **convert: Any) -> dict[str, Any]:
    """How CSV is read. convert: further options of pyarrow.csv.ConvertOptions."""
    csv = arrow("csv").csv
    tabs = path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
    between = (delimiter or ("\t" if tabs else ",")).replace("\\t", "\t")
    return {
        "parse_options": csv.ParseOptions(delimiter=between, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(strings_can_be_null=True, **convert),
    }


def _readers(pa: Any, delimiter: str | None, path: str) -> dict[str, Any]:
    def csv(source: Any) -> Any:
        return pa.csv.read_csv(source, **csv_options(path, delimiter))

    def arrow_file(source: Any) -> Any:
        try:
            return pa.feather.read_table(source)
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()

    def jsonl(source: Any) -> Any:
        return pa.json.read_json(source, read_options=pa.json.ReadOptions(block_size=1 << 26))

    return {"csv": csv, "parquet": pa.parquet.read_table, "arrow": arrow_file, "jsonl": jsonl}
