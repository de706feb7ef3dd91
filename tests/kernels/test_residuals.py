"""Residuals as integers, beside Python's own."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from stagewise import Dataset
from stagewise.backends.cpu import CpuBackend
from stagewise.backends.residuals import ResidualWords
from stagewise.boosting.residuals import residual_packing
from stagewise.kernels.histogram import PITCH
from stagewise.kernels.jit import JIT
from stagewise.kernels.residuals import BUCKETS, LOAD_SUMS, load_residuals, step_residuals
from stagewise.params import TreeParams

THREADS = [1, 2, 3] if JIT else [1]


@pytest.mark.nojit
@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("size", [1.0, 1e9, 1e-200])
def test_loading(placed, size):
    rng = np.random.default_rng(0)
    n, scale, shift = 50, 2.0**30 / 2.0 ** np.ceil(np.log2(size)), 12
    y, raw = rng.normal(size=n) * size, np.rint(rng.normal(size=n) * size * scale) / scale
    y[3] = raw[3]
    skip, places = rng.random(n) < 0.2, np.empty(0, np.uint32)
    if placed:
        places = np.sort(rng.choice(2 * n, n, replace=False)).astype(np.uint32)
    words, sums, counts = np.full(2 * n, -1, np.int64), np.zeros((2, LOAD_SUMS), np.int64), np.zeros((2, BUCKETS), int)
    for tid in range(2):
        load_residuals(tid, 2, y, raw, skip, places, scale, np.int64(shift), np.int64(25), words, sums, counts)
    grads, peak, stretches, total, squares = naive.TWINS["residuals.load_residuals"](y, raw, skip, scale, 1 << 25)
    own = words[places] if placed else words[:n]
    assert (own >> shift).tolist() == grads
    assert (own & 4095 == 1).all()
    assert sums[:, 0].max() == peak
    assert sums[:, 1].sum() == total
    found = counts.sum(axis=0)
    assert {int(k) - BUCKETS // 2: int(found[k]) for k in np.flatnonzero(found)} == stretches
    high, mixed, low = (int(sums[:, k].sum()) + (int(sums[:, k + 1].sum()) << 24) for k in (2, 4, 6))
    assert (high << 40) + (mixed << 21) + low == squares


@pytest.mark.nojit
@pytest.mark.parametrize("labels_of", [np.uint16, np.uint32])
def test_steps(labels_of):
    rng = np.random.default_rng(1)
    n, shift = 60, 12
    grads, labels = rng.integers(-(2**38), 2**38, n), rng.integers(0, 5, n).astype(labels_of)
    steps = np.append(rng.integers(-(2**37), 2**37, 4), 0)
    words, peaks = (grads << shift) + 1, np.zeros((2, 8), np.int64)
    for tid in range(2):
        step_residuals(tid, 2, labels, steps << shift, np.int64(shift), words, peaks)
    expected = naive.TWINS["residuals.step_residuals"](grads.tolist(), labels, steps)
    assert (words >> shift).tolist() == expected
    assert (words & 4095 == 1).all()
    assert peaks[:, 0].max() == max(abs(g) for g in expected)


@pytest.mark.nojit
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(
    "params",
    [
        {"max_leaf_nodes": 6},
        {"max_leaf_nodes": 6, "growth": "levelwise", "max_depth": 2},
        {"max_leaf_nodes": 31, "min_samples_leaf": 60},  # leaves that nobody could split, and their parents
        {"max_leaf_nodes": 2},  # the first split is the last one
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_the_next_root_follows_from_the_leaves(threads, params, wide):
    """With missing values, and nodes of either kind of histogram."""
    rng = np.random.default_rng(2)
    n = 400
    X = rng.normal(size=(n, 5))
    X[rng.random((n, 5)) < 0.1] = np.nan
    X[:, 4] = np.rint(X[:, 4])
    y = np.nan_to_num(X[:, 0]) + np.sin(np.nan_to_num(X[:, 1])) + rng.normal(size=n)
    data = Dataset(X, n_jobs=1)
    tree = TreeParams(**{"min_samples_leaf": 5, **params})
    with CpuBackend(data.bins, n, data.cuts, tree, threads) as backend:
        packing = residual_packing(y, float(np.median(y)), backend, np.ones(n, bool))
        if wide:  # as if a block had 99 rows
            packing = packing._replace(block=np.int64(99))
            backend._room[1] = backend._room[0]
            backend._pools = backend._make_pools(*backend._room)
        words = ResidualWords(backend, packing, np.zeros(n, bool))
        words._following = backend.keeping = True
        words.load(y, np.full(n, np.rint(np.median(y) * packing.grad_scale) / packing.grad_scale))
        grown = backend.grow(packing, np.empty(0, np.uint32), np.empty(0, np.uint32), np.uint64(1))
        assert backend.histograms_kept
        steps = np.where(grown.tree.left < 0, rng.integers(-(2**30), 2**30, grown.tree.n_nodes), 0)
        before = (backend._words >> packing.grad_shift).tolist()
        words.step(steps)
        after = naive.TWINS["residuals.step_residuals"](before, backend.labels, steps)
        assert (backend._words >> packing.grad_shift).tolist() == after
        codes = data.bins.by_column.T
        expected = naive.TWINS["residuals.next_root"](codes, after, int(packing.count_bits))
        got = words.root.reshape(2, -1, PITCH)[:, : codes.shape[1], :256]
        np.testing.assert_array_equal(got, expected)
