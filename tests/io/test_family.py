"""save and load of every estimator beside GradientBoosting*, and of what models remember beside their terms."""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB

import stagewise as sw
from io_models import signal, table
from stagewise.data.binning import Marginal
from stagewise.errors import InputError
from stagewise.io.format import ESTIMATORS, dumps, loads
from stagewise.learners.columns import Line
from stagewise.storage.container import Section, pack, unpack

SMALL = {"n_estimators": 7}

MADE = {
    "ada": (sw.AdaBoostClassifier(**SMALL), 2),
    "ada-deep": (sw.AdaBoostClassifier(max_depth=3, learning_rate=0.5, **SMALL), 2),
    "ada-classes": (sw.AdaBoostClassifier(max_depth=2, **SMALL), 3),
    "ada-cost": (sw.AdaBoostClassifier(misclassification_cost=[[0, 1, 2], [3, 0, 1], [1, 1, 0]], **SMALL), 3),
    "logit": (sw.LogitBoostClassifier(**SMALL), 2),
    "logit-classes": (sw.LogitBoostClassifier(subsample=0.5, random_state=3, **SMALL), 3),
    "gentle": (sw.GentleBoostClassifier(**SMALL), 2),
    "gentle-classes": (sw.GentleBoostClassifier(max_depth=2, **SMALL), 3),
    "stagewise": (sw.StagewiseRegressor("huber", **SMALL), 0),
    "stagewise-leaves": (sw.StagewiseRegressor("absolute_error", line_search="leaves", **SMALL), 0),
    "stagewise-two": (sw.StagewiseClassifier("exponential", **SMALL), 2),
    "stagewise-classes": (sw.StagewiseClassifier(class_weight={"u": 1.0, "v": 2.0, "w": 3.0}, **SMALL), 3),
    "lines": (sw.ComponentwiseRegressor(**SMALL), 0),
    "lines-aic": (sw.ComponentwiseRegressor(n_estimators=60, learning_rate=0.5, stopping="aic"), 0),
    "lines-cv": (sw.ComponentwiseRegressor(stopping="cv", cv=3, line_search="exact", **SMALL), 0),
    "splines": (sw.ComponentwiseRegressor(base="spline", df=6, **SMALL), 0),
    "stumps": (sw.ComponentwiseRegressor(base="stump", **SMALL), 0),
    "lines-two": (sw.ComponentwiseClassifier(**SMALL), 2),
    "lines-classes": (sw.ComponentwiseClassifier(**SMALL), 3),
    "splines-classes": (sw.ComponentwiseClassifier(base="spline", **SMALL), 3),
    "stumps-classes": (sw.ComponentwiseClassifier(base="stump", **SMALL), 3),
}
ATTRIBUTES = (
    "alphas_", "classes_", "coef_", "coef_path_", "criterion_path_", "errors_", "estimator_weights_",
    "feature_importances_", "intercept_", "n_estimators_", "n_features_in_", "selected_",
)  # fmt: skip


@functools.cache
def fitted(name):
    """(estimator, X); lines and splines get a table without gaps."""
    estimator, n_classes = MADE[name]
    X = table(200, missing=getattr(estimator, "base", "stump") == "stump")
    y = signal(X)
    if n_classes:
        edges = np.quantile(y, np.arange(1, n_classes) / n_classes)
        y = np.array(["u", "v", "w"])[np.digitize(y, edges)]
    return clone(estimator).fit(X, y), X


def same_histories(one, other):
    for name in ("train", "validation", "rows", "kept"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.best, one.initial, set(one.notes)) == (other.best, other.initial, set(other.notes))
    for name, own in one.notes.items():
        np.testing.assert_array_equal(own, other.notes[name])


def same_marginals(one, other):
    assert len(one) == len(other)
    for own, its in zip(one, other, strict=True):
        np.testing.assert_array_equal(own.points, its.points)
        np.testing.assert_array_equal(own.shares, its.shares)
        assert own.missing == its.missing


def test_every_estimator_is_here():
    public = {name for name in sw.__all__ if inspect.isclass(getattr(sw, name)) and hasattr(getattr(sw, name), "fit")}
    assert set(ESTIMATORS) == public
    assert {type(estimator).__name__ for estimator, _ in MADE.values()} == {
        name for name in public if not name.startswith("Gradient")
    }


@pytest.mark.parametrize("name", MADE)
def test_it_comes_back(tmp_path, name):
    model, X = fitted(name)
    sw.save(model, tmp_path / "m")
    again = sw.load(tmp_path / "m")
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    assert repr(again.get_params()) == repr(model.get_params())
    assert {own for own in vars(again) if own.endswith("_")} == {own for own in vars(model) if own.endswith("_")}
    np.testing.assert_array_equal(again.model_.raw(X), model.model_.raw(X))
    for what in ("predict", "predict_proba", "decision_function", "apply"):
        if hasattr(model, what) and (what != "apply" or model.model_.of_trees):
            np.testing.assert_array_equal(getattr(again, what)(X), getattr(model, what)(X))
    for what in ("staged_predict", "staged_predict_proba"):
        if hasattr(model, what):
            for one, other in zip(getattr(model, what)(X), getattr(again, what)(X), strict=True):
                np.testing.assert_array_equal(one, other)
    for what in ATTRIBUTES:
        assert hasattr(again, what) == hasattr(model, what)
        if hasattr(model, what):
            own, its = np.asarray(getattr(model, what)), np.asarray(getattr(again, what))
            assert own.dtype == its.dtype
            np.testing.assert_array_equal(own, its)
    same_histories(again.history_, model.history_)
    same_marginals(again.model_.marginals, model.model_.marginals)
    assert len(again.model_.cuts) == len(model.model_.cuts)
    assert dumps(again) == dumps(model)
    bare = loads(dumps(model.model_))
    np.testing.assert_array_equal(bare.raw(X), model.model_.raw(X))


def test_columns_that_say_nothing_and_names(tmp_path):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": np.ones(40), "b": np.full(40, 2.0)})
    y = np.arange(40.0)
    for base in ("linear", "spline"):
        model = sw.ComponentwiseRegressor(base=base, n_estimators=3).fit(X, y)
        again = loads(dumps(model))
        assert again.selected_.tolist() == [-1, -1, -1]
        assert again.feature_names_in_.tolist() == ["a", "b"]
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_distributions_of_infinite_missing_and_constant_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[::7, 0], X[1::7, 0], X[:, 1], X[:, 2] = np.inf, -np.inf, np.nan, 5.0
    model = sw.GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 3], sample_weight=rng.uniform(0, 1e6, 300))
    again = loads(dumps(model))
    same_marginals(again.model_.marginals, model.model_.marginals)
    assert dumps(again) == dumps(model)
    without = replace(model.model_, marginals=())
    assert loads(dumps(without)).marginals == ()
    many = rng.normal(size=(3000, 2)).astype(np.float32)
    model = sw.GradientBoostingRegressor(n_estimators=2).fit(many, many[:, 0])
    same_marginals(loads(dumps(model)).model_.marginals, model.model_.marginals)


def test_influence_trimming_is_remembered():
    X = table(200)
    model = sw.GradientBoostingClassifier(n_estimators=5, influence_trimming=0.2).fit(X, signal(X) > 0)
    assert model.history_.kept.min() < 1.0
    np.testing.assert_array_equal(loads(dumps(model)).history_.kept, model.history_.kept)


def test_learners_of_other_libraries_are_refused():
    X = table(200, missing=False)
    y = signal(X)
    foreign = [
        sw.AdaBoostClassifier(GaussianNB(), n_estimators=2).fit(X, y > 0),
        sw.AdaBoostClassifier(GaussianNB(), n_estimators=2).fit(X, np.digitize(y, [-1, 1])),
        sw.LogitBoostClassifier(Ridge(), n_estimators=2).fit(X, y > 0),
        sw.GentleBoostClassifier(Ridge(), n_estimators=2).fit(X, y > 0),
        sw.StagewiseRegressor(estimator=Ridge(), n_estimators=2).fit(X, y),
        sw.StagewiseClassifier(estimator=Ridge(), n_estimators=2).fit(X, y > 0),
    ]
    for model in foreign:
        with pytest.raises(
            InputError, match=r"estimator=(Ridge|GaussianNB)\(\) holds models of another library.*pickle"
        ):
            dumps(model)
        with pytest.raises(InputError, match=r"cannot be saved|number of terms"):
            dumps(model.model_)
        with pytest.raises(InputError, match="does not make the terms"):
            dumps(model.set_params(estimator=None))


def test_what_could_not_be_loaded_is_not_saved():
    model, X = fitted("lines")
    with pytest.raises(InputError, match="base='stump' does not make the terms"):
        dumps(clone(model).fit(X, signal(X)).set_params(base="stump"))
    with pytest.raises(InputError, match=r"cv=KFold.*cannot be saved"):
        dumps(clone(model).fit(X, signal(X)).set_params(cv=KFold(3)))
    endless = replace(model.model_, stages=((Line(0, np.inf, 0.0),),) * 7)
    with pytest.raises(InputError, match="slope or the level of a line"):
        dumps(endless)


# --------------------------------------------------------------------------------------------------- tampering


def changed(name, section, change):
    """A file with other arrays or values in one section, and a fitting checksum; None takes an array away."""
    content = unpack(dumps(fitted(name)[0]))
    own = content.sections.get(section, Section({}))
    values, arrays = dict(own.values), dict(own.arrays)
    for key, value in change(arrays).items():
        if isinstance(value, np.ndarray):
            arrays[key] = value
        elif value is None:
            del arrays[key]
        else:
            values[key] = value
    return pack(replace(content, sections={**content.sections, section: Section(values, arrays)}))


def put(name, at, value):
    def change(arrays):
        array = arrays[name].copy()
        array[at] = value
        return {name: array}

    return change


def give(**new):
    return lambda arrays: new


def shortened(name):
    return lambda arrays: {name: arrays[name][:-1]}


def param(name, value):
    """A parameter of the first estimator that has it."""
    own = unpack(dumps(fitted(name)[0])).sections["estimator"].values["params"]
    return lambda arrays: {"params": {**own, **value}}


HOSTILE = [
    *[("lines", "lines", put("column", 0, value)) for value in (5, -2, 2**62, -(2**63))],
    *[("lines", "lines", put(which, 1, value)) for which in ("slope", "level") for value in (np.nan, np.inf)],
    ("lines", "lines", put("column", 0, -1)),  # with a slope
    *[("lines", "lines", shortened(which)) for which in ("column", "slope", "level")],
    ("lines", "lines", give(slope=np.zeros((7, 1)))),
    ("lines", "lines", give(slope=np.zeros(7, np.float32))),
    ("lines", "lines", give(column=np.zeros(7, np.int32))),
    ("lines", "lines", give(level=None)),
    ("lines", "lines", give(colour=np.zeros(7))),
    ("lines", "lines", give(terms=6)),
    *[("splines", "splines", put("column", 0, value)) for value in (5, -1, 2**62)],
    *[("splines", "splines", put("width", 0, value)) for value in (0.0, -1.0, np.nan, np.inf)],
    *[("splines", "splines", put("low", 0, value)) for value in (np.nan, -np.inf)],
    *[("splines", "splines", put("coef", 3, value)) for value in (np.nan, np.inf)],
    *[("splines", "splines", put("size", 0, value)) for value in (3, 0, -1, 24, 2**62)],
    ("splines", "splines", give(size=np.array([23] * 6 + [20, 3]))),
    ("splines", "splines", give(size=np.array([1, 22] + [23] * 6))),
    *[("splines", "splines", shortened(which)) for which in ("column", "low", "width", "size", "coef")],
    ("splines", "splines", give(coef=np.zeros((7, 23)))),
    ("splines-classes", "stages", give(count=8)),
    ("lines", "stages", give(kinds=["lines", "trees"])),
    ("lines", "stages", give(kinds=["trees"])),
    ("lines-classes", "stages", give(count=21)),
    ("lines-classes", "stages", give(count=3)),
    ("ada", "notes", give(alpha=None)),
    ("ada", "notes", shortened("error")),
    ("ada", "notes", give(weight=np.zeros(8))),
    ("ada", "notes", give(weight=np.zeros((7, 1)))),
    ("ada", "notes", give(weight=np.zeros(7, np.int64))),
    ("stagewise", "notes", give(step=np.zeros(8))),
    ("stagewise", "notes", give(more=np.zeros(1000))),
    ("logit", "model", give(history_kept=np.ones(8))),
    ("logit", "model", give(history_kept=np.ones((7, 1)))),
    *[("logit", "model", put("history_kept", 2, value)) for value in (np.nan, -0.1, 1.1, np.inf)],
    ("lines", "model", give(binned="no")),
    ("ada", "model", give(binned=False)),
    ("lines", "model", give(cut_counts=np.zeros(0, np.int64))),
    ("lines", "model", give(cut_counts=np.zeros(1, np.int64))),
    *[("ada", "marginals", put("points", 1, value)) for value in (np.nan, -np.inf, np.inf)],
    *[("ada", "marginals", put("shares", 1, value)) for value in (np.nan, -0.5, 0.5, 2.0)],
    *[("ada", "marginals", put("missing", 1, value)) for value in (np.nan, -0.5, 1.0, np.inf)],
    *[("ada", "marginals", put("size", 0, value)) for value in (0, -1, 2**62)],
    *[("ada", "marginals", shortened(which)) for which in ("points", "shares", "missing", "size")],
    *[("ada", "marginals", give(**{which: None})) for which in ("points", "shares", "missing", "size")],
    ("ada", "marginals", give(missing=np.zeros(5, np.float32))),
    ("ada-classes", "model", give(loss={"name": "MulticlassExponential", "args": {"n_classes": 4}})),
    ("ada-classes", "model", give(loss={"name": "OneVsRestExponential", "args": {"n_classes": 1}})),
    ("ada", "estimator", give(**{"class": "ComponentwiseClassifier"})),
    ("lines", "estimator", give(**{"class": "StagewiseRegressor", "params": {}})),
    ("lines", "estimator", give(**{"class": "GradientBoostingRegressor", "params": {}})),
    ("lines-aic", "estimator", give(criterion_path_=np.zeros(1))),
    ("lines-aic", "estimator", give(criterion_path_=np.zeros((60, 1)))),
    ("lines-aic", "estimator", give(criterion_path_=np.zeros(60, np.int64))),
    ("lines-aic", "estimator", give(coef_=np.zeros(5))),
    ("ada", "estimator", give(criterion_path_=np.zeros(60))),
]


@pytest.mark.parametrize("case", range(len(HOSTILE)))
def test_tampered_files_are_refused(case):
    name, section, change = HOSTILE[case]
    with pytest.raises(InputError, match="the file cannot be loaded"):
        loads(changed(name, section, change))


@pytest.mark.parametrize(
    "name, value",
    [
        ("ada", {"estimator": "os.system"}),
        ("ada", {"estimator": 1}),
        ("lines", {"base": "spline"}),
        ("lines", {"base": "stump"}),
        ("splines", {"base": "linear"}),
        ("stumps", {"base": "linear"}),
        ("lines", {"base": ["linear"]}),
        ("lines", {"base": None}),
        ("lines", {"colour": 3}),
    ],
)
def test_parameters_that_the_model_contradicts_are_refused(name, value):
    data = changed(name, "estimator", param(name, value))
    if value == {"base": "spline"}:  # constant columns give lines there too: a model that base="spline" could have made
        assert loads(data).base == "spline"
        return
    with pytest.raises(InputError, match="the file cannot be loaded"):
        loads(data)


@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1], [0, 1, 2], [0, 1, 255], [0, 1, 1, 1]])
def test_lines_and_splines_take_turns_as_the_file_says(order):
    model = fitted("splines")[0].model_
    spline = model.stages[0]
    mixed = replace(model, stages=(spline, (Line(-1, 0.0, 1.0),), spline), history=replace(model.history, best=3))
    content = unpack(dumps(mixed))
    assert content.sections["stages"].arrays["kind"].tolist() == [1, 0, 1]
    X = fitted("splines")[1]
    np.testing.assert_array_equal(loads(dumps(mixed)).raw(X), mixed.raw(X))
    own = Section(content.sections["stages"].values, {"kind": np.array(order, np.uint8)})
    with pytest.raises(InputError, match="order of the kinds of terms"):
        loads(pack(replace(content, sections={**content.sections, "stages": own})))


def test_a_file_without_the_new_parts_is_a_model_without_them():
    content = unpack(dumps(fitted("logit")[0]))
    sections = {name: own for name, own in content.sections.items() if name != "marginals"}
    arrays = {name: own for name, own in sections["model"].arrays.items() if name != "history_kept"}
    sections["model"] = Section(sections["model"].values, arrays)
    again = loads(pack(replace(content, sections=sections)))
    assert again.model_.marginals == ()
    assert len(again.history_.kept) == 0
    assert isinstance(fitted("logit")[0].model_.marginals[0], Marginal)
