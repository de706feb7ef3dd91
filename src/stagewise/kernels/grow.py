"""Growing one tree: every thread runs `grow` and meets the others at barriers (SPMD).

One split is: choose a node, divide its rows, build the histogram of the smaller child, subtract it from the
parent's for the larger one, search both for their best splits (expansion.py). The decisions are taken from integers
that do not depend on the number of threads. Large nodes are split by all threads together, small ones by one thread
each (ahead.py), and the tree is the same.

Growth orders are one rule each: "leafwise" splits the leaf with the largest improvement, "levelwise" the shallowest
leaf first and by improvement within a level. Symmetric trees are in symmetric.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.ahead import (
    BUSY,
    FREE,
    LOST,
    NEXT,
    NOBODY,
    OFF,
    READY,
    SIZE,
    WAITING,
    advance,
    aside_at,
    next_ahead,
    splits_left,
    worth_it,
)
from stagewise.kernels.expansion import DEADLINE, PARTITION, SPLIT, keep_best, partition_node, search, tick
from stagewise.kernels.frontier import pop, push
from stagewise.kernels.histogram import NO_ROOT, Bins
from stagewise.kernels.jit import cycles, device, kernel, merged
from stagewise.kernels.nodes import (
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
from stagewise.kernels.sample import NO_SAMPLE, Sample
from stagewise.kernels.slots import assign_slots, give_slot, release_slot, settle
from stagewise.kernels.split import Limits
from stagewise.kernels.team import TURN, barrier, call_off, lock, share, tell, unlock

__all__ = ["Shape", "Work", "extras_of", "grow"]

APART = -2
"""Stands for the next node when threads should split nodes of their own."""


class Shape(NamedTuple):
    """When a tree is full."""

    order: np.int64
    max_leaves: np.int64
    max_depth: np.int64
    keep: bool = False  # the leaves' histograms stay, see residuals.py
    apart: np.int64 = np.int64(0)  # rows up to which a thread splits a node by itself, see ahead.py; 0 if `keep`


class Work(NamedTuple):
    """Room for a tree's growth, made once for a whole fit."""

    rows: np.ndarray  # uint32 (2, n_rows): row numbers; those of a node lie next to each other in line HOME
    words: np.ndarray  # int64 (n_rows): packed gradients
    more_words: np.ndarray  # int64 (n_rows or 1): hess words when they are not packed with the gradients
    gains: np.ndarray  # float64 (n_threads, 3, 256)
    found: np.ndarray  # int64 (n_threads, 2, 10): best splits by thread
    found_gain: np.ndarray  # float64 (n_threads, 8): their comparison values
    counts: np.ndarray  # int64 (n_threads, 8): rows that went left, by thread; in line 0 how far the tree is: the node
    # to be split by all (-1: none, APART), nodes that lost their histograms before they were split or became leaves,
    # nodes, leaves in the heap, threads that split a node by themselves
    levels: np.ndarray  # int64 (n_threads, 6, 256): sums of codes and their order, see subsets.py
    sides: np.ndarray  # uint8 (n_threads, 256): the side of each code
    free: np.ndarray  # int64 (2, slots + 1): stacks of free slots, packed and wide; the last entry is the height
    room: np.ndarray  # int64 (2): how many slots of either kind may be handed out; two more are for what is not kept
    heap: np.ndarray  # int64 (max_leaves + 1): leaves that can be split, the next one first
    aside: np.ndarray  # int64 (ASIDE * n_threads, 2): nodes that were split ahead of their turn, see ahead.py
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
        for k in range(work.aside.shape[0]):
            work.aside[k, 0] = FREE
        work.counts[0, LOST], work.counts[0, SIZE], work.counts[0, WAITING], work.counts[0, BUSY] = 0, 1, 0, 0
        add_node(nodes, np.int64(0), np.int64(0), n_rows, np.int64(0), np.int64(0), np.int64(0))
        if index.shape[0] == 0:
            nodes.state[0, HOME] = WHOLE
    return barrier(work.gate, n_threads)


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


@device
def open_children(state, parent, left, more, least, packing, shape, free, room):
    """Slots for the children of a node, unless neither will be searched. least: rows of a leaf."""
    small = smaller_child(state, left)
    do_big = can_split(state, 2 * left + 1 - small, least, shape.max_depth)
    if more and (do_big or can_split(state, small, least, shape.max_depth)):
        assign_slots(state, free, room, packing, parent, small, 2 * left + 1 - small, do_big)


@merged
def choose(nodes, least, packing, shape, counts, heap, aside, free, room, n_threads):
    """The node that all threads split next, whose children are written down; -1: none, APART (thread 0)."""
    if n_threads > 1 and shape.apart > 0:
        advance(nodes, counts, heap, aside, shape)
        if worth_it(nodes, counts, heap, aside, free, shape)[0] >= 0:
            return np.int64(APART)
    if counts[WAITING] == 0 or splits_left(counts, shape) == 0:
        return np.int64(-1)
    parent, left = pop(heap, counts[WAITING], nodes, shape.order), counts[SIZE]
    counts[WAITING], counts[SIZE] = counts[WAITING] - 1, left + 2
    add_children(nodes, parent, left)
    open_children(nodes.state, parent, left, splits_left(counts, shape) > 0, least, packing, shape, free, room)
    return parent


@merged
def close_children(nodes, parent, small, big, first, crew, place, limits, packing, shape, work):
    """What the threads first.. of a crew found becomes the children's splits. Children of a node that was split in its
    turn stand in line, if they have one."""
    state, counts, free, searched = nodes.state, work.counts[0], work.free, nodes.state[small, SLOT] >= 0
    if parent >= 0 and searched:
        release_slot(state, free, packing, parent, big)
    elif parent >= 0 and not shape.keep:
        give_slot(free, np.int64(is_wide(state, parent, packing)), state[parent, SLOT])
    for which in range((1 if parent < 0 else 2) if searched else 0):
        node = big if which == 1 else small
        keep_best(nodes, node, which, limits, packing, work.found, work.found_gain, first, crew)
        settle(state, nodes.gain, node, packing, free, work.room, shape.keep)
        counts[LOST] += np.int64(state[node, SLOT] < 0)
        if place < 0 and nodes.gain[node] > 0.0:
            counts[WAITING] = push(work.heap, counts[WAITING], node, nodes, shape.order)


@kernel
def grow(tid, n_threads, bins, index, n_rows, packing, limits, shape, pools, work, nodes, extras):
    """Grow one tree on the rows of `index` (all n_rows when it is empty); the number of nodes, -1 when called off.

    extras: None where there are no bundles, no columns that are split by sets, no sample with codes of its own, and
    every split considers all columns of the tree. That is most fits, and a kernel of its own: what it does not need is
    not compiled into it.
    """
    state, counts, heap, aside, free = nodes.state, work.counts[0], work.heap, work.aside, work.free
    gate, deadline, least, room = work.gate, work.clock[DEADLINE], limits.min_samples_leaf, work.room
    parent, small, big, place, more = np.int64(-1), np.int64(0), np.int64(0), np.int64(NOBODY), shape.max_leaves > 1
    if begin(nodes, index, n_rows, work, tid, n_threads):
        return -1
    if tid == 0 and more and can_split(state, small, least, shape.max_depth):
        assign_slots(state, free, room, packing, parent, small, big, False)
    if barrier(gate, n_threads):
        return -1
    while True:
        seat, crew = (np.int64(0), np.int64(1)) if place >= 0 else (tid, n_threads)
        since = cycles()
        if parent >= 0:
            if partition_node(bins, nodes, parent, work, seat, crew, tid, extras):
                return -1
            tick(work.clock, PARTITION, since, tid)
        do_small = state[small, SLOT] >= 0 and can_split(state, small, least, shape.max_depth)
        do_big = parent >= 0 and state[big, SLOT] >= 0 and can_split(state, big, least, shape.max_depth)
        if do_small or do_big:
            if search(
                bins, nodes, parent, small, big, do_small, do_big, work, limits, packing, pools, seat, crew, tid, extras
            ):
                return -1
        since = cycles()
        if place >= 0:
            lock(gate)
        if seat == 0:
            first = tid if place >= 0 else np.int64(0)
            close_children(nodes, parent, small, big, first, crew, place, limits, packing, shape, work)
        if place >= 0:
            aside[place, 0] = READY
            counts[BUSY] -= 1
            tell(gate)
            unlock(gate)
        while True:
            if place < 0:  # all are here
                if tid == 0:
                    if n_threads > 1 and 0 < deadline < cycles():
                        call_off(gate)
                    counts[NEXT] = choose(nodes, least, packing, shape, counts, heap, aside, free, room, n_threads)
                    gate[TURN] = 0
                if barrier(gate, n_threads):
                    return -1
                if counts[NEXT] != APART:
                    break
            place, more = next_ahead(nodes, counts, heap, aside, free, shape, gate, deadline)
            if place >= 0:
                open_children(state, aside[place, 1], aside_at(place, shape), more, least, packing, shape, free, room)
                unlock(gate)
                break
            if place == OFF or barrier(gate, n_threads):
                return -1
        tick(work.clock, SPLIT, since, tid)
        parent = aside[place, 1] if place >= 0 else counts[NEXT]
        if parent < 0:
            break
        left = aside_at(place, shape) if place >= 0 else state[parent, LEFT]
        small = smaller_child(state, left)
        big = 2 * left + 1 - small
    n_nodes = counts[SIZE]
    label_leaves(nodes, n_nodes, work, tid, n_threads)
    return n_nodes
