"""Prediction from raw values, and applying a tree to binned rows.

Trees of at most 64 leaves: the leaves of a tree are the bits of a word, numbered from left to right. A test that
fails clears the leaves of its left subtree; when all tests are done, the lowest bit left is the leaf. Tests are applied
to a whole block of rows at a time, without a branch or a gather, which the compiler turns into vector code.
(Lucchese et al., QuickScorer, SIGIR 2015, with rows instead of features in the inner loop.)

Symmetric trees: the tests of the levels are the bits of the leaf's number.

Larger trees: coded.py. Single rows: a walk from node to child; leaves point to themselves.

Splits by sets of categories are in lookups.py: masks and levels take them as one look-up a tree and column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.bundles import test_of
from stagewise.kernels.jit import counting, device, kernel, piece, trailing_zeros
from stagewise.kernels.lookups import Lookups, Sets, fill_codes, same_set
from stagewise.kernels.partition import MISSING
from stagewise.kernels.team import share

__all__ = [
    "BLOCK",
    "Levels",
    "Masks",
    "STRIDE",
    "TESTS",
    "Walks",
    "add_tree_binned",
    "label_binned",
    "leaf_masks",
    "level_tables",
    "predict_levels",
    "predict_masks",
    "predict_walks",
    "tree_leaves",
]

TESTS = 6
"""Tests of a tree that are applied to a row at once."""

BLOCK = 256
"""Rows of a block: the leaf words and six columns of values stay in the first-level cache."""


STRIDE = BLOCK + 16
"""From one column of a block to the next: at a power of two, columns that are written together would share few lines of
the first-level cache."""

_TOGETHER = 32
"""Columns of a block that are laid out together: more at once would leave the first-level cache between two rows."""

_ABREAST = 16
"""Rows that walk down a tree side by side, so that none waits for the memory of another."""


class Walks(NamedTuple):
    """All trees, node after node; the right child stands next to the left one."""

    feature: np.ndarray  # int32
    threshold: np.ndarray  # float64: value <= threshold goes left
    missing_left: np.ndarray  # uint8
    left: np.ndarray  # int32, within the tree; a leaf's is its own number
    value: np.ndarray  # float64, of leaves
    start: np.ndarray  # int64 (n_trees + 1)
    depth: np.ndarray  # int64 (n_trees)
    output: np.ndarray  # int64 (n_trees): which class the tree adds to
    sets: Sets  # of nodes that split by categories


class Masks(NamedTuple):
    """The tests of all trees as masks over leaves; tests without effect fill each tree up to a multiple of six."""

    column: np.ndarray  # int32: 2 * feature, + 1 when missing values go left
    threshold: np.ndarray  # float64; float32, rounded down, for float32 values
    keep: np.ndarray  # uint32 or uint64: leaves that survive when the test fails
    start: np.ndarray  # int64 (n_trees + 1)
    value: np.ndarray  # float64: leaf values, 64 a tree at the most
    value_start: np.ndarray  # int64 (n_trees)
    output: np.ndarray  # int64 (n_trees)
    lookups: Lookups  # of words that are kept
    used: np.ndarray  # int64: the columns that occur in a test, ascending


class Levels(NamedTuple):
    """Symmetric trees: one test a level, and a table of leaf values by the outcomes (bit l set: level l went right)."""

    feature: np.ndarray  # int32
    threshold: np.ndarray  # float64
    missing_left: np.ndarray  # uint8
    start: np.ndarray  # int64 (n_trees + 1): levels of a tree
    value: np.ndarray  # float64
    value_start: np.ndarray  # int64 (n_trees)
    output: np.ndarray  # int64 (n_trees)
    lookups: Lookups  # of outcomes; a level that asks for a set has a test without effect
    used: np.ndarray  # int64: the columns that occur in a test, ascending


@kernel(arrays=True)
def level_tables(walks, depth, levels, right):
    """Fill `levels` from `walks`; False when a tree has two different tests on a level. depth: of each node.

    right: uint64 by node, filled with the outcome of going right.
    """
    at_value = 0
    of_level = np.empty(64, np.int64)
    some_sets = walks.sets.subset.shape[0] > 0
    for t in range(walks.depth.shape[0]):
        s, e, first = walks.start[t], walks.start[t + 1], levels.start[t]
        levels.value_start[t], levels.output[t] = at_value, walks.output[t]
        n_levels = walks.depth[t]
        levels.start[t + 1] = first + n_levels
        for q in range(first, first + n_levels):
            levels.feature[q] = -1
        for k in range(e - s):
            if walks.left[s + k] == k:
                continue
            q = first + depth[s + k]
            right[s + k] = np.uint64(1) << np.uint64(depth[s + k])
            if levels.feature[q] < 0:
                levels.feature[q], levels.threshold[q] = walks.feature[s + k], walks.threshold[s + k]
                levels.missing_left[q], of_level[q - first] = walks.missing_left[s + k], s + k
            same = levels.feature[q] == walks.feature[s + k] and levels.threshold[q] == walks.threshold[s + k]
            if not same or levels.missing_left[q] != walks.missing_left[s + k]:
                return False
            if not same_set(walks.sets, of_level[q - first], s + k):
                return False
        for q in range(first, first + n_levels):
            if some_sets and walks.sets.subset[of_level[q - first]] >= 0:
                levels.feature[q], levels.threshold[q], levels.missing_left[q] = 0, np.inf, 1
        for outcome in range(1 << n_levels):
            node = np.int64(0)
            for level in range(n_levels):
                if walks.left[s + node] != node:
                    node = np.int64(walks.left[s + node] + ((outcome >> level) & 1))
            levels.value[at_value + outcome] = walks.value[s + node]
        at_value += 1 << n_levels
    return True


@device
def fill_block(X, a, n, used, columns):
    """Lay rows a .. a + n out by column in columns[0]; if something is missing, also in columns[1] with -inf for it.

    Only columns that are used: the others stay as they are. A test whose missing values go left reads the second copy,
    so every test is `value <= threshold`. Whether it is there.
    """
    x = columns[0]
    missing, whole = False, used.shape[0] == X.shape[1]
    for first in range(0, used.shape[0], _TOGETHER):
        last = min(first + _TOGETHER, used.shape[0])
        for r in range(n):
            if whole:  # without the look-up: a sixth of the time of 100 trees of 31 leaves
                for j in range(first, last):
                    v = X[a + r, j]
                    x[j, r] = v
                    missing |= v != v
                continue
            for k in range(first, last):
                v = X[a + r, used[k]]
                x[used[k], r] = v
                missing |= v != v
    if missing:
        for k in range(used.shape[0]):
            one, two = x[used[k]], columns[1, used[k]]
            for r in range(n):
                two[r] = one[r] if one[r] == one[r] else -np.inf
    return np.int64(missing)


@kernel
def predict_levels(tid, n_threads, X, levels, t0, t1, columns, codes, words, out):
    """As predict_masks, for symmetric trees."""
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    x, code, word, lookups = columns[tid], codes[tid], words[tid], levels.lookups
    for a in range(k0, k1, BLOCK):
        n = min(BLOCK, k1 - a)
        missing = fill_block(X, a, n, levels.used, x)
        fill_codes(x[0], lookups, code)
        for t in range(t0, t1):
            for r in range(BLOCK):
                word[r] = 0
            for q in range(lookups.start[t], lookups.start[t + 1]):
                own, table = code[lookups.place[q]], lookups.table[lookups.first[q] :]
                for r in range(BLOCK):
                    word[r] |= table[own[r]]
            for q in range(levels.start[t], levels.start[t + 1]):
                column, cut = x[levels.missing_left[q] & missing, levels.feature[q]], levels.threshold[q]
                bit = np.uint32(1 << (q - levels.start[t]))
                for r in range(BLOCK):
                    word[r] |= np.uint32(0) if column[r] <= cut else bit
            first, target = levels.value_start[t], out[levels.output[t], a : a + n]
            for r in range(n):
                target[r] += levels.value[first + np.int64(word[r])]


@kernel
def leaf_masks(walks, out_count, masks, leaf_node, right):
    """Fill `masks` from `walks`; out_count and leaf_node (int64, n_nodes each) are scratch.

    right: uint64 by node, filled with the leaves that a row which goes right does not reach. Nodes with sets are no
    tests of the masks.
    """
    at = 0
    some_sets = walks.sets.subset.shape[0] > 0
    at_value = 0
    n_trees = walks.start.shape[0] - 1
    for t in range(n_trees):
        s, e = walks.start[t], walks.start[t + 1]
        first = leaf_node  # reused: first leaf number of a node while the tree is handled
        for k in range(e - s - 1, -1, -1):
            left = walks.left[s + k]
            out_count[k] = 1 if left == k else out_count[left] + out_count[left + 1]
        first[0] = 0
        for k in range(e - s):
            left = walks.left[s + k]
            if left != k:
                first[left] = first[k]
                first[left + 1] = first[k] + out_count[left]
        masks.start[t] = at
        masks.value_start[t] = at_value
        masks.output[t] = walks.output[t]
        for k in range(e - s):
            left = walks.left[s + k]
            if left != k:
                ones = (np.uint64(1) << np.uint64(out_count[left])) - np.uint64(1)
                right[s + k] = ones << np.uint64(first[left])
                if some_sets and walks.sets.subset[s + k] >= 0:
                    continue
                masks.column[at] = 2 * walks.feature[s + k] + walks.missing_left[s + k]
                masks.threshold[at] = walks.threshold[s + k]
                masks.keep[at] = ~right[s + k]
                at += 1
            else:
                masks.value[at_value + first[k]] = walks.value[s + k]
        while at == masks.start[t] or (at - masks.start[t]) % TESTS != 0:
            masks.column[at], masks.threshold[at], masks.keep[at] = 0, np.inf, ~np.uint64(0)
            at += 1
        at_value += out_count[0]
    masks.start[n_trees] = at


@piece
def nth_test(masks, k, x, missing):
    """(values, threshold, leaves that survive) of test k; the values with -inf for missing where those go left."""
    column = masks.column[k]
    return x[column & missing, column >> 1], masks.threshold[k], masks.keep[k]


@kernel
def predict_masks(tid, n_threads, X, masks, t0, t1, columns, codes, words, out):
    """out[output, row] += the leaf values of trees t0..t1. columns (n_threads, 2, f, STRIDE), codes, words: scratch.

    Six tests a step, half the loads and stores of one by one: 9.8 ms for 100,000 rows and 100 trees of 31 leaves, where
    four take 11.5. (Written out, as the compiler needs it.)
    """
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    x, code, word, lookups = columns[tid], codes[tid], words[tid], masks.lookups
    full = ~masks.keep.dtype.type(0)
    for a in range(k0, k1, BLOCK):
        n = min(BLOCK, k1 - a)
        missing = fill_block(X, a, n, masks.used, x)
        fill_codes(x[0], lookups, code)
        for t in range(t0, t1):
            for r in range(BLOCK):
                word[r] = full
            for q in range(lookups.start[t], lookups.start[t + 1]):
                own, table = code[lookups.place[q]], lookups.table[lookups.first[q] :]
                for r in range(BLOCK):
                    word[r] &= table[own[r]]
            for k in range(masks.start[t], masks.start[t + 1], TESTS):
                c0, h0, m0 = nth_test(masks, k, x, missing)
                c1, h1, m1 = nth_test(masks, k + 1, x, missing)
                c2, h2, m2 = nth_test(masks, k + 2, x, missing)
                c3, h3, m3 = nth_test(masks, k + 3, x, missing)
                c4, h4, m4 = nth_test(masks, k + 4, x, missing)
                c5, h5, m5 = nth_test(masks, k + 5, x, missing)
                for r in range(BLOCK):
                    v = (full if c0[r] <= h0 else m0) & (full if c1[r] <= h1 else m1)
                    v &= (full if c2[r] <= h2 else m2) & (full if c3[r] <= h3 else m3)
                    word[r] &= v & (full if c4[r] <= h4 else m4) & (full if c5[r] <= h5 else m5)
            first, target = masks.value_start[t], out[masks.output[t], a : a + n]
            for r in range(n):
                target[r] += masks.value[first + np.int64(trailing_zeros(np.uint64(word[r])))]


@piece
def child(X, i, feature, threshold, missing_left, left, k):
    """The child of node k that row i goes to; a leaf's is itself."""
    v = X[i, np.uint64(feature[k])]
    right = (v > threshold[k]) | ((v != v) & (missing_left[k] == 0))
    return np.uint64(left[k]) + np.uint64(right)


@device
def walk_down(X, first, n, feature, threshold, missing_left, left, at):
    """at[r] = the leaf of row first + r, for n rows side by side, until none of them moves any more."""
    for r in range(n):
        at[r] = 0
    moved = np.uint64(1)
    while moved != np.uint64(0):
        moved = np.uint64(0)
        for r in range(n):
            k = at[r]
            to = child(X, first + r, feature, threshold, missing_left, left, k)
            moved |= to ^ k
            at[r] = to


@kernel(arrays=True)
def predict_walks(tid, n_threads, X, walks, t0, t1, out):
    """The same by walking; for trees of more than 64 leaves and for few rows.

    A block of rows goes through one tree after the other, whose nodes stay in the first-level cache meanwhile.
    """
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    at = np.zeros(_ABREAST, np.uint64)
    for a in range(k0, k1, BLOCK):
        stop = min(a + BLOCK, k1)
        for t in range(t0, t1):
            s, e, target = walks.start[t], walks.start[t + 1], out[walks.output[t]]
            feature, threshold, value = walks.feature[s:e], walks.threshold[s:e], walks.value[s:e]
            missing_left, left = walks.missing_left[s:e], walks.left[s:e]
            for b in range(a, stop, _ABREAST):
                n = min(_ABREAST, stop - b)
                walk_down(X, b, n, feature, threshold, missing_left, left, at)
                for r in range(n):
                    target[b + r] += value[at[r]]


@kernel(arrays=True)
def tree_leaves(tid, n_threads, X, walks, out):
    """out[row, tree] = the node number of the leaf that the row ends in."""
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    at = np.zeros(_ABREAST, np.uint64)
    for t in range(walks.depth.shape[0]):
        s, e = walks.start[t], walks.start[t + 1]
        feature, threshold = walks.feature[s:e], walks.threshold[s:e]
        missing_left, left = walks.missing_left[s:e], walks.left[s:e]
        for b in range(k0, k1, _ABREAST):
            n = min(_ABREAST, k1 - b)
            walk_down(X, b, n, feature, threshold, missing_left, left, at)
            for r in range(n):
                out[b + r, t] = at[r]


class Tests(NamedTuple):
    """A tree on bin codes, node by node: right when (code + shift) & 255 > bound; a leaf's step leads to itself."""

    column: np.ndarray  # int64 (n_nodes), as are the others
    shift: np.ndarray
    bound: np.ndarray
    to: np.ndarray  # the left child


@counting
def tests_of(bins, feature, cut, missing_left, left):
    """The tests of a tree on these bins, and how deep it is. cut[k] is the last bin that goes left."""
    n_nodes = left.shape[0]
    tests = Tests(
        np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64), np.full(n_nodes, 255, np.int64), np.arange(n_nodes)
    )
    depth, deepest = np.zeros(n_nodes, np.int64), np.int64(0)
    for k in range(n_nodes):
        if left[k] >= 0:
            column, shift, bound = test_of(bins.bundles, np.int64(feature[k]), np.int64(cut[k]), missing_left[k] != 0)
            tests.column[k], tests.shift[k], tests.bound[k] = column, shift, bound
            tests.to[k] = left[k]
            depth[left[k]] = depth[left[k] + 1] = depth[k] + 1  # children come after their parent
        deepest = max(deepest, depth[k])
    return tests, deepest


@piece
def step(codes, p, tests, k):
    """The child of node k that the row whose codes begin at p goes to."""
    right = ((codes[p + tests.column[k]] + tests.shift[k]) & 255) > tests.bound[k]
    return tests.to[k] + np.int64(right)


@device
def binned_leaf(codes, p, tests, missing_left, left, subset, sets):
    """The leaf (node number) of the row whose codes begin at p. subset[k] names the set of codes that go left, where
    there is one (`subset` is empty when there are no sets)."""
    k = np.int64(0)
    by_sets = subset.shape[0] > 0
    while left[k] >= 0:
        if by_sets and subset[k] >= 0:
            code = np.int64(codes[p + tests.column[k]])
            if code == MISSING:
                goes_left = missing_left[k] != 0
            else:
                goes_left = (sets[subset[k], code // 64] >> np.uint64(code % 64)) & np.uint64(1) != 0
            k = np.int64(left[k]) + (0 if goes_left else 1)
        else:
            k = step(codes, p, tests, k)
    return k


@kernel
def add_tree_binned(tid, n_threads, bins, index, feature, cut, missing_left, left, subset, sets, value, out):
    """out[r] += the leaf value of one tree for binned row index[r] (row r when `index` is empty)."""
    tests, _ = tests_of(bins, feature, cut, missing_left, left)
    k0, k1 = share(0, out.shape[0], tid, n_threads)
    codes, stride = bins.by_row, np.int64(bins.stride)
    for r in range(k0, k1):
        p = (np.int64(index[r]) if index.shape[0] > 0 else r) * stride
        out[r] += value[binned_leaf(codes, p, tests, missing_left, left, subset, sets)]


@kernel
def label_binned(tid, n_threads, bins, index, feature, cut, missing_left, left, subset, sets, labels):
    """labels[row] = the leaf of each binned row of `index`.

    Four rows walk side by side, without a branch, for as many steps as the tree is deep; a leaf's step leads to itself.
    Trees with sets walk row by row.
    """
    tests, deepest = tests_of(bins, feature, cut, missing_left, left)
    k0, k1 = share(0, index.shape[0], tid, n_threads)
    quick = k1 if subset.shape[0] == 0 else k0
    codes, stride = bins.by_row, np.int64(bins.stride)
    for r in range(k0, quick - 3, 4):
        p, q = np.int64(index[r]) * stride, np.int64(index[r + 1]) * stride
        u, v = np.int64(index[r + 2]) * stride, np.int64(index[r + 3]) * stride
        a, b, c, d = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for _ in range(deepest):
            a = step(codes, p, tests, a)
            b = step(codes, q, tests, b)
            c = step(codes, u, tests, c)
            d = step(codes, v, tests, d)
        labels[index[r]], labels[index[r + 1]], labels[index[r + 2]], labels[index[r + 3]] = a, b, c, d
    for r in range(k0 + (quick - k0) // 4 * 4, k1):
        i = np.int64(index[r])
        labels[i] = binned_leaf(codes, i * stride, tests, missing_left, left, subset, sets)
