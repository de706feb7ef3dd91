"""Dividing a node's rows between its children, keeping their order.

    rows   [ ... | start .............................. stop | ... ]      row numbers of the node, ascending
                 | thread 0: left→ ...... ←right | thread 1 ...  |        spare: each thread's piece, from both ends
    rows   [ ... | left children, ascending | right, ascending   | ... ]

The column is read from the column-by-column copy of the bins: one byte a row instead of one cache line.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import device, kernel

__all__ = ["MISSING", "collect_sides", "divide", "partition_rows"]

MISSING = 255
"""The bin code of a missing value."""


@device
def divide(column, cut, missing_left, rows, spare, k0, k1):  # type: ignore[no-untyped-def]
    """Send rows[k0:k1] to both ends of spare[k0:k1], left from the front, right from the back; how many went left.

    Without branches: both places are written, and one counter moves.
    """
    n_left = k0
    n_right = k1 - 1
    missing = MISSING if missing_left else 256  # 256 never occurs
    for k in range(k0, k1):
        i = rows[k]
        code = np.int64(column[i])
        left = (code <= cut) | (code == missing)
        spare[n_left] = i
        spare[n_right] = i  # when both counters point to the same place, both writes are this row
        n_left += left
        n_right -= not left
    return n_left - k0


@device
def collect_sides(rows, spare, k0, k1, n_left, at_left, at_right):  # type: ignore[no-untyped-def]
    """Copy a divided piece back: its left part to rows[at_left:], its right part, reversed, to rows[at_right:]."""
    for k in range(n_left):
        rows[at_left + k] = spare[k0 + k]
    for k in range(k1 - k0 - n_left):
        rows[at_right + k] = spare[k1 - 1 - k]


@kernel
def partition_rows(column, cut, missing_left, rows, spare):  # type: ignore[no-untyped-def]
    """Partition all of `rows` with one thread; how many went left."""
    n_left = divide(column, cut, missing_left, rows, spare, 0, rows.shape[0])
    collect_sides(rows, spare, 0, rows.shape[0], n_left, 0, n_left)
    return n_left
