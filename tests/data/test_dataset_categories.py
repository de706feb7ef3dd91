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
