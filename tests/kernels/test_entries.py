"""Sparse columns beside their dense selves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import naive
import naive_entries
from kernels.build import every_team, run
from stagewise.data import binning
from stagewise.data.bundling import Codes, find_bundles
from stagewise.data.sparse import Sparse, read_sparse
from stagewise.kernels.entries import WORDS, assign_bundles, entry_codes, fill_rows, write_bundles


def table(rng: np.random.Generator, n_rows: int, n_columns: int, dtype: type = np.float64) -> sp.csc_array:
    """Whole and broken numbers, negative ones, NaN, infinities, stored zeros; some columns empty, one full."""
    values = [1.0, 2.0, -1.5, 0.25, np.nan, np.inf, 0.0, -0.0, 1e300 if dtype is np.float64 else 1e30]
    X = np.where(rng.random((n_rows, n_columns)) < rng.choice([0.0, 0.1, 0.4], n_columns), 1.0, 0.0)
    X[:, 0] = 1.0
    stored = sp.csc_array(X)
    stored.data = rng.choice(values, stored.nnz).astype(dtype)
    stored.data[: n_rows // 2] = rng.normal(size=n_rows // 2)  # many distinct values in the first column
    return stored


def read(X: sp.csc_array, empty: bool = False) -> Sparse:
    return read_sparse(X, empty, "")


@every_team
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_cut_points_are_those_of_the_dense_matrix(monkeypatch, n_threads, dtype, weighted, sampled):
    rng = np.random.default_rng(1)
    X = table(rng, 90, 20, dtype)
    weight = rng.integers(0, 4, 90).astype(float) if weighted else None
    if sampled:
        monkeypatch.setattr(binning, "sample_rows", lambda n: np.flatnonzero(np.arange(n) % 3 == 1))
    for max_bins in (4, 255):
        cuts, marginals = binning.find_entry_cuts(read(X), weight, max_bins, n_threads)
        dense = X.toarray()
        each = np.ones(90, int) if weight is None else np.zeros(90, int)
        if weight is not None:
            each[weight > 0.0] = binning.integer_weights(weight[weight > 0.0])
        rows = np.flatnonzero(each > 0)
        sample = rows[np.arange(len(rows)) % 3 == 1] if sampled else rows
        expected, _, again = naive_entries.entry_cuts(naive.matrix_cuts, dense, sample, each, max_bins)
        assert [own.tolist() for own in cuts] == expected
        for j, own in enumerate(marginals):
            used = rows if again[j] or not sampled else sample
            points, shares = naive.describe_bins(dense[used, j], each[used], expected[j])
            assert own.points.tolist() == points
            assert own.shares.tolist() == shares


@every_team
@pytest.mark.parametrize("empty", [False, True])
def test_codes(n_threads, empty):
    rng = np.random.default_rng(2)
    X = table(rng, 60, 12)
    cuts = [
        np.sort(rng.choice([-2.0, -1.0, -0.1, 0.0, 0.1, 0.5, 1.5, 3.0], rng.integers(0, 8), replace=False))
        for _ in range(12)
    ]
    start = np.append(0, np.cumsum([len(own) for own in cuts]))
    entries, out, zero = read(X).by_column(), np.empty(X.nnz, np.uint8), np.empty(12, np.uint8)
    run(n_threads, entry_codes, entries.start, entries.values, start, np.concatenate(cuts), empty, out, zero)
    for j in range(12):
        own = slice(entries.start[j], entries.start[j + 1])
        assert [*out[own], zero[j]] == naive_entries.entry_codes(entries.values[own].tolist(), cuts[j], empty)


@pytest.mark.parametrize("most", [0, 3, 10])
@pytest.mark.parametrize("density", [0.005, 0.03, 0.2])
def test_bundles_are_assigned_greedily(most, density):
    rng = np.random.default_rng(3)
    n_rows, n = 100, 300
    columns = [set(np.flatnonzero(rng.random(n_rows) < density * rng.choice([1, 4])).tolist()) for _ in range(n)]
    size = rng.choice([-1, 0, 1, 1, 1, 5, 100, 254, 255], n)
    start = np.append(0, np.cumsum([len(own) for own in columns])).astype(np.int64)
    rows = np.array([row for own in columns for row in sorted(own)], np.int32)
    for order in (np.arange(n), rng.permutation(n)):
        out = np.empty(n, np.int64)
        codes, default = np.ones(len(rows), np.uint8), np.zeros(n, np.uint8)
        marks = np.zeros((n_rows, WORDS), np.uint64)
        found = assign_bundles(start, rows, codes, default, size, order, most, marks, out)
        assert out.tolist() == naive_entries.assign_bundles(columns, size.tolist(), order.tolist(), n_rows, most)
        assert found == out.max() + 1
        for bundle in range(found):
            own = np.flatnonzero(out == bundle)
            met = sum(len(columns[j]) for j in own) - len(set().union(*(columns[j] for j in own)))
            assert len(own) == 1 or (met <= most and size[own].sum() <= 254)


@every_team
@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_bundles_are_written(n_threads, rate):
    rng = np.random.default_rng(4)
    n_rows, n = 40, 30
    n_bins = rng.integers(1, 6, n)
    default = np.where(rng.random(n) < 0.2, 255, rng.integers(0, n_bins)).astype(np.uint8)
    codes = np.repeat(default[:, None], n_rows, axis=1)
    for j in range(n):
        off = rng.random(n_rows) < rng.choice([0.02, 0.1, 0.5])
        codes[j, off] = rng.choice([*range(n_bins[j]), 255], off.sum())
    j, rows = np.nonzero(codes != default[:, None])
    start = np.append(0, np.cumsum(np.bincount(j, minlength=n)))
    found = Codes(start, rows.astype(np.int32), codes[j, rows], default, n_bins.astype(np.int64), n_rows)
    bundles = find_bundles(found, rate)
    assert len(bundles.kind) < n
    out = np.empty((len(bundles.kind), n_rows), np.uint8)
    gate = np.zeros(32, np.int64)
    run(n_threads, write_bundles, gate, bundles, found.start, found.rows, found.codes, found.default, out)
    np.testing.assert_array_equal(out, naive_entries.write_bundles(bundles, codes))


@every_team
@pytest.mark.parametrize("empty", [False, True])
def test_rows_are_laid_out(n_threads, empty):
    X = table(np.random.default_rng(5), 50, 9)
    entries, used = read(X).by_row(), [1, 4, 8]
    to = np.full(9, -1, np.int64)
    to[used] = [0, 1, 2]
    out = np.full((20, 3), 77.0)
    run(n_threads, fill_rows, entries.start, entries.place, entries.values, to, empty, np.int64(10), out)
    np.testing.assert_array_equal(out, naive_entries.fill_rows(X.toarray()[10:30], used, empty))
