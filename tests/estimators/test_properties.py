"""What is true of every fit: properties from the papers, and what each option promises."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn import datasets, metrics
from sklearn.base import clone
from sklearn.utils.class_weight import compute_sample_weight

from estimators.fingerprint import arrays_of, difference
from stagewise import Dataset, GradientBoostingClassifier, GradientBoostingRegressor, TrainingInterrupted
from stagewise.boosting.monitor import Stage
from stagewise.errors import ParameterError

R, C = GradientBoostingRegressor, GradientBoostingClassifier
GROWTHS = ["leafwise", "levelwise", "symmetric"]
every_growth = pytest.mark.parametrize("growth", GROWTHS)


@pytest.fixture(scope="module")
def few():
    """500 rows of whole numbers, at most 100 a column; y."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 100, (500, 4)).astype(float)
    return X, np.sin(X[:, 0] / 15) + (X[:, 1] > 50) * X[:, 2] / 50 + 0.5 * rng.normal(size=500)


@pytest.fixture(scope="module")
def friedman():
    return datasets.make_friedman1(600, n_features=8, noise=1.0, random_state=0)


def labels(y: np.ndarray, n_classes: int = 2) -> np.ndarray:
    return np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


# ------------------------------------------------------------------------------------------- monotone transformations


RISING = {
    "exp": lambda x: np.exp(x / 10),
    "cube": lambda x: (x - 50) ** 3,
    "inverse": lambda x: -1.0 / (x + 1.0),
    "root": np.sqrt,
    "stretch": lambda x: 1e200 * x - 1e201,
    "float32": lambda x: x.astype(np.float32),
}


@pytest.mark.parametrize("shape", RISING)
@every_growth
def test_rising_transformations_change_nothing(shape, growth, few):
    """Trees see the order of values alone: the same predictions, bit for bit."""
    X, y = few
    model = R(n_estimators=8, growth=growth, min_samples_leaf=5)
    plain, other = clone(model).fit(X, y), clone(model).fit(RISING[shape](X), y)
    np.testing.assert_array_equal(other.predict(RISING[shape](X)), plain.predict(X))
    kept = {name: array for name, array in arrays_of(plain.model_) if not name.endswith("threshold")}
    for name, array in arrays_of(other.model_):
        if name in kept and not name.startswith(("cuts", "points")):
            np.testing.assert_array_equal(array, kept[name], err_msg=name)


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_rising_transformations_with_missing_values(loss, few):
    X, y = few
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    model = C(loss=loss, n_estimators=8)
    plain, other = clone(model).fit(X, labels(y)), clone(model).fit(RISING["exp"](X), labels(y))
    np.testing.assert_array_equal(other.predict_proba(RISING["exp"](X)), plain.predict_proba(X))


def test_rising_transformations_of_many_values(friedman):
    """More than 255 distinct values: bins are made of ranks, so the rows that were trained on do not move."""
    X, y = friedman
    plain, other = R(n_estimators=8).fit(X, y), R(n_estimators=8).fit(np.exp(5 * X), y)
    np.testing.assert_array_equal(other.predict(np.exp(5 * X)), plain.predict(X))


@every_growth
def test_mirrored_columns(growth, few):
    """x → -x exchanges left and right, and nothing else while no two splits tie."""
    X, y = few
    model = R(n_estimators=8, growth=growth, min_samples_leaf=5)
    np.testing.assert_array_equal(clone(model).fit(-X, y).predict(-X), clone(model).fit(X, y).predict(X))


# -------------------------------------------------------------------------------------------------- interaction order


def mixed_difference(model, low: np.ndarray, high: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    """Σ ± f over the corners of the box between low and high in these columns: 0 without an interaction of them all."""
    total = 0.0
    for corner in itertools.product((0, 1), repeat=len(columns)):
        X = low.copy()
        for j, side in zip(columns, corner, strict=True):
            X[:, j] = (high if side else low)[:, j]
        total = total + (-1.0) ** sum(corner) * model.predict(X)
    return total


@pytest.mark.parametrize(
    "leaves, options",
    [
        (2, {"max_leaf_nodes": 2}),
        (2, {"max_depth": 1, "max_leaf_nodes": None}),
        (2, {"growth": "levelwise", "max_leaf_nodes": 2}),
        (2, {"growth": "symmetric", "max_depth": 1}),
        (3, {"max_leaf_nodes": 3}),
        (3, {"max_depth": 2, "max_leaf_nodes": None}),
        (4, {"max_leaf_nodes": 4}),
    ],
)
def test_order_of_interactions(leaves, options, friedman):
    """ESL 10.11: trees of J leaves hold interactions of at most J - 1 columns; J = 2 is an additive model."""
    X, y = friedman
    model = R(n_estimators=60, min_samples_leaf=5, **options).fit(X, y)
    low, high = X[:200], X[200:400]
    for columns in itertools.combinations(range(5), leaves):
        np.testing.assert_allclose(mixed_difference(model, low, high, columns), 0.0, atol=1e-12)
    if leaves > 2:  # and the lower order is used: columns 0 and 1 do interact in this function
        assert np.abs(mixed_difference(model, low, high, (0, 1))).max() > 0.1


def test_columns_on_a_path(friedman):
    X, y = friedman
    for leaves in (2, 3, 5, 8):
        for stage in R(n_estimators=10, max_leaf_nodes=leaves, min_samples_leaf=1).fit(X, y).model_.stages:
            tree = stage[0]
            assert len(tree.leaves) == leaves
            assert paths(tree) <= leaves - 1


def paths(tree) -> int:
    """The largest number of different columns on a path from the root."""
    seen = {0: frozenset()}
    most = 0
    for k in range(tree.n_nodes):
        if tree.left[k] >= 0:
            seen[tree.left[k]] = seen[tree.left[k] + 1] = seen[k] | {int(tree.feature[k])}
        most = max(most, len(seen[k]))
    return most


@every_growth
def test_limits_of_a_tree(growth, friedman):
    X, y = friedman
    model = R(n_estimators=5, growth=growth, max_leaf_nodes=10, max_depth=3, min_samples_leaf=30).fit(X, y)
    for (tree,) in model.model_.stages:
        assert len(tree.leaves) <= (8 if growth != "levelwise" else 10)
        assert tree.depth.max() <= 3
        assert tree.count[tree.leaves].min() >= 30
        assert tree.count[0] == len(y)
        assert tree.count[tree.leaves].sum() == len(y)
        np.testing.assert_array_equal(np.unique(model.apply(X)[:, 0]) >= 0, True)
    found = np.stack([np.bincount(column, minlength=20) for column in model.apply(X).T])
    for (tree,), counts in zip(model.model_.stages, found, strict=True):
        np.testing.assert_array_equal(counts[tree.leaves], tree.count[tree.leaves])
        if growth == "symmetric":
            for level in range(tree.depth.max()):
                here = (tree.depth == level) & (tree.left >= 0)
                assert len(set(zip(tree.feature[here], tree.threshold[here], strict=True))) == 1


# ----------------------------------------------------------------------------------------------------------- training


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"growth": "levelwise"},
        {"growth": "symmetric"},
        {"learning_rate": 1.0},
        {"max_features": 0.3},
        {"l2_regularization": 5.0, "l1_regularization": 2.0},
        {"max_leaf_nodes": 2, "learning_rate": 1.0},
        {"min_samples_leaf": 1, "max_leaf_nodes": None, "max_depth": 8},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_training_deviance_of_squared_error_never_rises(options, weighted, friedman):
    X, y = friedman
    X = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)
    w = np.random.default_rng(3).uniform(0.1, 3.0, len(y)) if weighted else None
    history = R(n_estimators=40, **options).fit(X, y, w).history_
    assert (np.diff([history.initial, *history.train]) <= 1e-12).all()


def test_irrelevant_columns_hardly_matter():
    X, y = datasets.make_friedman1(1500, n_features=5, noise=1.0, random_state=0)
    noise = np.random.default_rng(4).random((1500, 20))
    both = np.hstack([noise[:, :10], X, noise[:, 10:]])
    few, many = R(n_estimators=80, max_leaf_nodes=8), R(n_estimators=80, max_leaf_nodes=8)
    few.fit(X[:1000], y[:1000])
    many.fit(both[:1000], y[:1000])
    shares = many.feature_importances_
    assert shares.sum() == pytest.approx(1.0)
    assert shares[10:15].sum() > 0.97
    assert shares[10:15].min() > 3 * np.delete(shares, range(10, 15)).max()
    errors = [np.mean((m.predict(Z[1000:]) - y[1000:]) ** 2) for m, Z in ((few, X), (many, both))]
    assert errors[1] < 1.25 * errors[0]


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_of_columns_change_nothing(copies, few):
    """Ties go to the first of equal columns."""
    X, y = few
    model = R(n_estimators=5)
    assert_same_trees(clone(model).fit(np.hstack([X] * copies), y), clone(model).fit(X, y))


def assert_same_trees(one, other):
    for a, b in zip(one.model_.stages, other.model_.stages, strict=True):
        for s, t in zip(a, b, strict=True):
            for name in ("feature", "cut", "left", "value", "count"):
                np.testing.assert_array_equal(getattr(s, name), getattr(t, name))


# -------------------------------------------------------------------------------------------- predictions and history


CASES = {
    "squared error": (R(), 0),
    "poisson": (R(loss="poisson"), 0),
    "absolute error": (R(loss="absolute_error"), 0),
    "two classes": (C(), 2),
    "three classes": (C(), 3),
    "subsample": (R(subsample=0.5, max_features=0.5), 0),
    "subsample of classes": (C(subsample=0.5, random_state=1), 3),
    "levelwise": (C(growth="levelwise"), 2),
    "symmetric": (C(growth="symmetric", subsample=0.8), 2),
    "large trees": (R(max_leaf_nodes=100, min_samples_leaf=1), 0),
}
every_case = pytest.mark.parametrize("case", CASES, ids=[name.replace(" ", "-") for name in CASES])


def data_of(case: str, few):
    X, y = few
    X = np.where(np.random.default_rng(5).random(X.shape) < 0.1, np.nan, X)
    estimator, n_classes = CASES[case]
    return clone(estimator), X, labels(y, n_classes) if n_classes else np.abs(y)


@every_case
def test_stages_lead_to_the_prediction(case, few):
    model, X, y = data_of(case, few)
    model.set_params(n_estimators=7).fit(X, y)
    stages = list(model.staged_predict(X))
    assert len(stages) == 7 == model.n_estimators_ == len(model.history_.train)
    np.testing.assert_array_equal(stages[-1], model.predict(X))
    for m in (1, 4):
        shorter = clone(model).set_params(n_estimators=m).fit(X, y)
        np.testing.assert_array_equal(stages[m - 1], shorter.predict(X))
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(list(model.staged_predict_proba(X))[-1], model.predict_proba(X))
        raw = list(model.staged_decision_function(X))
        np.testing.assert_array_equal(raw[-1], model.decision_function(X))
        assert len({id(array) for array in raw}) == 7


@every_case
def test_history_is_the_metric_of_the_prediction(case, few):
    model, X, y = data_of(case, few)
    model.set_params(n_estimators=7).fit(X, y)
    if hasattr(model, "classes_"):
        found = metrics.log_loss(y, model.predict_proba(X))
    else:
        metric = {"poisson": metrics.mean_poisson_deviance, "absolute_error": metrics.mean_absolute_error}
        found = metric.get(model.loss, metrics.mean_squared_error)(y, model.predict(X))
    assert model.history_.train[-1] == pytest.approx(found, rel=1e-12)


@every_case
def test_one_row_at_a_time(case, few):
    """A row's prediction does not depend on the rows beside it."""
    model, X, y = data_of(case, few)
    model.set_params(n_estimators=7).fit(X, y)
    together = model.predict(X[:300])
    np.testing.assert_array_equal(np.concatenate([model.predict(X[i : i + 1]) for i in range(40)]), together[:40])
    np.testing.assert_array_equal(np.concatenate([model.predict(part) for part in np.split(X[:300], 20)]), together)


def test_leaves_and_values(few):
    """apply, and the sum of leaf values that it leads to."""
    X, y = few
    model = R(n_estimators=7).fit(X, y)
    leaves = model.apply(X)
    values = [stage[0].value[leaves[:, m]] for m, stage in enumerate(model.model_.stages)]
    raw = np.full(len(y), model.model_.initial[0])
    for part in values:
        raw += part
    np.testing.assert_array_equal(raw, model.predict(X))


def test_rows_of_a_stage(few):
    X, y = few
    assert R(n_estimators=3).fit(X, y).history_.rows.tolist() == [500] * 3
    assert R(n_estimators=3, subsample=0.3).fit(X, y).history_.rows.tolist() == [150] * 3
    assert "3 stages" in repr(R(n_estimators=3).fit(X, y).history_)
    assert "validation" in repr(R(n_estimators=3).fit(X, y, eval_set=(X, y)).history_)


def test_subsamples_differ_by_stage_and_seed(few):
    X, y = few
    models = [R(n_estimators=2, subsample=0.5, random_state=seed).fit(X, y) for seed in (0, 0, 1, None)]
    assert difference(models[0], models[1]) == ""
    assert difference(models[0], models[2]) != ""
    assert difference(models[0], models[3]) == ""  # None means 0
    seeded = [R(n_estimators=2, subsample=0.5, random_state=np.random.RandomState(7)).fit(X, y) for _ in range(2)]
    assert difference(*seeded) == ""


def test_columns_are_drawn(few):
    """max_features_tree=1: one column a tree; over many trees every column has its turn."""
    X, y = few
    model = R(n_estimators=40, max_features_tree=1, max_leaf_nodes=4).fit(X, y)
    used = [set(tree.feature[tree.left >= 0].tolist()) for (tree,) in model.model_.stages]
    assert all(len(columns) <= 1 for columns in used)
    assert set.union(*used) == {0, 1, 2, 3}
    model = R(n_estimators=20, max_features=1, max_leaf_nodes=8).fit(X, y)
    used = [set(tree.feature[tree.left >= 0].tolist()) for (tree,) in model.model_.stages]
    assert max(map(len, used)) > 1  # drawn anew at every split


# --------------------------------------------------------------------------------------------------------- warm start


@every_case
def test_warm_start_is_one_long_fit(case, few):
    model, X, y = data_of(case, few)
    whole = clone(model).set_params(n_estimators=9).fit(X, y)
    parts = clone(model).set_params(n_estimators=4, warm_start=True).fit(X, y)
    for n in (5, 9):
        parts.set_params(n_estimators=n).fit(X, y)
    assert difference(parts, whole) == ""


def test_warm_start_with_everything(few):
    X, y = few
    w, score = np.random.default_rng(6).uniform(0.5, 2.0, len(y)), np.full(len(y), 0.3)
    whole = R(n_estimators=6).fit(X, y, w, init_score=score, eval_set=(X, y, w, score))
    parts = R(n_estimators=3, warm_start=True).fit(X, y, w, init_score=score, eval_set=(X, y, w, score))
    parts.set_params(n_estimators=6).fit(X, y, w, init_score=score, eval_set=(X, y, w, score))
    assert difference(parts, whole) == ""


def test_warm_start_and_early_stopping(few):
    X, y = few
    options = {"early_stopping": True, "n_iter_no_change": 3, "validation_fraction": 0.2}
    whole = R(n_estimators=12, **options).fit(X, y)
    parts = R(n_estimators=5, warm_start=True, **options).fit(X, y).set_params(n_estimators=12).fit(X, y)
    assert whole.n_estimators_ == 12
    assert difference(parts, whole) == ""


def test_warm_start_after_early_stopping(noisy):
    """Goes on from the best stage, and the history with it."""
    X, y = noisy
    train, test = (X[:400], y[:400]), (X[400:], y[400:])
    model = R(n_estimators=100, n_iter_no_change=5, warm_start=True).fit(*train, eval_set=test)
    best = model.n_estimators_
    assert len(model.history_.train) == best + 5
    recorder = Recorder()
    model.set_params(n_iter_no_change=None, n_estimators=best + 8, callbacks=[recorder]).fit(*train, eval_set=test)
    assert [stage.number for stage in recorder.stages] == list(range(best + 1, best + 9))
    assert difference(model, R(n_estimators=best + 8).fit(*train, eval_set=test)) == ""


def test_warm_start_without_more_stages(few):
    X, y = few
    model = R(n_estimators=4, warm_start=True).fit(X, y)
    before = clone(model).set_params(warm_start=False).fit(X, y)
    assert difference(model.fit(X, y), before) == ""


def test_without_warm_start_a_fit_starts_afresh(few):
    X, y = few
    model = R(n_estimators=4).fit(-X, -y)
    assert difference(model.fit(X, y), R(n_estimators=4).fit(X, y)) == ""


# ----------------------------------------------------------------------------------------------------- early stopping


@pytest.fixture(scope="module")
def noisy():
    """A table on which boosting overfits soon."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(800, 5))
    return X, X[:, 0] + 2.0 * rng.normal(size=800)


def test_early_stopping_keeps_the_best_stage(noisy):
    X, y = noisy
    train, test = (X[:400], y[:400]), (X[400:], y[400:])
    model = R(n_estimators=200, early_stopping=True, n_iter_no_change=5).fit(*train, eval_set=test)
    history = model.history_
    best = int(np.argmin(history.validation)) + 1
    assert model.n_estimators_ == best == history.best < 200
    assert len(history.validation) == len(history.train) == best + 5
    shorter = R(n_estimators=best).fit(*train)
    assert_same_trees(model, shorter)
    np.testing.assert_array_equal(model.predict(X), shorter.predict(X))
    expected = [metrics.mean_squared_error(test[1], p) for p in model.staged_predict(test[0])]
    np.testing.assert_allclose(history.validation[:best], expected, rtol=1e-12)


def test_validation_fraction(noisy):
    """Rows held out by hashes of their numbers: the model is that of the other rows, given the same cut points."""
    X, y = np.round(noisy[0], 1), noisy[1]
    model = R(n_estimators=200, n_iter_no_change=5, validation_fraction=0.25).fit(X, y)
    assert model.n_estimators_ < 200
    assert (model.history_.rows == 600).all()
    other = R(n_estimators=200, n_iter_no_change=5, validation_fraction=0.25, random_state=1).fit(X, y)
    assert difference(model, other) != ""


def test_validation_rows_are_drawn_within_classes():
    y = np.repeat([0, 1], [950, 50])
    X = np.random.default_rng(8).normal(size=(1000, 2))
    model = C(n_estimators=3, early_stopping=True, validation_fraction=0.1).fit(X, y)
    share = 1.0 / (1.0 + np.exp(-model.model_.initial[0]))
    assert share == pytest.approx(45 / 900, rel=1e-12)


def test_validation_of_the_training_deviance(noisy):
    """validation_fraction=None watches the training deviance, which here never stops falling."""
    X, y = noisy
    model = R(n_estimators=30, early_stopping=True, validation_fraction=None).fit(X, y)
    assert model.n_estimators_ == 30
    assert len(model.history_.validation) == 0
    assert R(n_estimators=30, early_stopping=True, validation_fraction=None, tol=10.0).fit(X, y).n_estimators_ < 30


def test_early_stopping_can_be_off(noisy):
    X, y = noisy
    model = R(n_estimators=40, early_stopping=False, n_iter_no_change=2).fit(X, y)
    assert model.n_estimators_ == 40
    assert (model.history_.rows == 800).all()
    watched = R(n_estimators=40).fit(X[:400], y[:400], eval_set=(X[400:], y[400:]))
    assert watched.n_estimators_ == 40
    assert len(watched.history_.validation) == 40


def test_tolerance(noisy):
    X, y = noisy
    train, test = (X[:400], y[:400]), (X[400:], y[400:])
    strict, loose = (
        R(n_estimators=200, n_iter_no_change=5, tol=tol).fit(*train, eval_set=test).history_ for tol in (0.0, 0.5)
    )
    assert len(loose.train) < len(strict.train)


@pytest.mark.parametrize("form", ["tuple", "list", "nested", "frame"])
def test_forms_of_eval_set(form, noisy):
    X, y = noisy
    if form == "frame":
        frame = pytest.importorskip("pandas").DataFrame(X).add_prefix("x")
        model = R(n_estimators=3).fit(frame, y, eval_set=(frame, y))
    else:
        given = {"tuple": (X, y), "list": [X, y], "nested": [(X, y)]}[form]
        model = R(n_estimators=3).fit(X, y, eval_set=given)
    np.testing.assert_allclose(model.history_.validation, model.history_.train, rtol=1e-12)


def test_eval_set_with_unseen_values_and_weights(noisy):
    X, y = noisy
    new, weight = X[:100] * 3.0, np.linspace(0.0, 1.0, 100)
    new[::7, 0], new[1::7, 1] = np.nan, np.inf
    model = R(n_estimators=3).fit(X, y, eval_set=(new, y[:100], weight))
    expected = [metrics.mean_squared_error(y[:100], p, sample_weight=weight) for p in model.staged_predict(new)]
    np.testing.assert_allclose(model.history_.validation, expected, rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------- callbacks


class Recorder:
    """Every hook, and a wish to stop after some stage."""

    def __init__(self, stop_after=None):
        self.stop_after, self.calls, self.stages = stop_after, [], []

    def on_start(self, total, done):
        self.calls.append(("start", total, done))

    def on_stage(self, stage):
        self.stages.append(stage)
        return stage.number == self.stop_after

    def on_end(self, history):
        self.calls.append(("end", len(history.train)))


def test_callbacks(few):
    X, y = few
    recorder = Recorder()
    model = R(n_estimators=4, callbacks=[recorder]).fit(X, y, eval_set=(X, y))
    assert recorder.calls == [("start", 4, 0), ("end", 4)]
    assert [stage.number for stage in recorder.stages] == [1, 2, 3, 4]
    assert all(isinstance(stage, Stage) and stage.total == 4 for stage in recorder.stages)
    np.testing.assert_array_equal([stage.train for stage in recorder.stages], model.history_.train)
    np.testing.assert_array_equal([stage.validation for stage in recorder.stages], model.history_.validation)
    assert (np.diff([stage.seconds for stage in recorder.stages]) >= 0).all()
    again = Recorder()
    model.set_params(warm_start=True, n_estimators=6, callbacks=[again]).fit(X, y, eval_set=(X, y))
    assert again.calls == [("start", 6, 4), ("end", 6)]
    assert [stage.number for stage in again.stages] == [5, 6]


def test_a_callback_stops_the_fit(few):
    X, y = few
    recorder, other = Recorder(stop_after=3), Recorder()
    model = R(n_estimators=50, callbacks=[recorder, other]).fit(X, y)
    assert model.n_estimators_ == 3
    assert len(other.stages) == 3
    assert difference(model, R(n_estimators=3).fit(X, y)) == ""


def test_callbacks_with_some_hooks_only(few):
    class OnlyStart:
        def on_start(self, total, done):
            self.total = total

    only = OnlyStart()
    R(n_estimators=2, callbacks=(only,)).fit(*few)
    assert only.total == 2


@pytest.mark.parametrize("useless", [object(), 3, len])
def test_a_callback_without_hooks_is_refused(useless, few):
    with pytest.raises(ParameterError, match="has none of them"):
        R(n_estimators=2, callbacks=[useless]).fit(*few)


def test_a_callback_that_fails_ends_the_fit_cleanly(few):
    class Fails(Recorder):
        def on_stage(self, stage):
            raise RuntimeError("no more")

    fails = Fails()
    with pytest.raises(RuntimeError, match="no more"):
        R(n_estimators=5, callbacks=[fails]).fit(*few)
    assert fails.calls[-1] == ("end", 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ------------------------------------------------------------------------------------------------------------- Ctrl-C


class PressesCtrlC:
    def __init__(self, after, times=1):
        self.after, self.times = after, times

    def on_stage(self, stage):
        if stage.number == self.after:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)  # until Python has run the handler


needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="no signals to send")


@needs_signals
def test_ctrl_c_leaves_a_usable_model(few):
    X, y = few
    with pytest.warns(TrainingInterrupted, match="the model has 3 of 1000 stages and can be used"):
        model = R(n_estimators=1000, callbacks=[PressesCtrlC(3)]).fit(X, y)
    assert model.n_estimators_ == 3
    assert difference(model, R(n_estimators=3).fit(X, y)) == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    model.set_params(warm_start=True, n_estimators=5, callbacks=None).fit(X, y)
    assert difference(model, R(n_estimators=5).fit(X, y)) == ""


@needs_signals
def test_a_second_ctrl_c_breaks_in(few):
    with pytest.raises(KeyboardInterrupt):
        R(n_estimators=1000, callbacks=[PressesCtrlC(3, times=2)]).fit(*few)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@needs_signals
def test_ctrl_c_from_outside():
    """A real process, a real signal, in the middle of a long fit with threads."""
    code = (
        "import sys, warnings\n"
        "import numpy as np\n"
        "from stagewise import GradientBoostingRegressor, TrainingInterrupted\n"
        "class Says:\n"
        "    def on_stage(self, stage):\n"
        "        if stage.number == 5: print('running', flush=True)\n"
        "X = np.random.default_rng(0).normal(size=(50_000, 8))\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    model = GradientBoostingRegressor(n_estimators=100_000, callbacks=[Says()], n_jobs=2).fit(X, X[:, 0])\n"
        "assert [w.category for w in caught] == [TrainingInterrupted], caught\n"
        "assert caught[0].filename == '<string>', caught[0].filename\n"
        "assert 5 <= model.n_estimators_ < 100_000 and np.isfinite(model.predict(X)).all()\n"
        "print('usable', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "running"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out.strip() == "usable", error


# ------------------------------------------------------------------------------------------------------- progress bar


def test_verbose_shows_a_bar(few, capsys):
    R(n_estimators=3, verbose=1).fit(*few, eval_set=few)
    out = capsys.readouterr().out
    assert "stage" in out
    assert "3/3" in out
    assert "train" in out
    assert "validation" in out
    R(n_estimators=3).fit(*few)
    assert capsys.readouterr().out == ""


# --------------------------------------------------------------------------------------------------------- init_score


def test_init_score_of_squared_error_is_a_shift(few):
    X, y = few
    score = np.random.default_rng(9).normal(size=len(y))
    offset = R(n_estimators=5).fit(X, y, init_score=score)
    shifted = R(n_estimators=5).fit(X, y - score)
    # without an offset targets are rounded to a unit, see boosting/residuals.py
    np.testing.assert_allclose(offset.predict(X), shifted.predict(X), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(offset.history_.train, shifted.history_.train, rtol=1e-10)


@pytest.mark.parametrize("case", ["two classes", "three classes", "poisson", "absolute error"])
def test_init_score_goes_on_from_another_model(case, few):
    """Scores of a model as init_score: what is added improves on it, and starts at 0 for every output."""
    model, X, y = data_of(case, few)
    first = clone(model).set_params(n_estimators=5).fit(X, y)
    raw = first.decision_function(X) if hasattr(first, "classes_") else first._raw(X)[0]
    second = clone(model).set_params(n_estimators=5).fit(X, y, init_score=raw)
    assert second.history_.initial <= first.history_.train[-1] + 1e-12
    assert second.history_.train[-1] < first.history_.train[-1]


def test_init_score_of_classes_is_decision_function_shaped(few):
    X, y = few
    three = labels(y, 3)
    given = np.random.default_rng(10).normal(size=(len(y), 3))
    model = C(n_estimators=3).fit(X, three, init_score=given)
    raw = model.decision_function(X) + given
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    assert model.history_.train[-1] == pytest.approx(metrics.log_loss(three, p), rel=1e-12)


# ------------------------------------------------------------------------------------------------ weights and classes


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 5.0, 2: 0.5}], ids=["balanced", "dict"])
def test_class_weight_is_sample_weight(class_weight, few):
    X, y = few[0], labels(few[1] ** 2, 3)
    own = np.random.default_rng(11).uniform(0.5, 2.0, len(y))
    by_class = compute_sample_weight(class_weight, y)
    assert (
        difference(C(n_estimators=3, class_weight=class_weight).fit(X, y), C(n_estimators=3).fit(X, y, by_class)) == ""
    )
    both = C(n_estimators=3, class_weight=class_weight).fit(X, y, own)
    assert difference(both, C(n_estimators=3).fit(X, y, own * by_class)) == ""


def test_class_weight_of_string_labels(few):
    X, y = few[0], np.array(["no", "yes"])[labels(few[1])]
    model = C(n_estimators=3, class_weight={"no": 1.0, "yes": 3.0}).fit(X, y)
    assert difference(model, C(n_estimators=3).fit(X, y, np.where(y == "yes", 3.0, 1.0))) == ""


@every_growth
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "log_loss", "exponential"])
@pytest.mark.parametrize("share", [0.4, 0.7])
def test_rows_of_weight_zero_are_not_there(loss, growth, share, few):
    """Byte for byte: rows of weight 0 might as well be left out."""
    rng = np.random.default_rng(12)
    X, y = few[0].copy(), few[1].copy()
    w = rng.uniform(0.5, 2.0, len(y))
    w[rng.random(len(y)) < share] = 0.0
    gone = w == 0.0
    X[gone] = rng.normal(size=(gone.sum(), 4)) * 1e6  # values and targets that would change everything
    kind = C if loss in ("log_loss", "exponential") else R
    target = labels(y) if kind is C else y
    target[gone] = 1 - target[gone] if kind is C else 1e6
    model = kind(loss=loss, n_estimators=4, growth=growth)
    without = clone(model).fit(X[~gone], target[~gone], w[~gone])
    assert difference(clone(model).fit(X, target, w), without) == ""


def test_misclassification_cost(few):
    """predict returns the class of least expected cost (Friedman 2001, section 4.6)."""
    X, y = few[0], labels(few[1], 3)
    cost = np.array([[0.0, 1.0, 20.0], [3.0, 0.0, 1.0], [1.0, 2.0, 0.0]])  # predicted, true
    model = C(n_estimators=5, misclassification_cost=cost).fit(X, y)
    p = model.predict_proba(X)
    expected = [np.argmin([sum(cost[k, j] * row[j] for j in range(3)) for k in range(3)]) for row in p]
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_array_equal(list(model.staged_predict(X))[-1], expected)
    plain = C(n_estimators=5).fit(X, y)
    assert difference(model, plain) == ""  # costs are a matter of decisions, not of training
    equal = C(n_estimators=5, misclassification_cost=1.0 - np.eye(3)).fit(X, y)
    np.testing.assert_array_equal(equal.predict(X), plain.predict(X))


def test_misclassification_cost_of_two_classes(few):
    X, y = few[0], labels(few[1])
    model = C(n_estimators=5, misclassification_cost=[[0, 9], [1, 0]]).fit(X, y)  # missing class 1 is nine times as bad
    np.testing.assert_array_equal(model.predict(X), (model.predict_proba(X)[:, 1] > 0.1).astype(int))


LABELS = {
    "strings": np.array(["ant", "bee", "cat"]),
    "objects": np.array(["ant", "bee", "cat"], dtype=object),
    "negative": np.array([-5, 0, 7]),
    "floats": np.array([-1.0, 0.0, 2.0]),
    "unsigned": np.array([0, 3, 200], np.uint8),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind(kind, few):
    X, codes = few[0], labels(few[1], 3)
    names = LABELS[kind]
    model, plain = C(n_estimators=3).fit(X, names[codes]), C(n_estimators=3).fit(X, codes)
    assert difference(model, plain) == ""
    np.testing.assert_array_equal(model.classes_, names)
    found = model.predict(X)
    assert found.dtype == names.dtype
    np.testing.assert_array_equal(found, names[plain.predict(X)])
    assert model.score(X, names[codes]) == plain.score(X, codes)
    watched = C(n_estimators=3).fit(X, names[codes], eval_set=(X, names[codes]))
    np.testing.assert_allclose(watched.history_.validation, watched.history_.train, rtol=1e-12)


def test_labels_true_and_false(few):
    X, y = few[0], few[1] > 0
    model = C(n_estimators=3).fit(X, y)
    assert model.predict(X).dtype == bool
    assert model.score(X, y) > 0.7


# ------------------------------------------------------------------------------------------------------------ Dataset


def test_a_dataset_is_binned_once_and_used_often(few):
    X, y = few
    ds = Dataset(X, y)
    assert repr(ds) == f"Dataset(500 rows × 4 columns, {int(ds.bins.n_bins.sum())} bins)"
    for leaves in (3, 9):
        model = R(n_estimators=3, max_leaf_nodes=leaves)
        assert difference(clone(model).fit(ds), clone(model).fit(X, y)) == ""
    assert difference(C(n_estimators=3).fit(Dataset(X), labels(y)), C(n_estimators=3).fit(X, labels(y))) == ""


def test_names_of_a_dataset(few):
    X, y = few
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    model = R(n_estimators=3).fit(Dataset(frame, y))
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(model.predict(frame), R(n_estimators=3).fit(X, y).predict(X))


# -------------------------------------------------------------------------------------- small enough for plain Python


@pytest.mark.nojit
@every_growth
@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"]
)
def test_small_regression(loss, growth, few):
    X, y = few[0][:60], np.abs(few[1][:60]) + 0.1
    X = np.where(np.arange(60)[:, None] % 11 == 0, np.nan, X)
    model = R(loss=loss, n_estimators=3, growth=growth, max_leaf_nodes=4, min_samples_leaf=8, max_features=3)
    model.fit(X, y, np.linspace(0.5, 1.5, 60))
    assert model.history_.train[-1] < model.history_.initial
    assert np.isfinite(model.predict(X)).all()
    assert model.predict(X)[0] == model.predict(X[:1])[0]


@pytest.mark.nojit
@every_growth
@pytest.mark.parametrize("n_classes, loss", [(2, "log_loss"), (2, "exponential"), (3, "log_loss")])
def test_small_classification(n_classes, loss, growth, few):
    X, y = few[0][:60], labels(few[1][:60], n_classes)
    model = C(loss=loss, n_estimators=3, growth=growth, max_leaf_nodes=4, min_samples_leaf=8, subsample=0.9).fit(X, y)
    assert model.history_.train[-1] < model.history_.initial
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.apply(X).shape[:2] == (60, 3)


@pytest.mark.nojit
def test_small_early_stopping(few):
    X, y = few[0][:60], few[1][:60]
    model = R(n_estimators=3, early_stopping=True, validation_fraction=0.3, max_leaf_nodes=70, min_samples_leaf=1)
    assert len(model.fit(X, y).history_.validation) == 3
