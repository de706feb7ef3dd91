"""Bad input gets a clear error and nothing else; odd but legal input works."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from estimators.fingerprint import difference
from stagewise import (
    Dataset,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    InputError,
    ParameterError,
    StagewiseError,
)

R, C = GradientBoostingRegressor, GradientBoostingClassifier
both = pytest.mark.parametrize("kind", [R, C], ids=["regressor", "classifier"])

N = 40
X = np.random.default_rng(0).normal(size=(N, 3))
Y = (X[:, 0] > 0).astype(int)  # a target for both


def spoiled(array, row, value):
    out = np.array(array, dtype=float)
    out[row] = value
    return out


# ------------------------------------------------------------------------------------------------------------------ y


@pytest.mark.parametrize(
    "y, message",
    [
        (spoiled(Y, 3, np.nan), r"Input y contains NaN. The first is in row 3"),
        (spoiled(Y, 5, np.inf), r"Input y contains infinity.* in row 5"),
        (spoiled(Y, 5, -np.inf), r"Input y contains infinity.* in row 5"),
        (Y[:-1], r"inconsistent numbers of samples: \[40, 39\]"),
        (None, r"requires y to be passed, but the target y is None"),
        (np.column_stack([Y, Y]), r"y should be a 1d array, got an array of shape \(40, 2\) instead"),
        (Y + 1j, r"Complex data not supported"),
        (np.array([None] * N), r"Input y contains NaN"),
        (3.0, r"y should be a 1d array"),
        ([], r"inconsistent numbers of samples: \[40, 0\]"),
    ],
)
@both
def test_bad_y(kind, y, message):
    with pytest.raises(InputError, match=message):
        kind().fit(X, y)


def test_y_of_the_wrong_kind():
    with pytest.raises(InputError, match="could not convert string to float: row 0 of y is 'a'"):
        R().fit(X, ["a", "b"] * 20)
    with pytest.raises(InputError, match="Unknown label type: continuous"):
        C().fit(X, X[:, 0])
    with pytest.raises(InputError, match="y mixes labels of different types"):
        C().fit(X, np.array(["a", 1] * 20, dtype=object))


@pytest.mark.parametrize("label", [0, 1.0, "only", True])
def test_one_class(label):
    with pytest.raises(InputError, match=r"y contains one class only \(.*\); a classifier needs at least two classes"):
        C().fit(X, np.full(N, label))


def test_labels_that_were_not_there():
    with pytest.raises(InputError, match=r"labels that were not seen during fit: 7\. The known classes are 0, 1"):
        C().fit(X, Y, eval_set=(X, np.where(Y == 1, 7, 0)))


# ------------------------------------------------------------------------------------------------------------ weights


@pytest.mark.parametrize(
    "weight, message",
    [
        (spoiled(np.ones(N), 2, np.nan), r"Input sample_weight contains NaN. The first is in row 2"),
        (spoiled(np.ones(N), 2, np.inf), r"Input sample_weight contains infinity"),
        (
            spoiled(np.ones(N), 2, -1.0),
            r"Negative values in data passed to `sample_weight`: the first is -1.0 in row 2",
        ),
        (np.zeros(N), r"at least one non-zero number: all weights are zero"),
        (0.0, r"all weights are zero"),
        (np.ones(N - 1), r"sample_weight.shape == \(39,\), expected \(40,\)"),
        (np.ones((N, 2)), r"Sample weights must be 1D array or scalar, got 2D array"),
        (["a"] * N, r"sample_weight is 'a'"),
    ],
)
@both
def test_bad_weights(kind, weight, message):
    with pytest.raises(InputError, match=message):
        kind().fit(X, Y, sample_weight=weight)
    with pytest.raises(InputError, match=message):
        kind().fit(X, Y, eval_set=(X, Y, weight))


def test_a_class_without_weight():
    with pytest.raises(InputError, match="class 1 has weight 0 in all of its rows"):
        C().fit(X, Y, sample_weight=1.0 - Y)
    with pytest.raises(InputError, match="class 'b' has weight 0 in all of its rows"):
        C(class_weight={"a": 1.0, "b": 0.0}).fit(X, np.array(["a", "b"])[Y])


# ------------------------------------------------------------------------------------------------------------------ X


@pytest.mark.parametrize(
    "bad, message",
    [
        (np.empty((0, 3)), r"Found array with 0 sample\(s\)"),
        (np.empty((N, 0)), r"Found array with 0 feature\(s\)"),
        (X[:, 0], r"Expected 2D array, got 1D array instead"),
        (X[None], r"Found array with dim 3"),
        (X + 1j, r"Complex data not supported"),
        (np.full((N, 3), "text"), r"could not convert string to float: row 0, column 0 of X is 'text'"),
        ([[1.0, "2"]] * N, r"could not convert string to float: row 0, column 1 of X is '2'"),
        ([[1.0, 2.0], [3.0]], r"cannot be read as a table"),
        (None, r"Expected 2D array or a frame for X, got NoneType"),
        (5, r"Expected 2D array, got scalar array instead"),
        (np.full((N, 3), np.datetime64("2020-01-01")), r"is a date or time"),
    ],
)
@both
def test_bad_table(kind, bad, message):
    with pytest.raises(InputError, match=message):
        kind().fit(bad, Y)
    fitted = kind(n_estimators=1).fit(X, Y)
    methods = ["predict", "apply", "staged_predict"]
    methods += ["predict_proba", "decision_function", "staged_predict_proba", "staged_decision_function"] * (kind is C)
    for method in methods:
        with pytest.raises(InputError):
            getattr(fitted, method)(bad)


def test_bad_frames():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="'b'"):
        R(categorical_features=None).fit(pd.DataFrame({"a": np.arange(N), "b": ["x"] * N}), Y)
    twice = pd.DataFrame(X, columns=["a", "b", "a"])
    with pytest.raises(InputError, match=r"(?i)duplicate|twice|more than once"):
        R().fit(twice, Y)
    mixed = pd.DataFrame(X, columns=["a", 1, "b"])
    with pytest.raises(TypeError, match="only supported if all input features have string names"):
        R().fit(mixed, Y)


@both
def test_other_columns_at_predict(kind):
    pd = pytest.importorskip("pandas")
    model = kind(n_estimators=1).fit(X, Y)
    name = kind.__name__
    for wrong in (X[:, :2], np.hstack([X, X])):
        with pytest.raises(InputError, match=rf"X has {wrong.shape[1]} features, but {name} is expecting 3 features"):
            model.predict(wrong)
    with pytest.warns(UserWarning, match=f"X has feature names, but {name} was fitted without feature names"):
        model.predict(pd.DataFrame(X, columns=list("abc")))
    frame = pd.DataFrame(X, columns=list("abc"))
    model = kind(n_estimators=1).fit(frame, Y)
    with pytest.raises(InputError, match="Feature names must be in the same order as they were in fit"):
        model.predict(frame[["b", "a", "c"]])
    with pytest.raises(InputError, match="Feature names unseen at fit time:\n- d"):
        model.predict(frame.rename(columns={"c": "d"}))
    with pytest.raises(InputError, match="seen at fit time, yet now missing:\n- c"):
        model.predict(frame[["a", "b"]])
    with pytest.warns(UserWarning, match=f"X does not have valid feature names, but {name} was fitted with"):
        model.predict(X)


@both
def test_other_columns_in_eval_set(kind):
    with pytest.raises(InputError, match="X has 2 features"):
        kind().fit(X, Y, eval_set=(X[:, :2], Y))
    with pytest.raises(InputError, match="eval_set must be"):
        kind().fit(X, Y, eval_set=X)
    with pytest.raises(InputError, match="eval_set must be"):
        kind().fit(X, Y, eval_set=(X,))
    with pytest.raises(InputError, match="eval_set must be"):
        kind().fit(X, Y, eval_set=[(X, Y), (X, Y)])
    with pytest.raises(InputError, match=r"inconsistent numbers of samples: \[40, 39\]"):
        kind().fit(X, Y, eval_set=(X, Y[1:]))


# ---------------------------------------------------------------------------------------------------- starting scores


@pytest.mark.parametrize(
    "score, message",
    [
        (np.zeros(N - 1), r"init_score has shape .*expected \(40,\)"),
        (np.zeros((N, 3)), r"init_score has shape \(40, 3\), expected \(40,\)"),
        (spoiled(np.zeros(N), 1, np.nan), r"Input init_score contains NaN. The first is in row 1"),
        (["a"] * N, r"init_score is 'a'"),
    ],
)
@both
def test_bad_init_score(kind, score, message):
    with pytest.raises(InputError, match=message):
        kind().fit(X, Y, init_score=score)


# ------------------------------------------------------------------------------------------------------------ fitting


@both
def test_not_fitted(kind):
    model = kind()
    methods = ["predict", "apply", "staged_predict"]
    methods += ["predict_proba", "decision_function", "staged_predict_proba", "staged_decision_function"] * (kind is C)
    for method in methods:
        with pytest.raises(NotFittedError):
            getattr(model, method)(X)
    with pytest.raises(NotFittedError):
        _ = model.feature_importances_


@both
def test_a_failed_fit_leaves_the_old_model(kind):
    model = kind(n_estimators=2).fit(X, Y)
    before = model.predict(X)
    for bad in ({"y": None}, {"y": spoiled(Y, 0, np.nan)}, {"X": X[:, 0]}, {"sample_weight": np.zeros(N)}):
        with pytest.raises(StagewiseError):
            model.fit(**{"X": X, "y": Y, **bad})
        np.testing.assert_array_equal(model.predict(X), before)
    model.learning_rate = 7
    with pytest.raises(ParameterError):
        model.fit(X[:, :2], 1 - Y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_failed_fit_of_other_classes_leaves_the_old_model():
    model = C(n_estimators=2).fit(X, Y)
    before = model.predict(X)
    model.learning_rate = 7
    with pytest.raises(ParameterError):
        model.fit(X, np.array(["a", "b"])[Y])
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.classes_.tolist() == [0, 1]


def test_values_that_came_twice():
    with pytest.raises(InputError, match="y came twice"):
        R().fit(Dataset(X, Y), Y)
    with pytest.raises(InputError, match="sample_weight came twice"):
        R().fit(Dataset(X, Y, np.ones(N)), sample_weight=np.ones(N))
    with pytest.raises(InputError, match="requires y to be passed"):
        R().fit(Dataset(X))


@pytest.mark.parametrize("max_bins", [0, 1, 256, 3.5, "many", None])
def test_bad_bins_of_a_dataset(max_bins):
    with pytest.raises(ParameterError, match=r"max_bins=.* must be a whole number from 2 to 255"):
        Dataset(X, max_bins=max_bins)


def test_a_validation_sample_of_no_rows():
    with pytest.raises(InputError, match="leaves an empty training or validation sample"):
        R(early_stopping=True, validation_fraction=0.01).fit(X[:10], Y[:10])
    with pytest.raises(InputError, match="leaves an empty training or validation sample"):
        R(early_stopping=True, validation_fraction=0.99).fit(X[:10], Y[:10])


def test_warm_starts_that_do_not_fit():
    model = R(n_estimators=5, warm_start=True).fit(X, Y)
    with pytest.raises(ParameterError, match="n_estimators=3 must be at least the 5 stages that the model has"):
        clone_fitted(model).set_params(n_estimators=3).fit(X, Y)
    with pytest.raises(InputError, match="warm_start goes on from a model of 3 columns, but X has 2"):
        clone_fitted(model).set_params(n_estimators=6).fit(X[:, :2], Y)
    with pytest.raises(ParameterError, match="warm_start cannot go on from a model of another loss"):
        clone_fitted(model).set_params(n_estimators=6, loss="huber").fit(X, Y)
    model = R(n_estimators=2, warm_start=True, loss="quantile", alpha=0.3).fit(X, Y).set_params(alpha=0.4)
    with pytest.raises(ParameterError, match=r"another loss \(Quantile\(alpha=0.3\), now Quantile\(alpha=0.4\)\)"):
        model.fit(X, Y)
    with pytest.raises(InputError, match="no cut point of this Dataset"):
        R(n_estimators=2, warm_start=True).fit(X, Y).set_params(n_estimators=3).fit(Dataset(X + 0.01, Y))
    with pytest.raises(InputError, match="warm_start needs the classes of the first fit"):
        C(n_estimators=2, warm_start=True).fit(X, Y).set_params(n_estimators=3).fit(X, Y + 1)


def clone_fitted(model):
    other = clone(model)
    other.model_ = model.model_
    return other


# --------------------------------------------------------------------------------------------------------- parameters


NOT_NUMBERS = ["0.5", None, [0.5], True, np.nan, np.inf, -np.inf, 1 + 1j, object()]
NOT_COUNTS = ["3", [3], True, np.nan, 2.5, 3.0]

SHARED = {
    "categorical_features": ["nope", [99], [-9], [1.5], [True], 7, {"a": 1}],
    "category_encoding": ["onehot", None, 1, True],
    "learning_rate": [0.0, -0.1, 1.7, *NOT_NUMBERS],
    "n_estimators": [0, -1, None, *NOT_COUNTS],
    "max_leaf_nodes": [0, 1, -1, *NOT_COUNTS],
    "max_depth": [0, -1, *NOT_COUNTS],
    "min_samples_leaf": [0, -1, 0.0, 1.0, -0.5, 1.5, "3", None, [3], True, np.nan, np.inf],
    "min_child_weight": [-1.0, *NOT_NUMBERS],
    "min_split_gain": [-1.0, *NOT_NUMBERS],
    "l1_regularization": [-1.0, *NOT_NUMBERS],
    "l2_regularization": [-1.0, *NOT_NUMBERS],
    "criterion": ["mse", "Newton", None, 1, True, ["newton"]],
    "growth": ["depthwise", None, 1, True, ["leafwise"]],
    "subsample": [0.0, -0.5, 1.5, 2, *NOT_NUMBERS],
    "sampling": ["all", None, 1],
    "goss_top": [-0.1, 1.0, 0.95, *NOT_NUMBERS],
    "goss_rest": [0.0, -0.1, 0.9, 1.5, *NOT_NUMBERS],
    "max_features": [0, -1, 0.0, -0.5, 1.5, "all", "auto", [1], True, np.nan, np.inf],
    "max_features_tree": [0, -1, 0.0, -0.5, 1.5, "all", "auto", [1], True, np.nan, np.inf],
    "max_bins": [0, 1, 256, -1, None, *NOT_COUNTS],
    "early_stopping": ["yes", "Auto", None, 1, 0, 0.5, [True]],
    "validation_fraction": [0.0, 1.0, -0.1, 1.5, 3, "0.5", [0.5], True, np.nan],
    "n_iter_no_change": [0, -1, *NOT_COUNTS],
    "tol": [-1.0, *NOT_NUMBERS],
    "warm_start": ["yes", None, 1, 0, [True]],
    "random_state": ["seed", 1.5, [1], True, np.nan, object()],
    "n_jobs": [0, "all", 1.5, [1], True, np.nan],
    "verbose": [-1, "loud", None, 1.5, [1]],
    "callbacks": [object(), "bar", 3, {"a": 1}],
}
OWN = {
    R: {
        "loss": ["mse", "log_loss", None, 3, object(), ["squared_error"]],
        "alpha": [0.0, 1.0, -0.1, 1.5, *NOT_NUMBERS],
        "tweedie_power": [1.0, 2.0, 0.0, 2.5, *NOT_NUMBERS],
    },
    C: {
        "influence_trimming": [-0.1, 1.0, 1.5, *NOT_NUMBERS],
        "multiclass_curvature": ["newton", "Friedman", None, 1, True, ["diagonal"]],
        "loss": ["deviance", "squared_error", None, 3, object(), ["log_loss"]],
        "class_weight": ["even", 3, [1.0, 2.0], {0: "a", 1: "b"}, {5: 1.0}, {0: -1.0, 1: 1.0}, {0: np.nan, 1: 1.0}],
        "misclassification_cost": [
            3,
            "costs",
            [[0, 1]],
            [[0, 1], [np.nan, 0]],
            np.zeros((3, 3)),
            [[0, 1], [1]],
            [0, 1],
        ],
    },
}


def bad_values():
    for kind in (R, C):
        for name, values in {**SHARED, **OWN[kind]}.items():
            for value in values:
                yield pytest.param(kind, name, value, id=f"{kind.__name__[16:]}-{name}-{str(value)[:20]}")


@pytest.mark.parametrize("kind, name, value", list(bad_values()))
def test_bad_parameters(kind, name, value):
    """Each is refused with a message that names it, and before any training."""
    with pytest.raises(ParameterError, match=name):
        kind(**{name: value}).fit(X, Y)


def test_every_parameter_is_checked():
    for kind in (R, C):
        assert set(kind().get_params()) == {*SHARED, *OWN[kind]}


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("learning_rate", 1.7, r"^learning_rate=1.7 must be in \(0, 1\]; try 0.1.$"),
        ("learning_rate", "fast", r"^learning_rate='fast' must be a number in \(0, 1\]; try 0.1.$"),
        ("n_estimators", 0, r"^n_estimators=0 must be a whole number at least 1.$"),
        ("max_leaf_nodes", 1, r"^max_leaf_nodes=1 must be a whole number at least 2, or None.$"),
        ("max_bins", 300, r"^max_bins=300 must be a whole number from 2 to 255.$"),
        ("growth", "up", r"^growth='up' is not known; choose one of 'leafwise', 'levelwise', 'symmetric'.$"),
        ("max_features", "all", r"^max_features='all' is not known; choose one of 'sqrt', 'log2'.$"),
        ("n_jobs", 0, r"^n_jobs=0 must be None, a positive number of threads, or -1 for all cores.$"),
        ("l2_regularization", -1, r"^l2_regularization=-1 must be in \[0, ∞\).$"),
    ],
)
def test_messages_say_what_came_what_is_allowed_and_what_to_do(name, value, message):
    with pytest.raises(ParameterError, match=message):
        R(**{name: value}).fit(X, Y)


GOOD = {
    "learning_rate": [1, 1.0, 1e-3, np.float32(0.5)],
    "n_estimators": [1, np.int64(2)],
    "max_leaf_nodes": [2, None, np.int32(5), 10**12],
    "max_depth": [1, None, 10**12],
    "min_samples_leaf": [1, 0.1, np.int64(3), np.float32(0.25), 10**12],
    "min_child_weight": [0, 1e300],
    "min_split_gain": [0, 1e300],
    "l1_regularization": [0, 1e300],
    "l2_regularization": [0, 1e300],
    "subsample": [1, 0.5, 0.001],
    "max_features": [None, 1, 1.0, 2, "sqrt", "log2", 0.01, 1000],
    "max_features_tree": [None, 1, 1.0, 2, "sqrt", "log2", 0.01, 1000],
    "max_bins": [2, 255],
    "early_stopping": [True, False, "auto", np.True_],
    "validation_fraction": [0.2, None],
    "n_iter_no_change": [1, None, 10**12],
    "tol": [0, 0.0, 1e300],
    "warm_start": [True, False, np.True_],
    "random_state": [None, 0, 2**40, -1, np.int64(3), np.random.RandomState(0)],
    "n_jobs": [None, -1, -2, -100, 1, 2, np.int64(2)],
    "callbacks": [None, [], ()],
}


@pytest.mark.parametrize(
    "name, value",
    [pytest.param(name, value, id=f"{name}-{value}") for name, values in GOOD.items() for value in values],
)
@both
def test_good_parameters(kind, name, value):
    """The ends of the ranges, and NumPy's numbers."""
    model = kind(**{"n_estimators": 2, name: value}).fit(X, Y)
    assert np.isfinite(model.predict(X)).all()


# ------------------------------------------------------------------------------------------------------ odd but legal


@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"]
)
@pytest.mark.parametrize("growth", ["leafwise", "levelwise", "symmetric"])
def test_one_row(loss, growth):
    model = R(loss=loss, growth=growth, n_estimators=3).fit([[1.0, 2.0]], [3.0])
    np.testing.assert_allclose(model.predict([[1.0, 2.0], [np.nan, 7.0]]), 3.0)
    assert model.n_estimators_ == 3


def test_two_rows_of_two_classes():
    model = C(n_estimators=3, min_samples_leaf=1, min_child_weight=0).fit([[0.0], [1.0]], ["a", "b"])
    assert model.predict([[0.0], [1.0]]).tolist() == ["a", "b"]


@pytest.mark.parametrize("growth", ["leafwise", "levelwise", "symmetric"])
def test_one_column(growth):
    model = R(n_estimators=20, learning_rate=0.5, growth=growth, min_samples_leaf=1, max_depth=4).fit(X[:, :1], X[:, 0])
    assert model.score(X[:, :1], X[:, 0]) > 0.95


@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"]
)
@pytest.mark.parametrize("value", [1.0, 1e-200, 1e200, 1 / 3])
def test_constant_y(loss, value):
    model = R(loss=loss, n_estimators=3).fit(X, np.full(N, value), np.linspace(0.1, 1, N))
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-12)
    assert not np.isnan(model.history_.train).any()
    if loss in ("squared_error", "absolute_error", "huber", "quantile"):
        assert (model.feature_importances_ == 0.0).all()


def test_constant_zero():
    for loss in ("squared_error", "absolute_error", "huber", "quantile"):
        model = R(loss=loss, n_estimators=3).fit(X, np.zeros(N))
        assert (model.predict(X) == 0.0).all()
        assert (model.history_.train == 0.0).all()


@both
@pytest.mark.parametrize("value", [0.0, -np.inf, np.inf, np.nan, 1e308])
def test_constant_table(kind, value):
    model = kind(n_estimators=3).fit(np.full((N, 3), value), Y)
    assert len(np.unique(model.predict(X))) == 1
    assert (model.feature_importances_ == 0.0).all()
    if kind is R:
        np.testing.assert_allclose(model.predict(X), Y.mean())


@both
def test_constant_and_missing_columns_are_harmless(kind):
    useless = np.column_stack([np.zeros(N), np.full(N, np.nan), np.full(N, np.inf)])
    wide, plain = kind(n_estimators=5).fit(np.hstack([X, useless]), Y), kind(n_estimators=5).fit(X, Y)
    np.testing.assert_array_equal(wide.predict(np.hstack([X, useless])), plain.predict(X))
    np.testing.assert_array_equal(wide.predict(np.hstack([X, 1 + np.abs(X)])), plain.predict(X))
    assert (wide.feature_importances_[3:] == 0.0).all()


@both
def test_missing_values_tell_something(kind):
    """A column whose gaps are the signal."""
    x = np.where(Y[:, None] == 1, np.nan, 1.0)
    model = kind(n_estimators=30, learning_rate=0.5, min_samples_leaf=1).fit(x, Y)
    assert model.score(x, Y) > 0.99
    assert kind(n_estimators=30, learning_rate=0.5, min_samples_leaf=1).fit(np.hstack([x, X]), Y).score(
        np.hstack([x, X]), Y
    ) > 0.99  # fmt: skip


def test_missing_only_at_prediction():
    """The side with more training rows."""
    x = np.arange(N, dtype=float)[:, None]
    model = R(n_estimators=1, max_leaf_nodes=2, min_samples_leaf=1, learning_rate=1.0).fit(x, (x[:, 0] >= 10) * 1.0)
    assert model.predict([[np.nan]])[0] == model.predict([[39.0]])[0] == 1.0
    model = R(n_estimators=1, max_leaf_nodes=2, min_samples_leaf=1, learning_rate=1.0).fit(x, (x[:, 0] >= 30) * 1.0)
    assert model.predict([[np.nan]])[0] == model.predict([[0.0]])[0] == 0.0


@pytest.mark.parametrize("growth", ["leafwise", "levelwise", "symmetric"])
def test_infinite_values(growth):
    x = np.where(X > 1, np.inf, np.where(X < -1, -np.inf, X))
    model = R(n_estimators=20, growth=growth, min_samples_leaf=1).fit(x, Y)
    assert np.isfinite(model.predict(x)).all()
    ranks = np.argsort(np.argsort(x, axis=0, kind="stable"), axis=0)  # ±inf are the ends of the order
    same = np.where(np.isposinf(x), 1e9, np.where(np.isneginf(x), -1e9, x))
    assert ranks.shape == x.shape
    other = R(n_estimators=20, growth=growth, min_samples_leaf=1).fit(same, Y)
    np.testing.assert_array_equal(model.predict(x), other.predict(same))


@pytest.mark.parametrize("scale", [1e300, 1e150, 1e-150, 1e-300, 1e-320])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_extreme_targets(scale, loss, weighted):
    y = scale * (X[:, 0] + 0.1 * X[:, 1])
    w = np.linspace(0.5, 2.0, N) if weighted else None
    model = R(loss=loss, n_estimators=5, min_samples_leaf=5).fit(X, y, w)
    assert np.isfinite(model.predict(X)).all()
    assert not np.isnan(model.history_.train).any()
    # Below 1e-270 the unit of the sums is larger than the targets: nothing is learned but the start.
    if scale >= 1e-150 and (scale < 1e300 or loss != "huber"):
        plain = R(loss=loss, n_estimators=5, min_samples_leaf=5).fit(X, y / scale, w)
        np.testing.assert_allclose(model.predict(X) / scale, plain.predict(X), rtol=1e-6)


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_extreme_amounts(scale, loss):
    y = scale * np.exp(X[:, 0])
    model = R(loss=loss, n_estimators=5, min_samples_leaf=5).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert not np.isnan(model.history_.train).any()
    assert model.model_.initial[0] == pytest.approx(np.log(y.mean()))


def test_targets_and_weights_beyond_the_range_of_floats():
    y = np.where(Y == 1, 1e300, -1e300)
    with pytest.raises(InputError, match=r"y times sample_weight goes beyond float64's range of 1\.8e308; rescale"):
        R().fit(X, y, np.full(N, 1e30))


WEIGHTED = [R(), R(loss="absolute_error"), R(loss="huber"), C(), C(loss="exponential"), C(criterion="friedman_mse")]


@pytest.mark.parametrize("scale", [2.0**1000, 2.0**300, 2.0**-300, 2.0**-1000], ids="{:.0e}".format)
@pytest.mark.parametrize("model", WEIGHTED, ids=lambda model: f"{model.loss}-{model.criterion}")
def test_extreme_weights(scale, model):
    """Weights mean nothing but their proportions (min_child_weight is an absolute amount): powers of two, no bit."""
    w = np.linspace(0.5, 2.0, N)
    model = clone(model).set_params(n_estimators=5, min_samples_leaf=5, min_child_weight=0.0)
    extreme, plain = clone(model).fit(X, Y, scale * w), clone(model).fit(X, Y, w)
    np.testing.assert_array_equal(extreme._raw(X), plain._raw(X))
    np.testing.assert_array_equal(extreme.history_.train, plain.history_.train)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
@pytest.mark.parametrize("model", WEIGHTED, ids=lambda model: f"{model.loss}-{model.criterion}")
def test_extreme_weights_in_decimals(scale, model):
    w = scale * np.linspace(0.5, 2.0, N)
    fitted = clone(model).set_params(n_estimators=5, min_samples_leaf=5).fit(X, Y, w, eval_set=(X, Y, w))
    assert fitted.score(X, Y) > 0.3
    np.testing.assert_allclose(fitted.history_.validation, fitted.history_.train, rtol=1e-12)


@pytest.mark.parametrize("model", [R(), R(loss="huber"), C(), C(loss="exponential")], ids=lambda model: model.loss)
def test_weights_of_every_size_at_once(model):
    w = 10.0 ** np.linspace(-300, 300, N)
    w[::7] = 0.0
    fitted = clone(model).set_params(n_estimators=5, min_samples_leaf=2, min_child_weight=0.0).fit(X, Y, w)
    assert np.isfinite(fitted._raw(X)).all()
    assert not np.isnan(fitted.history_.train).any()


@pytest.mark.parametrize(
    "model", [R(), R(loss="huber"), R(loss="poisson"), R(loss="gamma"), C(), C(loss="exponential")],
    ids=lambda model: model.loss,
)  # fmt: skip
@pytest.mark.parametrize("score", [-1000.0, 1000.0, 1e300])
def test_extreme_init_scores(model, score):
    y = Y + 1.0 if isinstance(model, R) else Y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = clone(model).set_params(n_estimators=3).fit(X, y, init_score=score * np.sign(X[:, 1]))
    assert np.isfinite(fitted._raw(X)).all()


def test_values_one_bit_apart():
    """Neighbouring floats are kept apart by a cut between them."""
    x = np.array([1.0, np.nextafter(1.0, 2.0)] * 20)[:, None]
    y = np.array([0.0, 1.0] * 20)
    model = R(n_estimators=1, learning_rate=1.0, min_samples_leaf=1).fit(x, y)
    np.testing.assert_allclose(model.predict(x), y, atol=1e-12)
    tiny = np.array([0.0, 5e-324] * 20)[:, None]
    model = R(n_estimators=1, learning_rate=1.0, min_samples_leaf=1).fit(tiny, y)
    np.testing.assert_allclose(model.predict(tiny), y, atol=1e-12)
    ends = np.array([-1.7e308, 1.7e308] * 20)[:, None]
    model = R(n_estimators=1, learning_rate=1.0, min_samples_leaf=1).fit(ends, y)
    np.testing.assert_allclose(model.predict(ends), y, atol=1e-12)


def test_many_columns_and_few_rows():
    wide = np.random.default_rng(1).normal(size=(30, 1000))
    model = R(n_estimators=3, min_samples_leaf=5).fit(wide, wide[:, 700])
    assert model.feature_importances_.argmax() == 700


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma"])
def test_the_target_is_only_read(loss):
    """It is not copied, so nothing may be written to it; and one that cannot be written to gives the same model."""
    y = np.exp(X[:, 0])
    before, locked = y.copy(), y.copy()
    locked.flags.writeable = False
    model = R(loss=loss, n_estimators=5, min_samples_leaf=2).fit(X, y, eval_set=(X, y))
    np.testing.assert_array_equal(y, before)
    assert difference(model, R(loss=loss, n_estimators=5, min_samples_leaf=2).fit(X, locked, eval_set=(X, y))) == ""


def test_more_classes_than_bytes_can_number():
    y = np.arange(1200) % 300
    model = C(n_estimators=1, min_samples_leaf=1, learning_rate=1.0, max_leaf_nodes=8).fit(y[:, None], y)
    assert model.predict_proba(y[:5, None]).shape == (5, 300)
    assert (model.predict(y[:, None]) == y).mean() > 0.5


def test_many_classes():
    y = np.arange(200) % 50
    x = np.column_stack([y, np.random.default_rng(2).normal(size=200)])
    model = C(n_estimators=5, min_samples_leaf=1, learning_rate=0.5).fit(x, y)
    assert model.score(x, y) > 0.9


def test_no_split_worth_making():
    model = R(n_estimators=3, min_samples_leaf=N).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y.mean())
    assert model.apply(X).tolist() == [[0, 0, 0]] * N


# ----------------------------------------------------------------------------------------------- two at a time, forks


def test_two_fits_of_one_estimator_class_at_once():
    found = [None] * 4

    def work(k):
        found[k] = R(n_estimators=20, subsample=0.7).fit(X, Y)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert all(difference(model, found[0]) == "" for model in found[1:])
