"""Interactions and components: H beside a twin, exact zeros, sums of components beside predictions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_friedman1

import naive_paths
import stagewise as sw
from inspection.small import N_BINS, model_of, random_rows, random_shares, random_trees
from stagewise.errors import ParameterError
from stagewise.inspection import (
    completeness,
    functional_anova,
    h_statistic,
    interaction,
    partial_dependence,
    shared_paths,
)


@pytest.fixture(scope="module")
def friedman():
    """10 sin(π x₀ x₁) + 20 (x₂ - ½)² + 10 x₃ + 5 x₄: only the first two columns interact."""
    X, y = make_friedman1(3000, n_features=7, random_state=0)
    X[::11, 2] = np.nan
    return X, y


@pytest.mark.parametrize("seed", range(3))
def test_h_is_friedmans(seed, monkeypatch):
    trees = random_trees(seed, [4, 7, 3])
    X, shares = random_rows(seed, 20), random_shares(seed, 20)
    monkeypatch.setattr(interaction, "_NUMBERS_AT_ONCE", 40)  # pairs in several rounds
    result = h_statistic(model_of(trees, len(N_BINS)), X, sample_weight=shares)
    H, total = naive_paths.h_statistic(trees, X, shares)
    np.testing.assert_allclose(result.pairwise[0], H, atol=1e-9)
    np.testing.assert_allclose(result.total[0], total, atol=1e-9)


def test_h_per_output_and_of_some_columns():
    trees = random_trees(5, [6, 7, 5, 8])
    X, shares = random_rows(5, 20), np.full(20, 1 / 20)
    result = h_statistic(model_of(trees, len(N_BINS), 2), X, [2, 0])
    assert result.names == ("x2", "x0")
    for k in range(2):
        H, total = naive_paths.h_statistic(trees[k::2], X, shares)
        assert result.pairwise[k, 0, 1] == pytest.approx(H[0, 2], abs=1e-9)
        np.testing.assert_allclose(result.total[k], total[[2, 0]], atol=1e-9)


def test_additive_models_have_exactly_none(friedman):
    X, y = friedman
    model = sw.GradientBoostingRegressor(n_estimators=50, max_leaf_nodes=2).fit(X, y)
    result = h_statistic(model, X)
    assert (result.pairwise == 0.0).all()
    assert (result.total == 0.0).all()
    shared = shared_paths(model)
    assert (shared == np.diag(np.diag(shared))).all()
    assert result.ranked() == []
    assert len(result.to_frame()) == 0


def test_friedmans_function(friedman):
    X, y = friedman
    model = sw.GradientBoostingRegressor(n_estimators=150, max_leaf_nodes=4).fit(X, y)
    result = h_statistic(model, X)
    assert result.n_rows == 1000
    first, second = result.ranked()[:2]
    assert first[:2] == ("x0", "x1")
    assert first[2] > 0.25
    assert first[3] > 4 * second[3]
    assert set(np.argsort(-result.total[0])[:2]) == {0, 1}
    assert "x0 × x1" in repr(result)
    assert list(result.to_frame().columns) == ["column", "with", "H", "strength"]
    zero = shared_paths(model) == 0
    assert (result.pairwise[0][zero] == 0.0).all()
    assert result.pairwise.max() <= 1.0 + 1e-9


def test_threads_change_nothing(friedman):
    X, y = friedman
    model = sw.GradientBoostingRegressor(n_estimators=60).fit(X, y)
    one, two = (h_statistic(model.set_params(n_jobs=jobs), X, max_rows=None) for jobs in (1, 2))
    np.testing.assert_array_equal(one.pairwise, two.pairwise)
    np.testing.assert_array_equal(one.total, two.total)


@pytest.mark.parametrize("scale", [1e-100, 1e140])
def test_huge_and_tiny_targets(friedman, scale):
    X, y = friedman
    plain = sw.GradientBoostingRegressor(n_estimators=5).fit(X, y / 30.0)
    scaled = sw.GradientBoostingRegressor(n_estimators=5).fit(X, scale * (y / 30.0))
    for one, other in zip((plain, scaled), (scaled, plain), strict=True):
        np.testing.assert_allclose(h_statistic(one, X).pairwise, h_statistic(other, X).pairwise, rtol=1e-3, atol=1e-4)
    assert completeness(scaled, 0, X).additive == pytest.approx(completeness(plain, 0, X).additive, rel=1e-4)
    assert functional_anova(scaled).components[0].names == functional_anova(plain).components[0].names


def test_bad_h(friedman):
    X, y = friedman
    model = sw.GradientBoostingRegressor(n_estimators=2).fit(X, y)
    with pytest.raises(ParameterError, match="at least two columns"):
        h_statistic(model, X, [1])
    with pytest.raises(ParameterError, match="max_rows=1"):
        h_statistic(model, X, max_rows=1)
    with pytest.raises(ParameterError, match="'y' is no column"):
        h_statistic(model, X, ["x0", "y"])


# --- functional ANOVA ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("order, shape", [(1, {"max_leaf_nodes": 2}), (2, {"max_depth": 2})])
def test_components_add_up_to_the_model(friedman, order, shape, given):
    X, y = friedman
    model = sw.GradientBoostingRegressor(n_estimators=60, **shape).fit(X, y)
    result = functional_anova(model, order=order, X=X[:100] if given else None)
    assert result.complete
    np.testing.assert_allclose(result.predict(X)[0], model.predict(X), rtol=1e-11)
    assert "the whole model" in repr(result)


def test_components_average_to_zero_and_variances_add_up(friedman):
    X, y = friedman
    model = sw.GradientBoostingRegressor(n_estimators=60, max_depth=2).fit(X, y)
    result = functional_anova(model, X=X)
    # under independent columns: shuffle each column on its own
    rng = np.random.default_rng(0)
    shuffled = np.column_stack([rng.permutation(column) for column in X.T])
    for component in result.components:
        for axis, j in enumerate(component.columns):
            cells = np.searchsorted(component.edges[axis], X[:, j])
            cells[np.isnan(X[:, j])] = len(component.edges[axis]) + 1
            weight = np.bincount(cells, minlength=component.values.shape[axis + 1]) / len(X)
            mean = np.tensordot(component.values, weight, (axis + 1, 0))
            np.testing.assert_allclose(mean, 0.0, atol=1e-10)
    total = sum(component.variance[0] for component in result.components)
    assert total == pytest.approx(model.predict(shuffled).var(), rel=0.05)
    assert result.component("x1", "x0").names == ("x0", "x1")
    pairs = [own for own in result.components if len(own.columns) == 2]
    assert pairs[0].names == ("x0", "x1")
    with pytest.raises(ParameterError, match="there is no component of x0 and x1"):
        functional_anova(model, order=1).component("x0", "x1")
    assert result.to_frame()["component"][0] == result.components[0].names[0]


def test_main_effects_of_additive_models_are_dependence(friedman):
    X, y = friedman
    model = sw.GradientBoostingRegressor(n_estimators=150, max_leaf_nodes=2).fit(X, y)
    result = functional_anova(model, order=1)
    grid = np.append(np.linspace(0, 1, 30), np.nan)
    points = np.zeros((31, 7))
    points[:, 2] = grid
    effect = result.component(2).at(points)[0]
    dependence = partial_dependence(model, 2, grid).values[0]
    np.testing.assert_allclose(effect - effect[0], dependence - dependence[0], atol=1e-11)


def test_components_of_large_trees_and_classes():
    X, y = load_iris(return_X_y=True)
    model = sw.GradientBoostingClassifier(n_estimators=10, max_leaf_nodes=8).fit(X, y)
    result = functional_anova(model)
    assert not result.complete
    assert result.predict(X).shape == (3, 150)
    assert "there is more in the model" in repr(result)
    some = functional_anova(model, [2, 3])
    assert {own.names for own in some.components} == {("x2",), ("x3",), ("x2", "x3")}
    np.testing.assert_allclose(some.component(2, 3).values, result.component(2, 3).values)


def test_bad_anova(friedman, monkeypatch):
    X, y = friedman
    model = sw.GradientBoostingRegressor(n_estimators=20).fit(X, y)
    with pytest.raises(ParameterError, match="order=3"):
        functional_anova(model, order=3)
    with pytest.raises(ParameterError, match="give X"):
        functional_anova(model_of(random_trees(0, [3]), 4))
    from stagewise.inspection import anova

    monkeypatch.setattr(anova, "_MOST_NUMBERS", 100)
    with pytest.raises(ParameterError, match="name fewer features, or take order=1"):
        functional_anova(model)
