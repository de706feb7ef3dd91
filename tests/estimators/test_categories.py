"""Fits on tables with categories: the same model from every container, with any number of threads, and every policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import stagewise as sw
from stagewise import Dataset, GradientBoostingClassifier, GradientBoostingRegressor
from stagewise.errors import InputError, ParameterError
from stagewise.io.format import dumps, loads
from stagewise.kernels.jit import JIT

N = 3000
compiled = pytest.mark.skipif(not JIT, reason="thousands of rows need compiled kernels")
pytestmark = compiled


def make(n: int = N, seed: int = 0, n_ids: int = 600) -> tuple[pd.DataFrame, np.ndarray]:
    """A few levels, some, very many; a number; and what is missing."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(99)
    few, some, many = rng.integers(0, 3, n), rng.integers(0, 25, n), rng.integers(0, n_ids, n)
    x = rng.normal(size=n)
    y = effects.normal(size=25)[some] + x * (few == 2) + effects.normal(size=n_ids)[many] + 0.3 * rng.normal(size=n)
    texts = np.array([f"level {k:02d}" for k in range(25)], object)[some]
    texts[::13] = None
    frame = pd.DataFrame(
        {
            "few": pd.Categorical(np.array(["u", "v", "w"])[few]),
            "x": x,
            "some": pd.Categorical(texts),
            "many": np.array([f"id{k:04d}" for k in range(n_ids)])[many],
        }
    )
    return frame, y


def containers(frame: pd.DataFrame) -> dict[str, Any]:
    shuffled = frame.copy()
    shuffled["some"] = frame["some"].cat.set_categories(["unused", *frame["some"].cat.categories[::-1]])
    return {
        "pandas": frame,
        "another category table": shuffled,
        "text": frame.astype({"few": object, "some": object}),
        "polars": pl.from_pandas(frame),
        "polars text": pl.from_pandas(frame).with_columns(pl.col("few", "some").cast(pl.String)),
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "dataset": None,
    }


def small(**params: Any) -> GradientBoostingRegressor:
    return GradientBoostingRegressor(**{"n_estimators": 12, "max_leaf_nodes": 12, **params})


@pytest.mark.parametrize("encoding", ["auto", "sets", "target"])
@pytest.mark.parametrize("name", [name for name in containers(make(20)[0]) if name != "pandas"])
def test_the_same_file_from_every_container(name, encoding):
    frame, y = make()
    model = small(category_encoding=encoding, subsample=0.8)
    expected = dumps(model.fit(frame, y))
    own = containers(frame)[name]
    got = dumps(model.fit(Dataset(frame, y)) if own is None else model.fit(own, y))
    assert got == expected
    loaded = loads(got)
    new = make(500, seed=5)[0]
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))


def test_numbers_of_levels_give_the_same_trees():
    """NumPy with codes beside a frame of categories of the same numbers, without names: the same file."""
    frame, y = make()
    codes = np.column_stack(
        [frame["few"].cat.codes, frame["x"], frame["some"].cat.codes, frame["many"].astype("category").cat.codes]
    ).astype(float)
    codes[codes == -1] = np.nan
    unnamed = pd.DataFrame({j: codes[:, j] if j == 1 else pd.Categorical(codes[:, j]) for j in range(4)})
    texts = small(categorical_features=[0, 2, 3]).fit(frame, y)
    numbers = small(categorical_features=[0, 2, 3]).fit(codes, y)
    assert dumps(numbers) == dumps(small(categorical_features=[0, 2, 3]).fit(unnamed, y))
    np.testing.assert_array_equal(numbers.predict(codes), texts.predict(frame))
    for one, other in zip(numbers.model_.stages, texts.model_.stages, strict=True):
        for field in ("feature", "threshold", "subset", "sets", "value", "missing_left"):
            np.testing.assert_array_equal(getattr(one[0], field), getattr(other[0], field))


@pytest.mark.parametrize("growth", ["leafwise", "levelwise", "symmetric"])
@pytest.mark.parametrize("encoding", ["auto", "sets"])
def test_the_same_file_with_any_number_of_threads(growth, encoding, monkeypatch):
    from stagewise.estimators import base

    monkeypatch.setattr(base, "threads_for", lambda n, f, tree, n_jobs: n_jobs)
    frame, y = make()
    files = {
        dumps(
            small(growth=growth, category_encoding=encoding, max_features=0.6, n_jobs=n)
            .fit(frame, y)
            .set_params(n_jobs=1)
        )
        for n in (1, 2, 3)
    }
    assert len(files) == 1


def test_rows_in_training_are_where_prediction_puts_them():
    """The deviance of training is that of the predictions of the file, for columns in sets."""
    frame, y = make()
    model = small(category_encoding="sets").fit(frame, y)
    assert np.mean((y - model.predict(frame)) ** 2) == pytest.approx(model.history_.train[-1], rel=1e-12)
    other, z = make(400, seed=3)
    model = small().fit(frame, y, eval_set=(other, z))
    assert np.mean((z - model.predict(other)) ** 2) == pytest.approx(model.history_.validation[-1], rel=1e-12)


@pytest.mark.parametrize("encoding", ["auto", "sets"])
def test_goes_on_from_a_model_as_if_never_stopped(encoding, tmp_path):
    frame, y = make()
    whole = small(n_estimators=10, category_encoding=encoding).fit(frame, y)
    part = small(n_estimators=4, category_encoding=encoding, warm_start=True).fit(frame, y)
    part.set_params(n_estimators=10).fit(frame, y)
    np.testing.assert_array_equal(part.predict(frame), whole.predict(frame))
    for one, other in zip(part.model_.stages, whole.model_.stages, strict=True):
        np.testing.assert_array_equal(one[0].value, other[0].value)
    # other data keep the level tables, and levels that these do not know are missing
    first = small(n_estimators=4, category_encoding=encoding).fit(frame, y)
    new, z = make(800, seed=7, n_ids=650)
    more = small(n_estimators=3, category_encoding=encoding).fit(new, z, init_model=first)
    for one, other in zip(first.model_.schema.levels, more.model_.schema.levels, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_array_equal(one.numbers, other.numbers)
    assert len(more.model_.stages) == 7
    # checkpoints
    one = small(n_estimators=10, category_encoding=encoding).fit(frame, y, checkpoint=tmp_path, every=3)
    again = small(n_estimators=10, category_encoding=encoding).fit(frame, y, checkpoint=tmp_path, every=3)
    assert dumps(one) == dumps(again) == dumps(whole)


def test_refit_early_stopping_and_eval_set():
    frame, y = make()
    model = small(early_stopping=True, n_estimators=40).fit(frame, y)
    assert len(model.history_.validation) > 0
    new, z = make(700, seed=8)
    again = model.refit(new, z, decay=0.0)
    assert np.mean((z - again.predict(new)) ** 2) < np.var(z)
    model.fit(frame, y, eval_set=(pl.from_pandas(new), z))
    assert np.mean((z - model.predict(new)) ** 2) <= model.history_.validation[-1] + 1e-9


# --- what is missing and what was not seen ---------------------------------------------------------------------------


def test_unseen_goes_where_missing_goes():
    frame, y = make()
    model = small(category_encoding="sets").fit(frame, y)
    new = frame.head(50).astype({"few": object, "some": object, "many": object})
    unseen, missing = new.assign(some="never seen", many="nor this"), new.assign(some=None, many=None)
    np.testing.assert_array_equal(model.predict(unseen), model.predict(missing))


def test_unseen_has_the_prior_where_levels_are_target_means():
    frame, y = make()
    model = small().fit(frame, y)
    levels = model.model_.schema.levels[3]
    assert levels is not None
    assert levels.by_target
    assert levels.unseen == pytest.approx(y.mean())
    model.predict(frame.head(5).assign(many="never seen"))


def test_a_heavier_side_for_what_was_never_missing():
    rng = np.random.default_rng(0)
    level = np.repeat(["a", "b", "c"], [50, 30, 40])
    y = np.where(level == "b", 5.0, 0.0) + 0.01 * rng.normal(size=120)
    model = GradientBoostingRegressor(n_estimators=1, max_leaf_nodes=2, learning_rate=1.0).fit(
        pd.DataFrame({"c": level}), y
    )
    got = model.predict(pd.DataFrame({"c": ["a", "b", "c", "d", None]}))
    assert got[1] == pytest.approx(5.0, abs=0.1)
    np.testing.assert_allclose(got[[0, 2, 3, 4]], 0.0, atol=0.1)


@pytest.mark.parametrize("odd", ["", "a\nb", "x" * 100_000, "\u2028", "nan"])
def test_odd_levels_are_kept_in_files(odd):
    frame = pd.DataFrame({"c": pd.Categorical(["k", odd] * 60), "x": 1.0})
    y = np.tile([0.0, 1.0], 60)
    model = loads(dumps(small(min_samples_leaf=5).fit(frame, y)))
    assert model.predict(frame)[1] > model.predict(frame)[0]


def test_all_missing_and_one_level():
    frame = pd.DataFrame({"a": pd.Series([None] * 90, dtype="category"), "b": "only", "x": np.arange(90.0)})
    model = loads(dumps(small(min_samples_leaf=5).fit(frame, np.arange(90.0))))
    new = frame.assign(a="now", b=None)
    np.testing.assert_array_equal(model.predict(frame), model.predict(new))


# --- classes, other estimators, settings -----------------------------------------------------------------------------


def test_two_and_three_classes():
    frame, y = make()
    for labels in (y > 0, np.digitize(y, [-1, 1])):
        model = GradientBoostingClassifier(n_estimators=10).fit(frame, labels)
        assert model.score(frame, labels) > np.bincount(labels).max() / N + 0.1
        by_target = [own is not None and own.by_target for own in model.model_.schema.levels]
        assert by_target == [False, False, False, len(np.unique(labels)) == 2]
    with pytest.raises(ParameterError, match='"target" needs one output'):
        GradientBoostingClassifier(category_encoding="target").fit(frame, np.digitize(y, [-1, 1]))


@pytest.mark.parametrize(
    "model",
    [
        sw.AdaBoostClassifier(n_estimators=10),
        sw.LogitBoostClassifier(n_estimators=10),
        sw.GentleBoostClassifier(n_estimators=10),
        sw.StagewiseClassifier(n_estimators=10),
        sw.ComponentwiseClassifier(n_estimators=10, base="stump"),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_family_takes_categories_where_its_learner_is_our_tree(model, n_classes):
    frame = make(1500)[0]
    labels = frame["some"].cat.codes.to_numpy() % n_classes  # a set of levels for each class
    fitted = model.set_params(n_estimators=40).fit(frame, labels)
    assert fitted.score(frame, labels) > np.bincount(labels).max() / len(labels) + 0.1
    np.testing.assert_array_equal(loads(dumps(fitted)).predict(pl.from_pandas(frame)), fitted.predict(frame))


def test_learners_of_numbers_refuse_categories():
    from sklearn.linear_model import LinearRegression

    frame, y = make(200)
    for model in (sw.ComponentwiseRegressor(), sw.StagewiseRegressor(estimator=LinearRegression())):
        with pytest.raises(InputError, match=r"not numeric: 'few'.*OrdinalEncoder"):
            model.fit(frame, y)


def test_bad_settings():
    frame, y = make(200)
    with pytest.raises(ParameterError, match="category_encoding='hash' is not known"):
        small(category_encoding="hash").fit(frame, y)
    with pytest.raises(ParameterError, match="'other', which is no column"):
        small(categorical_features=["other"]).fit(frame, y)
    with pytest.raises(InputError, match="not numeric: 'few'"):
        small(categorical_features=None).fit(frame, y)
    with pytest.raises(InputError, match="not numeric: 'few'"):
        small(categorical_features=["some", "many"]).fit(frame, y)
    numbers = frame.assign(few=np.arange(len(frame)) % 3)
    with pytest.raises(InputError, match=r"not numeric: 'few' .*They were numbers in training") as caught:
        small().fit(numbers, y).predict(frame)
    assert "categorical_features" not in str(caught.value), "too late for that"
    model = small().fit(frame, y)
    with pytest.raises(InputError, match="held text as categories in training"):
        model.predict(frame.assign(some=3))


def test_text_of_many_levels_helps_by_its_means():
    """What the encoding is for: levels that come back are known by their means."""
    frame, y = make(6000, n_ids=800)
    new, z = make(2000, seed=11, n_ids=800)
    errors = {
        encoding: np.mean((z - small(n_estimators=60, category_encoding=encoding).fit(frame, y).predict(new)) ** 2)
        for encoding in ("auto", "sets")
    }
    assert errors["auto"] < errors["sets"] < np.var(z)


def test_target_statistics_of_a_bundled_table_without_categories():
    X, y = np.eye(6)[np.arange(300) % 6], np.arange(300.0) % 6
    assert len(Dataset(X).bins.n_bins) < 6
    np.testing.assert_array_equal(small(category_encoding="target").fit(X, y).predict(X), small().fit(X, y).predict(X))
