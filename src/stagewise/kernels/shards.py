"""The steps of a tree's growth when its rows lie with several members: each step for a batch of nodes at once.

`grow` makes a whole tree in one call. Here the members meet between the steps: each divides its own rows and adds up
its own histograms, those are exchanged, and the best splits of their sum are searched. The steps are made of the same
functions. Histograms are kept in the wide form whatever the number of rows: the same integers, so the same splits.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.blocks import fill_blocks
from stagewise.kernels.bundles import test_of
from stagewise.kernels.expansion import columns_of, keep_best
from stagewise.kernels.histogram import PITCH, accumulate, subtract_columns, width_of
from stagewise.kernels.jit import device, kernel, merged, never_inline
from stagewise.kernels.leaves import key_value, ordered_key
from stagewise.kernels.nodes import GRAD, HESS, SLOT, START, STOP, add_children
from stagewise.kernels.partition import count_left, count_sides, divide, divide_lanes, divide_sides
from stagewise.kernels.split import scan_columns
from stagewise.kernels.subsets import fill_sides, scan_subsets
from stagewise.kernels.symmetric import choose_level, scan_level
from stagewise.kernels.team import barrier, share

__all__ = [
    "DIGIT",
    "add_narrow",
    "build_nodes",
    "count_digits",
    "divide_nodes",
    "keep_nodes",
    "keys_above",
    "keys_to_values",
    "label_nodes",
    "level_split",
    "open_nodes",
    "residual_keys",
    "search_nodes",
    "step_sums",
    "to_narrow",
]

# columns of the jobs of `divide_nodes`
FROM, TO, LINE, BY, CUT, MISSING_SIDE, MIDDLE = range(7)
# columns of the jobs of `search_nodes`
PARENT, SMALL, BIG, DO_SMALL, DO_BIG, SUBTRACT, SMALL_NUMBER, BIG_NUMBER = range(8)

DIGIT = 8
"""Bits of a key that one round of the selection settles: 8 rounds of 2 kB a leaf. (6 rounds of 11 bits: 16 kB.)"""


@kernel
def open_nodes(nodes, parents, lefts):
    """Write the records of the children of each parent: nodes lefts[k] and lefts[k] + 1."""
    for k in range(parents.shape[0]):
        add_children(nodes, parents[k], lefts[k])


@device
def divide_once(column, shift, bound, line, start, stop, to):
    """As `partition.divide`, for one thread that does not know how many rows go left; that number.

    Rows that go right are moved up in their own line, where all before have been read, and then copied: counting
    first would take half as long again.
    """
    never_inline()
    one, k, end = np.uint64(1), np.uint64(start), np.uint64(stop)
    first = k
    k, left_place = divide_lanes(column, shift, bound, line, k, end, to, k, line, k)
    right_place = k - (left_place - first)
    while k < end:
        i = line[k]
        left = np.uint64(np.uint8(column[i] + shift) <= bound)
        to[left_place] = i
        line[right_place] = i
        left_place += left
        right_place += one - left
        k += one
    n_left = np.int64(left_place) - start
    own, other = line[start : stop - n_left], to[start + n_left : stop]
    for r in range(own.shape[0]):
        other[r] = own[r]
    return n_left


@kernel
def divide_nodes(tid, n_threads, gate, bins, rows, jobs, splits, sides, counts):
    """Divide the rows of each job, FROM..TO of line LINE of `rows`, into the other line; MIDDLE is where the right part
    begins. What was in the line is lost. splits: the jobs' split records, for those by a set (CUT < 0). counts: int64
    (n_threads, n_jobs) and sides: uint8 (n_threads, 256) are scratch."""
    for j in range(jobs.shape[0]):
        k0, k1 = share(jobs[j, FROM], jobs[j, TO], tid, n_threads)
        place, shift, bound = test_of(bins.bundles, jobs[j, BY], jobs[j, CUT], jobs[j, MISSING_SIDE] == 1)
        column, line = bins.by_column[place], rows[jobs[j, LINE]]
        if jobs[j, CUT] < 0:
            fill_sides(splits[j], sides[tid])
            counts[tid, j] = count_sides(column, sides[tid], line, k0, k1)
        elif n_threads == 1:
            counts[tid, j] = divide_once(column, shift, bound, line, k0, k1, rows[1 - jobs[j, LINE]])
        else:
            counts[tid, j] = count_left(column, shift, bound, line, k0, k1)
    if barrier(gate, n_threads):
        return
    for j in range(jobs.shape[0]):
        k0, k1 = share(jobs[j, FROM], jobs[j, TO], tid, n_threads)
        left, middle = jobs[j, FROM], jobs[j, FROM]
        for t in range(n_threads):
            left += counts[t, j] if t < tid else 0
            middle += counts[t, j]
        place, shift, bound = test_of(bins.bundles, jobs[j, BY], jobs[j, CUT], jobs[j, MISSING_SIDE] == 1)
        column, line, to = bins.by_column[place], rows[jobs[j, LINE]], rows[1 - jobs[j, LINE]]
        right = middle + (k0 - jobs[j, FROM]) - (left - jobs[j, FROM])
        if jobs[j, CUT] < 0:
            fill_sides(splits[j], sides[tid])
            divide_sides(column, sides[tid], line, k0, k1, to, left, right)
        elif n_threads > 1:
            divide(column, shift, bound, line, k0, k1, to, left, right)
        if tid == 0:
            jobs[j, MIDDLE] = middle


@kernel
def build_nodes(tid, n_threads, bins, words, more_words, rows, parts, packing, packed, grad, hess):
    """grad[s], hess[s] = the wide histogram of rows parts[p, 0] .. parts[p, 1] of line parts[p, 2]; s = parts[p, 3].

    Threads divide the columns. packed: int64 (n_threads, width * PITCH), zero before and after.
    """
    c0, c1 = columns_of(width_of(bins), tid, n_threads)
    for p in range(parts.shape[0]):
        start, stop, line, slot = parts[p, 0], parts[p, 1], rows[parts[p, 2]], parts[p, 3]
        fill_blocks(bins, words, more_words, line, start, stop, c0, c1, packing, packed[tid], grad[slot], hess[slot])


@merged
def low_half(value):
    """The low 32 bits, with a sign: an assignment alone cuts off the others in compiled code, and raises in Python."""
    return ((value + np.int64(2**31)) & np.int64(0xFFFFFFFF)) - np.int64(2**31)


@kernel
def to_narrow(grad, hess, slots, n_bins, first, last, count_bits, out):
    """out[0], out[1], out[2] = grad, hess and count of the bins of columns first..last of some slots' histograms, as
    int32, bins of a column first, slots last; False when one does not fit. The third line may be absent: hess is the
    count then."""
    mask = (np.int64(1) << count_bits) - np.int64(1)
    at, both, large = 0, out.shape[0] == 3, np.int64(0)
    for p in range(slots.shape[0]):
        for j in range(first, last):
            for part in range(2):  # the bins, and the one of missing values
                n = n_bins[j] if part == 0 else 1
                q = j * PITCH + (0 if part == 0 else 255)
                g, h = grad[slots[p], q : q + n], hess[slots[p], q : q + n]
                to_grad, to_hess, to_count = out[0, at : at + n], out[1, at : at + n], out[-1, at : at + n]
                for k in range(n):
                    top = h[k] >> count_bits
                    large |= abs(g[k]) | top
                    to_grad[k] = low_half(g[k])
                    to_hess[k] = low_half(top)
                if both:
                    for k in range(n):
                        to_count[k] = h[k] & mask
                at += n
    return large < np.int64(2**31)


@kernel
def add_narrow(narrow, slots, n_bins, first, last, count_bits, grad, hess):
    """The reverse of `to_narrow`: add to the slots."""
    at = 0
    for p in range(slots.shape[0]):
        for j in range(first, last):
            for part in range(2):
                n = n_bins[j] if part == 0 else 1
                q = j * PITCH + (0 if part == 0 else 255)
                g, h = grad[slots[p], q : q + n], hess[slots[p], q : q + n]
                more_g, more_h, more_c = narrow[0, at : at + n], narrow[1, at : at + n], narrow[-1, at : at + n]
                for k in range(n):
                    g[k] += np.int64(more_g[k])
                    h[k] += (np.int64(more_h[k]) << count_bits) + np.int64(more_c[k])
                at += n


@kernel
def search_nodes(
    tid, n_threads, bins, first, last, jobs, nodes, limits, packing, pools, gains, levels, found, found_gain
):
    """The best splits of both children of each job among columns first..last, which the threads divide.

    The smaller child's histogram is in its slot, the larger one's too unless it is to be the parent's less that
    (SUBTRACT). found (n_jobs, n_threads, 2, N_FIELDS) and found_gain (n_jobs, n_threads, 2): see `grow.search`.
    """
    state = nodes.state
    c0, c1 = share(first, last, tid, n_threads)
    for j in range(jobs.shape[0]):
        small, big = jobs[j, SMALL], jobs[j, BIG]
        found_gain[j, tid, 0], found_gain[j, tid, 1] = -1.0, -1.0
        if state[small, SLOT] >= 0:
            accumulate(pools, True, state[small, SLOT], bins.n_bins, c0, c1)
        if jobs[j, SUBTRACT] == 1:
            subtract_columns(
                pools, packing, True, state[jobs[j, PARENT], SLOT], True, state[small, SLOT], True, state[big, SLOT],
                c0, c1,
            )  # fmt: skip
        elif jobs[j, DO_BIG] == 1:
            accumulate(pools, True, state[big, SLOT], bins.n_bins, c0, c1)
        for which in range(2):
            node = big if which == 1 else small
            if jobs[j, DO_BIG if which == 1 else DO_SMALL] == 1 and c0 < c1:
                number, rows = (
                    jobs[j, BIG_NUMBER if which == 1 else SMALL_NUMBER],
                    state[node, STOP] - state[node, START],
                )
                found_gain[j, tid, which] = scan_columns(
                    pools, True, state[node, SLOT], c0, c1, bins, number, np.int64(-1), state[node, GRAD],
                    state[node, HESS], rows, limits, packing, gains[tid, 0], levels[tid], -1.0, found[j, tid, which],
                    True,
                )  # fmt: skip
                if limits.any_sets:
                    found_gain[j, tid, which] = scan_subsets(
                        pools, True, state[node, SLOT], c0, c1, bins.n_bins, number, state[node, GRAD],
                        state[node, HESS], rows, limits, packing, gains[tid, 0], levels[tid], found_gain[j, tid, which],
                        found[j, tid, which],
                    )  # fmt: skip


@kernel
def keep_nodes(jobs, nodes, limits, packing, found, found_gain):
    """The best of what the members' threads found becomes the split of each child; they hold ascending columns."""
    for j in range(jobs.shape[0]):
        for which in range(2):
            if jobs[j, DO_BIG if which == 1 else DO_SMALL] == 1:
                node = jobs[j, BIG if which == 1 else SMALL]
                keep_best(nodes, node, which, limits, packing, found[j], found_gain[j], 0, found.shape[1])


@kernel
def level_split(tid, n_threads, bins, nodes, first, last, level, limits, shape, packing, pools, work):
    """The best split of all nodes of a level of a symmetric tree, written as theirs."""
    scan_level(bins, nodes, first, last, level, limits, shape, packing, pools, work, tid, n_threads)
    if barrier(work.gate, n_threads) or tid > 0:
        return
    choose_level(bins, nodes, first, last, limits, shape, packing, pools, work, n_threads)


@kernel
def label_nodes(tid, n_threads, rows, parts, labels):
    """labels[row] = parts[p, 3] for rows parts[p, 0] .. parts[p, 1] of line parts[p, 2]."""
    for p in range(parts.shape[0]):
        a, b = share(parts[p, 0], parts[p, 1], tid, n_threads)
        own = rows[parts[p, 2], a:b]
        for k in range(b - a):
            labels[own[k]] = parts[p, 3]


# --- quantiles of leaves ---------------------------------------------------------------------------------------------


@kernel
def residual_keys(tid, n_threads, y, raw, keys):
    """keys[i] = y - raw as an unsigned integer with the order of the floats."""
    a, b = share(0, y.shape[0], tid, n_threads)
    for i in range(a, b):
        keys[i] = ordered_key(y[i] - raw[i])


@kernel
def count_digits(tid, n_threads, keys, counts, labels, prefix, done, out):
    """out[tid, leaf, digit] += the weights of a leaf's rows whose keys begin with its prefix of `done` bits, by the
    DIGIT bits that follow. labels of at least n_leaves take no part; counts may be empty: 1 a row."""
    a, b = share(0, keys.shape[0], tid, n_threads)
    own, shift = out[tid], np.uint64(64 - DIGIT - done)
    mask, weighted, n_leaves = np.uint64((1 << DIGIT) - 1), counts.shape[0] > 0, prefix.shape[0]
    for i in range(a, b):
        leaf = np.int64(labels[i])
        if leaf < n_leaves:
            rest = keys[i] >> shift
            if done == 0 or rest >> np.uint64(DIGIT) == prefix[leaf]:
                own[leaf, np.int64(rest & mask)] += counts[i] if weighted else np.int64(1)


@kernel
def keys_above(tid, n_threads, keys, counts, labels, chosen, out):
    """out[tid, leaf] = the smallest key above chosen[leaf] of a row of the leaf that weighs something."""
    a, b = share(0, keys.shape[0], tid, n_threads)
    weighted = counts.shape[0] > 0
    for k in range(chosen.shape[0]):
        out[tid, k] = np.uint64(0xFFFFFFFFFFFFFFFF)
    for i in range(a, b):
        leaf = np.int64(labels[i])
        if leaf < chosen.shape[0] and keys[i] > chosen[leaf] and (not weighted or counts[i] > 0):
            out[tid, leaf] = min(out[tid, leaf], keys[i])


@kernel
def keys_to_values(keys, out):
    """out[k] = the float that a key stands for."""
    for k in range(keys.shape[0]):
        out[k] = key_value(keys[k])


@kernel
def step_sums(tid, n_threads, y, raw, counts, labels, values, delta, unit, bits, out):
    """out[tid, leaf] = two limbs of Σ weight · (y - raw - value of the leaf, clipped to ±delta), and Σ weight."""
    a, b = share(0, y.shape[0], tid, n_threads)
    one, weighted = np.float64(1 << bits), counts.shape[0] > 0
    for i in range(a, b):
        leaf = np.int64(labels[i])
        if leaf < values.shape[0]:
            c = counts[i] if weighted else np.int64(1)
            r = y[i] - raw[i] - values[leaf]
            r = r if r < delta else delta
            r = r if r > -delta else -delta
            v = r * np.float64(c) / unit * one
            high = np.trunc(v)
            out[tid, leaf, 0] += np.int64(high)
            out[tid, leaf, 1] += np.int64((v - high) * one)
            out[tid, leaf, 2] += c
