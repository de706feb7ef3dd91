"""Turning raw values into bin codes.

The code of a value is the number of cut points below it; missing values get 255. Codes are written twice: column by
column (for dividing rows) and row by row (for histograms).
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import count_below, device, kernel
from stagewise.kernels.team import share

__all__ = ["aligned_bytes", "bin_column", "bin_matrix", "interleave", "row_bytes"]

_BLOCK = 256
"""Rows binned at a time: their values and codes stay in the first-level cache while columns are walked."""


def row_bytes(n_columns: int) -> int:
    """Bytes of a row of codes: a multiple of four; 16, 32 or 64 where that is no more than a seventh longer, for then
    no row lies in two cache lines. (Scattered rows of 28 columns are added a seventh faster.)"""
    stride = -(-n_columns // 4) * 4
    return next((size for size in (16, 32, 64) if stride <= size and 7 * size <= 8 * stride), stride)


def aligned_bytes(n: int) -> np.ndarray:
    """Room for n bytes that begins with a cache line."""
    out = np.empty(n + 63, np.uint8)
    first = -out.ctypes.data % 64
    return out[first : first + n]


@device
def code_of(value, coarse, cuts):
    """Number of cuts below value; `cuts` is padded to 256 with +inf. The missing code for NaN.

    In two steps of 16: among every sixteenth cut (`coarse`), then among the 16 before the one found. Measured on Zen 4:
    1.9 ns a value; a branch-free search by halves takes 7.8.
    """
    first = 16 * min(count_below(coarse, 0, value), np.int64(15))
    return first + count_below(cuts, first, value) if value == value else np.int64(255)


@device
def every_sixteenth(cuts, coarse):
    for k in range(16):
        coarse[k] = cuts[16 * k + 15]


@kernel(arrays=True)
def bin_matrix(tid, n_threads, X, cuts, stride, by_row, by_column):
    """Bin a row-major matrix; cuts (n_columns, 256) are float64, or of the type of X (see `dataset.narrowed`)."""
    n_columns = X.shape[1]
    coarse = np.empty(16, cuts.dtype)
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    for a in range(k0, k1, _BLOCK):
        b = min(a + _BLOCK, k1)
        for j in range(n_columns):
            own = cuts[j]
            every_sixteenth(own, coarse)
            for i in range(a, b):
                code = code_of(X[i, j], coarse, own)
                by_column[j, i] = code
                by_row[i * stride + j] = code
        for j in range(n_columns, stride):
            for i in range(a, b):
                by_row[i * stride + j] = 0


@kernel(arrays=True)
def bin_column(tid, n_threads, x, cuts, out):
    """Bin one contiguous column."""
    k0, k1 = share(0, x.shape[0], tid, n_threads)
    coarse = np.empty(16, cuts.dtype)
    every_sixteenth(cuts, coarse)
    for i in range(k0, k1):
        out[i] = code_of(x[i], coarse, cuts)


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
