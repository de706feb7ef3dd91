"""Cut points: sorting beside Python's, the division of values into bins beside a plain loop over fractions."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from kernels.build import every_team, quick
from stagewise.data.binning import describe
from stagewise.kernels.cuts import DIGITS, greedy_cuts, sort_keys

numbers = st.one_of(st.integers(-4, 4).map(float), st.floats(allow_nan=True, allow_infinity=True))
NO_ROWS = NO_WEIGHTS = np.empty(0, np.int64)


@pytest.mark.nojit
@quick
@given(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**32 - 1)), min_size=1, max_size=60), st.booleans())
@example([7], True)
@example([2**32 - 1, 0, 2**31, 2**31], False)
def test_sorting(values, narrow):
    keys = np.array(values, np.uint32 if narrow else np.uint64)
    keys = keys if narrow else keys * np.uint64(0x100000001)
    expected, order = naive.sort_keys(keys)
    for carried in (np.empty(0, np.int64), np.empty(len(keys), np.int64)):
        own = keys.copy()
        sort_keys(own, carried, np.empty((6, DIGITS), np.int64))
        assert own.tolist() == expected
        assert carried.tolist() == order[: len(carried)]


def check_cuts(X, rows, weights, max_bins, n_threads):
    cuts, marginals, found = describe(X, rows, weights, max_bins, n_threads)
    every = rows if len(rows) else np.arange(len(X))
    each = weights if len(weights) else np.ones(len(every), int)
    expected, distinct = naive.matrix_cuts(X, every, each, max_bins)
    assert found == distinct
    for j, (own, wanted) in enumerate(zip(cuts, expected, strict=True)):
        assert own.tolist() == wanted
        points, shares = naive.describe_bins(X[every, j], each, wanted)
        assert marginals[j].points.tolist() == points
        assert marginals[j].shares.tolist() == shares
        assert marginals[j].missing == pytest.approx(1.0 - sum(shares), abs=1e-12)


@pytest.mark.nojit
@quick
@given(
    st.lists(st.tuples(numbers, st.integers(1, 2**30)), min_size=1, max_size=40),
    st.booleans(),
    st.booleans(),
    st.integers(2, 12),
)
@example([(math.nan, 1), (math.nan, 2)], True, False, 5)
@example([(0.0, 1), (-0.0, 2), (math.inf, 3), (-math.inf, 4)], True, False, 255)
@example([(1e300, 1), (1.7e308, 2), (-1.7e308, 3), (5e-324, 4)], False, False, 255)
def test_one_column(pairs, weighted, single, max_bins):
    with np.errstate(over="ignore", under="ignore"):
        X = np.array([[v] for v, _ in pairs]).astype(np.float32 if single else np.float64)
    weights = np.array([w for _, w in pairs], np.int64) if weighted else NO_WEIGHTS
    check_cuts(X, NO_ROWS, weights, max_bins, 1)


@every_team
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_columns", [1, 5, 8, 16, 37])
def test_matrices_on_threads(n_columns, weighted, dtype, n_threads):
    rng = np.random.default_rng(n_columns)
    X = rng.normal(size=(1500, n_columns)).astype(dtype)
    X[:, ::3] = np.round(X[:, ::3], 1)
    X[rng.random(X.shape) < 0.05] = np.nan
    rows = np.flatnonzero(rng.random(1500) < 0.7)
    weights = rng.integers(1, 9, len(rows)) if weighted else NO_WEIGHTS
    check_cuts(X, rows, weights, 40, n_threads)


def cuts_of(counts: list[int], max_bins: int) -> list[int]:
    last = np.full(max_bins, -1, np.int64)
    n_bins = greedy_cuts(np.array(counts, np.int64), max_bins, last)
    return last[:n_bins].tolist()


@pytest.mark.nojit
@quick
@given(
    st.lists(st.one_of(st.integers(1, 5), st.integers(1, 1000), st.integers(1, 2**30)), min_size=1, max_size=80),
    st.integers(2, 40),
)
@example([1] * 10, 5)
@example([1, 10, 1, 10, 1, 10, 1], 4)
@example([100, 1, 1, 1, 1], 3)
@example([1, 1, 1, 1, 100], 3)
@example([5], 2)
@example([2] * 9, 6)  # a share of 3: one value less, one more are equally near
def test_greedy_cuts(counts, max_bins):
    ends = cuts_of(counts, max_bins)
    assert ends == naive.greedy_cuts(counts, max_bins)
    assert len(ends) <= max_bins
    assert ends[-1] == len(counts) - 1
    assert all(a < b for a, b in pairwise(ends))


@pytest.mark.parametrize("max_bins", [2, 16, 255])
@pytest.mark.parametrize("kind", ["even", "poisson", "zeros", "two spikes"])
def test_greedy_cuts_of_many_values(max_bins, kind):
    rng = np.random.default_rng(max_bins)
    counts = rng.poisson(3.0, 3000) + 1
    if kind == "even":
        counts[:] = 1
    elif kind == "zeros":
        counts[700] = 10 * counts.sum()
    elif kind == "two spikes":
        counts[[100, 101]] = counts.sum()
    ends = cuts_of(counts.tolist(), max_bins)
    assert ends == naive.greedy_cuts(counts.tolist(), max_bins)
    sizes = np.add.reduceat(counts, [0, *(np.array(ends[:-1]) + 1)])
    if kind in ("even", "poisson"):
        assert len(ends) == max_bins
        assert sizes.max() - sizes.min() <= 2 * counts.max()
    elif kind == "zeros" and max_bins > 2:
        assert {699, 700} <= set(ends), "a heavy value stands alone"
        assert len(ends) >= max_bins - 1
        assert np.delete(sizes, ends.index(700)).max() <= 2 * (counts.sum() - counts[700]) / (max_bins - 3)
