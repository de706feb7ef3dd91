"""Ordered target statistics beside their formula, row by row."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from stagewise.data.statistics import _PURPOSE, STRENGTH, target_statistics
from stagewise.kernels.exact import stream_key


def slow(level, n_levels, y, weight, training):
    """For each row the earlier ones of its level, one after the other."""
    hashes = naive.hash_values(int(stream_key(0, _PURPOSE)), 0, len(y))
    w = np.ones(len(y)) if weight is None else weight
    w = w / w[training].max()
    prior = (w * y)[training].sum() / w[training].sum()

    def mean(rows):
        return ((w * y)[rows].sum() + STRENGTH * prior) / (w[rows].sum() + STRENGTH)

    levels = [mean(training & (level == k)) for k in range(n_levels)]
    earlier = lambda i: np.array([hashes[k] < hashes[i] for k in range(len(y))])  # noqa: E731
    rows = [
        np.nan if k < 0 else mean(training & (level == k) & earlier(i)) if training[i] else levels[k]
        for i, k in enumerate(level)
    ]
    return np.array(rows), np.array(levels), prior


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e300, 1e-300])
def test_the_formula(weighted, scale):
    rng = np.random.default_rng(0)
    n = 150
    level = rng.integers(-1, 9, n)
    y = rng.normal(size=n) * scale
    weight = rng.uniform(0.1, 3.0, n) if weighted else None
    training = rng.random(n) < 0.8
    got = target_statistics(level, 10, y, weight, training)
    rows, levels, prior = slow(level, 10, y, weight, training)
    np.testing.assert_allclose(got.rows, rows, rtol=1e-9)
    np.testing.assert_allclose(got.levels, levels, rtol=1e-9)
    assert got.prior == pytest.approx(prior, rel=1e-9)
    assert got.levels[9] == pytest.approx(got.prior, rel=1e-12), "a level without rows has the prior"


def test_no_row_sees_its_own_target():
    rng = np.random.default_rng(1)
    level, y = rng.integers(0, 5, 60), rng.normal(size=60)
    before = target_statistics(level, 5, y, None, np.ones(60, bool))
    for i in range(0, 60, 7):
        other = y.copy()
        j = (i + 1) % 60
        # another target of row i, made up for in a row of another level so that the prior stays
        other[i] += 0.5
        j = int(np.flatnonzero(level != level[i])[0])
        other[j] -= 0.5
        after = target_statistics(level, 5, other, None, np.ones(60, bool))
        assert after.rows[i] == pytest.approx(before.rows[i], rel=1e-12)


def test_rows_outside_of_training_do_not_count():
    rng = np.random.default_rng(2)
    level, y = rng.integers(0, 5, 80), rng.normal(size=80)
    training = np.arange(80) % 3 > 0
    got = target_statistics(level, 5, y, None, training)
    again = target_statistics(level, 5, np.where(training, y, 1e9), None, training)
    np.testing.assert_array_equal(got.rows, again.rows)
    np.testing.assert_array_equal(got.levels, again.levels)
