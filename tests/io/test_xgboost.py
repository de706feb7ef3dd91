"""XGBoost's models predict here what they predict at home, on their thresholds too."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost as xgb

import stagewise as sw
from io_peers import TARGETS, XGBOOST, X, probes, trees, xgboost_model
from stagewise.errors import InputError
from stagewise.io.format import dumps, loads


def float32_sums(ours, rows):
    """Our trees added up as XGBoost adds them: float32, in order."""
    leaves, k = ours.model_.forest.leaves(rows), ours.model_.n_outputs
    out = np.tile(ours.model_.initial.astype(np.float32), (len(rows), 1))
    for t, tree in enumerate(trees(ours)):
        out[:, t % k] += tree.value[leaves[:, t]].astype(np.float32)
    return out


def predictions(ours, rows, name):
    if name == "softmax":
        return ours.predict(rows)
    if not hasattr(ours, "classes_"):
        return ours.predict(rows)
    proba = ours.predict_proba(rows)
    return proba[:, 1] if ours.model_.n_outputs == 1 else proba


@pytest.mark.parametrize("name", XGBOOST)
def test_the_same_predictions(name):
    theirs = xgboost_model(name)
    ours = sw.import_xgboost(theirs)
    rows = probes(ours, infinite=False)
    margin = theirs.predict(xgb.DMatrix(rows), output_margin=True).reshape(len(rows), -1)
    np.testing.assert_array_equal(float32_sums(ours, rows), margin)  # every leaf is the right one
    np.testing.assert_allclose(ours.model_.raw(rows).T, margin, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(predictions(ours, rows, name), theirs.predict(xgb.DMatrix(rows)), rtol=1e-5, atol=2e-6)
    single = rows.astype(np.float32)
    np.testing.assert_array_equal(ours.model_.raw(single), ours.model_.raw(rows))  # they are rounded first


@pytest.mark.parametrize("name", ["squared error", "softprob", "dart, classes", "pruned"])
def test_json_ubjson_and_paths_are_the_same_model(name, tmp_path):
    theirs = xgboost_model(name)
    wanted = dumps(sw.import_xgboost(theirs))
    for ending in ("json", "ubj"):
        path = tmp_path / f"m.{ending}"
        theirs.save_model(path)
        for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
            assert dumps(sw.import_xgboost(source)) == wanted
    indented = json.dumps(json.loads((tmp_path / "m.json").read_text()), indent=2).encode()
    assert dumps(sw.import_xgboost(indented)) == wanted
    assert dumps(loads(wanted)) == wanted


def test_wrappers_labels_names_and_rounds():
    import pandas as pd

    frame = pd.DataFrame(X, columns=["a", "b", "c", "d", "e"])
    theirs = xgb.XGBClassifier(n_estimators=60, max_depth=3, early_stopping_rounds=3, learning_rate=0.5)
    theirs.fit(frame[:600], TARGETS["three"][:600], eval_set=[(frame[600:], TARGETS["three"][600:])], verbose=False)
    ours = sw.import_xgboost(theirs)
    assert ours.n_estimators_ == theirs.best_iteration + 1 < 60
    assert ours.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_allclose(ours.predict_proba(frame), theirs.predict_proba(frame), atol=2e-6)
    np.testing.assert_array_equal(ours.predict(frame), theirs.predict(frame))
    whole = sw.import_xgboost(theirs.get_booster())
    assert whole.n_estimators_ == theirs.get_booster().num_boosted_rounds()
    assert sw.import_xgboost(theirs, iterations=2).n_estimators_ == 2
    named = sw.import_xgboost(theirs.get_booster(), classes=["x", "y", "z"])
    assert set(named.predict(frame)) <= {"x", "y", "z"}
    with pytest.raises(sw.ParameterError, match="iterations=0"):
        sw.import_xgboost(theirs, iterations=0)


def test_another_value_for_missing_is_refused():
    theirs = xgb.XGBRegressor(n_estimators=2, missing=-999.0).fit(X, TARGETS["number"])
    with pytest.raises(InputError, match=r"takes -999.0 for missing"):
        sw.import_xgboost(theirs)


def test_training_goes_on_from_an_imported_model():
    ours = sw.import_xgboost(xgboost_model("softprob"))
    more = sw.GradientBoostingClassifier(n_estimators=5).fit(X, TARGETS["three"], init_model=ours)
    assert more.n_estimators_ == 17
    assert more.score(X, TARGETS["three"]) >= ours.score(X, TARGETS["three"])


def model():
    return json.loads(xgboost_model("squared error").save_raw("json"))


def with_tree(**fields):
    out = model()
    out["learner"]["gradient_booster"]["model"]["trees"][0].update(fields)
    return out


def with_param(**fields):
    out = model()
    out["learner"]["learner_model_param"].update(fields)
    return out


def with_objective(**objective):
    out = model()
    out["learner"]["objective"] = objective
    return out


def with_probability(score):
    out = with_objective(name="binary:logistic")
    out["learner"]["learner_model_param"]["base_score"] = str(score)
    return out


@pytest.mark.parametrize(
    "changed, words",
    [
        (lambda: {}, "no entry learner"),
        (lambda: {"learner": 3}, "no entries"),
        (lambda: with_param(num_feature="1000000000"), "1000000000 columns"),
        (lambda: with_param(num_feature="x"), "num_feature"),
        (lambda: with_param(num_feature=[1]), "num_feature"),
        (lambda: with_param(num_class="1000000000"), "classes"),
        (lambda: with_param(num_class="3"), "3 classes, but an objective for numbers"),
        (lambda: with_param(base_score="NaN"), "base_score"),
        (lambda: with_param(base_score="[1,2]"), "base_score"),
        (lambda: with_param(base_score="1e999"), "base_score"),
        (lambda: with_objective(name="reg:guess"), "objective 'reg:guess'"),
        (lambda: with_objective(name=3), "objective"),
        (lambda: with_probability(1.5), "probability"),
        (lambda: with_probability(0), "probability"),
        (lambda: with_objective(), "no entry"),
        (lambda: with_tree(left_children=[1, 2]), "different lengths"),
        (lambda: with_tree(left_children="abc"), "row of numbers"),
        (lambda: with_tree(left_children=[None]), "row of numbers"),
        (lambda: with_tree(left_children=[[1]]), "row of numbers"),
        (lambda: with_tree(split_type=[1]), "categories"),
        (lambda: with_tree(categories=[1]), "categories"),
        (lambda: with_tree(tree_param={"size_leaf_vector": "3"}), "several values"),
    ],
)
def test_broken_models_say_what_is_wrong(changed, words):
    with pytest.raises(InputError, match=words):
        sw.import_xgboost(json.dumps(changed()).encode())


@pytest.mark.parametrize("name", ["left_children", "right_children", "split_indices"])
@pytest.mark.parametrize("value", [0, 1, 10**6, -9, 2**31, 2**62])
def test_wild_numbers_in_trees_are_refused_or_harmless(name, value):
    changed = model()
    tree = changed["learner"]["gradient_booster"]["model"]["trees"][0]
    tree[name][0] = value
    try:
        ours = sw.import_xgboost(json.dumps(changed).encode())
    except InputError:
        return
    assert np.isfinite(ours.predict(X)).all()


def test_other_boosters_are_refused():
    linear = xgb.train({"booster": "gblinear"}, xgb.DMatrix(np.nan_to_num(X), TARGETS["number"]), 2)
    with pytest.raises(InputError, match="'gblinear' booster"):
        sw.import_xgboost(linear)
    several = xgb.train(
        {"multi_strategy": "multi_output_tree", "tree_method": "hist"},
        xgb.DMatrix(X, np.column_stack([TARGETS["number"], TARGETS["share"]])), 2,
    )  # fmt: skip
    with pytest.raises(InputError, match=r"several values|complete"):
        sw.import_xgboost(several)


@pytest.mark.parametrize("data", [b"", b"hello", b"{", b'{"a"', b"{" * 9999, b'{"a":' * 9999, b'{"a":NaN}'])
def test_what_is_no_model_is_refused(data):
    with pytest.raises(InputError, match=r"XGBoost model|valid JSON|valid UBJSON"):
        sw.import_xgboost(data)
    with pytest.raises(TypeError, match="import_xgboost reads a path"):
        sw.import_xgboost(3)


def test_several_targets_are_all_predicted(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    theirs = xgb.train({"max_depth": 3}, xgb.DMatrix(X, np.column_stack([X[:, 0], -2.0 * X[:, 1]])), 4)
    ours = sw.import_xgboost(theirs)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(xgb.DMatrix(X)), atol=1e-5)
    np.testing.assert_array_equal(list(ours.staged_predict(X))[-1], ours.predict(X))
    with pytest.raises(InputError, match="Python export is for models of one target; this one has 2"):
        sw.export_python(ours, tmp_path / "m.py")
