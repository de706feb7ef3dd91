"""Leaves as boxes: what each column must be for a row to reach a leaf, and leaves grouped for attribution.

A path may test a column several times; its tests merge into one condition, an interval or a set of codes, and a yes or
no for missing values. With the conditions of all leaves, dependence, interactions and Shapley values are sums over
leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.jit import device, kernel

__all__ = ["Groups", "Paths", "Trees", "WORD", "climb", "group_leaves", "holds", "in_set", "leaf_paths"]


WORD = 62
"""Answers that a word has room for."""


class Trees(NamedTuple):
    """All nodes of all trees, tree after tree; a parent comes before its children."""

    feature: np.ndarray  # int32
    threshold: np.ndarray  # float64: value <= threshold goes left
    missing_left: np.ndarray  # uint8
    left: np.ndarray  # int32 within the tree, -1 for leaves; the right child is left + 1
    value: np.ndarray  # float64
    cover: np.ndarray  # float64: weight of the training rows
    start: np.ndarray  # int64 (n_trees + 1)
    output: np.ndarray  # int64 (n_trees)
    subset: np.ndarray  # int32: the node's line of `sets`, -1 for a threshold
    sets: np.ndarray  # uint64 (n_sets, n_words): codes that go left; the last word, of all codes beyond, is 0


class Paths(NamedTuple):
    """Leaf l has the conditions start[l] to start[l + 1], one for each column that its path tests."""

    start: np.ndarray  # int64 (n_leaves + 1)
    column: np.ndarray  # int32
    low: np.ndarray  # float64: not value <= low; NaN for none
    high: np.ndarray  # float64: value <= high
    missing: np.ndarray  # uint8: whether a missing value meets the condition
    ratio: np.ndarray  # float64: share of the cover that went this way, the product over the column's tests
    value: np.ndarray  # float64 (n_leaves)
    output: np.ndarray  # int64 (n_leaves)
    tree: np.ndarray  # int64 (n_leaves)
    subset: np.ndarray  # int32, of conditions: the line of `sets` in place of an interval, or -1
    sets: np.ndarray  # uint64 (n, n_words): codes that meet a condition; the first bit of the last word: all beyond


class Groups(NamedTuple):
    """Leaves under one node, whose contributions depend on few yes-or-no tests: entries of a table.

    The tests of group g: one for each column on the path to its node (the merged condition) and one for each inner
    node below. Bit b of a row's word says whether test b holds. Leaf condition c holds when word & mask[c] == want[c].
    A deep leaf is a group of its own; its tests are its conditions, in their order.
    """

    test: np.ndarray  # int64 (n_groups + 1): tests of a group
    column: np.ndarray  # int32, of tests
    low: np.ndarray
    high: np.ndarray
    missing: np.ndarray
    slot: np.ndarray  # int64 (n_groups + 1): columns that the group's leaves depend on
    slot_column: np.ndarray  # int32
    leaf: np.ndarray  # int64 (n_groups + 1): leaves of a group
    value: np.ndarray  # float64, of leaves
    held: np.ndarray  # int64 (n_leaves + 1): conditions of a leaf
    place: np.ndarray  # int32, of conditions: the slot of its column within the group
    mask: np.ndarray  # int64
    want: np.ndarray  # int64
    ratio: np.ndarray  # float64
    output: np.ndarray  # int64 (n_groups)
    worded: np.ndarray  # uint8 (n_groups): whether the answers fit into a word
    subset: np.ndarray  # int32, of tests: as in Paths
    sets: np.ndarray


@device
def in_set(x, codes):
    """Whether a value that is not missing is in a set; what is no code counts as one beyond all."""
    beyond = np.int64(64) * (codes.shape[0] - 1)
    code = np.int64(x) if (x >= 0.0) & (x < beyond) else beyond
    return (codes[code >> 6] >> np.uint64(code & 63)) & np.uint64(1) != np.uint64(0)


@device
def holds(x, low, high, missing, subset, sets):
    """Whether a value meets a condition."""
    if x != x:
        return missing != 0
    if subset >= 0:
        return in_set(x, sets[subset])
    return not (x <= low) and x <= high


@device
def went(trees, s, parent, child):
    """(whether the child is the left one, its share of the parent's cover)."""
    left = trees.left[s + parent]
    total = trees.cover[s + left] + trees.cover[s + left + 1]
    # weights so small that they vanished from both sums: no side is more likely
    return child == left, (trees.cover[s + child] / total if total > 0.0 else 0.5)


@device
def narrow(trees, s, parent, goes_left, at, into):
    """Add one test to condition `at`. A set that goes right leaves all other codes, those beyond among them."""
    cut, missing_left = trees.threshold[s + parent], trees.missing_left[s + parent] != 0
    if trees.subset[s + parent] >= 0:
        asked, codes = trees.sets[trees.subset[s + parent]], into.sets[into.subset[at]]
        for w in range(codes.shape[0]):
            codes[w] &= asked[w] if goes_left else ~asked[w]
    elif goes_left:
        into.high[at] = min(into.high[at], cut)
    elif not (into.low[at] >= cut):
        into.low[at] = cut
    if missing_left != goes_left:
        into.missing[at] = 0


@device
def begin_condition(trees, node, at, free, into):
    """Condition `at`, which everything meets, of the kind of a node's test; the next free line of sets."""
    into.column[at], into.low[at], into.high[at], into.missing[at] = trees.feature[node], np.nan, np.inf, 1
    into.subset[at] = -1
    if trees.subset[node] >= 0:
        into.subset[at] = free
        into.sets[free] = ~np.uint64(0)
        free += 1
    return free


@device
def climb(trees, s, parents, node, into, ratio, first, free):
    """Merged conditions of the path to a node of the tree at s, written to `into` (Paths or Groups) from `first` on.

    free: the next free line of into.sets. Where the conditions end, and the line that is free then.
    """
    end = first
    child = node
    while child > 0:
        parent = parents[child]
        f = trees.feature[s + parent]
        goes_left, share = went(trees, s, parent, child)
        at = first
        while at < end and into.column[at] != f:
            at += 1
        if at == end:
            free = begin_condition(trees, s + parent, at, free, into)
            ratio[at] = 1.0
            end += 1
        narrow(trees, s, parent, goes_left, at, into)
        ratio[at] *= share
        child = parent
    return end, free


@device
def set_parents(trees, t, parents):
    s, e = trees.start[t], trees.start[t + 1]
    parents[0] = -1
    for k in range(e - s):
        left = trees.left[s + k]
        if left >= 0:
            parents[left] = k
            parents[left + 1] = k


@kernel
def leaf_paths(trees, parents, paths):
    """Fill `paths`, which has room for the depths of all leaves; (leaves, conditions, sets). parents: scratch."""
    at, leaf, free = np.int64(0), np.int64(0), np.int64(0)
    for t in range(trees.output.shape[0]):
        set_parents(trees, t, parents)
        s = trees.start[t]
        for k in range(trees.start[t + 1] - s):
            if trees.left[s + k] < 0:
                paths.start[leaf] = at
                at, free = climb(trees, s, parents, k, paths, paths.ratio, at, free)
                paths.value[leaf], paths.output[leaf], paths.tree[leaf] = trees.value[s + k], trees.output[t], t
                leaf += 1
                paths.start[leaf] = at
    return leaf, at, free


@device
def slot_of(groups, first, end, f):
    """The slot of a column within its group, `end - first` when it has none yet."""
    at = first
    while at < end and groups.slot_column[at] != f:
        at += 1
    return at - first


@device
def add_group(trees, s, parents, root, ends, bits, groups, ratio, stack):
    """The group of all leaves below `root`. ends: next free (group, test, slot, leaf, condition, set). bits: of nodes.

    ratio is scratch: shares along the path to the root, by test.
    """
    first_test, first_slot = ends[1], ends[2]
    stop, free = climb(trees, s, parents, root, groups, ratio, first_test, ends[5])
    n_path = stop - first_test
    slots = first_slot
    for b in range(n_path):
        groups.slot_column[slots] = groups.column[first_test + b]
        slots += 1
    top = 1
    stack[0] = root
    while top > 0:
        top -= 1
        k = stack[top]
        left = trees.left[s + k]
        if left >= 0:  # an inner node is a test, met by what goes left
            bits[k] = stop - first_test
            f = trees.feature[s + k]
            free = begin_condition(trees, s + k, stop, free, groups)
            narrow(trees, s, k, True, stop, groups)
            stop += 1
            if slot_of(groups, first_slot, slots, f) == slots - first_slot:
                groups.slot_column[slots] = f
                slots += 1
            stack[top] = left + 1
            stack[top + 1] = left
            top += 2
            continue
        leaf, first = ends[3], ends[4]
        groups.value[leaf], groups.held[leaf] = trees.value[s + k], first
        for b in range(n_path):
            bit = np.int64(1) << np.int64(b & 63)  # without meaning when there are more than 64
            groups.place[first + b], groups.ratio[first + b] = b, ratio[first_test + b]
            groups.mask[first + b], groups.want[first + b] = bit, bit
        end = first + n_path
        child = k
        while child != root:
            parent = parents[child]
            goes_left, share = went(trees, s, parent, child)
            place = slot_of(groups, first_slot, slots, trees.feature[s + parent])
            at = first
            while at < end and groups.place[at] != place:
                at += 1
            if at == end:
                groups.place[at], groups.ratio[at], groups.mask[at], groups.want[at] = place, 1.0, 0, 0
                end += 1
            bit = np.int64(1) << bits[parent]
            groups.ratio[at] *= share
            groups.mask[at] |= bit
            groups.want[at] |= bit if goes_left else 0
            child = parent
        ends[3], ends[4] = leaf + 1, end
        groups.held[leaf + 1] = end
    g = ends[0]
    ends[0], ends[1], ends[2], ends[5] = g + 1, stop, slots, free
    groups.test[g + 1], groups.slot[g + 1], groups.leaf[g + 1] = stop, slots, ends[3]


@kernel
def group_leaves(trees, most_bits, parents, below, covered, ratio, groups, ends):
    """Fill `groups` with the largest subtrees of at most most_bits tests, and with deep leaves one by one.

    parents, below, covered: scratch, int64, of the largest tree's size (covered three times that: it ends in a stack);
    ends: int64 (6), zeros; in the end the numbers of groups, tests, slots, leaves, conditions and sets.
    """
    groups.test[0], groups.slot[0], groups.leaf[0], groups.held[0] = 0, 0, 0, 0
    for t in range(trees.output.shape[0]):
        set_parents(trees, t, parents)
        s = trees.start[t]
        size = trees.start[t + 1] - s
        for k in range(size - 1, -1, -1):  # inner nodes at and below each node
            left = trees.left[s + k]
            below[k] = 0 if left < 0 else 1 + below[left] + below[left + 1]
        for k in range(size):
            covered[k] = 1 if k > 0 and covered[parents[k]] != 0 else 0
            if covered[k] != 0:
                continue
            n_path = climb(trees, s, parents, k, groups, ratio, ends[1], ends[5])[0] - ends[1]
            if n_path + below[k] <= most_bits or trees.left[s + k] < 0:
                groups.output[ends[0]], groups.worded[ends[0]] = trees.output[t], n_path <= WORD
                inner = below[k] if trees.left[s + k] >= 0 else 0
                if inner > 0 or n_path > 0:
                    # `below` of the nodes in this subtree is not needed any more: their bits are kept there
                    add_group(trees, s, parents, k, ends, below, groups, ratio, covered[size:])
                covered[k] = 1
