"""Results as text and as frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from stagewise.errors import MissingExtraError
from stagewise.params import check_choice

__all__ = ["frame_of", "listing", "number"]

_LIBRARIES = ("pandas", "polars")


def number(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


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
