"""The family at the edges: tables of a few rows, huge and tiny numbers, infinities, two fits at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from stagewise import (
    AdaBoostClassifier,
    ComponentwiseClassifier,
    ComponentwiseRegressor,
    GentleBoostClassifier,
    GradientBoostingClassifier,
    InputError,
    LogitBoostClassifier,
    StagewiseClassifier,
    StagewiseError,
    StagewiseRegressor,
)

CLASSIFIERS = [
    AdaBoostClassifier(),
    AdaBoostClassifier(DecisionTreeClassifier(max_depth=1)),
    LogitBoostClassifier(),
    LogitBoostClassifier(DecisionTreeRegressor(max_depth=2)),
    GentleBoostClassifier(),
    GentleBoostClassifier(LinearRegression()),
    StagewiseClassifier(min_samples_leaf=1),
    StagewiseClassifier(estimator=LinearRegression()),
    StagewiseClassifier(estimator=DecisionTreeRegressor(max_depth=2), line_search="newton"),
    ComponentwiseClassifier(),
    ComponentwiseClassifier(base="spline"),
    ComponentwiseClassifier(base="stump"),
    GradientBoostingClassifier(influence_trimming=0.2, min_samples_leaf=1),
]
REGRESSORS = [
    StagewiseRegressor(min_samples_leaf=1),
    StagewiseRegressor("absolute_error", LinearRegression()),
    StagewiseRegressor("huber", DecisionTreeRegressor(max_depth=2)),
    ComponentwiseRegressor(),
    ComponentwiseRegressor("huber", base="spline"),
    ComponentwiseRegressor("absolute_error", base="stump", line_search="exact"),
]
every_classifier = pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
every_regressor = pytest.mark.parametrize("estimator", REGRESSORS, ids=repr)
everyone = pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS], ids=repr)


def fitted(estimator, X, y, weight=None):
    return clone(estimator).set_params(n_estimators=12).fit(X, y, weight)


@every_classifier
@pytest.mark.parametrize("y", [["no", "yes"], ["b", "a", "b"], [2, 0, 1], [3, 3, 1, 1, 7, 7, 7]])
def test_a_few_rows(estimator, y):
    X = np.arange(2.0 * len(y)).reshape(len(y), 2)
    model = fitted(estimator, X, y)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    assert set(model.predict(X)) <= set(y)


@every_regressor
@pytest.mark.parametrize("y", [[1.0], [1.0, 2.0], [0.0, 0.0, 0.0]])
def test_a_few_numbers(estimator, y):
    X = np.arange(2.0 * len(y)).reshape(len(y), 2)
    guess = fitted(estimator, X, y).predict(X)
    assert np.isfinite(guess).all()
    assert (guess >= min(y) - 1.0).all()
    assert (guess <= max(y) + 1.0).all()


@everyone
@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_weights_count_by_proportion(estimator, scale):
    """Also for foreign learners, whose own arithmetic might not survive such weights."""
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    plain = fitted(estimator, X, y, weight).predict(X)
    assert np.mean(fitted(estimator, X, y, weight * scale).predict(X) == plain) > 0.97 or np.allclose(
        fitted(estimator, X, y, weight * scale).predict(X), plain, rtol=1e-6
    )


@everyone
def test_constant_columns(estimator):
    y = np.array([0, 0, 0, 1, 1] * 5)
    X = np.ones((25, 3))
    model = fitted(estimator, X, y)
    assert np.ptp(np.asarray(model.predict(X), float)) == 0.0


@every_regressor
@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e9, 1e150])
def test_targets_of_any_size(estimator, scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.normal(0, 0.1, 60)
    plain, scaled = fitted(estimator, X, y), fitted(estimator, X, y * scale)
    if isinstance(getattr(estimator, "estimator", None), DecisionTreeRegressor) and scale < 1.0:
        return  # scikit-learn's trees take variances under 2e-16 for nothing
    if estimator.loss != "absolute_error" or estimator.line_search == "exact":
        np.testing.assert_allclose(scaled.predict(X), plain.predict(X) * scale, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("estimator", [e for e in CLASSIFIERS if getattr(e, "estimator", None) is None], ids=repr)
def test_infinities(estimator):
    X, y = load_iris(return_X_y=True)
    X = X.copy()
    X[::7, 0] = np.inf
    X[1::7, 1] = -np.inf
    if getattr(estimator, "base", "stump") == "stump":
        assert fitted(estimator, X, y).score(X, y) > 0.9
    else:
        with pytest.raises(InputError, match="infinity"):
            fitted(estimator, X, y)


@everyone
def test_two_fits_at_once(estimator):
    X, y = load_iris(return_X_y=True)
    alone = fitted(estimator, X, y).predict(X)
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(fitted(estimator, X, y).predict(X))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 3
    for own in found:
        np.testing.assert_array_equal(own, alone)


@every_classifier
def test_one_class_is_not_enough(estimator):
    with pytest.raises(StagewiseError, match="one class only"):
        fitted(estimator, np.zeros((5, 1)), np.ones(5))


@every_classifier
def test_a_failed_fit_leaves_the_model_as_it_was(estimator):
    X, y = load_iris(return_X_y=True)
    model = fitted(estimator, X, y)
    before = model.predict(X)
    with pytest.raises(StagewiseError):
        model.fit(X, np.zeros(len(y)))
    with pytest.raises(StagewiseError):
        model.fit(X, y, -np.ones(len(y)))
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("loss", ["gamma", "tweedie", "poisson"])
@pytest.mark.parametrize(
    "make",
    [
        lambda loss: ComponentwiseRegressor(loss, line_search="exact", n_estimators=8),
        lambda loss: StagewiseRegressor(loss, LinearRegression(), n_estimators=8),
    ],
)
def test_rows_of_weight_zero_may_hold_anything(loss, make):
    """A line that is drawn out to them is of any height, and its loss infinite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = np.exp(0.5 * X[:, 0] + 0.25 * X[:, 1])
    X[:5] *= 1e4
    weight = np.where(np.arange(150) < 5, 0.0, 1.0)
    model, expected = make(loss).fit(X, y, weight), make(loss).fit(X[5:], y[5:])
    np.testing.assert_allclose(model.predict(X[5:]), expected.predict(X[5:]), rtol=1e-9)
    np.testing.assert_allclose(model.history_.train, expected.history_.train, rtol=1e-9)
