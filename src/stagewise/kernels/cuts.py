"""Cut points of columns, from sampled rows: sort, count equal values, divide into bins of about equal weight.

Values are sorted as unsigned integers with the order of the floats, digit by digit (radix sort): 5 ns a float32 where
NumPy's sort took 19 to 31. Columns are taken from the matrix some at a time, a cache line wide: there is no transposed
copy.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import atomic_add, device, from_bits, kernel, never_inline, prefetch, single_of_bits

__all__ = ["DIGITS", "greedy_cuts", "matrix_cuts", "sort_keys"]

DIGITS = 2048
"""Values of a digit: 11 bits, three of them for 32-bit keys and six for 64-bit ones."""


_AHEAD = 24
"""Rows of a sample between a prefetch and its use."""


@device
def ordered_bits(bits, top):
    """A float's bits as an unsigned integer with the order of the floats; every NaN is the largest, -0 is 0.

    top: the sign bit, 2**31 or 2**63.
    """
    ones = top | (top - np.uint64(1))
    size = bits & (ones ^ top)
    infinite = np.uint64(0x7F800000) if top == np.uint64(1 << 31) else np.uint64(0x7FF0000000000000)
    key = bits ^ (ones if bits & top else top)
    key = top if size == np.uint64(0) else key
    return ones if size > infinite else key


@device
def take_bits(bits, rows, j0, width, out):
    """out[c, i] = bits[rows[i], j0 + c], or row i when `rows` is empty. A sample's rows are fetched ahead: 1 ns a value
    instead of 5."""
    n, flat, n_columns, first = out.shape[1], bits.reshape(-1), np.uint64(bits.shape[1]), np.uint64(j0)
    for i in range(n):
        row = np.int64(rows[i]) if rows.shape[0] > 0 else i
        if rows.shape[0] > 0:
            ahead = np.uint64(rows[min(i + _AHEAD, n - 1)]) * n_columns + first
            prefetch(flat, ahead)
            prefetch(flat, ahead + np.uint64(width - 1))
        for c in range(width):
            out[c, i] = bits[row, j0 + c]


@device
def order_bits(keys, top):
    """`ordered_bits` of all, in place. (A loop of its own is vectorised.)"""
    for i in range(keys.shape[0]):
        keys[i] = ordered_bits(np.uint64(keys[i]), top)


@device
def float_of(key, top):
    """The float (as float64) that an ordered key stands for."""
    ones = top | (top - np.uint64(1))
    bits = key ^ (top if key & top else ones)
    return single_of_bits(np.uint32(bits)) if top == np.uint64(1 << 31) else from_bits(np.int64(bits))


@device
def sort_digits(keys, moved, order, moved_order, digits, table):
    """Sort keys ascending, stable, in place; with a non-empty `order`, it becomes the places they came from.

    moved, moved_order: scratch of the same sizes. table (6, DIGITS): scratch.
    """
    never_inline()
    n, carry = keys.shape[0], order.shape[0] > 0
    mask = np.uint64(DIGITS - 1)
    for d in range(digits):
        for v in range(DIGITS):
            table[d, v] = 0
    for i in range(n):
        key = np.uint64(keys[i])
        for d in range(digits):
            table[d, (key >> np.uint64(11 * d)) & mask] += 1
    for i in range(order.shape[0]):
        order[i] = i
    into, into_order = keys, order
    for d in range(digits):
        shift, counts = np.uint64(11 * d), table[d]
        if counts[(np.uint64(keys[0]) >> shift) & mask] == n:  # the same digit everywhere
            continue
        total = np.int64(0)
        for v in range(DIGITS):
            total, counts[v] = total + counts[v], total
        for i in range(n):
            digit = (np.uint64(keys[i]) >> shift) & mask
            place = np.uint64(counts[digit])
            counts[digit] += 1
            moved[place] = keys[i]
            if carry:
                moved_order[place] = order[i]
        keys, moved, order, moved_order = moved, keys, moved_order, order
    for i in range(n):  # where the last pass left them, which may be in place already
        into[i] = keys[i]
    for i in range(order.shape[0]):
        into_order[i] = order[i]


@kernel(arrays=True)
def sort_keys(keys, order, table):
    """Sort unsigned keys in place; with a non-empty `order`, it becomes the places they came from."""
    digits = 3 if keys.itemsize == 4 else 6
    sort_digits(keys, np.empty_like(keys), order, np.empty_like(order), digits, table)


@device
def count_equal(keys, weights, order, largest, counts):
    """Leave the distinct ones of ascending keys in front, without `largest`, and the weight of each; how many.

    weights are integers by the places that keys came from (`order`), empty for 1 each.
    """
    n = np.int64(-1)
    weighted = weights.shape[0] > 0
    last = largest
    for k in range(keys.shape[0]):
        key = np.uint64(keys[k])
        if key == largest:
            break
        if key != last:
            n += 1
            keys[n] = key
            counts[n] = 0
            last = key
        counts[n] += weights[order[k]] if weighted else 1
    return n + 1


@kernel
def greedy_cuts(counts, max_bins, last):
    """Divide distinct values with these integer weights into at most max_bins bins of about equal weight.

    last[b] = the last value of bin b; the number of bins. A value heavier than an average bin gets a bin of its own,
    and the average is that of what is left for the bins that are left. Weights must be below 2**53 in all.
    """
    n = counts.shape[0]
    total = np.int64(0)
    for k in range(n):
        total += counts[k]
    heavy, heavy_total = 0, np.int64(0)
    for k in range(n):
        if counts[k] * max_bins >= total:
            heavy += 1
            heavy_total += counts[k]
    left_total, left_bins = total - heavy_total, max_bins - heavy
    n_bins, filled = 0, np.int64(0)
    for k in range(n):
        is_heavy = counts[k] * max_bins >= total
        if not is_heavy:
            left_total -= counts[k]
        filled += counts[k]
        following = counts[k + 1] if k + 1 < n else np.int64(0)
        before_heavy = k + 1 < n and following * max_bins >= total
        # close the bin when it holds its share of what is left, rounded to the nearest value; times the bins left, so
        # that nothing is divided
        bins, share = max(left_bins, 1), left_total + filled
        after = filled + following
        full = filled * bins >= share or (after * bins > share and (after + filled) * bins > 2 * share)
        if k + 1 == n or (n_bins < max_bins - 1 and (is_heavy or before_heavy or full)):
            last[n_bins] = k
            n_bins += 1
            if not is_heavy:
                left_bins -= 1
            filled = np.int64(0)
    return n_bins


@device
def cut_between(low, high):
    """A cut with low <= cut < high, halfway where that is possible: also for infinities and neighbours."""
    cut = 0.5 * low + 0.5 * high
    return cut if low <= cut < high else low


@device
def describe_bins(keys, counts, last, n_bins, m, top, points, shares):
    """points[b] = the median of bin b (of the first one the least value, of the last one the largest), shares[b] = its
    weight. keys, counts: m distinct values and their weights; last[b]: the last value of a bin, when m > n_bins."""
    k = np.int64(0)
    for b in range(n_bins):
        end = last[b] if m > n_bins else np.int64(b)
        weight = np.int64(0)
        for q in range(k, end + 1):
            weight += counts[q]
        half, middle = (weight + 1) // 2 - counts[k], k
        while half > 0:
            middle += 1
            half -= counts[middle]
        if b == n_bins - 1:
            middle = m - 1
        elif b == 0:
            middle = k
        points[b], shares[b] = float_of(np.uint64(keys[middle]), top), weight
        k = end + 1


@device
def write_column(keys, counts, m, max_bins, top, last, cuts, points, shares):
    """The cut points and the bins of a column with m distinct values (keys, and their weights). last: scratch (256)."""
    n_bins = m
    if m > max_bins:
        n_bins = greedy_cuts(counts[:m], max_bins, last)
    for b in range(n_bins - 1):
        end = last[b] if m > max_bins else b
        cuts[b] = cut_between(float_of(np.uint64(keys[end]), top), float_of(np.uint64(keys[end + 1]), top))
    describe_bins(keys, counts, last, n_bins, m, top, points, shares)


@kernel(arrays=True)
def matrix_cuts(
    tid, n_threads, gate, bits, rows, weights, max_bins, keys, order, counts, table, cuts, points, shares, found
):
    """cuts[j, k] = the k-th cut point of column j, +inf after the last; found[j] = its distinct values in the sample.

    points[j, b], shares[j, b] = a value and the weight of bin b: see `describe_bins`. bits: the matrix of float32 or
    float64 as unsigned integers. rows: the sample, ascending; empty for all rows. weights: integers by place in the
    sample; empty for 1 each. Scratch of every thread: keys (columns + 1, n), order (2, n, or 0 without weights),
    counts (n), table (6, DIGITS). Threads take the next columns that nobody has taken.
    """
    n_columns, n, at_once = bits.shape[1], keys.shape[2], keys.shape[1] - 1
    narrow = bits.itemsize == 4
    top, digits = (np.uint64(1 << 31), 3) if narrow else (np.uint64(1 << 63), 6)
    largest = top | (top - np.uint64(1))
    own, own_order, own_counts = keys[tid], order[tid], counts[tid]
    last = np.empty(256, np.int64)
    while True:
        j0 = at_once * atomic_add(gate, 0, 1)  # this kernel has no barrier: the arrivals word counts columns
        if j0 >= n_columns:
            break
        width = min(at_once, n_columns - j0)
        take_bits(bits, rows, j0, width, own)
        for c in range(width):
            sorted_keys = own[c]
            order_bits(sorted_keys, top)
            if n > 0:
                sort_digits(sorted_keys, own[at_once], own_order[0], own_order[1], digits, table[tid])
            m = count_equal(sorted_keys, weights, own_order[0], largest, own_counts)
            write_column(sorted_keys, own_counts, m, max_bins, top, last, cuts[j0 + c], points[j0 + c], shares[j0 + c])
            found[j0 + c] = m
