"""What a model remembers of its training columns."""

from __future__ import annotations

import numpy as np
import pytest

import stagewise as sw
from stagewise.data import binning


def marginals_of(X, weight=None, **options):
    return sw.Dataset(np.asarray(X, np.float64), None, weight, **options).marginals


def test_few_values_are_known_exactly():
    column = np.array([3.0, 1.0, 1.0, np.nan, 2.0, 1.0, np.nan, 3.0])
    (own,) = marginals_of(column[:, None])
    np.testing.assert_array_equal(own.points, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(own.shares, [3 / 8, 1 / 8, 2 / 8])
    assert own.missing == pytest.approx(2 / 8)


def test_weights_count_and_rows_without_weight_do_not():
    (own,) = marginals_of([[1.0], [2.0], [3.0], [np.nan]], [1.0, 2.0, 0.0, 1.0])
    np.testing.assert_array_equal(own.points, [1.0, 2.0])
    np.testing.assert_allclose(own.shares, [0.25, 0.5], rtol=1e-8)
    assert own.missing == pytest.approx(0.25)


@pytest.mark.parametrize("max_bins", [2, 16, 255])
def test_many_values_have_one_point_in_each_bin(max_bins):
    column = np.random.default_rng(0).normal(size=3000)
    data = sw.Dataset(column[:, None], max_bins=max_bins)
    (own,), (cuts,) = data.marginals, data.cuts
    codes = np.searchsorted(cuts, own.points)
    np.testing.assert_array_equal(codes, np.arange(len(cuts) + 1))
    np.testing.assert_allclose(own.shares, np.bincount(np.searchsorted(cuts, column)) / 3000)
    assert set(own.points) <= set(column)
    assert (own.points[0], own.points[-1]) == (column.min(), column.max())


def test_odd_columns():
    nothing, constant, infinite = marginals_of(
        np.column_stack([np.full(6, np.nan), np.full(6, 2.0), [-np.inf, np.inf, 1.0, 2.0, 3.0, 1.0]])
    )
    assert (len(nothing.points), nothing.missing) == (0, 1.0)
    np.testing.assert_array_equal(constant.points, [2.0])
    np.testing.assert_array_equal(infinite.points, [-np.inf, 1.0, 2.0, 3.0, np.inf])


def test_large_tables_are_sampled_like_their_cut_points(monkeypatch):
    monkeypatch.setattr(binning.sample_rows, "__defaults__", (500,))
    column = np.random.default_rng(0).normal(size=4000)
    column[::4] = np.nan
    (own,) = marginals_of(column[:, None])
    assert own.missing == pytest.approx(0.25, abs=0.08)
    assert own.shares.sum() + own.missing == pytest.approx(1.0)
    few = np.floor(column)
    (own,) = marginals_of(few[:, None])  # few values: all rows are looked at
    assert own.missing == 0.25
