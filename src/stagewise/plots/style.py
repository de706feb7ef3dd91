"""What all pictures share: axes, colours that everyone can tell apart, room for long names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stagewise.errors import MissingExtraError, ParameterError

__all__ = [
    "BLUE",
    "COLOURS",
    "DASHES",
    "GREY",
    "MAP",
    "ORANGE",
    "label",
    "mark_deciles",
    "mark_levels",
    "new_axes",
    "note",
    "output_number",
    "pyplot",
    "value_text",
]

# Okabe and Ito's palette: told apart with every kind of colour vision, and in grey by its order of lightness.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#D55E00", "#8C8C00")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8A8A8A"
MAP = "cividis"

_LONGEST = 28
_MOST_LEVELS = 30  # names on an axis
_ROOM = 40  # characters side by side on an axis


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says how to get it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError("plots need matplotlib: pip install 'stagewise[plot]'") from None
    return plt


def new_axes(ax: Any, width: float = 6.0, height: float = 4.0, **options: Any) -> Any:
    """The given axes, or those of a new figure of this size (inches)."""
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained", subplot_kw=options or None)
    if hasattr(ax, "spines") and "top" in ax.spines:
        ax.spines[["top", "right"]].set_visible(False)
    return ax


def label(name: str, longest: int = _LONGEST) -> str:
    """A name that fits beside an axis: the middle of a long one is left out, as its ends tell more.

    A dollar sign is meant as one, not as the beginning of a formula.
    """
    tail = longest // 2 - 1
    short = name if len(name) <= longest else f"{name[: longest - tail - 1]}…{name[-tail:]}"
    return short.replace("$", r"\$")


def value_text(value: float, names: Sequence[str] | None = None) -> str:
    """A value of a column in few characters; names: of the codes of categories."""
    if names is not None:
        from stagewise.inspection.levels import name_of  # which loads the kernels

        return label(name_of(names, value), 20)
    return "missing" if np.isnan(value) else f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def mark_levels(ax: Any, names: Sequence[str], axis: str = "x") -> None:
    """The names of levels at 0, 1, ... on an axis; of many, every second, third ... one."""
    step = -(-len(names) // _MOST_LEVELS)
    places = range(0, len(names), step)
    texts = [label(names[k], 16) for k in places]
    crowded = axis == "x" and sum(map(len, texts)) > _ROOM
    options = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    getattr(ax, f"set_{axis}ticks")(list(places), texts, **options)


def note(ax: Any, text: str) -> None:
    """A small remark in the lower right corner, inside the axes."""
    ax.text(0.99, 0.02, text, transform=ax.transAxes, ha="right", va="bottom", fontsize=8, color="#555555")


def mark_deciles(ax: Any, deciles: Sequence[np.ndarray]) -> None:
    """Ticks inside the axes at the deciles of the training values (ESL figure 10.16): on x, and on y for a second."""
    for axis, own in zip("xy", deciles, strict=False):
        low, high = getattr(ax, f"get_{axis}lim")()
        inside = own[(own >= low) & (own <= high)]
        transform = getattr(ax, f"get_{axis}axis_transform")()
        lines = ax.vlines if axis == "x" else ax.hlines
        lines(inside, 0.0, 0.035, transform=transform, color="#D55E00", linewidth=1.3, zorder=5)


def output_number(outputs: Sequence[str], output: Any) -> int:
    """The number of an output, from its name or number; None is the last one."""
    if output is None:
        return len(outputs) - 1
    if isinstance(output, int | np.integer) and not isinstance(output, bool) and 0 <= output < len(outputs):
        return int(output)
    if str(output) in outputs:
        return outputs.index(str(output))
    allowed = ", ".join(repr(name) for name in outputs)
    raise ParameterError(f"output={output!r} is not known; choose one of {allowed} or its number.")
