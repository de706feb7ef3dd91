"""Where pictures are drawn: matplotlib, imported when it is first needed."""

from __future__ import annotations

from typing import Any

from stagewise.errors import MissingExtraError

__all__ = ["new_axes", "pyplot"]


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("Pictures need matplotlib: pip install 'stagewise[plot]'.") from error
    return plt


def new_axes(width: float = 6.4, height: float = 4.4) -> Any:
    """The axes of a fresh figure."""
    return pyplot().subplots(figsize=(width, height), layout="constrained")[1]
