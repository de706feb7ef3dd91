"""Prediction by trees of more than 512 leaves: rows are binned by the trees' own thresholds, then walk on their codes.

The code of a value is the number of thresholds of its column below it, so `value <= threshold` is `code <= number of
the threshold`. A row is then a few bytes and a node is one word, where a walk on values reads five arrays: 100,000 rows
of 28 columns through 100 trees of 255 leaves take a third of the time, the binning included. The leaves are the same.

Every code stands twice in its row: with 255 for a missing value, and with 0 for it. A node whose missing values go left
reads the second, so every test is `code > bound`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.binning import code_of, every_sixteenth
from stagewise.kernels.jit import device, kernel, piece
from stagewise.kernels.partition import MISSING
from stagewise.kernels.team import share

__all__ = ["CODED_ROWS", "Coded", "predict_coded"]

CODED_ROWS = 8
"""Rows that walk side by side: a step waits for two loads, and meanwhile the others take theirs."""


class Coded(NamedTuple):
    """All trees on codes of their own. A leaf's test always fails, and its left child is itself."""

    node: np.ndarray  # uint64: left child << 32 | bound << 24 | place of the code in a row: right when code > bound
    cuts: np.ndarray  # (n_used, 256) float64, or float32 rounded down: thresholds of a column, ascending, then +inf
    used: np.ndarray  # int64 (n_used): the columns that occur in a test
    value: np.ndarray  # float64, of leaves
    start: np.ndarray  # int64 (n_trees + 1)
    output: np.ndarray  # int64 (n_trees)


@piece
def down(node, codes, p, k):
    """The child of node k that the row whose codes begin at p goes to."""
    word = node[k]
    code = np.uint32(codes[p + np.int64(word & np.uint64(0xFFFFFF))])
    return np.int64(word >> np.uint64(32)) + np.int64((code << np.uint32(24)) > np.uint32(word))


@device
def code_block(X, a, n, coded, stride, coarse, codes):
    """Codes of the rows a .. a + n, row by row."""
    for j in range(coded.used.shape[0]):
        own, column = coded.cuts[j], coded.used[j]
        every_sixteenth(own, coarse)
        for r in range(n):
            code = code_of(X[a + r, column], coarse, own)
            codes[r * stride + 2 * j] = code
            codes[r * stride + 2 * j + 1] = code if code != MISSING else np.int64(0)


@kernel(arrays=True)
def predict_coded(tid, n_threads, X, coded, t0, t1, codes, out):
    """out[output, row] += the leaf values of trees t0..t1.

    codes: uint8 (n_threads, rows of a block, bytes of a row), scratch; the number of rows is a multiple of CODED_ROWS.
    """
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    block, stride = codes.shape[1], codes.shape[2]
    own, coarse, at = codes[tid].ravel(), np.empty(16, coded.cuts.dtype), np.empty(CODED_ROWS, np.int64)
    for first in range(k0, k1, block):
        n = min(block, k1 - first)
        code_block(X, first, n, coded, stride, coarse, own)
        for t in range(t0, t1):
            s, e, target = coded.start[t], coded.start[t + 1], out[coded.output[t], first : first + n]
            node, value = coded.node[s:e], coded.value[s:e]
            for r in range(0, n, CODED_ROWS):
                p = r * stride
                a, b, c, d = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
                u, v, w, x = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
                moving = True
                while moving:
                    a, b = down(node, own, p, a), down(node, own, p + stride, b)
                    c, d = down(node, own, p + 2 * stride, c), down(node, own, p + 3 * stride, d)
                    u, v = down(node, own, p + 4 * stride, u), down(node, own, p + 5 * stride, v)
                    w, x = down(node, own, p + 6 * stride, w), down(node, own, p + 7 * stride, x)
                    at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7] = a, b, c, d, u, v, w, x
                    a, b = down(node, own, p, a), down(node, own, p + stride, b)
                    c, d = down(node, own, p + 2 * stride, c), down(node, own, p + 3 * stride, d)
                    u, v = down(node, own, p + 4 * stride, u), down(node, own, p + 5 * stride, v)
                    w, x = down(node, own, p + 6 * stride, w), down(node, own, p + 7 * stride, x)
                    moved = (a ^ at[0]) | (b ^ at[1]) | (c ^ at[2]) | (d ^ at[3])
                    moving = (moved | (u ^ at[4]) | (v ^ at[5]) | (w ^ at[6]) | (x ^ at[7])) != 0
                for i in range(min(CODED_ROWS, n - r)):
                    target[r + i] += value[at[i]]
