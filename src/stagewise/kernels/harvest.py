"""From the records of growth to the arrays of a tree: what Python would do a hundred times slower, node by node."""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import kernel
from stagewise.kernels.nodes import DEPTH, GRAD, HOME, LEFT, START, STOP
from stagewise.kernels.split import BIN, COLUMN, MISSING_LEFT, NOT_SEEN, SET

__all__ = ["harvest", "set_leaves"]


@kernel(arrays=True)
def harvest(nodes, cuts, by_level, scale, numbers, missing_left, floats, sums, leaves, sets):
    """Fill numbers (int32, 5 x n_nodes: feature, cut, left, depth, subset), missing_left (uint8), floats (threshold,
    gain, count), sums (int64: count, packed gradients), leaves (node, start, stop, line) and sets (uint64,
    n_nodes x 4); the numbers of leaves and of sets.

    cuts (n_columns, 256) are padded with +inf. Where nothing was missing in training, missing values go to the side
    with more rows (ties: left), with `by_level` (symmetric trees) counted over the whole level.
    """
    state, split = nodes.state, nodes.split
    n_nodes = numbers.shape[1]
    lead = np.zeros(n_nodes + 1, np.int64)  # rows left minus rows right, by node or by level
    for k in range(n_nodes):
        left = state[k, LEFT]
        if left >= 0:
            group = state[k, DEPTH] if by_level else k
            lead[group] += 2 * (state[left, STOP] - state[left, START]) - (state[k, STOP] - state[k, START])
    n_leaves, n_sets = 0, 0
    for k in range(n_nodes):
        inner = state[k, LEFT] >= 0
        column, b, side = split[k, COLUMN], split[k, BIN], split[k, MISSING_LEFT]
        if side == NOT_SEEN:
            side = np.int64(lead[state[k, DEPTH] if by_level else k] >= 0)
        numbers[0, k] = column if inner else -1
        by_set = inner and b < 0
        numbers[1, k] = b if inner and not by_set else 0
        missing_left[k] = side if inner else 0
        numbers[2, k] = state[k, LEFT]
        numbers[3, k] = state[k, DEPTH]
        numbers[4, k] = n_sets if by_set else -1
        if by_set:
            for w in range(4):
                sets[n_sets, w] = np.uint64(split[k, SET + w])
            n_sets += 1
        floats[0, k] = cuts[column, b] if inner and not by_set else 0.0
        floats[1, k] = nodes.gain[k] * scale if inner else 0.0
        sums[0, k], sums[1, k] = state[k, STOP] - state[k, START], state[k, GRAD]
        floats[2, k] = sums[0, k]
        if not inner:
            leaves[n_leaves, 0], leaves[n_leaves, 1] = k, state[k, START]
            leaves[n_leaves, 2], leaves[n_leaves, 3] = state[k, STOP], state[k, HOME]
            n_leaves += 1
    return n_leaves, n_sets


@kernel
def set_leaves(left, values, weights, sums, l1, l2, limit, rate, value, cover):
    """Leaves get rate * values (0 where not finite) and their weights; inner nodes 0 and the sum of their leaves.

    sums (n_nodes, 2 or more; or empty): gradient G and second derivative H of the leaves, whose values then shrink by
    (1 - l1/|G|)₊ · H/(H + l2). After that none is larger than `limit`.
    """
    shrinking = sums.shape[0] > 0
    for k in range(left.shape[0] - 1, -1, -1):  # children come after their parent
        if left[k] >= 0:
            value[k] = 0.0
            cover[k] = cover[left[k]] + cover[left[k] + 1]
        else:
            v = values[k]
            if shrinking:
                size, h = abs(sums[k, 0]), sums[k, 1]
                kept = 1.0
                if l1 > 0.0:
                    kept = 1.0 - l1 / size if size > l1 else 0.0
                v = v * kept * (h / (h + l2) if h > 0.0 else 0.0)
            v = limit if v > limit else (-limit if v < -limit else v)
            value[k] = rate * v if abs(v) < np.inf else 0.0
            cover[k] = weights[k]
