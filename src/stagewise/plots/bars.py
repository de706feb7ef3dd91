"""Importance as bars."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.inspection.importance import Importance, feature_importance
from stagewise.params import check_count
from stagewise.plots.style import BLUE, label, new_axes, note

__all__ = ["importance"]

_TITLES = {
    "gain": "squared improvement",
    "split": "number of splits",
    "cover": "rows divided",
    "permutation": "drop in score when shuffled",
}
_UNITS = {"max": " (largest = 100)", "sum": " (sum = 1)", "none": ""}


def importance(result: Any, *, top: int = 20, ax: Any = None, **options: Any) -> Any:
    """The most important columns, the first on top; whiskers show the spread over repeats.

    result: an `Importance`, or a model (options then go to `feature_importance`). top: columns shown at most.
    """
    found = result if isinstance(result, Importance) else feature_importance(result, **options)
    order = found.order[: check_count("top", top, 1)]
    ax = new_axes(ax, 6.0, 0.9 + 0.27 * len(order))
    places = np.arange(len(order))
    spread = found.spread[order] if len(found.repeats) > 1 else None
    whiskers = {"linewidth": 1.0, "ecolor": "#333333"}
    ax.barh(places, found.values[order], height=0.72, color=BLUE, xerr=spread, error_kw=whiskers)
    ax.set_yticks(places, [label(found.names[j]) for j in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(_TITLES[found.kind] + _UNITS[found.scale])
    ax.axvline(0.0, color="#333333", linewidth=0.8)
    if len(order) < len(found.names):
        note(ax, f"{len(found.names) - len(order)} more columns")
    return ax
