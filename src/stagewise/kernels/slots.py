"""Slots: where the histograms of a tree's nodes are kept while it grows."""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import device
from stagewise.kernels.nodes import SLOT, is_wide

__all__ = ["assign_slots", "give_slot", "release_slot", "settle", "take_slot"]


@device
def take_slot(free, kind):
    """A free slot, or -1 when all are taken: then the histogram is dropped and built again when it is needed."""
    top = free.shape[1] - 1
    if free[kind, top] == 0:
        return np.int64(-1)
    free[kind, top] -= 1
    return free[kind, free[kind, top]]


@device
def give_slot(free, kind, slot):
    if slot >= 0:
        top = free.shape[1] - 1
        free[kind, free[kind, top]] = slot
        free[kind, top] += 1


@device
def assign_slots(state, free, room, packing, parent, small, big, do_big):
    """Slots for the children of `parent` (-1: `small` is the root); a number beyond `room` is not kept."""
    kind = np.int64(is_wide(state, small, packing))
    slot = take_slot(free, kind)
    state[small, SLOT] = slot if slot >= 0 else room[kind]
    if parent >= 0:
        kind, slot = np.int64(is_wide(state, big, packing)), state[parent, SLOT]
        if not do_big or slot < 0 or np.int64(is_wide(state, parent, packing)) != kind:
            slot = take_slot(free, kind)
        state[big, SLOT] = slot if slot >= 0 else room[kind] + 1


@device
def release_slot(state, free, packing, parent, big):
    """A node's slot is free when its children have been searched, unless the larger one has taken it over."""
    wide = is_wide(state, parent, packing)
    if state[big, SLOT] != state[parent, SLOT] or is_wide(state, big, packing) != wide:
        give_slot(free, np.int64(wide), state[parent, SLOT])


@device
def settle(state, gain, node, packing, free, room, keep):
    """Keep a node's slot while the node can still be split; free it otherwise, unless leaves keep theirs."""
    kind, slot = np.int64(is_wide(state, node, packing)), state[node, SLOT]
    if slot >= room[kind]:
        state[node, SLOT] = -1
    elif gain[node] <= 0.0 and not keep:
        give_slot(free, kind, slot)
        state[node, SLOT] = -1
