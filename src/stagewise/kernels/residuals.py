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

from stagewise.kernels.jit import kernel
from stagewise.kernels.team import share

__all__ = ["LOAD_SUMS", "load_residuals", "step_residuals"]

LOAD_SUMS = 9
"""Entries a thread of what `load_residuals` finds: the largest size, rows that are nearly 0, the sum, and three sums of
products of the halves of a gradient, each in two limbs of 24 bits and the rest."""

_CHUNK = 1024
_HALF = 20  # bits of the low half of a gradient; limbs have 24


@kernel
def load_residuals(tid, n_threads, y, raw, skip, places, scale, shift, least, words, sums):
    """words[row] = packed (raw - y) * scale, with y * scale rounded, and a count of 1; rows of `skip` have 0 for it.

    raw * scale are whole numbers. places: where the words of the rows are; empty: in their order. sums[tid] (int64,
    LOAD_SUMS) gets the largest |g|, the number of g that are not 0 but below `least` in size, Σg, and Σh², Σhl and Σl²
    with g = h·2**20 + l, low limbs first.
    """
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    own, mask, limb = sums[tid], np.int64((1 << _HALF) - 1), np.int64((1 << 24) - 1)
    placed = places.shape[0] > 0
    for a in range(k0, k1, _CHUNK):
        high, mixed, low = np.int64(0), np.int64(0), np.int64(0)
        for i in range(a, min(a + _CHUNK, k1)):
            g = np.int64(0) if skip[i] else np.int64(raw[i] * scale - np.rint(y[i] * scale))
            words[places[i] if placed else i] = (g << shift) + np.int64(1)
            own[0] = max(own[0], abs(g))
            own[1] += np.int64((g != 0) & (abs(g) < least))
            own[2] += g
            h, rest = g >> np.int64(_HALF), g & mask
            high, mixed, low = high + h * h, mixed + h * rest, low + rest * rest
        own[3] += high & limb
        own[4] += high >> np.int64(24)
        own[5] += mixed & limb
        own[6] += mixed >> np.int64(24)
        own[7] += low & limb
        own[8] += low >> np.int64(24)


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
