"""What scikit-learn expects of the estimators beside GradientBoosting*, with learners of our own and with others."""

from __future__ import annotations

import copy
import doctest
import importlib
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import stagewise as sw
from stagewise import (
    AdaBoostClassifier,
    ComponentwiseClassifier,
    ComponentwiseRegressor,
    GentleBoostClassifier,
    LogitBoostClassifier,
    StagewiseClassifier,
    StagewiseRegressor,
)

DEFAULTS = [
    AdaBoostClassifier(),
    LogitBoostClassifier(),
    GentleBoostClassifier(),
    StagewiseRegressor(),
    StagewiseClassifier(),
    ComponentwiseRegressor(),
    ComponentwiseClassifier(),
]
VARIANTS = [
    AdaBoostClassifier(GaussianNB(), n_estimators=5),
    AdaBoostClassifier(max_depth=3, n_estimators=5),
    LogitBoostClassifier(Ridge(), n_estimators=5),
    GentleBoostClassifier(Ridge(), n_estimators=5),
    StagewiseRegressor("absolute_error", Ridge(), n_estimators=20),
    StagewiseClassifier(estimator=Ridge(), n_estimators=5),
    ComponentwiseRegressor(base="spline", n_estimators=20),
    ComponentwiseRegressor(base="stump", n_estimators=20),
    ComponentwiseClassifier(base="spline", n_estimators=5),
    ComponentwiseClassifier(base="stump", n_estimators=5),
]
CLASSIFIERS = [estimator for estimator in DEFAULTS if hasattr(estimator, "misclassification_cost")]
named = {"ids": lambda estimator: type(estimator).__name__}


@parametrize_with_checks([*DEFAULTS, *VARIANTS], expected_failed_checks=lambda _: {})
def test_scikit_learn_finds_no_fault(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # some checks provoke warnings on purpose and do not catch them
        check(estimator)


@pytest.mark.parametrize("estimator", DEFAULTS, **named)
def test_parameters_are_what_was_typed(estimator):
    kind = type(estimator)
    given = {name: object() for name in estimator.get_params()}
    made = kind(**given)
    assert all(made.get_params(deep=False)[name] is value for name, value in given.items())
    assert repr(kind(learning_rate=0.3)) == f"{kind.__name__}(learning_rate=0.3)"


@pytest.mark.parametrize("estimator", [*DEFAULTS, *VARIANTS], **named)
@pytest.mark.parametrize(
    "remake", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy, copy.copy], ids=["pickle", "deepcopy", "copy"]
)
def test_copies_of_a_fitted_model_predict_the_same(estimator, remake):
    X, y = load_breast_cancer(return_X_y=True)
    fitted = clone(estimator).set_params(n_estimators=5).fit(X, y)
    before = fitted.predict(X)
    np.testing.assert_array_equal(remake(fitted).predict(X), before)


@pytest.mark.parametrize("estimator", [*DEFAULTS, *VARIANTS], **named)
def test_stages_end_in_the_prediction(estimator):
    X, y = load_iris(return_X_y=True)
    model = clone(estimator).set_params(n_estimators=7).fit(X, y)
    stages = list(model.staged_predict(X))
    assert len(stages) == model.n_estimators_ == len(model.history_.train)
    np.testing.assert_array_equal(stages[-1], model.predict(X))
    if hasattr(model, "staged_predict_proba"):
        np.testing.assert_array_equal(list(model.staged_predict_proba(X))[-1], model.predict_proba(X))
        np.testing.assert_array_equal(list(model.staged_decision_function(X))[-1], model.decision_function(X))


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, sw.GradientBoostingClassifier()], **named)
@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_costs_decide(estimator, load):
    """The class of least expected cost; costs that are all the same give the most likely one."""
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(0)
    k = len(set(y))
    cost = rng.uniform(0.0, 10.0, (k, k))
    np.fill_diagonal(cost, 0.0)
    model = clone(estimator).set_params(n_estimators=10, misclassification_cost=cost).fit(X, y)
    p = model.predict_proba(X)
    expected = np.array([[sum(cost[c, j] * row[j] for j in range(k)) for c in range(k)] for row in p])
    np.testing.assert_array_equal(model.predict(X), expected.argmin(axis=1))
    np.testing.assert_array_equal(list(model.staged_predict(X))[-1], model.predict(X))
    model.set_params(misclassification_cost=1.0 - np.eye(k))
    np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
    model.set_params(misclassification_cost=np.ones((k, k + 1)))
    with pytest.raises(sw.ParameterError, match=r"must be a finite array of shape"):
        model.predict(X)


@pytest.mark.parametrize("kind", [AdaBoostClassifier, LogitBoostClassifier, GentleBoostClassifier])
def test_grids_reach_into_the_learner(kind):
    X, y = load_breast_cancer(return_X_y=True)
    learner = (DecisionTreeClassifier if kind is AdaBoostClassifier else DecisionTreeRegressor)()
    grid = {"estimator__max_depth": [1, 2]}
    search = GridSearchCV(kind(learner, n_estimators=5), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.85


@pytest.mark.parametrize("estimator", [*DEFAULTS, *VARIANTS], **named)
def test_missing_values_where_the_learner_takes_them(estimator):
    from sklearn.utils import get_tags

    X, y = load_diabetes(return_X_y=True) if "Regressor" in type(estimator).__name__ else load_iris(return_X_y=True)
    X = X.copy()
    X[::9, 0] = np.nan
    if get_tags(estimator).input_tags.allow_nan:
        assert np.isfinite(clone(estimator).fit(X, y).predict(X).astype(float)).all()
    else:
        with pytest.raises(sw.InputError, match="NaN"):
            clone(estimator).fit(X, y)


@pytest.mark.parametrize(
    "estimator", [e for e in [*DEFAULTS, *VARIANTS] if getattr(e, "estimator", 0) is None], **named
)
def test_feature_importances_of_our_own_trees(estimator):
    X, y = load_iris(return_X_y=True)
    importances = clone(estimator).fit(X, y).feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    assert importances.argmax() in (2, 3)


def test_other_learners_have_no_such_importances():
    X, y = load_iris(return_X_y=True)
    model = LogitBoostClassifier(Ridge(), n_estimators=2).fit(X, y)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match="only where its learner is a tree of our own"):
        model.apply(X)


def test_watchers():
    class Watcher:
        seen = 0

        def on_stage(self, stage):
            self.seen += 1
            return stage.number == 3

    X, y = load_iris(return_X_y=True)
    for estimator in DEFAULTS:
        watcher = Watcher()
        model = clone(estimator).set_params(callbacks=[watcher], n_estimators=9).fit(X, y)
        assert model.n_estimators_ == watcher.seen == 3


@pytest.mark.parametrize(
    "name", ["adaboost", "anylearner", "classification", "componentwise", "logitboost", "regression"]
)
def test_the_examples_in_docstrings_are_true(name):
    module = importlib.import_module(f"stagewise.estimators.{name}")
    assert doctest.testmod(module).failed == 0
