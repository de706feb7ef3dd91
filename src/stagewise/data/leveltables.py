"""Level tables: put together from batches, and as the arrays of a section of a file, with their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from stagewise.data.categories import Levels
from stagewise.errors import InputError

__all__ = ["Crowd", "LevelCounts", "level_arrays", "level_counts", "read_levels"]

_ARRAYS = {
    "column": np.int64, "kind": np.uint8, "size": np.int64, "unseen": np.float64, "numbers": np.float64,
    "values": np.float64, "lengths": np.int64, "texts": np.uint8,
}  # fmt: skip
_TEXT, _BY_TARGET = 1, 2  # bits of "kind"
_MOST_CODES = 1 << 24
"""Codes of a column: up to here float32 has all whole numbers. Models from elsewhere may have more than ours."""


class Crowd(NamedTuple):
    """All levels of a column of more levels than there are codes, and the one of each row."""

    levels: Levels
    level: np.ndarray  # int32 (n_rows,), -1 where missing, -2 for a level that is not among them


def level_counts(levels: Levels, cells: np.ndarray) -> np.ndarray:
    """int64 (n_levels,): how many cells have each level; cells are level numbers, NaN where missing."""
    return np.bincount(cells[~np.isnan(cells)].astype(np.int64), minlength=len(levels.values))


class LevelCounts:
    """The levels of a column that comes in batches, and how many rows have each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._counts: dict[Any, int] = {}
        self._kind: np.dtype[Any] | None = None

    def add(self, levels: Levels, cells: np.ndarray) -> None:
        """levels: the table of a batch; cells: the number of each row's level in it, NaN where missing."""
        self.add_counts(levels, level_counts(levels, cells))

    def add_counts(self, levels: Levels, rows: np.ndarray) -> None:
        """The same, when the rows of each level are counted already."""
        if self._kind is None or not self._counts:
            self._kind = levels.values.dtype
        if len(levels.values) and levels.values.dtype != self._kind:
            raise InputError(f"{self.name} holds {_say_kind(levels)} as categories, and others before it do not.")
        for value, count in zip(levels.values.tolist(), rows.tolist(), strict=True):
            self._counts[value] = self._counts.get(value, 0) + count

    def finish(self) -> tuple[Levels, np.ndarray]:
        """All levels, numbered, and their counts int64 (n_levels,)."""
        ordered = sorted(self._counts)
        values = np.empty(len(ordered), self._kind or object)
        values[:] = ordered
        counts = np.array([self._counts[value] for value in ordered], np.int64)
        return Levels(values, np.arange(len(ordered), dtype=np.float64)), counts


def _say_kind(levels: Levels) -> str:
    return "text" if levels.is_text else "numbers"


def level_arrays(levels: Sequence[Levels | None]) -> dict[str, np.ndarray]:
    """One entry of column, kind and size a table, and of unseen where it is by target; their numbers, and values or
    texts (UTF-8), one after the other."""
    own = [(j, one) for j, one in enumerate(levels) if one is not None]
    texts = [text.encode("utf-8", "surrogatepass") for _, one in own if one.is_text for text in one.values.tolist()]
    return {
        "column": np.array([j for j, _ in own], np.int64),
        "kind": np.array([_TEXT * one.is_text + _BY_TARGET * one.by_target for _, one in own], np.uint8),
        "size": np.array([len(one.values) for _, one in own], np.int64),
        "unseen": np.array([one.unseen for _, one in own if one.by_target]),
        "numbers": np.concatenate([np.empty(0), *(one.numbers for _, one in own)]),
        "values": np.concatenate([np.empty(0), *(one.values for _, one in own if not one.is_text)]),
        "lengths": np.array([len(text) for text in texts], np.int64),
        "texts": np.frombuffer(b"".join(texts), np.uint8),
    }


def read_levels(arrays: Mapping[str, np.ndarray], n_columns: int) -> tuple[Levels | None, ...]:
    """The level tables of `level_arrays`, checked: (n_columns,), None for columns without."""
    for name in {**_ARRAYS, **arrays}:
        own = arrays.get(name)
        if own is None or name not in _ARRAYS or own.ndim != 1 or own.dtype != _ARRAYS[name]:
            raise InputError(
                f"The level tables must have the arrays {sorted(_ARRAYS)}, one row each; {name!r} is wrong."
            )
    column, kind, size = arrays["column"].tolist(), arrays["kind"].tolist(), arrays["size"]
    if not len(column) == len(kind) == len(size) or any(a >= b for a, b in pairwise([-1, *column, n_columns])):
        raise InputError("The level tables must be of different columns of the table, in order.")
    total = len(arrays["numbers"])
    if (size < 0).any() or (size > total).any() or int(size.sum()) != total or max([0, *kind]) > 3:
        raise InputError("The sizes of the level tables do not add up, or one is of an unknown kind.")
    texts = _texts(arrays["texts"].tobytes(), arrays["lengths"])
    is_text = (arrays["kind"] & _TEXT) > 0
    if int(size[is_text].sum()) != len(texts) or int(size[~is_text].sum()) != len(arrays["values"]):
        raise InputError("The level tables have more or fewer levels than numbers.")
    by_target = [bool(bits & _BY_TARGET) for bits in kind]
    if len(arrays["unseen"]) != sum(by_target) or not np.isfinite(arrays["unseen"]).all():
        raise InputError("Columns of target statistics must have a finite number for levels that were not seen.")
    unseen = iter(arrays["unseen"].tolist())
    made: list[Levels | None] = [None] * n_columns
    at = at_text = at_value = 0
    for j, bits, n in zip(column, kind, size.tolist(), strict=True):
        if bits & _TEXT:
            values = np.empty(n, object)
            values[:] = texts[at_text : at_text + n]
            at_text += n
        else:
            values = arrays["values"][at_value : at_value + n]
            at_value += n
        numbers, statistic = arrays["numbers"][at : at + n], bool(bits & _BY_TARGET)
        made[j] = _checked(Levels(values, numbers, statistic, next(unseen) if statistic else np.nan), n)
        at += n
    return tuple(made)


def _texts(joined: bytes, lengths: np.ndarray) -> list[str]:
    if (lengths < 0).any() or (lengths > len(joined)).any() or int(lengths.sum()) != len(joined):
        raise InputError("The lengths of the levels do not add up to their texts.")
    ends = np.concatenate(([0], np.cumsum(lengths))).tolist()
    try:
        return [joined[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise InputError("A level is not valid UTF-8.") from error


def _checked(levels: Levels, size: int) -> Levels:
    values, numbers = levels.values.tolist(), levels.numbers
    if len(values) != size or any(not a < b for a, b in pairwise(values)) or (size == 1 and values[0] != values[0]):
        raise InputError("The levels of a column are not in ascending order.")
    if levels.by_target:
        if not np.isfinite(numbers).all():
            raise InputError("The statistic of a level is not a finite number.")
    elif not ((numbers >= 0.0) & (numbers < _MOST_CODES) & (numbers == np.floor(numbers))).all():
        raise InputError(f"The codes of a column's levels must be whole numbers from 0 to {_MOST_CODES - 1}.")
    return levels
