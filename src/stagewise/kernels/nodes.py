"""The nodes of a tree while it grows, as rows of integers that all threads read and one writes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.jit import device
from stagewise.kernels.split import COUNT_LEFT, GRAD_LEFT, HESS_LEFT

__all__ = ["N_STATE", "Nodes", "add_children", "add_node", "can_split", "is_wide", "smaller_child", "write_children"]

# columns of Nodes.state (int64)
START, STOP, DEPTH, SLOT, GRAD, HESS, LEFT, RIGHT, HOME = range(9)
N_STATE = 9

WHOLE = 2
"""HOME of a root that has all rows: no line at all, see `histogram.row_at`. Its children's is 1, as that of any root's.
(To write all numbers down for every tree takes 1 % of its time; to keep them, four bytes a row.)"""


class Nodes(NamedTuple):
    """A tree while it grows; node 0 is the root. A leaf has LEFT = -1."""

    state: np.ndarray  # int64 (max_nodes, N_STATE)
    split: np.ndarray  # int64 (max_nodes, 10): the best split found, see split.py
    gain: np.ndarray  # float64 (max_nodes): its improvement, relative units; not positive when there is none


@device
def is_wide(state, node, packing):
    """Whether a node's histogram has two words an entry."""
    return (not packing.narrow) or state[node, STOP] - state[node, START] > packing.block


@device
def add_node(nodes, node, start, stop, depth, grad, hess):
    state = nodes.state
    state[node, START], state[node, STOP], state[node, DEPTH] = start, stop, depth
    state[node, SLOT], state[node, GRAD], state[node, HESS] = -1, grad, hess
    state[node, LEFT], state[node, RIGHT] = -1, -1
    state[node, HOME] = depth & 1  # rows change lines at every division
    nodes.gain[node] = -1.0


@device
def write_children(nodes, node, left):
    """Write the records of both children, of which the node knows nothing yet (one thread does this)."""
    state, split = nodes.state, nodes.split
    s, e, depth = state[node, START], state[node, STOP], state[node, DEPTH] + 1
    g, h, middle = split[node, GRAD_LEFT], split[node, HESS_LEFT], s + split[node, COUNT_LEFT]
    add_node(nodes, left, s, middle, depth, g, h)
    add_node(nodes, left + 1, middle, e, depth, state[node, GRAD] - g, state[node, HESS] - h)


@device
def add_children(nodes, node, left):
    """Give a node its children."""
    write_children(nodes, node, left)
    nodes.state[node, LEFT], nodes.state[node, RIGHT] = left, left + 1


@device
def smaller_child(state, left):
    """The one with fewer rows of the children `left` and its neighbour (the left one when equal)."""
    right_smaller = state[left + 1, STOP] - state[left + 1, START] < state[left, STOP] - state[left, START]
    return left + np.int64(right_smaller)


@device
def can_split(state, node, min_samples_leaf, max_depth):
    """Whether a search for a split makes sense at all."""
    rows = state[node, STOP] - state[node, START]
    return state[node, DEPTH] < max_depth and rows >= 2 * min_samples_leaf and rows > 1
