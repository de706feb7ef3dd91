"""Splits by sets of categories, for prediction from raw values.

All sets that a tree asks of one column become one table: a row's code is looked up, and the word found there says at
once what all of these tests do to the row's leaves (predict.py). A column of codes so costs one look-up a tree, however
often the tree splits on it, and models without categories run the code they had.

Larger trees, and single rows: a walk from node to child that asks for a bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.jit import device, kernel
from stagewise.kernels.team import share

__all__ = ["Lookups", "Sets", "fill_codes", "fill_lookups", "same_set", "walk_sets"]

_ROWS = 256
"""Rows that go through one tree after the other."""


class Sets(NamedTuple):
    """The sets of all trees; nothing in it when no tree has one."""

    subset: np.ndarray  # int32 (n_nodes of all trees): the set of a node, -1 for a threshold; empty: no sets at all
    start: np.ndarray  # int64 (n_sets + 1): the words of a set
    words: np.ndarray  # uint64: bit c % 64 of word c // 64 is set when code c goes left


class Lookups(NamedTuple):
    """Tables of the sets of a tree on a column.

    A table has an entry for each code below its column's size, one for all other codes and one for missing values.
    """

    start: np.ndarray  # int64 (n_trees + 1): the look-ups of a tree
    place: np.ndarray  # int64: which of the columns with sets
    first: np.ndarray  # int64: the first entry of the table
    table: np.ndarray  # uint32 or uint64
    column: np.ndarray  # int32: the columns with sets, ascending
    size: np.ndarray  # int64: codes of each that some set contains or that lie below one


@device
def contains(words, first, last, v):
    """Whether a value that is not missing is a code of the set words[first:last]."""
    if not ((v >= 0.0) & (v < 64.0 * (last - first))):
        return False
    code = np.int64(v)
    return (words[first + (code >> 6)] >> np.uint64(code & 63)) & np.uint64(1) != np.uint64(0)


@device
def same_set(sets, a, b):
    """Whether the nodes a and b, counted through all trees, have no set or equal ones."""
    if sets.subset.shape[0] == 0:
        return True
    p, q = sets.subset[a], sets.subset[b]
    if p < 0 or q < 0:
        return p < 0 and q < 0
    n, m = sets.start[p + 1] - sets.start[p], sets.start[q + 1] - sets.start[q]
    for w in range(max(n, m)):
        one = sets.words[sets.start[p] + w] if w < n else np.uint64(0)
        other = sets.words[sets.start[q] + w] if w < m else np.uint64(0)
        if one != other:
            return False
    return True


@device
def fill_codes(x, lookups, codes):
    """codes[c, r] = the entry of row r's value in tables of the c-th column with sets; x: a block by column."""
    for c in range(lookups.column.shape[0]):
        values, out, size = x[lookups.column[c]], codes[c], lookups.size[c]
        for r in range(out.shape[0]):  # a block; the values go on beyond it
            v = values[r]
            if v != v:
                out[r] = size + 1
            else:
                out[r] = np.int64(v) if (v >= 0.0) & (v < size) else size


@kernel
def fill_lookups(walks, right, lookups):
    """Fill the tables: an entry is the union of right[node] over the nodes that send its rows right.

    right: uint64 by node. The tables of a tree stand in the order of their columns' places; they are 0 before.
    """
    sets = walks.sets
    for t in range(walks.depth.shape[0]):
        s = walks.start[t]
        for k in range(walks.start[t + 1] - s):
            if sets.subset[s + k] < 0:
                continue
            q = lookups.start[t]
            while lookups.column[lookups.place[q]] != walks.feature[s + k]:
                q += 1
            first, size = lookups.first[q], lookups.size[lookups.place[q]]
            a, b = sets.start[sets.subset[s + k]], sets.start[sets.subset[s + k] + 1]
            for code in range(size + 1):  # the last of these is in no set
                if not contains(sets.words, a, b, np.float64(code)):
                    lookups.table[first + code] |= right[s + k]
            if walks.missing_left[s + k] == 0:
                lookups.table[first + size + 1] |= right[s + k]


@kernel
def walk_sets(tid, n_threads, X, walks, t0, t1, leaves, out):
    """Walks down the trees t0..t1: out[output, row] += leaf values, and leaves[row, tree] = the leaf's node number.

    Either may be empty, and is then left alone.
    """
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    sets = walks.sets
    for a in range(k0, k1, _ROWS):
        stop = min(a + _ROWS, k1)
        for t in range(t0, t1):
            s, e = walks.start[t], walks.start[t + 1]
            feature, threshold, missing_left = walks.feature[s:e], walks.threshold[s:e], walks.missing_left[s:e]
            left, subset, value = walks.left[s:e], sets.subset[s:e], walks.value[s:e]
            for i in range(a, stop):
                k = np.int64(0)
                while left[k] != k:
                    v = X[i, feature[k]]
                    if v != v:
                        goes_left = missing_left[k] != 0
                    elif subset[k] >= 0:
                        goes_left = contains(sets.words, sets.start[subset[k]], sets.start[subset[k] + 1], v)
                    else:
                        goes_left = v <= threshold[k]
                    k = np.int64(left[k]) + (0 if goes_left else 1)
                if out.shape[0] > 0:
                    out[walks.output[t], i] += value[k]
                if leaves.shape[0] > 0:
                    leaves[i, t] = k
