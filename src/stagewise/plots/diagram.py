"""One tree as a diagram."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.inspection.outline import OneTree
from stagewise.plots.style import label, new_axes

__all__ = ["tree"]


def _places(left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(x, depth) of every node: leaves side by side, parents in the middle above their children."""
    x, depth = np.zeros(len(left)), np.zeros(len(left), int)
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        order.append(node)
        if left[node] >= 0:
            depth[left[node] : left[node] + 2] = depth[node] + 1
            stack += [left[node] + 1, left[node]]
    x[[node for node in order if left[node] < 0]] = np.arange((len(left) + 1) // 2)
    for node in reversed(order):
        if left[node] >= 0:
            x[node] = 0.5 * (x[left[node]] + x[left[node] + 1])
    return x, depth


def tree(model: Any, stage: int = 0, output: int = 0, *, max_depth: int | None = None, ax: Any = None) -> Any:
    """A tree of a fitted model: tests in boxes (yes goes left), leaves in the colour of their value.

    Under a test stands the number of training rows; "missing" marks the branch that missing values take, where training
    values were missing. max_depth: deeper nodes are left out.
    """
    one = OneTree.of(model, stage, output)
    own = one.tree
    left = np.array(own.left, np.int64)
    if max_depth is not None:
        left = np.where(own.depth >= max_depth, -1, left)
    cut_off = (left < 0) & (own.left >= 0)
    reached = np.zeros(len(left), bool)
    reached[0] = True
    for node in np.flatnonzero(left >= 0).tolist():
        if reached[node]:
            reached[left[node] : left[node] + 2] = True
    kept: list[int] = np.flatnonzero(reached).tolist()
    number = np.full(len(left), -1)
    number[kept] = np.arange(len(kept))
    x, depth = _places(np.where(left[kept] >= 0, number[left[kept]], -1))
    n_leaves = (len(kept) + 1) // 2
    new = ax is None
    ax = new_axes(ax, max(4.0, 1.05 * n_leaves), 1.3 + 0.95 * depth.max())
    size = 8.0 if new else max(3.5, min(8.0, 55.0 / n_leaves))
    peak = float(np.abs(own.value[own.left < 0]).max()) or 1.0
    shades = _shades()
    for k, node in enumerate(kept):
        below = int(left[node])
        if below >= 0:
            for child, answer in ((below, "yes"), (below + 1, "no")):
                _branch(ax, x, depth, k, int(number[child]), one.missing_side(node) == answer, node == 0, answer, size)
        if own.left[node] >= 0:
            text = "…" if cut_off[node] else f"{label(one.test(node, 24), 40)}\n{int(own.count[node]):,} rows"
            face = "white"
        else:
            text = f"{own.value[node]:+.3g}\n{int(own.count[node]):,}"
            face = shades(0.5 + 0.32 * own.value[node] / peak)
        box = {"boxstyle": "round,pad=0.35", "facecolor": face, "edgecolor": "#444444", "linewidth": 0.8}
        ax.text(x[k], -depth[k], text, ha="center", va="center", fontsize=size, bbox=box, zorder=3)
    ax.set_xlim(-0.7, n_leaves - 0.3)
    ax.set_ylim(-depth.max() - 0.5, 0.5)
    ax.set_axis_off()
    return ax


def _shades() -> Any:
    from matplotlib import colormaps

    return colormaps["PuOr_r"]


def _branch(
    ax: Any, x: np.ndarray, depth: np.ndarray, k: int, child: int, missing: bool, root: bool, answer: str, size: float
) -> None:
    ends = [x[k], x[child]], [-depth[k], -depth[child]]
    ax.plot(*ends, color="#777777", linewidth=1.0, zorder=1)
    words = [answer] if root else []
    if missing:
        words.append("missing")
    if words:
        ax.text(
            0.5 * (x[k] + x[child]), -0.5 * (depth[k] + depth[child]), "\n".join(words), fontsize=0.85 * size,
            ha="center", va="center", color="#333333", zorder=2,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
        )  # fmt: skip
