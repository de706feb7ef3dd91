"""Scores and their intervals, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import stagewise as sw
from stagewise.report.profile import profile
from stagewise.report.scores import score_table


def by_key(model, X, y, weight=None):
    return {one["key"]: one for one in score_table(model, X, y, weight)}


def in_order(found):
    for one in found.values():
        assert one["low"] <= one["value"] <= one["high"], one


@pytest.mark.parametrize("weighted", [False, True])
def test_numbers(weighted):
    X, y = load_diabetes(return_X_y=True)
    model = sw.GradientBoostingRegressor(n_estimators=20).fit(X[::2], y[::2])
    X, y = X[1::2], y[1::2] + 1e6  # far from 0: sums of squares must not lose their digits
    weight = np.random.default_rng(0).uniform(0.1, 3, len(y)) if weighted else None
    p = model.predict(X)
    found = by_key(model, X, y, weight)
    assert found["r2"]["value"] == pytest.approx(metrics.r2_score(y, p, sample_weight=weight), rel=1e-9)
    assert found["mae"]["value"] == pytest.approx(metrics.mean_absolute_error(y, p, sample_weight=weight))
    assert found["rmse"]["value"] == pytest.approx(metrics.root_mean_squared_error(y, p, sample_weight=weight))
    assert found["r2"]["constant"] == pytest.approx(0.0, abs=1e-12)
    in_order(found)


@pytest.mark.parametrize("data, multi", [(load_breast_cancer, False), (load_iris, True)])
@pytest.mark.parametrize("weighted", [False, True])
def test_classes(data, multi, weighted):
    X, y = data(return_X_y=True)
    model = sw.GradientBoostingClassifier(n_estimators=5).fit(X[::2], y[::2])
    X, y = X[1::2], y[1::2]
    weight = np.random.default_rng(0).uniform(0.1, 3, len(y)) if weighted else None
    p = model.predict_proba(X)
    found = by_key(model, X, y, weight)
    assert found["log_loss"]["value"] == pytest.approx(metrics.log_loss(y, p, sample_weight=weight))
    assert found["accuracy"]["value"] == pytest.approx(
        metrics.accuracy_score(y, model.predict(X), sample_weight=weight)
    )
    if multi:
        area = np.mean([metrics.roc_auc_score(y == k, p[:, k], sample_weight=weight) for k in range(3)])
    else:
        area = metrics.roc_auc_score(y, p[:, 1], sample_weight=weight)
        assert found["brier"]["value"] == pytest.approx(metrics.brier_score_loss(y, p[:, 1], sample_weight=weight))
    assert found["auc"]["value"] == pytest.approx(area)
    in_order(found)


@pytest.mark.parametrize("loss, power", [("poisson", 1), ("gamma", 2), ("tweedie", 1.5)])
def test_deviance_explained(loss, power):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.exp(X[:, 0]) * rng.gamma(2.0, 0.5, 300)
    model = sw.GradientBoostingRegressor(loss=loss, n_estimators=20).fit(X, y)
    found = by_key(model, X, y)
    assert found["d2"]["value"] == pytest.approx(metrics.d2_tweedie_score(y, model.predict(X), power=power))
    in_order(found)


def test_quantiles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + rng.normal(size=300)
    model = sw.GradientBoostingRegressor(loss="quantile", alpha=0.8, n_estimators=20).fit(X, y)
    found = by_key(model, X, y)
    assert found["pinball"]["value"] == pytest.approx(metrics.mean_pinball_loss(y, model.predict(X), alpha=0.8))
    assert found["below"]["value"] == pytest.approx(np.mean(y <= model.predict(X)))


def test_intervals_cover():
    """95 % intervals of the mean absolute error hold the long-run value about that often."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 1))
    y = X[:, 0] + rng.standard_t(5, size=30_000)
    model = sw.GradientBoostingRegressor(n_estimators=10).fit(X[:500], y[:500])
    truth = by_key(model, X, y)["mae"]["value"]
    held = 0
    for part in np.array_split(np.arange(30_000), 60)[:25]:
        one = by_key(model, X[part], y[part])["mae"]
        held += one["low"] <= truth <= one["high"]
    assert held >= 21


def test_awkward_rows():
    X = np.arange(40.0).reshape(-1, 1)
    model = sw.GradientBoostingRegressor(n_estimators=3, min_samples_leaf=2).fit(X, X[:, 0])
    one = by_key(model, X[:1], X[:1, 0])  # one row has no variance
    assert np.isnan(one["r2"]["value"])
    assert one["r2"]["text"] == "–"
    huge = by_key(model, X, X[:, 0] * 1e150)
    assert np.isfinite(huge["mae"]["value"])
    classifier = sw.GradientBoostingClassifier(n_estimators=3, min_samples_leaf=2).fit(X, X[:, 0] > 20)
    alone = by_key(classifier, X[:5], np.zeros(5, bool))  # one class among the rows
    assert "auc" not in alone
    assert alone["accuracy"]["value"] == 1.0


def test_profile_of_every_kind_of_column():
    import pyarrow as pa

    table = pa.table(
        {
            "n": pa.array([1.0, None, 3.0, 3.0]),
            "gone": pa.array([None] * 4, pa.float64()),
            "same": [7, 7, 7, 7],
            "wild": [np.inf, -np.inf, 1e300, 0.0],
            "text": ["a", "b", None, "a"],
            "code": pa.array(["x", "y", "x", "x"]).dictionary_encode(),
            "flag": [True, False, None, True],
        }
    )
    found = {own["name"]: own for own in profile(table, tuple(table.column_names))}
    assert found["n"]["missing"] == 0.25
    assert (found["n"]["low"], found["n"]["median"], found["n"]["high"], found["n"]["distinct"]) == (1.0, 3.0, 3.0, 2)
    assert found["gone"]["bars"] == []
    assert found["same"]["bars"] == [4]
    assert sum(found["wild"]["bars"]) == 2
    assert found["text"]["top"][0] == ("a", 0.5)
    assert found["text"]["missing"] == 0.25
    assert found["code"]["distinct"] == 2
    assert found["flag"]["top"][0] == ("True", 0.5)
    assert profile(np.array([[1.0, np.nan], [2.0, 5.0]]), ("x0", "x1"))[1]["missing"] == 0.5
