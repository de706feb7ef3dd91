"""Friedman's Algorithm 1 with any learner, beside the algorithm written down in NumPy, and beside GradientBoosting*."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from estimators.fingerprint import difference
from stagewise import (
    Dataset,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    InputError,
    Loss,
    ParameterError,
    StagewiseClassifier,
    StagewiseRegressor,
)

RATE, STAGES = 0.5, 8


class LogCosh(Loss):
    @staticmethod
    def loss(y, f):
        return math.log(math.cosh(f - y))

    @staticmethod
    def gradient(y, f):
        return math.tanh(f - y)

    @staticmethod
    def hessian(y, f):
        return 1.0 - math.tanh(f - y) ** 2


def quantile(values, weights, alpha):
    """The smallest value at which the running weight reaches α of the total; the middle of two when met exactly."""
    order = np.argsort(values)
    values, running = values[order], np.cumsum(weights[order])
    target = alpha * running[-1]
    k = int(np.searchsorted(running, target * (1 - 1e-13)))
    met = abs(running[k] - target) <= 1e-12 * target and k + 1 < len(values)
    return 0.5 * (values[k] + values[k + 1]) if met else values[k]


def pinball(r, alpha):
    return np.where(r > 0.0, alpha * r, (alpha - 1.0) * r)


def huber(r, delta):
    return np.where(np.abs(r) <= delta, 0.5 * r * r, delta * (np.abs(r) - 0.5 * delta))


# name: (loss by row, negative gradient, start), each of (y, f) and, for Huber, δ
LOSSES = {
    "squared_error": (lambda y, f, d: 0.5 * (y - f) ** 2, lambda y, f, d: y - f),
    "absolute_error": (lambda y, f, d: np.abs(y - f), lambda y, f, d: np.sign(y - f)),
    "quantile": (lambda y, f, d: pinball(y - f, 0.7), lambda y, f, d: np.where(y > f, 0.7, np.where(y < f, -0.3, 0.0))),
    "huber": (lambda y, f, d: huber(y - f, d), lambda y, f, d: np.clip(y - f, -d, d)),
    "poisson": (lambda y, f, d: np.exp(f) - y * f, lambda y, f, d: y - np.exp(f)),
    "gamma": (lambda y, f, d: y * np.exp(-f) + f, lambda y, f, d: y * np.exp(-f) - 1.0),
    "logcosh": (lambda y, f, d: np.log(np.cosh(f - y)), lambda y, f, d: -np.tanh(f - y)),
}


def start_of(name, y, w):
    if name in ("absolute_error", "huber"):
        return quantile(y, w, 0.5)
    if name == "quantile":
        return quantile(y, w, 0.7)
    mean = np.average(y, weights=w)
    if name == "logcosh":
        return brentq(lambda c: np.sum(w * np.tanh(c - y)), y.min(), y.max(), xtol=1e-15)
    return math.log(mean) if name in ("poisson", "gamma") else mean


def best_step(value, slope, h):
    """argmin along h: from the break points' neighbourhood, then a root of the slope where that is smooth."""
    found = minimize_scalar(value, bracket=(-1.0, 1.0), tol=1e-10).x
    if slope is None:
        return found
    width = max(1e-4, 1e-3 * abs(found))
    return brentq(slope, found - width, found + width, xtol=1e-15, rtol=1e-15)


def algorithm1(name, X, y, w, learner, exact):
    """(f after each stage, ρ of each stage)."""
    value, negative = LOSSES[name]
    f, steps, out = np.full(len(y), start_of(name, y, w)), [], []
    for _ in range(STAGES):
        delta = quantile(np.abs(y - f), w, 0.9) if name == "huber" else 0.0
        h = learner().fit(X, negative(y, f, delta), sample_weight=w).predict(X)
        if not exact:
            rho = 1.0
        elif name == "squared_error":
            rho = np.sum(w * (y - f) * h) / np.sum(w * h * h)
        elif name in ("absolute_error", "quantile"):
            points = ((y - f) / h)[h != 0.0]
            losses = [np.sum(w * value(y, f + rho * h, delta)) for rho in points]
            rho = points[int(np.argmin(losses))]
        else:
            rho = best_step(
                lambda t, f=f, h=h, d=delta: np.sum(w * value(y, f + t * h, d)),
                lambda t, f=f, h=h, d=delta: np.sum(w * h * negative(y, f + t * h, d)),
                h,
            )
        f = f + RATE * rho * h
        steps.append(rho)
        out.append(f)
    return out, steps


def regression(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.exp(0.4 * X[:, 0] - 0.3 * X[:, 1]) * rng.gamma(3.0, 1 / 3.0, n) + 0.01
    return X, y, rng.uniform(0.3, 2.0, n)


@pytest.mark.parametrize("search", ["exact", "none"])
@pytest.mark.parametrize("learner", [Ridge, LinearRegression])
@pytest.mark.parametrize("name", LOSSES)
def test_algorithm_1_with_any_regressor(name, learner, search):
    X, y, w = regression()
    loss = LogCosh() if name == "logcosh" else name
    model = StagewiseRegressor(
        loss,
        learner(),
        line_search=search,
        n_estimators=STAGES,
        learning_rate=RATE,
        alpha=0.7 if name == "quantile" else 0.9,
    ).fit(X, y, w)
    twin, steps = algorithm1(name, X, y, w, learner, search == "exact")
    link = np.exp if name in ("poisson", "gamma") else lambda f: f
    np.testing.assert_allclose(model.history_.notes["step"], steps, rtol=1e-8 if name == "logcosh" else 1e-10)
    for own, f in zip(model.staged_predict(X), twin, strict=True):
        np.testing.assert_allclose(own, link(f), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["squared_error", "poisson", "gamma"])
def test_newton_steps(name):
    X, y, w = regression(seed=1)
    model = StagewiseRegressor(name, Ridge(), line_search="newton", n_estimators=STAGES, learning_rate=RATE).fit(
        X, y, w
    )
    f = np.full(len(y), start_of(name, y, w))
    curve = {"squared_error": lambda f: 1.0 + 0.0 * f, "poisson": np.exp, "gamma": lambda f: y * np.exp(-f)}[name]
    for rho in model.history_.notes["step"]:
        u = LOSSES[name][1](y, f, 0.0)
        h = Ridge().fit(X, u, sample_weight=w).predict(X)
        assert rho == pytest.approx(np.sum(w * u * h) / np.sum(w * curve(f) * h * h), rel=1e-10)
        f = f + RATE * rho * h
    link = (lambda f: f) if name == "squared_error" else np.exp
    np.testing.assert_allclose(model.predict(X), link(f), rtol=1e-10)


@pytest.mark.parametrize("search", ["exact", "newton", "none"])
@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_two_classes(loss, search):
    X, y = load_breast_cancer(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[:200, :3]  # classes that overlap
    y = y[:200]
    model = StagewiseClassifier(loss, Ridge(50.0), line_search=search, n_estimators=5, learning_rate=0.3).fit(X, y)
    odds = math.log(y.mean() / (1 - y.mean()))
    f, s = np.full(len(y), odds if loss == "log_loss" else odds / 2), 2.0 * y - 1.0

    def negative(f):
        return y - 1.0 / (1.0 + np.exp(-f)) if loss == "log_loss" else s * np.exp(-s * f)

    def curve(f):
        p = 1.0 / (1.0 + np.exp(-f))
        return p * (1.0 - p) if loss == "log_loss" else np.exp(-s * f)

    for own in model.staged_decision_function(X):
        u = negative(f)
        h = Ridge(50.0).fit(X, u).predict(X)
        if search == "none":
            rho = 1.0
        elif search == "newton":
            rho = (u @ h) / (curve(f) @ (h * h))
        else:
            rho = brentq(lambda t, f=f, h=h: h @ negative(f + t * h), 0.0, 200.0, xtol=1e-14, rtol=1e-14)
        f = f + 0.3 * rho * h
        np.testing.assert_allclose(own, f, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("search", ["exact", "newton", "none"])
def test_k_classes_one_after_the_other(search):
    """Each class's fit comes from the stage's gradients; its step is searched with the classes before it moved."""
    X, y = load_iris(return_X_y=True)
    X = X[:, :2]  # classes that overlap
    y = np.roll(y, 7)
    model = StagewiseClassifier(estimator=Ridge(), line_search=search, n_estimators=4, learning_rate=0.5).fit(X, y)
    one_hot = (y[:, None] == np.arange(3)).astype(float)
    f = np.tile(np.log(one_hot.mean(axis=0)), (len(y), 1))

    def softmax(f):
        e = np.exp(f - f.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    for own in model.staged_decision_function(X):
        p = softmax(f)
        for k in range(3):
            u = one_hot[:, k] - p[:, k]
            h = Ridge().fit(X, u).predict(X)
            if search == "none":
                rho = 1.0
            elif search == "newton":  # the loss's second derivative has Friedman's factor K/(K - 1)
                rho = (u @ h) / (1.5 * (p[:, k] * (1 - p[:, k])) @ (h * h))
            else:

                def slope(t, k=k, h=h):
                    g = f.copy()
                    g[:, k] += t * h
                    return h @ (one_hot[:, k] - softmax(g)[:, k])

                rho = brentq(slope, 0.0, 1e4, xtol=1e-14, rtol=1e-14)
            f[:, k] += 0.5 * rho * h
        np.testing.assert_allclose(own, f, rtol=1e-10, atol=1e-10)


# --------------------------------------------------------------------------------------------- beside GradientBoosting*


@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"]
)
def test_trees_with_their_leaves_refitted_are_gradient_boosting(loss):
    X, y = load_diabetes(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0.1, 2.0, len(y))
    settings = {"n_estimators": 15, "subsample": 0.7, "max_leaf_nodes": 6, "min_samples_leaf": 5, "random_state": 3}
    one = StagewiseRegressor(loss, line_search="leaves", **settings).fit(X, y, weight)
    other = GradientBoostingRegressor(loss, criterion="friedman_mse", **settings).fit(X, y, weight)
    assert difference(one, other) == ""


@pytest.mark.parametrize(
    "loss, load", [("log_loss", load_breast_cancer), ("exponential", load_breast_cancer), ("log_loss", load_iris)]
)
def test_the_same_for_classes(loss, load):
    X, y = load(return_X_y=True)
    settings = {"n_estimators": 15, "max_depth": 3, "min_samples_leaf": 5, "max_leaf_nodes": None}
    one = StagewiseClassifier(loss, line_search="leaves", **settings).fit(X, y)
    assert difference(one, GradientBoostingClassifier(loss, criterion="friedman_mse", **settings).fit(X, y)) == ""
    assert difference(one, StagewiseClassifier(loss, line_search="leaves", **settings).fit(Dataset(X, y))) == ""


def test_squared_error_needs_no_search_along_a_tree():
    """The least-squares tree is its own best step: ρ = 1."""
    X, y = load_diabetes(return_X_y=True)
    model = StagewiseRegressor(n_estimators=10).fit(X, y)
    np.testing.assert_allclose(model.history_.notes["step"], 1.0, rtol=1e-9)


@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"]
)
def test_the_exact_search_never_raises_the_deviance(loss):
    X, y = load_diabetes(return_X_y=True)
    model = StagewiseRegressor(loss, DecisionTreeRegressor(max_depth=2), n_estimators=30, learning_rate=1.0).fit(X, y)
    before = np.append(model.history_.initial, model.history_.train[:-1])
    if loss != "huber":  # its δ, and with it the unit of the deviance, moves
        assert (model.history_.train <= before * (1 + 1e-12) + 1e-12).all()


# --------------------------------------------------------------------------------------------------------- other things


def test_foreign_seeds_differ_by_stage_and_repeat():
    X, y = load_diabetes(return_X_y=True)
    learner = DecisionTreeRegressor(max_depth=2, splitter="random")
    fits = [
        StagewiseRegressor(estimator=learner, n_estimators=5, random_state=seed).fit(X, y).predict(X)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


def test_a_sample_of_rows_and_rows_of_weight_zero():
    X, y = load_diabetes(return_X_y=True)
    weight = np.where(np.arange(len(y)) < 300, 1.0, 0.0)
    one = StagewiseRegressor(estimator=LinearRegression(), n_estimators=5).fit(X, y, weight)
    other = StagewiseRegressor(estimator=LinearRegression(), n_estimators=5).fit(X[:300], y[:300])
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-9)
    half = StagewiseRegressor(estimator=LinearRegression(), n_estimators=5, subsample=0.5).fit(X, y)
    assert half.history_.rows.tolist() == [221] * 5


def test_a_learner_without_weights_is_fine_where_there_are_none():
    X, y = load_diabetes(return_X_y=True)
    StagewiseRegressor(estimator=KNeighborsRegressor(), n_estimators=3).fit(X, y)
    with pytest.raises(ParameterError, match="KNeighborsRegressor does not support sample_weight"):
        StagewiseRegressor(estimator=KNeighborsRegressor()).fit(X, y, np.arange(len(y)) + 1.0)


def test_a_learner_that_learns_nothing():
    X, y = load_diabetes(return_X_y=True)
    for loss in ("squared_error", "absolute_error", "huber", "poisson"):
        model = StagewiseRegressor(loss, DummyRegressor(strategy="constant", constant=0.0), n_estimators=3).fit(X, y)
        assert np.ptp(model.predict(X)) == 0.0


def test_init_score_is_an_offset():
    X, y, _ = regression()
    model = StagewiseRegressor(estimator=LinearRegression(), n_estimators=60, learning_rate=1.0)
    twin = LinearRegression().fit(X, y - 3.0 * X[:, 0])
    np.testing.assert_allclose(model.fit(X, y, init_score=3.0 * X[:, 0]).predict(X), twin.predict(X), atol=1e-8)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"line_search": "best"}, "line_search='best' is not known"),
        ({"line_search": "leaves", "estimator": Ridge()}, "re-fits the leaves of our own trees, not of Ridge"),
        ({"line_search": "newton", "loss": "absolute_error"}, "needs second derivatives, which loss 'absolute_error'"),
        ({"estimator": Ridge(), "max_leaf_nodes": 5}, "max_leaf_nodes=5 is a setting of our own trees"),
        ({"estimator": Ridge}, "an instance, not a class"),
    ],
)
def test_what_cannot_be_used_is_named(settings, words):
    with pytest.raises(ParameterError, match=words):
        StagewiseRegressor(**settings).fit(*load_diabetes(return_X_y=True))


def test_steps_that_are_too_long_are_noticed():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(InputError, match="use line_search='exact'"):
        StagewiseRegressor("poisson", Ridge(0.1), line_search="none").fit(X, y)


class Spoiled(LinearRegression):
    def predict(self, X):
        return np.full(len(X), np.nan)


def test_a_learner_that_predicts_nonsense_is_named():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(InputError, match="Spoiled predicts values that are not finite"):
        StagewiseRegressor(estimator=Spoiled()).fit(X, y)


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_classes_that_a_line_separates(loss):
    """The best step is infinite: it ends where probabilities cannot be told from 0 and 1."""
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    y = (X[:, 0] > 0.0).astype(int)
    model = StagewiseClassifier(loss, LinearRegression(), n_estimators=20, learning_rate=1.0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.abs(model.decision_function(X)).max() < 1000.0
    assert np.isfinite(model.predict_proba(X)).all()
