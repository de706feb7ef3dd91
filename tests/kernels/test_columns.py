"""Moments of columns, beside sums and SciPy's B-splines."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from kernels.build import every_team, run
from stagewise.kernels.columns import line_moments, spline_moments, spline_values


@pytest.mark.nojit
@every_team
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 101])
def test_line_moments(n, n_threads):
    rng = np.random.default_rng(n)
    columns, response, out = rng.normal(size=(5, n)), rng.normal(size=n), np.empty(5)
    run(n_threads, line_moments, columns, response, out)
    np.testing.assert_allclose(out, naive.line_moments(columns, response), rtol=1e-12, atol=1e-13)


@pytest.mark.nojit
@every_team
def test_spline_moments(n_threads):
    rng = np.random.default_rng(1)
    columns, response, out = rng.normal(size=(4, 50)), rng.normal(size=50), np.empty((4, 10))
    low, width = np.array([-3.0, -1.0, 0.0, -0.5]), np.array([1.0, 0.3, 0.2, 0.1])  # some rows lie beyond
    run(n_threads, spline_moments, columns, low, width, response, out)
    np.testing.assert_allclose(out, naive.spline_moments(columns, low, width, response, 7), rtol=1e-11, atol=1e-12)


@pytest.mark.nojit
@every_team
def test_spline_values(n_threads):
    rng = np.random.default_rng(2)
    x, coef = np.concatenate([rng.uniform(-2, 2, 40), [0.0, 0.7, -1e300, 1e300]]), rng.normal(size=9)
    out = np.empty(len(x))
    run(n_threads, spline_values, x, -1.0, 0.35, coef, out)
    np.testing.assert_allclose(out, naive.spline_values(x, -1.0, 0.35, coef), rtol=1e-11, atol=1e-12)


@pytest.mark.nojit
def test_splines_sum_to_one():
    x, out = np.linspace(-3.0, 3.0, 31), np.empty(31)
    run(1, spline_values, x, -1.0, 0.25, np.ones(11), out)
    np.testing.assert_allclose(out, 1.0, rtol=1e-14)
