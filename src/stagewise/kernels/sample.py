"""The codes of the rows of a sample, as growth wants them.

Growth visits every row several times, and in a table of which it looks at three rows of ten most of what a cache line
brings along is of no use. So the codes of the rows drawn are copied into a table of their own, row by row, for
histograms; that of the root is built on the way, from copies that are still in the cache. Rows are
divided by few of the columns (workload A: by 7 of 28), so these are fetched when a node asks for one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.jit import device, never_inline, prefetch
from stagewise.kernels.lanes import COMPRESSES_BYTES, count_ones, store_bytes
from stagewise.kernels.team import barrier, share

__all__ = ["NO_SAMPLE", "Sample"]

_WHOLE, _WHOLE_BYTES = 4, 32
"""A node with at least one row of so many fetches the column for all rows: others will ask for it too."""

_AHEAD = 32
"""Rows between a prefetch and its use."""


class Sample(NamedTuple):
    """Rows of a table that are numbered anew: growth knows them as 0, 1, 2 ..."""

    places: np.ndarray  # uint32 (n): their numbers in the table; empty: growth sees the table itself
    codes: np.ndarray  # uint32: the table's codes, row by row, four in a word
    by_row: np.ndarray  # uint32: room for theirs, the bins that growth is given
    columns: np.ndarray  # uint8 (n_columns, n): room for their codes, column by column
    ready: np.ndarray  # uint8 (n_columns + 1): whether a column is there; the last entry: whether by_row is
    bits: np.ndarray  # uint64: a bit for each row of the table, whether it is one of these; empty: not known


NO_SAMPLE = Sample(
    places=np.empty(0, np.uint32),
    codes=np.empty(0, np.uint32),
    by_row=np.empty(0, np.uint32),
    columns=np.empty((0, 0), np.uint8),
    ready=np.empty(0, np.uint8),
    bits=np.empty(0, np.uint64),
)


@device
def copy_rows(sample, fours, start, stop):
    """Copy the codes of rows start..stop, `fours` words each."""
    never_inline()
    one, width, last = np.uint64(1), np.uint64(fours), np.uint64(sample.places.shape[0] - 1)
    k, end = np.uint64(start), np.uint64(stop)
    to = k * width
    while k < end:
        p = np.uint64(sample.places[min(k + np.uint64(_AHEAD), last)]) * width
        prefetch(sample.codes, p)
        prefetch(sample.codes, p + width - one)
        p = np.uint64(sample.places[k]) * width
        for _ in range(fours >> 2):  # one instruction: all are read before the first is written
            a, b = sample.codes[p], sample.codes[p + one]
            c, d = sample.codes[p + np.uint64(2)], sample.codes[p + np.uint64(3)]
            sample.by_row[to], sample.by_row[to + one] = a, b
            sample.by_row[to + np.uint64(2)], sample.by_row[to + np.uint64(3)] = c, d
            p += np.uint64(4)
            to += np.uint64(4)
        for _ in range(fours & 3):
            sample.by_row[to] = sample.codes[p]
            p += one
            to += one
        k += one


if COMPRESSES_BYTES:

    @device
    def fetch_bytes(column, sample, out, tid, n_threads):
        """`fetch_all`, 64 rows of the table at a time: a tenth of the time."""
        never_inline()
        w0, w1 = share(0, sample.bits.shape[0], tid, n_threads)
        first, last = 0, sample.places.shape[0]  # of the rows from 64 * w0 on
        while first < last:
            middle = (first + last) // 2
            if np.int64(sample.places[middle]) < 64 * w0:
                first = middle + 1
            else:
                last = middle
        place = np.uint64(first)
        for w in range(w0, w1):
            mask = sample.bits[w]
            store_bytes(column, np.uint64(64) * np.uint64(w), mask, out, place)
            place += count_ones(mask)

else:

    @device
    def fetch_bytes(column, sample, out, tid, n_threads):
        """Never called: `bits` is empty."""


@device
def fetch_all(column, sample, out, tid, n_threads):
    """This thread's part of out[k] = column[places[k]], for all rows of the sample."""
    if sample.bits.shape[0] > 0:
        fetch_bytes(column, sample, out, tid, n_threads)
        return
    k0, k1 = share(0, sample.places.shape[0], tid, n_threads)
    places, own = sample.places[k0:k1], out[k0:k1]
    for k in range(k1 - k0):
        own[k] = column[places[k]]


@device
def fetch_codes(column, place, rows, s, e, alone, beside, sample, gate, tid, n_threads):
    """See to it that sample.columns[place] has the codes of rows[s:e]; column: the table's own. True when called off.

    Each thread fetches those rows that it will divide, so nobody waits; or its part of all rows, and then all wait.
    beside: other threads may be at other nodes and this column. Whoever fetches all of it writes what is there already;
    but that it is there may be seen before it is, except on the processors that have `bits`.
    """
    never_inline()
    if sample.ready[place] != 0:
        return False
    n, out = sample.places.shape[0], sample.columns[place]
    plain = sample.bits.shape[0] == 0
    many = (_WHOLE if plain else _WHOLE_BYTES) * (e - s) >= n
    if rows.shape[0] == 0 or (many and not (beside and plain)):
        fetch_all(column, sample, out, tid, n_threads)
        off = barrier(gate, n_threads)
        if tid == 0 and not off:
            sample.ready[place] = 1
        return off
    if n_threads > 1 and not alone:
        s, e = share(s, e, tid, n_threads)
    elif tid > 0:
        return False
    own = rows[s:e]
    for k in range(e - s):
        out[own[k]] = column[sample.places[own[k]]]
    return False
