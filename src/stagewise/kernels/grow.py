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

from stagewise.kernels.histogram import build_columns, build_share, merge_columns, subtract_columns
from stagewise.kernels.jit import cycles, device, kernel
from stagewise.kernels.partition import collect_sides, divide
from stagewise.kernels.split import BIN, COLUMN, GRAD_LEFT, HESS_LEFT, MISSING_LEFT, scan_columns
from stagewise.kernels.team import barrier, share

__all__ = ["LEAFWISE", "LEVELWISE", "Nodes", "Shape", "Work", "grow"]

LEAFWISE, LEVELWISE = 0, 1

# columns of Nodes.state (int64)
START, STOP, DEPTH, SLOT, GRAD, HESS, LEFT, RIGHT = range(8)

HISTOGRAM, SPLIT, PARTITION = range(3)  # entries of Work.clock

_ALONE = 2048
"""Rows under which one thread divides a node's rows while the others wait: sharing would cost more than it saves."""


class Shape(NamedTuple):
    """When a tree is full."""

    order: np.int64
    max_leaves: np.int64
    max_depth: np.int64


class Nodes(NamedTuple):
    """A tree while it grows; node 0 is the root. A leaf has LEFT = -1."""

    state: np.ndarray  # int64 (max_nodes, 8)
    split: np.ndarray  # int64 (max_nodes, 6): the best split found, see split.py
    gain: np.ndarray  # float64 (max_nodes): its improvement, relative units; not positive when there is none


class Work(NamedTuple):
    """Room for a tree's growth, made once for a whole fit."""

    rows: np.ndarray  # uint32 (n_rows): row numbers, the rows of a node next to each other
    spare: np.ndarray  # uint32 (n_rows)
    words: np.ndarray  # int64 (n_rows): packed gradients
    more_words: np.ndarray  # int64 (n_rows or 1): hess words when they are not packed with the gradients
    sums: np.ndarray  # int64 (n_threads, 6, 256)
    gains: np.ndarray  # float64 (n_threads, 3, 256)
    found: np.ndarray  # int64 (n_threads, 2, 6): best splits by thread
    found_gain: np.ndarray  # float64 (n_threads, 8)
    counts: np.ndarray  # int64 (n_threads, 8): rows that went left, by thread
    free: np.ndarray  # int64 (2, slots + 1): stacks of free slots, packed and wide; the last entry is the height
    room: np.ndarray  # int64 (2): how many slots of either kind may be handed out; two more are for what is not kept
    gate: np.ndarray  # int64, see team.py
    clock: np.ndarray  # int64 (4): cycles that thread 0 spent on histograms, on split search, on dividing rows


@device
def tick(clock, phase, since, tid):  # type: ignore[no-untyped-def]
    """Book the time since `since` on a phase (thread 0); the time now."""
    now = cycles()
    if tid == 0:
        clock[phase] += now - since
    return now


@device
def columns_of(stride, tid, n_threads):  # type: ignore[no-untyped-def]
    """This thread's columns, in steps of four as histograms are built."""
    fours = stride // 4
    return 4 * (fours * tid // n_threads), 4 * (fours * (tid + 1) // n_threads)


@device
def take_slot(free, kind):  # type: ignore[no-untyped-def]
    """A free slot, or -1 when all are taken: then the histogram is dropped and built again when it is needed."""
    top = free.shape[1] - 1
    if free[kind, top] == 0:
        return np.int64(-1)
    free[kind, top] -= 1
    return free[kind, free[kind, top]]


@device
def give_slot(free, kind, slot):  # type: ignore[no-untyped-def]
    if slot >= 0:
        top = free.shape[1] - 1
        free[kind, free[kind, top]] = slot
        free[kind, top] += 1


@device
def is_wide(nodes, node, packing):  # type: ignore[no-untyped-def]
    return (not packing.narrow) or nodes.state[node, STOP] - nodes.state[node, START] > packing.block


@device
def partition_node(bins, nodes, node, work, tid, n_threads):  # type: ignore[no-untyped-def]
    """Divide a node's rows by its split, all threads together; (rows that went left, called off)."""
    s, e = nodes.state[node, START], nodes.state[node, STOP]
    column = bins.by_column[nodes.split[node, COLUMN]]
    cut, missing_left = nodes.split[node, BIN], nodes.split[node, MISSING_LEFT] == 1
    k0, k1 = share(s, e, tid, n_threads)
    if e - s < _ALONE:
        k0, k1 = (s, e) if tid == 0 else (e, e)
    work.counts[tid, 0] = divide(column, cut, missing_left, work.rows, work.spare, k0, k1)
    if barrier(work.gate, n_threads):
        return np.int64(0), True
    total, before = np.int64(0), np.int64(0)
    for t in range(n_threads):
        total += work.counts[t, 0]
        before += work.counts[t, 0] if t < tid else 0
    right_before = (k0 - s) - before
    if tid > 0 and e - s < _ALONE:
        right_before = 0
    collect_sides(work.rows, work.spare, k0, k1, work.counts[tid, 0], s + before, s + total + right_before)
    return total, barrier(work.gate, n_threads)


@device
def add_child(nodes, child, start, stop, depth, grad, hess):  # type: ignore[no-untyped-def]
    state = nodes.state
    state[child, START], state[child, STOP], state[child, DEPTH] = start, stop, depth
    state[child, SLOT], state[child, GRAD], state[child, HESS] = -1, grad, hess
    state[child, LEFT], state[child, RIGHT] = -1, -1
    nodes.gain[child] = -1.0


@device
def add_children(nodes, node, left, n_left):  # type: ignore[no-untyped-def]
    """Write the records of both children (one thread does this)."""
    state, split = nodes.state, nodes.split
    s, e, depth = state[node, START], state[node, STOP], state[node, DEPTH] + 1
    g, h = split[node, GRAD_LEFT], split[node, HESS_LEFT]
    add_child(nodes, left, s, s + n_left, depth, g, h)
    add_child(nodes, left + 1, s + n_left, e, depth, state[node, GRAD] - g, state[node, HESS] - h)
    state[node, LEFT], state[node, RIGHT] = left, left + 1


@device
def can_split(nodes, node, limits, shape):  # type: ignore[no-untyped-def]
    """Whether a search for a split makes sense at all."""
    rows = nodes.state[node, STOP] - nodes.state[node, START]
    return nodes.state[node, DEPTH] < shape.max_depth and rows >= 2 * limits.min_samples_leaf and rows > 1


@device
def build(bins, nodes, node, slot, wide, work, packing, pools, tid, n_threads):  # type: ignore[no-untyped-def]
    """A node's histogram, all threads together: rows shared when there are many, columns shared otherwise.

    Afterwards each thread may read its own columns. True when called off.
    """
    s, e = nodes.state[node, START], nodes.state[node, STOP]
    c0, c1 = columns_of(bins.stride, tid, n_threads)
    if n_threads == 1 or e - s <= packing.block:
        build_columns(bins, work.words, work.more_words, work.rows, s, e, c0, c1, packing, wide, slot, pools, tid)
        return False
    k0, k1 = share(s, e, tid, n_threads)
    build_share(bins, work.words, work.more_words, work.rows, k0, k1, packing, pools, tid)
    if barrier(work.gate, n_threads):
        return True
    merge_columns(pools, slot, n_threads, c0, c1)
    return False


@device
def search(bins, nodes, node, which, limits, packing, pools, work, tid, n_threads):  # type: ignore[no-untyped-def]
    """This thread's part of the search for a node's best split."""
    c0, c1 = columns_of(bins.stride, tid, n_threads)
    state = nodes.state
    rows = state[node, STOP] - state[node, START]
    work.found_gain[tid, which] = scan_columns(
        pools, is_wide(nodes, node, packing), state[node, SLOT], c0, c1, bins.n_bins, node, state[node, GRAD], state[node, HESS], rows,
        limits, packing, work.sums[tid], work.gains[tid, 0], work.found[tid, which],
    )  # fmt: skip


@device
def keep_best(nodes, node, which, limits, work, n_threads):  # type: ignore[no-untyped-def]
    """The best of the threads' findings becomes the node's split; threads hold ascending columns, ties to the first."""
    best = 0
    for t in range(1, n_threads):
        if work.found_gain[t, which] > work.found_gain[best, which]:
            best = t
    gain = work.found_gain[best, which]
    nodes.gain[node] = gain if gain > limits.min_gain else -1.0
    nodes.split[node, :] = work.found[best, which, :]


@device
def smaller_child(nodes, node):  # type: ignore[no-untyped-def]
    """The child with fewer rows (the left one when equal)."""
    left = nodes.state[node, LEFT]
    right_smaller = (
        nodes.state[left + 1, STOP] - nodes.state[left + 1, START] < nodes.state[left, STOP] - nodes.state[left, START]
    )
    return left + 1 if right_smaller else left


@device
def build_children(bins, nodes, node, do_small, do_big, work, packing, pools, tid, n_threads):  # type: ignore[no-untyped-def]
    """Histograms of the children that need one: the smaller from its rows, the larger by subtraction.

    Gives the children their slots; room that is not kept is a number beyond what may be handed out. True when called off.
    """
    state = nodes.state
    small = smaller_child(nodes, node)
    big = 2 * state[node, LEFT] + 1 - small
    parent_slot, parent_wide = state[node, SLOT], is_wide(nodes, node, packing)
    wide_small, wide_big = is_wide(nodes, small, packing), is_wide(nodes, big, packing)
    if tid == 0:
        reuse = do_big and parent_slot >= 0 and parent_wide == wide_big
        slot = take_slot(work.free, 1 if wide_small else 0)
        state[small, SLOT] = slot if slot >= 0 else work.room[1 if wide_small else 0]
        slot = parent_slot if reuse else take_slot(work.free, 1 if wide_big else 0)
        state[big, SLOT] = slot if slot >= 0 else work.room[1 if wide_big else 0] + 1
        if not reuse:  # handed out again at the next split at the earliest: it is still read below
            give_slot(work.free, 1 if parent_wide else 0, parent_slot)
    if barrier(work.gate, n_threads):
        return True
    slot_small, slot_big = state[small, SLOT], state[big, SLOT]
    c0, c1 = columns_of(bins.stride, tid, n_threads)
    subtracting = parent_slot >= 0 and do_big
    if (do_small or subtracting) and build(
        bins, nodes, small, slot_small, wide_small, work, packing, pools, tid, n_threads
    ):
        return True
    if subtracting:
        subtract_columns(
            pools, packing, parent_wide, parent_slot, wide_small, slot_small, wide_big, slot_big, c0, c1
        )
    elif do_big:
        if barrier(work.gate, n_threads):  # the threads' own histograms are used again
            return True
        if build(bins, nodes, big, slot_big, wide_big, work, packing, pools, tid, n_threads):
            return True
    return False


@device
def settle(nodes, node, packing, work):  # type: ignore[no-untyped-def]
    """Keep a node's slot while the node can still be split; free it otherwise."""
    kind = 1 if is_wide(nodes, node, packing) else 0
    slot = nodes.state[node, SLOT]
    if slot >= work.room[kind]:
        nodes.state[node, SLOT] = -1
    elif nodes.gain[node] <= 0.0:
        give_slot(work.free, kind, slot)
        nodes.state[node, SLOT] = -1


@device
def search_children(bins, nodes, node, work, limits, packing, pools, shape, tid, n_threads):  # type: ignore[no-untyped-def]
    """Histograms and best splits of both children of a node. True when called off."""
    left = nodes.state[node, LEFT]
    small = smaller_child(nodes, node)
    big = 2 * left + 1 - small
    do_small, do_big = can_split(nodes, small, limits, shape), can_split(nodes, big, limits, shape)
    if not do_small and not do_big:
        if tid == 0:
            give_slot(work.free, 1 if is_wide(nodes, node, packing) else 0, nodes.state[node, SLOT])
        return barrier(work.gate, n_threads)
    since = cycles()
    if build_children(bins, nodes, node, do_small, do_big, work, packing, pools, tid, n_threads):
        return True
    since = tick(work.clock, HISTOGRAM, since, tid)
    work.found_gain[tid, 0] = -1.0
    work.found_gain[tid, 1] = -1.0
    if do_small:
        search(bins, nodes, small, 0, limits, packing, pools, work, tid, n_threads)
    if do_big:
        search(bins, nodes, big, 1, limits, packing, pools, work, tid, n_threads)
    if barrier(work.gate, n_threads):
        return True
    if tid == 0:
        keep_best(nodes, small, 0, limits, work, n_threads)
        keep_best(nodes, big, 1, limits, work, n_threads)
        settle(nodes, small, packing, work)
        settle(nodes, big, packing, work)
    off = barrier(work.gate, n_threads)
    tick(work.clock, SPLIT, since, tid)
    return off


@device
def begin(bins, nodes, index, n_rows, work, packing, tid, n_threads):  # type: ignore[no-untyped-def]
    """Lay out the root's rows (all, or those of `index`) and clear the slots. True when called off."""
    k0, k1 = share(0, n_rows, tid, n_threads)
    if index.shape[0] > 0:
        work.rows[k0:k1] = index[k0:k1]
    else:
        for k in range(k0, k1):
            work.rows[k] = k
    if tid == 0:
        for kind in range(2):
            for k in range(work.room[kind]):
                work.free[kind, k] = k
            work.free[kind, work.free.shape[1] - 1] = work.room[kind]
        add_child(nodes, 0, 0, n_rows, 0, 0, 0)
    return barrier(work.gate, n_threads)


@device
def root_totals(bins, nodes, slot, wide, packing, pools):  # type: ignore[no-untyped-def]
    """The root's sums, from the bins of the first column (every row is in one of them)."""
    g, h = np.int64(0), np.int64(0)
    for b in range(256):
        if wide:
            g += pools.grad[slot, b]
            h += pools.hess[slot, b] >> packing.count_bits
        else:
            g += pools.packed[slot, b] >> packing.grad_shift
            h += (pools.packed[slot, b] >> packing.hess_shift) & packing.hess_mask
    nodes.state[0, GRAD], nodes.state[0, HESS] = g, h


@device
def build_root(bins, nodes, work, packing, pools, tid, n_threads):  # type: ignore[no-untyped-def]
    """The root's histogram and totals. True when called off."""
    wide = is_wide(nodes, 0, packing)
    if tid == 0:
        nodes.state[0, SLOT] = take_slot(work.free, 1 if wide else 0)
    if barrier(work.gate, n_threads):
        return True
    slot = nodes.state[0, SLOT]
    if build(bins, nodes, 0, slot, wide, work, packing, pools, tid, n_threads):
        return True
    if tid == 0:  # thread 0 holds the first column
        root_totals(bins, nodes, slot, wide, packing, pools)
    return barrier(work.gate, n_threads)


@device
def choose(nodes, n_nodes, order):  # type: ignore[no-untyped-def]
    """The leaf to split next, or -1: the largest improvement, on the shallowest level when growing by levels."""
    best = -1
    for k in range(n_nodes):
        if nodes.state[k, LEFT] < 0 and nodes.gain[k] > 0.0:
            if best < 0:
                best = k
            elif order == LEVELWISE and nodes.state[k, DEPTH] != nodes.state[best, DEPTH]:
                best = k if nodes.state[k, DEPTH] < nodes.state[best, DEPTH] else best
            elif nodes.gain[k] > nodes.gain[best]:
                best = k
    return best


@kernel
def grow(tid, n_threads, bins, index, n_rows, packing, limits, shape, pools, work, nodes):  # type: ignore[no-untyped-def]
    """Grow one tree on the rows of `index` (all n_rows when it is empty); the number of nodes, -1 when called off."""
    if begin(bins, nodes, index, n_rows, work, packing, tid, n_threads):
        return -1
    if shape.max_leaves < 2 or not can_split(nodes, 0, limits, shape):
        return 1
    since = cycles()
    if build_root(bins, nodes, work, packing, pools, tid, n_threads):
        return -1
    since = tick(work.clock, HISTOGRAM, since, tid)
    search(bins, nodes, 0, 0, limits, packing, pools, work, tid, n_threads)
    if barrier(work.gate, n_threads):
        return -1
    if tid == 0:
        keep_best(nodes, 0, 0, limits, work, n_threads)
    if barrier(work.gate, n_threads):
        return -1
    tick(work.clock, SPLIT, since, tid)
    n_nodes = 1
    while n_nodes < 2 * shape.max_leaves - 1:
        node = choose(nodes, n_nodes, shape.order)
        if node < 0:
            break
        since = cycles()
        n_left, off = partition_node(bins, nodes, node, work, tid, n_threads)
        if off:
            return -1
        tick(work.clock, PARTITION, since, tid)
        if tid == 0:
            add_children(nodes, node, n_nodes, n_left)
        if barrier(work.gate, n_threads):
            return -1
        n_nodes += 2
        if n_nodes < 2 * shape.max_leaves - 1 and search_children(
            bins, nodes, node, work, limits, packing, pools, shape, tid, n_threads
        ):
            return -1
    return n_nodes
