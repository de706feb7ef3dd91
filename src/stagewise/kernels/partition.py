"""Dividing a node's rows between its children, keeping their order.

Row numbers move between two arrays: a node's rows lie in one of them, its children's in the other, at the same place,

    from   [ ... | start ............................... stop | ... ]     ascending
    to     [ ... | left child, ascending | right, ascending   | ... ]

so nothing is copied back. (A tree that begins with all rows has an empty list, which stands for 0, 1, 2 ...) How many
rows go left is known from the histogram. One thread works from the front; a second one from the back meets it exactly.
More threads count their lefts first.

A row goes left when code + shift <= bound, in 8 bits: see `bundles.test_of`.

The column is read from the column-by-column copy of the bins: one byte a row instead of one cache line.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.bundles import test_of
from stagewise.kernels.histogram import is_run, row_at
from stagewise.kernels.jit import device, kernel, merged, never_inline
from stagewise.kernels.lanes import COMPRESSES, LANES, count_ones, left_mask, run_mask, store_chosen, store_run

__all__ = [
    "MISSING",
    "count_left",
    "count_sides",
    "divide",
    "divide_backward",
    "divide_lanes",
    "divide_sides",
    "divide_sides_backward",
    "partition_rows",
    "partition_sides",
]

MISSING = 255
"""The bin code of a missing value."""


_ALL = np.uint16((1 << LANES) - 1)

if COMPRESSES:

    @merged
    def divide_lanes(column, shift, bound, rows, k, end, to, left, others, right):
        """Whole vectors of rows from rows[k] on, to to[left:] and others[right:]; k and left after them."""
        lanes = np.uint64(LANES)
        if k < end and is_run(rows, k, end):
            row = row_at(rows, k)
            while k + lanes <= end:
                mask = run_mask(column, np.uint64(row), shift, bound)
                n = count_ones(mask)
                store_run(row, mask, to, left)
                store_run(row, mask ^ _ALL, others, right)
                left += n
                right += lanes - n
                k += lanes
                row += np.uint32(LANES)
            return k, left
        while k + lanes <= end:
            mask = left_mask(column, rows, k, shift, bound)
            n = count_ones(mask)
            store_chosen(rows, k, mask, to, left)
            store_chosen(rows, k, mask ^ _ALL, others, right)
            left += n
            right += lanes - n
            k += lanes
        return k, left

    @merged
    def divide_lanes_backward(column, shift, bound, rows, k, first, to, left, right):
        """The same for the rows before rows[k], to the places before to[left] and to[right]."""
        lanes = np.uint64(LANES)
        if first < k and is_run(rows, first, k):
            row = row_at(rows, k - np.uint64(1)) + np.uint32(1)
            while k >= first + lanes:
                k -= lanes
                row -= np.uint32(LANES)
                mask = run_mask(column, np.uint64(row), shift, bound)
                n = count_ones(mask)
                left -= n
                right -= lanes - n
                store_run(row, mask, to, left)
                store_run(row, mask ^ _ALL, to, right)
            return k, left
        while k >= first + lanes:
            k -= lanes
            mask = left_mask(column, rows, k, shift, bound)
            n = count_ones(mask)
            left -= n
            right -= lanes - n
            store_chosen(rows, k, mask, to, left)
            store_chosen(rows, k, mask ^ _ALL, to, right)
        return k, left

else:

    @merged
    def divide_lanes(column, shift, bound, rows, k, end, to, left, others, right):
        """Nothing: one row after the other is as good here."""
        return k, left

    @merged
    def divide_lanes_backward(column, shift, bound, rows, k, first, to, left, right):
        return k, left


@device
def count_left(column, shift, bound, rows, k0, k1):
    """How many of rows[k0:k1] go left."""
    never_inline()
    total = np.int64(0)
    if rows.shape[0] == 0:
        every = column[k0:k1]
        for k in range(k1 - k0):
            total += np.int64(np.uint8(every[k] + shift) <= bound)
        return total
    own = rows[k0:k1]
    for k in range(k1 - k0):
        total += np.int64(np.uint8(column[own[k]] + shift) <= bound)
    return total


@device
def divide(column, shift, bound, rows, k0, k1, to, at_left, at_right):
    """Send rows[k0:k1] to to[at_left:] and to[at_right:].

    Without branches: 16 rows at a time are moved side by side where the processor can do that, the others one by one:
    the place is selected, one store a row. (Measured with a third of 1 M rows, a twentieth and one in 250: 0.51, 0.56
    and 1.05 ns a row with vectors, 0.86, 1.24 and 1.78 without. Writing both places and moving one of two counters is
    slower. Unsigned indices: see histogram.add_rows.)
    """
    never_inline()
    one = np.uint64(1)
    k, end, left_place = np.uint64(k0), np.uint64(k1), np.uint64(at_left)
    both = np.uint64(at_right) + np.uint64(at_left) - k  # place on the right = both + k - place on the left
    k, left_place = divide_lanes(column, shift, bound, rows, k, end, to, left_place, to, np.uint64(at_right))
    while k < end:
        i = row_at(rows, k)
        left = np.uint8(column[i] + shift) <= bound
        to[left_place if left else both + k - left_place] = i
        left_place += np.uint64(left)
        k += one


@device
def divide_backward(column, shift, bound, rows, k0, k1, to, end_left, end_right):
    """The same from the last row to the first: left rows end before to[end_left], right ones before to[end_right]."""
    never_inline()
    one = np.uint64(1)
    k, first, left_place = np.uint64(k1), np.uint64(k0), np.uint64(end_left)
    both = np.uint64(end_right) + np.uint64(end_left) - k
    k, left_place = divide_lanes_backward(column, shift, bound, rows, k, first, to, left_place, np.uint64(end_right))
    while k > first:
        k -= one
        i = row_at(rows, k)
        left = np.uint8(column[i] + shift) <= bound
        left_place -= np.uint64(left)
        to[left_place if left else both + k - left_place] = i


# --- by a table of sides: sides[code] is 1 for codes that go left ----------------------------------------------------


@device
def count_sides(column, sides, rows, k0, k1):
    """How many of rows[k0:k1] go left."""
    never_inline()
    total = np.int64(0)
    for k in range(k0, k1):
        total += np.int64(sides[column[row_at(rows, k)]])
    return total


@device
def divide_sides(column, sides, rows, k0, k1, to, at_left, at_right):
    """As `divide`."""
    never_inline()
    one = np.uint64(1)
    k, end, left_place = np.uint64(k0), np.uint64(k1), np.uint64(at_left)
    both = np.uint64(at_right) + np.uint64(at_left) - k
    while k < end:
        i = row_at(rows, k)
        left = sides[column[i]]
        to[left_place if left != 0 else both + k - left_place] = i
        left_place += np.uint64(left)
        k += one


@device
def divide_sides_backward(column, sides, rows, k0, k1, to, end_left, end_right):
    """As `divide_backward`."""
    never_inline()
    one = np.uint64(1)
    k, first, left_place = np.uint64(k1), np.uint64(k0), np.uint64(end_left)
    both = np.uint64(end_right) + np.uint64(end_left) - k
    while k > first:
        k -= one
        i = row_at(rows, k)
        left = sides[column[i]]
        left_place -= np.uint64(left)
        to[left_place if left != 0 else both + k - left_place] = i


@kernel
def partition_sides(column, sides, rows, n_left, out):
    """As `partition_rows`, by a table of sides (uint8, 256)."""
    n = rows.shape[0]
    middle = n // 2
    divide_sides(column, sides, rows, 0, middle, out, 0, n_left)
    divide_sides_backward(column, sides, rows, middle, n, out, n_left, n)


@kernel
def partition_rows(column, bundles, feature, cut, missing_left, rows, n_left, out):
    """Partition all of `rows` into `out`: one step of growth on its own, half from the front and half from the back."""
    _, shift, bound = test_of(bundles, feature, cut, missing_left)
    n = rows.shape[0]
    middle = n // 2
    divide(column, shift, bound, rows, 0, middle, out, 0, n_left)
    divide_backward(column, shift, bound, rows, middle, n, out, n_left, n)
