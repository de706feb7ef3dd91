"""What can be looked at, and how columns are named: clear errors for everything else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stagewise as sw
from inspection.small import model_of, random_trees
from stagewise.errors import InputError, InputTypeError, MissingExtraError, ParameterError
from stagewise.inspection import listing
from stagewise.inspection.subject import Subject

X = np.arange(90.0).reshape(30, 3) % 7


@pytest.fixture(scope="module")
def fitted():
    return sw.GradientBoostingRegressor(n_estimators=3, min_samples_leaf=3).fit(X, X[:, 0])


def test_models_without_a_fit():
    with pytest.raises(NotFittedError, match="GradientBoostingRegressor is not fitted yet; call fit"):
        sw.inspection.partial_dependence(sw.GradientBoostingRegressor(), 0)
    with pytest.raises(InputTypeError, match="LinearRegression is no estimator of stagewise"):
        sw.inspection.shap_values(LinearRegression(), X)
    with pytest.raises(InputTypeError, match="In a pipeline, pass its last step"):
        sw.inspection.feature_importance(make_pipeline(StandardScaler(), sw.GradientBoostingRegressor()))
    with pytest.raises(InputTypeError, match="not dict"):
        sw.inspection.feature_importance({})
    with pytest.raises(InputTypeError, match="fitted stagewise estimator"):
        sw.inspection.feature_importance(sw.GradientBoostingRegressor)


@pytest.mark.parametrize(
    "model", [sw.ComponentwiseRegressor(n_estimators=3), sw.StagewiseRegressor("huber", LinearRegression())]
)
def test_terms_that_are_no_trees(model):
    model.fit(X, X[:, 0])
    for look in (
        lambda: sw.inspection.feature_importance(model),
        lambda: sw.inspection.partial_dependence(model, 0),
        lambda: sw.inspection.individual_curves(model, 0, X, [0.0, 1.0]),
        lambda: sw.inspection.completeness(model, 0, X),
        lambda: sw.inspection.h_statistic(model, X),
        lambda: sw.inspection.functional_anova(model),
        lambda: sw.inspection.shap_values(model, X),
        lambda: sw.inspection.shap_interactions(model.model_, X),
        lambda: sw.inspection.tree_text(model),
        lambda: sw.plots.tree(model),
    ):
        with pytest.raises(InputTypeError, match="only trees of our own can be looked into"):
            look()
    drops = sw.inspection.feature_importance(model, "permutation", X=X, y=X[:, 0])
    assert drops.values[0] > 0.5
    np.testing.assert_allclose(drops.values[1:], 0.0, atol=0.1)


def test_frames_keep_columns_of_the_data_that_are_called_as_our_own():
    names = ["expected", "output", "dependence", "row"]
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=names)
    y = np.digitize(data.sum(axis=1), [-1.0, 1.0])
    model = sw.GradientBoostingClassifier(n_estimators=2, min_samples_leaf=5).fit(data, y)
    found = sw.inspection.shap_values(model, data)
    frame = found.to_frame("pandas")
    assert list(frame) == ["output_", *names, "expected_"]
    np.testing.assert_array_equal(frame["expected"][:60], found.output(0)[:, 0])
    assert list(sw.inspection.partial_dependence(model, ["dependence", "output"]).to_frame("pandas")) == [
        "dependence", "output", "output_", "dependence_",
    ]  # fmt: skip
    curves = sw.inspection.individual_curves(model, "row", data)
    assert list(curves.to_frame("pandas")) == ["output", "row_", "row", "prediction"]


def test_columns(fitted):
    subject = Subject.of(fitted)
    assert subject.names == ("x0", "x1", "x2")
    assert subject.columns("x1") == (1,)
    assert subject.columns([np.int64(2), "x0"]) == (2, 0)
    for bad, message in [
        ("area", "'area' is no column of the model; there are 'x0', 'x1', 'x2'"),
        (3, "column 3 does not exist; the model has columns 0 to 2"),
        (-1, "column -1 does not exist"),
        (1.5, "feature=1.5 must be the name or number"),
        (True, "feature=True must be the name"),
        ([], "features is empty"),
        ([0, "x0"], "'x0' twice"),
    ]:
        with pytest.raises(ParameterError, match=message):
            subject.columns(bad)


def test_data_that_do_not_match(fitted):
    with pytest.raises(InputError, match="X has 2 features, but GradientBoostingRegressor is expecting 3"):
        sw.inspection.shap_values(fitted, X[:, :2])
    with pytest.raises(InputError, match="X is needed"):
        sw.inspection.h_statistic(fitted, None)
    with pytest.raises(InputError, match="sample_weight"):
        sw.inspection.h_statistic(fitted, X, sample_weight=[1.0])


def test_names_of_outputs(fitted):
    assert Subject.of(fitted).outputs == ("",)
    labels = np.array(["no", "yes"])[(X[:, 0] > 3).astype(int)]
    two = sw.GradientBoostingClassifier(n_estimators=2, min_samples_leaf=3).fit(X, labels)
    assert Subject.of(two).outputs == ("yes",)
    assert Subject.of(two.model_).outputs == ("",)
    assert Subject.of(model_of(random_trees(0, [2, 2]), 4, 2)).outputs == ("0", "1")


def test_extreme_weights(fitted):
    subject = Subject.of(fitted)
    for scale in (1e-300, 1e300):
        np.testing.assert_allclose(subject.shares(scale * np.arange(3.0), 3), [0, 1 / 3, 2 / 3])


def test_frames_without_a_frame_library(fitted, monkeypatch):
    monkeypatch.setattr(listing, "_LIBRARIES", ("no_such_frames",))
    with pytest.raises(MissingExtraError, match="to_frame needs no_such_frames: pip install"):
        sw.inspection.feature_importance(fitted).to_frame()


def test_names_are_found_lazily():
    assert "shap_values" in dir(sw.inspection)
    with pytest.raises(AttributeError, match="no attribute 'shape_values'"):
        sw.inspection.shape_values  # noqa: B018
    for name in sw.inspection.__all__:
        for _ in range(2):  # a submodule of the same name would take its place after the first look
            assert callable(getattr(sw.inspection, name))
