"""Growing one tree: every thread runs `grow` and meets the others at barriers (SPMD).

One split is: choose a node, divide its rows, build the histogram of the smaller child, subtract it from the
parent's for the larger one, search both for their best splits. The decisions are taken from integers that do not
depend on the number of threads, so every thread takes the same ones.

Growth orders are one rule each: "leafwise" splits the leaf with the largest improvement, "levelwise" the shallowest
leaf first and by improvement within a level. Symmetric trees are in symmetric.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.blocks import build_columns, build_share, sample_share
from stagewise.kernels.bundles import test_of
from stagewise.kernels.frontier import pop, push
from stagewise.kernels.histogram import (
    NO_ROOT,
    PITCH,
    Bins,
    accumulate,
    merge_columns,
    subtract_columns,
    take_columns,
    width_of,
)
from stagewise.kernels.jit import cycles, device, kernel, merged, piece
from stagewise.kernels.nodes import (
    GRAD,
    HESS,
    HOME,
    LEFT,
    SLOT,
    START,
    STOP,
    WHOLE,
    add_children,
    add_node,
    can_split,
    is_wide,
    smaller_child,
)
from stagewise.kernels.partition import (
    count_left,
    count_sides,
    divide,
    divide_backward,
    divide_sides,
    divide_sides_backward,
)
from stagewise.kernels.sample import NO_SAMPLE, Sample, copy_rows, fetch_codes
from stagewise.kernels.slots import assign_slots, give_slot, settle
from stagewise.kernels.split import (
    BIN,
    COLUMN,
    COUNT_LEFT,
    MISSING_LEFT,
    Limits,
    comes_first,
    improvement,
    noise,
    scan_columns,
    unpack,
)
from stagewise.kernels.subsets import fill_sides, scan_subsets
from stagewise.kernels.team import TURN, barrier, call_off, share

__all__ = ["Shape", "Work", "extras_of", "grow"]

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


class Shape(NamedTuple):
    """When a tree is full."""

    order: np.int64
    max_leaves: np.int64
    max_depth: np.int64
    keep: bool = False  # the leaves' histograms stay, see residuals.py


class Work(NamedTuple):
    """Room for a tree's growth, made once for a whole fit."""

    rows: np.ndarray  # uint32 (2, n_rows): row numbers; those of a node lie next to each other in line HOME
    words: np.ndarray  # int64 (n_rows): packed gradients
    more_words: np.ndarray  # int64 (n_rows or 1): hess words when they are not packed with the gradients
    gains: np.ndarray  # float64 (n_threads, 3, 256)
    found: np.ndarray  # int64 (n_threads, 2, 10): best splits by thread
    found_gain: np.ndarray  # float64 (n_threads, 8): their comparison values
    counts: np.ndarray  # int64 (n_threads, 8): rows that went left, by thread; in line 0 the next node to be split, and
    # how many nodes lost their histograms before they were split or became leaves
    levels: np.ndarray  # int64 (n_threads, 6, 256): sums of codes and their order, see subsets.py
    sides: np.ndarray  # uint8 (n_threads, 256): the side of each code
    free: np.ndarray  # int64 (2, slots + 1): stacks of free slots, packed and wide; the last entry is the height
    room: np.ndarray  # int64 (2): how many slots of either kind may be handed out; two more are for what is not kept
    heap: np.ndarray  # int64 (max_leaves + 1): leaves that can be split, the next one first
    gate: np.ndarray  # int64, see team.py
    labels: np.ndarray  # uint16, uint32 (n_rows): the leaf (node number) of each row of a grown tree, others are left
    # alone; empty: nobody wants to know
    clock: np.ndarray  # int64 (4): cycles that thread 0 spent on histograms, split search, dividing rows; and when
    # several threads give a tree up (0: never), see backends/pace.py
    root: np.ndarray = NO_ROOT  # int64 (2, width * PITCH): the root's wide histogram; empty: built from its rows
    sample: Sample = NO_SAMPLE


def extras_of(bins: Bins, limits: Limits, work: Work) -> bool | None:
    """What `grow` is told about what a fit needs beyond plain columns, all of them, and all rows."""
    some = len(bins.bundles.column) or limits.any_sets or len(work.sample.places)
    return True if some or limits.max_columns < len(limits.tree_columns) else None


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


# --- the steps of a split, all threads together ----------------------------------------------------------------------


@merged
def begin(nodes, index, n_rows, work, tid, n_threads):
    """Lay out the rows of `index` (all rows need not be) and clear the slots. True when called off."""
    k0, k1 = share(0, index.shape[0], tid, n_threads)
    own, given = work.rows[0, k0:k1], index[k0:k1]
    for k in range(k1 - k0):
        own[k] = given[k]
    if tid == 0:
        for kind in range(2):
            for k in range(work.room[kind]):
                work.free[kind, k] = k
            work.free[kind, work.free.shape[1] - 1] = work.room[kind]
        work.counts[0, 2] = 0
        add_node(nodes, np.int64(0), np.int64(0), n_rows, np.int64(0), np.int64(0), np.int64(0))
        if index.shape[0] == 0:
            nodes.state[0, HOME] = WHOLE
    return barrier(work.gate, n_threads)


@piece
def line_of(work, home):
    """The row numbers that a node's are part of; none for all rows."""
    return work.rows[home & 1, : 0 if home == WHOLE else work.rows.shape[1]]


@merged
def partition_node(bins, nodes, node, work, tid, n_threads, extras):
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
            off = fetch_codes(column, place, rows, s, e, e - s < _ALONE, work.sample, work.gate, tid, n_threads)
            column = work.sample.columns[place]
        if by_set:
            fill_sides(nodes.split[node], sides)
    middle = s + nodes.split[node, COUNT_LEFT]
    k0, k1, left, right = s, e, s, middle
    working = True
    if n_threads > 1 and not off:
        if e - s < _ALONE:
            working = tid == 0
        else:
            k0, k1 = share(s, e, tid, n_threads)
            if n_threads > 2:
                if extras is not None and by_set:
                    work.counts[tid, 0] = count_sides(column, sides, rows, k0, k1)
                else:
                    work.counts[tid, 0] = count_left(column, shift, bound, rows, k0, k1)
                off = barrier(work.gate, n_threads)
                for t in range(tid):
                    left += work.counts[t, 0]
                right = middle + (k0 - s) - (left - s)
            elif tid == 1:
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
    return barrier(work.gate, n_threads) or off


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
    """Histograms of children with so many rows that the threads share these. True when called off."""
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
def build_rest(bins, nodes, parent, small, big, do_small, do_big, work, packing, pools, tid, n_threads, c0, c1):
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
            if not shares_rows(bins, state, node, packing, n_threads):
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
def search(bins, nodes, parent, small, big, do_small, do_big, work, limits, packing, pools, tid, n_threads, extras):
    """Histograms of two nodes and this thread's part of the search for their best splits, some columns at a time: they
    are still in the cache when they are searched. True when called off."""
    state, since = nodes.state, cycles()
    off = build_shared(bins, nodes, parent, small, big, do_small, do_big, work, packing, pools, tid, n_threads, extras)
    c0, c1 = columns_of(width_of(bins), tid, n_threads)
    work.found_gain[tid, 0], work.found_gain[tid, 1] = -1.0, -1.0
    likely = nodes.split[parent, COLUMN] if parent >= 0 and bins.bundles.column.shape[0] == 0 else np.int64(-1)
    while c0 < c1 and not off:
        end = min(c0 + _COLUMNS, c1)
        build_rest(bins, nodes, parent, small, big, do_small, do_big, work, packing, pools, tid, n_threads, c0, end)
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
    return barrier(work.gate, n_threads) or off


@device
def keep_best(nodes, node, which, limits, packing, found, found_gain, n_threads):
    """The best of the threads' findings becomes the node's split; ties to the lowest column.

    Threads are compared by the value that columns are compared by: rounded once more, two could tie that do not.
    """
    G, H = nodes.state[node, GRAD], nodes.state[node, HESS]
    C = nodes.state[node, STOP] - nodes.state[node, START]
    best = 0
    for t in range(1, n_threads):
        if comes_first(found_gain[t, which], found[t, which], found_gain[best, which], found[best, which]):
            best = t
    value = found_gain[best, which]
    gain = improvement(value, G, H, limits, packing) if value > 0.0 else -1.0
    nodes.gain[node] = gain if gain > max(limits.min_gain, noise(G, H, C, packing)) else -1.0
    for k in range(nodes.split.shape[1]):
        nodes.split[node, k] = found[best, which, k]


@merged
def label_leaves(nodes, n_nodes, work, tid, n_threads):
    """Write each row's leaf into `labels`, if there is room for them."""
    k0, k1 = share(nodes.state[0, START], nodes.state[0, STOP], tid, n_threads)
    if n_nodes == 1 and nodes.state[0, HOME] == WHOLE:  # a root that stays alone: its rows are written down after all
        for k in range(k0, k1):
            work.rows[0, k] = k
    for node in range(n_nodes if work.labels.shape[0] > 0 else 0):
        if nodes.state[node, LEFT] < 0:
            s = max(k0, nodes.state[node, START])
            own = work.rows[nodes.state[node, HOME] & 1, s : max(s, min(k1, nodes.state[node, STOP]))]
            for k in range(own.shape[0]):
                work.labels[own[k]] = node


@kernel
def grow(tid, n_threads, bins, index, n_rows, packing, limits, shape, pools, work, nodes, extras):
    """Grow one tree on the rows of `index` (all n_rows when it is empty); the number of nodes, -1 when called off.

    extras: None where there are no bundles, no columns that are split by sets, no sample with codes of its own, and
    every split considers all columns of the tree. That is most fits, and a kernel of its own: what it does not need is
    not compiled into it.
    """
    state = nodes.state
    parent, small, big, n_nodes, waiting = np.int64(-1), np.int64(0), np.int64(0), np.int64(1), np.int64(0)
    if begin(nodes, index, n_rows, work, tid, n_threads):
        return -1
    do_big, full = bool(parent >= 0), shape.max_leaves < 2  # a plain False is a type of its own: helpers twice
    do_small = not full and can_split(state, small, limits.min_samples_leaf, shape.max_depth)
    while True:
        if do_small or do_big:
            if tid == 0:
                assign_slots(state, work.free, work.room, packing, parent, small, big, do_big)
            if barrier(work.gate, n_threads) or search(
                bins, nodes, parent, small, big, do_small, do_big, work, limits, packing, pools, tid, n_threads, extras
            ):
                return -1
        since = cycles()
        if tid == 0:
            if do_small or do_big:
                for which in range(1 if parent < 0 else 2):
                    node = big if which == 1 else small
                    keep_best(nodes, node, which, limits, packing, work.found, work.found_gain, n_threads)
                    settle(state, nodes.gain, node, packing, work.free, work.room, shape.keep)
                    work.counts[0, 2] += np.int64(state[node, SLOT] < 0)
                    if nodes.gain[node] > 0.0:
                        waiting = push(work.heap, waiting, node, nodes, shape.order)
            elif parent >= 0 and not shape.keep:
                give_slot(work.free, np.int64(is_wide(state, parent, packing)), state[parent, SLOT])
            work.counts[0, 1] = -1
            if not full and waiting > 0:
                work.counts[0, 1] = pop(work.heap, waiting, nodes, shape.order)
                waiting -= 1
        if barrier(work.gate, n_threads):
            return -1
        parent = work.counts[0, 1]
        since = tick(work.clock, SPLIT, since, tid)
        if parent < 0:
            break
        if tid == 0 and n_threads > 1 and 0 < work.clock[DEADLINE] < since:
            call_off(work.gate)
            return -1
        if partition_node(bins, nodes, parent, work, tid, n_threads, extras):
            return -1
        tick(work.clock, PARTITION, since, tid)
        if tid == 0:
            add_children(nodes, parent, n_nodes)
        if barrier(work.gate, n_threads):
            return -1
        n_nodes += 2
        full = n_nodes >= 2 * shape.max_leaves - 1
        small = smaller_child(state, parent)
        big = 2 * state[parent, LEFT] + 1 - small
        do_small = not full and can_split(state, small, limits.min_samples_leaf, shape.max_depth)
        do_big = not full and can_split(state, big, limits.min_samples_leaf, shape.max_depth)
    label_leaves(nodes, n_nodes, work, tid, n_threads)
    return n_nodes
