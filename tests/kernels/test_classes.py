"""Splits by the Gini index, beside a look at every one of them."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from kernels.build import every_team, run
from stagewise.kernels.classes import class_splits, class_sums


def sums_of(node, code, weight, n_nodes, n_classes, n_threads=1):
    out = np.zeros((n_threads, n_nodes, n_classes + 1), np.int64)
    run(n_threads, class_sums, node, code, weight, out)
    return out.sum(axis=0)


def splits_of(by_column, n_bins, node, code, weight, n_nodes, n_classes, min_rows, n_threads=1, by_code=False):
    whole = sums_of(node, code, weight, n_nodes, n_classes)
    shape = (len(by_column), n_nodes)
    gain, cut, side = np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    hist = np.zeros((n_threads, n_nodes, 256, n_classes + 1), np.int64)
    in_sets = np.full(len(by_column), by_code)
    run(n_threads, class_splits, by_column, n_bins, in_sets, node, code, weight, whole, min_rows, hist, gain, cut, side)
    return gain, cut, side


def case(seed, n=60, columns=4, nodes=2, classes=3, missing=0.2):
    rng = np.random.default_rng(seed)
    n_bins = np.array([2, 3, 9, 30][:columns], np.int64)
    by_column = np.stack([rng.integers(0, b, n) for b in n_bins]).astype(np.uint8)
    by_column[rng.random(by_column.shape) < missing] = 255
    node = rng.integers(-1, nodes, n).astype(np.int32)
    return by_column, n_bins, node, rng.integers(0, classes, n), rng.integers(1, 1 << 40, n), nodes, classes


@pytest.mark.nojit
@every_team
def test_sums(n_threads):
    _, _, node, code, weight, n_nodes, n_classes = case(0, n=201)
    got = sums_of(node, code, weight, n_nodes, n_classes, n_threads)
    np.testing.assert_array_equal(got, naive.class_sums(node, code, weight, n_nodes, n_classes))


@pytest.mark.nojit
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("min_rows", [1, 5])
@pytest.mark.parametrize("by_code", [False, True])
def test_the_best_of_all_splits(seed, min_rows, by_code):
    by_column, n_bins, node, code, weight, n_nodes, n_classes = case(seed, missing=0.2 * (seed % 2))
    gain, cut, side = splits_of(by_column, n_bins, node, code, weight, n_nodes, n_classes, min_rows, by_code=by_code)
    for j, bins in enumerate(by_column):
        for m in range(n_nodes):
            own = node == m
            twin = naive.class_splits(bins[own], code[own], weight[own], n_classes, min_rows, by_code)
            best = max((g for g, _, _ in twin), default=0)
            assert gain[j, m] == pytest.approx(float(best), rel=1e-9)
            if best:
                assert (cut[j, m], side[j, m]) in [(c, s) for g, c, s in twin if g == best]


@every_team
def test_threads_do_not_matter(n_threads):
    given = case(3, n=500)
    for a, b in zip(splits_of(*given, 2), splits_of(*given, 2, n_threads), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.nojit
def test_nothing_to_gain_and_ties():
    bins = np.array([[0, 0, 1, 1, 2, 2]], np.uint8)
    node, weight = np.zeros(6, np.int32), np.ones(6, np.int64)
    same = splits_of(bins, np.array([3]), node, np.zeros(6, np.int64), weight, 1, 3, 1)
    assert same[0][0, 0] == 0.0
    code = np.array([0, 0, 1, 1, 0, 0])  # both cuts are worth the same: the lower one
    gain, cut, _ = splits_of(bins, np.array([3]), node, code, weight, 1, 3, 1)
    assert gain[0, 0] > 0.0
    assert cut[0, 0] == 0
