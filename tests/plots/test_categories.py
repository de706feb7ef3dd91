"""Pictures of models with categories: levels by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import stagewise as sw


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    colour = pd.Series(pd.Categorical(rng.choice(["blue", "a $ sign", "red", ""], 300)))
    colour[::9] = None
    many = [f"a rather long name of level {k}" for k in rng.integers(0, 60, 300)]
    return pd.DataFrame({"x": rng.normal(size=300), "colour": colour, "many": many})


@pytest.fixture(scope="module")
def model(rows):
    y = rows["x"] * (rows["colour"] == "red") + (rows["many"].str[-1] == "3") + (rows["colour"] == "blue")
    return sw.GradientBoostingRegressor(n_estimators=12, max_leaf_nodes=6, min_samples_leaf=5).fit(rows, y)


def ticks(ax, axis="x"):
    return [text.get_text() for text in getattr(ax, f"get_{axis}ticklabels")()]


def test_dependence_on_categories_is_bars(model):
    ax = sw.plots.partial_dependence(model, "colour")
    assert ticks(ax) == ["", r"a \$ sign", "blue", "red", "missing"]
    assert len(ax.patches) == 5
    ax = sw.plots.partial_dependence(model, "many")
    assert len(ax.patches) == len(model.model_.schema.levels[2].values)
    assert len(ticks(ax)) <= 31


def test_maps_surfaces_and_panels_of_categories(model):
    ax = sw.plots.partial_dependence(model, ["colour", "x"])
    assert "red" in ticks(ax)
    sw.plots.partial_dependence(model, ["x", "colour"])
    sw.plots.surface(model, ["colour", "x"], resolution=5)
    assert len(sw.plots.dependence_panels(model, ["x", "colour", ("colour", "many")])) == 3


def test_curves_of_categories(model, rows):
    ax = sw.plots.curves(sw.inspection.individual_curves(model, "colour", rows[:30]))
    assert "blue" in ticks(ax)


def test_classes_have_bars_side_by_side(rows):
    y = np.digitize(rows["x"] + (rows["colour"] == "red"), [-0.3, 0.6])
    three = sw.GradientBoostingClassifier(n_estimators=4).fit(rows, y)
    assert len(sw.plots.partial_dependence(three, "colour").patches) == 15


def test_pictures_of_shap_values(model, rows):
    values = sw.inspection.shap_values(model, rows)
    sw.plots.shap_summary(values)
    sw.plots.shap_bar(values)
    ax = sw.plots.shap_waterfall(values, row=int(np.flatnonzero(rows["colour"] == "blue")[0]))
    assert "colour = blue" in ticks(ax, "y")
    ax = sw.plots.shap_waterfall(values, row=0)
    assert "colour = missing" in ticks(ax, "y")
    for feature, colour in (("colour", "x"), ("x", "colour"), ("x", "many"), ("colour", "auto"), ("many", None)):
        ax = sw.plots.shap_dependence(values, feature, colour=colour)
    assert len(ticks(ax)) > 5


def test_a_tree_shows_sets(model):
    texts = [text.get_text() for stage in range(12) for text in sw.plots.tree(model, stage).texts]
    assert any("colour in {" in text for text in texts)
    assert max(max(map(len, text.split("\n"))) for text in texts) <= 45
