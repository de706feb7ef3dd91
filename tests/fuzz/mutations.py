"""Damage to files: of bytes, of lines and of structure. Everything follows from a random generator."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from typing import Any

NUMBERS = (
    b"0", b"-1", b"1", b"2", b"-2", b"nan", b"inf", b"-inf", b"1e308", b"1e999", b"-1e-320", b"2147483647",
    b"2147483648", b"-2147483649", b"9223372036854775807", b"9223372036854775808", b"99999999999999999999", b"0.5",
    b"", b"1_0", b"0x10", b"+3", b" 7", b"true", b"null", b"999999999", b"1e9",
)  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 255, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 2**64, 10**30, 0.5, -0.0,
    1e308, "", "a", "0", "1E0", "nan", "[1E-1,2E-1]", "é\ud800", [], [0], [[]], [None], {}, {"a": 1},
    {"type": "tuple", "value": []}, {"type": "dict", "value": [[[1], 2]]}, {"type": "array int64", "value": [1, 2]},
    {"type": "float", "value": "nan"}, "multi:softprob", "reg:squarederror", "binary:logistic", "gblinear", "dart",
    "trees", "LogLoss", "x" * 300,
)  # fmt: skip


def flip_bytes(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """One to eight changes that know nothing of any format."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        if not out:
            break
        at, length = rng.randrange(len(out)), min(len(out), rng.choice((1, 1, 2, 4, 8, 16, 64)))
        how = rng.randrange(9)
        if how == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            out[at : at + length] = rng.randbytes(length)
        elif how == 2:
            del out[at : at + length]
        elif how == 3:
            out[at:at] = rng.randbytes(length)
        elif how == 4:
            out[at:at] = out[at : at + length]
        elif how == 5:
            del out[at:]
        elif how == 6:
            other = rng.choice(others)
            start = rng.randrange(len(other))
            out[at : at + length] = other[start : start + length]
        elif how == 7:
            out[at : at + 8] = struct.pack("<q", rng.choice((0, -1, 1, 2**31, 2**62, -(2**63), 2**40)))
        else:
            out[at : at + 4] = struct.pack(">i", rng.choice((0, -1, 1, 2**31 - 1, -(2**31), 65536)))
    return bytes(out)


def change_lines(rng: random.Random, data: bytes) -> bytes:
    """Lines of a text swapped, dropped, doubled; numbers in them replaced."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        how = rng.randrange(6)
        key, equals, value = lines[at].partition(b"=")
        words = value.split(b" ")
        if how == 0:
            del lines[at]
        elif how == 1:
            lines.insert(rng.randrange(len(lines)), lines[at])
        elif how == 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif how == 3:
            words.insert(rng.randrange(len(words) + 1), rng.choice(NUMBERS))
            lines[at] = key + equals + b" ".join(words)
        else:
            words[rng.randrange(len(words))] = rng.choice(NUMBERS)
            lines[at] = key + equals + b" ".join(words)
        if not lines:
            return b""
    return b"\n".join(lines)


def change_tree(rng: random.Random, value: Any, changes: int = 1) -> Any:
    """A JSON value with some parts replaced, removed, added or exchanged."""
    for _ in range(changes):
        places = list(_places(value))
        if not places:
            return _any(rng)
        holder, key = rng.choice(places)
        how = rng.randrange(8)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, list):
            holder.insert(key, _any(rng))
        elif how == 1:
            holder[rng.choice(("type", "value", "name", "more", str(key)))] = _any(rng)
        elif how == 2:
            other, name = rng.choice(places)
            holder[key] = json.loads(json.dumps(other[name]))
        elif how in (3, 4) and type(holder[key]) in (int, float):
            holder[key] = holder[key] + rng.choice((1, -1, 0.5, 2, 1000, -1000))
        elif how == 5 and isinstance(holder[key], str):
            holder[key] = rng.choice(NUMBERS).decode()
        else:
            holder[key] = _any(rng)
    return value


def _any(rng: random.Random) -> Any:
    """One of VALUES, fresh: what is put in may be changed again."""
    return json.loads(json.dumps(rng.choice(VALUES)))


def _places(value: Any) -> Any:
    """(container, key) of everything in a JSON value."""
    stack = [value]
    while stack:
        own = stack.pop()
        keys = list(own) if isinstance(own, dict) else range(len(own)) if isinstance(own, list) else ()
        for key in keys:
            yield own, key
            stack.append(own[key])


def sealed(data: bytes) -> bytes:
    """A stagewise file with a checksum that fits it."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest() if len(data) >= 32 else data


def open_own(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """(header, the bytes of each array) of a sound stagewise file."""
    length = int.from_bytes(data[16:24], "little")
    header = json.loads(data[24 : 24 + length])
    at, arrays = 24 + length, []
    at += -at % 64
    for _, dtype, shape in header["arrays"]:
        size = int(dtype[2:])
        for own in shape:
            size *= own
        arrays.append(data[at : at + size])
        at += size + -size % 64
    return header, arrays


def close_own(header: Any, arrays: list[bytes]) -> bytes:
    """A stagewise file of any header and any bytes, with a checksum that fits."""
    text = json.dumps(header, separators=(",", ":")).encode()
    front = b"\x8aSTGW\r\n\x1a" + struct.pack("<IIQ", 1, 0, len(text)) + text
    parts = [front, bytes(-len(front) % 64)]
    for own in arrays:
        parts += [own, bytes(-len(own) % 64)]
    return sealed(b"".join(parts) + bytes(32))


def change_own(rng: random.Random, data: bytes) -> bytes:
    """The values, the table of arrays, or numbers in arrays of a stagewise file; the layout stays sound mostly."""
    header, arrays = open_own(data)
    how = rng.randrange(4)
    if how == 0:
        header["sections"] = change_tree(rng, header["sections"], rng.choice((1, 1, 2, 4)))
    elif how == 1:
        header = change_tree(rng, header, rng.choice((1, 2)))
    else:
        for _ in range(rng.choice((1, 1, 2, 8))):
            which = rng.randrange(len(arrays))
            kind = header["arrays"][which][1]
            size = int(kind[2:])
            own = bytearray(arrays[which])
            if rng.random() < 0.15:  # another length, with a table that says so
                own = own[: size * rng.randrange(len(own) // size + 1)] if rng.random() < 0.5 else own + own[-size:]
                if len(header["arrays"][which][2]) == 1:
                    header["arrays"][which][2] = [len(own) // size]
            elif own:
                at = size * rng.randrange(len(own) // size)
                if kind[1] == "f":
                    number = rng.choice((0.0, -1.0, 1e300, float("nan"), float("inf"), float("-inf"), 0.5, 1e-310))
                    own[at : at + size] = struct.pack(
                        "<d" if size == 8 else "<f", min(number, 3e38) if size == 4 else number
                    )
                else:
                    low, high = (
                        (0, 2 ** (8 * size) - 1)
                        if kind[1] == "u"
                        else (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1)
                    )
                    number = rng.choice((0, 1, 2, 3, -1, -2, 5, 7, low, high, high // 2, rng.randrange(20)))
                    number = min(max(number, low), high)
                    own[at : at + size] = number.to_bytes(size, "little", signed=kind[1] != "u")
            arrays[which] = bytes(own)
    return close_own(header, arrays)


def write_ubjson(value: Any) -> bytes:
    """A JSON value as UBJSON, numbers of any size where they fit."""
    if value is None:
        return b"Z"
    if isinstance(value, bool):
        return b"T" if value else b"F"
    if isinstance(value, int):
        return b"L" + struct.pack(">q", min(max(value, -(2**63)), 2**63 - 1))
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode("utf-8", "replace")
        return b"SL" + struct.pack(">q", len(text)) + text
    if isinstance(value, list):
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(write_ubjson, value))
    parts = [write_ubjson(str(key))[1:] + write_ubjson(own) for key, own in value.items()]
    return b"{" + b"".join(parts) + b"}"


def mutated(kind: str, seed: int, files: dict[str, list[bytes]]) -> bytes:
    """One damaged file of a format; the same for the same seed and corpus."""
    rng = random.Random(f"{kind} {seed}")
    data = rng.choice(files[kind])
    bytewise = rng.random() < 0.4
    if kind == "own":
        if bytewise:
            out = flip_bytes(rng, data, files["own"])
            return sealed(out) if rng.random() < 0.9 else out
        return change_own(rng, data)
    if bytewise:
        return flip_bytes(rng, data, files[kind])
    if kind == "lightgbm":
        return change_lines(rng, data)
    source = json.loads(rng.choice(files["json"]))
    changed = change_tree(rng, source, rng.choice((1, 1, 1, 2, 4)))
    return json.dumps(changed).encode() if kind == "json" else write_ubjson(changed)
