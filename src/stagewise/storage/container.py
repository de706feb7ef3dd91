"""The container: sections of plain values and little-endian arrays in one flat file, with a checksum over everything.

    0    magic, 8 bytes
    8    format, uint32           a newer one than FORMAT is refused by name
    12   0, uint32
    16   length of the header, uint64
    24   the header: JSON, ASCII, keys sorted, no spaces
         0 up to a multiple of 64
         the arrays in the order of the header's table, each filled up with 0 to a multiple of 64
    -32  SHA-256 of everything before it

    header = {"arrays": [[name, dtype, shape], ...], "kind": ..., "library": ..., "sections": {section: {...}}}

An array belongs to the section that its name starts with ("trees/left"). Where it lies follows from the table, so there
are no offsets that could overlap; nothing is compressed, so no small file asks for much memory. A content has one
encoding only: equal contents are equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from stagewise._version import __version__
from stagewise.errors import InputError

__all__ = ["Content", "FORMAT", "Section", "pack", "strict_json", "unpack"]

MAGIC = b"\x8aSTGW\r\n\x1a"
FORMAT = 1
"""The newest format that this library reads and the one that it writes. docs/model-file.md has their history."""

_FRONT = struct.Struct("<8sIIQ")
_ALIGN = 64
_DIGEST = 32
_DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
_MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class Section:
    """Plain values (whatever JSON holds, floats finite) and arrays, both by name."""

    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a file: its kind ("estimator", "model", "checkpoint") and its sections by name."""

    kind: str
    sections: Mapping[str, Section]
    library: str = __version__  # the version that wrote it


def _padding(length: int) -> int:
    return -length % _ALIGN


def pack(content: Content) -> bytes:
    """The file as bytes."""
    table: list[tuple[str, np.ndarray]] = []
    for name in sorted(content.sections):
        arrays = content.sections[name].arrays
        for own in sorted(arrays):
            array = np.asarray(arrays[own], order="C")
            table.append((f"{name}/{own}", array.astype(array.dtype.newbyteorder("<"), copy=False)))
    for name, array in table:
        if array.dtype.str not in _DTYPES:
            raise InputError(f"{name} of type {array.dtype} cannot be written; allowed are {', '.join(_DTYPES)}.")
    header = json.dumps(
        {
            "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in table],
            "kind": content.kind,
            "library": content.library,
            "sections": {name: dict(section.values) for name, section in content.sections.items()},
        },
        sort_keys=True,
        allow_nan=False,
        separators=(",", ":"),
    ).encode("ascii")
    front = _FRONT.pack(MAGIC, FORMAT, 0, len(header)) + header
    parts = [front, bytes(_padding(len(front)))]
    for _, array in table:
        parts += [array.tobytes(), bytes(_padding(array.nbytes))]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def unpack(data: bytes, name: str = "the file") -> Content:
    """The content of a file; InputError, saying what is wrong, for anything that `pack` would not have written."""

    def bad(what: str) -> NoReturn:
        raise InputError(f"{name} is no usable stagewise file: {what}")

    if not data.startswith(MAGIC):
        bad("it does not start as one. Files of other libraries are read with import_lightgbm or import_xgboost.")
    if len(data) < _FRONT.size + _DIGEST:
        bad(f"it has {len(data)} bytes and ends before its header.")
    _, version, zero, length = _FRONT.unpack_from(data)
    if version > FORMAT:
        bad(f"its format is {version}, and this version of stagewise reads up to {FORMAT}. Install a newer stagewise.")
    if version < 1 or zero != 0:
        bad(f"its format is given as {version} and {zero}.")
    end = len(data) - _DIGEST
    if length > end - _FRONT.size:
        bad(f"its header should have {length} bytes, but the file ends before. It was cut short; fetch it again.")
    view = memoryview(data)
    if hashlib.sha256(view[:end]).digest() != data[end:]:
        bad("its checksum is wrong: it was changed or cut short after it was written. Fetch it again.")
    try:
        header = strict_json(data[_FRONT.size : _FRONT.size + length])
    except (ValueError, RecursionError) as error:
        bad(f"its header is not valid JSON ({str(error)[:80]}).")
    if not isinstance(header, dict) or set(header) != {"arrays", "kind", "library", "sections"}:
        bad("its header must hold arrays, kind, library and sections.")
    sections = header["sections"]
    texts = isinstance(header["kind"], str) and isinstance(header["library"], str)
    if not texts or not isinstance(sections, dict) or not all(isinstance(own, dict) for own in sections.values()):
        bad("its header holds something else than names and sections.")
    arrays: dict[str, dict[str, np.ndarray]] = {own: {} for own in sections}
    at = _FRONT.size + length
    at += _blank(view, at, end, bad)
    for entry in header["arrays"] if isinstance(header["arrays"], list) else bad("its table of arrays is no list."):
        section, own, array = _array(view, at, end, entry, bad)
        if section not in arrays or own in arrays[section]:
            bad(f"array {section}/{own} belongs to no section, or stands in the table twice.")
        arrays[section][own] = array
        at += array.nbytes
        at += _blank(view, at, end, bad)
    if at != end:
        bad(f"{end - at} bytes follow its last array.")
    return Content(
        header["kind"], {own: Section(sections[own], arrays[own]) for own in sections}, header["library"][:100]
    )


def _blank(view: memoryview, at: int, end: int, bad: Any) -> int:
    """The bytes that fill up to the next multiple of 64; they must be there, and 0."""
    length = _padding(at)
    if at + length > end or any(view[at : at + length]):
        bad("it is cut short, or something is written between its arrays.")
    return length


def _array(view: memoryview, at: int, end: int, entry: Any, bad: Any) -> tuple[str, str, np.ndarray]:
    """(section, name, array) of one entry of the table: a fresh, writable, aligned copy in native byte order.

    Its size is compared with the bytes that are there before anything is allocated.
    """
    if not isinstance(entry, list) or len(entry) != 3:
        bad("an entry of its table of arrays is not [name, dtype, shape].")
    name, dtype, shape = entry
    if not isinstance(name, str) or name.count("/") != 1 or len(name) > 200:
        bad("an array has no name of the form section/array.")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        bad(f"array {name} has a dtype that is not one of {', '.join(_DTYPES)}.")
    if (
        not isinstance(shape, list)
        or len(shape) > _MOST_DIMENSIONS
        or not all(type(size) is int and 0 <= size <= len(view) for size in shape)
    ):
        bad(f"array {name} has a shape that is no list of at most {_MOST_DIMENSIONS} sizes within the file.")
    kind = np.dtype(dtype)
    count = 1
    for size in shape:
        count *= size
    if count * kind.itemsize > end - at:
        bad(f"array {name} needs {count * kind.itemsize} bytes, but {end - at} are left. It was cut short.")
    array = np.frombuffer(view, kind, count, at).reshape(shape).astype(kind.newbyteorder("="))
    if kind == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        bad(f"array {name} holds truth values other than 0 and 1.")
    section, own = name.split("/")
    return section, own, array


def strict_json(data: bytes | str) -> Any:
    """JSON with neither NaN nor repeated keys; ValueError or RecursionError for anything else."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return out

    def constant(text: str) -> NoReturn:
        raise ValueError(f"{text} is no JSON number")

    return json.loads(data, object_pairs_hook=once, parse_constant=constant)
