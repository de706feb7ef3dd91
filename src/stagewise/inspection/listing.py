"""Results as text and as frames."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from stagewise.errors import MissingExtraError
from stagewise.markup import panel, table
from stagewise.params import check_choice

__all__ = ["Listed", "Summary", "frame_of", "listing", "number", "unlike"]

_LIBRARIES = ("pandas", "polars")


def number(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


def unlike(name: str, taken: Iterable[str]) -> str:
    """A name for a column of our own beside columns of the data: one that those have not."""
    names = set(taken)
    while name in names:
        name += "_"
    return name


def listing(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], total: int | None = None) -> str:
    """A title and an aligned table, the first column to the left; `total` says how many rows there would be."""
    cells = [list(row) for row in ([header] if any(header) else []) + list(rows)]
    widths = [max((len(row[k]) for row in cells), default=0) for k in range(len(header))]
    lines = [title]
    for row in cells:
        first, *others = row
        padded = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  " + "  ".join([first.ljust(widths[0]), *padded]).rstrip())
    if total is not None and total > len(rows):
        lines.append(f"  ... {total - len(rows)} more")
    return "\n".join(lines)


class Summary(NamedTuple):
    """A title and a table; `total` says how many rows there would be."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: int | None = None
    sizes: int = 1  # the column whose numbers are drawn as bars


class Listed:
    """A result that shows itself: as text, and in a notebook as a table."""

    __slots__ = ()

    def _summary(self) -> Summary:
        raise AssertionError("each result says what is shown of it")

    def _picture(self) -> str:
        """HTML that goes above the table."""
        return ""

    def __repr__(self) -> str:
        return listing(*self._summary()[:4])

    def _repr_html_(self) -> str:
        own = self._summary()
        return panel(own.title, self._picture(), table(own.header, own.rows, own.total, own.sizes))


def frame_of(columns: Mapping[str, Any], library: str | None = None) -> Any:
    """A frame of named columns: of the library asked for, else of one that is loaded, else of one that is installed."""
    if library is not None:
        wanted = [check_choice("library", library, _LIBRARIES)]
    else:
        wanted = sorted(_LIBRARIES, key=lambda name: name not in sys.modules)
    for name in wanted:
        if name in sys.modules or find_spec(name) is not None:
            return import_module(name).DataFrame(dict(columns))
    raise MissingExtraError(f"to_frame needs {' or '.join(wanted)}: pip install {wanted[0]}")
