"""What a finished tree's leaves are worth, and adding them to the predictions.

After growth each row has a label, the node number of its leaf, and the rows of a leaf lie next to each other. Sums are
exact (integer limbs, see exact.py); medians and quantiles are exact selections on the bits of the values: both are
free of order, so they do not depend on threads or on how rows are divided.

Sums and updates go through the rows in order, with the labels: gathering gradients leaf by leaf took twice as long,
because every cache line is then fetched once for each leaf that has a row in it.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.exact import exact_log, limbs_value
from stagewise.kernels.jit import atomic_add, device, float_bits, from_bits, kernel, prefetch
from stagewise.kernels.team import barrier, share

__all__ = ["EXPONENTIAL", "LOG_RATIO", "NEWTON", "add_leaves", "leaf_quantiles", "leaf_sums", "select_quantile"]

NEWTON, EXPONENTIAL, LOG_RATIO = 0, 1, 2

_CHUNK = 256
"""Rows converted to integers at a time."""

_ABSENT = 1e-9
"""A class (or all events) whose share of a leaf's weight is below this counts as absent: the logarithm of its share
would be a statement about rounding."""

_LARGEST_STEP = 19.0
"""e^(2·19) is 1/2 ulp of 1: a leaf further out than that cannot be told apart from certainty."""


@device
def leaf_value(kind, power, grad, hess, count):
    """The step that minimises the loss in a leaf, from its sums of grad and hess.

    NEWTON: one Newton step, -G/H; exact for squared error.
    EXPONENTIAL: ½ log(W₊/W₋), ESL 10.4; a class that is absent counts as half a row of average weight.
    LOG_RATIO: log(A/B), exact for Poisson, Tweedie and gamma with log link, with A = H - (2 - p)G and B = A + G;
    without any event (A = 0) the minimum is at -∞, and the Newton step -1 is taken.
    """
    if not hess > 0.0:
        return 0.0
    value = -grad / hess
    if kind == EXPONENTIAL:
        plus, minus = 0.5 * (hess - grad), 0.5 * (hess + grad)
        least = 0.5 * hess / count
        plus = plus if plus > _ABSENT * hess else least
        minus = minus if minus > _ABSENT * hess else least
        value = 0.5 * exact_log(plus / minus)
    elif kind == LOG_RATIO:
        events = hess - (2.0 - power) * grad
        expected = hess + (power - 1.0) * grad  # A + G, which would cancel where B is small
        if expected > 0.0 and events > _ABSENT * expected:
            value = exact_log(events / expected)
        else:
            value = -1.0
    if kind != NEWTON:
        value = value if value < _LARGEST_STEP else _LARGEST_STEP
        value = value if value > -_LARGEST_STEP else -_LARGEST_STEP
    return value


@device
def high_limbs(values, scale, out):
    """out = values * scale, the whole part."""
    for i in range(values.shape[0]):
        out[i] = np.int64(np.trunc(values[i] * scale))


@device
def low_limbs(values, scale, one, out):
    """out = what `high_limbs` leaves, in units of 1 / one."""
    for i in range(values.shape[0]):
        v = values[i] * scale
        out[i] = np.int64((v - np.trunc(v)) * one)


@device
def add_by_label(labels, first, second, limb, out):
    """Add two integers a row to its label's sums, two columns apart. This cannot be vectorised; both at once take less
    time than one after the other, by a quarter with what is fetched ahead."""
    for i in range(labels.shape[0]):
        own = out[labels[i]]
        own[limb] += first[i]
        own[limb + 2] += second[i]


@device
def add_weights(labels, high, low, fine, out):
    """The same for weights; their low limbs only when wanted."""
    for i in range(labels.shape[0]):
        own = out[labels[i]]
        own[4] += high[i]
        own[5] += low[i] if fine else np.int64(0)


@device
def fetch_rows(labels, grad, hess, a, b):
    """Ask for rows a..b: the processor's own guesses end at each page, every 512 rows."""
    for i in range(np.uint64(a), np.uint64(b), np.uint64(8)):
        prefetch(grad, i)
        prefetch(hess, i)
    for i in range(np.uint64(a), np.uint64(b), np.uint64(16)):
        prefetch(labels, i)


@kernel(arrays=True)
def leaf_sums(tid, n_threads, gate, labels, counts, grad, hess, weight, units, bits, fine, kind, power, limbs, out):
    """out[node] = (sum of grad, sum of hess, sum of weight, value) over the rows labelled with the node.

    counts (n_nodes) are their numbers; label n_nodes marks rows that take no part. units are the powers of two not
    below the largest |grad|, hess and weight; without weights a row weighs 1. limbs (n_threads, n_nodes + 1, 6), zero,
    is scratch. `fine` adds the low limbs, for gradients so unequal that 42 bits below the largest are not enough.
    """
    one = np.float64(1 << bits)
    k0, k1 = share(0, min(labels.shape[0], grad.shape[0]), tid, n_threads)  # of a sample there may be more labels
    scratch, own = np.empty((2, _CHUNK), np.int64), limbs[tid]
    first, second = scratch[0], scratch[1]
    for a in range(k0, k1, _CHUNK):
        b = min(a + _CHUNK, k1)
        fetch_rows(labels, grad, hess, b, min(b + _CHUNK, k1))
        high_limbs(grad[a:b], one / units[0], first)
        high_limbs(hess[a:b], one / units[1], second)
        add_by_label(labels[a:b], first, second, 0, own)
        if fine:
            low_limbs(grad[a:b], one / units[0], one, first)
            low_limbs(hess[a:b], one / units[1], one, second)
            add_by_label(labels[a:b], first, second, 1, own)
        if weight.shape[0] > 0:
            high_limbs(weight[a:b], one / units[2], first)
            if fine:
                low_limbs(weight[a:b], one / units[2], one, second)
            add_weights(labels[a:b], first, second, fine, own)
    if barrier(gate, n_threads) or tid > 0:
        return
    for node in range(counts.shape[0]):
        total = limbs[0, node]
        for t in range(1, n_threads):
            for k in range(6):
                total[k] += limbs[t, node, k]
        g = limbs_value(total[0], total[1], units[0], bits)
        h = limbs_value(total[2], total[3], units[1], bits)
        weighted = weight.shape[0] > 0
        out[node, 0], out[node, 1] = g, h
        out[node, 2] = limbs_value(total[4], total[5], units[2], bits) if weighted else np.float64(counts[node])
        out[node, 3] = leaf_value(kind, power, g, h, counts[node])


@kernel
def add_leaves(tid, n_threads, labels, values, raw):
    """raw[row] += values[label of the row]."""
    a, b = share(0, raw.shape[0], tid, n_threads)
    own, own_labels = raw[a:b], labels[a:b]
    for k in range(own.shape[0]):
        own[k] += values[own_labels[k]]


# --- selection -------------------------------------------------------------------------------------------------------


@device
def ordered_key(value):
    """An unsigned integer with the order of the floats: flip the sign bit, and all bits of a negative number."""
    bits = float_bits(value + 0.0)  # -0.0 and 0.0 are the same value
    return np.uint64(bits) ^ (np.uint64(bits >> np.int64(63)) | np.uint64(0x8000000000000000))


@device
def key_value(key):
    top = key >> np.uint64(63)
    return from_bits(np.int64(key ^ (np.uint64(0x8000000000000000) if top else np.uint64(0xFFFFFFFFFFFFFFFF))))


@device
def select_quantile(keys, counts, start, stop, alpha, table):
    """The α-quantile of keys[start:stop] with integer weights counts[start:stop]; reorders both.

    The smallest value at which the running weight reaches α of the total; where it meets that exactly, the mean of
    this value and the next (so the median of an even number is the usual one). Radix selection, 11 bits a pass.
    """
    total = np.int64(0)
    for k in range(start, stop):
        total += counts[k]
    if total == 0:
        return 0.0
    target = alpha * np.float64(total)
    before = np.int64(0)  # weight below the current candidates
    above = np.uint64(0xFFFFFFFFFFFFFFFF)  # the smallest key known to be above them
    prefix = np.uint64(0)
    reached = np.int64(0)
    n = stop
    for step in range(6):
        shift = np.uint64(max(0, 53 - 11 * step))
        mask = np.uint64(2047 if step < 5 else 511)
        table[:] = 0
        for k in range(start, n):
            table[(keys[k] >> shift) & mask] += counts[k]
        digit = 0
        reached = before + table[0]
        # not `<=`: an empty digit must not be chosen when α is 0
        while np.float64(reached) < target or table[digit] == 0:
            digit += 1
            reached += table[digit]
        before = reached - table[digit]
        kept = start
        for k in range(start, n):
            d = (keys[k] >> shift) & mask
            if d == np.uint64(digit):
                key, count = keys[k], counts[k]
                keys[k], counts[k] = keys[kept], counts[kept]
                keys[kept], counts[kept] = key, count
                kept += 1
            elif d > np.uint64(digit) and keys[k] < above and counts[k] > 0:
                above = keys[k]
        n = kept
        prefix = (prefix << np.uint64(11 if step < 5 else 9)) | np.uint64(digit)
    value = key_value(prefix)
    if np.float64(reached) == target and reached < total:
        upper = key_value(above)
        return 0.5 * value + 0.5 * upper  # rounded once, also where the two nearly cancel
    return value


@kernel
def leaf_quantiles(
    tid, n_threads, gate, rows, leaves, y, raw, counts, alpha, delta, unit, bits, keys, key_counts, table, out
):
    """out[node] = the α-quantile of y - raw in a leaf, and with delta > 0 Friedman's one step of Huber's loss from it:

        median + mean of sign(r - median) · min(delta, |r - median|)          (2001, Algorithm 4)

    leaves (n_leaves, 4): node, start, stop, and which line of `rows` they are in. counts are integer weights (empty:
    1 a row); `unit` is a power of two not below delta times the largest of them. Threads take the next leaf that
    nobody has taken yet.
    """
    n_leaves = leaves.shape[0]
    one = np.float64(1 << bits)
    weighted = counts.shape[0] > 0
    while True:
        leaf = atomic_add(gate, 0, 1)  # this kernel has no barrier: the arrivals word counts leaves
        if leaf >= n_leaves:
            break
        node, s, e = leaves[leaf, 0], leaves[leaf, 1], leaves[leaf, 2]
        own = rows[leaves[leaf, 3], s:e]
        for k in range(e - s):
            i = own[k]
            keys[s + k] = ordered_key(y[i] - raw[i])
            key_counts[s + k] = counts[i] if weighted else 1
        value = select_quantile(keys, key_counts, s, e, alpha, table[tid])
        if delta > 0.0:
            hi, lo, total = np.int64(0), np.int64(0), np.int64(0)
            for k in range(e - s):
                i = own[k]
                c = counts[i] if weighted else np.int64(1)
                r = y[i] - raw[i] - value
                r = r if r < delta else delta
                r = r if r > -delta else -delta
                v = r * np.float64(c) / unit * one
                high = np.trunc(v)
                hi += np.int64(high)
                lo += np.int64((v - high) * one)
                total += c
            value += limbs_value(hi, lo, unit, bits) / np.float64(total) if total > 0 else 0.0
        out[node] = value
