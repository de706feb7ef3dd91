"""The leaves of all binned rows at once, for trees of at most 128 leaves.

Every test of the tree is put to a block of rows, whether they have come to it or not; those that have, move on. Codes
and node numbers are bytes that lie next to each other, so that one instruction does it for 32 or 64 rows: 0.8 ns a row
for 31 leaves where walking down takes 9 (Zen 4, one thread).
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.bundles import test_of
from stagewise.kernels.jit import device, kernel, piece
from stagewise.kernels.leaves import leaf_sums
from stagewise.kernels.team import barrier, share

__all__ = ["MOST_LEAVES", "label_all", "label_and_sum"]

MOST_LEAVES = 128
"""Their trees have at most 255 nodes, whose numbers are bytes."""

_BLOCK = 2048
_TESTS = 4
_NOBODY = 255  # no row is at this node


@device
def tree_tests(bundles, feature, cut, missing_left, left, columns, tests):
    """Fill columns and tests (shift, bound, node, left child); the number of tests, padded to a multiple of four."""
    n = 0
    for k in range(left.shape[0]):
        if left[k] >= 0:
            place, shift, bound = test_of(bundles, np.int64(feature[k]), np.int64(cut[k]), missing_left[k] != 0)
            columns[n], tests[n, 0], tests[n, 1], tests[n, 2], tests[n, 3] = place, shift, bound, k, left[k]
            n += 1
    while n % _TESTS != 0:
        columns[n], tests[n, 2] = 0, _NOBODY
        n += 1
    return n


@piece
def nth_test(by_column, columns, tests, k, a, b):
    """(codes of rows a..b, shift, bound, node, its left child, its right child)."""
    codes, left = by_column[columns[k], a:b], tests[k, 3]
    return codes, tests[k, 0], tests[k, 1], tests[k, 2], left, np.uint8(left + np.uint8(1))


@kernel(arrays=True)
def label_all(tid, n_threads, bins, feature, cut, missing_left, left, labels):
    """labels[row] = the leaf (node number) of every row of the bins.

    A row at a node goes left when code + shift <= bound: see `bundles.test_of`. All in 8 bits, which is what makes it
    fast; and four tests at a time: after a single one the compiler stores under a mask, which takes twice as long.
    """
    at, by_column = np.empty(_BLOCK, np.uint8), bins.by_column
    columns, tests = np.zeros(left.shape[0] + _TESTS, np.int64), np.zeros((left.shape[0] + _TESTS, 4), np.uint8)
    n_tests = tree_tests(bins.bundles, feature, cut, missing_left, left, columns, tests)
    k0, k1 = share(0, labels.shape[0], tid, n_threads)
    for a in range(k0, k1, _BLOCK):
        b = min(a + _BLOCK, k1)
        own, out = at[: b - a], labels[a:b]
        for r in range(b - a):
            own[r] = 0
        for k in range(0, n_tests, _TESTS):  # children come after their parent
            c0, s0, e0, n0, l0, r0 = nth_test(by_column, columns, tests, k, a, b)
            c1, s1, e1, n1, l1, r1 = nth_test(by_column, columns, tests, k + 1, a, b)
            c2, s2, e2, n2, l2, r2 = nth_test(by_column, columns, tests, k + 2, a, b)
            c3, s3, e3, n3, l3, r3 = nth_test(by_column, columns, tests, k + 3, a, b)
            for r in range(b - a):
                node = own[r]
                node = (l0 if np.uint8(c0[r] + s0) <= e0 else r0) if node == n0 else node
                node = (l1 if np.uint8(c1[r] + s1) <= e1 else r1) if node == n1 else node
                node = (l2 if np.uint8(c2[r] + s2) <= e2 else r2) if node == n2 else node
                node = (l3 if np.uint8(c3[r] + s3) <= e3 else r3) if node == n3 else node
                own[r] = node
        for r in range(b - a):
            out[r] = own[r]


@kernel
def label_and_sum(tid, n_threads, tree, places, sums):
    """`label_all` for all rows and `leaf_sums` for those of a sample, which are at `places`, with the arguments of
    each: one call of the threads instead of two, which cost 0.1 ms each. What `leaf_sums` takes for labels is filled on
    the way."""
    label_all(tid, n_threads, *tree)
    labels, gate, own_labels = tree[-1], sums[0], sums[1]
    if barrier(gate, n_threads):
        return
    k0, k1 = share(0, places.shape[0], tid, n_threads)
    own, where = own_labels[k0:k1], places[k0:k1]
    for k in range(k1 - k0):
        own[k] = labels[where[k]]
    leaf_sums(tid, n_threads, *sums)
