"""What scikit-learn expects of an estimator: its own checks, and the tools that people put around estimators."""

from __future__ import annotations

import copy
import pickle
import warnings

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score, cross_validate
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimators.fingerprint import difference
from stagewise import GradientBoostingClassifier, GradientBoostingRegressor

ESTIMATORS = [GradientBoostingRegressor(), GradientBoostingClassifier()]
EXPECTED_FAILURES: dict[str, str] = {}  # and it stays empty
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)

SMALL = {"n_estimators": 5, "min_samples_leaf": 5, "max_leaf_nodes": 4}


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


# ---------------------------------------------------------------------------------------------- scikit-learn's checks


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learn_finds_no_fault(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # some checks provoke warnings on purpose and do not catch them
        check(estimator)


@every_estimator
def test_parameters_are_what_was_typed(estimator):
    """Every parameter can be read and set; nothing is changed or copied by the constructor."""
    kind = type(estimator)
    given = {name: object() for name in estimator.get_params()}
    made = kind(**given)
    assert all(made.get_params(deep=False)[name] is value for name, value in given.items())
    assert clone(kind()).get_params() == kind().get_params()


def test_both_take_the_same_parameters_but_for_those_of_their_own():
    regressor, classifier = (set(estimator.get_params()) for estimator in ESTIMATORS)
    assert regressor - classifier == {"alpha", "tweedie_power"}
    assert classifier - regressor == {
        "class_weight", "influence_trimming", "misclassification_cost", "multiclass_curvature",
    }  # fmt: skip


def test_kinds_and_tags():
    regressor, classifier = ESTIMATORS
    assert is_regressor(regressor)
    assert is_classifier(classifier)
    assert all(sklearn.utils.get_tags(estimator).input_tags.allow_nan for estimator in ESTIMATORS)


@every_estimator
def test_shown_in_a_notebook(estimator):
    assert "GradientBoosting" in estimator._repr_html_()
    assert repr(type(estimator)(learning_rate=0.3)) == f"{type(estimator).__name__}(learning_rate=0.3)"


# ------------------------------------------------------------------------------------------------------------- copies


@every_estimator
@pytest.mark.parametrize(
    "remake", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy, copy.copy], ids=["pickle", "deepcopy", "copy"]
)
def test_copies_of_a_fitted_model_predict_the_same(estimator, remake, cancer):
    X, y = cancer
    fitted = clone(estimator).set_params(**SMALL).fit(X, y)
    before = fitted.predict(X)
    again = remake(fitted)
    assert difference(again, fitted) == ""
    np.testing.assert_array_equal(again.predict(X), before)
    assert again.get_params() == fitted.get_params()


def test_pickles_hold_no_copy_made_for_prediction(cancer):
    model = GradientBoostingClassifier(**SMALL).fit(*cancer)
    before = len(pickle.dumps(model))
    model.predict(cancer[0])
    assert len(pickle.dumps(model)) == before


def test_joblib_files(tmp_path, diabetes):
    X, y = diabetes
    model = GradientBoostingRegressor(**SMALL).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    assert difference(again, model) == ""
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    np.testing.assert_array_equal(mapped.predict(X), model.predict(X))


@every_estimator
def test_clone_forgets_the_fit(estimator, cancer):
    fitted = clone(estimator).set_params(**SMALL).fit(*cancer)
    fresh = clone(fitted)
    assert not hasattr(fresh, "model_")
    assert fresh.get_params() == fitted.get_params()
    assert difference(fresh.fit(*cancer), fitted) == ""


# ------------------------------------------------------------------------------------------------------- model choice


def test_the_lecture_snippet(diabetes):
    """The grid of the lecture, smaller, after changing nothing but the import."""
    X, y = diabetes
    grid = {"learning_rate": [0.01, 0.1], "max_depth": [4, 6], "min_samples_leaf": [4, 8], "max_features": [0.75, 1.0]}
    search = GridSearchCV(GradientBoostingRegressor(n_estimators=10), grid, cv=2).fit(X, y)
    assert search.best_params_["learning_rate"] == 0.1
    assert search.best_score_ > 0.2
    errors = np.zeros(10)
    for i, y_pred in enumerate(search.best_estimator_.staged_predict(X)):
        errors[i] = np.mean((y - y_pred) ** 2)
    assert (np.diff(errors) < 0).all()


def test_grid_search_of_a_classifier(cancer):
    search = GridSearchCV(
        GradientBoostingClassifier(**SMALL), {"growth": ["leafwise", "symmetric"], "loss": ["log_loss", "exponential"]},
        cv=2, scoring="roc_auc",
    ).fit(*cancer)  # fmt: skip
    assert search.best_score_ > 0.95


def test_randomized_search_over_losses(diabetes):
    search = RandomizedSearchCV(
        GradientBoostingRegressor(**SMALL), {"loss": ["squared_error", "huber", "absolute_error"]}, n_iter=2, cv=2,
        random_state=0,
    )  # fmt: skip
    assert np.isfinite(search.fit(*diabetes).best_score_)


def test_cross_validation_in_two_processes(diabetes, cancer):
    regressor, classifier = GradientBoostingRegressor(**SMALL), GradientBoostingClassifier(**SMALL)
    for estimator, data in ((regressor, diabetes), (classifier, cancer)):
        alone = cross_val_score(estimator, *data, cv=4, n_jobs=1)
        both = cross_val_score(estimator, *data, cv=4, n_jobs=2)
        np.testing.assert_array_equal(both, alone)


def test_cross_validation_in_two_threads(cancer):
    with joblib.parallel_backend("threading", n_jobs=2):
        threads = cross_val_score(GradientBoostingClassifier(**SMALL), *cancer, cv=4, n_jobs=2)
    np.testing.assert_array_equal(threads, cross_val_score(GradientBoostingClassifier(**SMALL), *cancer, cv=4))


# -------------------------------------------------------------------------------------------------------- composition


def test_in_a_pipeline(cancer):
    X, y = cancer
    pipeline = make_pipeline(StandardScaler(), GradientBoostingClassifier(**SMALL)).fit(X, y)
    assert pipeline.score(X, y) > 0.9
    assert pipeline.predict_proba(X).shape == (len(y), 2)
    pipeline.set_params(gradientboostingclassifier__learning_rate=0.5).fit(X, y)
    assert pipeline[-1].learning_rate == 0.5
    search = GridSearchCV(pipeline, {"gradientboostingclassifier__max_leaf_nodes": [2, 4]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9


def test_in_a_pipeline_of_frames(diabetes):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), GradientBoostingRegressor(**SMALL))
    pipeline.fit(X, y)
    assert list(pipeline[-1].feature_names_in_) == list(X.columns)
    assert pipeline.score(X, y) > 0.2


def test_inside_other_estimators(diabetes):
    X, y = diabetes
    outer = TransformedTargetRegressor(GradientBoostingRegressor(**SMALL), func=np.log, inverse_func=np.exp)
    assert outer.fit(X, y).score(X, y) > 0.2
    several = MultiOutputRegressor(GradientBoostingRegressor(**SMALL)).fit(X, np.column_stack([y, -y]))
    np.testing.assert_allclose(several.predict(X)[:, 0], -several.predict(X)[:, 1])


def test_scikit_learn_looks_inside(diabetes):
    X, y = diabetes
    model = GradientBoostingRegressor(**SMALL).fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=2, random_state=0)
    assert found.importances_mean.argmax() in (2, 8)  # bmi and s5, as everybody finds
    assert model.feature_importances_.argmax() in (2, 8)
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_classes_of_an_iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = GradientBoostingClassifier(**SMALL).fit(X, y)
    assert model.predict_proba(X).shape == (150, 3)
    assert model.decision_function(X).shape == (150, 3)
    assert model.apply(X).shape == (150, 5, 3)
    assert model.score(X, y) > 0.95


# --------------------------------------------------------------------------------------------------- metadata routing


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_weights_are_routed_through_a_grid_search(diabetes):
    X, y = diabetes
    weight = np.linspace(0.1, 3.0, len(y))
    estimator = (
        GradientBoostingRegressor(**SMALL).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    )
    search = GridSearchCV(estimator, {"max_leaf_nodes": [2, 4]}, cv=2).fit(X, y, sample_weight=weight)
    expected = GradientBoostingRegressor(**SMALL).set_params(**search.best_params_).fit(X, y, sample_weight=weight)
    assert difference(search.best_estimator_, expected) == ""
    assert difference(search.best_estimator_, GradientBoostingRegressor(**SMALL).fit(X, y)) != ""


@pytest.mark.usefixtures("routing")
def test_weights_are_routed_through_a_pipeline(cancer):
    X, y = cancer
    weight = np.linspace(0.1, 3.0, len(y))
    estimator = GradientBoostingClassifier(**SMALL).set_fit_request(sample_weight=True)
    pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), estimator)
    pipeline.fit(X, y, sample_weight=weight)
    expected = GradientBoostingClassifier(**SMALL).fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
    assert difference(pipeline[-1], expected) == ""


@pytest.mark.usefixtures("routing")
def test_starting_scores_are_routed(diabetes):
    X, y = diabetes
    estimator = GradientBoostingRegressor(**SMALL).set_fit_request(sample_weight=False, init_score=True)
    estimator.set_score_request(sample_weight=False)
    found = cross_validate(estimator, X, y, params={"init_score": np.full(len(y), 7.0)}, return_estimator=True, cv=2)
    assert all(model.model_.initial[0] + 7.0 == pytest.approx(y.mean(), rel=0.2) for model in found["estimator"])


@pytest.mark.usefixtures("routing")
def test_weights_without_a_request_are_refused(diabetes):
    X, y = diabetes
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError):
        GridSearchCV(GradientBoostingRegressor(**SMALL), {"max_leaf_nodes": [2]}, cv=2).fit(
            X, y, sample_weight=np.ones(len(y))
        )
