"""LogitBoost and GentleBoost beside the algorithms of Friedman, Hastie and Tibshirani (2000), written down in NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from estimators.fingerprint import difference
from stagewise import GentleBoostClassifier, InputError, LogitBoostClassifier, ParameterError


def problem(classes, n=200, seed=0, values=40):
    """Rows, classes and weights; few distinct values, so that bins lose nothing."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 4)) * values / 6) / (values / 6)
    score = X[:, 0] + 0.8 * np.sin(2 * X[:, 1]) + rng.normal(0, 0.7, n)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    return X, y, rng.uniform(0.2, 3.0, n)


class Stump:
    """The best least-squares split of all, in NumPy. Thresholds lie between neighbouring values of the table."""

    def fit(self, X, z, sample_weight):
        w, best = sample_weight, (-np.inf,)
        for j in range(X.shape[1]):
            values = np.unique(X[:, j])
            for low, high in pairwise(values):
                left = X[:, j] <= low
                wl, wr = w[left].sum(), w[~left].sum()
                a, b = (w[left] @ z[left]) / wl, (w[~left] @ z[~left]) / wr
                gain = wl * wr / (wl + wr) * (a - b) ** 2
                if gain > best[0] * (1 + 1e-9):
                    best = (gain, j, 0.5 * (low + high), a, b)
        self.split = best[1:]
        return self

    def predict(self, X):
        j, cut, a, b = self.split
        return np.where(X[:, j] <= cut, a, b)


def logitboost_two(X, y, weight, learner, stages, rate, z_max):
    """Algorithm 3 with F half the log-odds, which gets half of each fit."""
    F = np.zeros(len(y))
    for _ in range(stages):
        p = 1.0 / (1.0 + np.exp(-2.0 * F))
        w = np.maximum(p * (1.0 - p), 2.0 * np.finfo(float).eps)
        z = np.clip((y - p) / w, -z_max, z_max)
        F = F + 0.5 * rate * learner().fit(X, z, sample_weight=w * weight).predict(X)
        yield 2.0 * F


def logitboost_many(X, y, weight, learner, stages, rate, z_max, classes):
    """Algorithm 6, with its symmetric fits."""
    F = np.zeros((len(y), classes))
    for _ in range(stages):
        e = np.exp(F - F.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        fits = []
        for k in range(classes):
            w = np.maximum(p[:, k] * (1.0 - p[:, k]), 2.0 * np.finfo(float).eps)
            z = np.clip(((y == k) - p[:, k]) / w, -z_max, z_max)
            fits.append(learner().fit(X, z, sample_weight=w * weight).predict(X))
        f = np.array(fits).T
        F = F + rate * (classes - 1) / classes * (f - f.mean(axis=1, keepdims=True))
        yield F


def gentleboost(X, y, weight, learner, stages, rate):
    """Algorithm 4."""
    s, F = 2.0 * y - 1.0, np.zeros(len(y))
    for _ in range(stages):
        F = F + rate * learner().fit(X, s, sample_weight=weight * np.exp(-s * F)).predict(X)
        yield F


def tree():
    return DecisionTreeRegressor(max_depth=3, random_state=0)


LEARNERS = {"ridge": lambda: Ridge(1.0), "line": LinearRegression}


@pytest.mark.parametrize("rate, z_max", [(1.0, 4.0), (0.3, 2.0)])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_logitboost_with_any_regressor(classes, learner, rate, z_max):
    X, y, weight = problem(classes)
    make = LEARNERS[learner]
    model = LogitBoostClassifier(make(), n_estimators=12, learning_rate=rate, z_max=z_max).fit(X, y, weight)
    if classes == 2:
        twin = logitboost_two(X, y, weight, make, 12, rate, z_max)
    else:
        twin = logitboost_many(X, y, weight, make, 12, rate, z_max, classes)
    for own, other in zip(model.staged_decision_function(X), twin, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_logitboost_with_our_own_stumps(classes, weighted):
    X, y, weight = problem(classes, seed=2)
    weight = weight if weighted else np.ones(len(y))
    model = LogitBoostClassifier(n_estimators=10).fit(X, y, weight if weighted else None)
    if classes == 2:
        twin = logitboost_two(X, y, weight, Stump, 10, 1.0, 4.0)
    else:
        twin = logitboost_many(X, y, weight, Stump, 10, 1.0, 4.0, classes)
    for own, other in zip(model.staged_decision_function(X), twin, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rate", [1.0, 0.2])
@pytest.mark.parametrize("make", [*LEARNERS.values(), Stump], ids=[*LEARNERS, "stump"])
def test_gentleboost(make, rate):
    X, y, weight = problem(2, seed=4)
    estimator = None if make is Stump else make()
    model = GentleBoostClassifier(estimator, n_estimators=12, learning_rate=rate).fit(X, y, weight)
    for own, other in zip(model.staged_decision_function(X), gentleboost(X, y, weight, make, 12, rate), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-10, atol=1e-10)
    p = 1.0 / (1.0 + np.exp(-2.0 * model.decision_function(X)))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], p, rtol=1e-12)


@pytest.mark.parametrize("make", [LinearRegression, Stump], ids=["line", "stump"])
def test_gentleboost_of_k_classes_boosts_each_against_the_rest(make):
    X, y, weight = problem(4, seed=5)
    model = GentleBoostClassifier(None if make is Stump else make(), n_estimators=8).fit(X, y, weight)
    f = np.column_stack([list(gentleboost(X, y == k, weight, make, 8, 1.0))[-1] for k in range(4)])
    np.testing.assert_allclose(model.decision_function(X), f, rtol=1e-10, atol=1e-10)
    p = 1.0 / (1.0 + np.exp(-2.0 * f))
    np.testing.assert_allclose(model.predict_proba(X), p / p.sum(axis=1, keepdims=True), rtol=1e-10)


def test_steps_are_bounded():
    """GentleBoost's leaves lie within ±1, LogitBoost's within ±z_max: also where classes are pure."""
    X, y, _ = problem(2)
    y = (X[:, 0] > 0).astype(int)
    gentle = GentleBoostClassifier(max_depth=3, n_estimators=20).fit(X, y)
    logit = LogitBoostClassifier(max_depth=3, n_estimators=20, z_max=3.0).fit(X, y)
    for model, bound in ((gentle, 1.0), (logit, 3.0)):
        assert max(np.abs(tree.value).max() for (tree,) in model.model_.stages) <= bound * (1 + 1e-12)
        assert model.score(X, y) == 1.0
        assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("kind", [LogitBoostClassifier, GentleBoostClassifier])
def test_real_data(kind):
    for load in (load_breast_cancer, load_iris):
        X, y = load(return_X_y=True)
        model = kind(n_estimators=100, learning_rate=0.5).fit(X, y)
        assert model.score(X, y) > 0.97
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
        if kind is GentleBoostClassifier:  # bounded steps only lower the deviance; clipped Newton steps may overshoot
            assert (np.diff(model.history_.train) < 1e-9).all()


@pytest.mark.parametrize("kind", [LogitBoostClassifier, GentleBoostClassifier])
@pytest.mark.parametrize("classes", [2, 3])
def test_threads_do_not_matter_and_missing_values_are_taken(kind, classes):
    X, y, _ = problem(classes, n=20_000)
    X[::5, 0] = np.nan
    one, two = (kind(n_estimators=5, max_depth=3, subsample=0.6, n_jobs=jobs).fit(X, y) for jobs in (1, 3))
    assert difference(one, two) == ""
    assert one.history_.kept[0] == pytest.approx(0.6, abs=1e-4)


@pytest.mark.parametrize("kind", [LogitBoostClassifier, GentleBoostClassifier])
def test_what_cannot_be_used_is_named(kind):
    X, y, _ = problem(2)
    with pytest.raises(ParameterError, match="KNeighborsRegressor does not support sample_weight"):
        kind(KNeighborsRegressor()).fit(X, y)
    with pytest.raises(ParameterError, match="must be a scikit-learn regressor"):
        kind(object()).fit(X, y)
    with pytest.raises(ParameterError, match="min_samples_leaf=3 is a setting of our own trees"):
        kind(Ridge(), min_samples_leaf=3).fit(X, y)
    X[0, 0] = np.nan
    with pytest.raises(InputError, match="NaN, which Ridge does not accept"):
        kind(Ridge()).fit(X, y)


def test_z_max_is_checked():
    X, y, _ = problem(2)
    with pytest.raises(ParameterError, match="z_max=0"):
        LogitBoostClassifier(z_max=0).fit(X, y)
