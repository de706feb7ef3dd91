"""Componentwise boosting beside the algorithm written down in NumPy, least squares, and dense boosting operators."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold, TimeSeriesSplit

import naive
from estimators.fingerprint import difference
from stagewise import ComponentwiseClassifier, ComponentwiseRegressor, Dataset, InputError, ParameterError
from stagewise.estimators import componentwise
from stagewise.learners.columns import smoother


def problem(n=120, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.uniform(0.1, 10.0, p) + rng.normal(size=p)
    y = X[:, 0] / 3 - np.sin(X[:, 1]) + rng.normal(0, 0.5, n)
    return X, y, rng.uniform(0.2, 2.0, n)


def line_fits(X, u, w):
    """Slope, level and residual sum of squares of every column."""
    out = []
    for x in X.T:
        mx, mu = np.average(x, weights=w), np.average(u, weights=w)
        slope = np.sum(w * (x - mx) * (u - mu)) / np.sum(w * (x - mx) ** 2)
        level = mu - slope * mx
        out.append((slope, level, np.sum(w * (u - level - slope * x) ** 2)))
    return np.array(out)


def spline_fits(X, u, w, df):
    """Fitted values and residual sum of squares of every column: a P-spline of 20 cells with df degrees of freedom."""
    out = []
    for x in X.T:
        low, width = x.min(), np.ptp(x) / 20
        B = naive.spline_basis(x, low, width, 20)
        D = np.diff(np.eye(23), n=2, axis=0)
        A = smoother((B * w[:, None]).T @ B, D.T @ D, df)
        fit = B @ A @ (B.T @ (w * u))
        out.append((fit, np.sum(w * (u - fit) ** 2)))
    return out


# ------------------------------------------------------------------------------------------------------- beside twins


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_lines(seed, weighted):
    X, y, w = problem(seed=seed)
    w = w if weighted else np.ones(len(y))
    model = ComponentwiseRegressor(n_estimators=60, learning_rate=0.3).fit(X, y, w if weighted else None)
    f, coef, intercept = np.full(len(y), np.average(y, weights=w)), np.zeros(X.shape[1]), np.average(y, weights=w)
    for m, own in enumerate(model.staged_predict(X)):
        fits = line_fits(X, y - f, w)
        j = int(fits[:, 2].argmin())
        assert model.selected_[m] == j
        coef[j] += 0.3 * fits[j, 0]
        intercept += 0.3 * fits[j, 1]
        f = intercept + X @ coef
        np.testing.assert_allclose(own, f, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(model.coef_path_[m], coef, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-10, atol=1e-10)
    assert model.intercept_ == pytest.approx(intercept, rel=1e-10)


@pytest.mark.parametrize("df", [4.0, 2.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_splines(weighted, df):
    X, y, w = problem(seed=5)
    w = w if weighted else np.ones(len(y))
    model = ComponentwiseRegressor(base="spline", n_estimators=25, df=df).fit(X, y, w if weighted else None)
    f = np.full(len(y), np.average(y, weights=w))
    for m, own in enumerate(model.staged_predict(X)):
        fits = spline_fits(X, y - f, w, df)
        j = int(np.argmin([rss for _, rss in fits]))
        assert model.selected_[m] == j
        f = f + 0.1 * fits[j][0]
        np.testing.assert_allclose(own, f, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("df", [2.5, 4.0, 7.0])
def test_a_spline_has_the_degrees_of_freedom_asked_for(df):
    x = np.random.default_rng(0).normal(size=200)
    B = naive.spline_basis(x, x.min(), np.ptp(x) / 20, 20)
    D = np.diff(np.eye(23), n=2, axis=0)
    assert np.trace(B @ smoother(B.T @ B, D.T @ D, df) @ B.T) == pytest.approx(df, rel=1e-6)


def test_stumps():
    X, y, w = problem(seed=7)
    X = np.round(X, 1)
    model = ComponentwiseRegressor(base="stump", n_estimators=20).fit(X, y, w)
    f = np.full(len(y), np.average(y, weights=w))
    for m, own in enumerate(model.staged_predict(X)):
        best, u = (np.inf,), y - f
        for j in range(X.shape[1]):
            for cut in np.unique(X[:, j])[:-1]:
                left = X[:, j] <= cut
                a, b = np.average(u[left], weights=w[left]), np.average(u[~left], weights=w[~left])
                fit = np.where(left, a, b)
                rss = np.sum(w * (u - fit) ** 2)
                if rss < best[0]:
                    best = (rss, j, fit)
        assert model.selected_[m] == best[1]
        f = f + 0.1 * best[2]
        np.testing.assert_allclose(own, f, rtol=1e-10, atol=1e-10)


def test_two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    model = ComponentwiseClassifier(n_estimators=40, learning_rate=1.0).fit(X, y)
    f = np.full(len(y), np.log(y.mean() / (1 - y.mean())))
    for own in model.staged_decision_function(X):
        fits = line_fits(X, y - 1 / (1 + np.exp(-f)), np.ones(len(y)))
        slope, level, _ = fits[j := int(fits[:, 2].argmin())]
        f = f + level + slope * X[:, j]
        np.testing.assert_allclose(own, f, rtol=1e-10, atol=1e-10)
    assert model.coef_.shape == (1, 30)
    np.testing.assert_allclose(model.intercept_ + X @ model.coef_[0], f, rtol=1e-9, atol=1e-9)


def test_k_classes_choose_a_column_each():
    X, y = load_wine(return_X_y=True)
    model = ComponentwiseClassifier(n_estimators=50, learning_rate=0.5).fit(X, y)
    assert model.selected_.shape == (50, 3)
    assert model.coef_.shape == (3, 13)
    assert model.coef_path_.shape == (50, 3, 13)
    np.testing.assert_allclose(model.decision_function(X), model.intercept_ + X @ model.coef_.T, atol=1e-9)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("loss", ["absolute_error", "huber", "poisson", "gamma"])
@pytest.mark.parametrize("base", ["linear", "spline", "stump"])
def test_other_losses(loss, base):
    X, y = load_diabetes(return_X_y=True)
    model = ComponentwiseRegressor(loss, base=base, line_search="exact", n_estimators=60).fit(X, y)
    assert model.score(X, y) > 0.35
    assert model.history_.train[-1] < 0.9 * model.history_.initial


# -------------------------------------------------------------------------------------------------- what theory says


def test_run_long_it_is_least_squares():
    X, y = load_diabetes(return_X_y=True)
    model = ComponentwiseRegressor(n_estimators=20_000, learning_rate=1.0).fit(X, y)
    twin = LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.predict(X), twin.predict(X), rtol=1e-6)
    np.testing.assert_allclose(model.coef_, twin.coef_, rtol=1e-3)


def test_run_long_it_is_weighted_least_squares():
    X, y, w = problem(p=4)
    model = ComponentwiseRegressor(n_estimators=2_000, learning_rate=1.0).fit(X, y, w)
    np.testing.assert_allclose(model.coef_, LinearRegression().fit(X, y, w).coef_, rtol=1e-8)


def test_run_long_it_is_logistic_regression():
    X, y = load_breast_cancer(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[:, [0, 1, 4]]
    model = ComponentwiseClassifier(n_estimators=4000, learning_rate=1.0).fit(X, y)
    twin = LogisticRegression(C=1e12, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, twin.coef_, rtol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_one_stage_takes_the_column_most_correlated_with_y(seed):
    X, y, _ = problem(seed=seed)
    model = ComponentwiseRegressor(n_estimators=1, learning_rate=1.0).fit(X, y)
    best = int(np.argmax([abs(np.corrcoef(x, y)[0, 1]) for x in X.T]))
    assert model.selected_.tolist() == [best]
    assert np.flatnonzero(model.coef_).tolist() == [best]
    np.testing.assert_allclose(model.predict(X), LinearRegression().fit(X[:, [best]], y).predict(X[:, [best]]))


def test_it_is_sparse():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 500))
    y = 3 * X[:, 7] - 2 * X[:, 42] + rng.normal(size=200)
    model = ComponentwiseRegressor(n_estimators=300, stopping="aic").fit(X, y)
    chosen = set(np.flatnonzero(model.coef_).tolist())
    assert {7, 42} <= chosen
    assert len(chosen) < 100
    assert model.coef_[7] == pytest.approx(3.0, abs=0.4)


# -------------------------------------------------------------------------------------------------- how M is chosen


@pytest.mark.parametrize("base", ["linear", "spline"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_information_criterion_beside_dense_operators(base, weighted):
    X, y, w = problem(n=60, p=4)
    w = w if weighted else np.ones(len(y))
    model = ComponentwiseRegressor(base=base, n_estimators=80, stopping="aic").fit(X, y, w if weighted else None)
    n, path = len(y), model.criterion_path_
    whole = ComponentwiseRegressor(base=base, n_estimators=80).fit(X, y, w if weighted else None)
    R = np.eye(n) - np.outer(np.ones(n), w / w.sum())
    fits = []
    for x in X.T:  # smoothers by what they do to unit vectors
        columns = x[:, None]
        if base == "linear":
            parts = [line_fits(columns, unit, w)[0] for unit in np.eye(n)]
            fits.append(np.array([level + slope * x for slope, level, _ in parts]).T)
        else:
            fits.append(np.array([spline_fits(columns, unit, w, 4.0)[0][0] for unit in np.eye(n)]).T)
    for m, (j, f) in enumerate(zip(whole.selected_, whole.staged_predict(X), strict=True)):
        R = R - 0.1 * fits[j] @ R
        df = n - np.trace(R)
        sigma = np.average((y - f) ** 2, weights=w)
        assert path[m] == pytest.approx(np.log(sigma) + (1 + df / n) / (1 - (df + 2) / n), rel=1e-7)
    assert model.n_estimators_ == int(np.argmin(path)) + 1
    np.testing.assert_array_equal(model.selected_, whole.selected_[: model.n_estimators_])


def test_the_information_criterion_of_classes_counts_parameters():
    X, y = load_breast_cancer(return_X_y=True)
    model = ComponentwiseClassifier(n_estimators=50, learning_rate=1.0, stopping="aic").fit(X, y)
    whole = ComponentwiseClassifier(n_estimators=50, learning_rate=1.0).fit(X, y)
    used = [len(set(whole.selected_[: m + 1])) for m in range(50)]
    twin = 2 * len(y) * whole.history_.train + 2 * (1 + np.array(used))
    np.testing.assert_allclose(model.criterion_path_, twin, rtol=1e-12)


@pytest.mark.parametrize("base", ["linear", "spline"])  # a stump's thresholds depend on all rows of the table
def test_cross_validation_by_hand(base):
    X, y, w = problem(n=90)
    offset = 0.3 * X[:, 2]
    folds = list(KFold(3).split(X))
    model = ComponentwiseRegressor(base=base, n_estimators=30, stopping="cv", cv=folds).fit(X, y, w, init_score=offset)
    total = np.zeros(30)
    for train, test in folds:
        part = ComponentwiseRegressor(base=base, n_estimators=30).fit(
            X[train], y[train], w[train], init_score=offset[train]
        )
        for m, f in enumerate(part.staged_predict(X[test])):
            total[m] += np.sum(w[test] * (y[test] - offset[test] - f) ** 2)
    np.testing.assert_allclose(model.criterion_path_, total / w.sum(), rtol=1e-8)
    assert model.n_estimators_ == int(np.argmin(total)) + 1


def test_cross_validation_trains_on_the_rows_that_are_named():
    """A series is not to be predicted from its future."""
    X, y, w = problem()
    w[:7] = 0.0
    folds = list(TimeSeriesSplit(3).split(X))
    model = ComponentwiseRegressor(n_estimators=10, stopping="cv", cv=folds).fit(X, y, w)
    total = np.zeros(10)
    for own, test in folds:
        part = ComponentwiseRegressor(n_estimators=10).fit(X[own], y[own], w[own])
        total += [np.sum(w[test] * (y[test] - f) ** 2) for f in part.staged_predict(X[test])]
    np.testing.assert_allclose(model.criterion_path_, total / sum(w[test].sum() for _, test in folds), rtol=1e-9)
    again = ComponentwiseRegressor(n_estimators=10, stopping="cv", cv=TimeSeriesSplit(3)).fit(X, y, w)
    np.testing.assert_array_equal(again.criterion_path_, model.criterion_path_)
    for none in [], [(np.arange(0), np.arange(120))], [(np.arange(120), np.arange(7))]:
        with pytest.raises(InputError, match="leaves no rows to train on, or none to test"):
            ComponentwiseRegressor(stopping="cv", cv=none).fit(X, y, w)


def test_cross_validation_of_classes():
    X, y = load_iris(return_X_y=True)
    model = ComponentwiseClassifier(base="spline", n_estimators=60, learning_rate=1.0, stopping="cv", cv=4).fit(X, y)
    assert 5 < model.n_estimators_ <= 60
    assert len(model.criterion_path_) == 60
    assert model.score(X, y) > 0.93


# --------------------------------------------------------------------------------------------------------- other things


@pytest.mark.parametrize("base", ["linear", "spline", "stump"])
def test_offset(base):
    X, y, _ = problem()
    with_offset = ComponentwiseRegressor(base=base, n_estimators=20).fit(X, y, init_score=5.0 * X[:, 3])
    without = ComponentwiseRegressor(base=base, n_estimators=20).fit(X, y - 5.0 * X[:, 3])
    np.testing.assert_allclose(with_offset.predict(X), without.predict(X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("base", ["linear", "spline", "stump"])
def test_constant_columns_and_constant_targets(base):
    X, y, _ = problem()
    X[:, 0] = 7.0
    X[:, 3] = 1e300
    model = ComponentwiseRegressor(base=base, n_estimators=30).fit(X, y)
    assert not set(model.selected_) & {0, 3}
    flat = ComponentwiseRegressor(base=base, n_estimators=3).fit(X, np.full(len(y), 2.0))
    np.testing.assert_allclose(flat.predict(X), 2.0)
    nothing = ComponentwiseRegressor(base=base, n_estimators=3).fit(X[:, [0, 3]], y)
    assert nothing.selected_.tolist() == [-1, -1, -1]
    np.testing.assert_allclose(nothing.predict(X[:, [0, 3]]), y.mean())


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("base", ["linear", "spline"])
def test_columns_of_any_size(base, scale):
    X, y, _ = problem(p=2)
    plain = ComponentwiseRegressor(base=base, n_estimators=10).fit(X, y).predict(X)
    np.testing.assert_allclose(
        ComponentwiseRegressor(base=base, n_estimators=10).fit(X * scale, y).predict(X * scale), plain, rtol=1e-8
    )


def test_few_distinct_values_and_rows_beyond_the_knots():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (50, 2)).astype(float)
    y = X[:, 0] ** 2 + rng.normal(0, 0.1, 50)
    model = ComponentwiseRegressor(base="spline", n_estimators=200).fit(X, y)
    assert model.score(X, y) > 0.97
    far = model.predict([[1e9, 1.0], [2.0, 1.0], [-1e9, 1.0], [0.0, 1.0]])
    assert far[0] == pytest.approx(far[1])
    assert far[2] == pytest.approx(far[3])


def test_rows_of_weight_zero_take_no_part():
    X, y, _ = problem()
    weight = np.where(np.arange(len(y)) < 80, 1.0, 0.0)
    X[100:] *= 1e6
    for base in ("linear", "spline", "stump"):
        one = ComponentwiseRegressor(base=base, n_estimators=10).fit(X, y, weight)
        other = ComponentwiseRegressor(base=base, n_estimators=10).fit(X[:80], y[:80])
        np.testing.assert_allclose(one.predict(X[:80]), other.predict(X[:80]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("base", ["linear", "spline"])
def test_a_column_that_only_rows_without_part_fill(base):
    """As a rare dummy column in cross-validation, all of whose rows are left out."""
    X, y, _ = problem()
    w = np.ones(len(y))
    w[:3] = 0.0
    sparse = np.column_stack([X, np.where(w == 0.0, 1e200, 0.0)])
    model = ComponentwiseRegressor(base=base, n_estimators=20).fit(sparse, y, w)
    expected = ComponentwiseRegressor(base=base, n_estimators=20).fit(X[3:], y[3:])
    np.testing.assert_array_equal(model.selected_, expected.selected_)
    np.testing.assert_allclose(model.predict(sparse[3:]), expected.predict(X[3:]), rtol=1e-9)


def test_threads_do_not_matter():
    X, y, _ = problem(n=120_000, p=9)
    for base in ("linear", "spline"):
        one, two = (
            ComponentwiseRegressor(base=base, n_estimators=10, n_jobs=jobs).fit(X, y).predict(X) for jobs in (1, 3)
        )
        np.testing.assert_array_equal(one, two)


def test_stumps_take_missing_values_and_datasets():
    X, y, _ = problem()
    X[::4, 0] = np.nan
    one = ComponentwiseRegressor(base="stump", n_estimators=10).fit(X, y)
    assert difference(one, ComponentwiseRegressor(base="stump", n_estimators=10).fit(Dataset(X, y))) == ""
    for base in ("linear", "spline"):
        with pytest.raises(InputError, match="contains NaN, which lines and splines cannot use; take base='stump'"):
            ComponentwiseRegressor(base=base).fit(X, y)
        fitted = ComponentwiseRegressor(base=base).fit(np.nan_to_num(X), y)
        with pytest.raises(InputError, match="contains NaN"):
            fitted.predict(X)
        with pytest.raises(InputError, match="needs the values of X"):
            ComponentwiseRegressor(base=base).fit(Dataset(np.nan_to_num(X), y))


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"base": "tree"}, "base='tree' is not known"),
        ({"stopping": "bic"}, "stopping='bic' is not known"),
        ({"df": 1.0}, r"df=1.0 must be in \(1, 20\]"),
        ({"cv": 1, "stopping": "cv"}, "cv=1 must be"),
        ({"line_search": "leaves"}, "line_search='leaves' is not known"),
        ({"stopping": "aic", "base": "stump"}, "stopping='aic' is for base 'linear' and 'spline'"),
        ({"stopping": "aic", "loss": "absolute_error"}, "needs a likelihood"),
    ],
)
def test_what_cannot_be_used_is_named(settings, words):
    X, y, _ = problem()
    with pytest.raises(ParameterError, match=words):
        ComponentwiseRegressor(**settings).fit(X, y)


def test_too_few_rows_for_the_folds():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="cannot divide the rows"):
        ComponentwiseClassifier(stopping="cv", cv=5).fit(X[::25], y[::25])


@pytest.mark.skipif(sys.platform == "win32", reason="no signals to send")
def test_ctrl_c_in_cross_validation_ends_it(monkeypatch):
    class PressesCtrlC:
        def on_stage(self, stage):
            if stage.number == 3:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)  # until Python has run the handler

    def pressed(problem, method, params, callbacks, threads):
        return boost(problem, method, params, [PressesCtrlC()], threads)

    boost = componentwise.boost
    monkeypatch.setattr(componentwise, "boost", pressed)
    model = ComponentwiseRegressor(n_estimators=10, stopping="cv")
    with pytest.raises(KeyboardInterrupt, match="there is no model yet"):
        model.fit(np.eye(30), np.arange(30.0))
    assert not hasattr(model, "model_")


def test_only_lines_have_coefficients():
    X, y, _ = problem()
    model = ComponentwiseRegressor(base="spline", n_estimators=3).fit(X, y)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "intercept_")
