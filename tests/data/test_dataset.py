"""Datasets that are used often: subsets are views, and a fit on one is a fit on a table of its rows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import stagewise as sw
from stagewise.errors import InputError, InputTypeError

sys.path.insert(0, str(Path(__file__).parents[1] / "estimators"))
from fingerprint import difference

N = 1200


def table(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 4] = rng.integers(0, 4, n)
    f = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + np.nan_to_num(X[:, 2])
    return X, f + 0.3 * rng.normal(size=n)


def labels(y: np.ndarray, k: int) -> np.ndarray:
    return np.digitize(y, np.quantile(y, np.arange(1, k) / k))


SOME = np.flatnonzero(np.random.default_rng(1).random(N) < 0.7)
ANY_ORDER = np.random.default_rng(2).permutation(N)[:700]

CASES = {
    "plain": (sw.GradientBoostingRegressor, {}),
    "subsample": (sw.GradientBoostingRegressor, {"subsample": 0.5}),
    "goss": (sw.GradientBoostingRegressor, {"sampling": "goss"}),
    "mvs": (sw.GradientBoostingRegressor, {"sampling": "mvs", "subsample": 0.4}),
    "absolute error": (sw.GradientBoostingRegressor, {"loss": "absolute_error"}),
    "huber, goss": (sw.GradientBoostingRegressor, {"loss": "huber", "sampling": "goss", "learning_rate": 0.5}),
    "early stopping": (sw.GradientBoostingRegressor, {"early_stopping": True, "n_iter_no_change": 3}),
    "symmetric": (sw.GradientBoostingRegressor, {"growth": "symmetric", "max_depth": 4}),
    "columns": (sw.GradientBoostingRegressor, {"max_features": 2}),
    "many leaves": (sw.GradientBoostingRegressor, {"max_leaf_nodes": 200, "min_samples_leaf": 2, "subsample": 0.5}),
    "two classes": (sw.GradientBoostingClassifier, {}),
    "three classes": (sw.GradientBoostingClassifier, {"subsample": 0.5}),
    "trimming": (sw.GradientBoostingClassifier, {"influence_trimming": 0.2}),
    "adaboost": (sw.AdaBoostClassifier, {}),
    "adaboost, three classes": (sw.AdaBoostClassifier, {}),
    "logitboost": (sw.LogitBoostClassifier, {}),
    "stagewise": (sw.StagewiseRegressor, {"loss": "absolute_error"}),
    "componentwise": (sw.ComponentwiseRegressor, {"base": "stump", "stopping": "cv", "cv": 3}),
}


def build(case: str) -> tuple[object, np.ndarray, np.ndarray]:
    kind, settings = CASES[case]
    X, y = table()
    if issubclass(kind, (sw.GradientBoostingClassifier, sw.AdaBoostClassifier, sw.LogitBoostClassifier)):
        y = labels(y, 3 if "three" in case else 2)
    return kind(n_estimators=12, **settings), X, y


def clone(estimator: object) -> object:
    return type(estimator)(**estimator.get_params())


@pytest.mark.parametrize("rows", [SOME, ANY_ORDER], ids=["ascending", "any order"])
@pytest.mark.parametrize("case", CASES)
def test_a_fit_on_a_subset_is_a_fit_on_a_table_of_its_rows(case, rows):
    """Byte for byte, draws and validation splits included: they go by the position in the subset."""
    estimator, X, y = build(case)
    whole = sw.Dataset(X, y)
    physical = sw.Dataset(X[rows], y[rows], like=whole)
    one, other = clone(estimator).fit(whole.subset(rows)), clone(estimator).fit(physical)
    assert difference(one, other) == ""


@pytest.mark.parametrize("case", ["subsample", "goss", "absolute error", "early stopping"])
@pytest.mark.parametrize("n_jobs", [2, 3])
def test_subsets_on_threads(case, n_jobs, monkeypatch):
    monkeypatch.setattr("stagewise.backends.pace._WORK_A_THREAD", 1)
    estimator, X, y = build(case)
    ds = sw.Dataset(X, y).subset(ANY_ORDER)
    one, other = clone(estimator).set_params(n_jobs=1).fit(ds), clone(estimator).set_params(n_jobs=n_jobs).fit(ds)
    assert difference(one, other) == ""


def test_a_subset_copies_no_bins():
    X, y = table()
    ds = sw.Dataset(X, y)
    part = ds.subset(SOME).subset(np.arange(50))
    assert part.bins is ds.bins
    assert part.cuts is ds.cuts
    np.testing.assert_array_equal(part.rows, SOME[:50])
    np.testing.assert_array_equal(part.y, y[SOME[:50]])
    assert ds.rows is None
    assert (part.n_rows, ds.n_rows) == (50, N)


def test_weights_go_with_the_rows():
    X, y = table()
    w = np.random.default_rng(3).integers(0, 3, N).astype(float)
    whole = sw.Dataset(X, y, w)
    one = sw.GradientBoostingRegressor(n_estimators=5).fit(whole.subset(SOME))
    other = sw.GradientBoostingRegressor(n_estimators=5).fit(sw.Dataset(X[SOME], y[SOME], w[SOME], like=whole))
    assert difference(one, other) == ""


def test_a_mask_and_lists_of_labels():
    X, y = table()
    names = [["low", "high"][k] for k in labels(y, 2)]
    mask = np.zeros(N, bool)
    mask[SOME] = True
    ds = sw.Dataset(X, names)
    one = sw.GradientBoostingClassifier(n_estimators=3).fit(ds.subset(mask))
    other = sw.GradientBoostingClassifier(n_estimators=3).fit(ds.subset(SOME.tolist()))
    assert difference(one, other) == ""
    assert one.classes_.tolist() == ["high", "low"]


@pytest.mark.parametrize(
    "rows, said",
    [
        ([], "empty"),
        ([0, 0], "more than once"),
        ([-1], "contains -1"),
        ([N], f"contains {N}"),
        ([0.5], "whole numbers"),
        (["a"], "whole numbers"),
        ([[1, 2]], "shape"),
        (3, "shape"),
        (np.ones(3, bool), "mask of 3"),
        (np.zeros(N, bool), "empty"),
    ],
)
def test_rows_that_cannot_be(rows, said):
    X, y = table()
    with pytest.raises(InputError, match=said):
        sw.Dataset(X, y).subset(rows)


def test_y_of_another_length():
    X, y = table()
    with pytest.raises(InputError, match="one entry a row"):
        sw.Dataset(X, y[:-1]).subset([1, 2])


def test_like():
    X, y = table()
    ds = sw.Dataset(X, y, max_bins=20)
    again = sw.Dataset(X, y, like=ds)
    assert again.cuts is ds.cuts
    np.testing.assert_array_equal(again.bins.by_row, ds.bins.by_row)
    with pytest.raises(InputTypeError, match="like"):
        sw.Dataset(X, y, like=X)
    with pytest.raises(InputError, match="features"):
        sw.Dataset(X[:, :3], y, like=ds)


# --- eval_set, predictions, going on ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sw.GradientBoostingRegressor, sw.GradientBoostingClassifier])
def test_a_subset_as_eval_set(kind):
    X, y = table()
    y = labels(y, 3) if kind is sw.GradientBoostingClassifier else y
    test = np.setdiff1d(np.arange(N), SOME)
    ds = sw.Dataset(X, y)
    settings = {"n_estimators": 60, "early_stopping": True, "n_iter_no_change": 3, "learning_rate": 0.5}
    one = kind(**settings).fit(ds.subset(SOME), eval_set=ds.subset(test))
    other = kind(**settings).fit(ds.subset(SOME), eval_set=[(X[test], y[test])])
    third = kind(**settings).fit(ds.subset(SOME), eval_set=sw.Dataset(X[test], y[test], like=ds))
    assert difference(one, other) == difference(one, third) == ""
    with pytest.raises(InputError, match="other cut points"):
        kind(**settings).fit(ds, eval_set=sw.Dataset(X[test], y[test]))


@pytest.mark.parametrize("case", ["plain", "two classes", "three classes", "adaboost, three classes", "many leaves"])
def test_predictions_from_bins_are_those_from_values(case):
    estimator, X, y = build(case)
    ds = sw.Dataset(X, y)
    model = estimator.fit(ds.subset(SOME))
    part = ds.subset(ANY_ORDER)
    np.testing.assert_array_equal(model.predict(part), model.predict(X[ANY_ORDER]))
    np.testing.assert_array_equal(model.predict(ds), model.predict(X))
    for a, b in zip(model.staged_predict(part), model.staged_predict(X[ANY_ORDER]), strict=True):
        np.testing.assert_array_equal(a, b)
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(model.predict_proba(part), model.predict_proba(X[ANY_ORDER]))
    assert model.score(part) == model.score(X[ANY_ORDER], y[ANY_ORDER])


def test_bins_that_do_not_know_a_threshold():
    X, y = table()
    model = sw.GradientBoostingRegressor(n_estimators=3).fit(X, y)
    with pytest.raises(InputError, match="no cut point"):
        model.predict(sw.Dataset(X[:300], max_bins=10))
    with pytest.raises(InputError, match="columns"):
        model.predict(sw.Dataset(X[:, :2]))
    line = sw.ComponentwiseRegressor(n_estimators=3).fit(np.nan_to_num(X), y)
    with pytest.raises(InputError, match="values of X"):
        line.predict(sw.Dataset(X))


def test_a_score_needs_y():
    X, y = table()
    model = sw.GradientBoostingRegressor(n_estimators=3).fit(X, y)
    with pytest.raises(InputError, match="y"):
        model.score(sw.Dataset(X))
    with pytest.raises(InputError, match="y"):
        model.score(X)


@pytest.mark.parametrize("case", ["plain", "goss", "three classes", "early stopping"])
def test_a_warm_start_on_a_subset_is_one_fit(case):
    estimator, X, y = build(case)
    ds = sw.Dataset(X, y).subset(ANY_ORDER)
    whole = clone(estimator).fit(ds)
    parts = clone(estimator).set_params(n_estimators=5, warm_start=True).fit(ds)
    parts.set_params(n_estimators=12).fit(ds)
    np.testing.assert_array_equal(whole.predict(ds), parts.predict(ds))


def test_checkpoints_of_a_subset(tmp_path):
    X, y = table()
    ds = sw.Dataset(X, y)
    whole = sw.GradientBoostingRegressor(n_estimators=12, sampling="goss", learning_rate=0.5).fit(ds.subset(ANY_ORDER))
    half = sw.GradientBoostingRegressor(n_estimators=6, sampling="goss", learning_rate=0.5)
    half.fit(ds.subset(ANY_ORDER), checkpoint=tmp_path, every=3)
    half.set_params(n_estimators=12).fit(ds.subset(ANY_ORDER), checkpoint=tmp_path, every=3)
    assert difference(whole, half) == ""
    with pytest.raises(InputError, match="another fit"):
        half.fit(ds.subset(ANY_ORDER[::-1]), checkpoint=tmp_path)


def test_one_row_and_one_column():
    X, y = table()
    ds = sw.Dataset(X[:, :1], y)
    model = sw.GradientBoostingRegressor(n_estimators=2, min_samples_leaf=1).fit(ds.subset([7]))
    assert model.predict(ds.subset([7]))[0] == pytest.approx(y[7])


def test_where_values_are_needed_a_dataset_will_not_do():
    X = np.random.default_rng(0).normal(size=(60, 2))
    ds = sw.Dataset(X, X[:, 0])
    model = sw.GradientBoostingRegressor(n_estimators=2, verbose=np.False_).fit(ds)
    with pytest.raises(InputTypeError, match="A Dataset keeps the codes of bins, not values"):
        model.apply(ds)
