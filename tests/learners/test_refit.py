"""Refit: the same trees, leaves of other data."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

import stagewise as sw
from io_models import fitted, signal, table
from stagewise.errors import InputError, ParameterError
from stagewise.io.format import dumps

KINDS = ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "binary", "exponential", "classes")


@pytest.mark.parametrize("kind", KINDS)
def test_refit_on_the_training_data_gives_the_same_leaves(kind):
    model, X, y = fitted(kind)
    again = model.refit(X, y, decay=0.0)
    # start and leaves of squared error are whole numbers of a unit (boosting/residuals.py); re-fitted ones are not
    unit = 1e-10 if kind == "squared_error" else 0.0
    for stage, other in zip(model.model_.stages, again.model_.stages, strict=True):
        for tree, same in zip(stage, other, strict=True):
            np.testing.assert_allclose(tree.value, same.value, rtol=0, atol=unit)
            np.testing.assert_array_equal(tree.count, same.count)
            np.testing.assert_array_equal(tree.cover, same.cover)
            np.testing.assert_array_equal(tree.threshold, same.threshold)
    np.testing.assert_allclose(model.model_.initial, again.model_.initial, rtol=0, atol=unit)


@pytest.mark.parametrize("kind", KINDS)
def test_decay_1_changes_nothing_and_others_help(kind):
    model, X, y = fitted(kind)
    before = dumps(model)
    np.testing.assert_array_equal(model.refit(X[:50], y[:50], decay=1.0).predict(X), model.predict(X))
    part = model.refit(X[:150], y[:150], decay=0.5)
    assert dumps(model) == before  # the old one is as it was
    assert part.history_.train[-1] < part.history_.initial
    assert type(part) is type(model)
    assert part.n_estimators_ == model.n_estimators_


def test_one_tree_by_hand():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = sw.GradientBoostingRegressor(n_estimators=1, learning_rate=0.5, min_samples_leaf=2)
    model.fit(X, [0.0, 0.0, 4.0, 4.0])
    again = model.refit(X[:3], [1.0, 2.0, 9.0], decay=0.25)
    start = 0.25 * 2.0 + 0.75 * 4.0
    left, right = 0.25 * -1.0 + 0.75 * 0.5 * (1.5 - start), 0.25 * 1.0 + 0.75 * 0.5 * (9.0 - start)
    np.testing.assert_allclose(again.predict(X), [start + left, start + left, start + right, start + right])
    nobody = model.refit(X[:2], [1.0, 1.0], decay=0.0)  # the right leaf keeps its value
    np.testing.assert_allclose(nobody.predict([[3.0]]), 1.0 + 1.0)


def test_rows_of_weight_0_take_no_part():
    model, X, y = fitted("squared_error")
    weight = (np.arange(len(X)) % 3 > 0).astype(float)
    keep = weight > 0
    one, two = model.refit(X, y, weight, decay=0.3), model.refit(X[keep], y[keep], decay=0.3)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_a_drifted_target_is_followed_as_lightgbm_does():
    X = table(2000, missing=False)
    y = signal(X)
    later = table(2000, missing=False, seed=5)
    moved = signal(later) * 1.5 + 2.0
    ours = sw.GradientBoostingRegressor(n_estimators=30).fit(X, y)
    theirs = lgb.LGBMRegressor(n_estimators=30, verbose=-1).fit(X, y).booster_
    mine = np.mean((ours.refit(later, moved, decay=0.5).predict(later) - moved) ** 2)
    other = np.mean((theirs.refit(later, moved, decay_rate=0.5, verbose=-1).predict(later) - moved) ** 2)
    assert mine < np.mean((ours.predict(later) - moved) ** 2)
    assert mine < 1.5 * other


def test_bad_input():
    model, X, y = fitted("binary")
    for decay in (-0.1, 1.1, "all", float("nan")):
        with pytest.raises(ParameterError, match="decay"):
            model.refit(X, y, decay=decay)
    with pytest.raises(InputError, match="features"):
        model.refit(X[:, :2], y)
    with pytest.raises(InputError, match="not seen during fit"):
        model.refit(X, y + 1)
