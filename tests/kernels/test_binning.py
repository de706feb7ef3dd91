"""Bin codes beside counting cuts, and the division of values into bins beside a plain loop over fractions."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from kernels.build import every_team, quick, run
from stagewise.kernels.binning import bin_column, bin_matrix, distinct_sorted, greedy_cuts, interleave


def padded(cuts: list[float]) -> np.ndarray:
    return np.array(cuts + [np.inf] * (256 - len(cuts)))


numbers = st.one_of(st.integers(-4, 4).map(float), st.floats(allow_nan=True, allow_infinity=True))


@pytest.mark.nojit
@quick
@given(
    st.lists(numbers, min_size=1, max_size=30), st.sets(st.floats(allow_nan=False, allow_infinity=False), max_size=40)
)
@example([-math.inf, math.inf, math.nan, 0.0, -0.0], {0.0})
@example([-math.inf, math.inf], {-math.inf})
@example([1.0], set())
def test_a_code_is_the_number_of_cuts_below(values, cuts):
    x, own = np.array(values), sorted(cuts)
    out = np.empty(len(x), np.uint8)
    run(1, bin_column, x, padded(own), out)
    assert out.tolist() == naive.bin_column(x, own)


@pytest.mark.nojit
@pytest.mark.parametrize("n_cuts", [0, 1, 2, 127, 128, 129, 253, 254])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_number_of_cuts(n_cuts, dtype):
    cuts = np.arange(n_cuts) + 0.5
    x = np.array([-1.0, 0.0, 0.5, 126.5, 127.0, 127.5, 253.4, 253.6, 1e9, np.inf, np.nan], dtype)
    out = np.empty(len(x), np.uint8)
    run(1, bin_column, x, padded(cuts.tolist()), out)
    assert out.tolist() == naive.bin_column(x, cuts.tolist())


def test_a_float32_is_compared_as_it_is():
    """0.1 as float32 lies above 0.1 as float64: it must not be rounded, nor the cut."""
    out = np.empty(1, np.uint8)
    run(1, bin_column, np.array([0.1], np.float32), padded([0.1]), out)
    assert out[0] == 1
    run(1, bin_column, np.array([0.1], np.float32), padded([float(np.float32(0.1))]), out)
    assert out[0] == 0


def check_matrix(n_rows: int, n_columns: int, n_threads: int, dtype: type) -> None:
    rng = np.random.default_rng(n_rows)
    X = np.rint(rng.normal(size=(n_rows, n_columns)) * 8).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    cuts = [np.sort(rng.choice(np.arange(-20, 20), rng.integers(0, 30), replace=False)) + 0.5 for _ in range(n_columns)]
    cuts[0] = np.unique(np.rint(cuts[0]))  # values that equal a cut
    stride = -(-n_columns // 4) * 4
    by_row, by_column = np.full(n_rows * stride, 99, np.uint8), np.full((n_columns, n_rows), 99, np.uint8)
    run(n_threads, bin_matrix, X, np.array([padded(own.tolist()) for own in cuts]), stride, by_row, by_column)
    codes = naive.bin_matrix(X, [own.tolist() for own in cuts])
    np.testing.assert_array_equal(by_column, codes.T)
    np.testing.assert_array_equal(by_row, naive.interleave(codes, stride))
    by_row[:] = 99
    run(n_threads, interleave, by_column, stride, by_row)
    np.testing.assert_array_equal(by_row, naive.interleave(codes, stride))


@pytest.mark.nojit
@pytest.mark.parametrize("n_rows, n_columns", [(1, 1), (9, 4), (30, 5)])
def test_matrices(n_rows, n_columns):
    check_matrix(n_rows, n_columns, 1, np.float64)


@every_team
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows, n_columns", [(2, 3), (256, 4), (1500, 7)])
def test_matrices_on_threads(n_rows, n_columns, n_threads, dtype):
    check_matrix(n_rows, n_columns, n_threads, dtype)


# --------------------------------------------------------------------------------------------------------------- cuts


@pytest.mark.nojit
@quick
@given(st.lists(st.tuples(numbers, st.integers(1, 2**30)), max_size=40), st.booleans(), st.booleans())
@example([], True, True)
@example([(math.nan, 1), (math.nan, 2)], True, False)
@example([(0.0, 1), (-0.0, 2), (math.inf, 3), (-math.inf, 4)], True, False)
def test_distinct_values(pairs, weighted, single):
    values = np.array([v for v, _ in pairs], np.float64)
    with np.errstate(over="ignore", under="ignore"):
        values = values.astype(np.float32 if single else np.float64)
    order = np.argsort(values, kind="stable")
    values = values[order]
    weights = np.array([w for _, w in pairs], np.int64)[order] if weighted else np.empty(0, np.int64)
    found, counts = np.empty_like(values), np.empty(len(values), np.int64)
    n = distinct_sorted(values, weights, found, counts)
    expected = naive.distinct_sorted(values, weights)
    assert found[:n].tolist() == list(expected)
    assert counts[:n].tolist() == list(expected.values())


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
