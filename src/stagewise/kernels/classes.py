"""Splits of a classification tree with K classes, by the Gini index, on exact sums of integer weights.

Each thread takes columns of its own, one at a time, so that its histogram (nodes × 256 bins × K classes) stays small
and nothing has to be merged: the result does not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import device, kernel
from stagewise.kernels.partition import MISSING
from stagewise.kernels.split import NOT_SEEN
from stagewise.kernels.team import share

__all__ = ["class_splits", "class_sums"]

_NOISE = 1e-12
"""A split must improve the purity by this share of a node's weight: less is rounding."""


@device
def purity(sums):
    """Σ_k W_k² / W: the weight less the weighted Gini impurity. sums: K class weights and, last, the rows."""
    total, squares = 0.0, 0.0
    for k in range(sums.shape[0] - 1):
        w = np.float64(sums[k])
        total += w
        squares += w * w
    return squares / total if total > 0.0 else 0.0


@device
def best_cut(hist, n_bins, whole, min_rows, left, right):
    """(gain, last bin on the left, side of missing values) of one column of one node; gain 0 when there is none.

    hist (256, K + 1), whole (K + 1); left and right are scratch. Ties: the lowest bin, then missing on the right.
    """
    size = whole.shape[0]
    base = purity(whole)
    weight = 0.0
    for k in range(size - 1):
        weight += np.float64(whole[k])
    best, cut, where = _NOISE * weight, np.int64(0), np.int64(0)
    found = False
    missing = hist[MISSING]
    sides = 2 if missing[size - 1] > 0 else 1
    for side in range(sides):  # 0: missing values go right, 1: left
        for k in range(size):
            left[k] = missing[k] if side == 1 else 0
        for b in range(n_bins if sides == 2 else n_bins - 1):
            for k in range(size):
                left[k] += hist[b, k]
                right[k] = whole[k] - left[k]
            if hist[b, size - 1] == 0 or left[size - 1] < min_rows or right[size - 1] < min_rows:
                continue
            gain = purity(left) + purity(right) - base
            if gain > best or (gain == best and found and b < cut):
                best, cut, where, found = gain, np.int64(b), np.int64(side), True
    return best if found else 0.0, cut, where if sides == 2 else np.int64(NOT_SEEN)


@device
def best_code(hist, n_bins, whole, min_rows, right):
    """As `best_cut`, for a column of categories: one code on the left, the others on the right.

    Missing values are a code too, 255, when there are any. Ties: the lowest code.
    """
    size = whole.shape[0]
    base = purity(whole)
    weight = 0.0
    for k in range(size - 1):
        weight += np.float64(whole[k])
    best, chosen, found = _NOISE * weight, np.int64(0), False
    missing = hist[MISSING, size - 1] > 0
    for b in range(n_bins + 1 if missing else n_bins):
        own = np.int64(MISSING) if b == n_bins else np.int64(b)
        for k in range(size):
            right[k] = whole[k] - hist[own, k]
        if hist[own, size - 1] < max(min_rows, 1) or right[size - 1] < min_rows:
            continue
        gain = purity(hist[own]) + purity(right) - base
        if gain > best:
            best, chosen, found = gain, own, True
    return best if found else 0.0, chosen, np.int64(chosen == MISSING) if missing else np.int64(NOT_SEEN)


@kernel(arrays=True)
def class_splits(
    tid, n_threads, by_column, n_bins, in_sets, node, code, weight, whole, min_rows, hist, gain, cut, side
):
    """The best split of every open node by every column.

    by_column uint8 (n_columns, n_rows); in_sets bool (n_columns): columns of categories; node int32 (n_rows): the open
    node of a row, negative when it is in none; code int64 (n_rows): classes; weight int64 (n_rows); whole int64
    (n_nodes, K + 1): class weights and rows of each node; hist int64 (n_threads, n_nodes, 256, K + 1): scratch. Out:
    gain, cut and side (n_columns, n_nodes), see best_cut and best_code.
    """
    n_nodes, size = whole.shape[0], whole.shape[1]
    own = hist[tid]
    left, right = np.empty(size, np.int64), np.empty(size, np.int64)
    for j in range(tid, by_column.shape[0], n_threads):
        own[:] = 0
        bins = by_column[j]
        for i in range(bins.shape[0]):
            m = node[i]
            if m >= 0:
                own[m, bins[i], code[i]] += weight[i]
                own[m, bins[i], size - 1] += 1
        for m in range(n_nodes):
            if in_sets[j]:
                gain[j, m], cut[j, m], side[j, m] = best_code(own[m], n_bins[j], whole[m], min_rows, right)
                continue
            gain[j, m], cut[j, m], side[j, m] = best_cut(own[m], n_bins[j], whole[m], min_rows, left, right)


@kernel
def class_sums(tid, n_threads, node, code, weight, out):
    """out[tid, node] += the row's weight for its class, and 1 row: int64 (n_threads, n_nodes, K + 1)."""
    size = out.shape[2]
    a, b = share(0, node.shape[0], tid, n_threads)
    for i in range(a, b):
        m = node[i]
        if m >= 0:
            out[tid, m, code[i]] += weight[i]
            out[tid, m, size - 1] += 1
