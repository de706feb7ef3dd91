"""Turning raw values into bin codes.

The code of a value is the number of cut points below it, found by a branch-free search over 256 padded cuts; missing
values get 255. Codes are written twice: column by column (for dividing rows) and row by row (for histograms).
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import device, kernel
from stagewise.kernels.team import share

__all__ = ["bin_column", "bin_matrix", "distinct_sorted", "greedy_cuts", "interleave"]

_BLOCK = 256
"""Rows binned at a time: their values and codes stay in the first-level cache while columns are walked."""


@device
def code_of(value, cuts):
    """Number of cuts below value; `cuts` is padded to 256 with +inf. The missing code for NaN."""
    low = 0
    width = 128
    while width > 0:
        low += width * (cuts[low + width - 1] < value)
        width >>= 1
    return low if value == value else 255


@kernel
def bin_matrix(tid, n_threads, X, cuts, stride, by_row, by_column):
    """Bin a row-major matrix; cuts is float64 (n_columns, 256)."""
    n_columns = X.shape[1]
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    for a in range(k0, k1, _BLOCK):
        b = min(a + _BLOCK, k1)
        for j in range(n_columns):
            own = cuts[j]
            for i in range(a, b):
                code = code_of(np.float64(X[i, j]), own)
                by_column[j, i] = code
                by_row[i * stride + j] = code
        for j in range(n_columns, stride):
            for i in range(a, b):
                by_row[i * stride + j] = 0


@kernel
def bin_column(tid, n_threads, x, cuts, out):
    """Bin one contiguous column."""
    k0, k1 = share(0, x.shape[0], tid, n_threads)
    for i in range(k0, k1):
        out[i] = code_of(np.float64(x[i]), cuts)


@kernel
def interleave(tid, n_threads, by_column, stride, by_row):
    """Lay column-by-column codes out row by row, padded with zeros to the stride."""
    n_columns = by_column.shape[0]
    k0, k1 = share(0, by_column.shape[1], tid, n_threads)
    for a in range(k0, k1, _BLOCK):
        b = min(a + _BLOCK, k1)
        for j in range(stride):
            for i in range(a, b):
                by_row[i * stride + j] = by_column[j, i] if j < n_columns else 0


@kernel
def distinct_sorted(values, weights, out_values, out_counts):
    """Distinct values of an ascending array (NaN at its end is left out) and the weight of each; how many.

    weights are integers, empty for 1 each.
    """
    n = np.int64(-1)
    weighted = weights.shape[0] > 0
    for k in range(values.shape[0]):
        v = values[k]
        if v != v:
            break
        if n < 0 or v != out_values[n]:
            n += 1
            out_values[n] = v
            out_counts[n] = 0
        out_counts[n] += weights[k] if weighted else 1
    return n + 1


@kernel
def greedy_cuts(counts, max_bins, last):
    """Divide distinct values with these integer weights into at most max_bins bins of about equal weight.

    last[b] = the last value of bin b; the number of bins. A value heavier than an average bin gets a bin of its own,
    and the average is that of what is left for the bins that are left.
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
        before_heavy = k + 1 < n and counts[k + 1] * max_bins >= total
        # close the bin when it holds its share of what is left, rounded to the nearest value
        share = np.float64(left_total + filled) / max(left_bins, 1)
        after = filled + (counts[k + 1] if k + 1 < n else 0)
        full = filled >= share or (after - share > share - filled and after > share)
        if k + 1 == n or (n_bins < max_bins - 1 and (is_heavy or before_heavy or full)):
            last[n_bins] = k
            n_bins += 1
            if not is_heavy:
                left_bins -= 1
            filled = np.int64(0)
    return n_bins
