"""Exact sums, and the deviance that comes with the pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stagewise.boosting.pairs import PairsMaker, exact_sum
from stagewise.errors import InputError
from stagewise.kernels.team import Team
from stagewise.losses.classification import LogLoss
from stagewise.losses.regression import SquaredError

NO_WEIGHT = np.empty(0)


def total(values, weight=NO_WEIGHT, n_threads=1):
    with Team(n_threads) as team:
        return exact_sum(team, np.asarray(values, float), np.asarray(weight, float))


@pytest.mark.nojit
def test_sums_are_those_of_fractions():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=500), rng.uniform(0.1, 3.0, 500)
    assert total(values) == pytest.approx(math.fsum(values), rel=1e-15)
    products = values * weight
    assert total(values, weight) == pytest.approx(math.fsum(products), rel=1e-15)
    assert total([]) == 0.0
    assert total([0.0, 0.0]) == 0.0


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e-200, 1e200, 1e300])
def test_any_scale(scale):
    values = scale * np.random.default_rng(1).uniform(0.5, 1.0, 1000)
    assert total(values) == pytest.approx(math.fsum(values), rel=1e-12)


def test_cancellation():
    """What is left when large values cancel is right to 76 bits below the largest."""
    values = np.concatenate([np.full(1000, 1e9), np.full(1000, -1e9), np.full(1000, 0.1)])
    assert total(values) == pytest.approx(100.0, rel=1e-12)


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_order_and_threads_mean_nothing(n_threads):
    rng = np.random.default_rng(2)
    values, weight = rng.standard_cauchy(10_000), 10.0 ** rng.uniform(-6, 6, 10_000)
    order = rng.permutation(10_000)
    assert total(values, weight) == total(values[order], weight[order], n_threads)


def test_products_beyond_the_range_of_floats():
    with pytest.raises(InputError, match="y times sample_weight goes beyond float64's range"):
        total([1e300, 1.0], [1e30, 1.0])


def test_the_deviance_of_an_explosion_is_large_and_no_nan():
    y = np.array([0.0, 1.0, 1.0])
    with Team(1) as team:
        maker = PairsMaker(SquaredError(), y, NO_WEIGHT, team)
        assert maker(np.zeros((1, 3)), np.zeros(1)).deviance == pytest.approx(2 / 3)
        assert maker(np.full((1, 3), 1e200), np.zeros(1)).deviance > 1e6
        maker = PairsMaker(SquaredError(), 1e300 * y, NO_WEIGHT, team)
        assert 1e300 < maker(np.zeros((1, 3)), np.zeros(1)).deviance < np.inf


def test_peaks():
    y, w = np.array([0.0, 1.0, 1.0]), np.array([1.0, 4.0, 2.0])
    with Team(1) as team:
        pairs = PairsMaker(LogLoss(), y, w, team)(np.zeros((1, 3)), np.zeros(1))
    assert pairs.grad_peak == 2.0
    assert pairs.hess_peak == 1.0
    assert pairs.deviance == pytest.approx(np.log(2.0), rel=1e-15)
