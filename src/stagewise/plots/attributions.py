"""SHAP values: a swarm of all rows, bars, one row from its expectation to its prediction, one column."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.errors import ParameterError
from stagewise.inspection.shap import ShapValues
from stagewise.inspection.shap import shap_values as compute
from stagewise.params import check_count
from stagewise.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    label,
    mark_levels,
    new_axes,
    note,
    output_number,
    value_text,
)

__all__ = ["shap_bar", "shap_dependence", "shap_summary", "shap_waterfall"]

_MOST_POINTS = 3000  # rows drawn; more only hide each other


def _values(result: Any, X: Any, options: dict[str, Any]) -> ShapValues:
    if isinstance(result, ShapValues):
        return result
    if X is None:
        raise ParameterError("give the result of inspection.shap_values, or a model and X.")
    return compute(result, X, **options)


def _some_rows(n: int) -> np.ndarray:
    if n <= _MOST_POINTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, _MOST_POINTS, replace=False))


def _colour_scale(values: np.ndarray) -> np.ndarray:
    """Values of a column from 0 (5 % quantile) to 1 (95 %); NaN where missing."""
    present = values[np.isfinite(values)]
    low, high = np.quantile(present, [0.05, 0.95]) if len(present) else (0.0, 1.0)
    if low == high:
        low, high = (present.min(), present.max()) if len(present) else (0.0, 1.0)
    with np.errstate(invalid="ignore"):
        return np.clip((values - low) / (high - low or 1.0), 0.0, 1.0)


def _swarm(values: np.ndarray, width: float) -> np.ndarray:
    """Heights that keep points with close values apart: those of a bin are stacked around 0."""
    span = float(np.ptp(values)) or 1.0
    bins = np.floor((values - values.min()) / span * 90).astype(int)
    heights = np.zeros(len(values))
    order = np.argsort(bins, kind="stable")
    starts = np.flatnonzero(np.diff(bins[order], prepend=-1))
    for a, b in zip(starts, [*starts[1:], len(order)], strict=True):
        k = np.arange(b - a)
        heights[order[a:b]] = np.where(k % 2 == 0, 1, -1) * ((k + 1) // 2)
    return heights * min(0.06, width / max(1.0, float(np.abs(heights).max())))


def shap_summary(
    result: Any, X: Any = None, *, output: Any = None, top: int = 15, ax: Any = None, **options: Any
) -> Any:
    """Every row as a point: across, what a column adds to its prediction; in colour, the column's value.

    Grey is what has no place on a scale: missing values, and categories.

    result: a `ShapValues`, or a model and X (options then go to `inspection.shap_values`). Columns by mean size.
    """
    found = _values(result, X, options)
    k = output_number(found.outputs, output)
    order = np.argsort(-found.mean_size(k), kind="stable")[: check_count("top", top, 1)]
    ax = new_axes(ax, 6.6, 0.9 + 0.38 * len(order))
    rows = _some_rows(len(found.values))
    points = None
    for place, j in enumerate(order):
        own, colour = found.output(k)[rows, j], _colour_scale(found.data[:, j].astype(float))[rows]
        if found.level(j) is not None:  # codes are no scale
            colour = np.full(len(rows), np.nan)
        heights = place + _swarm(own, 0.4)
        gone = np.isnan(colour)
        ax.scatter(own[gone], heights[gone], s=7, color="#B0B0B0", linewidths=0, rasterized=True)
        points = ax.scatter(
            own[~gone], heights[~gone], s=7, c=colour[~gone], cmap="viridis", vmin=0.0, vmax=1.0, linewidths=0,
            rasterized=True,
        )  # fmt: skip
    ax.axvline(0.0, color="#333333", linewidth=0.8, zorder=0)
    ax.set_yticks(range(len(order)), [label(found.names[j]) for j in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("SHAP value" + _of_output(found, k))
    bar = ax.figure.colorbar(points, ax=ax, ticks=[0.0, 1.0], aspect=40, pad=0.02)
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("value of the column", labelpad=-14, fontsize=9)
    bar.outline.set_visible(False)
    if len(order) < len(found.names):
        note(ax, f"{len(found.names) - len(order)} more columns")
    return ax


def _of_output(found: ShapValues, k: int) -> str:
    return f" for {found.outputs[k]}" if found.outputs[k] else ""


def shap_bar(result: Any, X: Any = None, *, output: Any = None, top: int = 20, ax: Any = None, **options: Any) -> Any:
    """Mean absolute SHAP values as bars; those of several classes end to end, unless `output` names one."""
    found = _values(result, X, options)
    chosen = list(range(len(found.outputs))) if output is None else [output_number(found.outputs, output)]
    sizes = np.array([found.mean_size(k) for k in chosen])
    order = np.argsort(-sizes.sum(axis=0), kind="stable")[: check_count("top", top, 1)]
    ax = new_axes(ax, 6.0, 0.9 + 0.27 * len(order))
    places, left = np.arange(len(order)), np.zeros(len(order))
    for k, own in zip(chosen, sizes, strict=True):
        colour = COLOURS[k % len(COLOURS)] if len(chosen) > 1 else BLUE
        ax.barh(
            places, own[order], left=left, height=0.72, color=colour, label=found.outputs[k], edgecolor="white",
            linewidth=0.5,
        )  # fmt: skip
        left += own[order]
    ax.set_yticks(places, [label(found.names[j]) for j in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("mean |SHAP value|")
    if len(chosen) > 1:
        ax.legend(frameon=False, fontsize=8, title="class", loc="lower right")
    if len(order) < len(found.names):
        note(ax, f"{len(found.names) - len(order)} more columns")
    return ax


def shap_waterfall(
    result: Any, row: int = 0, X: Any = None, *, output: Any = None, top: int = 10, ax: Any = None, **options: Any
) -> Any:
    """From the expected value, at the bottom, to the prediction of one row, at the top: what each column adds.

    row: its number. top: columns with a bar of their own; the others share one.
    """
    found = _values(result, X, options)
    row = check_count("row", row, 0, len(found.values) - 1)
    k = output_number(found.outputs, output)
    own, base = found.output(k)[row], float(found.expected[k])
    order = np.argsort(-np.abs(own), kind="stable")
    shown, others = order[: check_count("top", top, 1)], order[top:]
    changes = [float(own[j]) for j in shown]
    names = [f"{label(found.names[j])} = {value_text(float(found.data[row, j]), found.level(j))}" for j in shown]
    if len(others):
        changes.append(float(own[others].sum()))
        names.append(f"{len(others)} others")
    changes, names = changes[::-1], names[::-1]
    ends = base + np.cumsum(changes)
    ax = new_axes(ax, 6.6, 1.3 + 0.36 * len(changes))
    low, high = min(base, *ends), max(base, *ends)
    span = high - low or 1.0
    for place, (change, end) in enumerate(zip(changes, ends, strict=True)):
        ax.barh(place, change, left=end - change, height=0.66, color=ORANGE if change > 0 else BLUE)
        beyond = end + (0.01 if change >= 0 else -0.01) * span
        ax.text(beyond, place, f"{change:+.3g}", va="center", ha="left" if change >= 0 else "right", fontsize=8)
        if place + 1 < len(changes):
            ax.plot([end, end], [place + 0.33, place + 0.67], color=GREY, linewidth=0.8)
    ax.axvline(base, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.set_xlim(low - 0.14 * span, high + 0.14 * span)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"raw prediction{_of_output(found, k)}: expected {base:.4g}, this row {ends[-1]:.4g}")
    return ax


def shap_dependence(
    result: Any,
    feature: Any,
    X: Any = None,
    *,
    colour: Any = "auto",
    output: Any = None,
    ax: Any = None,
    **options: Any,
) -> Any:
    """SHAP values of one column against its values, in the colour of another one.

    colour: a column; "auto" takes the one that best explains what rows with like values differ in; None for none.
    """
    found = _values(result, X, options)
    j, k = _column(found, feature), output_number(found.outputs, output)
    x, y = found.data[:, j].astype(float), found.output(k)[:, j]
    other = _partner(found, j, k) if isinstance(colour, str) and colour == "auto" else None
    if other is None and colour is not None and not (isinstance(colour, str) and colour == "auto"):
        other = _column(found, colour)
    rows = _some_rows(len(x))
    ax = new_axes(ax, 5.8, 3.8)
    names = found.level(j)
    if names is not None:  # points of a level stand around its place
        x = x + 0.3 * (np.random.default_rng(0).random(len(x)) - 0.5)
        mark_levels(ax, names)
    present = np.isfinite(x)
    span = float(np.ptp(x[present])) if present.any() else 1.0
    place = np.where(present, x, (x[present].max() if present.any() else 0.0) + 0.08 * (span or 1.0))
    if other is None:
        ax.scatter(place[rows], y[rows], s=9, color=BLUE, linewidths=0, alpha=0.6, rasterized=True)
    else:
        shade, partner = found.data[:, other].astype(float), found.level(other)
        low, high = np.nanquantile(np.where(np.isfinite(shade), shade, np.nan), [0.05, 0.95])
        if partner is not None:
            low, high = 0.0, max(1.0, float(np.nanmax(shade)))
        gone = ~np.isfinite(shade[rows])
        ax.scatter(place[rows][gone], y[rows][gone], s=9, color="#B0B0B0", linewidths=0, rasterized=True)
        own = rows[~gone]
        points = ax.scatter(
            place[own], y[own], s=9, c=shade[own], cmap="viridis", vmin=low, vmax=high, linewidths=0, rasterized=True
        )
        bar = ax.figure.colorbar(points, ax=ax, aspect=30)
        bar.set_label(label(found.names[other]), fontsize=9)
        if partner is not None:
            some = np.unique(np.linspace(0, high, min(12, int(high) + 1)).astype(int))
            bar.set_ticks(some, labels=[value_text(float(code), partner) for code in some])
        bar.outline.set_visible(False)
    ax.axhline(0.0, color="#333333", linewidth=0.8, zorder=0)
    ax.set_xlabel(label(found.names[j], 40) + ("" if present.all() else " (missing on the right)"))
    ax.set_ylabel(f"SHAP value of {label(found.names[j])}{_of_output(found, k)}")
    return ax


def _column(found: ShapValues, feature: Any) -> int:
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and 0 <= feature < len(found.names):
        return int(feature)
    if isinstance(feature, str) and feature in found.names:
        return found.names.index(feature)
    raise ParameterError(f"{feature!r} is no column of the model; give a name or a number below {len(found.names)}.")


def _partner(found: ShapValues, j: int, k: int) -> int | None:
    """The column that correlates best with the SHAP values among rows of like values of column j."""
    x, y = found.data[:, j].astype(float), found.output(k)[:, j]
    order = np.argsort(x, kind="stable")
    score = np.zeros(len(found.names))
    for part in np.array_split(order, max(1, min(20, len(order) // 20))):
        if len(part) < 3 or np.ptp(y[part]) == 0.0:
            continue
        own = np.nan_to_num(found.data[part].astype(float), posinf=0.0, neginf=0.0)
        own /= np.maximum(np.abs(own).max(axis=0), 1e-300)  # squares must not overflow
        own -= own.mean(axis=0)
        size = np.sqrt((own**2).sum(axis=0))
        centred = y[part] - y[part].mean()
        score += np.abs(centred @ np.divide(own, size, out=np.zeros_like(own), where=size > 0.0))
    score[j] = 0.0
    return int(np.argmax(score)) if score.max() > 0.0 else None
