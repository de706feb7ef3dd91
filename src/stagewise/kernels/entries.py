"""The entries of a sparse matrix, column by column: cut points, bin codes, and which columns never meet in a row.

start (n_columns + 1), rows, values: the entries of column j are those from start[j] to start[j + 1], each with its row
number (int32). What is not stored is zero; with `empty` set it is missing, and so is a stored zero.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.binning import code_of, every_sixteenth
from stagewise.kernels.bundles import PLAIN
from stagewise.kernels.cuts import count_equal, ordered_bits, sort_digits, write_column
from stagewise.kernels.jit import atomic_add, device, kernel, trailing_zeros
from stagewise.kernels.team import share

__all__ = ["assign_bundles", "entry_codes", "entry_cuts", "fill_rows", "write_bundles"]

WORDS = 2
"""Words of marks a row has: 64 bundles each that are open at a time."""

_AT_ONCE = 16
"""Columns that a thread takes at a time."""


@device
def collect(rows, bits, weights, top, empty, keys, own):
    """Leave the keys of the entries that weigh something in `keys`, their weights in `own`; how many, and the sum."""
    n, weight = np.int64(0), np.int64(0)
    weighted = weights.shape[0] > 0
    for k in range(rows.shape[0]):
        w = weights[rows[k]] if weighted else np.int64(1)
        if w > 0:
            key = ordered_bits(np.uint64(bits[k]), top)
            if not (empty and key == top):
                keys[n], own[n] = key, w
                n += 1
                weight += w
    return n, weight


@device
def insert_zero(keys, counts, m, top, weight):
    """Enter the weight of what is not stored among m ascending distinct keys; their number then."""
    k = m
    while k > 0 and np.uint64(keys[k - 1]) > top:
        k -= 1
    if k > 0 and np.uint64(keys[k - 1]) == top:
        counts[k - 1] += weight
        return m
    for q in range(m, k, -1):
        keys[q], counts[q] = keys[q - 1], counts[q - 1]
    keys[k], counts[k] = top, weight
    return m + 1


@kernel(arrays=True)
def entry_cuts(
    tid, n_threads, gate, start, rows, bits, empty, sample, whole, totals, max_bins, keys, weights, order, counts,
    table, cuts, points, shares, found, looked,
):  # fmt: skip
    """As `cuts.matrix_cuts`, for the columns of entries: the same figures as from the dense matrix.

    sample, whole: integer weights by row, of the rows that are looked at first (0: not looked at) and of all rows;
    empty for 1 each. totals: their sums. A column with at most max_bins distinct values in a sample (totals differ) is
    looked at again, on all rows: looked[j] = 1. Scratch of every thread: keys (2, n + 1), weights (n), order (2, n),
    counts (n + 1), table (6, DIGITS), with n the most entries of a column.
    """
    n_columns, narrow = found.shape[0], bits.itemsize == 4
    top, digits = (np.uint64(1 << 31), 3) if narrow else (np.uint64(1 << 63), 6)
    largest = top | (top - np.uint64(1))
    last, none = np.empty(256, np.int64), np.empty(0, np.int64)
    own_keys, own_weights, own_order, own_counts = keys[tid], weights[tid], order[tid], counts[tid]
    while True:
        j0 = _AT_ONCE * atomic_add(gate, 0, 1)  # this kernel has no barrier: the arrivals word counts columns
        if j0 >= n_columns:
            break
        for j in range(j0, min(j0 + _AT_ONCE, n_columns)):
            s, e = start[j], start[j + 1]
            for look in range(2 if totals[0] != totals[1] else 1):
                by_row = sample if look == 0 else whole
                n, weight = collect(rows[s:e], bits[s:e], by_row, top, empty, own_keys[0], own_weights)
                own, same = own_keys[0, :n], True
                for k in range(1, n):
                    same &= own[k] == own[0]
                places, moved_places = (own_order[0, :n], own_order[1, :n]) if by_row.shape[0] > 0 else (none, none)
                for k in range(places.shape[0]):
                    places[k] = k
                if not same:
                    sort_digits(own, own_keys[1, :n], places, moved_places, digits, table[tid])
                m = count_equal(own, own_weights[: places.shape[0]], places, largest, own_counts)
                if not empty and totals[look] > weight:
                    m = insert_zero(own_keys[0], own_counts, m, top, totals[look] - weight)
                found[j], looked[j] = m, look
                if m > max_bins:
                    break
            write_column(own_keys[0], own_counts, found[j], max_bins, top, last, cuts[j], points[j], shares[j])


@kernel(arrays=True)
def entry_codes(tid, n_threads, start, values, cut_start, cuts, empty, out, zero):
    """out[k] = the bin code of entry k, zero[j] = the code of what is not stored in column j.

    cuts: those of column j are cuts[cut_start[j] : cut_start[j + 1]].
    """
    j0, j1 = share(0, zero.shape[0], tid, n_threads)
    own, coarse = np.full(256, np.inf), np.empty(16)
    for j in range(j0, j1):
        n = cut_start[j + 1] - cut_start[j]
        for k in range(n):
            own[k] = cuts[cut_start[j] + k]
        every_sixteenth(own, coarse)
        zero[j] = 255 if empty else code_of(0.0, coarse, own)
        for k in range(start[j], start[j + 1]):
            v = np.float64(values[k])
            out[k] = 255 if empty and v == 0.0 else code_of(v, coarse, own)
        for k in range(n):
            own[k] = np.inf


@kernel(arrays=True)
def assign_bundles(start, rows, codes, default, size, order, most, marks, out):
    """out[j] = the number of the bundle that column j joins, from 0 on; how many there are.

    Columns come in the given order. One joins the bundle of the column before it, else the oldest open one, in which at
    most `most` rows in all are off their default twice, and which has room for its `size` codes (254 in all); a
    column of more codes, or of size -1, stays alone. marks: zeros (n_rows, WORDS), scratch; bit q of a row is set when
    bundle q of those open has it. A bundle without a code left is closed, and so is one without a row left when no row
    may be off twice.
    """
    n_rows, slots = marks.shape[0], 64 * marks.shape[1]
    name, codes_left = np.full(slots, -1, np.int64), np.zeros(slots, np.int64)
    rows_left, spent, meets = np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    members = np.full(order.shape[0], -1, np.int64)  # the column that joined the same bundle before; chains from `tail`
    tail = np.full(slots, -1, np.int64)
    n, last = np.int64(0), np.int64(-1)
    for j in order:
        if size[j] < 0 or size[j] > 254:
            out[j] = n
            n += 1
            continue
        meets[:] = 0
        count = np.int64(0)
        for k in range(start[j], start[j + 1]):
            if codes[k] != default[j]:
                count += 1
                for w in range(marks.shape[1]):
                    bits = marks[rows[k], w]
                    while bits != np.uint64(0):
                        meets[64 * w + np.int64(trailing_zeros(bits))] += 1
                        bits &= bits - np.uint64(1)
        chosen = np.int64(-1)
        for q in range(slots):
            fits = name[q] >= 0 and size[j] <= codes_left[q] and spent[q] + meets[q] <= most
            if fits and (q == last or chosen < 0 or (chosen != last and name[q] < name[chosen])):
                chosen = np.int64(q)
        if chosen < 0:
            chosen = np.int64(0)  # a free slot, else the one with the least room
            for q in range(slots):
                if name[chosen] >= 0 and (name[q] < 0 or codes_left[q] < codes_left[chosen]):
                    chosen = np.int64(q)
            close_bundle(chosen, start, rows, members, tail, marks)
            name[chosen], codes_left[chosen], rows_left[chosen], spent[chosen] = n, 254, n_rows, 0
            meets[chosen] = 0
            n += 1
        out[j], last = name[chosen], chosen
        members[j], tail[chosen] = tail[chosen], j
        codes_left[chosen] -= size[j]
        spent[chosen] += meets[chosen]
        rows_left[chosen] -= count - meets[chosen]
        if codes_left[chosen] == 0 or (most == 0 and rows_left[chosen] == 0):
            close_bundle(chosen, start, rows, members, tail, marks)
            name[chosen] = -1
            continue
        bit = np.uint64(1) << np.uint64(chosen & 63)
        for k in range(start[j], start[j + 1]):
            if codes[k] != default[j]:
                marks[rows[k], chosen >> 6] |= bit
    return n


@device
def close_bundle(slot, start, rows, members, tail, marks):
    """Take a bundle's marks away."""
    keep = ~(np.uint64(1) << np.uint64(slot & 63))
    j = tail[slot]
    while j >= 0:
        for k in range(start[j], start[j + 1]):
            marks[rows[k], slot >> 6] &= keep
        j = members[j]
    tail[slot] = -1


@kernel
def write_bundles(tid, n_threads, gate, bundles, start, rows, codes, default, out):
    """out[c, row] = the code of physical column c. Where members meet in a row, the one of the lowest number stands."""
    while True:
        c = atomic_add(gate, 0, 1)
        if c >= out.shape[0]:
            break
        target = out[c]
        plain = bundles.kind[c] == PLAIN
        fill = np.int64(default[bundles.member[bundles.start[c]]]) if plain else bundles.base[c]
        for i in range(target.shape[0]):
            target[i] = fill
        for m in range(bundles.start[c], bundles.start[c + 1]):
            j = bundles.member[m]
            lo, d, n = bundles.first[j], bundles.default[j], bundles.n_bins[j]
            for k in range(start[j], start[j + 1]):
                code = np.int64(codes[k])
                if plain:
                    target[rows[k]] = code
                elif code != default[j] and target[rows[k]] == fill:
                    target[rows[k]] = lo + (n - 1 if code == 255 else code - np.int64(code > d))


@kernel
def fill_rows(tid, n_threads, start, columns, values, to, empty, first, out):
    """Lay out rows of a matrix that is sparse by row: out[r, to[column]] = value, for row first + r; the rest 0 or NaN.

    to[column] is -1 for columns that are not wanted.
    """
    r0, r1 = share(0, out.shape[0], tid, n_threads)
    nothing = np.nan if empty else 0.0
    for r in range(r0, r1):
        for c in range(out.shape[1]):
            out[r, c] = nothing
        for k in range(start[first + r], start[first + r + 1]):
            place = to[columns[k]]
            if place >= 0:
                v = values[k]
                out[r, place] = nothing if v == 0.0 else v
