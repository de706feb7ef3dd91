"""Interactions as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.errors import ParameterError
from stagewise.inspection.interaction import Interactions
from stagewise.params import check_choice, check_count
from stagewise.plots.style import label, new_axes, output_number

__all__ = ["interactions"]

_NUMBERED = 12  # columns up to which cells have room for numbers


def interactions(result: Interactions, *, kind: str = "H", output: Any = None, top: int = 15, ax: Any = None) -> Any:
    """A matrix of interactions; on the diagonal, framed, each column's with all others together (H only).

    kind: "H", or "strength" on the model's scale. top: the columns that interact most are shown.
    """
    if not isinstance(result, Interactions):
        raise ParameterError("interactions draws the result of inspection.h_statistic.")
    kind = check_choice("kind", kind, ("H", "strength"))
    k = output_number(result.outputs, output)
    order = np.argsort(-result.strength[k].sum(axis=1), kind="stable")[: check_count("top", top, 2)]
    values = (result.pairwise if kind == "H" else result.strength)[k][np.ix_(order, order)].copy()
    values[np.diag_indices(len(order))] = result.total[k][order] if kind == "H" else np.nan
    side = 1.8 + 0.42 * len(order)
    ax = new_axes(ax, side + 1.2, side)
    ax.spines[:].set_visible(False)
    peak = float(np.nanmax(values, initial=0.0)) or 1.0
    image = ax.imshow(values, cmap="Blues", vmin=0.0, vmax=peak)
    names = [label(result.names[j], 18) for j in order]
    ax.set_xticks(range(len(order)), names, rotation=90)
    ax.set_yticks(range(len(order)), names)
    ax.tick_params(length=0)
    for i, j in np.ndindex(values.shape):
        if i == j and kind == "H":
            ax.add_patch(_frame(i))
        if len(order) <= _NUMBERED and values[i, j] > 0.0:
            dark = values[i, j] > 0.6 * peak
            ax.text(
                j, i, f"{values[i, j]:.2g}", ha="center", va="center", fontsize=7, color="white" if dark else "black"
            )
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label("H" if kind == "H" else "strength of interaction", fontsize=9)
    bar.outline.set_visible(False)
    if len(order) < len(result.names):
        ax.set_title(f"{len(order)} of {len(result.names)} columns", fontsize=9, color="#555555")
    return ax


def _frame(place: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(
        (place - 0.5, place - 0.5), 1.0, 1.0, fill=False, edgecolor="#333333", linewidth=1.0, zorder=3, clip_on=False
    )
