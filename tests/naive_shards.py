"""Slow twins of kernels/shards.py: the steps of a tree's growth on some of its rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

MISSING = 255


def open_nodes(
    node: tuple[int, int, int], left: tuple[int, int, int]
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """(rows, grad, hess) of both children of a node."""
    return left, (node[0] - left[0], node[1] - left[1], node[2] - left[2])


def divide_nodes(codes: np.ndarray, rows: np.ndarray, column: int, cut: int, missing_left: bool) -> tuple[list, list]:
    """Rows that go left and right, each in the order they came."""
    own = [(int(r), int(codes[r, column])) for r in rows]
    left = [r for r, code in own if (missing_left if code == MISSING else code <= cut)]
    return left, [r for r, _ in own if r not in set(left)]


def build_nodes(codes: np.ndarray, grad: Sequence[int], hess: Sequence[int], rows: np.ndarray) -> np.ndarray:
    """(n_columns, 256, 3): sums of grad and hess, and the number of rows, of every bin."""
    out = np.zeros((codes.shape[1], 256, 3), np.int64)
    for r in rows:
        for j in range(codes.shape[1]):
            out[j, codes[r, j]] += (grad[r], hess[r], 1)
    return out


def to_narrow(grad: int, hess: int, count: int) -> tuple[int, int, int] | None:
    """The three numbers, None when one is too large for 32 bits."""
    return None if max(abs(grad), hess) >= 2**31 else (grad, hess, count)


def add_narrow(parts: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    return tuple(sum(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def post(words: list[int], number: int) -> bool:
    """A message is there; whether somebody sleeps until it comes."""
    words[0] = number
    return words[8] == number


def await_post(words: list[int], number: int) -> bool:
    """Whether a message is there; if not, somebody sleeps now."""
    if words[0] < number:
        words[8] = number
    return words[0] >= number


def label_nodes(n_rows: int, parts: Sequence[tuple[Sequence[int], int]]) -> list[int]:
    """The number of each row's part; -1 for rows in none."""
    return [next((number for rows, number in parts if r in rows), -1) for r in range(n_rows)]


def ordered_key(value: float) -> int:
    """The place of a float among all floats, from its bits."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value + 0.0))
    return (~bits & (2**64 - 1)) if bits >> 63 else bits | (1 << 63)


def residual_keys(y: np.ndarray, raw: np.ndarray) -> list[int]:
    return [ordered_key(float(a - b)) for a, b in zip(y, raw, strict=True)]


def keys_to_values(keys: Sequence[int]) -> list[float]:
    def value(key: int) -> float:
        bits = key ^ (1 << 63) if key >> 63 else ~key & (2**64 - 1)
        return struct.unpack("<d", struct.pack("<Q", bits))[0]

    return [value(key) for key in keys]


def count_digits(keys: Sequence[int], counts: Sequence[int], prefix: int, done: int) -> list[int]:
    """The weights of keys that begin with the prefix of `done` bits, by the 8 bits that follow."""
    out = [0] * 256
    for key, count in zip(keys, counts, strict=True):
        if key >> (64 - done) == prefix:
            out[(key >> (56 - done)) & 255] += count
    return out


def keys_above(keys: Sequence[int], counts: Sequence[int], chosen: int) -> int:
    return min((key for key, c in zip(keys, counts, strict=True) if key > chosen and c > 0), default=2**64 - 1)


def step_sums(residuals: Sequence[float], counts: Sequence[int], value: float, delta: float) -> tuple[Fraction, int]:
    """Σ weight · (residual - value, clipped to ±delta), and Σ weight."""
    clipped = [Fraction(min(max(r - value, -delta), delta)) * c for r, c in zip(residuals, counts, strict=True)]
    return sum(clipped, Fraction(0)), sum(counts)
