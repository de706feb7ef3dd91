"""Moments of every column with a response: what componentwise boosting looks at in each stage.

A column is one thread's work, from its first row to its last, so sums do not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import device, kernel

__all__ = ["line_moments", "spline_moments", "spline_values"]


@kernel
def line_moments(tid, n_threads, columns, response, out):
    """out[j] = Σ columns[j]·response; columns float64 (n_columns, n_rows), response (n_rows)."""
    n = columns.shape[1]
    for j in range(tid, columns.shape[0], n_threads):
        x = columns[j]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0  # four sums: one alone would wait for each add
        for i in range(0, n - 3, 4):
            s0 += x[i] * response[i]
            s1 += x[i + 1] * response[i + 1]
            s2 += x[i + 2] * response[i + 2]
            s3 += x[i + 3] * response[i + 3]
        for i in range(n - n % 4, n):
            s0 += x[i] * response[i]
        out[j] = (s0 + s1) + (s2 + s3)


@device
def cubic(t):
    """The four cubic B-splines of equidistant knots that are not 0 within a cell, at t in [0, 1]."""
    s = 1.0 - t
    return (
        s * s * s / 6.0,
        (3.0 * t * t * t - 6.0 * t * t + 4.0) / 6.0,
        (3.0 * s * s * s - 6.0 * s * s + 4.0) / 6.0,
        t * t * t / 6.0,
    )


@device
def cell_of(x, low, width, n_cells):
    """The cell of x and where in it (0 to 1); beyond the knots the spline goes on as a constant."""
    p = (x - low) / width
    p = p if p > 0.0 else 0.0
    p = p if p < n_cells else np.float64(n_cells)
    c = np.int64(p)
    c = c if c < n_cells else n_cells - 1
    return c, p - c


@kernel
def spline_moments(tid, n_threads, columns, low, width, response, out):
    """out[j, k] = Σ B_k(columns[j])·response: cubic B-splines on equidistant cells of `width` from `low` on.

    low, width (n_columns); out (n_columns, n_cells + 3).
    """
    n_cells = out.shape[1] - 3
    for j in range(tid, columns.shape[0], n_threads):
        own = out[j]
        own[:] = 0.0
        for i in range(columns.shape[1]):
            c, t = cell_of(columns[j, i], low[j], width[j], n_cells)
            b0, b1, b2, b3 = cubic(t)
            own[c] += b0 * response[i]
            own[c + 1] += b1 * response[i]
            own[c + 2] += b2 * response[i]
            own[c + 3] += b3 * response[i]


@kernel
def spline_values(tid, n_threads, x, low, width, coef, out):
    """out[i] = Σ_k coef_k·B_k(x[i]); x float64 (n_rows)."""
    n_cells = coef.shape[0] - 3
    for i in range(tid, x.shape[0], n_threads):
        c, t = cell_of(x[i], low, width, n_cells)
        b0, b1, b2, b3 = cubic(t)
        out[i] = b0 * coef[c] + b1 * coef[c + 1] + b2 * coef[c + 2] + b3 * coef[c + 3]
