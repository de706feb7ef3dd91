"""Nodes that threads split each by itself, ahead of their turn.

A small node's rows are soon counted, and threads that share it spend their time waiting for each other. So once the
next node is small, every thread takes one of its own: the next in order that nobody has, which will most likely be
split sooner or later. Its children are kept aside until its turn comes; then they get their numbers and stand in line
themselves. So the tree is the one that a single thread grows node by node, whoever was faster: what was split in vain
is left aside. Threads that look for work hold a lock, for a microsecond; what is large is split by all together.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.frontier import comes_before, pop, push
from stagewise.kernels.jit import cycles, device, merged, never_inline
from stagewise.kernels.nodes import LEFT, RIGHT, START, STOP, write_children
from stagewise.kernels.team import call_off, changes, lock, unlock, was_called_off, watch

__all__ = ["ASIDE", "NOBODY", "OFF", "advance", "aside_at", "next_ahead", "splits_left", "worth_it"]

NOBODY, OFF = -1, -2
"""What `next_ahead` says when there is no node for a single thread, and when the work was called off."""

# entries of Work.counts[0]
NEXT, LOST, SIZE, WAITING, BUSY = range(1, 6)

ASIDE = 4
"""Nodes for each thread that may have been split ahead of their turn. (With two of them two threads wait for a fifth of
the time that they split nodes of workload H by themselves, with four for a tenth, with eight no less of the whole.)"""

FREE, TAKEN, READY = range(3)  # of the places in Work.aside


@device
def copy_record(nodes, source, target):
    """A node gets its number."""
    for k in range(nodes.state.shape[1]):
        nodes.state[target, k] = nodes.state[source, k]
    for k in range(nodes.split.shape[1]):
        nodes.split[target, k] = nodes.split[source, k]
    nodes.gain[target] = nodes.gain[source]


@device
def advance(nodes, counts, heap, aside, shape):
    """Nodes that were split and whose turn has come become part of the tree (one thread at a time does this)."""
    never_inline()
    base = 2 * shape.max_leaves - 1
    while counts[SIZE] < base:
        first, left = np.int64(-1), counts[SIZE]
        for place in range(aside.shape[0]):
            if aside[place, 0] != FREE and (
                first < 0 or comes_before(nodes, aside[place, 1], aside[first, 1], shape.order)
            ):
                first = np.int64(place)
        if first < 0 or aside[first, 0] != READY:
            return
        node = aside[first, 1]
        if counts[WAITING] > 0 and comes_before(nodes, heap[0], node, shape.order):
            return
        for child in range(2):
            copy_record(nodes, base + 2 * first + child, left + child)
            if nodes.gain[left + child] > 0.0:
                counts[WAITING] = push(heap, counts[WAITING], left + child, nodes, shape.order)
        nodes.state[node, LEFT], nodes.state[node, RIGHT] = left, left + 1
        aside[first, 0] = FREE
        counts[SIZE] += 2


@merged
def aside_at(place, shape):
    """The record of the left one of the children that are kept aside in a place."""
    return 2 * shape.max_leaves - 1 + 2 * place


@merged
def splits_left(counts, shape):
    """Splits until the tree is complete."""
    return shape.max_leaves - (counts[SIZE] + 1) // 2


@device
def worth_it(nodes, counts, heap, aside, free, shape):
    """Where the children of the first node in the heap are to be kept aside, if a thread should split it by itself, and
    whether they may be split themselves; NOBODY if none should.

    A large one is for all threads, and so is the one that completes the tree. When nobody is at work, the second one
    should be small too: there must be one for another thread. And its turn should come before the tree is complete.
    """
    never_inline()
    state, waiting, place, before = nodes.state, counts[WAITING], np.int64(NOBODY), np.int64(0)
    small = np.int64(0)  # of the first three in the heap, one of which is the second
    for k in range(min(waiting, np.int64(3))):
        is_small = state[heap[k], STOP] - state[heap[k], START] <= shape.apart
        small += np.int64(is_small)
        if k == 0 and not is_small:
            return place, False
    if waiting == 0 or (counts[BUSY] == 0 and (small < 2 or splits_left(counts, shape) < 2)):
        return place, False
    for k in range(aside.shape[0]):
        if aside[k, 0] == FREE:
            place = np.int64(k)
        else:
            before += np.int64(comes_before(nodes, aside[k, 1], heap[0], shape.order))
    top = free.shape[1] - 1
    if before >= splits_left(counts, shape) or free[0, top] < 2 or free[1, top] < 2:
        return np.int64(NOBODY), False
    return place, before + 1 < splits_left(counts, shape)


@device
def next_ahead(nodes, counts, heap, aside, free, shape, gate, deadline):
    """Take the next node that this thread should split by itself: the place of its children, whether they may be split.

    The place is NOBODY when the next node is for all threads and none is at work any more, OFF when the work was called
    off. Otherwise the lock is held."""
    never_inline()
    lock(gate)
    while True:
        if 0 < deadline < cycles():
            call_off(gate)
        advance(nodes, counts, heap, aside, shape)
        place, more = worth_it(nodes, counts, heap, aside, free, shape)
        if place >= 0 and not was_called_off(gate):
            node = pop(heap, counts[WAITING], nodes, shape.order)
            aside[place, 0], aside[place, 1] = TAKEN, node
            counts[WAITING] -= 1
            counts[BUSY] += 1
            write_children(nodes, node, aside_at(place, shape))
            return place, more
        busy, seen = counts[BUSY], changes(gate)
        unlock(gate)
        if was_called_off(gate):
            return np.int64(OFF), False
        if busy == 0:
            return np.int64(NOBODY), False
        watch(gate, seen)
        lock(gate)
