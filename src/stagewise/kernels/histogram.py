"""Histograms of packed gradients: one integer add for a row and a column.

The bins of a table lie row by row, `stride` bytes each (a multiple of four, padded with zeros), and column by column. A
histogram has 256 entries a column, the last one for missing values, and columns are PITCH entries apart. A node of at
most `block` rows keeps its histogram packed, one int64 an entry; a larger node keeps two int64 (see `exact.Packing`).
Both are sums of integers: parent minus child is exact, and so is any grouping of the rows.

Measured at 1 M x 28, AMD Zen 4, one thread: 2.9 billion updates/s for all rows, 2.1 for half of them and 1.6 for one in
a hundred; two threads that share the rows do nearly twice as much.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.bundles import NO_BUNDLES, Bundles
from stagewise.kernels.jit import bare, device, eight_at, four_at, merged, never_inline, prefetch, prefetch_near

__all__ = [
    "Bins",
    "NO_ROOT",
    "PITCH",
    "Pools",
    "accumulate",
    "add_rows",
    "add_run",
    "add_wide",
    "clear",
    "is_run",
    "merge_columns",
    "row_at",
    "subtract_columns",
    "take_columns",
    "width_of",
]

PITCH = 264
"""Entries from one column's histogram to the next: 256, and a cache line that stays empty.

At a distance of 2 kB equal codes of all columns would share two of the 64 sets of the first-level cache. With 28
columns of two or sixteen codes an update took 2.5 and 1.6 ns instead of 0.3; with 255 codes each nothing changes.
"""

NO_ROOT = np.empty((0, 0), np.int64)
"""Stands for a wide histogram, int64 (2, width * PITCH), where there is none."""

_AHEAD, _NEAR = 33, 5
"""Scattered rows between a prefetch and its use."""

_BYTES_AHEAD, _ROWS_AHEAD = 512, 8
"""The same for rows that follow each other: at least so many bytes, and so many rows."""

_ROUND = 2048
"""Rows that are added to one group of columns before the next group's turn. (512 to 16,384 are the same.)"""


class Bins(NamedTuple):
    """The bin codes of a table. A column is a feature, unless there are bundles."""

    by_row: np.ndarray  # uint8 (n_rows * stride), row after row
    by_column: np.ndarray  # uint8 (n_columns, n_rows)
    n_bins: np.ndarray  # int64 (n_columns): codes 0 .. n_bins - 1, and 255 for missing
    stride: int
    bundles: Bundles = NO_BUNDLES

    @property
    def width(self) -> int:
        """Columns of a histogram, as `width_of`."""
        return max(-(-len(self.n_bins) // 4) * 4, 4)


class Pools(NamedTuple):
    """Room for the histograms of a tree, and each thread's own room."""

    packed: np.ndarray  # int64 (slots, width * PITCH)
    grad: np.ndarray  # int64 (slots, width * PITCH), wide histograms: grad ...
    hess: np.ndarray  # ... and hess << count_bits | count
    own_packed: np.ndarray  # int64 (n_threads, width * PITCH)
    own_grad: np.ndarray
    own_hess: np.ndarray


@merged
def width_of(bins):
    """Columns of a histogram: a multiple of four. A row of codes may be longer, see `binning.row_bytes`."""
    return max((bins.n_bins.shape[0] + 3) & -4, 4)


@merged
def row_at(rows, k):
    """rows[k]. A list without any stands for all rows in their order, which is not worth four bytes a row."""
    return rows[k] if rows.shape[0] > 0 else np.uint32(k)


@merged
def is_run(rows, k, end):
    """Whether no row is left out between rows[k] and rows[end - 1], as at the root (they are ascending)."""
    a, b = np.int64(k), np.int64(end) - 1
    return rows.shape[0] == 0 or np.int64(rows[b]) - np.int64(rows[a]) == b - a


@device
def clear(out):
    """Set to zero. (An assignment to a slice compiles its error messages too, for seconds.)"""
    for q in range(out.shape[0]):
        out[q] = 0


@merged
def add_to_four(codes, word, q, out):
    """out[q + k * PITCH + byte k of codes] += word for four columns."""
    byte = np.uint64(255)
    out[q + (codes & byte)] += word
    out[q + np.uint64(PITCH) + ((codes >> np.uint64(8)) & byte)] += word
    out[q + np.uint64(2 * PITCH) + ((codes >> np.uint64(16)) & byte)] += word
    out[q + np.uint64(3 * PITCH) + ((codes >> np.uint64(24)) & byte)] += word


@merged
def add_row(bins, p, word, fours, q, out):
    """One row: out[q + column * PITCH + bin] += word for four columns, times `fours`, whose codes begin at p."""
    for _ in range(fours >> 1):
        codes = eight_at(bins, p)
        add_to_four(codes, word, q, out)
        add_to_four(codes >> np.uint64(32), word, q + np.uint64(4 * PITCH), out)
        p += np.uint64(8)
        q += np.uint64(8 * PITCH)
    if fours & 1:
        add_to_four(four_at(bins, p), word, q, out)


@merged
def run_of(bins, p, width, words, i, end, fours, q, out):
    """A run of rows, i..end, and some of their columns; the codes begin at p, the entries at q."""
    ahead = max(np.uint64(_BYTES_AHEAD), np.uint64(_ROWS_AHEAD) * width)
    while i < end:
        prefetch_near(bins, p + ahead)
        add_row(bins, p, words[i], fours, q, out)
        p += width
        i += np.uint64(1)


@device
def add_run(bins, stride, words, i, end, c0, c1, out):
    """Rows i..end and columns c0..c1. Some rows at a time are added to up to sixteen columns, then to the next sixteen:
    the histograms of 28 would take twice the first-level cache.

    Billion adds a second with 12, 20, 28 and 50 columns: 3.1, 2.9, 2.9, 2.6; in one go, two rows at a time, 2.6, 2.5,
    2.45, 2.05. It takes all three: groups, a number of columns that the compiler knows, and the prefetch.
    """
    never_inline()
    width, first, fours = np.uint64(stride), np.uint64(c0), (c1 - c0) >> 2
    groups = (fours + 3) >> 2
    while i < end:
        until, p, q = min(i + np.uint64(_ROUND), end), i * width + first, first * np.uint64(PITCH)
        for g in range(groups):
            own = (fours + groups - 1 - g) // groups
            if own == 4:
                run_of(bins, p, width, words, i, until, 4, q, out)
            elif own == 3:
                run_of(bins, p, width, words, i, until, 3, q, out)
            else:
                run_of(bins, p, width, words, i, until, own, q, out)
            p += np.uint64(4 * own)
            q += np.uint64(4 * own * PITCH)
        i = until


@merged
def add_two(bins, p, r, word, other, fours, base, out):
    """Two rows, column by column: what a row costs beside its adds is paid once for both."""
    q = base
    for _ in range(fours):
        out[q + np.uint64(bins[p])] += word
        out[q + np.uint64(bins[r])] += other
        out[q + np.uint64(PITCH) + np.uint64(bins[p + np.uint64(1)])] += word
        out[q + np.uint64(PITCH) + np.uint64(bins[r + np.uint64(1)])] += other
        out[q + np.uint64(2 * PITCH) + np.uint64(bins[p + np.uint64(2)])] += word
        out[q + np.uint64(2 * PITCH) + np.uint64(bins[r + np.uint64(2)])] += other
        out[q + np.uint64(3 * PITCH) + np.uint64(bins[p + np.uint64(3)])] += word
        out[q + np.uint64(3 * PITCH) + np.uint64(bins[r + np.uint64(3)])] += other
        p += np.uint64(4)
        r += np.uint64(4)
        q += np.uint64(4 * PITCH)


@merged
def one_line(width):
    """Whether no row of codes lies in two cache lines."""
    return width <= np.uint64(64) and np.uint64(64) % width == np.uint64(0)


@merged
def fetch(bins, words, row, width, first, final):
    """Ask for a row's bins (also the one `final` further, unless 0) and word, to be in the second-level cache soon."""
    p = row * width + first
    prefetch(bins, p)
    if final > np.uint64(0):
        prefetch(bins, p + final)
    prefetch(words, row)


@merged
def fetch_near(bins, words, row, width, first, final):
    """The same, to be in the first-level cache at once."""
    p = row * width + first
    prefetch_near(bins, p)
    if final > np.uint64(0):
        prefetch_near(bins, p + final)
    prefetch_near(words, row)


@merged
def number_at(rows, listed, k):
    """`row_at` where it is known whether there is a list."""
    return np.uint64(rows[k]) if listed else k


@merged
def scattered_of(bins, width, words, rows, listed, k, end, first, fours, q, out):
    """`add_rows` for rows of which some are left out, or most columns."""
    one, two, last = np.uint64(1), np.uint64(2), end - np.uint64(1)
    final = np.uint64(0 if one_line(width) else 4 * fours - 1)
    while k + one < end:
        ahead, near = min(k + np.uint64(_AHEAD), last), min(k + np.uint64(_NEAR), last)
        fetch(bins, words, number_at(rows, listed, ahead - one), width, first, final)
        fetch(bins, words, number_at(rows, listed, ahead), width, first, final)
        fetch_near(bins, words, number_at(rows, listed, near - one), width, first, final)
        fetch_near(bins, words, number_at(rows, listed, near), width, first, final)
        i, j = number_at(rows, listed, k), number_at(rows, listed, k + one)
        add_two(bins, i * width + first, j * width + first, words[i], words[j], fours, q, out)
        k += two
    if k < end:
        i = number_at(rows, listed, k)
        add_row(bins, i * width + first, words[i], fours, q, out)


@device
def add_rows(bins, stride, words, rows, start, stop, c0, c1, out):
    """out[column * PITCH + bin] += words[row] for rows[start:stop] and columns c0..c1 (multiples of four).

    rows: ascending; empty: all of them.

    Scattered rows are prefetched, into the second-level cache from afar and into the first from near, and two are added
    at a time: 6 % faster with 28 columns, 10 % with 20. (Four are slower. Groups of columns as in `add_run`, with the
    later columns of a row copied so that they need not be fetched again, are 5 to 15 % faster with one thread, and 5 to
    10 % slower in a fit with two: there it is the memory that is waited for. With 64 of 1,000 columns groups take an
    eighth longer.) Indices are unsigned: signed ones are checked for being negative at every access.
    """
    never_inline()
    width, first, fours, q = np.uint64(stride), np.uint64(c0), (c1 - c0) >> 2, np.uint64(c0 * PITCH)
    k, end = np.uint64(start), np.uint64(stop)
    if start < stop and 2 * (c1 - c0) > stride and is_run(rows, k, end):
        i = np.uint64(row_at(rows, k))
        add_run(bins, stride, words, i, i + end - k, c0, c1, out)
    elif rows.shape[0] > 0:
        scattered_of(bins, width, words, rows, True, k, end, first, fours, q, out)
    else:
        scattered_of(bins, width, words, rows, False, k, end, first, fours, q, out)


@device
def add_wide(bins, stride, grads, hesses, rows, start, stop, c0, c1, out_grad, out_hess):
    """The same with two words a row, for gradients that need more bits than one word has."""
    never_inline()
    for k in range(start, stop):
        i = np.int64(row_at(rows, k))
        g, h = grads[i], hesses[i]
        p = i * stride
        for c in range(c0, c1):
            q = c * PITCH + np.int64(bins[p + c])
            out_grad[q] += g
            out_hess[q] += h


@bare
def merge_columns(pools, slot, n_threads, c0, c1):
    """The sum of all threads' own histograms, two at least, for columns c0..c1, into a slot."""
    never_inline()
    q0, q1 = c0 * PITCH, c1 * PITCH
    grad, hess = pools.grad[slot, q0:q1], pools.hess[slot, q0:q1]
    first_grad, first_hess = pools.own_grad[0, q0:q1], pools.own_hess[0, q0:q1]
    own_grad, own_hess = pools.own_grad[1, q0:q1], pools.own_hess[1, q0:q1]
    for q in range(q1 - q0):
        grad[q] = first_grad[q] + own_grad[q]
        hess[q] = first_hess[q] + own_hess[q]
    for t in range(2, n_threads):
        own_grad, own_hess = pools.own_grad[t, q0:q1], pools.own_hess[t, q0:q1]
        for q in range(q1 - q0):
            grad[q] += own_grad[q]
            hess[q] += own_hess[q]


@bare
def subtract_columns(pools, packing, parent_wide, parent, small_wide, small, big_wide, big, c0, c1):
    """big = parent - small for columns c0..c1; each histogram packed or wide; big may take the parent's place."""
    never_inline()
    q0, q1 = c0 * PITCH, c1 * PITCH
    n = q1 - q0
    if not parent_wide:  # then all three are packed
        p, s, b = pools.packed[parent, q0:q1], pools.packed[small, q0:q1], pools.packed[big, q0:q1]
        for q in range(n):
            b[q] = p[q] - s[q]
        return
    pg, ph = pools.grad[parent, q0:q1], pools.hess[parent, q0:q1]
    if small_wide:  # small is not the larger one, so big is wide too
        sg, sh = pools.grad[small, q0:q1], pools.hess[small, q0:q1]
        bg, bh = pools.grad[big, q0:q1], pools.hess[big, q0:q1]
        for q in range(n):
            bg[q] = pg[q] - sg[q]
            bh[q] = ph[q] - sh[q]
        return
    s = pools.packed[small, q0:q1]
    if big_wide:
        bg, bh = pools.grad[big, q0:q1], pools.hess[big, q0:q1]
        for q in range(n):
            v = s[q]
            h = (v >> packing.hess_shift) & packing.hess_mask
            bg[q] = pg[q] - (v >> packing.grad_shift)
            bh[q] = ph[q] - ((h << packing.count_bits) + (v & packing.count_mask))
        return
    b = pools.packed[big, q0:q1]
    mask = (np.int64(1) << packing.count_bits) - np.int64(1)
    # with hess_shift 0 the count field is the hess field as well, and stands there once
    hess_field = np.int64(1) if packing.hess_shift > 0 else np.int64(0)
    for q in range(n):
        h = (ph[q] >> packing.count_bits) * hess_field
        b[q] = (pg[q] << packing.grad_shift) + (h << packing.hess_shift) + (ph[q] & mask) - s[q]


@device
def take_columns(given, packing, wide, slot, pools, c0, c1):
    """Copy a wide histogram, int64 (2, width * PITCH), into a slot, which may be packed, for columns c0..c1."""
    never_inline()
    q0, q1 = c0 * PITCH, c1 * PITCH
    given_grad, given_hess = given[0, q0:q1], given[1, q0:q1]
    if wide:
        grad, hess = pools.grad[slot, q0:q1], pools.hess[slot, q0:q1]
        for q in range(q1 - q0):
            grad[q] = given_grad[q]
            hess[q] = given_hess[q]
        return
    packed, mask = pools.packed[slot, q0:q1], (np.int64(1) << packing.count_bits) - np.int64(1)
    hess_field = np.int64(1) if packing.hess_shift > 0 else np.int64(0)  # see subtract_columns
    for q in range(q1 - q0):
        h = (given_hess[q] >> packing.count_bits) * hess_field
        packed[q] = (given_grad[q] << packing.grad_shift) + (h << packing.hess_shift) + (given_hess[q] & mask)


@merged
def padded(n_bins):
    """Entries of a column that are read as running sums: a multiple of 8, so that no vector loop has a remainder."""
    return (n_bins + 7) & -8


@device
def run_up(words, n_bins):
    """Replace a column's entries by running sums over its bins; the last entry becomes the sum of all, missing too."""
    total = np.int64(0)
    for b in range(n_bins):
        total += words[b]
        words[b] = total
    for b in range(n_bins, min(padded(n_bins), 255)):
        words[b] = total
    words[255] += total


@bare
def accumulate(pools, wide, slot, n_bins, c0, c1):
    """Turn the histogram in a slot into running sums, as the search wants it, for columns c0..c1.

    Done once for a histogram that was built from rows: the difference of running sums is the running sum of the
    differences, so the larger child's come with the subtraction. (Sums of packed words are packed sums.)
    """
    never_inline()
    for j in range(c0, min(c1, n_bins.shape[0])):
        if wide:
            run_up(pools.grad[slot, j * PITCH : j * PITCH + 256], n_bins[j])
            run_up(pools.hess[slot, j * PITCH : j * PITCH + 256], n_bins[j])
        else:
            run_up(pools.packed[slot, j * PITCH : j * PITCH + 256], n_bins[j])
