"""Looking inside models with categories: levels by name, and the same numbers as brute force on the frame."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest

import stagewise as sw
from stagewise.errors import ParameterError
from stagewise.inspection.levels import as_codes, name_of, set_codes, set_text

LEVELS = ["blue", "green", "", "red", "line\nbreak"]


def frame(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    colour = pd.Series(pd.Categorical(rng.choice(LEVELS, n), categories=LEVELS[::-1]))
    colour[rng.random(n) < 0.1] = None
    return pd.DataFrame(
        {"x": rng.normal(size=n), "colour": colour, "size": rng.choice(["s", "m", "l"], n), "z": rng.normal(size=n)}
    )


X = frame()
Y = X["x"] * (X["colour"] == "red") + (X["size"] == "m") + 0.5 * (X["colour"] == "blue") + 0.1 * X["z"]


@functools.cache
def model(growth: str = "leafwise"):
    settings = {"n_estimators": 15, "max_leaf_nodes": 8, "min_samples_leaf": 5, "growth": growth}
    return sw.GradientBoostingRegressor(**settings).fit(X, Y)


@pytest.mark.parametrize("growth", ["leafwise", "symmetric"])
def test_brute_force_is_the_mean_of_predictions_on_changed_frames(growth):
    found = sw.inspection.partial_dependence(model(growth), "colour", method="brute", X=X)
    assert set(found.labels[0]) == {*LEVELS, "missing"}
    for name, value in zip(found.labels[0], found.values[0], strict=True):
        changed = X.assign(colour=pd.Categorical([None if name == "missing" else name] * len(X), categories=LEVELS))
        assert value == pytest.approx(model(growth).predict(changed).mean(), abs=1e-12)
    table = found.to_frame("pandas")
    assert table["colour"].tolist() == list(found.labels[0])
    both = sw.inspection.partial_dependence(model(growth), ["colour", "x"], method="brute", X=X, resolution=3)
    changed = X.assign(colour=pd.Categorical(["red"] * len(X)), x=both.grid[1][1])
    at = both.labels[0].index("red")
    assert both.values[0, at, 1] == pytest.approx(model(growth).predict(changed).mean(), abs=1e-12)


def test_a_grid_names_levels():
    found = sw.inspection.partial_dependence(model(), "colour", ["red", "", None])
    whole = sw.inspection.partial_dependence(model(), "colour")
    for name, value in zip(("red", "", "missing"), found.values[0], strict=True):
        assert value == whole.values[0, whole.labels[0].index(name)]
    mixed = sw.inspection.partial_dependence(model(), ["size", "x"], {"x": [0.0, 1.0], "size": ["l", "m"]})
    assert mixed.labels == (("l", "m"), None)
    with pytest.raises(ParameterError, match="'pink' is no level of column 'colour'; there are ''"):
        sw.inspection.partial_dependence(model(), "colour", ["pink"])
    with pytest.raises(ParameterError, match="held text as categories in training"):
        sw.inspection.partial_dependence(model(), "colour", [1, 2])
    with pytest.raises(ParameterError, match="have no order"):
        whole.steps()


def test_curves_of_categories():
    curves = sw.inspection.individual_curves(model(), "colour", X[:20])
    at = curves.labels.index("red")
    changed = X[:20].assign(colour=pd.Categorical(["red"] * 20))
    np.testing.assert_allclose(curves.values[0, :, at], model().predict(changed), atol=1e-12)
    assert set(curves.to_frame("pandas")["colour"]) == {*LEVELS, "missing"}


@pytest.mark.parametrize("growth", ["leafwise", "symmetric"])
@pytest.mark.parametrize("background", [None, X[::40]])
def test_shap_values_add_up(growth, background):
    values = sw.inspection.shap_values(model(growth), X[:60], background=background)
    np.testing.assert_allclose(values.values.sum(axis=1) + values.expected, model(growth).predict(X[:60]), atol=1e-10)
    assert values.level(1) == tuple(sorted(LEVELS))
    assert values.level(0) is None
    pairs = sw.inspection.shap_interactions(model(growth), X[:20], background=background)
    np.testing.assert_allclose(pairs.values.sum(axis=2), values.values[:20], atol=1e-10)
    explanation = pytest.importorskip("shap") and values.to_explanation()
    assert set(explanation.data[:, 1]) <= {*LEVELS, "missing"}


def test_the_components_add_up_to_a_model_of_two_columns():
    small = sw.GradientBoostingRegressor(n_estimators=10, max_depth=2, min_samples_leaf=5).fit(X, Y)
    anova = sw.inspection.functional_anova(small)
    assert anova.complete
    np.testing.assert_allclose(anova.predict(X)[0], small.predict(X), atol=1e-10)
    component = anova.component("colour")
    assert component.levels[0] == tuple(sorted(LEVELS))
    assert component.values.shape[1] <= len(LEVELS) + 2
    by_rows = sw.inspection.functional_anova(small, X=X)
    np.testing.assert_allclose(by_rows.predict(X)[0], small.predict(X), atol=1e-10)


def test_importance_and_interactions_take_the_frame():
    drops = sw.inspection.feature_importance(model(), "permutation", X=X, y=Y, n_repeats=2)
    assert drops.values[1] > drops.values[3]
    assert sw.inspection.feature_importance(model()).names[1] == "colour"
    H = sw.inspection.h_statistic(model(), X)
    assert H.ranked()[0][:2] == ("x", "colour")
    assert 0.5 < sw.inspection.completeness(model(), ["x", "colour"], X).additive[0] <= 1.0


def test_trees_show_sets():
    text = "\n".join(sw.inspection.tree_text(model(), stage) for stage in range(15))
    assert "colour in {red}?" in text or "size in {m}?" in text


def test_words_of_sets():
    names = ("a", "b", "a long name of a level", "d")
    assert set_text(np.array([0, 1]), names) == "{a, b}"
    assert set_text(np.array([], np.int64), names) == "{}"
    assert set_text(np.array([0, 1, 2, 3]), names, 20) == "{a, b, … 2 more}"
    assert set_text(np.arange(200), tuple(map(str, range(200))), 30) == "{0, 1, 2, 3, 4, 5, … 194 more}"
    assert set_text(np.array([2]), names, 8) == "{a long …}"
    assert set_text(np.array([9]), names) == "{9}"
    assert name_of(names, np.nan) == "missing"
    assert set_codes(np.array([5, 1 << 63], np.uint64)).tolist() == [0, 2, 127]
    np.testing.assert_array_equal(as_codes(np.array([0.0, 2.5, -1.0, np.nan, np.inf])), [0, 2, np.inf, np.nan, np.inf])


def test_many_levels_that_share_a_code():
    rng = np.random.default_rng(0)
    name = np.array([f"n{k}" for k in range(2000)])[np.minimum(rng.geometric(0.01, 5000), 1999)]
    many = sw.GradientBoostingRegressor(n_estimators=2, category_encoding="sets")
    rows = pd.DataFrame({"name": name, "x": rng.normal(size=5000)})
    many.fit(rows, (np.char.find(name.astype(str), "1") >= 0) * 1.0)
    names = sw.inspection.partial_dependence(many, "name").labels[0]
    assert any(own.endswith("other levels") for own in names)
