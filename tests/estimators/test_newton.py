"""Newton trees against a slow float64 grower (slow_newton.py), and against XGBoost and LightGBM in the same process."""

from __future__ import annotations

import numpy as np
import pytest

from estimators import slow_newton
from estimators.slow_newton import Limits, Node
from stagewise import GradientBoostingClassifier, GradientBoostingRegressor

RATE = 0.3

LIMITS = {
    "plain": {"max_leaf_nodes": 10, "min_samples_leaf": 5},
    "l2": {"max_leaf_nodes": 10, "min_samples_leaf": 3, "l2": 3.0},
    "l1": {"max_leaf_nodes": 10, "min_samples_leaf": 3, "l1": 1.5},
    "both penalties": {"max_leaf_nodes": 12, "min_samples_leaf": 3, "l1": 1.0, "l2": 2.0},
    "child weight": {"max_leaf_nodes": 10, "min_samples_leaf": 1, "min_child_weight": 4.0},
    "split gain": {"max_leaf_nodes": 31, "min_samples_leaf": 3, "min_split_gain": 3.0},
    "split gain, l1": {"max_leaf_nodes": 31, "min_samples_leaf": 3, "min_split_gain": 2.0, "l1": 0.5, "l2": 1.0},
    "depth": {"max_leaf_nodes": 99, "max_depth": 3, "min_samples_leaf": 9},
    "levelwise": {"growth": "levelwise", "max_leaf_nodes": 11, "min_samples_leaf": 4, "l2": 1.0},
    "symmetric": {"growth": "symmetric", "max_leaf_nodes": 8, "min_samples_leaf": 4, "l2": 1.0},
    "symmetric, depth": {"growth": "symmetric", "max_leaf_nodes": 31, "max_depth": 2, "min_samples_leaf": 25},
}
every_limit = pytest.mark.parametrize("limits", LIMITS, ids=[name.replace(" ", "-") for name in LIMITS])


def make(seed: int, n_rows: int = 150, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 30, (n_rows, 4)).astype(float)
    signal = np.sin(X[:, 0] / 5) + (X[:, 1] > 12) * X[:, 2] / 15
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X, signal + rng.logistic(size=n_rows)


def settings(limits: Limits, **more) -> dict:
    """The same limits as parameters of an estimator."""
    return {
        "growth": limits.growth,
        "max_leaf_nodes": limits.max_leaf_nodes,
        "max_depth": None if limits.max_depth == 99 else limits.max_depth,
        "min_samples_leaf": limits.min_samples_leaf,
        "min_child_weight": limits.min_child_weight,
        "min_split_gain": limits.min_split_gain,
        "l1_regularization": limits.l1,
        "l2_regularization": limits.l2,
        "learning_rate": RATE,
        **more,
    }


def compare(fast, slow: Node, X: np.ndarray) -> None:
    """The same division of the rows, column, gain and side of the missing values at every node."""
    waiting = [(0, slow)]
    while waiting:
        k, node = waiting.pop()
        assert fast.count[k] == len(node.rows)
        assert (fast.left[k] < 0) == (not node.children)
        if node.children:
            gain, j, value, missing_left = node.split
            assert fast.feature[k] == j
            rows = X[node.rows, j]
            np.testing.assert_array_equal(rows <= fast.threshold[k], rows <= value)
            if np.isnan(rows).any():
                assert fast.missing_left[k] == missing_left
            if slow_gain_is_own(node):
                np.testing.assert_allclose(fast.gain[k], gain, rtol=1e-3)
            waiting += [(fast.left[k], node.children[0]), (fast.left[k] + 1, node.children[1])]


def slow_gain_is_own(node: Node) -> bool:
    """In a symmetric tree the recorded gain is that of a whole level, of which the root alone is its own."""
    return node.depth == 0 or not getattr(node, "shared", False)


def mark_shared(node: Node, growth: str) -> None:
    for below in slow_newton.inner(node):
        below.shared = growth == "symmetric"


def sigmoid(raw):
    return 1.0 / (1.0 + np.exp(-raw))


def binary_pairs(y, raw):
    p = sigmoid(raw)
    return p - y, p * (1.0 - p)


def squared_pairs(y, raw):
    return raw - y, np.ones(len(y))


@every_limit
@pytest.mark.parametrize("missing", [0.0, 0.15], ids=["full", "missing"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_log_loss(limits, missing, weighted):
    limits = Limits(**LIMITS[limits])
    X, y = make(3, missing=missing)
    y = (y > 0.7).astype(float)
    w = np.random.default_rng(9).uniform(0.5, 2.0, len(y)) if weighted else None
    fast = GradientBoostingClassifier(n_estimators=3, **settings(limits)).fit(X, y, w)
    start = np.log(np.average(y, weights=w) / (1.0 - np.average(y, weights=w)))
    assert fast.model_.initial[0] == pytest.approx(start, rel=1e-12)
    trees, raw = slow_newton.boost(X, y, binary_pairs, start, 3, RATE, limits, w)
    for stage, tree in zip(fast.model_.stages, trees, strict=True):
        mark_shared(tree, limits.growth)
        compare(stage[0], tree, X)
    np.testing.assert_allclose(fast.decision_function(X), raw, rtol=1e-9, atol=1e-12)


@every_limit
@pytest.mark.parametrize("missing", [0.0, 0.15], ids=["full", "missing"])
def test_squared_error(limits, missing):
    limits = Limits(**LIMITS[limits])
    X, y = make(4, missing=missing)
    w = np.random.default_rng(8).uniform(0.5, 2.0, len(y))
    fast = GradientBoostingRegressor(n_estimators=3, **settings(limits)).fit(X, y, w)
    trees, raw = slow_newton.boost(X, y, squared_pairs, np.average(y, weights=w), 3, RATE, limits, w)
    for stage, tree in zip(fast.model_.stages, trees, strict=True):
        mark_shared(tree, limits.growth)
        compare(stage[0], tree, X)
    np.testing.assert_allclose(fast.predict(X), raw, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.15], ids=["full", "missing"])
def test_three_classes(missing):
    """Three trees a stage, all from the probabilities before it; Friedman's factor (K-1)/K."""
    X, y = make(5, missing=missing)
    y = np.digitize(y, [-0.5, 1.5])
    limits = Limits(max_leaf_nodes=6, min_samples_leaf=8)
    fast = GradientBoostingClassifier(n_estimators=3, **settings(limits)).fit(X, y)
    raw = np.repeat(np.log(np.bincount(y) / len(y))[:, None], len(y), axis=1)
    for stage in fast.model_.stages:
        p = np.exp(raw) / np.exp(raw).sum(axis=0)
        for k, tree in enumerate(stage):
            grad, hess = p[k] - (y == k), 1.5 * p[k] * (1.0 - p[k])
            slow = slow_newton.grow(X, grad, hess, limits)
            mark_shared(slow, "leafwise")
            compare(tree, slow, X)
            for leaf in slow_newton.leaves(slow):
                raw[k, leaf.rows] += RATE * slow_newton.leaf_value(grad[leaf.rows], hess[leaf.rows], limits)
    np.testing.assert_allclose(fast.decision_function(X), raw.T, rtol=1e-9, atol=1e-12)


def test_many_random_tables():
    """Small trees on many tables: every choice of column, cut and side is the slow grower's."""
    for seed in range(100, 140):
        X, y = make(seed, n_rows=60, missing=0.1 if seed % 2 else 0.0)
        y = (y > 0.5).astype(float)
        limits = Limits(max_leaf_nodes=4, min_samples_leaf=4, l2=0.5)
        w = np.random.default_rng(seed).uniform(0.5, 2.0, len(y))
        fast = GradientBoostingClassifier(n_estimators=1, **settings(limits)).fit(X, y, w)
        share = np.average(y, weights=w)
        tree = slow_newton.grow(X, w * (share - y), w * share * (1.0 - share), limits)
        mark_shared(tree, "leafwise")
        compare(fast.model_.stages[0][0], tree, X)


# -------------------------------------------------------------------------------------------------------------- peers


@pytest.mark.parametrize(
    "options",
    [{}, {"lambda": 3.0}, {"alpha": 1.5}, {"lambda": 1.0, "alpha": 1.0}, {"min_child_weight": 6.0}, {"max_depth": 3}],
    ids=lambda options: "-".join(options) or "plain",
)
@pytest.mark.parametrize("missing", [0.0, 0.15], ids=["full", "missing"])
def test_xgboost(options, missing):
    xgboost = pytest.importorskip("xgboost")
    X, y = make(6, n_rows=500, missing=missing)
    y = (y > 0.7).astype(float)
    share = y.mean()
    settings = {
        "objective": "binary:logistic", "eta": RATE, "tree_method": "hist", "grow_policy": "lossguide",
        "max_leaves": 12, "max_depth": 0, "lambda": 0.0, "alpha": 0.0, "min_child_weight": 0.0, "base_score": share,
        "nthread": 1,
    }  # fmt: skip
    booster = xgboost.train({**settings, **options}, xgboost.DMatrix(X, y), 4)
    ours = GradientBoostingClassifier(
        n_estimators=4, learning_rate=RATE, max_leaf_nodes=12, min_samples_leaf=1,
        l1_regularization=options.get("alpha", 0.0), l2_regularization=options.get("lambda", 0.0),
        min_child_weight=options.get("min_child_weight", 0.0), max_depth=options.get("max_depth"),
    ).fit(X, y)  # fmt: skip
    theirs = booster.predict(xgboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(ours.decision_function(X), theirs, rtol=1e-4, atol=1e-5)  # theirs are float32


@pytest.mark.parametrize(
    "options",
    [{}, {"lambda_l2": 3.0}, {"lambda_l1": 1.5}, {"min_sum_hessian_in_leaf": 6.0}],
    ids=lambda options: "-".join(options) or "plain",
)
@pytest.mark.parametrize("missing", [0.0, 0.15], ids=["full", "missing"])
def test_lightgbm(options, missing):
    """No limit on rows (LightGBM estimates their number from second derivatives) nor on gains (it no longer looks at a
    column in the children of a node where that gained too little)."""
    lightgbm = pytest.importorskip("lightgbm")
    X, y = make(7, n_rows=500, missing=missing)
    y = (y > 0.7).astype(float)
    stages = 1 if missing else 4  # the later ones differ after ties, which missing values make frequent
    settings = {
        "objective": "binary", "learning_rate": RATE, "num_leaves": 12, "min_data_in_leaf": 1, "lambda_l2": 0.0,
        "lambda_l1": 0.0, "min_sum_hessian_in_leaf": 0.0, "min_data_in_bin": 1, "verbose": -1, "num_threads": 1,
        "feature_pre_filter": False, "deterministic": True, "force_row_wise": True,
    }  # fmt: skip
    booster = lightgbm.train({**settings, **options}, lightgbm.Dataset(X, y), stages)
    ours = GradientBoostingClassifier(
        n_estimators=stages, learning_rate=RATE, max_leaf_nodes=12, min_samples_leaf=1,
        l1_regularization=options.get("lambda_l1", 0.0), l2_regularization=options.get("lambda_l2", 0.0),
        min_child_weight=options.get("min_sum_hessian_in_leaf", 0.0),
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ours.decision_function(X), booster.predict(X, raw_score=True), rtol=1e-4, atol=1e-5)
