"""The exponential losses for K classes, beside their twins."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from kernels.build import NOTHING, evaluate, every_team
from kernels.test_pairs import beside
from stagewise.kernels import pairs, votes
from stagewise.kernels.pairs import CHUNK

every_loss = pytest.mark.parametrize("name", ["samme_pairs", "one_vs_rest_pairs"])


@pytest.mark.nojit
@every_loss
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_beside_the_formula(name, classes, weighted):
    rng = np.random.default_rng(classes)
    n = 40
    y, f = rng.integers(0, classes, n).astype(float), rng.normal(size=(classes, n)) * 3
    weight = rng.exponential(size=n) if weighted else NOTHING
    beside(evaluate(getattr(votes, name), y, f, weight), naive.TWINS[f"votes.{name}"](y, f, weight, 0.0))


@every_team
@every_loss
def test_threads_do_not_matter(name, n_threads):
    rng = np.random.default_rng(1)
    n = 2 * CHUNK + 17
    y, f, weight = rng.integers(0, 4, n).astype(float), rng.normal(size=(4, n)), rng.exponential(size=n)
    alone, team = (evaluate(getattr(votes, name), y, f, weight, 0.0, threads) for threads in (1, n_threads))
    for a, b in zip(alone, team, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.nojit
def test_two_classes_that_sum_to_zero_are_the_exponential_loss():
    rng = np.random.default_rng(3)
    y, f = rng.integers(0, 2, 30).astype(float), rng.normal(size=30)
    two, many = evaluate(pairs.exponential_pairs, y, f), evaluate(votes.samme_pairs, y, np.vstack([-f, f]))
    assert many.total == pytest.approx(two.total, rel=1e-13)
