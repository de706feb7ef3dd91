"""Dependence on two columns: a heat map with contours, or a surface."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.errors import ParameterError
from stagewise.inspection.dependence import Dependence
from stagewise.inspection.dependence import partial_dependence as compute
from stagewise.plots.style import MAP, label, mark_deciles, mark_levels, new_axes, output_number

__all__ = ["heat_map", "surface"]


def _sorted(found: Dependence, output: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, z with z[i, j] at x[j], y[i]) in ascending order; missing values are left out, of categories kept.

    Categories stand at 0, 1, ... in the order of the grid.
    """
    z = found.values[output_number(found.outputs, output)]
    axes = []
    for d, axis in enumerate(found.grid):
        if found.label(d) is not None:
            axes.append(np.arange(float(len(axis))))
            continue
        present = np.flatnonzero(~np.isnan(axis))
        if len(present) == 0:
            raise ParameterError(f"the grid of column {found.features[d]!r} has nothing but a missing value to draw.")
        order = present[np.argsort(axis[present], kind="stable")]
        z = z.take(order, axis=d)
        axes.append(axis[order])
    return axes[0], axes[1], z.T


def heat_map(found: Dependence, output: Any, ax: Any) -> Any:
    """Colours and contours, with a colour bar."""
    x, y, z = _sorted(found, output)
    mesh = ax.pcolormesh(x, y, z, cmap=MAP, shading="nearest", rasterized=True)
    named = [d for d in range(2) if found.label(d) is not None]
    if min(z.shape) > 2 and np.ptp(z) > 0.0 and not named:
        ax.contour(x, y, z, levels=7, colors="white", linewidths=0.6, alpha=0.8, linestyles="solid")
    bar = ax.figure.colorbar(mesh, ax=ax)
    bar.set_label("partial dependence" if found.response == "raw" else "mean prediction", fontsize=9)
    bar.outline.set_visible(False)
    ax.set_xlabel(label(found.features[0], 40))
    ax.set_ylabel(label(found.features[1], 40))
    for d in named:
        mark_levels(ax, found.label(d) or (), "xy"[d])
    mark_deciles(ax, found.deciles)
    return ax


def surface(result: Any, features: Any = None, *, output: Any = None, ax: Any = None, **options: Any) -> Any:
    """Dependence on two columns as a surface in three dimensions; `ax` must have projection="3d".

    result: a `Dependence`, or a model and two `features` (options then go to `inspection.partial_dependence`).
    """
    found = result if isinstance(result, Dependence) else compute(result, features, **options)
    if len(found.grid) != 2:
        raise ParameterError(f"a surface shows the dependence on two columns, and this is on {len(found.grid)}.")
    ax = new_axes(ax, 6.0, 5.0, projection="3d")
    if not hasattr(ax, "plot_surface"):
        raise ParameterError(
            'a surface needs axes in three dimensions: pyplot.subplots(subplot_kw={"projection": "3d"}).'
        )
    x, y, z = _sorted(found, output)
    if min(z.shape) < 2:
        raise ParameterError("a surface needs at least two values of each column.")
    ax.plot_surface(*np.meshgrid(x, y), z, cmap=MAP, rcount=60, ccount=60, linewidth=0.1, edgecolor="#00000033")
    ax.set_xlabel(label(found.features[0]))
    ax.set_ylabel(label(found.features[1]))
    ax.set_zlabel("partial dependence")
    for d in range(2):
        names = found.label(d)
        if names is not None:
            mark_levels(ax, names, "xy"[d])
    ax.view_init(elev=28, azim=-130)
    return ax
