"""Trees laid out for prediction on codes, which rows get from the trees' own thresholds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.coded import Coded
from stagewise.kernels.octets import AT_ONCE, Octets, leaf_spans
from stagewise.kernels.predict import Walks

__all__ = ["Coding", "MOST_BYTES", "coded", "coding", "octets"]

_MOST_CUTS = 254
"""Thresholds of a column up to which its values have codes: 255 is a missing value."""

MOST_BYTES = 64
"""Bytes of leaves, eight each, up to which all tests of a tree are faster than a walk: 512 leaves."""


class Coding(NamedTuple):
    """How nodes ask for codes."""

    inner: np.ndarray  # int64: the nodes that split, counted through all trees
    column: np.ndarray  # int64 of those: 2 * place of the column among `used`, + 1 when missing values go left
    bound: np.ndarray  # int64: right when the code is larger
    cuts: np.ndarray  # float64 (n_used, 256): thresholds of a column, ascending, then +inf
    used: np.ndarray  # int64 (n_used): the columns that are asked for


def coding(walks: Walks, inner: np.ndarray, used: np.ndarray) -> Coding | None:
    """Codes for all thresholds; None when a column has too many of them."""
    place, bound = np.searchsorted(used, walks.feature[inner]), np.empty(len(inner), np.int64)
    cuts = np.full((len(used), 256), np.inf)
    for j, own in enumerate(np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])):
        found, bound[own] = np.unique(walks.threshold[inner[own]], return_inverse=True)
        if len(found) > _MOST_CUTS:
            return None
        cuts[j, : len(found)] = found
    return Coding(inner, 2 * place + walks.missing_left[inner], bound, cuts, used)


def coded(walks: Walks, codes: Coding) -> Coded:
    """Nodes as words, to walk on."""
    left = walks.left.astype(np.uint64) << np.uint64(32)
    node = left | np.uint64(255 << 24)  # a leaf: no code is larger
    node[codes.inner] = left[codes.inner] | (codes.bound << 24 | codes.column).astype(np.uint64)
    return Coded(node, codes.cuts, codes.used, walks.value, walks.start, walks.output)


def octets(walks: Walks, codes: Coding, n_leaves: np.ndarray) -> Octets:
    """Tests by the bytes of leaves that they matter to. n_leaves: of each tree."""
    first, last = np.empty((2, len(walks.left)), np.int64)
    leaf_spans(walks, first, last)
    n_bytes = -(-n_leaves // 8)
    base = np.concatenate(([0], np.cumsum(n_bytes))).astype(np.int64)  # bytes of the trees before
    tree = np.repeat(np.arange(len(n_leaves)), np.diff(walks.start))
    below = (walks.start[tree] + walks.left)[codes.inner]  # the left child, whose leaves a failing test clears
    low, high = first[below] + 8 * base[tree[codes.inner]], last[below] + 8 * base[tree[codes.inner]]
    many = (high - 1) // 8 - low // 8 + 1
    test = np.repeat(np.arange(len(low)), many)
    byte = np.arange(len(test)) - np.repeat(np.cumsum(many) - many, many) + low[test] // 8
    cleared = (1 << np.minimum(high[test] - 8 * byte, 8)) - (1 << np.maximum(low[test] - 8 * byte, 0))
    counts = np.bincount(byte, minlength=base[-1])
    start = np.concatenate(([0], np.cumsum(-(-counts // AT_ONCE) * AT_ONCE))).astype(np.int64)
    order = np.argsort(byte, kind="stable")
    at = start[byte[order]] + np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    column, bound = np.zeros(start[-1], np.int32), np.full(start[-1], 255, np.uint8)  # a test that never fails
    keep = np.full(start[-1], 255, np.uint8)
    column[at], bound[at] = codes.column[test[order]], codes.bound[test[order]]
    keep[at] = 255 - cleared[order]
    value = np.zeros(8 * base[-1])
    leaf = np.flatnonzero(walks.left == np.arange(len(tree)) - walks.start[tree])
    value[first[leaf] + 8 * base[tree[leaf]]] = walks.value[leaf]
    return Octets(column, bound, keep, start, base, value, codes.cuts, codes.used, walks.output)
