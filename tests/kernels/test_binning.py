"""Bin codes beside counting cuts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from kernels.build import every_team, quick, run
from stagewise.kernels.binning import aligned_bytes, bin_column, bin_matrix, interleave, row_bytes


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


def test_rows_of_codes_lie_in_one_cache_line_where_that_costs_little():
    lengths = {1: 4, 12: 12, 13: 16, 16: 16, 17: 20, 24: 24, 25: 32, 28: 32, 33: 36, 52: 52, 53: 64, 64: 64, 65: 68}
    assert {n: row_bytes(n) for n in lengths} == lengths
    for n in (1, 64, 1000):
        room = aligned_bytes(n)
        assert room.ctypes.data % 64 == 0
        assert room.shape == (n,)
        assert room.dtype == np.uint8
