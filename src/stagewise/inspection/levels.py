"""Names for the codes of categories: what grids, trees and pictures call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # pictures need the names alone, not what makes models
    from stagewise.boosting.model import Model
    from stagewise.data.categories import Levels

__all__ = ["Names", "as_codes", "level_names", "name_of", "set_codes", "set_text"]

Names = tuple[str, ...] | None
"""A name for each code of a column; None for a column of numbers."""


def level_names(model: Model) -> tuple[Names, ...]:
    """One entry a column. Codes of a column whose level table is not known (from elsewhere) go by their numbers."""
    n_columns = model.schema.n_columns
    found: list[Names] = [None] * n_columns
    for j, own in enumerate(model.schema.levels):
        if own is not None and not own.by_target:
            found[j] = _names(own)
    codes = np.zeros(n_columns, np.int64)
    for tree in (tree for stage in model.stages for tree in stage if len(getattr(tree, "sets", ()))):
        node = np.flatnonzero(tree.subset >= 0)
        for j in np.unique(tree.feature[node]).tolist():
            mine = node[tree.feature[node] == j]
            any_of = np.bitwise_or.reduce(tree.sets[tree.subset[mine]], axis=0)
            codes[j] = max(int(codes[j]), int(set_codes(any_of).max(initial=0)) + 1)
    return tuple(
        tuple(map(str, range(n))) if own is None and n else own for own, n in zip(found, codes.tolist(), strict=True)
    )


def _names(levels: Levels) -> tuple[str, ...]:
    """By code; levels that share one are counted."""
    code, first, count = np.unique(levels.codes, return_index=True, return_counts=True)
    names = [str(k) for k in range(levels.n_codes)]
    for k, at, n in zip(code.tolist(), first.tolist(), count.tolist(), strict=True):
        names[k] = level_text(levels.values[at]) if n == 1 else f"{n:,} other levels"
    return tuple(names)


def level_text(value: Any) -> str:
    """A level as text: whole numbers without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def name_of(names: Sequence[str], code: float) -> str:
    """The name of a code that may be missing, or beyond those that have one."""
    if np.isnan(code):
        return "missing"
    return names[int(code)] if 0 <= code < len(names) else f"{code:g}"


def as_codes(values: np.ndarray) -> np.ndarray:
    """Values of a column of codes as trees read them: whole numbers, infinity for what is no code, NaN for missing."""
    with np.errstate(invalid="ignore"):
        return np.where(values >= 0.0, np.floor(values), np.where(np.isnan(values), np.nan, np.inf))


def set_codes(words: np.ndarray) -> np.ndarray:
    """The codes of a set, ascending."""
    return np.flatnonzero(np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little"))


def set_text(codes: np.ndarray, names: Sequence[str], longest: int = 40) -> str:
    """{a, b, c}; a set that would be longer than `longest` characters ends in how many more there are."""
    words = [name_of(names, code) for code in codes.tolist()]
    shown: list[str] = []
    for k, word in enumerate(words):
        rest = len(words) - k
        length = len(", ".join([*shown, word])) + (0 if rest == 1 else len(f", … {rest - 1:,} more"))
        if length > longest and shown:
            return f"{{{', '.join(shown)}, … {rest:,} more}}"
        shown.append(word if len(word) <= longest else f"{word[: longest - 1]}…")
    return f"{{{', '.join(shown)}}}"
