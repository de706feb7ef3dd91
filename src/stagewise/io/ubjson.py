"""Universal Binary JSON, draft 12, as far as XGBoost writes it: a small reader that believes nothing.

Numbers are big-endian. An array of numbers of one type comes as a NumPy array. No length is taken at its word: what
it announces must lie in the bytes that are left, so memory is bounded by the size of the file.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from stagewise.errors import InputError

__all__ = ["read_ubjson"]

_NUMBERS: dict[bytes, np.dtype[Any]] = {
    b"i": np.dtype("i1"), b"U": np.dtype("u1"), b"I": np.dtype(">i2"), b"l": np.dtype(">i4"), b"L": np.dtype(">i8"),
    b"d": np.dtype(">f4"), b"D": np.dtype(">f8"),
}  # fmt: skip
_PLAIN = {b"Z": None, b"T": True, b"F": False}
_MOST_DEPTH = 50


def read_ubjson(data: bytes) -> Any:
    """The value in the bytes: dictionaries, lists, arrays, texts, numbers; InputError for anything else."""
    reader = _Reader(data)
    value = reader.value(reader.mark(), 0)
    if reader.at != len(data):
        reader.bad(f"{len(data) - reader.at} bytes follow its end")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def bad(self, what: str) -> NoReturn:
        raise InputError(f"This is no valid UBJSON: {what} (at byte {self.at}).")

    def take(self, length: int) -> bytes:
        if length < 0 or length > len(self.data) - self.at:
            self.bad(f"{length} bytes are announced, {len(self.data) - self.at} are left")
        self.at += length
        return self.data[self.at - length : self.at]

    def mark(self) -> bytes:
        """The next type, past no-operations."""
        mark = self.take(1)
        while mark == b"N":
            mark = self.take(1)
        return mark

    def length(self) -> int:
        mark = self.take(1)
        if mark not in _NUMBERS or mark in (b"d", b"D"):
            self.bad("a length is no whole number")
        count = int(np.frombuffer(self.take(_NUMBERS[mark].itemsize), _NUMBERS[mark])[0])
        if not 0 <= count <= len(self.data) - self.at:
            self.bad(f"a length of {count} goes beyond the end")
        return count

    def text(self) -> str:
        try:
            return self.take(self.length()).decode("utf-8")
        except UnicodeDecodeError:
            self.bad("a text is not UTF-8")

    def value(self, mark: bytes, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            self.bad(f"it is nested more than {_MOST_DEPTH} deep")
        if mark in _NUMBERS:
            return np.frombuffer(self.take(_NUMBERS[mark].itemsize), _NUMBERS[mark])[0].item()
        if mark in _PLAIN:
            return _PLAIN[mark]
        if mark == b"S":
            return self.text()
        if mark == b"C":
            return self.take(1).decode("latin-1")
        if mark == b"[":
            return self.array(depth)
        if mark == b"{":
            return self.object(depth)
        self.bad(f"unknown type {mark!r}")

    def header(self) -> tuple[bytes | None, int | None]:
        """(type, count) of an optimised container, None where they are not given."""
        kind = count = None
        if self.data[self.at : self.at + 1] == b"$":
            self.at += 1
            kind = self.take(1)
            if self.data[self.at : self.at + 1] != b"#":
                self.bad("a type without a count")
        if self.data[self.at : self.at + 1] == b"#":
            self.at += 1
            count = self.length()
        return kind, count

    def array(self, depth: int) -> Any:
        kind, count = self.header()
        if kind is not None and kind in _NUMBERS and count is not None:
            number = _NUMBERS[kind]
            return np.frombuffer(self.take(count * number.itemsize), number).astype(number.newbyteorder("="))
        if kind is not None and kind not in (b"S", b"[", b"{"):
            self.bad(f"an array of type {kind!r}")
        out: list[Any] = []
        while len(out) < count if count is not None else self.data[self.at : self.at + 1] != b"]":
            out.append(self.value(self.mark() if kind is None else kind, depth + 1))
        if count is None:
            self.at += 1
        return out

    def object(self, depth: int) -> dict[str, Any]:
        kind, count = self.header()
        if kind is not None:
            self.bad("an object of one type")
        out: dict[str, Any] = {}
        done = 0
        while done < count if count is not None else self.data[self.at : self.at + 1] != b"}":
            key = self.text()
            if key in out:
                self.bad(f"the key {key[:40]!r} stands twice")
            out[key] = self.value(self.mark(), depth + 1)
            done += 1
        if count is None:
            self.at += 1
        return out
