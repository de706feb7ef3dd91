"""The best split of a categorical column: a set of its codes against the others.

A column with few codes is split one code against the rest. Otherwise its codes are put in order of

    sum of gradients / (sum of second derivatives + smoothing)

and the sets are the beginnings of that order, and its ends: for squared error the best set of all is among them
(Fisher 1958). The order is made from the same rows as the improvement, so it flatters columns of many codes. Against
that: codes with few rows in the node are not put in order and stay with the rest; a set grows by at least `group_rows`
rows between two that are looked at; it has at most `max_group` codes; and the improvement is counted with a larger l2.

Missing values are one more code here, so that they go to the side that suits them. Codes that no row of the node has go
where most of its rows go.

Every column is looked at by one thread and all sums are integers, so the order and the result are the same for any
number of threads. Ties go to the lowest column, then to the beginnings, then to the smallest set.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.exact import mix
from stagewise.kernels.histogram import accumulate
from stagewise.kernels.jit import device, kernel, never_inline
from stagewise.kernels.partition import MISSING
from stagewise.kernels.split import (
    BIN,
    COLUMN,
    COUNT_LEFT,
    GRAD_LEFT,
    HESS_LEFT,
    MISSING_LEFT,
    NOT_SEEN,
    SET,
    column_threshold,
    improvement,
    running_sums,
    shrink,
    unpack,
)

__all__ = ["best_subset", "fill_sides", "level_sums", "order_levels", "scan_subsets", "set_gain"]

# rows of the integer scratch (int64, 4 x 256)
G_SUM, H_SUM, COUNT, ORDER = range(4)


@device
def level_sums(wide, first, second, n, miss, miss_second, packing, sums):
    """Gradients, second derivatives and rows of each code from a column's running sums; entry n: of missing values."""
    never_inline()
    before, before_second = np.int64(0), np.int64(0)
    for b in range(n):
        sums[G_SUM, b], sums[H_SUM, b], sums[COUNT, b] = unpack(
            wide, first[b] - before, second[b] - before_second, packing
        )
        before, before_second = first[b], second[b]
    sums[G_SUM, n], sums[H_SUM, n], sums[COUNT, n] = unpack(wide, miss, miss_second, packing)


@device
def order_levels(keys, sums, n, least):
    """Write the codes 0..n with at least `least` rows into ORDER, by their keys and then by number; how many."""
    size = 0
    for b in range(n + 1):
        if sums[COUNT, b] >= least:
            sums[ORDER, size] = b
            size += 1
    gap = 121
    while gap > 0:  # Shell's sort
        for i in range(gap, size):
            own = sums[ORDER, i]
            k = i
            while k >= gap:
                other = sums[ORDER, k - gap]
                if keys[other] < keys[own] or (keys[other] == keys[own] and other < own):
                    break
                sums[ORDER, k] = other
                k -= gap
            sums[ORDER, k] = own
        gap //= 3
    return size


@device
def set_gain(gl, hl, cl, G, H, C, more_l2, limits, packing):
    """Improvement (relative units) of a split by its left sums; negative where it is not allowed."""
    l1, l2 = limits.l1, limits.l2
    floor, least = limits.min_child_weight, limits.min_samples_leaf
    x, y, z = gl * packing.grad_unit, (G - gl) * packing.grad_unit, G * packing.grad_unit
    u, v = hl * packing.hess_unit, (H - hl) * packing.hess_unit
    if cl < least or C - cl < least or u < floor or v < floor or hl <= 0 or H <= hl:
        return -1.0
    if l1 > 0.0:
        x, y, z = shrink(x, l1), shrink(y, l1), shrink(z, l1)
    return x * x / (u + l2 + more_l2) + y * y / (v + l2 + more_l2) - z * z / (H * packing.hess_unit + l2)


@device
def comparison(gain, G, H, limits, packing):
    """The comparison value (see split.py) of an improvement: the inverse of `split.improvement`."""
    g, h = G * packing.grad_unit, H * packing.hess_unit
    if limits.l1 > 0.0:
        g = shrink(g, limits.l1)
        return gain + g * g / (h + limits.l2)
    both = h + 2.0 * limits.l2
    return gain * both + g * g * limits.l2 / (h + limits.l2)


@device
def best_set(sums, n, few, G, H, C, limits, packing, keys, found):
    """The best set of a column: its improvement (0 when there is none), and in `found` how it is made: 0 beginning or
    1 end of ORDER, first and last place in that direction, and its three sums."""
    never_inline()
    best = 0.0
    for b in range(n + 1):
        keys[b] = sums[G_SUM, b] * packing.grad_unit / (sums[H_SUM, b] * packing.hess_unit + limits.cat_smooth)
    size = order_levels(keys, sums, n, np.int64(1) if few else limits.level_rows)
    longest = size if few else min(limits.max_group, (size + 1) // 2)
    group_rows = np.int64(1) if few else limits.group_rows
    for direction in range(1 if few else 2):
        g, h, c, group = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for i in range(longest):
            b = sums[ORDER, size - 1 - i if direction == 1 else i]
            if few:
                g, h, c, group = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            g, h, c = g + sums[G_SUM, b], h + sums[H_SUM, b], c + sums[COUNT, b]
            group += sums[COUNT, b]
            if C - c < group_rows:
                break
            if group < group_rows:
                continue
            gain = set_gain(g, h, c, G, H, C, 0.0 if few else limits.cat_l2, limits, packing)
            if gain >= 0.0:
                group = np.int64(0)
            if gain > best:
                best = gain
                found[0], found[1], found[2] = direction, i if few else 0, i
                found[3], found[4], found[5] = g, h, c
    return best


@device
def write_set(sums, size, n, found, heavier_left, out):
    """The codes of a set that `best_set` found as bits of out[SET:SET + 4], and the side of missing values.

    Codes without rows go left where `heavier_left`.
    """
    for w in range(4):
        out[SET + w] = 0
    out[BIN] = -1
    out[MISSING_LEFT] = 0 if sums[COUNT, n] > 0 else NOT_SEEN
    for i in range(found[1], found[2] + 1):
        b = sums[ORDER, size - 1 - i if found[0] == 1 else i]
        if b == n:
            out[MISSING_LEFT] = 1
        else:
            out[SET + b // 64] |= np.int64(1) << (b % 64)
    if heavier_left:
        for b in range(n):
            if sums[COUNT, b] == 0:
                out[SET + b // 64] |= np.int64(1) << (b % 64)


@device
def ordered(sums, n, least):
    """How many codes `order_levels` put in order."""
    size = np.int64(0)
    for b in range(n + 1):
        size += np.int64(sums[COUNT, b] >= least)
    return size


@device
def scan_subsets(pools, wide, slot, c0, c1, n_bins, node, G, H, C, limits, packing, keys, sums, best, out):
    """As `split.scan_columns`, for the categorical ones of columns c0..c1.

    keys (float64, 256 at least) and sums (int64, 5 x 256) are scratch.
    """
    never_inline()
    n_columns = n_bins.shape[0]
    key = limits.key + np.uint64(node)
    sampled = limits.max_columns < n_columns
    threshold = np.uint64(0)
    found = sums[4]
    if sampled:
        threshold = column_threshold(key, n_columns, limits.tree_columns, limits.max_columns)
    for j in range(c0, min(c1, n_columns)):
        if not limits.in_sets[j] or not limits.tree_columns[j] or (sampled and mix(key, j) > threshold):
            continue
        n = n_bins[j]
        first, second, miss, miss_second = running_sums(pools, wide, slot, j, n)
        level_sums(wide, first, second, n, miss, miss_second, packing, sums)
        few = n <= limits.max_onehot
        gain = best_set(sums, n, few, G, H, C, limits, packing, keys, found)
        value = comparison(gain, G, H, limits, packing)
        if gain > 0.0 and (value > best or (value == best and j < out[COLUMN])):
            best = value
            out[COLUMN] = j
            out[GRAD_LEFT], out[HESS_LEFT], out[COUNT_LEFT] = found[3], found[4], found[5]
            size = ordered(sums, n, np.int64(1) if few else limits.level_rows)
            write_set(sums, size, n, found, 2 * found[5] >= C, out)
    return best


@device
def fill_sides(split, sides):
    """The side of every code (1: left) under a split by a set; `split` is its record."""
    for b in range(MISSING):
        sides[b] = (split[SET + b // 64] >> (b % 64)) & 1
    sides[MISSING] = np.uint8(split[MISSING_LEFT] == 1)


@kernel
def best_subset(pools, wide, slot, n_bins, node, totals, limits, packing, keys, sums, out):
    """The best split by a set in one histogram (not yet accumulated), with one thread; its improvement, or -1."""
    G, H, C = totals
    accumulate(pools, wide, slot, n_bins, 0, n_bins.shape[0])
    value = scan_subsets(
        pools, wide, slot, 0, n_bins.shape[0], n_bins, node, G, H, C, limits, packing, keys, sums, -1.0, out
    )
    return improvement(value, G, H, limits, packing) if value > 0.0 else -1.0
