"""Every loss through one set of questions: derivatives, start, leaves, weights, deviance; and losses of one's own."""

# ruff: noqa: N805  the functions of a Loss take (y, f) and no self

from __future__ import annotations

import functools
import math
import pickle
from math import exp, log1p

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn import metrics
from sklearn.base import clone

from stagewise import GradientBoostingClassifier, GradientBoostingRegressor, InputError, Loss, ParameterError
from stagewise.boosting.pairs import PairsMaker
from stagewise.kernels.jit import JIT
from stagewise.kernels.team import Team
from stagewise.losses.classification import Exponential, LogLoss, MulticlassLogLoss
from stagewise.losses.names import CLASSIFICATION, REGRESSION, classification_loss, regression_loss
from stagewise.losses.regression import AbsoluteError, Gamma, Huber, Poisson, Quantile, SquaredError, Tweedie

N = 60


# ------------------------------------------------------------------------------------------------ losses of one's own


class LogCosh(Loss):
    """The example of the API page, in a form that does not overflow."""

    def loss(y, f):
        return abs(f - y) + math.log1p(math.exp(-2.0 * abs(f - y))) - math.log(2.0)

    def gradient(y, f):
        return math.tanh(f - y)

    def hessian(y, f):
        return 1.0 - math.tanh(f - y) ** 2


class OwnSquaredError(Loss):
    def loss(y, f):
        return (y - f) ** 2

    def gradient(y, f):
        return f - y

    def hessian(y, f):
        return 1.0

    def from_mean(self, mean):
        return mean


class OwnLogLoss(Loss):
    """The built-in log-loss, written again with names from NumPy, `math` and bare functions."""

    def loss(y, f):
        return log1p(np.exp(-abs(f))) + max(f, 0.0) - y * f

    def gradient(y, f):
        return 1.0 / (1.0 + exp(-f)) - y

    def hessian(y, f):
        p = 1.0 / (1.0 + math.exp(-f))
        return p * (1.0 - p)

    def from_mean(self, mean):
        return np.log(mean / (1.0 - mean))


SHIFT = 0.5


class Shifted(Loss):
    """Static methods, a constant of the module, a link, and no closed form of the start."""

    @staticmethod
    def loss(y, f):
        return np.exp(f) - y * f + SHIFT

    @staticmethod
    def gradient(y, f):
        return np.exp(f) - y

    @staticmethod
    def hessian(y, f):
        return np.exp(f)

    def predict(self, raw):
        return np.exp(raw[0])


# --------------------------------------------------------------------------------------------------------- evaluation


def real(rng, n=N):
    return rng.normal(size=n)


def positive(rng, n=N):
    return rng.gamma(2.0, size=n) + 0.01


def count(rng, n=N):
    return rng.poisson(1.3, size=n).astype(float)


def binary(rng, n=N):
    return (rng.random(n) < 0.4).astype(float)


def classes(rng, n=N):
    return rng.integers(0, 4, n).astype(float)


#          loss, targets, and the factor that makes the reported deviance the loss that is differentiated
LOSSES = {
    "squared error": (SquaredError(), real, 0.5),
    "absolute error": (AbsoluteError(), real, 1.0),
    "huber": (Huber(0.7), real, 1.0),
    "quantile": (Quantile(0.8), real, 1.0),
    "poisson": (Poisson(), count, 0.5),
    "gamma": (Gamma(), positive, 0.5),
    "tweedie 1.2": (Tweedie(1.2), count, 0.5),
    "tweedie 1.9": (Tweedie(1.9), count, 0.5),
    "log-loss": (LogLoss(), binary, 1.0),
    "exponential": (Exponential(), binary, 1.0),
    "four classes": (MulticlassLogLoss(4), classes, 1.0),
    "four classes, diagonal": (MulticlassLogLoss(4, "diagonal"), classes, 1.0),
    "log-cosh": (LogCosh(), real, 1.0),
    "own squared error": (OwnSquaredError(), real, 0.5),
    "own log-loss": (OwnLogLoss(), binary, 1.0),
    "own poisson": (Shifted(), count, 1.0),
}
every_loss = pytest.mark.parametrize("name", LOSSES, ids=[name.replace(" ", "-") for name in LOSSES])
DELTA = 0.9


def evaluate(loss: Loss, y: np.ndarray, raw: np.ndarray, weight: np.ndarray | None = None):
    """(grad, hess, deviance) at raw (n_outputs, n_rows)."""
    option = np.array([DELTA]) if loss.delta_quantile is not None else loss.option
    with Team(1) as team:
        pairs = PairsMaker(loss, y, np.empty(0) if weight is None else weight, team)(raw, option)
    return pairs.grad.copy(), pairs.hess.copy(), pairs.deviance


def risk(loss: Loss, factor: float, y, raw, weight=None) -> float:
    return factor * evaluate(loss, np.atleast_1d(y), np.atleast_2d(raw), weight)[2]


@pytest.mark.nojit
@every_loss
def test_derivatives(name):
    """Gradient and second derivative against differences of the value and of the gradient, row by row."""
    loss, targets, factor = LOSSES[name]
    rng = np.random.default_rng(0)
    y, k = targets(rng, 12), loss.n_outputs
    raw = rng.normal(size=(k, 12))
    raw = np.where(np.abs(np.abs(y - raw) - DELTA) < 1e-3, raw + 0.01, raw) if k == 1 else raw  # not on Huber's edge
    grad, hess, _ = evaluate(loss, y, raw)
    step = 1e-5
    for i in range(12):
        for c in range(k):
            up, down = raw[:, i : i + 1].copy(), raw[:, i : i + 1].copy()
            up[c] += step
            down[c] -= step
            slope = (risk(loss, factor, y[i], up) - risk(loss, factor, y[i], down)) / (2 * step)
            np.testing.assert_allclose(grad[c, i], slope, rtol=1e-6, atol=1e-8)
            if loss.second_order:
                one = y[i : i + 1]
                bend = (evaluate(loss, one, up)[0][c, 0] - evaluate(loss, one, down)[0][c, 0]) / (2 * step)
                bend *= loss.option[0] if k > 1 else 1.0  # Friedman's factor, or another
                np.testing.assert_allclose(hess[c, i], bend, rtol=1e-6, atol=1e-8)


@pytest.mark.nojit
@every_loss
def test_weights_multiply(name):
    loss, targets, _ = LOSSES[name]
    rng = np.random.default_rng(1)
    y, raw, w = targets(rng), rng.normal(size=(loss.n_outputs, N)), rng.uniform(0.1, 5.0, N)
    grad, hess, _ = evaluate(loss, y, raw)
    grad_w, hess_w, deviance = evaluate(loss, y, raw, w)
    np.testing.assert_allclose(grad_w, w * grad, rtol=1e-14)
    np.testing.assert_allclose(hess_w, w * hess, rtol=1e-14)
    each = [evaluate(loss, y[i : i + 1], raw[:, i : i + 1])[2] for i in range(N)]
    np.testing.assert_allclose(deviance, np.average(each, weights=w), rtol=1e-12)


@every_loss
def test_far_from_the_target(name):
    """Raw predictions of ±800 (with a log link e^±350) overflow nothing into NaN."""
    loss, targets, _ = LOSSES[name]
    y = targets(np.random.default_rng(2))
    far = 350.0 if targets in (positive, count) else 800.0
    for value in (-far, -50.0, 50.0, far):
        raw = np.full((loss.n_outputs, N), value)
        raw[0] *= -1.0
        grad, hess, deviance = evaluate(loss, y, raw)
        assert np.isfinite(grad).all()
        assert np.isfinite(hess).all()
        assert (hess >= 0.0).all()
        assert not np.isnan(deviance)


# ------------------------------------------------------------------------------------------------- estimators by loss


def estimator_of(name: str, **options):
    loss = LOSSES[name][0]
    kind = GradientBoostingClassifier if LOSSES[name][1] in (binary, classes) else GradientBoostingRegressor
    if type(loss) is MulticlassLogLoss:
        return kind(multiclass_curvature=loss.curvature, **options)
    return kind(loss=loss, **options)


@every_loss
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("offset", [False, True], ids=["", "init_score"])
def test_start_minimises(name, weighted, offset):
    """The constant that a fit starts from is the best one, with weights and on top of init_score."""
    loss, targets, factor = LOSSES[name]
    rng = np.random.default_rng(3)
    y, k = targets(rng), loss.n_outputs
    w = rng.uniform(0.2, 3.0, N) if weighted else None
    scores = 0.5 * rng.normal(size=(k, N)) if offset else np.zeros((k, N))
    given = (scores[0] if k == 1 else scores.T) if offset else None
    model = estimator_of(name, n_estimators=1, max_depth=1).fit(np.zeros((N, 1)), y, w, init_score=given)
    start = model.model_.initial
    if type(loss) is Huber:  # δ is not known yet: Friedman's Algorithm 4 starts from the median
        loss, factor = AbsoluteError(), 1.0

    def at(constants):
        return risk(loss, factor, y, scores + np.reshape(constants, (k, 1)), w)

    for c in range(k):

        def along(value, c=c):
            moved = start.copy()
            moved[c] = value
            return at(moved)

        best = minimize_scalar(along, (start[c] - 0.5, start[c] + 0.5), options={"xtol": 1e-10})
        assert at(start) <= best.fun + 1e-12 * abs(best.fun)


HALVES = np.repeat([0.0, 1.0], N // 2)[:, None]


def split_in_halves(name: str, y, w, scores, **options):
    """A fit of one stump that divides the rows into their halves: (f0 of the rows, value of each half)."""
    model = estimator_of(
        name, n_estimators=1, learning_rate=1.0, max_depth=1, min_samples_leaf=1, min_child_weight=0.0, **options
    ).fit(HALVES, y, w, init_score=scores)
    tree = model.model_.stages[0][0]
    assert tree.n_nodes == 3, "the halves differ, so they are split"
    return scores + model.model_.initial[0], tree.value[1:]


def two_halves(targets, rng):
    """Targets whose halves differ."""
    if targets is binary:
        return (rng.random(N) < np.where(HALVES[:, 0] > 0, 0.7, 0.3)).astype(float)
    return np.sort(targets(rng))


EXACT = ["squared error", "absolute error", "quantile", "poisson", "gamma", "tweedie 1.2", "tweedie 1.9", "exponential"]


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", EXACT, ids=[name.replace(" ", "-") for name in EXACT])
def test_leaves_minimise(name, weighted):
    """Leaves of these losses are the exact minimum over the leaf's rows, wherever the rows' predictions are."""
    loss, targets, factor = LOSSES[name]
    rng = np.random.default_rng(4)
    y = two_halves(targets, rng)
    w = rng.uniform(0.2, 3.0, N) if weighted else None
    f0, values = split_in_halves(name, y, w, 0.3 * rng.normal(size=N))
    for side, value in enumerate(values):
        rows = HALVES[:, 0] == side

        def along(v, rows=rows):
            return risk(loss, factor, y[rows], f0[rows] + v, None if w is None else w[rows])

        best = minimize_scalar(along, (value - 0.5, value + 0.5), options={"xtol": 1e-10})
        assert along(value) <= best.fun + 1e-12 * abs(best.fun)


@pytest.mark.parametrize("name", ["log-loss", "log-cosh", "own poisson"], ids=lambda name: name.replace(" ", "-"))
def test_leaves_are_newton_steps(name):
    loss, targets, _ = LOSSES[name]
    rng = np.random.default_rng(5)
    y, w = two_halves(targets, rng), rng.uniform(0.2, 3.0, N)
    f0, values = split_in_halves(name, y, w, 0.3 * rng.normal(size=N))
    grad, hess, _ = evaluate(loss, y, f0[None, :], w)
    for side, value in enumerate(values):
        rows = HALVES[:, 0] == side
        np.testing.assert_allclose(value, -grad[0, rows].sum() / hess[0, rows].sum(), rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_leaves_of_huber(weighted):
    """Friedman (2001), Algorithm 4: the median of the residuals, and one step from it."""
    rng = np.random.default_rng(6)
    y = np.sort(rng.standard_t(2, N))
    w = rng.integers(1, 1024, N) / 1024.0 if weighted else np.ones(N)
    w[0] = 1.0
    f0, values = split_in_halves("huber", y, w if weighted else None, 0.3 * rng.normal(size=N))
    delta = weighted_quantile(np.abs(y - f0), w, 0.7)
    for side, value in enumerate(values):
        rows = HALVES[:, 0] == side
        r = (y - f0)[rows]
        median = weighted_quantile(r, w[rows], 0.5)
        step = np.average(np.clip(r - median, -delta, delta), weights=w[rows])
        np.testing.assert_allclose(value, median + step, rtol=1e-10)


def weighted_quantile(values, w, level):
    """The averaged inverted CDF, slowly."""
    order = np.argsort(values)
    values, reached = values[order], np.cumsum(w[order])
    at = np.searchsorted(reached, level * reached[-1])
    return 0.5 * (values[at] + values[at + 1]) if reached[at] == level * reached[-1] else values[at]


@pytest.mark.parametrize("level", [0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999])
def test_quantiles_are_numpys(level):
    """Leaves and start: NumPy's averaged_inverted_cdf, ties and repeated values included."""
    rng = np.random.default_rng(7)
    for n in (1, 2, 3, 8, 100):
        for y in (rng.normal(size=n), rng.integers(0, 3, n).astype(float), np.zeros(n), np.full(n, -0.0)):
            model = GradientBoostingRegressor(loss="quantile", alpha=level, n_estimators=1).fit(np.zeros((n, 1)), y)
            assert model.model_.initial[0] == np.quantile(y, level, method="averaged_inverted_cdf")


def test_an_absent_class_counts_as_half_a_row():
    """exponential: ½ log(W₊/W₋) has no limit in a pure leaf; the class that is not there gets half an average row."""
    y = np.repeat([0.0, 1.0], N // 2)
    model = GradientBoostingClassifier(
        loss="exponential", n_estimators=1, learning_rate=1.0, min_samples_leaf=1
    ).fit(HALVES, y)  # fmt: skip
    np.testing.assert_allclose(model.decision_function(HALVES), np.where(y > 0, 0.5, -0.5) * np.log(N))


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_a_leaf_without_events_takes_the_newton_step(loss):
    """log(0) has no limit either: -1 is the Newton step of Poisson there."""
    y = np.repeat([0.0, 2.0], N // 2)
    model = GradientBoostingRegressor(loss=loss, n_estimators=1, learning_rate=1.0, min_samples_leaf=1).fit(HALVES, y)
    np.testing.assert_allclose(model.predict([[0.0], [1.0]]), [np.exp(-1.0), 2.0])


@pytest.mark.parametrize("name", ["squared error", "log-loss", "absolute error", "poisson", "exponential"])
def test_penalties_shrink_every_leaf(name):
    """(1 - l1/|G|)₊ · H/(H + l2): for a Newton step that is -(G ± l1)/(H + l2)."""
    loss, targets, _ = LOSSES[name]
    rng = np.random.default_rng(8)
    y, w, scores = two_halves(targets, rng), rng.uniform(0.5, 2.0, N), 0.3 * rng.normal(size=N)
    f0, free = split_in_halves(name, y, w, scores)
    _, bound = split_in_halves(name, y, w, scores, l1_regularization=1.5, l2_regularization=4.0)
    grad, hess, _ = evaluate(loss, y, f0[None, :], w)
    for side in (0, 1):
        rows = HALVES[:, 0] == side
        G, H = grad[0, rows].sum(), hess[0, rows].sum()
        np.testing.assert_allclose(bound[side], free[side] * max(0.0, 1 - 1.5 / abs(G)) * H / (H + 4.0), rtol=1e-9)


# --------------------------------------------------------------------------------------------- weights and repetition


@every_loss
def test_whole_weights_are_repetitions(name):
    _, targets, _ = LOSSES[name]
    rng = np.random.default_rng(9)
    X, y, w = rng.integers(0, 8, (N, 3)).astype(float), targets(rng), rng.integers(1, 5, N)
    y = y + X[:, 0] if targets is real else y
    # stumps for exponential: in a pure leaf the class that is not there counts as half a *row* (see below)
    leaves = 2 if name == "exponential" else 4
    model = estimator_of(name, n_estimators=3, max_leaf_nodes=leaves, min_samples_leaf=1)
    weighted = clone(model).fit(X, y, w.astype(float))
    repeated = clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.model_.initial, repeated.model_.initial, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weighted._raw(X), repeated._raw(X), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(weighted.history_.train, repeated.history_.train, rtol=1e-8)


@every_loss
def test_the_scale_of_weights_means_nothing(name):
    _, targets, _ = LOSSES[name]
    rng = np.random.default_rng(10)
    X, y, w = rng.integers(0, 8, (N, 3)).astype(float), targets(rng), rng.uniform(0.5, 2.0, N)
    model = estimator_of(name, n_estimators=3, max_leaf_nodes=4, min_samples_leaf=1, min_child_weight=0.0)
    one, other = clone(model).fit(X, y, w), clone(model).fit(X, y, 2.0**40 * w)
    np.testing.assert_allclose(one._raw(X), other._raw(X), rtol=1e-12, atol=1e-14)


# ----------------------------------------------------------------------------------------------------------- deviance


METRICS = {
    "squared_error": (real, metrics.mean_squared_error),
    "absolute_error": (real, metrics.mean_absolute_error),
    "quantile": (real, functools.partial(metrics.mean_pinball_loss, alpha=0.9)),
    "poisson": (count, metrics.mean_poisson_deviance),
    "gamma": (positive, metrics.mean_gamma_deviance),
    "tweedie": (count, functools.partial(metrics.mean_tweedie_deviance, power=1.5)),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("loss", METRICS)
def test_deviances_are_scikit_learns_metrics(loss, weighted):
    targets, metric = METRICS[loss]
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(200, 3)), targets(rng, 200)
    w = rng.uniform(0.2, 3.0, 200) if weighted else None
    model = GradientBoostingRegressor(loss=loss, n_estimators=5, max_leaf_nodes=4)
    model.fit(X, y, w, eval_set=(X[:50], y[:50], None if w is None else w[:50]))
    for rows, history in ((slice(None), model.history_.train), (slice(50), model.history_.validation)):
        expected = [
            metric(y[rows], p, sample_weight=None if w is None else w[rows]) for p in model.staged_predict(X[rows])
        ]
        np.testing.assert_allclose(history, expected, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_log_loss_is_scikit_learns_metric(n_classes, weighted):
    rng = np.random.default_rng(12)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, n_classes, 200)
    w = rng.uniform(0.2, 3.0, 200) if weighted else None
    model = GradientBoostingClassifier(n_estimators=5, max_leaf_nodes=4).fit(X, y, w)
    expected = [metrics.log_loss(y, p, sample_weight=w) for p in model.staged_predict_proba(X)]
    np.testing.assert_allclose(model.history_.train, expected, rtol=1e-12)


def test_deviance_of_exponential_and_huber():
    rng = np.random.default_rng(13)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    model = GradientBoostingClassifier(loss="exponential", n_estimators=5).fit(X, y)
    expected = [np.exp(-(2 * y - 1) * raw).mean() for raw in model.staged_decision_function(X)]
    np.testing.assert_allclose(model.history_.train, expected, rtol=1e-12)
    target = X[:, 0] + rng.standard_t(2, 200)
    model = GradientBoostingRegressor(loss="huber", alpha=0.8, n_estimators=5).fit(X, target)
    for p, found in zip(model.staged_predict(X), model.history_.train, strict=True):
        size = np.abs(target - p)
        delta = np.quantile(size, 0.8, method="averaged_inverted_cdf")  # of this stage
        expected = np.where(size <= delta, size**2 / 2, delta * (size - delta / 2)).mean()
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_deviance_of_the_constant_is_kept():
    rng = np.random.default_rng(14)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    assert GradientBoostingRegressor(n_estimators=1).fit(X, y).history_.initial == pytest.approx(y.var())


# -------------------------------------------------------------------------------------------------------- predictions


def test_links():
    rng = np.random.default_rng(15)
    X = rng.normal(size=(200, 3))
    model = GradientBoostingRegressor(loss="poisson", n_estimators=3).fit(X, rng.poisson(2.0, 200))
    np.testing.assert_allclose(model.predict(X), np.exp(model._raw(X)[0]), rtol=1e-14)
    y = rng.integers(0, 2, 200)
    model = GradientBoostingClassifier(n_estimators=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-model.decision_function(X))), rtol=1e-14)
    model = GradientBoostingClassifier(loss="exponential", n_estimators=3).fit(X, y)
    np.testing.assert_allclose(
        model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * model.decision_function(X))), rtol=1e-14
    )
    model = GradientBoostingClassifier(n_estimators=3).fit(X, rng.integers(0, 3, 200))
    raw = np.exp(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), raw / raw.sum(axis=1, keepdims=True), rtol=1e-14)


@pytest.mark.parametrize("name", REGRESSION)
def test_names_of_regression(name):
    loss = regression_loss(name, 0.9, 1.5)
    assert loss.name == name
    assert type(loss)() is not None
    assert repr(loss).startswith(type(loss).__name__)


def test_names_of_classification():
    assert [classification_loss(name, 2).name for name in CLASSIFICATION] == list(CLASSIFICATION)
    assert classification_loss("log_loss", 3).n_outputs == 3


# ------------------------------------------------------------------------------------------------------ custom losses


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(16)
    X = rng.normal(size=(400, 4))
    return X, X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=400)


def test_own_log_loss_is_the_built_in_one(table):
    X, y = table[0], (table[1] > 0).astype(int)
    options = {"n_estimators": 20, "min_samples_leaf": 5}
    own = GradientBoostingClassifier(loss=OwnLogLoss(), **options).fit(X, y)
    built_in = GradientBoostingClassifier(**options).fit(X, y)
    np.testing.assert_allclose(own.decision_function(X), built_in.decision_function(X), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(own.predict_proba(X), built_in.predict_proba(X), rtol=1e-8)  # raw is taken as log-odds
    np.testing.assert_allclose(own.history_.train, built_in.history_.train, rtol=1e-8)


def test_own_squared_error_is_the_built_in_one(table):
    own = GradientBoostingRegressor(loss=OwnSquaredError(), n_estimators=20).fit(*table)
    built_in = GradientBoostingRegressor(n_estimators=20).fit(*table)
    np.testing.assert_allclose(own.predict(table[0]), built_in.predict(table[0]), rtol=1e-8, atol=1e-10)


def test_own_poisson_is_the_built_in_one_but_for_its_leaves(table):
    X, y = table[0], np.random.default_rng(17).poisson(np.exp(table[1] / 2))
    own = GradientBoostingRegressor(loss=Shifted, n_estimators=1).fit(X, y)  # the class will do
    built_in = GradientBoostingRegressor(loss="poisson", n_estimators=1).fit(X, y)
    np.testing.assert_allclose(own.model_.initial, built_in.model_.initial, rtol=1e-9)  # found by minimising
    np.testing.assert_array_equal(own.apply(X), built_in.apply(X))
    assert (own.predict(X) > 0).all()
    assert own.history_.train[-1] == pytest.approx(
        np.mean(own.predict(X) - y * np.log(own.predict(X)) + SHIFT), rel=1e-12
    )


def test_log_cosh_is_robust(table):
    X, y = table
    spoiled = np.where(np.arange(len(y)) % 20 == 0, 50.0, y)
    clean = np.arange(len(y)) % 20 != 0
    robust = GradientBoostingRegressor(loss=LogCosh(), n_estimators=50).fit(X, spoiled).predict(X)
    squared = GradientBoostingRegressor(n_estimators=50).fit(X, spoiled).predict(X)
    assert np.mean((robust - y)[clean] ** 2) < 0.2 * np.mean((squared - y)[clean] ** 2)


@pytest.mark.nojit
def test_own_losses_are_copied_and_kept(table):
    X, y = table[0][:60], table[1][:60]
    model = GradientBoostingRegressor(loss=LogCosh(), n_estimators=3, min_samples_leaf=10).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.fit(X, y).predict(X), model.predict(X))
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))
    assert "LogCosh" in repr(model)


def test_own_losses_of_a_function(table):
    """A class made on the spot, with a variable around it."""

    def expectile(level):
        class Expectile(Loss):
            def loss(y, f):
                return (level if y > f else 1.0 - level) * (y - f) ** 2

            def gradient(y, f):
                return 2.0 * (level if y > f else 1.0 - level) * (f - y)

            def hessian(y, f):
                return 2.0 * (level if y > f else 1.0 - level)

        return Expectile()

    X, y = table
    low, high = (GradientBoostingRegressor(loss=expectile(level), n_estimators=30).fit(X, y) for level in (0.1, 0.9))
    assert (low.predict(X) < high.predict(X)).mean() > 0.95
    assert low.model_.initial[0] < y.mean() < high.model_.initial[0]


@pytest.mark.skipif(not JIT, reason="compiled losses only")
def test_own_losses_use_our_exp_and_log(table):
    """math.exp, np.exp and a bare exp are all replaced by the reproducible one: the same bits."""

    def with_exp(function):
        class Own(Loss):
            def loss(y, f):
                return function(0.1 * (f - y)) - 0.1 * (f - y)

            def gradient(y, f):
                return 0.1 * function(0.1 * (f - y)) - 0.1

            def hessian(y, f):
                return 0.01 * function(0.1 * (f - y))

        return Own()

    class ByModule(Loss):
        def loss(y, f):
            return math.exp(0.1 * (f - y)) - 0.1 * (f - y)

        def gradient(y, f):
            return 0.1 * np.exp(0.1 * (f - y)) - 0.1

        def hessian(y, f):
            return 0.01 * exp(0.1 * (f - y))

    X, y = table
    expected = GradientBoostingRegressor(loss=ByModule(), n_estimators=5).fit(X, y).predict(X)
    for function in (math.exp, np.exp):
        found = GradientBoostingRegressor(loss=with_exp(function), n_estimators=5).fit(X, y).predict(X)
        np.testing.assert_array_equal(found, expected)


def softplus(x):
    return log1p(exp(-abs(x))) + max(x, 0.0)


class WithHelper(OwnLogLoss):
    def loss(y, f):
        return softplus(f) - y * f


def test_own_losses_may_call_plain_functions(table):
    X, y = table[0], (table[1] > 0).astype(int)
    one, other = (
        GradientBoostingClassifier(loss=loss, n_estimators=5).fit(X, y) for loss in (WithHelper(), OwnLogLoss())
    )
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    np.testing.assert_allclose(one.history_.train, other.history_.train, rtol=1e-14)


class NotCompilable(OwnLogLoss):
    def gradient(y, f):
        return pickle.dumps(f)


@pytest.mark.skipif(not JIT, reason="compiled losses only")
def test_losses_that_cannot_be_compiled(table):
    with pytest.raises(ParameterError, match=r"NotCompilable.gradient cannot be compiled: use numbers, if, math"):
        GradientBoostingClassifier(loss=NotCompilable()).fit(table[0], table[1] > 0)


class Incomplete(Loss):
    def loss(y, f):
        return 0.0


class WithSelf(Loss):
    def loss(self, y, f):
        return 0.0

    gradient = hessian = loss


@pytest.mark.parametrize(
    "loss, message",
    [
        (Incomplete(), r"Incomplete needs a function `gradient\(y, f\)` of two numbers \(no self\)"),
        (WithSelf(), r"WithSelf needs a function `loss\(y, f\)` of two numbers \(no self\)"),
        (Loss(), r"Loss needs a function `loss\(y, f\)`"),
        (3, r"loss=3 must be the name of a loss or a stagewise.Loss"),
        (None, r"loss=None must be the name of a loss or a stagewise.Loss"),
        (int, r"must be the name of a loss or a stagewise.Loss"),
        ("mse", r"loss='mse' is not known; choose one of 'squared_error', 'absolute_error'"),
        ("log_loss", r"loss='log_loss' is not known; choose one of 'squared_error'"),
    ],
)
def test_bad_losses_of_a_regressor(loss, message, table):
    with pytest.raises(ParameterError, match=message):
        GradientBoostingRegressor(loss=loss).fit(*table)


@pytest.mark.parametrize("loss", ["exponential", OwnLogLoss()], ids=["exponential", "own"])
def test_losses_for_two_classes_only(loss, table):
    with pytest.raises(ParameterError, match="is for two classes, but y has 3; use loss='log_loss'"):
        GradientBoostingClassifier(loss=loss).fit(table[0], np.arange(400) % 3)


# --------------------------------------------------------------------------------------------------------- range of y


@pytest.mark.parametrize(
    "loss, y, message",
    [
        ("poisson", [1.0, -2.0, 0.0], r"loss='poisson' needs non-negative targets, but y\[1\] is -2"),
        ("tweedie", [1.0, 2.0, -1e-9], r"loss='tweedie' needs non-negative targets, but y\[2\] is -1e-09"),
        ("gamma", [1.0, 2.0, 0.0], r"loss='gamma' needs positive targets, but y\[2\] is 0"),
        ("gamma", [-1.0, 2.0, 1.0], r"loss='gamma' needs positive targets, but y\[0\] is -1"),
        ("poisson", [0.0, 0.0, 0.0], r"loss='poisson' needs at least one positive target, but all of y are 0"),
        ("tweedie", [0.0, 0.0, 0.0], r"loss='tweedie' needs at least one positive target, but all of y are 0"),
    ],
)
def test_targets_out_of_range(loss, y, message):
    X = np.arange(3.0)[:, None]
    with pytest.raises(InputError, match=message):
        GradientBoostingRegressor(loss=loss).fit(X, y)
    with pytest.raises(InputError, match=message):
        GradientBoostingRegressor(loss=loss).fit(X, [1.0, 2.0, 3.0], eval_set=(X, y))


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_no_positive_target_among_the_rows_that_are_trained_on(loss):
    X, y = np.arange(40.0)[:, None], np.where(np.arange(40) == 7, 3.0, 0.0)
    message = f"loss='{loss}' needs at least one positive target, but y is 0 in all rows that are trained on"
    with pytest.raises(InputError, match=message):
        GradientBoostingRegressor(loss=loss).fit(X, y, sample_weight=(y == 0.0).astype(float))
    held_out = GradientBoostingRegressor(loss=loss, early_stopping=True, validation_fraction=0.9)
    with pytest.raises(InputError, match=message):  # the one positive row is among the nine of ten
        held_out.fit(X, y)


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "gamma"])
def test_a_mark_for_missing_targets_at_weight_zero(loss):
    """Files have 1e20 or 9.97e36 where nothing was measured."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 2)), rng.uniform(1.0, 2.0, 150)
    marked, weight = np.where(np.arange(150) < 5, 1e36, y), np.where(np.arange(150) < 5, 0.0, 1.0)
    model = GradientBoostingRegressor(loss, n_estimators=5).fit(X, marked, weight)
    expected = GradientBoostingRegressor(loss, n_estimators=5).fit(X[5:], y[5:])
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile", "poisson", "tweedie"])
@pytest.mark.parametrize("mark", [1e36, 1e200])
def test_deviances_without_rows_of_weight_zero(loss, mark):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(150, 2)), rng.uniform(1.0, 2.0, 150)
    marked, weight = np.where(np.arange(150) < 5, mark, y), np.where(np.arange(150) < 5, 0.0, 1.0)
    found = GradientBoostingRegressor(loss, n_estimators=5).fit(X, marked, weight).history_
    expected = GradientBoostingRegressor(loss, n_estimators=5).fit(X[5:], y[5:]).history_
    np.testing.assert_allclose([found.initial, *found.train], [expected.initial, *expected.train], rtol=1e-7)


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.25])
def test_quantiles_of_whole_weights_are_those_of_repeated_rows(alpha):
    """Where the running weight meets α of the total, it does so exactly, also with weights of 1, 2 and 3."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(2, 20))
        y, weight = rng.normal(size=n), rng.integers(1, 4, n)
        model = GradientBoostingRegressor("quantile", alpha=alpha, n_estimators=1)
        rows = np.repeat(y, weight)
        expected = np.quantile(rows, alpha, method="averaged_inverted_cdf")
        np.testing.assert_allclose(model.fit(np.zeros((n, 1)), y, weight).model_.initial, expected, rtol=1e-12)
