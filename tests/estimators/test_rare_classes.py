"""Classes of a handful of rows: steps that would be beyond certainty are cut short, and training does not run away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stagewise import GradientBoostingClassifier
from stagewise.losses.classification import LogLoss, MulticlassLogLoss

LARGEST = 38.0


def hands(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Five cards each, suits and ranks; the class says how many ranks are the same. Four of a kind is 1 of 4,000."""
    rng = np.random.default_rng(0)
    cards = np.argsort(rng.random((n, 52)), axis=1)[:, :5]
    rank = cards % 13
    same = (rank[:, :, None] == rank[:, None, :]).sum(axis=(1, 2))
    return np.column_stack([cards // 13, rank]).astype(float), np.unique(same, return_inverse=True)[1]


def fitted(X: np.ndarray, y: np.ndarray, **params: Any) -> GradientBoostingClassifier:
    return GradientBoostingClassifier(**{"n_estimators": 30, "random_state": 0} | params).fit(X, y)


def largest_leaf(model: GradientBoostingClassifier) -> float:
    return max(float(np.abs(tree.value).max()) for stage in model.model_.stages for tree in stage)


@pytest.mark.parametrize(
    "sampling",
    [{}, {"subsample": 0.3}, {"sampling": "goss"}, {"growth": "symmetric", "subsample": 0.3}],
    ids=["all rows", "a share", "goss", "symmetric"],
)
def test_training_does_not_run_away(sampling):
    X, y = hands(6_000)
    model = fitted(X, y, learning_rate=0.3, **sampling)
    history = model.history_
    assert history.train[-1] < 0.9 * history.initial
    assert largest_leaf(model) <= 0.3 * LARGEST


def test_without_the_limit_it_does(monkeypatch):
    X, y = hands(6_000)
    monkeypatch.setattr(MulticlassLogLoss, "largest_step", np.inf)
    model = fitted(X, y, learning_rate=0.3, subsample=0.3)
    assert model.history_.train[-1] > 100.0 * model.history_.initial


def test_two_classes_and_a_start_far_off():
    """Rows that are surely wrong in the beginning have second derivatives near 0."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2_000, 3))
    y = (X[:, 0] > 0.0).astype(int)
    model = GradientBoostingClassifier(n_estimators=60, learning_rate=0.5)
    model.fit(X, y, init_score=np.where(y == 1, -25.0, 25.0))
    assert largest_leaf(model) == 0.5 * LARGEST
    assert model.history_.train[-1] < 0.01 * model.history_.initial


@pytest.mark.parametrize("loss", [LogLoss, MulticlassLogLoss])
def test_most_tables_never_come_near_it(loss, monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 4))
    y = np.digitize(X[:, 0] + rng.normal(size=600), [0.0] if loss is LogLoss else [-0.5, 0.5])
    model = fitted(X, y)
    monkeypatch.setattr(loss, "largest_step", np.inf)
    np.testing.assert_array_equal(model.predict_proba(X), fitted(X, y).predict_proba(X))


def test_a_leaf_shrunk_by_l2_is_judged_by_what_is_left():
    """With l2 a step is -G/(H + l2), however small H is: no limit to the unshrunk one may come before."""
    X, y = np.zeros((40, 1)), np.repeat([0, 1], 20)
    model = GradientBoostingClassifier(n_estimators=1, learning_rate=1.0, l2_regularization=1.0, min_child_weight=0.0)
    model.fit(X, y, init_score=np.full(40, -60.0))
    assert largest_leaf(model) == pytest.approx(20.0)
