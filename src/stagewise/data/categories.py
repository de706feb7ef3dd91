"""Categories: the level table of a column, and how cells of any container become codes.

    cells (texts or numbers)  ->  learn  ->  Levels, level numbers        at fit
    cells                     ->  Levels.encode  ->  floats               at prediction

A level table belongs to the model. Its order is that of the levels themselves (text by code point, numbers by size),
so codes depend neither on the container nor on the order of a category table. Truth values are the numbers 0 and 1.
Entries of a category table that no row uses are no levels.

Every level has a code of its own up to 255 of them. Beyond that the 254 most frequent ones have (ties: the first in
order), and the others share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from stagewise.data.cells import Floats, is_missing, to_floats
from stagewise.errors import InputError, ParameterError

__all__ = [
    "Cells",
    "FROM_DTYPE",
    "Levels",
    "MOST_CODES",
    "Texts",
    "cells_of",
    "choose_columns",
    "column_cells",
    "exact_numbers",
    "learn",
    "level_index",
    "pooled",
]

FROM_DTYPE = "from_dtype"
MOST_CODES = 255
_EXACT = 2.0**53  # integers from here on are not all told apart by float64


class Texts(NamedTuple):
    """A column of text: row i has table[entry[i]]."""

    entry: npt.NDArray[np.int64]  # (n_rows,), -1 where missing
    table: list[str]  # entries may repeat, and need not be used


Cells: TypeAlias = Texts | npt.NDArray[np.float64]
"""Text, or numbers with NaN where missing."""


@dataclass(frozen=True, eq=False)
class Levels:
    """The level table of one column: cells with values[k] become numbers[k], unseen ones `unseen`, missing ones NaN.

    With `by_target` the numbers are target statistics and the column is one of ordinary numbers; otherwise they are
    codes, 0 to 254, that trees split by sets, and what was not seen is missing.
    """

    values: np.ndarray  # (n_levels,): texts (object) or numbers (float64), ascending
    numbers: npt.NDArray[np.float64]  # (n_levels,)
    by_target: bool = False
    unseen: float = np.nan

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """int32 (n_levels,): the bin code of each level."""
        return self.numbers.astype(np.int32)

    @property
    def n_codes(self) -> int:
        """Codes are 0 .. n_codes - 1."""
        return int(self.numbers.max()) + 1 if len(self.numbers) and not self.by_target else 0

    def numbered(self) -> Levels:
        """The same levels with their places as numbers; -2 for what was not seen."""
        return Levels(self.values, np.arange(len(self.values), dtype=np.float64), True, -2.0)

    @property
    def is_text(self) -> bool:
        return self.values.dtype == object

    def names(self, code: int) -> list[str]:
        """The levels with this code, as text."""
        chosen = self.values[self.numbers == code].tolist()
        return [str(int(own)) if isinstance(own, float) and own.is_integer() else str(own) for own in chosen]

    def __getstate__(self) -> dict[str, Any]:
        return {name: own for name, own in self.__dict__.items() if name != "_number_of"}

    @cached_property
    def _number_of(self) -> dict[str, float]:
        return dict(zip(self.values.tolist(), self.numbers.tolist(), strict=True))

    def encode(self, cells: Cells, name: str) -> npt.NDArray[Any]:
        """Codes (float32) or statistics (float64) of cells.

        Numbers where training had text, or text where it had numbers, are an error; `name` says whose.
        """
        kind = np.float64 if self.by_target else np.float32
        if isinstance(cells, Texts):
            if len(self.values) and not self.is_text and (cells.entry >= 0).any():
                raise InputError(
                    f"{name} held numbers as categories in training, and holds text now, such as "
                    f"{cells.table[int(cells.entry.max())][:40]!r}; convert it with .astype(float)."
                )
            known = self._number_of if self.is_text else {}
            return np.array([*(known.get(text, self.unseen) for text in cells.table), np.nan], kind)[cells.entry]
        missing = np.isnan(cells)
        if len(self.values) and self.is_text and not missing.all():
            raise InputError(
                f"{name} held text as categories in training, and holds numbers now, such as "
                f"{cells[~missing][0]:g}; pass the same text, with .astype(str) for example."
            )
        out = np.where(missing, np.nan, self.unseen)
        if len(self.values) and not self.is_text:
            at = np.minimum(np.searchsorted(self.values, cells), len(self.values) - 1)
            out = np.where(self.values[at] == cells, self.numbers[at], out)
        return out.astype(kind)


def learn(cells: Cells) -> tuple[Levels, Floats]:
    """The level table of a training column, and the number of each cell's level in it (NaN where missing)."""
    if isinstance(cells, Texts):
        used = np.bincount(cells.entry[cells.entry >= 0], minlength=len(cells.table)) > 0
        distinct = sorted({text for text, own in zip(cells.table, used.tolist(), strict=True) if own})
        values = np.empty(len(distinct), object)
        values[:] = distinct
    else:
        values = np.unique(cells[~np.isnan(cells)])
    levels = Levels(values, np.arange(len(values), dtype=np.float64))
    if len(values) > MOST_CODES:  # float32 has no room for any number of levels
        return levels, replace(levels, by_target=True).encode(cells, "")
    return levels, levels.encode(cells, "")


def pooled(levels: Levels, counts: npt.NDArray[np.integer[Any]]) -> Levels:
    """The same levels with at most 255 codes; counts (n_levels,): rows of each level."""
    n = len(levels.values)
    codes = np.arange(n, dtype=np.float64)
    if n > MOST_CODES:
        codes[:] = MOST_CODES - 1
        own = np.sort(np.argsort(-counts.astype(np.int64), kind="stable")[: MOST_CODES - 1])
        codes[own] = np.arange(len(own))
    return Levels(levels.values, codes)


def level_index(cells: Floats) -> npt.NDArray[np.int32]:
    """Level numbers (n_rows,) as integers: -1 where missing, -2 where not seen (which `Levels.numbered` gives -2)."""
    return np.where(np.isnan(cells), -1, cells).astype(np.int32)


# --- reading cells ---------------------------------------------------------------------------------------------------


def cells_of(entries: Sequence[Any], index: npt.NDArray[Any], name: str) -> Cells:
    """The cells of a column that is stored as a table of entries and, for each row, the number of its entry (-1: none).

    Entries that no row uses are not looked at. Entries that are neither text nor numbers (intervals, dates) are known
    by their text.
    """
    index = np.asarray(index, np.int64)
    used = np.bincount(index[index >= 0], minlength=len(entries)) > 0
    absent = np.array([is_missing(type(own)) or own != own for own in entries], dtype=bool)
    if absent.any():
        index = np.where((index >= 0) & np.append(absent, False)[index], -1, index)
    chosen = [own for own, wanted in zip(entries, used & ~absent, strict=True) if wanted]
    numeric = [_is_number(own) for own in chosen]
    if not chosen:
        return Texts(np.full(len(index), -1, np.int64), [])
    if all(numeric):
        values: npt.NDArray[np.float64] = np.full(len(entries) + 1, np.nan)
        values[:-1][used & ~absent] = exact_numbers(np.array(chosen, object), name)
        floats: npt.NDArray[np.float64] = values[index]
        return floats
    if any(numeric):
        number, text = chosen[numeric.index(True)], chosen[numeric.index(False)]
        raise InputError(
            f"{name} mixes numbers ({number!r}) and text ({str(text)[:40]!r}); make it one or the other, for example "
            "text with .astype(str)."
        )
    return Texts(index, [str(own) if wanted else "" for own, wanted in zip(entries, used & ~absent, strict=True)])


def _is_number(cell: object) -> bool:
    return isinstance(cell, (int, float, Decimal, np.number, np.bool_)) and not isinstance(cell, np.complexfloating)


def exact_numbers(values: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    """Numbers (n,) as float64 levels; an error for integers that float64 does not tell apart."""
    floats = to_floats(values, name, "").astype(np.float64)
    if values.dtype.kind in "iuO":
        for k in np.flatnonzero(np.abs(floats) >= _EXACT).tolist():
            if isinstance(values[k], (int, np.integer)):
                raise InputError(
                    f"{name} has the integer {values[k]} as a category; from 2**53 on integers are not told apart. "
                    "Make it text, with .astype(str)."
                )
    return floats + 0.0  # -0.0 is 0.0


def column_cells(values: npt.NDArray[Any], name: str) -> Cells:
    """The cells of a plain array (n_rows,) of any dtype."""
    if values.dtype.kind in "OUST":
        place: dict[Any, int] = {}
        cells = values.tolist()
        try:
            index = np.array([place.setdefault((type(own) is bool, own), len(place)) for own in cells], np.int64)
        except TypeError as error:
            raise InputError(f"{name} holds a cell that cannot be a category: {error}.") from error
        return cells_of([own for _, own in place], index, name)
    return exact_numbers(values, name)


# --- which columns ---------------------------------------------------------------------------------------------------


def choose_columns(given: Any, names: Sequence[str] | None, n_columns: int) -> frozenset[int]:
    """The columns that categorical_features names: a list of names or of numbers, or a mask."""
    if given is None:
        return frozenset()
    listed = np.asarray(given).tolist() if not isinstance(given, (list, tuple)) else list(given)
    if isinstance(given, str) or not isinstance(listed, list):
        raise ParameterError(
            f"categorical_features={given!r} must be {FROM_DTYPE!r}, None, or a list of names or numbers of columns, "
            "or a mask with True for each of them."
        )
    if all(isinstance(own, (bool, np.bool_)) for own in listed) and listed:
        if len(listed) != n_columns:
            raise ParameterError(f"categorical_features is a mask of {len(listed)} for {n_columns} columns.")
        return frozenset(np.flatnonzero(listed).tolist())
    chosen = set()
    for own in listed:
        if isinstance(own, str):
            if names is None or own not in names:
                raise ParameterError(
                    f"categorical_features names {own!r}, which is no column of X"
                    + (" (X has no names; give numbers)." if names is None else ".")
                )
            chosen.add(list(names).index(own))
        elif isinstance(own, (int, np.integer)) and not isinstance(own, bool):
            if not 0 <= own < n_columns:
                raise ParameterError(f"categorical_features has {own}; columns are numbered 0 to {n_columns - 1}.")
            chosen.add(int(own))
        else:
            raise ParameterError(f"categorical_features has {own!r}; give names or numbers of columns, or a mask.")
    return frozenset(chosen)
