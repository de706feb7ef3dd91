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
    no row lies in two cache lines (docs/engine.md, section 4)."""
    stride = -(-n_columns // 4) * 4
    return next((size for size in (16, 32, 64) if stride <= size and 7 * size <= 8 * stride), stride)


def aligned_bytes(n: int) -> np.ndarray:
    """Room for n bytes that begins with a cache line."""
    out = np.empty(n + 63, np.uint8)
    first = -out.ctypes.data % 64
    return out[first : first + n]


@device
def code_of(value, coarse, cuts):
    """Number of cuts below value; `cuts` is padded to 256 with +inf, the last is one. The missing code for NaN.

    In two steps of 16: among every sixteenth cut (`coarse`), then among the 16 before the one found. Measured on Zen 4:
    1.4 ns a value; a branch-free search by halves takes 7.8.
    """
    first = 16 * count_below(coarse, 0, value)  # at most 15: nothing is above the last cut
    return first + count_below(cuts, first, value) if value == value else np.int64(255)


@device
def every_sixteenth(cuts, coarse):
    for k in range(16):
        coarse[k] = cuts[16 * k + 15]


@device
def lay_rows(by_column, stride, a, b, by_row):
    """Lay the codes of rows a..b out row by row, padded with zeros to the stride."""
    n_columns = by_column.shape[0]
    for j in range(n_columns):
        own = by_column[j, a:b]
        for i in range(b - a):
            by_row[(a + i) * stride + j] = own[i]
    for j in range(n_columns, stride):
        for i in range(a, b):
            by_row[i * stride + j] = 0


@kernel(arrays=True)
def bin_matrix(tid, n_threads, X, cuts, stride, by_row, by_column):
    """Bin a row-major matrix; cuts (n_columns, 256) are float64, or of the type of X (see `dataset.narrowed`)."""
    coarse = np.empty(16, cuts.dtype)
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    for a in range(k0, k1, _BLOCK):
        b = min(a + _BLOCK, k1)
        for j in range(X.shape[1]):
            own, out = cuts[j], by_column[j, a:b]
            every_sixteenth(own, coarse)
            for i in range(b - a):
                out[i] = code_of(X[a + i, j], coarse, own)
        lay_rows(by_column, stride, a, b, by_row)


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
    k0, k1 = share(0, by_column.shape[1], tid, n_threads)
    for a in range(k0, k1, _BLOCK):
        lay_rows(by_column, stride, a, min(a + _BLOCK, k1), by_row)
