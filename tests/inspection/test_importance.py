"""Importance: sums over splits, scikit-learn's convention, and shuffled columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.inspection import permutation_importance

import stagewise as sw
from stagewise.errors import InputError, InputTypeError, ParameterError
from stagewise.inspection import feature_importance


@pytest.fixture(scope="module")
def fitted():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = X.assign(nothing=0.0)
    return sw.GradientBoostingRegressor(n_estimators=30, max_leaf_nodes=6).fit(X[:300], y[:300]), X, y


def test_gain_follows_scikit_learns_convention(fitted):
    model, _, _ = fitted
    result = feature_importance(model, scale="sum")
    np.testing.assert_allclose(result.values, model.feature_importances_, rtol=1e-12)
    assert result.values.sum() == pytest.approx(1.0)
    assert feature_importance(model).values.max() == pytest.approx(100.0)
    np.testing.assert_array_equal(feature_importance(model.model_).values, feature_importance(model).values)


@pytest.mark.parametrize("kind", ["gain", "split", "cover"])
def test_sums_over_splits(fitted, kind):
    model, _, _ = fitted
    expected = dict.fromkeys(range(11), 0.0)
    for (tree,) in model.model_.stages:
        for node in range(tree.n_nodes):
            if tree.left[node] >= 0:
                expected[int(tree.feature[node])] += {"gain": tree.gain[node], "split": 1.0, "cover": tree.cover[node]}[
                    kind
                ]
    result = feature_importance(model, kind, scale="none")
    np.testing.assert_allclose(result.values, [expected[j] / 30 for j in range(11)], rtol=1e-12)
    assert result.values[10] == 0.0  # a constant column


def test_per_class_and_averaged_over_classes():
    X, y = load_iris(return_X_y=True)
    model = sw.GradientBoostingClassifier(n_estimators=10).fit(X, y)
    plain, summed = (feature_importance(model, scale=scale) for scale in ("none", "sum"))
    assert plain.by_output.shape == (3, 4)
    np.testing.assert_allclose(plain.by_output.mean(axis=0), plain.values)
    np.testing.assert_allclose(summed.by_output.sum(axis=1), 1.0)
    assert plain.outputs == ("0", "1", "2")
    np.testing.assert_allclose(summed.values, model.feature_importances_)


def test_permutation_beside_scikit_learn(fitted):
    model, X, y = fitted
    held_out = X[300:], y[300:]
    ours = feature_importance(model, "permutation", X=held_out[0], y=held_out[1], n_repeats=30)
    theirs = permutation_importance(model, *held_out, n_repeats=30, random_state=0)
    error = np.hypot(ours.spread, theirs.importances_std) / np.sqrt(30)
    assert (np.abs(ours.values - theirs.importances_mean) <= 5 * error + 1e-12).all()
    assert ours.values[10] == ours.spread[10] == 0.0
    again = feature_importance(model, "permutation", X=held_out[0], y=held_out[1], n_repeats=30)
    np.testing.assert_array_equal(again.repeats, ours.repeats)


def test_permutation_with_weights_and_another_score(fitted):
    model, X, y = fitted
    weight = np.where(np.arange(len(y)) < 100, 0.0, 1.0)
    options = {"scoring": "neg_mean_absolute_error", "n_repeats": 2}
    result = feature_importance(model, "permutation", X=X, y=y, sample_weight=weight, **options)
    assert result.order[0] in (2, 8)  # bmi, s5
    assert result.repeats.shape == (2, 11)


def test_prints_and_frames(fitted):
    model, X, y = fitted
    result = feature_importance(model)
    assert "Importance by gain" in repr(result)
    assert "... 1 more" in repr(result)
    for library in ("pandas", "polars"):
        frame = result.to_frame(library)
        assert list(frame.columns) == ["column", "importance"]
        assert frame["importance"][0] == pytest.approx(100.0)
    assert "spread" in feature_importance(model, "permutation", X=X, y=y, n_repeats=2).to_frame().columns


def test_bad_input(fitted):
    model, X, y = fitted
    with pytest.raises(ParameterError, match="kind='weight' is not known"):
        feature_importance(model, "weight")
    with pytest.raises(ParameterError, match="scale"):
        feature_importance(model, scale=100)
    with pytest.raises(InputError, match="needs X and y"):
        feature_importance(model, "permutation", X=X)
    with pytest.raises(InputTypeError, match="needs an estimator"):
        feature_importance(model.model_, "permutation", X=X, y=y)
    with pytest.raises(ParameterError, match="n_repeats=0"):
        feature_importance(model, "permutation", X=X, y=y, n_repeats=0)
    with pytest.raises(ParameterError, match="library='arrow'"):
        feature_importance(model).to_frame("arrow")
