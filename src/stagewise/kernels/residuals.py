"""Residuals of squared error as integers that stay exact from stage to stage.

With L = (y - f)²/2 and rows of equal weight the gradient is f - y, and a tree adds the same number to it in all rows of
a leaf. When targets, start and leaves are multiples of one unit (a power of two), gradients are integers, packed as
growth wants them (see exact.py), and a stage changes them by an integer a leaf: no rounding, no second representation.
What a stage needs beside is known from the tree's own integers: leaf sums, the sum of squares, and the histogram of the
next root (`next_root`): with n_l(b) rows of leaf l in a bin b and g_l(b) their gradients, it is the sum over the leaves
of g_l(b) + step_l · n_l(b), and the leaves' histograms are left over from growth.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.expansion import columns_of
from stagewise.kernels.histogram import PITCH, add_row, clear, width_of
from stagewise.kernels.jit import device, kernel, piece
from stagewise.kernels.nodes import HOME, LEFT, SLOT, START, STOP, is_wide, smaller_child
from stagewise.kernels.team import share

__all__ = ["BUCKETS", "LOAD_SUMS", "load_residuals", "next_root", "step_residuals"]

LOAD_SUMS = 8
"""Entries a thread of what `load_residuals` finds: the largest size, the sum, and three sums of products of the halves
of a gradient, each in two limbs of 24 bits and the rest."""

BUCKETS = 1 << 14
"""Parts of the range of gradients, in which rows are counted."""

_CHUNK = 1024
_HALF = 20  # bits of the low half of a gradient; limbs have 24


@kernel
def load_residuals(tid, n_threads, y, raw, skip, places, scale, shift, coarse, words, sums, counts):
    """words[row] = packed (raw - y) * scale, with y * scale rounded, and a count of 1; rows of `skip` have 0 for it.

    raw * scale are whole numbers. places: where the words of the rows are; empty: in their order. sums[tid] (int64,
    LOAD_SUMS) gets the largest |g|, Σg, and Σh², Σhl and Σl² with g = h·2**20 + l, low limbs first; counts[tid] (int64,
    BUCKETS) the numbers of rows by g >> coarse, with 0 in the middle, without those of `skip`.
    """
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    own, mask, limb = sums[tid], np.int64((1 << _HALF) - 1), np.int64((1 << 24) - 1)
    placed, middle = places.shape[0] > 0, np.int64(BUCKETS // 2)
    for a in range(k0, k1, _CHUNK):
        high, mixed, low = np.int64(0), np.int64(0), np.int64(0)
        for i in range(a, min(a + _CHUNK, k1)):
            g = np.int64(0) if skip[i] else np.int64(raw[i] * scale - np.rint(y[i] * scale))
            words[places[i] if placed else i] = (g << shift) + np.int64(1)
            bucket = min(max((g >> coarse) + middle, np.int64(0)), np.int64(BUCKETS - 1))
            counts[tid, bucket] += np.int64(not skip[i])
            own[0] = max(own[0], abs(g))
            own[1] += g
            h, rest = g >> np.int64(_HALF), g & mask
            high, mixed, low = high + h * h, mixed + h * rest, low + rest * rest
        own[2] += high & limb
        own[3] += high >> np.int64(24)
        own[4] += mixed & limb
        own[5] += mixed >> np.int64(24)
        own[6] += low & limb
        own[7] += low >> np.int64(24)


@kernel
def step_residuals(tid, n_threads, labels, steps, shift, words, peaks):
    """words += steps[label] (int64, in the place of the gradient); peaks[tid, 0] = the largest size of a gradient."""
    k0, k1 = share(0, labels.shape[0], tid, n_threads)
    mine, own, top = labels[k0:k1], words[k0:k1], np.int64(0)
    for i in range(k1 - k0):
        word = own[i] + steps[mine[i]]
        own[i] = word
        size = abs(word >> shift)
        top = size if size > top else top
    peaks[tid, 0] = top


@device
def add_stepped(pools, wide, slot, q0, q1, step, packing, grad, count):
    """grad += g + step · n and count += n for the gradients g and numbers of rows n of a histogram's entries q0..q1."""
    if wide:
        first, second = pools.grad[slot, q0:q1], pools.hess[slot, q0:q1]
        mask = (np.int64(1) << packing.count_bits) - np.int64(1)
        for q in range(q1 - q0):
            n = second[q] & mask
            grad[q] += first[q] + step * n
            count[q] += n
    else:
        first = pools.packed[slot, q0:q1]
        for q in range(q1 - q0):
            n = first[q] & packing.count_mask
            grad[q] += (first[q] >> packing.grad_shift) + step * n
            count[q] += n


@device
def run_down(words, n_bins, factor):
    """Replace a column's running sums (see `histogram.accumulate`) by its entries, times a factor."""
    words[255] -= words[n_bins - 1]
    for b in range(n_bins - 1, 0, -1):
        words[b] -= words[b - 1]
    for b in range(n_bins, 255):
        words[b] = 0
    for b in range(256):
        words[b] *= factor


@piece
def is_pair(state, node):
    """Whether a node's children are leaves that nobody looked at: then its own histogram is still there."""
    left = state[node, LEFT]
    return left >= 0 and state[left, LEFT] < 0 and state[left, SLOT] < 0


@kernel
def next_root(tid, n_threads, bins, rows, nodes, n_nodes, steps, packing, pools, root):
    """The root's histogram after steps[node] was added to the gradients of each leaf: root (2, width * PITCH), plain
    entries, for `Work.root`. All leaves' histograms were kept. Threads divide the columns.

    Two leaves that were never searched have no histograms of their own: their parent's stands for that of the larger
    one, and the rows of the smaller one bring the difference.
    """
    state = nodes.state
    c0, c1 = columns_of(width_of(bins), tid, n_threads)
    grad, count = root[0, c0 * PITCH : c1 * PITCH], root[1, c0 * PITCH : c1 * PITCH]
    clear(grad)
    clear(count)
    for node in range(n_nodes):
        heavy = 2 * state[node, LEFT] + 1 - smaller_child(state, state[node, LEFT]) if is_pair(state, node) else node
        if heavy != node or (state[node, LEFT] < 0 and state[node, SLOT] >= 0):
            wide, slot = is_wide(state, node, packing), state[node, SLOT]
            add_stepped(pools, wide, slot, c0 * PITCH, c1 * PITCH, steps[heavy], packing, grad, count)
    hess_one = (np.int64(1) << packing.count_bits) + np.int64(1)  # a row's second word: 1 in either field
    for j in range(c0, min(c1, bins.n_bins.shape[0])):
        run_down(root[0, j * PITCH : j * PITCH + 256], bins.n_bins[j], np.int64(1))
        run_down(root[1, j * PITCH : j * PITCH + 256], bins.n_bins[j], hess_one)
    fours, width, first = (c1 - c0) >> 2, np.uint64(bins.stride), np.uint64(c0)
    for node in range(n_nodes):
        if is_pair(state, node):
            small = smaller_child(state, state[node, LEFT])
            more, own = steps[small] - steps[2 * state[node, LEFT] + 1 - small], rows[state[small, HOME]]
            for k in range(state[small, START], state[small, STOP]):
                add_row(bins.by_row, np.uint64(own[k]) * width + first, more, fours, first * np.uint64(PITCH), root[0])
