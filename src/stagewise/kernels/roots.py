"""The root histograms of the trees of several classes, in one pass over the rows.

The trees of a K-class stage begin with the same rows and the same codes; only the gradients differ. So the packed words
of a row for up to eight classes are laid side by side, an entry of the histogram holds as many words, and a code that
is read once adds all of them in vectors. The integers are those of `histogram.py`.

The entries of a column are 16 kB, and those of two columns at a time stay in the first-level cache; the words of a
block of rows stay in the second. With 200,000 x 50 values and 7 classes, two threads, Zen 4: 7.9 ms instead of 18.9.
(One vector of 512 bits takes a little longer than two of 256. Smaller blocks change nothing: it is the stores that
take the time, not the caches.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.blocks import flush
from stagewise.kernels.histogram import PITCH, clear
from stagewise.kernels.jit import add_four, device, kernel, never_inline, piece
from stagewise.kernels.team import barrier, share

__all__ = ["MOST_CLASSES", "RootRoom", "class_roots", "root_room"]

MOST_CLASSES = 8
"""Classes whose words are laid side by side: 64 bytes, a cache line and the widest vector there is."""

_BLOCK = 4095
"""Rows whose words, 256 kB, are read again and again for some columns; no more than a narrow word can add up."""

_STRETCH = 16 * _BLOCK
"""Rows whose words are laid side by side at once."""

_COLUMNS = 16
"""Columns whose wide sums, 32 kB each, are kept in the second-level cache."""

_CHUNK = 128
"""Rows that are laid class by class: their lines stay in the first-level cache meanwhile."""


class RootRoom(NamedTuple):
    """Room for `class_roots`."""

    lines: np.ndarray  # int64 (rows of a stretch * 8): the words of a row side by side
    codes: np.ndarray  # uint8 (n_threads, 2, _BLOCK): codes of a block of listed rows, for two columns
    packed: np.ndarray  # int64 (n_threads, 2, 2304): sums of a block for two columns, zero before and after
    sums: np.ndarray  # int64 (n_threads, 2, _COLUMNS, 2048): wide sums, grad and hess


def _aligned(*shape: int) -> np.ndarray:
    """Zeros that begin at a cache line: no vector then lies in two."""
    size = int(np.prod(shape))
    out = np.zeros(size + 8, np.int64)
    first = -out.ctypes.data % 64 // 8
    return out[first : first + size].reshape(shape)


def root_room(n_rows: int, n_threads: int) -> RootRoom:
    """Room for up to n_rows rows."""
    return RootRoom(
        lines=_aligned(min(n_rows, _STRETCH) * MOST_CLASSES),
        codes=np.empty((n_threads, 2, _BLOCK), np.uint8),
        packed=_aligned(n_threads, 2, 288 * MOST_CLASSES),  # columns of few codes do not share a set of the cache
        sums=_aligned(n_threads, 2, _COLUMNS, 256 * MOST_CLASSES),
    )


@piece
def lay_lines(words, rows, at, a, b, width, lines):
    """lines[(i - at) * width + k] = word of row i (of the list, if there is one) and class k, for i in a..b."""
    some = rows.shape[0] > 0
    for start in range(a, b, _CHUNK):
        stop = min(b, start + _CHUNK)
        for k in range(words.shape[0]):
            own, q = words[k], (start - at) * width + k
            for i in range(start, stop):
                lines[q] = own[rows[i] if some else i]
                q += width


@device
def gather_codes(column, rows, out):
    """out[i] = column[rows[i]]."""
    for i in range(rows.shape[0]):
        out[i] = column[rows[i]]


@device
def add_lines(codes, more_codes, lines, width, out, more_out):
    """out[code * width ...] += the line of each row, for two columns; lines begin with that of the first row."""
    never_inline()
    p, four = np.uint64(0), np.uint64(4)
    if width == 8:
        for i in range(codes.shape[0]):
            q, more_q = np.uint64(codes[i]) * np.uint64(8), np.uint64(more_codes[i]) * np.uint64(8)
            add_four(out, q, lines, p)
            add_four(out, q + four, lines, p + four)
            add_four(more_out, more_q, lines, p)
            add_four(more_out, more_q + four, lines, p + four)
            p += np.uint64(8)
    else:
        for i in range(codes.shape[0]):
            add_four(out, np.uint64(codes[i]) * four, lines, p)
            add_four(more_out, np.uint64(more_codes[i]) * four, lines, p)
            p += four


@device
def flush_column(packed, n_bins, width, packing, grad, hess):
    """Move a column's packed sums to its wide ones: those of its bins, and of missing values."""
    never_inline()
    for part in range(2):
        q0, q1 = (255 * width, 256 * width) if part == 1 else (0, n_bins * width)
        flush(packed[q0:q1], grad[q0:q1], hess[q0:q1], packing, False)


@device
def take_apart(sums, width, column, out):
    """Add the sums of a column, int64 (2, 2048), to each class's own histogram."""
    never_inline()
    for k in range(out.shape[0]):
        for part in range(2):
            own = out[k, part, column * PITCH : column * PITCH + 256]
            for b in range(256):
                own[b] += sums[part, b * width + k]


@kernel
def class_roots(tid, n_threads, gate, bins, rows, n_rows, words, packing, room, out):
    """out[k] = the wide histogram of the given rows (all n_rows when `rows` is empty) with the narrow words of class k.

    words: int64 (n_classes, rows of the table), at most 8 classes; out: int64 (n_classes, 2, width * PITCH), grad and
    hess words, of which those of padding columns are left alone. Threads divide the columns.
    """
    n_columns, width = bins.n_bins.shape[0], 4 if words.shape[0] <= 4 else 8
    pair, pair_end = share(0, (n_columns + 1) // 2, tid, n_threads)
    first, last = 2 * pair, min(2 * pair_end, n_columns)
    packed, sums, block = room.packed[tid], room.sums[tid], min(packing.block, np.int64(_BLOCK))
    for k in range(out.shape[0]):
        for part in range(2):
            clear(out[k, part, first * PITCH : last * PITCH])
    stretch = room.lines.shape[0] // MOST_CLASSES
    for at in range(0, n_rows, stretch):
        end = min(n_rows, at + stretch)
        k0, k1 = share(at, end, tid, n_threads)
        if barrier(gate, n_threads):  # the lines before are no longer read
            return
        lay_lines(words, rows, at, k0, k1, width, room.lines)
        if barrier(gate, n_threads):
            return
        for c in range(first, last, _COLUMNS):
            stop = min(c + _COLUMNS, last)
            for j in range(c, stop):
                clear(sums[0, j - c])
                clear(sums[1, j - c])
            for a in range(at, end, block):
                b = min(end, a + block)
                lines = room.lines[(a - at) * width : (b - at) * width]
                for j in range(c, stop, 2):
                    twin = min(j + 1, stop - 1)  # the last column may stand alone; then its second sum is forgotten
                    if rows.shape[0] > 0:
                        codes = room.codes[tid, :, : b - a]
                        gather_codes(bins.by_column[j], rows[a:b], codes[0])
                        gather_codes(bins.by_column[twin], rows[a:b], codes[1])
                        add_lines(codes[0], codes[1], lines, width, packed[0], packed[1])
                    else:
                        column, twin_column = bins.by_column[j, a:b], bins.by_column[twin, a:b]
                        add_lines(column, twin_column, lines, width, packed[0], packed[1])
                    flush_column(packed[0], bins.n_bins[j], width, packing, sums[0, j - c], sums[1, j - c])
                    if twin > j:
                        flush_column(packed[1], bins.n_bins[twin], width, packing, sums[0, twin - c], sums[1, twin - c])
                    else:
                        clear(packed[1])
            for j in range(c, stop):
                take_apart(sums[:, j - c], width, j, out)
