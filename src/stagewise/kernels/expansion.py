"""One split: a node's rows are divided, the children get their histograms, and both are searched for their best splits.

The threads of a crew do this together and meet at barriers; each has its seat in the crew, and room of its own by its
number `tid` in the team. A crew is all threads, or one that expands a node by itself (ahead.py).
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.blocks import build_columns, build_share, sample_share
from stagewise.kernels.bundles import test_of
from stagewise.kernels.histogram import (
    PITCH,
    accumulate,
    merge_columns,
    subtract_columns,
    take_columns,
    width_of,
)
from stagewise.kernels.jit import cycles, device, merged, piece
from stagewise.kernels.nodes import GRAD, HESS, HOME, SLOT, START, STOP, WHOLE, is_wide
from stagewise.kernels.partition import (
    count_left,
    count_sides,
    divide,
    divide_backward,
    divide_sides,
    divide_sides_backward,
)
from stagewise.kernels.sample import copy_rows, fetch_codes
from stagewise.kernels.split import (
    BIN,
    COLUMN,
    COUNT_LEFT,
    MISSING_LEFT,
    comes_first,
    improvement,
    noise,
    scan_columns,
    unpack,
)
from stagewise.kernels.subsets import fill_sides, scan_subsets
from stagewise.kernels.team import TURN, barrier, share

__all__ = [
    "DEADLINE",
    "HISTOGRAM",
    "PARTITION",
    "SPLIT",
    "build_rest",
    "build_shared",
    "columns_of",
    "keep_best",
    "line_of",
    "partition_node",
    "search",
    "tick",
    "totals_of",
]

HISTOGRAM, SPLIT, PARTITION, DEADLINE = range(4)  # entries of Work.clock

_ALONE = 2048
"""Rows under which one thread divides a node's rows while the others wait: sharing would cost more than it saves."""


_COLUMNS = 64
"""Columns whose histograms are built and searched together: those of a node and its children fit into a second-level
cache. With 1,000 columns at once the histograms alone took 2.6 times as long as they should."""

_WIDE_TABLE, _WIDE_PART = 256, 32
"""Columns, and columns for each thread, from which on threads divide the columns even of large nodes: their own copies
would not fit into a cache. (Two threads, a node of 32,000 rows: with 50 columns 0.53 ms when they divide the rows and
0.60 when they divide the columns, with 64 columns 0.87 and 0.84, with 100 columns 1.38 and 0.98.)"""


@merged
def tick(clock, phase, since, tid):
    """Book the time since `since` on a phase (thread 0); the time now."""
    now = cycles()
    if tid == 0:
        clock[phase] += now - since
    return now


@merged
def columns_of(width, tid, n_threads):
    """This thread's columns, in steps of four as histograms are built."""
    fours = width // 4
    return 4 * (fours * tid // n_threads), 4 * (fours * (tid + 1) // n_threads)


@piece
def line_of(work, home):
    """The row numbers that a node's are part of; none for all rows."""
    return work.rows[home & 1, : 0 if home == WHOLE else work.rows.shape[1]]


@merged
def partition_node(bins, nodes, node, work, seat, crew, tid, extras):
    """Divide a node's rows by its split. True when called off."""
    s, e, home = nodes.state[node, START], nodes.state[node, STOP], nodes.state[node, HOME]
    rows, to = line_of(work, home), work.rows[1 - (home & 1)]
    place, cut = nodes.split[node, COLUMN], nodes.split[node, BIN]
    shift = np.uint8(nodes.split[node, MISSING_LEFT] == 1)
    bound, off, by_set, sides = np.uint8(cut + shift), False, False, work.sides[tid]
    if extras is not None:
        place, shift, bound = test_of(bins.bundles, place, cut, shift == 1)
        by_set = cut < 0
    column = bins.by_column[place]
    if extras is not None:
        if work.sample.places.shape[0] > 0:
            beside = crew < work.counts.shape[0]
            off = fetch_codes(column, place, rows, s, e, e - s < _ALONE, beside, work.sample, work.gate, seat, crew)
            column = work.sample.columns[place]
        if by_set:
            fill_sides(nodes.split[node], sides)
    middle = s + nodes.split[node, COUNT_LEFT]
    k0, k1, left, right = s, e, s, middle
    working = True
    if crew > 1 and not off:
        if e - s < _ALONE:
            working = seat == 0
        else:
            k0, k1 = share(s, e, seat, crew)
            if crew > 2:
                if extras is not None and by_set:
                    work.counts[seat, 0] = count_sides(column, sides, rows, k0, k1)
                else:
                    work.counts[seat, 0] = count_left(column, shift, bound, rows, k0, k1)
                off = barrier(work.gate, crew)
                for t in range(seat):
                    left += work.counts[t, 0]
                right = middle + (k0 - s) - (left - s)
            elif seat == 1:
                working = False
                if extras is not None and by_set:
                    divide_sides_backward(column, sides, rows, k0, k1, to, middle, e)
                else:
                    divide_backward(column, shift, bound, rows, k0, k1, to, middle, e)
    if working and not off:
        if extras is not None and by_set:
            divide_sides(column, sides, rows, k0, k1, to, left, right)
        else:
            divide(column, shift, bound, rows, k0, k1, to, left, right)
    return barrier(work.gate, crew) or off


@merged
def shares_rows(bins, state, node, packing, n_threads):
    """Whether the threads divide a node's rows among them for its histogram; otherwise they divide the columns."""
    narrow = width_of(bins) < min(_WIDE_TABLE, _WIDE_PART * n_threads)
    return n_threads > 1 and narrow and state[node, STOP] - state[node, START] > packing.block


@merged
def is_built(state, parent, which, do_small, do_big):
    """Whether the smaller (which = 0) or larger child's histogram is built from its rows, and not by subtraction."""
    subtracting = do_big and state[parent, SLOT] >= 0
    return (do_big and not subtracting) if which == 1 else (do_small or subtracting)


@merged
def build_shared(bins, nodes, parent, small, big, do_small, do_big, work, packing, pools, tid, n_threads, extras):
    """Histograms of children with so many rows that the threads share these. True when called off.

    Turns (see `next_turn`) begin at 0, and nobody reads the threads' own histograms any more."""
    state, off, sample = nodes.state, False, work.sample
    if parent < 0 and work.root.shape[0] > 0:
        return False
    c0, c1 = columns_of(width_of(bins), tid, n_threads)
    fours, last = bins.stride >> 2, sample.ready.shape[0] - 1
    fresh = parent < 0 and last >= 0 and sample.ready[last] == 0
    if extras is not None and fresh:
        fresh = packing.narrow and shares_rows(bins, state, small, packing, n_threads)
        if not fresh:
            k0, k1 = share(0, sample.places.shape[0], tid, n_threads)
            copy_rows(sample, fours, k0, k1)
            off = barrier(work.gate, n_threads)
    for which in range(2):
        node = big if which == 1 else small
        if is_built(state, parent, which, do_small, do_big) and shares_rows(bins, state, node, packing, n_threads):
            if which == 1:
                if tid == 0:
                    work.gate[TURN] = 0
                off = off or barrier(work.gate, n_threads)  # the threads' own histograms are no longer read
            if not off:
                s, e, rows, gate = state[node, START], state[node, STOP], line_of(work, state[node, HOME]), work.gate
                if extras is not None and fresh:
                    sample_share(sample, bins, work.words, fours, s, e, packing, pools, gate, tid)
                else:
                    build_share(bins, work.words, work.more_words, rows, s, e, packing, pools, gate, tid, n_threads)
                off = barrier(work.gate, n_threads)
                merge_columns(pools, state[node, SLOT], n_threads, c0, c1)
                accumulate(pools, True, state[node, SLOT], bins.n_bins, c0, c1)
    if tid == 0 and last >= 0 and not off:
        sample.ready[last] = 1
    return off


@merged
def build_rest(bins, nodes, parent, small, big, do_small, do_big, work, packing, pools, crew, tid, c0, c1):
    """The other histograms for columns c0..c1: the smaller child's from its rows, the larger one's by subtraction."""
    state = nodes.state
    if parent < 0 and work.root.shape[0] > 0:
        wide, slot = is_wide(state, small, packing), state[small, SLOT]
        take_columns(work.root, packing, wide, slot, pools, c0, c1)
        accumulate(pools, wide, slot, bins.n_bins, c0, c1)
        return
    for which in range(2):
        node = big if which == 1 else small
        slot, wide = state[node, SLOT], is_wide(state, node, packing)
        if is_built(state, parent, which, do_small, do_big):
            if not shares_rows(bins, state, node, packing, crew):
                s, e, rows = state[node, START], state[node, STOP], line_of(work, state[node, HOME])
                build_columns(bins, work.words, work.more_words, rows, s, e, c0, c1, packing, wide, slot, pools, tid)
                accumulate(pools, wide, slot, bins.n_bins, c0, c1)
        elif which == 1 and do_big:
            subtract_columns(
                pools, packing, is_wide(state, parent, packing), state[parent, SLOT],
                is_wide(state, small, packing), state[small, SLOT], wide, slot, c0, c1,
            )  # fmt: skip


@device
def totals_of(pools, wide, slot, column, packing):
    """(grad, hess) of a whole node, from any column of its histogram: every row is in one of its bins."""
    q = column * PITCH + 255
    first = pools.grad[slot, q] if wide else pools.packed[slot, q]
    g, h, _ = unpack(wide, first, pools.hess[slot, q] if wide else np.int64(0), packing)
    return g, h


@merged
def search(
    bins, nodes, parent, small, big, do_small, do_big, work, limits, packing, pools, seat, crew, tid, extras
):  # fmt: skip
    """Histograms of two nodes and this thread's part of the search for their best splits, some columns at a time: they
    are still in the cache when they are searched. True when called off."""
    state, since = nodes.state, cycles()
    off = build_shared(bins, nodes, parent, small, big, do_small, do_big, work, packing, pools, seat, crew, extras)
    c0, c1 = columns_of(width_of(bins), seat, crew)
    work.found_gain[tid, 0], work.found_gain[tid, 1] = -1.0, -1.0
    likely = nodes.split[parent, COLUMN] if parent >= 0 and bins.bundles.column.shape[0] == 0 else np.int64(-1)
    while c0 < c1 and not off:
        end = min(c0 + _COLUMNS, c1)
        build_rest(bins, nodes, parent, small, big, do_small, do_big, work, packing, pools, crew, tid, c0, end)
        since = tick(work.clock, HISTOGRAM, since, tid)
        for which in range(2):
            node = big if which == 1 else small
            if do_big if which == 1 else do_small:
                g, h, wide, slot = (
                    state[node, GRAD],
                    state[node, HESS],
                    is_wide(state, node, packing),
                    state[node, SLOT],
                )
                if parent < 0:
                    g, h = totals_of(pools, wide, slot, c0, packing)
                    if c0 == 0:
                        state[node, GRAD], state[node, HESS] = g, h
                work.found_gain[tid, which] = scan_columns(
                    pools, wide, slot, c0, end, bins, node, likely, g, h, state[node, STOP] - state[node, START],
                    limits, packing, work.gains[tid, 0], work.levels[tid], work.found_gain[tid, which],
                    work.found[tid, which], extras,
                )  # fmt: skip
                if extras is not None and limits.any_sets:
                    work.found_gain[tid, which] = scan_subsets(
                        pools, wide, slot, c0, end, bins.n_bins, node, g, h, state[node, STOP] - state[node, START],
                        limits, packing, work.gains[tid, 0], work.levels[tid], work.found_gain[tid, which],
                        work.found[tid, which],
                    )  # fmt: skip
        since = tick(work.clock, SPLIT, since, tid)
        c0 = end
    return barrier(work.gate, crew) or off


@device
def keep_best(nodes, node, which, limits, packing, found, found_gain, first, crew):
    """The best of what the threads first.. of a crew found becomes the node's split; ties to the lowest column.

    Threads are compared by the value that columns are compared by: rounded once more, two could tie that do not.
    """
    G, H = nodes.state[node, GRAD], nodes.state[node, HESS]
    C = nodes.state[node, STOP] - nodes.state[node, START]
    best = first
    for t in range(first + 1, first + crew):
        if comes_first(found_gain[t, which], found[t, which], found_gain[best, which], found[best, which]):
            best = t
    value = found_gain[best, which]
    gain = improvement(value, G, H, limits, packing) if value > 0.0 else -1.0
    nodes.gain[node] = gain if gain > max(limits.min_gain, noise(G, H, C, packing)) else -1.0
    for k in range(nodes.split.shape[1]):
        nodes.split[node, k] = found[best, which, k]
