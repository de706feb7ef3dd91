"""The best split of a node from its histogram.

With a, A the gradient sum and the regularised weight (sum of second derivatives + l2) of the left side and b, B those
of the right side, the improvement of the split is Friedman's (2001, eq. 35) weighted squared difference of means,

    improvement = a²/A + b²/B - (a + b)²/(A + B) = (a·B - b·A)² / (A·B·(A + B)),

less a part that is the same for every split of the node when l2 > 0. A + B is the same for all splits too, so the
search compares (a·B - b·A)² / (A·B): one division, no cancellation, and the same bits for mirrored columns.
With l1 > 0 the sums are shrunk first and the identity no longer holds; then the plain form is used.

The search reads histograms as running sums (`histogram.accumulate`): the entry of a bin is what lies left of a split
after it, the last entry the whole node.

Ties go to the lowest column, then to missing values on the right, then to the lowest bin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.bundles import PLAIN, WITH_MISSING, fill_lefts, left_word, missing_word, owner
from stagewise.kernels.exact import mix
from stagewise.kernels.histogram import PITCH, accumulate, padded
from stagewise.kernels.jit import (
    bare,
    counting,
    device,
    float_bits,
    from_bits,
    kernel,
    loose_multiply_add,
    merged,
    never_inline,
    piece,
)
from stagewise.kernels.partition import MISSING

__all__ = [
    "COLUMN",
    "Limits",
    "NOT_SEEN",
    "N_FIELDS",
    "SET",
    "best_split",
    "column_threshold",
    "scan_columns",
    "split_gains",
]

# fields of a split record (int64); a split by a set of codes has BIN = -1, and its left codes as bits of four words
COLUMN, BIN, MISSING_LEFT, GRAD_LEFT, HESS_LEFT, COUNT_LEFT, SET = range(7)
N_FIELDS = 10

NOT_SEEN = 2
"""MISSING_LEFT of a split where nothing was missing: the side is chosen later, by the number of rows."""


_MANY = 256
"""Columns from which on hashes are counted by bytes."""


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
    in_sets: np.ndarray  # bool (n_columns): columns that are split by sets of codes, see subsets.py
    any_sets: bool  # whether there are such columns
    cat_smooth: float
    cat_l2: float
    max_onehot: np.int64
    max_group: np.int64
    level_rows: np.int64
    group_rows: np.int64


@device
def shrink(g, l1):
    """Soft threshold: the gradient sum that is left after an l1 penalty."""
    size = abs(g) - l1
    size = size if size > 0.0 else 0.0
    return size if g > 0.0 else -size


@device
def unpack(wide, first, second, packing):
    """(grad, hess, count) of a packed or wide sum."""
    if wide:
        mask = (np.int64(1) << packing.count_bits) - np.int64(1)
        return first, second >> packing.count_bits, second & mask
    hess = (first >> packing.hess_shift) & packing.hess_mask
    return first >> packing.grad_shift, hess, first & packing.count_mask


@piece
def running_sums(pools, wide, slot, column, n_bins):
    """A column's running sums (the same array twice when packed), and the words of what is missing in it."""
    base = column * PITCH
    if wide:
        first, second = pools.grad[slot, base : base + 256], pools.hess[slot, base : base + 256]
        return first, second, first[MISSING] - first[n_bins - 1], second[MISSING] - second[n_bins - 1]
    first = pools.packed[slot, base : base + 256]
    return first, first, first[MISSING] - first[n_bins - 1], np.int64(0)


@device
def split_value(gl, hl, cl, G, H, C, limits, packing):
    """The comparison value of one split from its left sums and the node's; -1 where it is not allowed."""
    l1, l2 = limits.l1, limits.l2
    floor, least = limits.min_child_weight, limits.min_samples_leaf
    x, y = gl * packing.grad_unit, (G - gl) * packing.grad_unit
    u, v = hl * packing.hess_unit, (H - hl) * packing.hess_unit
    allowed = (cl >= least) & (C - cl >= least) & (u >= floor) & (v >= floor) & (hl > 0) & (H > hl)
    u, v = u + l2, v + l2
    if l1 > 0.0:
        x, y = shrink(x, l1), shrink(y, l1)
        value = (x * x * v + y * y * u) / (u * v)
    else:
        d = x * v - y * u
        value = d * d / (u * v)
    return value if allowed else -1.0


@device
def split_gains(wide, first, second, n, more, more_second, G, H, C, limits, packing, out):
    """out[k] = the comparison value of the split after entry k of the running sums; the largest of them.

    more, more_second: words of what goes left in any case, the missing values or nothing. The largest is found on the
    bits of the floats, which order non-negative floats as integers do: the compiler vectorises that and not the other.
    """
    top = float_bits(-1.0)
    if wide:
        for k in range(n):
            g, h, c = unpack(True, first[k] + more, second[k] + more_second, packing)
            value = split_value(g, h, c, G, H, C, limits, packing)
            out[k] = value
            bits = float_bits(value)
            top = bits if bits > top else top
    else:
        for k in range(n):
            g, h, c = unpack(False, first[k] + more, np.int64(0), packing)
            value = split_value(g, h, c, G, H, C, limits, packing)
            out[k] = value
            bits = float_bits(value)
            top = bits if bits > top else top
    return from_bits(top)


@merged
def beats(g, h, c, least, lightest, count_room, hess_room, whole, grad, root, centre, height):
    """1 when a split with these left sums is allowed and may have a comparison value above the bar, 0 otherwise."""
    x, u = np.float64(g), np.float64(h)
    d = loose_multiply_add(x, whole, loose_multiply_add(u, grad[0], grad[1]))
    t = loose_multiply_add(u, root, centre)
    fits = (np.uint64(c - least) <= count_room) & (np.uint64(h - lightest) <= hess_room)
    return np.int64(fits & (loose_multiply_add(d, d, t * t) > height))


@merged
def may_beat(wide, first, second, n, more, more_second, G, H, C, limits, packing, best):
    """Whether one of the splits that `split_gains` would look at might have a comparison value above `best`.

    Asked without a division, the dearest part of the search, and in units of the integers: most columns of a node are
    settled here. With W = A + B, a·B - b·A is d = a·W - (a + b)·A, and A·B is W²/4 - (A - W/2)². So d² > bar·A·B, which
    is asked with some room, is d² + t² > bar·W²/4 with t = √bar·(A - W/2): two products and three sums of products.

    The room: rounding may change d by `slack`, in either form. Where |d| ≤ √(bar·A·B) ≤ √bar·W/2 this changes d² by no
    more than slack·√bar·W + slack², and elsewhere d² is enough alone. t² is off by some 2**-51 of bar·W²/4.
    """
    least = limits.min_samples_leaf
    lightest = max(np.int64(1), np.int64(np.ceil(min(limits.min_child_weight / packing.hess_unit, 4e18))))
    if C < 2 * least or H < 2 * lightest:
        return False
    count_room, hess_room = np.uint64(C - 2 * least), np.uint64(H - 2 * lightest)
    l2 = limits.l2 / packing.hess_unit
    whole = H + 2.0 * l2
    grad = -np.float64(G), -np.float64(G) * l2
    root = np.sqrt(max(best, 0.0)) / packing.grad_unit
    slack = 2.0**-48 * C * (1.0 / packing.grad_unit + 1.0) * whole
    half = root * 0.5 * whole
    height = half * half * (1.0 - 2.0**-38) - slack * (2.0 * half + slack) if best > 0.0 else -1.0
    centre = root * l2 - half
    hits = np.int64(0)
    if wide:
        for k in range(n):
            g, h, c = unpack(True, first[k] + more, second[k] + more_second, packing)
            hits += beats(g, h, c, least, lightest, count_room, hess_room, whole, grad, root, centre, height)
    else:
        for k in range(n):
            g, h, c = unpack(False, first[k] + more, np.int64(0), packing)
            hits += beats(g, h, c, least, lightest, count_room, hess_room, whole, grad, root, centre, height)
    return hits > 0


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
def noise(G, H, C, packing):
    """The improvement that rounding alone can feign: a split must do better.

    Every row's gradient is off by up to half a unit and so is its second derivative, times the node's G/H. In a node of
    equal rows with unequal weights this is all there is.
    """
    h = H * packing.hess_unit
    ratio = G * packing.grad_unit / h
    step = ratio * packing.hess_step
    return (packing.grad_unit * packing.grad_unit + step * step) * C / h if H > 0 else 0.0


@counting
def nth_hash(key, n_columns, eligible, wanted):
    """The same for many columns: byte by byte, in 8 looks at all hashes instead of 64."""
    never_inline()
    prefix, left, counts = np.uint64(0), np.int64(wanted), np.zeros(256, np.int64)
    for d in range(7, -1, -1):
        shift = np.uint64(8 * d)
        counts[:] = 0
        for j in range(n_columns):
            h = mix(key, j) >> shift
            if eligible[j] and (d == 7 or h >> np.uint64(8) == prefix):
                counts[h & np.uint64(255)] += 1
        b = 0
        while b < 255 and counts[b] < left:
            left -= counts[b]
            b += 1
        prefix = (prefix << np.uint64(8)) | np.uint64(b)
    return prefix


@device
def column_threshold(key, n_columns, eligible, wanted):
    """The hash below or at which exactly `wanted` eligible columns lie: those are considered."""
    if n_columns > _MANY:
        return nth_hash(key, n_columns, eligible, wanted)
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
def comes_first(value, record, best, best_record):
    """Whether a split goes before the best one so far: it is worth more or, of equal worth, has a lower column."""
    return value > best or (value == best and value >= 0.0 and record[COLUMN] < best_record[COLUMN])


@device
def is_drawn(limits, key, threshold, feature):
    """Whether a feature is considered at this split."""
    sampled = limits.max_columns < limits.tree_columns.shape[0]
    return limits.tree_columns[feature] and not (sampled and mix(key, feature) > threshold)


@device
def lay_out(bundles, column, wide, first, second, n, side, limits, key, threshold, out):
    """The words of what goes left at the splits of a bundle, by code: out[0], and out[1] when wide. See bundles.py.

    Members that are not considered have zeros, which is no split; with missing values on the left (side 1) so have
    those of which nothing is missing.
    """
    never_inline()
    fill_lefts(first, bundles, column, n, side == 1, out[0])
    if wide:
        fill_lefts(second, bundles, column, n, side == 1, out[1])
    for m in range(bundles.start[column], bundles.start[column + 1]):
        j = bundles.member[m]
        seen = side == 0 or missing_word(second, bundles, j) != 0  # the second word has the count
        if not (seen and is_drawn(limits, key, threshold, j)):
            for k in range(bundles.first[j], bundles.first[j] + bundles.size[j]):
                out[0, k], out[1, k] = 0, 0


@bare
def scan_columns(
    pools, wide, slot, c0, c1, bins, node, likely, G, H, C, limits, packing, gains, lefts, best, out, extras
):
    """The best split over columns c0..c1, if it is better than `best`: its record goes to `out`; the new best value.

    likely: the column to look at first (-1: none), which changes nothing but the time: the higher the bar, the sooner
    the other columns are done with. gains (float64, 256) and lefts (int64, 2 x 256 or more) are scratch. extras: see
    `grow.grow`.
    """
    never_inline()
    bundles, n_features = bins.bundles, limits.tree_columns.shape[0]
    bundled, key, threshold = False, limits.key + np.uint64(node), np.uint64(0)
    if extras is not None:
        bundled = bundles.column.shape[0] > 0
        if limits.max_columns < n_features:
            threshold = column_threshold(key, n_features, limits.tree_columns, limits.max_columns)
    for step in range(c0 - 1, min(c1, bins.n_bins.shape[0])):
        column = likely if step < c0 else step
        if column < c0 or column >= c1 or (step == likely and step >= c0):
            continue
        j, several = column, False
        if extras is not None:
            j = bundles.member[bundles.start[column]] if bundled else column
            several = bundled and bundles.kind[column] != PLAIN
            if not several and (limits.in_sets[j] or not is_drawn(limits, key, threshold, j)):
                continue
        elif not limits.tree_columns[j]:
            continue
        sums, more_sums, miss, miss_second = running_sums(pools, wide, slot, column, bins.n_bins[column])
        first, second, missing = sums, more_sums, miss != 0 or miss_second != 0
        n = bins.n_bins[column] if missing else padded(bins.n_bins[column])  # the last entry and missing: no sum
        sides = 2 if missing else 1
        if extras is not None and several:
            sides = 2 if bundles.kind[column] == WITH_MISSING else 1
            first, second = lefts[0], lefts[1 if wide else 0]
        # missing right, then left; the last bin is a candidate only when something is missing: values left, missing
        # right. Otherwise nothing is on its right, which is not allowed.
        for side in range(sides):
            if extras is not None and several:
                own = bins.n_bins[column]
                lay_out(bundles, column, wide, sums, more_sums, own, side, limits, key, threshold, lefts)
            if limits.l1 == 0.0 and not may_beat(
                wide, first, second, n, side * miss, side * miss_second, G, H, C, limits, packing, best
            ):
                continue
            top = split_gains(wide, first, second, n, side * miss, side * miss_second, G, H, C, limits, packing, gains)
            if not (top >= 0.0 and top >= best):  # it may be NaN, where l2 is beyond all bounds
                continue
            k = 0  # the first of equals: after a bin with rows in it
            while gains[k] != top:
                k += 1
            word, more_word = first[k] + side * miss, second[k] + side * miss_second
            if extras is not None and several:
                j = owner(bundles, column, k)
                k -= bundles.first[j]
                word = left_word(sums, bundles, j, k, side == 1)
                more_word = left_word(more_sums, bundles, j, k, side == 1)
                missing = missing_word(more_sums, bundles, j) != 0
            if top > best or j < out[COLUMN]:  # neither the likely column nor those of bundles come in order
                best = top
                g, h, c = unpack(wide, word, more_word, packing)
                out[COLUMN], out[BIN], out[MISSING_LEFT] = j, k, side if missing else NOT_SEEN
                out[GRAD_LEFT], out[HESS_LEFT], out[COUNT_LEFT] = g, h, c
    return best


@kernel(arrays=True)
def best_split(pools, wide, slot, bins, node, totals, limits, packing, gains, out):
    """The best split of one histogram (not yet accumulated), with one thread; its improvement, or -1."""
    G, H, C = totals
    n_columns, lefts = bins.n_bins.shape[0], np.empty((2, 256), np.int64)
    accumulate(pools, wide, slot, bins.n_bins, 0, n_columns)
    value = scan_columns(
        pools,
        wide,
        slot,
        0,
        n_columns,
        bins,
        node,
        np.int64(-1),
        G,
        H,
        C,
        limits,
        packing,
        gains,
        lefts,
        -1.0,
        out,
        True,
    )
    return improvement(value, G, H, limits, packing) if value > 0.0 else -1.0
