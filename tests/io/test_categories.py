"""Models with categories from other libraries predict here what they predict at home."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import stagewise as sw
from io_categories import (
    CODES,
    COLUMNS,
    FRAME,
    LETTERS,
    NUMBER,
    codes_around,
    lightgbm_model,
    n_sets,
    scikit_model,
    unseen,
    xgboost_model,
)
from io_peers import quietly
from stagewise.errors import InputError
from stagewise.io.format import dumps, loads


def saved(model):
    """The same after a file; and it is the same file again."""
    again = loads(dumps(model))
    assert dumps(again) == dumps(model)
    return again


# --- LightGBM --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [False, True])
def test_lightgbm_from_a_frame(classes):
    theirs = lightgbm_model(True, classes)
    ours = saved(sw.import_lightgbm(theirs))
    assert n_sets(ours) > 20
    assert ours.model_.schema.levels[1].names(0) == ["z"]
    for rows in (FRAME, unseen(FRAME), FRAME[::-1]):
        home = quietly(theirs.booster_.predict, rows, raw_score=True).reshape(len(rows), -1)
        raw = ours.decision_function(rows) if classes else ours.predict(rows)
        np.testing.assert_array_equal(raw.reshape(home.shape), home)
    as_text = FRAME.assign(text=FRAME["text"].astype(object), wide=FRAME["wide"].astype(str))
    np.testing.assert_array_equal(ours.predict(as_text), ours.predict(FRAME))


def test_lightgbm_from_codes():
    theirs = lightgbm_model(False)
    ours = saved(sw.import_lightgbm(theirs.booster_.model_to_string()))
    assert n_sets(ours) > 20
    assert not ours.model_.schema.levels
    rows = codes_around()
    np.testing.assert_array_equal(ours.predict(rows), quietly(theirs.predict, rows))
    np.testing.assert_array_equal(ours.predict(rows[:3]), quietly(theirs.predict, rows[:3]))


def test_lightgbm_with_many_categories():
    import lightgbm as lgb

    rng = np.random.default_rng(0)
    code = rng.integers(0, 5000, 20000).astype(float)
    y = np.sin(code)
    theirs = lgb.train(
        {"verbose": -1, "min_data_per_group": 2, "max_bin": 6000, "min_data_in_bin": 1, "cat_smooth": 0.1},
        lgb.Dataset(code[:, None], y, categorical_feature=[0]), 4,
    )  # fmt: skip
    ours = saved(sw.import_lightgbm(theirs))
    assert max(tree.sets.shape[1] for stage in ours.model_.stages for tree in stage) > 70
    rows = np.append(np.arange(-1.0, 5100.0), np.nan)[:, None]
    np.testing.assert_array_equal(ours.predict(rows), theirs.predict(rows))


def test_lightgbm_frames_that_do_not_say_which_columns_are_categories():
    import lightgbm as lgb

    ordered = FRAME.assign(two=FRAME["two"].cat.as_ordered())
    theirs = lgb.LGBMRegressor(n_estimators=3, verbose=-1, min_data_per_group=5).fit(ordered, NUMBER)
    with pytest.raises(InputError, match="4 columns of pandas categories, but splits 3 columns"):
        sw.import_lightgbm(theirs)


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("cat_boundaries=0 ", "cat_boundaries=1 ", "cat_boundaries"),
        ("cat_boundaries=0 ", "cat_boundaries=0 9999999 ", "values of cat_boundaries"),
        ("cat_threshold=", "cat_threshold=-", "no word of 32 bits"),
        ("cat_threshold=", "cat_threshold=99999999999", "no word of 32 bits"),
        ("num_cat=", "num_cat=9", "values of cat_boundaries"),
        ("pandas_categorical:[", "pandas_categorical:[[], ", "list of lists"),
        ("pandas_categorical:[", "pandas_categorical:{[", "no valid JSON"),
        ('"z", "y"', '"z", "z"', "there twice"),
        ('"z", "y"', '"z", null', "missing, or there twice"),
        ('"z", "y"', '"z", 3', "mixes numbers"),
    ],
)
def test_broken_lightgbm_texts(old, new, words):
    text = lightgbm_model(True).booster_.model_to_string()
    assert old in text
    with pytest.raises(InputError, match=words):
        sw.import_lightgbm(text.replace(old, new, 1))


# --- XGBoost ---------------------------------------------------------------------------------------------------------


def at_home(theirs, rows):
    types = ["c" if j in COLUMNS else "q" for j in range(CODES.shape[1])]
    data = xgb.DMatrix(rows, feature_types=types, enable_categorical=True)
    return theirs.predict(data, output_margin=True, validate_features=False)


def in_float32(ours, rows):
    """Raw predictions with leaves added up in float32, as XGBoost does."""
    leaves = ours.model_.forest.leaves(np.ascontiguousarray(rows))
    k = ours.model_.n_outputs
    out = np.repeat(ours.model_.initial.astype(np.float32)[None], len(rows), axis=0)
    for t, tree in enumerate(tree for stage in ours.model_.stages for tree in stage):
        out[:, t % k] += tree.value[leaves[:, t]].astype(np.float32)
    return out


@pytest.mark.parametrize("onehot", [1, 1000])
@pytest.mark.parametrize("form", ["json", "ubj"])
def test_xgboost_from_codes(onehot, form):
    theirs = xgboost_model(False, onehot)
    ours = saved(sw.import_xgboost(bytes(theirs.save_raw(form))))
    assert n_sets(ours) > 20
    rows = codes_around().astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(in_float32(ours, rows)[:, 0], at_home(theirs, rows))


@pytest.mark.parametrize("options", [{}, {"objective": "multi:softprob", "num_class": 3}])
def test_xgboost_from_a_frame(options):
    theirs = xgboost_model(True, 4, **options)
    ours = saved(sw.import_xgboost(theirs))
    levels = ours.model_.schema.levels
    assert levels[1].names(0) == ["z"]
    assert levels[2].names(1) == ["3"]
    raw = ours.model_.raw(sw.export_input(ours, FRAME)).T
    home = theirs.predict(xgb.DMatrix(FRAME, enable_categorical=True), output_margin=True)
    np.testing.assert_allclose(raw.reshape(home.shape), home, rtol=1e-5, atol=1e-5)
    # a level that training did not see goes where missing values go; XGBoost takes it for another one, or refuses
    strange = unseen(FRAME)
    gone = FRAME.copy()
    gone.loc[::7, ["text", "wide"]] = None
    np.testing.assert_array_equal(ours.predict(strange), ours.predict(gone))


def test_xgboost_does_not_know_the_names_of_some_categories():
    """It counts letters where bytes are meant."""
    names = pd.Categorical(np.array(["é", "ü", "a"])[np.arange(600) % 3])
    rows = pd.DataFrame({"a": names, "b": np.arange(600.0)})
    theirs = xgb.train({"max_depth": 2}, xgb.DMatrix(rows, names.codes * 1.0, enable_categorical=True), 2)
    with pytest.warns(UserWarning, match="letters beyond ASCII"):
        ours = sw.import_xgboost(theirs)
    home = theirs.predict(xgb.DMatrix(rows, enable_categorical=True))
    np.testing.assert_allclose(ours.predict(rows.assign(a=names.codes)), home, rtol=1e-6)
    with pytest.raises(InputError, match="'a'"):
        ours.predict(rows)


def test_broken_xgboost_categories():
    def changed(**changes):
        out = json.loads(xgboost_model(True).save_raw("json"))
        tree = out["learner"]["gradient_booster"]["model"]["trees"][0]
        for name, change in changes.items():
            tree[name] = change(tree[name])
        return json.dumps(out).encode()

    for words, data in (
        ("does not give them", changed(categories_nodes=lambda own: own[1:])),
        ("does not give them", changed(categories_sizes=lambda own: own[1:])),
        ("do not fit", changed(categories_sizes=lambda own: [10**6, *own[1:]])),
        ("do not fit", changed(categories_segments=lambda own: [-1, *own[1:]])),
        ("category outside", changed(categories=lambda own: [-1, *own[1:]])),
        ("category outside", changed(categories=lambda own: [2**24, *own[1:]])),
    ):
        with pytest.raises(InputError, match=words):
            sw.import_xgboost(data)


# --- scikit-learn ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_scikit_from_a_frame(classes, early):
    theirs = scikit_model(True, classes, early_stopping=early, categorical_features="from_dtype")
    ours = saved(sw.import_sklearn(theirs))
    assert n_sets(ours) > 20
    strange = FRAME.copy()
    strange["text"] = strange["text"].cat.add_categories(["never seen"])
    strange.loc[::5, "text"] = "never seen"
    for rows in (FRAME, strange):
        if classes:
            np.testing.assert_array_equal(ours.decision_function(rows), theirs.decision_function(rows))
        else:
            np.testing.assert_array_equal(ours.predict(rows), theirs.predict(rows))


def test_scikit_from_numbers():
    theirs = scikit_model(False)
    ours = saved(sw.import_sklearn(theirs))
    rows = codes_around()
    np.testing.assert_array_equal(ours.predict(rows), theirs.predict(rows))
    assert ours.model_.schema.levels[0] is None
    assert ours.model_.schema.levels[4].n_codes == 120


# --- all -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["lightgbm", "xgboost", "sklearn"])
def test_imported_categories_explain_themselves_and_train_on(source):
    ours = {
        "lightgbm": lambda: sw.import_lightgbm(lightgbm_model(True)),
        "xgboost": lambda: sw.import_xgboost(xgboost_model(True)),
        "sklearn": lambda: sw.import_sklearn(scikit_model(True, categorical_features="from_dtype")),
    }[source]()
    values = sw.inspection.shap_values(ours, FRAME[:50])
    np.testing.assert_allclose(values.values.sum(axis=1) + values.expected, ours.predict(FRAME[:50]), rtol=1e-9)
    found = sw.inspection.partial_dependence(ours, "text")
    assert set(found.labels[0]) - {"missing"} == set(LETTERS)
    assert "text in {" in "".join(sw.inspection.tree_text(ours, stage) for stage in range(12))
    more = sw.GradientBoostingRegressor(n_estimators=3).fit(FRAME, NUMBER, init_model=ours)
    assert more.n_estimators_ == ours.n_estimators_ + 3
    assert more.score(FRAME, NUMBER) >= ours.score(FRAME, NUMBER)


def test_codes_of_a_frame_are_those_of_the_model():
    ours = sw.import_lightgbm(lightgbm_model(True))
    matrix = sw.export_input(ours, FRAME)
    np.testing.assert_array_equal(matrix, CODES)
    assert isinstance(FRAME, pd.DataFrame)
