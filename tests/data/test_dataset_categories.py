"""Categories in a Dataset that serves many fits: subsets, likes, validation sets and predictions from bins."""

import numpy as np
import pandas as pd
import pytest

import stagewise as sw


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 1500
    X = pd.DataFrame(
        {
            "few": rng.choice(list("abcd"), n),
            "many": [f"level {k}" for k in rng.integers(0, 400, n)],
            "number": rng.standard_normal(n),
        }
    )
    y = (X["few"] == "b") + 0.01 * X["many"].str[6:].astype(float) + X["number"] + rng.standard_normal(n)
    return X, y.to_numpy()


def bytes_of(model, tmp_path):
    path = tmp_path / "m.stagewise"
    sw.save(model, path)
    return path.read_bytes()


@pytest.mark.parametrize("encoding", ["auto", "target", "sets"])
def test_a_subset_is_fitted_and_predicted_as_its_like(frame, tmp_path, encoding):
    """The statistics of a subset are those of its own rows: nothing of the other targets leaks in."""
    X, y = frame
    whole = sw.Dataset(X, y)
    rows, others = np.arange(0, 1500, 2), np.arange(1, 1500, 2)
    physical = sw.Dataset(X.iloc[rows], y[rows], like=whole)
    held_out = sw.Dataset(X.iloc[others], y[others], like=whole)
    settings = {"n_estimators": 20, "category_encoding": encoding, "early_stopping": True}
    one = sw.GradientBoostingRegressor(**settings).fit(whole.subset(rows), eval_set=whole.subset(others))
    two = sw.GradientBoostingRegressor(**settings).fit(physical, eval_set=held_out)
    assert bytes_of(one, tmp_path) == bytes_of(two, tmp_path)
    expected = one.predict(X.iloc[others])
    np.testing.assert_array_equal(one.predict(whole.subset(others)), expected)
    np.testing.assert_array_equal(one.predict(held_out), expected)


def test_other_codes_are_refused(frame):
    """Equal cut points do not make equal categories."""
    X, y = frame
    other = sw.Dataset(X.assign(few=X["few"].map(dict(zip("abcd", "wxyz", strict=True)))), y)
    fitted = sw.GradientBoostingRegressor(n_estimators=3).fit(sw.Dataset(X, y))
    with pytest.raises(sw.InputError, match="other codes"):
        fitted.predict(other)
    with pytest.raises(sw.InputError, match="cut points or categories"):
        sw.GradientBoostingRegressor(n_estimators=3).fit(sw.Dataset(X, y), eval_set=other)


@pytest.mark.parametrize("encoding", ["auto", "target", "sets"])
def test_batches_that_are_like_another_dataset(frame, tmp_path, encoding):
    """Levels of a crowded column have their numbers in the other Dataset; some are new, and some cells missing."""
    X, y = frame
    X = X.assign(many=X["many"].mask(np.arange(1500) % 50 == 3))
    X.loc[1490:, "many"] = "never seen"
    train, rest, rest_y = sw.Dataset(X[:1000], y[:1000]), X[1000:], y[1000:]
    batches = [(rest[:300], rest_y[:300]), (rest[300:], rest_y[300:])]
    settings = {"n_estimators": 20, "category_encoding": encoding, "early_stopping": True}
    memory = sw.GradientBoostingRegressor(**settings).fit(X[:1000], y[:1000], eval_set=(rest, rest_y))
    for own in (sw.Dataset.from_batches(batches, like=train), sw.Dataset.from_batches(iter(batches), like=train)):
        own.save(tmp_path / "kept")
        for held_out in (own, sw.Dataset.load(tmp_path / "kept")):
            model = sw.GradientBoostingRegressor(**settings).fit(train, eval_set=held_out)
            assert bytes_of(model, tmp_path) == bytes_of(memory, tmp_path)
            np.testing.assert_array_equal(model.predict(held_out), model.predict(rest))
            np.testing.assert_array_equal(model.predict(held_out.subset([7, 499])), model.predict(rest.iloc[[7, 499]]))


@pytest.mark.parametrize("encoding", ["auto", "target", "sets"])
@pytest.mark.parametrize("rows", [None, np.arange(0, 1500, 2)], ids=["whole", "subset"])
def test_a_warm_start_is_one_long_fit(frame, tmp_path, encoding, rows):
    """Rows of training have ordered statistics, also those that a model to go on from sees."""
    X, y = frame
    data = sw.Dataset(X, y) if rows is None else sw.Dataset(X, y).subset(rows)
    settings = {"category_encoding": encoding, "early_stopping": True}
    once = sw.GradientBoostingRegressor(n_estimators=12, **settings).fit(data)
    twice = sw.GradientBoostingRegressor(n_estimators=5, warm_start=True, **settings).fit(data)
    twice.set_params(n_estimators=12).fit(data)
    np.testing.assert_array_equal(twice.predict(X), once.predict(X))
    np.testing.assert_array_equal(twice.history_.validation, once.history_.validation)
    more = sw.GradientBoostingRegressor(n_estimators=7, **settings)
    more.fit(data, init_model=sw.GradientBoostingRegressor(n_estimators=5, **settings).fit(data))
    np.testing.assert_array_equal(more.predict(X), once.predict(X))
