"""Every picture is drawn, headless, and holds what it should: labels, data, limits."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.metrics import roc_auc_score

import stagewise as sw
from stagewise.errors import MissingExtraError, ParameterError
from stagewise.inspection import (
    feature_importance,
    h_statistic,
    individual_curves,
    partial_dependence,
    shap_values,
)
from stagewise.plots import style

plots = sw.plots


def ticks(axis) -> list[str]:
    return [text.get_text() for text in axis.get_ticklabels()]


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def legend(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def widths(ax) -> list[float]:
    return [patch.get_width() for patch in ax.patches]


def test_names_are_found_lazily():
    assert set(plots.__all__) == set(plots._HOMES)
    for name in plots.__all__:
        for _ in range(2):
            assert callable(getattr(plots, name))
    assert "tree" in dir(plots)
    with pytest.raises(AttributeError, match="no attribute 'pie'"):
        plots.pie  # noqa: B018


def test_without_matplotlib(regressor, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'stagewise\[plot\]'"):
        plots.importance(regressor)


def test_every_picture_takes_axes_and_returns_them(regressor, table, cancer, iris):
    X, y = table
    model, held_out, labels = cancer
    calls = {
        "importance": lambda ax: plots.importance(regressor, ax=ax),
        "partial_dependence": lambda ax: plots.partial_dependence(regressor, "bmi", ax=ax),
        "two columns": lambda ax: plots.partial_dependence(regressor, ["bmi", "s5"], ax=ax),
        "curves": lambda ax: plots.curves(individual_curves(regressor, "bmi", X), ax=ax),
        "interactions": lambda ax: plots.interactions(h_statistic(regressor, X), ax=ax),
        "history": lambda ax: plots.history(regressor, ax=ax),
        "shap_summary": lambda ax: plots.shap_summary(regressor, X, ax=ax),
        "shap_bar": lambda ax: plots.shap_bar(regressor, X, ax=ax),
        "shap_waterfall": lambda ax: plots.shap_waterfall(regressor, 0, X, ax=ax),
        "shap_dependence": lambda ax: plots.shap_dependence(regressor, "bmi", X, ax=ax),
        "tree": lambda ax: plots.tree(regressor, ax=ax),
        "residuals": lambda ax: plots.residuals(regressor, X, y, ax=ax),
        "calibration": lambda ax: plots.calibration(model, held_out, labels, ax=ax),
        "roc": lambda ax: plots.roc(model, held_out, labels, ax=ax),
        "precision_recall": lambda ax: plots.precision_recall(model, held_out, labels, ax=ax),
        "gain": lambda ax: plots.gain(model, held_out, labels, ax=ax),
    }
    assert set(plots.__all__) - set(calls) == {"dependence_panels", "losses", "surface"}
    for call in calls.values():
        figure, ax = plt.subplots()
        assert call(ax) is ax
        assert ax.figure is figure
        assert len(plt.get_fignums()) == 1
        figure.canvas.draw()
        plt.close(figure)


# --- importance ------------------------------------------------------------------------------------------------------


def test_importance(regressor, table):
    ax = plots.importance(regressor)
    result = feature_importance(regressor)
    np.testing.assert_allclose(widths(ax), result.values[result.order])
    assert ticks(ax.yaxis)[:2] == [result.names[j] for j in result.order[:2]]
    assert "blood sugar le…ore breakfast" in ticks(ax.yaxis)
    assert ax.get_xlabel() == "squared improvement (largest = 100)"
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first on top


def test_importance_of_many_columns(wide):
    ax = plots.importance(wide[0], top=12, scale="sum")
    assert len(ax.patches) == 12
    assert texts(ax) == ["288 more columns"]
    assert "sum = 1" in ax.get_xlabel()


def test_permutation_has_whiskers(regressor, table):
    ax = plots.importance(regressor, kind="permutation", X=table[0], y=table[1])
    assert len(ax.collections) == 1
    assert ax.get_xlabel() == "drop in score when shuffled"


# --- dependence ------------------------------------------------------------------------------------------------------


def test_dependence_is_a_line_with_deciles(regressor, table):
    result = partial_dependence(regressor, "bmi")
    ax = plots.partial_dependence(result)
    line, missing = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), result.grid[0][:-1])
    np.testing.assert_array_equal(line.get_ydata(), result.values[0, :-1])
    assert missing.get_ydata() == result.values[0, -1]
    assert missing.get_xdata()[0] > line.get_xdata().max()
    assert "missing" in texts(ax)
    assert ax.get_xlim()[1] > missing.get_xdata()[0]
    (rug,) = ax.collections
    np.testing.assert_allclose([path[0, 0] for path in rug.get_segments()], result.deciles[0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("bmi", "partial dependence")


def test_dependence_of_few_values_and_steps(regressor):
    ax = plots.partial_dependence(regressor, "sex")
    assert ticks(ax.xaxis) == ["1", "2"]
    ax = plots.partial_dependence(regressor, "bp", steps=True)
    assert ax.get_ylabel() == "step of partial dependence"
    result = partial_dependence(regressor, "bp").steps()
    heights = [path[1, 1] for path in ax.collections[0].get_segments()]
    np.testing.assert_allclose(heights, result.values[0])


def test_dependence_per_class(iris):
    model, X, _ = iris
    ax = plots.partial_dependence(model, 2)
    assert legend(ax) == ["0", "1", "2"]
    assert len({line.get_linestyle() for line in ax.lines}) == 3  # told apart without colours
    assert len(plots.partial_dependence(model, 2, output=1).lines) == 1
    result = partial_dependence(model, 2, method="brute", X=X, response="prediction")
    assert plots.partial_dependence(result, output="2").get_ylabel() == "mean prediction"
    with pytest.raises(ParameterError, match="output='3' is not known; choose one of '0', '1', '2'"):
        plots.partial_dependence(model, 2, output="3")


def test_two_columns_are_a_heat_map(regressor):
    result = partial_dependence(regressor, ["bmi", "s5"])
    ax = plots.partial_dependence(result)
    mesh = ax.collections[0]
    np.testing.assert_allclose(np.asarray(mesh.get_array()), result.values[0, :-1].T)  # without missing values
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("bmi", "s5")
    assert len(ax.figure.axes) == 2  # and a colour bar
    assert ax.figure.axes[1].get_ylabel() == "partial dependence"


def test_surface(regressor):
    result = partial_dependence(regressor, ["bp", "s5"], resolution=20)
    ax = plots.surface(result)
    assert ax.name == "3d"
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_zlabel()) == ("bp", "s5", "partial dependence")
    assert len(ax.collections) == 1
    low, high = ax.get_zlim()
    assert low <= result.values.min() < result.values.max() <= high
    with pytest.raises(ParameterError, match="on two columns, and this is on 1"):
        plots.surface(regressor, "bp")
    _, flat = plt.subplots()
    with pytest.raises(ParameterError, match="three dimensions"):
        plots.surface(result, ax=flat)


def test_panels(regressor):
    panels = plots.dependence_panels(regressor, ["bmi", "s5", ["bmi", "s5"], "age"])
    assert len(panels) == 4
    assert [panel.get_xlabel() for panel in panels] == ["bmi", "s5", "bmi", "age"]
    assert panels[0].get_ylim() == panels[1].get_ylim() == panels[3].get_ylim()
    free = plots.dependence_panels(regressor, ["bmi", "age"], same_scale=False)
    assert free[0].get_ylim() != free[1].get_ylim()
    _, given = plt.subplots(1, 2)
    assert list(plots.dependence_panels(regressor, ["bmi", "age"], ax=given)) == list(given)
    results = [partial_dependence(regressor, name) for name in ("bmi", "s5")]
    assert len(plots.dependence_panels(results)) == 2
    with pytest.raises(ParameterError, match="ax has 2 Axes for 3 panels"):
        plots.dependence_panels(regressor, [0, 1, 2], ax=given)
    with pytest.raises(ParameterError, match="nothing to draw"):
        plots.dependence_panels(regressor, [])


def test_bad_dependence(regressor):
    with pytest.raises(ParameterError, match="features must name"):
        plots.partial_dependence(regressor)
    with pytest.raises(ParameterError, match="3 columns cannot be drawn"):
        plots.partial_dependence(regressor, [0, 1, 2])


def test_curves(regressor, table):
    result = individual_curves(regressor, "bmi", table[0], centred=True)
    ax = plots.curves(result, max_curves=50)
    assert legend(ax) == ["average"]
    lines = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert len(lines) == 52  # the average is drawn twice: white below black
    np.testing.assert_allclose(lines[-1].get_ydata(), result.average[0, :-1])
    assert ax.get_ylabel() == "change of prediction (raw)"
    with pytest.raises(ParameterError, match="individual_curves"):
        plots.curves(regressor)


# --- interactions, history -------------------------------------------------------------------------------------------


def test_matrix(regressor, table, wide):
    result = h_statistic(regressor, table[0])
    ax = plots.interactions(result)
    shown = np.asarray(ax.images[0].get_array())
    assert shown.shape == (10, 10)
    order = [result.names.index(name) for name in result.names if name in ticks(ax.yaxis)]
    assert len(order) == 9  # and one with a long name
    np.testing.assert_allclose(np.sort(np.diag(shown)), np.sort(result.total[0]))
    np.testing.assert_allclose(shown, shown.T)
    ax = plots.interactions(h_statistic(*wide), top=8, kind="strength")
    assert np.asarray(ax.images[0].get_array()).shape == (8, 8)
    assert ax.get_title() == "8 of 300 columns"
    with pytest.raises(ParameterError, match="h_statistic"):
        plots.interactions(regressor)


def test_history_of_one_model(regressor):
    ax = plots.history(regressor)
    own = regressor.history_
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), own.train)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), own.validation)
    assert f"least: M = {own.best}" in legend(ax)
    assert ax.lines[2].get_xdata()[0] == own.best
    assert plots.history(own, log=True).get_yscale() == "log"


def test_history_of_several_models(table):
    X, y = table
    models = {
        rate: sw.GradientBoostingRegressor(learning_rate=rate, n_estimators=8).fit(X, y, eval_set=(X, y))
        for rate in (0.1, 1.0)
    }
    ax = plots.history({f"ν = {rate}": model for rate, model in models.items()})
    assert legend(ax) == ["ν = 0.1", "ν = 1.0"]
    assert ax.get_ylabel() == "validation deviance"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), models[0.1].history_.validation)
    models["bare"] = sw.GradientBoostingRegressor(n_estimators=3).fit(X, y)
    assert plots.history(models).get_ylabel() == "training deviance"
    with pytest.raises(ParameterError, match="mapping is empty"):
        plots.history({})


# --- SHAP ------------------------------------------------------------------------------------------------------------


def test_shap_summary(regressor, table):
    result = shap_values(regressor, table[0])
    ax = plots.shap_summary(result, top=4)
    order = np.argsort(-result.mean_size(), kind="stable")[:4]
    assert ticks(ax.yaxis) == [result.names[j] for j in order]
    points = [collection.get_offsets() for collection in ax.collections]
    for place, j in enumerate(order):
        both = np.concatenate(points[2 * place : 2 * place + 2])  # missing and present
        np.testing.assert_allclose(np.sort(both[:, 0]), np.sort(result.values[:, j]))
        assert np.abs(both[:, 1] - place).max() <= 0.4 + 1e-9
    assert "6 more columns" in texts(ax)
    assert ax.get_xlabel() == "SHAP value"


def test_shap_summary_of_classes_and_many_columns(iris, wide):
    assert plots.shap_summary(iris[0], iris[1], output=1).get_xlabel() == "SHAP value for 1"
    assert len(ticks(plots.shap_summary(*wide).yaxis)) == 15


def test_shap_bar(iris, regressor, table):
    ax = plots.shap_bar(iris[0], iris[1])
    assert legend(ax) == ["0", "1", "2"]
    result = shap_values(iris[0], iris[1])
    assert sum(widths(ax)) == pytest.approx(result.mean_size().sum())
    ax = plots.shap_bar(regressor, table[0])
    assert ax.get_legend() is None
    assert len(ax.patches) == 10


def test_shap_waterfall(regressor, table):
    X, _ = table
    result = shap_values(regressor, X)
    ax = plots.shap_waterfall(result, 7, top=3)
    labels = ticks(ax.yaxis)
    assert labels[0] == "7 others"
    top = np.argsort(-np.abs(result.values[7]))
    assert labels[-1].startswith(result.names[top[0]])
    assert sum(widths(ax)) == pytest.approx(result.values[7].sum())
    assert ax.patches[0].get_x() == pytest.approx(result.expected[0])
    last = ax.patches[-1]
    assert last.get_x() + last.get_width() == pytest.approx(regressor.predict(X)[7])
    assert f"this row {regressor.predict(X)[7]:.4g}" in ax.get_xlabel()
    assert any("bmi = missing" in text for text in ticks(plots.shap_waterfall(result, 7).yaxis))
    with pytest.raises(ParameterError, match="row=442 must be"):
        plots.shap_waterfall(result, 442)
    with pytest.raises(ParameterError, match="or a model and X"):
        plots.shap_waterfall(regressor, 0)


def test_shap_dependence(regressor, table):
    X, _ = table
    result = shap_values(regressor, X)
    ax = plots.shap_dependence(result, "bp", colour="s5")
    shown = np.concatenate([collection.get_offsets() for collection in ax.collections])
    np.testing.assert_allclose(np.sort(shown[:, 1]), np.sort(result.values[:, 3]))
    assert ax.figure.axes[1].get_ylabel() == "s5"
    ax = plots.shap_dependence(result, "bmi", colour=None)
    assert len(ax.figure.axes) == 1
    assert ax.get_xlabel() == "bmi (missing on the right)"
    assert plots.shap_dependence(result, 2).figure.axes[1].get_ylabel() in X.columns
    with pytest.raises(ParameterError, match="'BMI' is no column"):
        plots.shap_dependence(result, "BMI")


# --- trees -----------------------------------------------------------------------------------------------------------


def test_tree(regressor):
    tree = regressor.model_.stages[1][0]
    ax = plots.tree(regressor, 1)
    shown = texts(ax)
    leaves = [text for text in shown if text.startswith(("+", "-"))]
    assert len(leaves) == len(tree.leaves)
    for node in tree.leaves:
        assert f"{tree.value[node]:+.3g}\n{int(tree.count[node]):,}" in leaves
    assert any("≤" in text and text.endswith("rows") for text in shown)
    assert "yes" in [text.split("\n")[0] for text in shown]
    assert "…" in texts(plots.tree(regressor, 1, max_depth=1))
    outline = sw.inspection.tree_text(regressor, 1)
    assert outline.count("yes:") == outline.count("no: ") == len(tree.leaves) - 1
    assert f"{tree.value[tree.leaves[0]]:+.5g}" in outline
    with pytest.raises(ParameterError, match="stage=500 must be"):
        plots.tree(regressor, 500)
    with pytest.raises(ParameterError, match="output=1"):
        sw.inspection.tree_text(regressor, 0, 1)


def test_tree_of_one_leaf_and_missing_sides():
    X = np.arange(60.0)[:, None]
    X[::3] = np.nan
    model = sw.GradientBoostingRegressor(n_estimators=1, min_samples_leaf=5).fit(X, np.isnan(X[:, 0]) * 1.0)
    assert any("missing" in text for text in texts(plots.tree(model)))
    assert "missing: " in sw.inspection.tree_text(model)
    stump = sw.GradientBoostingRegressor(n_estimators=1, min_samples_leaf=50).fit(X, X[:, 0] > 3)
    assert len(texts(plots.tree(stump))) == 1


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_residuals(regressor, table, cancer):
    X, y = table
    ax = plots.residuals(regressor, X, y)
    points = ax.collections[0].get_offsets()
    np.testing.assert_allclose(points[:, 1], y - regressor.predict(X))
    assert legend(ax) == ["median", "10 % and 90 %"]
    with pytest.raises(ParameterError, match="needs a regressor, not GradientBoostingClassifier"):
        plots.residuals(*cancer)
    with pytest.raises(ParameterError, match="needs an estimator"):
        plots.residuals(regressor.model_, X, y)


def test_calibration(cancer, iris, regressor, table):
    model, X, y = cancer
    weight = np.linspace(0.0, 1.0, len(y))
    ax = plots.calibration(model, X, y, bins=5, sample_weight=weight)
    container = ax.containers[0]
    x, seen = container.lines[0].get_data()
    assert len(x) == 5
    order = np.argsort(model.predict_proba(X)[:, 1], kind="stable")
    order = order[weight[order] > 0]
    part = np.array_split(order, 5)[0]
    assert seen[0] == pytest.approx(np.average(y[part], weights=weight[part]))
    assert len(plots.calibration(*iris).containers) == 3
    ax = plots.calibration(regressor, *table)
    assert ax.get_ylabel() == "mean of y"
    seen = ax.containers[0].lines[0].get_ydata()
    assert np.mean(seen) == pytest.approx(table[1].mean(), rel=0.01)


def test_curves_of_classifiers(cancer, iris):
    model, X, y = cancer
    area = roc_auc_score(y, model.predict_proba(X)[:, 1])
    ax = plots.roc(model, X, y)
    assert legend(ax) == [f"1: AUC {area:.3f}"]
    x, true = ax.lines[1].get_data()
    assert np.trapezoid(true, x) == pytest.approx(area)
    assert len(legend(plots.precision_recall(*iris))) == 3
    assert legend(plots.precision_recall(model, X, y, output="0"))[0].startswith("0: AP")
    with pytest.raises(ParameterError, match="one class alone"):
        plots.roc(model, X[y == 1], y[y == 1])
    with pytest.raises(ParameterError, match="needs a classifier"):
        plots.roc(sw.GradientBoostingRegressor(n_estimators=1).fit(X, y), X, y)


def test_gain(cancer, regressor, table):
    model, X, y = cancer
    ax = plots.gain(model, X, y)
    rows, found = ax.lines[1].get_data()
    order = np.argsort(-model.predict_proba(X)[:, 1], kind="stable")
    assert found[100] == pytest.approx(y[order[:100]].sum() / y.sum())
    assert rows[100] == pytest.approx(100 / len(y))
    assert (ax.lines[2].get_ydata() >= found - 1e-12).all()  # nothing beats the best order
    assert plots.gain(regressor, *table).get_ylabel() == "share found"
    with pytest.raises(ParameterError, match="no negative values"):
        plots.gain(regressor, table[0], -table[1])


def test_names_with_dollar_signs_are_no_formulas():
    import pandas as pd

    X = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 2)), columns=["$", r"price in $ (\frac) and $"])
    model = sw.GradientBoostingRegressor(n_estimators=3).fit(X, X.sum(axis=1))
    plots.importance(model).figure.canvas.draw()
    plots.partial_dependence(model, [0, 1]).figure.canvas.draw()
    plots.shap_waterfall(model, 0, X).figure.canvas.draw()
    plots.tree(model).figure.canvas.draw()


def test_odd_columns_are_drawn_or_refused():
    X = np.random.default_rng(0).normal(size=(80, 4))
    X[:, 1] = 3.0
    X[:, 2] = np.nan
    X[:, 3] *= 1e300
    X[::5, 0], X[1::5, 0] = np.inf, -np.inf
    model = sw.GradientBoostingRegressor(n_estimators=5, min_samples_leaf=2).fit(X, np.arange(80.0))
    result = shap_values(model, X)
    for j in range(4):
        plots.partial_dependence(model, j).figure.canvas.draw()
        plots.shap_dependence(result, j).figure.canvas.draw()
    plots.shap_summary(result).figure.canvas.draw()
    plots.partial_dependence(model, [0, 1]).figure.canvas.draw()
    with pytest.raises(ParameterError, match="nothing but a missing value"):
        plots.partial_dependence(model, [0, 2])
    with pytest.raises(ParameterError, match="at least two values"):
        plots.surface(model, [0, 1])


def test_labels():
    assert style.label("short") == "short"
    long = style.label("a" * 50 + "z" * 50, 20)
    assert len(long) == 20
    assert long[0] == "a"
    assert long[-1] == "z"
    assert style.label("$a$") == r"\$a\$"
    assert style.value_text(np.nan) == "missing"
    assert style.value_text(1234567.0) == "1,234,567"
