"""Partial dependence as sums over leaves.

A leaf adds its value to the dependence on the columns S where the grid point meets its conditions on S, times a weight
that says how likely the other conditions are met: the product of cover shares (Friedman 2001, section 8.2, the weighted
traversal) or the share of given rows that meet them (brute force, without a prediction for each row and grid point).
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import device, kernel
from stagewise.kernels.paths import holds, in_set
from stagewise.kernels.team import share

__all__ = ["add_boxes", "add_curves", "add_reached", "reach_shares"]

_ROWS = 256
"""Rows whose answers are kept at a time."""


@device
def mark_rows(columns, a, n, paths, leaf, inside, met):
    """met[r] = 1 where row a + r meets the leaf's conditions on columns with inside[column] = 1, else 0."""
    for r in range(n):
        met[r] = 1
    for c in range(paths.start[leaf], paths.start[leaf + 1]):
        if inside[paths.column[c]] != 0:
            x = columns[paths.column[c], a : a + n]
            low, high, missing = paths.low[c], paths.high[c], paths.missing[c] != 0
            if paths.subset[c] >= 0:
                codes = paths.sets[paths.subset[c]]
                for r in range(n):
                    v = x[r]
                    holding = missing if v != v else in_set(v, codes)
                    met[r] &= np.int64(1) if holding else np.int64(0)
                continue
            for r in range(n):  # as `holds`, without a branch
                v = x[r]
                holding = (not (v <= low)) & (v <= high) | ((v != v) & missing)
                met[r] &= np.int64(1) if holding else np.int64(0)


@kernel(arrays=True)
def reach_shares(tid, n_threads, columns, weight, paths, inside, out):
    """out[leaf] = sum of the weights of the rows that meet a leaf's conditions on the columns inside.

    columns: float64 (n_columns, n_rows). Threads divide the leaves, so sums do not depend on their number.
    """
    met, sums = np.empty(_ROWS, np.int64), np.empty(_ROWS)
    l0, l1 = share(0, paths.value.shape[0], tid, n_threads)
    for leaf in range(l0, l1):
        sums[:] = 0.0
        for a in range(0, columns.shape[1], _ROWS):
            n = min(_ROWS, columns.shape[1] - a)
            mark_rows(columns, a, n, paths, leaf, inside, met)
            own = weight[a : a + n]
            for r in range(n):  # side by side: one sum would wait for itself
                sums[r] += own[r] if met[r] != 0 else 0.0
        out[leaf] = sums.sum()


@kernel(arrays=True)
def add_reached(tid, n_threads, columns, paths, inside, weight, out):
    """out[output, row] += the weight of every leaf whose conditions on the columns inside are met by the row."""
    met = np.empty(_ROWS, np.int64)
    k0, k1 = share(0, columns.shape[1], tid, n_threads)
    for a in range(k0, k1, _ROWS):
        n = min(_ROWS, k1 - a)
        for leaf in range(paths.value.shape[0]):
            mark_rows(columns, a, n, paths, leaf, inside, met)
            target = out[paths.output[leaf], a : a + n]
            for r in range(n):
                target[r] += weight[leaf] if met[r] != 0 else 0.0


@device
def mark_points(paths, leaf, axis, grid, size, hit):
    """hit[d, g] = 1 where point g of axis d meets the leaf's condition on that axis' column, else 0.

    axis: int64 by column, its axis or -1. grid: (n_axes, longest), size: points of each axis.
    """
    for d in range(size.shape[0]):
        for g in range(size[d]):
            hit[d, g] = 1.0
    for c in range(paths.start[leaf], paths.start[leaf + 1]):
        d = axis[paths.column[c]]
        if d >= 0:
            for g in range(size[d]):
                if not holds(
                    grid[d, g], paths.low[c], paths.high[c], paths.missing[c], paths.subset[c], paths.sets
                ):  # fmt: skip
                    hit[d, g] = 0.0


@kernel(arrays=True)
def add_boxes(tid, n_threads, paths, weight, axis, grid, size, out):
    """out[output, cell] += weight of every leaf that the cell can reach; cells: the product of all axes, row-major."""
    hit = np.empty(grid.shape)
    last = size.shape[0] - 1
    width = size[last]
    k0, k1 = share(0, out.shape[1] // width, tid, n_threads)
    for leaf in range(paths.value.shape[0]):
        mark_points(paths, leaf, axis, grid, size, hit)
        target, inner = out[paths.output[leaf]], hit[last]
        for k in range(k0, k1):
            factor = weight[leaf]
            rest = k
            for d in range(last - 1, -1, -1):
                factor *= hit[d, rest % size[d]]
                rest //= size[d]
            if factor != 0.0:
                line = target[k * width : (k + 1) * width]
                for g in range(width):
                    line[g] += factor * inner[g]


@kernel(arrays=True)
def add_curves(tid, n_threads, columns, paths, inside, axis, grid, size, out):
    """out[output, row, cell] += leaf values, for each row with the columns of the axes set to the cell's point.

    inside is 0 for the columns of the axes and 1 for the others.
    """
    hit, cells, met = np.empty(grid.shape), np.empty(out.shape[2]), np.empty(_ROWS, np.int64)
    k0, k1 = share(0, columns.shape[1], tid, n_threads)
    for leaf in range(paths.value.shape[0]):
        mark_points(paths, leaf, axis, grid, size, hit)
        for k in range(cells.shape[0]):
            factor = paths.value[leaf]
            rest = k
            for d in range(size.shape[0] - 1, -1, -1):
                factor *= hit[d, rest % size[d]]
                rest //= size[d]
            cells[k] = factor
        for a in range(k0, k1, _ROWS):
            n = min(_ROWS, k1 - a)
            mark_rows(columns, a, n, paths, leaf, inside, met)
            for r in range(n):
                if met[r] != 0:
                    line = out[paths.output[leaf], a + r]
                    for k in range(cells.shape[0]):
                        line[k] += cells[k]
