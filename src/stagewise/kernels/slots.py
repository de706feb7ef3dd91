"""Slots: where the histograms of a tree's nodes are kept while it grows."""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import device
from stagewise.kernels.nodes import SLOT, is_wide

__all__ = ["assign_slots", "give_slot", "settle", "take_slot"]


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
    if parent < 0:
        return
    kind, parent_kind, parent_slot = (
        np.int64(is_wide(state, big, packing)),
        np.int64(is_wide(state, parent, packing)),
        state[parent, SLOT],
    )
    reuse = do_big and parent_slot >= 0 and parent_kind == kind
    slot = parent_slot if reuse else take_slot(free, kind)
    state[big, SLOT] = slot if slot >= 0 else room[kind] + 1
    if not reuse:  # handed out again at the next split at the earliest: it is still read in this one
        give_slot(free, parent_kind, parent_slot)


@device
def settle(state, gain, node, packing, free, room, keep):
    """Keep a node's slot while the node can still be split; free it otherwise, unless leaves keep theirs."""
    kind, slot = np.int64(is_wide(state, node, packing)), state[node, SLOT]
    if slot >= room[kind]:
        state[node, SLOT] = -1
    elif gain[node] <= 0.0 and not keep:
        give_slot(free, kind, slot)
        state[node, SLOT] = -1
