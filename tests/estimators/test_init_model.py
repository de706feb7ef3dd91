"""Continued training: init_model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import stagewise as sw
from io_models import fitted, table
from stagewise.errors import InputError, ParameterError
from stagewise.io.format import dumps, loads

SMALL = {"min_samples_leaf": 5, "max_leaf_nodes": 8}


@pytest.mark.parametrize("kind", ["squared_error", "poisson", "huber"])
def test_the_same_as_a_warm_start(kind):
    first, X, y = fitted(kind)
    more = sw.GradientBoostingRegressor(kind, n_estimators=8, **SMALL).fit(X, y, init_model=first)
    warm = loads(dumps(first)).set_params(warm_start=True, n_estimators=20).fit(X, y)
    assert more.n_estimators_ == 20
    np.testing.assert_array_equal(more.predict(X), warm.predict(X))
    bare = sw.GradientBoostingRegressor(kind, n_estimators=8, **SMALL).fit(X, y, init_model=first.model_)
    assert dumps(bare) == dumps(more)
    assert not hasattr(more, "_first") or more._first is None


def test_classes_come_from_the_first_model():
    first, X, y = fitted("classes")
    few = y < 2  # no row of the third class
    more = sw.GradientBoostingClassifier(n_estimators=5, **SMALL).fit(X[few], y[few], init_model=first)
    assert more.classes_.tolist() == [0, 1, 2]
    assert more.predict_proba(X).shape == (len(X), 3)
    with pytest.raises(InputError, match="not seen during fit"):
        sw.GradientBoostingClassifier(n_estimators=5).fit(X, y + 1, init_model=first)


def test_another_loss_with_the_same_link_may_go_on():
    first, X, y = fitted("squared_error")
    more = sw.GradientBoostingRegressor("absolute_error", n_estimators=30, **SMALL).fit(X, y, init_model=first)
    assert np.abs(more.predict(X) - y).mean() < np.abs(first.predict(X) - y).mean()


def test_new_data_new_cut_points_early_stopping():
    first, _, _ = fitted("squared_error")
    X = table(500, seed=8)
    y = np.nan_to_num(X[:, 0])
    more = sw.GradientBoostingRegressor(n_estimators=50, early_stopping=True, **SMALL).fit(X, y, init_model=first)
    assert more.n_estimators_ >= 12
    assert ((more.predict(X) - y) ** 2).mean() < ((first.predict(X) - y) ** 2).mean()


def test_what_cannot_be_gone_on_from():
    first, X, y = fitted("squared_error")
    with pytest.raises(ParameterError, match="another loss"):
        sw.GradientBoostingRegressor("poisson").fit(X, np.exp(y), init_model=first)
    with pytest.raises(InputError, match="5 columns, but X has 3"):
        sw.GradientBoostingRegressor().fit(X[:, :3], y, init_model=first)
    with pytest.raises(ParameterError, match=r"init_model=str must be a fitted estimator.*load"):
        sw.GradientBoostingRegressor().fit(X, y, init_model="m.stagewise")
    with pytest.raises(ParameterError, match="both name a model"):
        fitted("squared_error", warm_start=True)[0].fit(X, y, init_model=first)
    with pytest.raises(InputError, match="no cut point of this Dataset"):
        sw.GradientBoostingRegressor().fit(sw.Dataset(X + 0.01, y), init_model=first)
    with pytest.raises(ParameterError, match="another loss"):
        sw.GradientBoostingClassifier().fit(X, y > 0, init_model=first)


def test_columns_keep_their_names():
    _, X, y = fitted("squared_error")
    frame = pd.DataFrame(X, columns=list("abcde"))
    first = sw.GradientBoostingRegressor(n_estimators=2, warm_start=True).fit(frame, y)
    turned = frame[list("edcba")]
    with pytest.raises(InputError, match="same order as they were in fit"):
        sw.GradientBoostingRegressor().fit(turned, y, init_model=first)
    with pytest.raises(InputError, match="same order as they were in fit"):
        first.set_params(n_estimators=4).fit(turned, y)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        sw.GradientBoostingRegressor(n_estimators=2).fit(X, y, init_model=first)


def shifted(seed: int, slope: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(600, 3))
    return own, own[:, 0] + slope * own[:, 1] + 0.1 * rng.normal(size=600)


def test_columns_in_another_order_are_refused():
    X = pd.DataFrame(table(100, missing=False))
    X.columns = [f"c{j}" for j in range(X.shape[1])]
    y, turned = X["c0"], X[X.columns[::-1]]
    first = sw.GradientBoostingRegressor(n_estimators=2, warm_start=True, **SMALL).fit(X, y)
    for other in turned, sw.Dataset(turned):
        with pytest.raises(InputError, match="must be in the same order"):
            sw.GradientBoostingRegressor(n_estimators=2, **SMALL).fit(other, y, init_model=first)
        with pytest.raises(InputError, match="must be in the same order"):
            first.set_params(n_estimators=4).fit(other, y)
    assert first.fit(X, y).n_estimators_ == 4


def test_terms_that_are_no_trees_are_refused():
    X = table(100, missing=False)
    first = sw.ComponentwiseRegressor(n_estimators=2).fit(X, X[:, 0])
    with pytest.raises(ParameterError, match="init_model goes on from a model of trees"):
        sw.GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0], init_model=first)


def test_early_stopping_looks_at_the_rows_of_this_fit_alone():
    """The old model was good on its own validation sample; on the new rows it is not, and new stages help."""
    stopping = {"early_stopping": True, "n_iter_no_change": 5}
    (old_X, old_y), (X2, y2), (X3, y3) = shifted(1, 1.0), shifted(2, -2.0), shifted(3, -2.0)
    old = sw.GradientBoostingRegressor(n_estimators=60, **stopping).fit(old_X, old_y)
    for more in ({"eval_set": (X3, y3)}, {}):
        new = sw.GradientBoostingRegressor(n_estimators=100, **stopping).fit(X2, y2, init_model=old, **more)
        assert new.n_estimators_ > old.n_estimators_ + 20
        assert new.score(X3, y3) > 0.9
    first = len(new.history_.train) - len(new.history_.validation)
    assert first == old.n_estimators_ - 1, "the old model's deviance on the new sample comes first"
    on_train = sw.GradientBoostingRegressor(n_estimators=100, validation_fraction=None, **stopping)
    assert on_train.fit(X2, y2, init_model=old).n_estimators_ > old.n_estimators_ + 20


def test_deviances_stay_with_their_stages():
    """Watched, then not, then watched again: validation belongs to the last stages."""
    (X2, y2), (X3, y3) = shifted(2, 1.0), shifted(3, 1.0)
    model = sw.GradientBoostingRegressor(n_estimators=5, warm_start=True).fit(X2, y2, eval_set=(X3, y3))
    model.set_params(n_estimators=15).fit(X2, y2)
    assert len(model.history_.validation) == 0
    model.set_params(n_estimators=20).fit(X2, y2, eval_set=(X3, y3))
    errors = [np.mean((found - y3) ** 2) for found in model.staged_predict(X3)]
    np.testing.assert_allclose(model.history_.validation, errors[14:], rtol=1e-9)
