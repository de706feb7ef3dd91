"""scikit-learn's boosting predicts here what it predicts at home, the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression

import stagewise as sw
from io_peers import TARGETS, X, probes
from stagewise.errors import InputError
from stagewise.io.format import dumps, loads

FILLED = np.nan_to_num(X)
CASES = {
    **{loss: ("number", GradientBoostingRegressor(loss=loss)) for loss in ("squared_error", "absolute_error", "huber")},
    "quantile": ("number", GradientBoostingRegressor(loss="quantile", alpha=0.3)),
    "start at zero": ("number", GradientBoostingRegressor(init="zero")),
    "two": ("two", GradientBoostingClassifier()),
    "three": ("three", GradientBoostingClassifier(subsample=0.7, random_state=0)),
    "exponential": ("two", GradientBoostingClassifier(loss="exponential")),
    **{f"hist {loss}": ("amount", HistGradientBoostingRegressor(loss=loss))
       for loss in ("squared_error", "absolute_error", "poisson", "gamma")},
    "hist quantile": ("number", HistGradientBoostingRegressor(loss="quantile", quantile=0.3)),
    "hist two": ("two", HistGradientBoostingClassifier()),
    "hist three": ("three", HistGradientBoostingClassifier(early_stopping=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name):
    target, model = CASES[name]
    histogram = name.startswith("hist")
    model.set_params(**({"max_iter": 10} if histogram else {"n_estimators": 10}))
    theirs = model.fit(X if histogram else FILLED, TARGETS[target])
    ours = sw.import_sklearn(theirs)
    rows = probes(ours, infinite=histogram)
    if not histogram:
        rows = np.nan_to_num(rows, nan=0.125)
    raw = ours.model_.raw(rows)
    home = theirs._raw_predict(rows.astype(np.float32) if not histogram else rows)
    np.testing.assert_array_equal(raw.T, home)
    np.testing.assert_allclose(ours.predict(rows), theirs.predict(rows), rtol=1e-12)
    if hasattr(theirs, "predict_proba"):
        np.testing.assert_allclose(ours.predict_proba(rows), theirs.predict_proba(rows), atol=1e-14)
        assert ours.classes_.tolist() == theirs.classes_.tolist()
    if not histogram:
        np.testing.assert_allclose(ours.feature_importances_.argmax(), theirs.feature_importances_.argmax())
    assert dumps(loads(dumps(ours))) == dumps(ours)
    more = type(ours)(n_estimators=3, **{k: v for k, v in ours.get_params().items() if k in ("loss", "alpha")})
    more.fit(X, TARGETS[target], init_model=ours)
    assert more.n_estimators_ == ours.n_estimators_ + 3


def test_what_cannot_be_imported_says_so():
    start = GradientBoostingRegressor(n_estimators=2, init=LinearRegression()).fit(FILLED, TARGETS["number"])
    with pytest.raises(InputError, match="starts from a LinearRegression"):
        sw.import_sklearn(start)
    with pytest.raises(InputError, match="not fitted yet"):
        sw.import_sklearn(GradientBoostingRegressor())
    for thing in (RandomForestRegressor(), None, "model.pkl"):
        with pytest.raises(TypeError, match="import_sklearn reads fitted"):
            sw.import_sklearn(thing)
