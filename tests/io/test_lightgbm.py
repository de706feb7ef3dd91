"""LightGBM's models predict here what they predict at home, on their thresholds too."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

import stagewise as sw
from io_peers import LIGHTGBM, TARGETS, X, lightgbm_model, probes, quietly
from stagewise.errors import InputError
from stagewise.io.format import dumps, loads
from stagewise.losses.linked import Linked
from stagewise.losses.regression import Quantile, Tweedie


def predictions(ours, rows):
    """As Booster.predict gives them."""
    if not hasattr(ours, "classes_"):
        return ours.predict(rows)
    proba = ours.predict_proba(rows)
    return proba[:, 1] if ours.model_.n_outputs == 1 else proba


@pytest.mark.parametrize("name", LIGHTGBM)
def test_the_same_predictions(name):
    theirs = lightgbm_model(name)
    ours = sw.import_lightgbm(theirs)
    rows = probes(ours)
    home = quietly(theirs.booster_.predict, rows)
    if "forest" in name:  # their mean is the sum divided once, ours a sum of quotients
        np.testing.assert_allclose(predictions(ours, rows), home, rtol=1e-12, atol=1e-14)
    else:
        raw = quietly(theirs.booster_.predict, rows, raw_score=True).reshape(len(rows), -1)
        np.testing.assert_array_equal(ours.model_.raw(rows).T, raw)
        np.testing.assert_allclose(predictions(ours, rows), home, rtol=1e-14, atol=1e-15)
    single = rows.astype(np.float32)
    single = single[~np.isinf(single).any(axis=1)]
    home = quietly(theirs.booster_.predict, single)
    np.testing.assert_allclose(predictions(ours, single), home, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["regression", "multiclass", "zeros are missing", "one against all"])
def test_paths_texts_and_boosters(name, tmp_path):
    theirs = lightgbm_model(name)
    path = tmp_path / "model.txt"
    theirs.booster_.save_model(path)
    wanted = dumps(sw.import_lightgbm(theirs.booster_))
    for source in (path, str(path), path.read_text(), path.read_bytes()):
        assert dumps(sw.import_lightgbm(source)) == wanted
    ours = sw.import_lightgbm(path)
    assert dumps(loads(wanted)) == wanted  # saved and loaded, they are the same
    assert ours.feature_importances_.sum() == pytest.approx(1.0)
    assert ours.n_estimators_ == 12
    assert ours.learning_rate == 0.1
    assert len(list(ours.staged_predict(X))) == 12


def test_labels_names_and_levels():
    import pandas as pd

    frame = pd.DataFrame(X, columns=["a", "b", "c", "d", "e"])
    labels = np.array(["high", "low", "mid"])[TARGETS["three"]]
    theirs = lgb.LGBMClassifier(n_estimators=3, verbose=-1).fit(frame, labels)
    ours = sw.import_lightgbm(theirs)
    assert ours.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(ours.predict(frame), theirs.predict(frame))
    text = theirs.booster_.model_to_string()
    assert sw.import_lightgbm(text).classes_.tolist() == [0, 1, 2]
    assert sw.import_lightgbm(text, classes=["a", "b", "c"]).classes_.tolist() == ["a", "b", "c"]
    for classes in (["a", "b"], ["b", "a", "c"], ["a", "a", "b"]):
        with pytest.raises(InputError, match="classes="):
            sw.import_lightgbm(text, classes=classes)
    with pytest.raises(InputError, match="no classifier"):
        sw.import_lightgbm(lightgbm_model("regression"), classes=[0, 1])
    loss = sw.import_lightgbm(lightgbm_model("quantile")).model_.loss
    assert isinstance(loss, Quantile)
    assert loss.leaf_quantile == 0.3
    loss = sw.import_lightgbm(lightgbm_model("tweedie")).model_.loss
    assert isinstance(loss, Tweedie)
    assert loss.power == 1.3


def test_training_goes_on_from_an_imported_model():
    ours = sw.import_lightgbm(lightgbm_model("binary"))
    more = sw.GradientBoostingClassifier(n_estimators=20).fit(X, TARGETS["two"], init_model=ours)
    assert more.score(X, TARGETS["two"]) >= ours.score(X, TARGETS["two"])
    assert more.n_estimators_ == 32
    fresh = ours.refit(X[::2], TARGETS["two"][::2], decay=0.5)
    assert fresh.score(X, TARGETS["two"]) > 0.8
    fair = sw.import_lightgbm(lightgbm_model("fair"))
    assert isinstance(fair.model_.loss, Linked)
    on = sw.GradientBoostingRegressor(n_estimators=5).fit(X, TARGETS["number"], init_model=fair)
    assert on.n_estimators_ == 17
    with pytest.raises(sw.ParameterError, match="'fair', for which stagewise has no derivatives"):
        fair.refit(X, TARGETS["number"])


def test_stopping_early_does_not_mind_a_history_that_is_not_known():
    ours = sw.import_lightgbm(lightgbm_model("regression"))
    settings = {"n_iter_no_change": 3, "validation_fraction": None, "min_samples_leaf": 5}
    more = sw.GradientBoostingRegressor(n_estimators=20, **settings).fit(X, TARGETS["number"], init_model=ours)
    assert more.n_estimators_ == 32
    assert np.isnan(more.history_.train[:12]).all()


def text_of(name="regression"):
    return lightgbm_model(name).booster_.model_to_string()


def changed(old, new, count=1):
    text = text_of()
    assert old in text
    return text.replace(old, new, count)


def test_linear_trees_are_refused_with_a_word():
    linear = lgb.LGBMRegressor(n_estimators=2, verbose=-1, linear_tree=True).fit(X, TARGETS["number"])
    with pytest.raises(InputError, match="linear models in its leaves"):
        sw.import_lightgbm(linear)


@pytest.mark.parametrize(
    "text, words",
    [
        (lambda: "", "not complete|no LightGBM|No such file"),
        (lambda: "hello\nworld", "first line is not 'tree'"),
        (lambda: b"\xff\xfe\n", "no LightGBM text model"),
        (lambda: text_of()[:2000], "cut short"),
        (lambda: changed("objective=regression", "objective=guess"), "objective 'guess'"),
        (lambda: changed("max_feature_idx=4", "max_feature_idx=999999999"), "feature_names for"),
        (lambda: changed("max_feature_idx=4", "max_feature_idx=3"), "feature_names for"),
        (lambda: changed("max_feature_idx=4", "max_feature_idx=-4"), "max_feature_idx='-4'"),
        (lambda: changed("num_leaves=12", "num_leaves=13"), "values of"),
        (lambda: changed("num_leaves=12", "num_leaves=99999999"), "not their values"),
        (lambda: changed("left_child=1", "left_child=99"), "not there"),
        (lambda: changed("left_child=1", "left_child=0"), "circle|two parents"),
        (lambda: changed("split_feature=", "split_feature=7 "), "values of split_feature"),
        (lambda: changed("threshold=", "threshold=nan "), "values of threshold"),
        (lambda: changed("leaf_value=", "leaf_value=x"), "that is no number"),
        (lambda: changed("leaf_count=", "leaf_count=" + "9" * 30), "no number"),
        (lambda: changed("num_tree_per_iteration=1", "num_tree_per_iteration=0"), "outputs"),
        (lambda: changed("num_tree_per_iteration=1", "num_tree_per_iteration=99999"), "outputs"),
    ],
)
def test_broken_texts_say_what_is_wrong(text, words):
    with pytest.raises((InputError, OSError), match=words):
        sw.import_lightgbm(text())


@pytest.mark.parametrize("thing", [3, None, object(), ["tree"]])
def test_other_things_are_refused(thing):
    with pytest.raises(TypeError, match="import_lightgbm reads a path"):
        sw.import_lightgbm(thing)
