"""Prediction by trees of 65 to 512 leaves: tests on codes, for eight leaves and a block of rows at a time.

As the masks of predict.py, with bytes for words. The leaves of a tree, from left to right, are bits of as many bytes as
it takes. A test that fails clears the leaves of its left subtree, which in most bytes are none: so each byte has a list
of the tests that matter to it, some one and a half times as many in all as there are tests. Values have become codes
before (coded.py), so a test compares bytes too: one instruction for 64 rows. When the bytes are done from the last to
the first, the last one that was not 0 holds the leaf, in its lowest bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.binning import code_of, every_sixteenth
from stagewise.kernels.jit import device, kernel, piece, trailing_zeros
from stagewise.kernels.partition import MISSING
from stagewise.kernels.team import share

__all__ = ["AT_ONCE", "OCTET_ROWS", "Octets", "leaf_spans", "predict_octets"]

AT_ONCE = 6
"""Tests of a byte that are applied to a row at once."""


OCTET_ROWS = 1024
"""Rows of a block: with fewer, what is done once a list of tests counts. 100,000 rows of 28 columns, 100 trees of 255
leaves, one thread: 84 ms, 125 with 512 rows, 139 with 256; a walk on codes takes 154, one on values 388."""


class Octets(NamedTuple):
    """The tests of all trees by tree and byte; tests without effect fill each list up to a multiple of AT_ONCE."""

    column: np.ndarray  # int32: 2 * place of the column among `used`, + 1 when missing values go left
    bound: np.ndarray  # uint8: the test fails when the code is larger
    keep: np.ndarray  # uint8: leaves of the byte that survive when it fails
    start: np.ndarray  # int64 (bytes of all trees + 1): the tests of a byte
    first: np.ndarray  # int64 (n_trees + 1): the bytes of a tree
    value: np.ndarray  # float64: leaf values from left to right, 8 for each byte
    cuts: np.ndarray  # (n_used, 256): thresholds, see Coded
    used: np.ndarray  # int64 (n_used)
    output: np.ndarray  # int64 (n_trees)


@kernel
def leaf_spans(walks, first, last):
    """The leaves below each node are first .. last of its tree, from left to right. Both int64, by node."""
    for t in range(walks.start.shape[0] - 1):
        s, e = walks.start[t], walks.start[t + 1]
        for k in range(e - s - 1, -1, -1):  # children come after their parent
            left = walks.left[s + k]
            last[s + k] = 1 if left == k else last[s + left] + last[s + left + 1]
        first[s] = 0
        for k in range(e - s):
            left = walks.left[s + k]
            if left != k:
                first[s + left] = first[s + k]
                first[s + left + 1] = first[s + k] + last[s + left]
        for k in range(s, e):
            last[k] += first[k]


@device
def code_columns(X, a, n, octets, coarse, codes):
    """Codes of rows a .. a + n by column in codes[0]; if something is missing, also in codes[1] with 0 for it.

    Whether that is so.
    """
    missing = np.int64(0)
    for j in range(octets.used.shape[0]):
        own, column, one = octets.cuts[j], octets.used[j], codes[0, j]
        every_sixteenth(own, coarse)
        for r in range(n):
            code = code_of(X[a + r, column], coarse, own)
            one[r] = code
            missing |= np.int64(code == MISSING)
    if missing:
        for j in range(octets.used.shape[0]):
            one, two = codes[0, j], codes[1, j]
            for r in range(n):
                two[r] = np.uint8(0) if one[r] == MISSING else one[r]
    return missing


@piece
def nth_byte_test(octets, k, codes, missing):
    """(codes, bound, leaves that survive) of test k."""
    column = octets.column[k]
    return codes[column & missing, column >> 1], octets.bound[k], octets.keep[k]


@kernel(arrays=True)
def predict_octets(tid, n_threads, X, octets, t0, t1, codes, words, out):
    """out[output, row] += the leaf values of trees t0..t1.

    Scratch of uint8: codes (n_threads, 2, n_used, OCTET_ROWS), words (n_threads, 3, at least OCTET_ROWS).
    """
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    own, word, byte, place = codes[tid], words[tid, 0], words[tid, 1], words[tid, 2]
    coarse, full = np.empty(16, octets.cuts.dtype), np.uint8(255)
    for a in range(k0, k1, OCTET_ROWS):
        n = min(OCTET_ROWS, k1 - a)
        missing = code_columns(X, a, n, octets, coarse, own)
        for t in range(t0, t1):
            first = octets.first[t]
            for q in range(octets.first[t + 1] - 1, first - 1, -1):
                for r in range(OCTET_ROWS):
                    word[r] = full
                for k in range(octets.start[q], octets.start[q + 1], AT_ONCE):
                    c0, h0, m0 = nth_byte_test(octets, k, own, missing)
                    c1, h1, m1 = nth_byte_test(octets, k + 1, own, missing)
                    c2, h2, m2 = nth_byte_test(octets, k + 2, own, missing)
                    c3, h3, m3 = nth_byte_test(octets, k + 3, own, missing)
                    c4, h4, m4 = nth_byte_test(octets, k + 4, own, missing)
                    c5, h5, m5 = nth_byte_test(octets, k + 5, own, missing)
                    for r in range(OCTET_ROWS):
                        v = (full if c0[r] <= h0 else m0) & (full if c1[r] <= h1 else m1)
                        v &= (full if c2[r] <= h2 else m2) & (full if c3[r] <= h3 else m3)
                        word[r] &= v & (full if c4[r] <= h4 else m4) & (full if c5[r] <= h5 else m5)
                number = np.uint8(q - first)
                for r in range(OCTET_ROWS):
                    w, old_byte, old_place = word[r], byte[r], place[r]
                    byte[r] = w if w != 0 else old_byte
                    place[r] = number if w != 0 else old_place
            value, target = octets.value[8 * first : 8 * octets.first[t + 1]], out[octets.output[t], a : a + n]
            for r in range(n):
                target[r] += value[8 * np.int64(place[r]) + np.int64(trailing_zeros(np.uint64(byte[r])))]
