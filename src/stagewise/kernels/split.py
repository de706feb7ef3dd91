"""The best split of a node from its histogram.

With a, A the gradient sum and the regularised weight (sum of second derivatives + l2) of the left side and b, B those
of the right side, the improvement of the split is Friedman's (2001, eq. 35) weighted squared difference of means,

    improvement = a²/A + b²/B - (a + b)²/(A + B) = (a·B - b·A)² / (A·B·(A + B)),

less a part that is the same for every split of the node when l2 > 0. A + B is the same for all splits too, so the
search compares (a·B - b·A)² / (A·B): one division, no cancellation, and the same bits for mirrored columns.
With l1 > 0 the sums are shrunk first and the identity no longer holds; then the plain form is used.

Ties go to the lowest column, then the lowest bin, then missing values on the right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.exact import mix
from stagewise.kernels.jit import device, kernel, never_inline
from stagewise.kernels.partition import MISSING

__all__ = ["COLUMN", "Limits", "NOT_SEEN", "N_FIELDS", "best_split", "column_threshold", "scan_columns", "split_gains"]

# fields of a split record (int64)
COLUMN, BIN, MISSING_LEFT, GRAD_LEFT, HESS_LEFT, COUNT_LEFT = range(6)
N_FIELDS = 6

NOT_SEEN = 2
"""MISSING_LEFT of a split where nothing was missing: the side is chosen later, by the number of rows."""


class Limits(NamedTuple):
    """What a split must satisfy. Weights and gradients are relative to the stage's peaks (see `exact.Packing`)."""

    l1: float
    l2: float
    min_child_weight: float
    min_samples_leaf: np.int64
    min_gain: float
    max_columns: np.int64  # columns considered at a split
    key: np.uint64  # of the hash that chooses them
    tree_columns: np.ndarray  # bool (n_columns): columns considered in this tree


@device
def shrink(g, l1):
    """Soft threshold: the gradient sum that is left after an l1 penalty."""
    size = abs(g) - l1
    size = size if size > 0.0 else 0.0
    return size if g > 0.0 else -size


@device
def decode_column(pools, wide, slot, column, n_bins, packing, out):
    """Integer (grad, hess, count) of a column's bins as running sums out[0..2, bin]; out[3..5, 0] for missing."""
    base = column * 256
    g, h, c = np.int64(0), np.int64(0), np.int64(0)
    if wide:
        grad, hess = pools.grad[slot], pools.hess[slot]
        mask = (np.int64(1) << packing.count_bits) - np.int64(1)
        for b in range(n_bins):
            w = hess[base + b]
            g += grad[base + b]
            h += w >> packing.count_bits
            c += w & mask
            out[0, b], out[1, b], out[2, b] = g, h, c
        w = hess[base + MISSING]
        out[3, 0], out[4, 0], out[5, 0] = grad[base + MISSING], w >> packing.count_bits, w & mask
    else:
        packed = pools.packed[slot]
        for b in range(n_bins):
            w = packed[base + b]
            g += w >> packing.grad_shift
            h += (w >> packing.hess_shift) & packing.hess_mask
            c += w & packing.count_mask
            out[0, b], out[1, b], out[2, b] = g, h, c
        w = packed[base + MISSING]
        out[3, 0], out[4, 0] = w >> packing.grad_shift, (w >> packing.hess_shift) & packing.hess_mask
        out[5, 0] = w & packing.count_mask


@device
def split_gains(sums, n, add_g, add_h, add_c, G, H, C, limits, packing, out):
    """out[b] = the comparison value of the split after bin b, -1 where it is not allowed.

    `sums` are running sums of the bins; add_* is what goes left in any case (the missing values, or nothing).
    """
    g_unit, h_unit, l1, l2 = packing.grad_unit, packing.hess_unit, limits.l1, limits.l2
    floor = limits.min_child_weight if limits.min_child_weight > 0.0 else 0.0
    least = limits.min_samples_leaf
    for b in range(n):
        gl, hl, cl = sums[0, b] + add_g, sums[1, b] + add_h, sums[2, b] + add_c
        x, y = gl * g_unit, (G - gl) * g_unit
        u, v = hl * h_unit, (H - hl) * h_unit
        allowed = (cl >= least) & (C - cl >= least) & (u >= floor) & (v >= floor) & (hl > 0) & (H > hl)
        u, v = u + l2, v + l2
        if l1 > 0.0:
            x, y = shrink(x, l1), shrink(y, l1)
            value = (x * x * v + y * y * u) / (u * v)
        else:
            d = x * v - y * u
            value = d * d / (u * v)
        out[b] = value if allowed else -1.0


@device
def improvement(value, G, H, limits, packing):
    """The comparison value of a node's best split as an improvement in squared error (relative units)."""
    g, h = G * packing.grad_unit, H * packing.hess_unit
    if limits.l1 > 0.0:
        g = shrink(g, limits.l1)
        return value - g * g / (h + limits.l2)
    both = h + 2.0 * limits.l2
    return value / both - g * g * limits.l2 / ((h + limits.l2) * both) if limits.l2 > 0.0 else value / both


@device
def column_threshold(key, n_columns, eligible, wanted):
    """The hash below or at which exactly `wanted` eligible columns lie: those are considered."""
    low, high = np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
    while low < high:
        middle = low + (high - low) // np.uint64(2)
        count = np.int64(0)
        for j in range(n_columns):
            count += np.int64(eligible[j] and mix(key, j) <= middle)
        if count >= wanted:
            high = middle
        else:
            low = middle + np.uint64(1)
    return low


@device
def scan_columns(pools, wide, slot, c0, c1, n_bins, node, G, H, C, limits, packing, sums, gains, out):
    """The best split over columns c0..c1: its improvement; the record goes to `out`.

    sums (int64, 6 x 256) and gains (float64, 256) are scratch.
    """
    never_inline()
    best = -1.0
    n_columns = n_bins.shape[0]
    key = limits.key + np.uint64(node)
    sampled = limits.max_columns < n_columns
    threshold = np.uint64(0)
    if sampled:
        threshold = column_threshold(key, n_columns, limits.tree_columns, limits.max_columns)
    for j in range(c0, min(c1, n_columns)):
        n = n_bins[j]
        if not limits.tree_columns[j] or (sampled and mix(key, j) > threshold):
            continue
        decode_column(pools, wide, slot, j, n, packing, sums)
        g, h, c = sums[3, 0], sums[4, 0], sums[5, 0]
        # missing right; the last bin is a candidate only when something is missing: values left, missing right
        for side in range(2 if c > 0 else 1):
            stop = n if c > 0 and side == 0 else n - 1
            split_gains(sums, stop, side * g, side * h, side * c, G, H, C, limits, packing, gains)
            top = -1.0
            for b in range(stop):
                top = gains[b] if gains[b] > top else top
            if top > best:
                b = 0
                while gains[b] != top:
                    b += 1
                best = top
                out[COLUMN], out[BIN], out[MISSING_LEFT] = j, b, side if c > 0 else NOT_SEEN
                out[GRAD_LEFT] = sums[0, b] + (g if side else 0)
                out[HESS_LEFT] = sums[1, b] + (h if side else 0)
                out[COUNT_LEFT] = sums[2, b] + (c if side else 0)
    return improvement(best, G, H, limits, packing) if best > 0.0 else -1.0


@kernel
def best_split(pools, wide, slot, n_bins, node, totals, limits, packing, sums, gains, out):
    """The best split of one histogram over all columns, with one thread; its improvement, or -1."""
    G, H, C = totals
    return scan_columns(pools, wide, slot, 0, n_bins.shape[0], n_bins, node, G, H, C, limits, packing, sums, gains, out)
