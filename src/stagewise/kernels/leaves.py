"""What a finished tree's leaves are worth, and adding them to the predictions.

After growth the rows of a leaf lie next to each other: rows[start:stop] for each line of `leaves`. Sums are exact
(two integer limbs, see exact.py); medians and quantiles are exact selections on the bits of the values: both are free
of order, so they do not depend on threads or on how rows are divided.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.exact import exact_log, limbs_value
from stagewise.kernels.jit import atomic_add, device, float_bits, from_bits, kernel
from stagewise.kernels.team import barrier, share

__all__ = ["EXPONENTIAL", "LOG_RATIO", "NEWTON", "add_leaves", "leaf_quantiles", "leaf_sums", "select_quantile"]

NEWTON, EXPONENTIAL, LOG_RATIO = 0, 1, 2

_ABSENT = 1e-9
"""A class (or all events) whose share of a leaf's weight is below this counts as absent: the logarithm of its share
would be a statement about rounding."""

_LARGEST_STEP = 19.0
"""e^(2·19) is 1/2 ulp of 1: a leaf further out than that cannot be told apart from certainty."""


@device
def leaf_value(kind, power, grad, hess, count):  # type: ignore[no-untyped-def]
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
        expected = events + grad
        if expected > 0.0 and events > _ABSENT * expected:
            value = exact_log(events / expected)
        else:
            value = -1.0
    if kind != NEWTON:
        value = value if value < _LARGEST_STEP else _LARGEST_STEP
        value = value if value > -_LARGEST_STEP else -_LARGEST_STEP
    return value


@device
def limb_sum(values, rows, scale, one):  # type: ignore[no-untyped-def]
    """Two limbs of the sum of values[rows] * scale."""
    hi, lo = np.int64(0), np.int64(0)
    for k in range(rows.shape[0]):
        v = values[rows[k]] * scale
        high = np.trunc(v)
        hi += np.int64(high)
        lo += np.int64((v - high) * one)
    return hi, lo


@kernel
def leaf_sums(  # type: ignore[no-untyped-def]
    tid, n_threads, gate, rows, leaves, grad, hess, weight, units, bits, kind, power, limbs, out
):
    """out[leaf] = (sum of grad, sum of hess, sum of weight, value); limbs (n_threads, n_leaves, 6) is scratch.

    units are the powers of two not below the largest |grad|, hess and weight. Without weights a row weighs 1.
    """
    n_leaves = leaves.shape[0]
    k0, k1 = share(leaves[0, 0], leaves[n_leaves - 1, 1], tid, n_threads)
    one = np.float64(1 << bits)
    for leaf in range(n_leaves):
        s = max(k0, leaves[leaf, 0])
        own, total = rows[s : max(s, min(k1, leaves[leaf, 1]))], limbs[tid, leaf]
        total[0], total[1] = limb_sum(grad, own, one / units[0], one)
        total[2], total[3] = limb_sum(hess, own, one / units[1], one)
        if weight.shape[0] > 0:
            total[4], total[5] = limb_sum(weight, own, one / units[2], one)
    if barrier(gate, n_threads) or tid > 0:
        return
    for leaf in range(n_leaves):
        total = limbs[0, leaf]
        for t in range(1, n_threads):
            for k in range(6):
                total[k] += limbs[t, leaf, k]
        count = leaves[leaf, 1] - leaves[leaf, 0]
        g = limbs_value(total[0], total[1], units[0], bits)
        h = limbs_value(total[2], total[3], units[1], bits)
        out[leaf, 0], out[leaf, 1] = g, h
        out[leaf, 2] = limbs_value(total[4], total[5], units[2], bits) if weight.shape[0] > 0 else np.float64(count)
        out[leaf, 3] = leaf_value(kind, power, g, h, count)


@kernel
def add_leaves(tid, n_threads, rows, leaves, values, raw):  # type: ignore[no-untyped-def]
    """raw[row] += values[leaf] for every row of every leaf."""
    n_leaves = leaves.shape[0]
    k0, k1 = share(leaves[0, 0], leaves[n_leaves - 1, 1], tid, n_threads)
    for leaf in range(n_leaves):
        value = values[leaf]
        s = max(k0, leaves[leaf, 0])
        own = rows[s : max(s, min(k1, leaves[leaf, 1]))]
        for k in range(own.shape[0]):
            raw[own[k]] += value


# --- selection -------------------------------------------------------------------------------------------------------


@device
def ordered_key(value):  # type: ignore[no-untyped-def]
    """An unsigned integer with the order of the floats: flip the sign bit, and all bits of a negative number."""
    bits = float_bits(value + 0.0)  # -0.0 and 0.0 are the same value
    return np.uint64(bits) ^ (np.uint64(bits >> np.int64(63)) | np.uint64(0x8000000000000000))


@device
def key_value(key):  # type: ignore[no-untyped-def]
    top = key >> np.uint64(63)
    return from_bits(np.int64(key ^ (np.uint64(0x8000000000000000) if top else np.uint64(0xFFFFFFFFFFFFFFFF))))


@device
def select_quantile(keys, counts, start, stop, alpha, table):  # type: ignore[no-untyped-def]
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
        return value + 0.5 * (upper - value)
    return value


@kernel
def leaf_quantiles(  # type: ignore[no-untyped-def]
    tid, n_threads, gate, rows, leaves, y, raw, counts, alpha, delta, unit, bits, keys, key_counts, table, out
):
    """out[leaf] = the α-quantile of y - raw in the leaf, and with delta > 0 Friedman's one step of Huber's loss from it:

        median + mean of sign(r - median) · min(delta, |r - median|)          (2001, Algorithm 4)

    counts are integer weights (empty: 1 a row); `unit` is a power of two not below delta times the largest of them.
    Threads take the next leaf that nobody has taken yet.
    """
    n_leaves = leaves.shape[0]
    one = np.float64(1 << bits)
    weighted = counts.shape[0] > 0
    base = leaves[0, 0]
    while True:
        leaf = atomic_add(gate, 0, 1)  # this kernel has no barrier: the arrivals word counts leaves
        if leaf >= n_leaves:
            break
        s, e = leaves[leaf, 0], leaves[leaf, 1]
        for k in range(s, e):
            i = rows[k]
            keys[k - base] = ordered_key(y[i] - raw[i])
            key_counts[k - base] = counts[i] if weighted else 1
        value = select_quantile(keys, key_counts, s - base, e - base, alpha, table[tid])
        if delta > 0.0:
            hi, lo, total = np.int64(0), np.int64(0), np.int64(0)
            for k in range(s, e):
                i = rows[k]
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
        out[leaf] = value
