"""Dependence on one column as a line, one panel a column, and the curves of single rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stagewise.errors import ParameterError
from stagewise.inspection.curves import Curves
from stagewise.inspection.dependence import Dependence
from stagewise.inspection.dependence import partial_dependence as compute
from stagewise.params import check_count
from stagewise.plots.maps import heat_map
from stagewise.plots.style import (
    BLUE,
    COLOURS,
    DASHES,
    label,
    mark_deciles,
    mark_levels,
    new_axes,
    output_number,
    pyplot,
    value_text,
)

__all__ = ["curves", "dependence_panels", "partial_dependence"]

_FEW_VALUES = 8  # each gets a tick of its own


def _dependence(result: Any, features: Any, options: dict[str, Any]) -> Dependence:
    if isinstance(result, Dependence):
        return result
    if features is None:
        raise ParameterError("features must name the columns whose dependence is to be drawn.")
    return compute(result, features, **options)


def partial_dependence(
    result: Any, features: Any = None, *, output: Any = None, steps: bool = False, ax: Any = None, **options: Any
) -> Any:
    """Dependence on one column as a line, on two as a heat map with contours; ticks at the deciles of training values.

    Categories are bars, one for each level, from the mean over the levels.

    result: a `Dependence`, or a model and `features` (options then go to `inspection.partial_dependence`). output: the
    name or number of one class; all of them are drawn for one column, the last one for two. steps: draw the differences
    from grid point to grid point instead. The dependence at missing values stands apart, on the right.
    """
    found = _dependence(result, features, options)
    if len(found.grid) > 2:
        raise ParameterError(f"dependence on {len(found.grid)} columns cannot be drawn; draw one or two.")
    if len(found.grid) == 2:
        return heat_map(found, output, new_axes(ax, 5.6, 4.4))
    if steps and not found.steps_only:
        found = found.steps()
    ax = new_axes(ax, 5.0, 3.4)
    chosen = range(len(found.outputs)) if output is None else [output_number(found.outputs, output)]
    names = found.label(0)
    if names is not None:
        _bars(ax, found, list(chosen), names)
    else:
        for k in chosen:
            _line(ax, found, k, found.outputs[k] if len(chosen) > 1 else None)
        _finish(ax, found.grid[0], found.features[0])
    if len(chosen) > 1:
        ax.legend(frameon=False, fontsize=8, title="class")
    if found.steps_only:
        ax.axhline(0.0, color="#333333", linewidth=0.8)
        ax.set_ylabel("step of partial dependence")
    else:
        ax.set_ylabel("partial dependence" if found.response == "raw" else "mean prediction")
    mark_deciles(ax, found.deciles)
    return ax


def _line(ax: Any, found: Dependence, k: int, name: str | None) -> None:
    grid, values = found.grid[0], found.values[k]
    present = ~np.isnan(grid)
    order = np.argsort(grid[present], kind="stable")
    x, y = grid[present][order], values[present][order]
    style = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)] if name else "-", "label": name}
    if found.steps_only:
        ax.vlines(x, 0.0, y, color=style["color"], linewidth=1.6, label=name)
    else:
        ax.plot(x, y, linewidth=1.8, marker="o" if len(x) < 12 else None, markersize=4, **style)
    for value in values[~present]:
        ax.plot(_missing_place(x), value, marker="D", color=style["color"], markersize=5, linestyle="none")


def _bars(ax: Any, found: Dependence, chosen: list[int], names: Sequence[str]) -> None:
    """One bar for each level, side by side for several outputs; they start at the mean over the levels."""
    places, width = np.arange(len(names)), 0.8 / len(chosen)
    for n, k in enumerate(chosen):
        values = found.values[k]
        base = 0.0 if found.response == "prediction" else float(values.mean())
        colour = COLOURS[k % len(COLOURS)]
        at = places + (n - 0.5 * (len(chosen) - 1)) * width
        ax.bar(at, values - base, 0.92 * width, bottom=base, color=colour, label=found.outputs[k])
        if base:
            ax.axhline(base, color=colour, linewidth=0.8)
    ax.set_xlabel(label(found.features[0], 40))
    ax.set_xlim(-0.6, len(names) - 0.4)
    mark_levels(ax, names)


def _missing_place(x: np.ndarray) -> float:
    """Where missing values stand: to the right of all others."""
    return float(x.max() + 0.08 * (np.ptp(x) or 1.0)) if len(x) else 0.0


def _finish(ax: Any, grid: np.ndarray, name: str) -> None:
    ax.set_xlabel(label(name, 40))
    present = grid[~np.isnan(grid)]
    if 0 < len(present) <= _FEW_VALUES:
        ax.set_xticks(np.unique(present), [value_text(value) for value in np.unique(present)])
    if len(present) < len(grid):
        place = _missing_place(present)
        ax.text(place, 1.0, "missing", transform=ax.get_xaxis_transform(), ha="center", va="bottom", fontsize=8)
        if len(present):
            span = np.ptp(present) or 1.0
            ax.set_xlim(present.min() - 0.04 * span, place + 0.04 * span)


def dependence_panels(
    result: Any, features: Any = None, *, columns: int = 3, same_scale: bool = True, ax: Any = None, **options: Any
) -> Any:
    """One panel for each dependence; an array of Axes.

    result: a sequence of `Dependence`, or a model and a sequence of columns (a pair of them makes a heat map).
    same_scale: lines share one vertical axis, so that heights can be compared. ax: an array with an Axes for each.
    """
    if isinstance(result, Dependence):
        result = [result]
    if isinstance(result, list | tuple):
        found = [_dependence(own, None, {}) for own in result]
    else:
        wanted = [features] if isinstance(features, str | int) or features is None else list(features)
        found = [_dependence(result, own, options) for own in wanted]
    if not found:
        raise ParameterError("there is nothing to draw: name at least one column.")
    if ax is None:
        n_columns = min(check_count("columns", columns, 1), len(found))
        n_rows = -(-len(found) // n_columns)
        size = (3.3 * n_columns, 2.7 * n_rows)
        _, panels = pyplot().subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
        for unused in panels.ravel()[len(found) :]:
            unused.set_axis_off()
        panels = panels.ravel()[: len(found)]
    else:
        panels = np.atleast_1d(np.asarray(ax, object)).ravel()
        if len(panels) != len(found):
            raise ParameterError(f"ax has {len(panels)} Axes for {len(found)} panels; give one for each.")
    for own, panel in zip(found, panels, strict=True):
        partial_dependence(own, ax=panel)
    lines = [panel for own, panel in zip(found, panels, strict=True) if len(own.grid) == 1]
    if same_scale and lines:
        low, high = min(panel.get_ylim()[0] for panel in lines), max(panel.get_ylim()[1] for panel in lines)
        for panel in lines:
            panel.set_ylim(low, high)
            place = panel.get_subplotspec()
            if place is not None and not place.is_first_col():
                panel.set_ylabel("")
    return panels


def curves(result: Curves, *, output: Any = None, max_curves: int = 200, ax: Any = None) -> Any:
    """One thin line a row, and their average; ticks at the deciles of the training data.

    result: a `Curves`, of which at most max_curves are drawn (evenly spaced ones).
    """
    if not isinstance(result, Curves):
        raise ParameterError("curves draws the result of inspection.individual_curves.")
    ax = new_axes(ax, 5.0, 3.6)
    k = output_number(result.outputs, output)
    grid = result.grid if result.labels is None else np.arange(float(len(result.grid)))
    present = ~np.isnan(grid)
    order = np.argsort(grid[present], kind="stable")
    x = grid[present][order]
    lines = result.values[k][:, present][:, order]
    n = len(lines)
    some = np.unique(np.linspace(0, n - 1, min(n, check_count("max_curves", max_curves, 1))).astype(int))
    ax.plot(x, lines[some].T, color=BLUE, linewidth=0.6, alpha=max(0.12, min(0.8, 12 / len(some))))
    ax.plot(x, lines.mean(axis=0), color="white", linewidth=4.0)
    ax.plot(x, lines.mean(axis=0), color="black", linewidth=2.0, label="average")
    if not present.all():
        at_missing = result.values[k][some][:, ~present][:, 0]
        ax.plot(np.full(len(some), _missing_place(x)), at_missing, ".", color=BLUE, alpha=0.3)
    _finish(ax, grid, result.feature)
    if result.labels is not None:
        mark_levels(ax, result.labels)
    what = "change of prediction" if result.is_centred else "prediction"
    ax.set_ylabel(f"{what} (raw)" if result.response == "raw" else what)
    ax.legend(frameon=False, fontsize=8)
    mark_deciles(ax, (result.deciles,))
    return ax
