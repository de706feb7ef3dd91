"""Every line search beside a slow look along the line."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from stagewise.boosting.linesearch import breakpoint_root, huber_step, quantile_step, safeguarded_root

quick = settings(max_examples=60, deadline=None)


def problem(seed, n=41, zeros=True):
    rng = np.random.default_rng(seed)
    h = rng.normal(size=n)
    if zeros:
        h[::9] = 0.0
    return rng.standard_t(2, n) * 3.0, h, rng.exponential(size=n)


def pinball(r, alpha):
    return np.where(r > 0.0, alpha * r, (alpha - 1.0) * r)


def huber(r, delta):
    return np.where(np.abs(r) <= delta, 0.5 * r * r, delta * (np.abs(r) - 0.5 * delta))


def weighted_median(values, weights):
    """The usual one: the smallest value that half of the weight reaches, or the middle of two when met exactly."""
    order = np.argsort(values)
    values, running = values[order], np.cumsum(weights[order])
    half = running[-1] / 2
    k = int(np.searchsorted(running, half * (1 - 1e-13)))
    return 0.5 * (values[k] + values[k + 1]) if abs(running[k] - half) <= 1e-12 * half else values[k]


@pytest.mark.parametrize("seed", range(10))
def test_absolute_error_is_a_weighted_median(seed):
    r, h, w = problem(seed)
    use = h != 0.0
    twin = weighted_median(r[use] / h[use], w[use] * np.abs(h[use]))
    assert quantile_step(r, h, w, 0.5) == pytest.approx(twin, rel=1e-12)


def test_the_median_of_an_even_number_is_the_middle():
    ones = np.ones(4)
    assert quantile_step(np.array([1.0, 2.0, 4.0, 9.0]), ones, ones, 0.5) == 3.0


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_quantile_step_is_the_minimum(seed, alpha):
    r, h, w = problem(seed)
    at = quantile_step(r, h, w, alpha)
    use = h != 0.0
    tried = np.append(r[use] / h[use], at)  # a piecewise linear function has its minimum at a break point
    losses = [np.sum(w * pinball(r - rho * h, alpha)) for rho in tried]
    assert losses[-1] == pytest.approx(min(losses), rel=1e-12)


@pytest.mark.parametrize("delta", [1e-3, 0.5, 2.0, 100.0])
@pytest.mark.parametrize("seed", range(5))
def test_huber_step_is_the_minimum(seed, delta):
    r, h, w = problem(seed)
    at = huber_step(r, h, w, delta)
    slope = np.sum(w * h * np.clip(r - at * h, -delta, delta))
    scale = np.sum(w * np.abs(h)) * delta
    assert abs(slope) <= 1e-12 * scale or flips_at_a_break_point(r, h, w, delta, at)
    found = minimize_scalar(lambda rho: np.sum(w * huber(r - rho * h, delta)), tol=1e-12)
    assert np.sum(w * huber(r - at * h, delta)) <= found.fun * (1 + 1e-12)


def flips_at_a_break_point(r, h, w, delta, at):
    near = 1e-9 * (1.0 + abs(at))
    low, high = (np.sum(w * h * np.clip(r - a * h, -delta, delta)) for a in (at - near, at + near))
    return low >= 0.0 >= high


def test_a_wide_huber_step_is_least_squares_and_a_narrow_one_a_median():
    r, h, w = problem(3)
    assert huber_step(r, h, w, 1e9) == pytest.approx(np.sum(w * r * h) / np.sum(w * h * h), rel=1e-10)
    assert huber_step(r, h, w, 1e-9) == pytest.approx(quantile_step(r, h, w, 0.5), abs=1e-7)
    assert huber_step(r, h, w, 0.0) == quantile_step(r, h, w, 0.5)


def test_a_flat_line_goes_nowhere():
    r, _, w = problem(0)
    none = np.zeros(len(r))
    assert quantile_step(r, none, w, 0.5) == huber_step(r, none, w, 1.0) == 0.0
    assert quantile_step(r, none + 1.0, 0.0 * w, 0.5) == 0.0


@quick
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 3)), min_size=1, max_size=12), st.integers(1, 9))
def test_break_points_with_ties(points, tenths):
    """Whole numbers, so that the sums meet exactly: the quantile by its definition."""
    values = np.array([float(v) for v, _ in points])
    weights = np.array([float(w) for _, w in points])
    if weights.sum() == 0.0:
        return
    total = weights.sum()
    target = tenths / 10 * total
    at = breakpoint_root(values, weights, -target)
    below, through = weights[values < at].sum(), weights[values <= at].sum()
    assert below <= target + 1e-9
    assert through >= target - 1e-9


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("root", [-7.5, -1e-3, 0.2, 3.0, 1e4])
def test_safeguarded_root_of_a_line_and_of_a_curve(root, scale):
    assert safeguarded_root(lambda x: (scale * (x - root), scale)) == pytest.approx(root, rel=1e-13)
    steep = 1.0 / abs(root)
    found = safeguarded_root(lambda x: (scale * math.sinh(min(max(steep * (x - root), -700.0), 700.0)), scale * steep))
    assert found == pytest.approx(root, rel=1e-12)


def test_safeguarded_root_with_a_useless_second_derivative():
    assert safeguarded_root(lambda x: (math.atan(x - 5.0), 0.0)) == pytest.approx(5.0, rel=1e-12)
    assert safeguarded_root(lambda x: (math.atan(x - 5.0), 1e9)) == pytest.approx(5.0, rel=1e-9)
    assert safeguarded_root(lambda x: (math.nan, 1.0)) == 0.0
    assert safeguarded_root(lambda x: (0.0, 1.0)) == 0.0
    assert math.isfinite(safeguarded_root(lambda x: (-math.exp(-min(x, 700.0)), 0.0)))  # a minimum at infinity
