"""Partial dependence: scikit-learn's brute force and recursion, grids, curves, completeness, errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingRegressor as TheirRegressor
from sklearn.inspection import partial_dependence as their_dependence

import naive_paths
import stagewise as sw
from inspection.small import N_BINS, model_of, random_rows, random_shares, random_trees
from stagewise.errors import InputError, ParameterError
from stagewise.inspection import completeness, individual_curves, partial_dependence
from stagewise.tree.tree import Tree


@pytest.fixture(scope="module")
def table():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = X.copy()
    X.iloc[::6, 2] = np.nan
    return X, y


@pytest.fixture(scope="module")
def fitted(table):
    return sw.GradientBoostingRegressor(n_estimators=40, max_leaf_nodes=8).fit(*table)


FEATURES = ["age", ["bmi"], ["bmi", "s5"], ["sex", "bp", "s6"]]


@pytest.mark.parametrize("features", FEATURES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_brute_is_scikit_learns(table, fitted, features, weighted):
    X, _ = table
    weight = np.arange(len(X)) % 4 * 1.0 if weighted else None
    names = [features] if isinstance(features, str) else features
    grid = {name: np.nanquantile(X[name], [0.1, 0.3, 0.7, 0.9]) for name in names}
    ours = partial_dependence(fitted, features, grid, method="brute", X=X, sample_weight=weight)
    theirs = their_dependence(fitted, X, names, custom_values=grid, method="brute", sample_weight=weight)
    np.testing.assert_allclose(ours.values, theirs["average"], rtol=1e-10)


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_brute_probabilities_are_scikit_learns(table, loss):
    X, y = table
    model = sw.GradientBoostingClassifier(loss, n_estimators=15, max_leaf_nodes=6).fit(X, y > 140)
    theirs = their_dependence(model, X, ["bmi"], custom_values={"bmi": np.array([-0.05, 0.0, 0.1])}, method="brute")
    ours = partial_dependence(model, "bmi", [-0.05, 0.0, 0.1], method="brute", X=X, response="prediction")
    np.testing.assert_allclose(ours.values, theirs["average"], rtol=1e-10)
    assert ours.outputs == ("True",)


def test_brute_per_class():
    X, y = load_iris(return_X_y=True)
    model = sw.GradientBoostingClassifier(n_estimators=10).fit(X, y)
    grid = [1.0, 2.5, 4.0, 6.0]
    for response, method in (("prediction", "predict_proba"), ("raw", "decision_function")):
        theirs = their_dependence(
            model, X, [2], custom_values={2: np.array(grid)}, method="brute", response_method=method
        )
        ours = partial_dependence(model, 2, grid, method="brute", X=X, response=response)
        np.testing.assert_allclose(ours.values, theirs["average"], rtol=1e-10)
        assert ours.values.shape == (3, 4)
    assert set(partial_dependence(model, 2, grid).to_frame().columns) == {"x2", "output", "dependence"}


def test_log_link_prediction(table):
    X, y = table
    model = sw.GradientBoostingRegressor("poisson", n_estimators=15).fit(X, y)
    theirs = their_dependence(model, X, ["s5"], custom_values={"s5": np.array([-0.05, 0.05])}, method="brute")
    ours = partial_dependence(model, "s5", [-0.05, 0.05], method="brute", X=X, response="prediction")
    np.testing.assert_allclose(ours.values, theirs["average"], rtol=1e-10)


# --- traversal -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [(1,), (0, 2), (3, 1, 0)])
def test_traversal_is_friedmans(known):
    trees = random_trees(0, [5, 9, 1, 12], nothing=0.2)
    X = random_rows(1, 8)
    axes = [np.unique(X[:, j]) for j in known]
    result = partial_dependence(model_of(trees, len(N_BINS), 2), known, axes if len(known) > 1 else axes[0])
    points = np.zeros((result.values[0].size, len(N_BINS)))
    points[:, list(known)] = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(known))
    expected = naive_paths.dependence(trees, [0, 1, 0, 1], points, known) + np.array([[0.25], [1.25]])
    np.testing.assert_allclose(result.values.reshape(2, -1), expected, rtol=1e-12)


def rebuilt(theirs, n_columns):
    """scikit-learn's boosted trees as a model of ours."""
    trees = []
    for (regressor,) in theirs.estimators_:
        t = regressor.tree_
        order, place = [0], {0: 0}
        for node in order:  # breadth first, so that siblings stand side by side
            if t.children_left[node] >= 0:
                for child in (t.children_left[node], t.children_right[node]):
                    place[child] = len(order)
                    order.append(child)
        left = [place.get(t.children_left[node], -1) for node in order]
        depth = [0] * len(order)
        for k, first in enumerate(left):
            if first >= 0:
                depth[first] = depth[first + 1] = depth[k] + 1
        n = len(order)
        trees.append(
            replace(
                Tree.stump(1),
                feature=np.where(np.array(left) < 0, -1, t.feature[order]).astype(np.int32),
                threshold=t.threshold[order],
                cut=np.zeros(n, np.int32),
                missing_left=np.zeros(n, np.uint8),
                left=np.array(left, np.int32),
                value=theirs.learning_rate * t.value[order, 0, 0],
                gain=np.zeros(n),
                count=t.n_node_samples[order],
                cover=t.weighted_n_node_samples[order],
                depth=np.array(depth, np.int32),
            )
        )
    return model_of(trees, n_columns, initial=0.0)


def test_traversal_is_scikit_learns_recursion(table):
    X, y = table
    X = np.ascontiguousarray(X.fillna(0.0), dtype=np.float32).astype(np.float64)  # where they compare
    theirs = TheirRegressor(n_estimators=20, max_depth=4, random_state=0)
    theirs.fit(X, y, sample_weight=1.0 + np.arange(len(y)) % 3)
    model = rebuilt(theirs, X.shape[1])
    start = theirs.init_.constant_[0, 0]  # not part of their recursion
    np.testing.assert_allclose(model.raw(X)[0] + start, theirs.predict(X), rtol=1e-10)
    for features in ([2], [8, 3]):
        expected = their_dependence(theirs, X, features, grid_resolution=12, method="recursion")
        ours = partial_dependence(model, features, expected["grid_values"])
        np.testing.assert_allclose(ours.values, expected["average"], rtol=1e-9)


def test_missing_values_are_a_place_of_their_own(table, fitted):
    X, _ = table
    result = partial_dependence(fitted, "bmi", method="brute", X=X)
    assert np.isnan(result.grid[0][-1])
    assert not np.isnan(result.grid[0][:-1]).any()
    assert result.values[0, -1] == pytest.approx(fitted.predict(X.assign(bmi=np.nan)).mean(), rel=1e-12)
    assert not np.isnan(partial_dependence(fitted, "age").grid[0]).any()


# --- grids -----------------------------------------------------------------------------------------------------------


def test_zeros_of_a_grid_mean_what_they_do_in_training():
    X = np.random.default_rng(3).integers(0, 4, (400, 2)).astype(float)
    y = np.where(X[:, 0] == 0.0, 9.0, X[:, 0])
    model = sw.GradientBoostingRegressor(n_estimators=5).fit(sw.Dataset(X, y, zeros="missing"))
    grid = [0.0, 1.0, 3.0]
    result = partial_dependence(model, [0], grid=grid, X=X, method="brute")
    wanted = [model.predict(np.column_stack([np.full(400, own), X[:, 1]])).mean() for own in grid]
    np.testing.assert_allclose(result.values[0], wanted)
    traversal = partial_dependence(model, [0], grid=grid).values[0]
    assert traversal[0] == partial_dependence(model, [0], grid=[np.nan]).values[0][0]


def test_grids_come_from_the_training_data(table, fitted):
    X, _ = table
    np.testing.assert_array_equal(partial_dependence(fitted, "sex").grid[0], np.unique(X["sex"]))
    axis = partial_dependence(fitted, "s6", resolution=20).grid[0]
    assert len(axis) == 20
    np.testing.assert_allclose(np.diff(axis), np.diff(axis)[0])
    np.testing.assert_allclose(axis[[0, -1]], np.quantile(X["s6"], [0.05, 0.95], method="inverted_cdf"), rtol=1e-12)
    deciles = partial_dependence(fitted, "s6").deciles[0]
    np.testing.assert_allclose(deciles, np.quantile(X["s6"], np.arange(1, 10) / 10, method="inverted_cdf"), rtol=1e-12)
    wide = partial_dependence(fitted, "s6", resolution=20, percentiles=(0, 1)).grid[0]
    np.testing.assert_allclose(wide[[0, -1]], [X["s6"].min(), X["s6"].max()])
    assert partial_dependence(fitted, ["s5", "s6"]).values.shape == (1, 50, 50)


def test_odd_columns_have_grids():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X[:, 1] = np.nan  # nothing but missing values
    X[10:, 2] = 1.0  # nearly constant
    X[:100, 3], X[100:200, 3] = np.inf, -np.inf
    model = sw.GradientBoostingRegressor(n_estimators=5).fit(X, X[:, 0])
    np.testing.assert_array_equal(partial_dependence(model, 1).grid[0], [np.nan])
    assert partial_dependence(model, 2, resolution=5).grid[0].size == 5
    for j in (2, 3):
        axis = partial_dependence(model, j, resolution=5).grid[0]
        assert np.isfinite(axis).all()
        assert (np.diff(axis) > 0).all()


def test_weights_and_large_tables_count():
    X = np.repeat(np.arange(400.0), 2)[:, None]
    weight = np.where(X[:, 0] < 200, 0.0, 1.0)
    model = sw.GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0], weight)
    assert partial_dependence(model, 0, percentiles=(0, 1)).grid[0][0] == 200.0
    marginal = model.model_.marginals[0]
    assert marginal.shares.sum() + marginal.missing == pytest.approx(1.0)
    assert len(marginal.points) == len(model.model_.cuts[0]) + 1


def test_bad_grids_and_features(table, fitted):
    X, _ = table
    for call, message in [
        (lambda: partial_dependence(fitted, "bmi", []), "grid of column 'bmi' is empty"),
        (lambda: partial_dependence(fitted, "bmi", 3.0), "grid=3.0 must be a sequence"),
        (lambda: partial_dependence(fitted, "bmi", ["low", "high"]), "must be numbers"),
        (lambda: partial_dependence(fitted, ["bmi", "s5"], [1.0, 2.0]), "is empty or no sequence"),
        (lambda: partial_dependence(fitted, ["bmi", "s5"], [[1.0], [1.0], [2.0]]), "grid has 3 axes, but"),
        (lambda: partial_dependence(fitted, ["bmi", "s5"], {"bmi": [1.0]}), "grid must have a sequence"),
        (lambda: partial_dependence(fitted, [0, 1, 2, 3, 4]), "5 columns; dependence is computed on at most 4"),
        (lambda: partial_dependence(fitted, [0, 3], [np.arange(4000.0)] * 2), "16,000,000 cells; at most 10,000,000"),
        (lambda: partial_dependence(fitted, "weight"), "'weight' is no column"),
        (lambda: partial_dependence(fitted, "bmi", percentiles=(0.9, 0.1)), "must be ascending"),
        (lambda: partial_dependence(fitted, "bmi", percentiles=0.5), "must be two numbers"),
        (lambda: partial_dependence(fitted, "bmi", resolution=1), "resolution=1"),
        (lambda: partial_dependence(fitted, "bmi", method="recursion"), "method='recursion'"),
        (lambda: partial_dependence(fitted, "bmi", response="prediction"), "average over rows"),
        (lambda: partial_dependence(fitted, "bmi", X=X), "takes no X"),
        (lambda: partial_dependence(model_of(random_trees(0, [3]), 4), 0), "give a grid"),
        (lambda: individual_curves(fitted, ["bmi", "s5"], X), "2 columns; curves are drawn for one"),
        (lambda: completeness(fitted, list(X.columns), X), "name all columns"),
        (lambda: partial_dependence(fitted, ["bmi", "s5"]).steps(), "steps are defined for one column"),
    ]:
        with pytest.raises(ParameterError, match=message):
            call()
    with pytest.raises(InputError, match='method="brute" averages over rows: give X'):
        partial_dependence(fitted, "bmi", method="brute")
    with pytest.raises(InputError, match="feature names should match"):
        partial_dependence(fitted, "bmi", method="brute", X=X.rename(columns={"bmi": "BMI"}))


# --- what can be made of it ------------------------------------------------------------------------------------------


def test_curves_are_predictions(table, fitted):
    X, _ = table
    grid = [-0.08, 0.0, np.nan, 0.1]
    curves = individual_curves(fitted, "bmi", X[:40], grid)
    for g, value in enumerate(grid):
        np.testing.assert_allclose(curves.values[0, :, g], fitted.predict(X[:40].assign(bmi=value)), rtol=1e-12)
    brute = partial_dependence(fitted, "bmi", grid, method="brute", X=X[:40])
    np.testing.assert_allclose(curves.average, brute.values, rtol=1e-12)
    centred = individual_curves(fitted, "bmi", X[:40], grid, centred=True)
    assert (centred.values[:, :, 0] == 0.0).all()
    np.testing.assert_allclose(np.diff(centred.values, axis=2), np.diff(curves.values, axis=2), atol=1e-10)
    np.testing.assert_allclose(curves.centred(-1).values[:, :, -1], 0.0)
    assert len(curves.to_frame()) == 160
    assert "Centred curves of bmi" in repr(centred)


def test_steps_and_centring(fitted):
    result = partial_dependence(fitted, "bmi")
    steps = result.steps()
    present = ~np.isnan(result.grid[0])
    np.testing.assert_array_equal(steps.grid[0], result.grid[0][present][1:])
    np.testing.assert_allclose(np.cumsum(steps.values), (result.values[0] - result.values[0, 0])[present][1:])
    assert list(steps.to_frame().columns) == ["bmi", "step"]
    assert "Steps of dependence on bmi" in repr(steps)
    assert result.centred().values.mean() == pytest.approx(0.0, abs=1e-10)
    assert "traversal" in repr(result)


def test_completeness_is_correlation_with_both_halves():
    trees = random_trees(3, [9, 14, 6])
    X, shares = random_rows(1, 40), random_shares(2, 40)
    model = model_of(trees, len(N_BINS), initial=3.0)
    result = completeness(model, [0, 2], X, sample_weight=shares)
    whole, own, rest = (
        naive_paths.dependence(trees, [0] * 3, X, known)[0] + 3.0 for known in (range(4), (0, 2), (1, 3))
    )
    for got, other in ((result.additive, own + rest), (result.multiplicative, own * rest)):
        covariance = np.cov(whole, other, aweights=shares)
        assert got[0] == pytest.approx(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]), rel=1e-9)
    assert "sum" in repr(result)
    assert len(result.to_frame()) == 1


def test_completeness_of_sums_and_products():
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 2.0, (2000, 3))
    additive = sw.GradientBoostingRegressor(n_estimators=60, max_leaf_nodes=2).fit(X, X[:, 0] + X[:, 1])
    assert completeness(additive, 0, X).additive[0] == pytest.approx(1.0)
    scaled = (X[:, 0] - 1.5) * (X[:, 1] - 1.0)
    product = sw.GradientBoostingRegressor(n_estimators=100, max_leaf_nodes=8).fit(X, 5.0 + 4.0 * scaled)
    both = completeness(product, [0, 1], X)
    assert both.additive[0] > 0.999  # the third column plays no part
    one = completeness(product, 0, X)
    assert one.additive[0] < 0.97
