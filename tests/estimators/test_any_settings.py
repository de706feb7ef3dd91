"""Tables and settings drawn at random: what must hold of every fit, whatever is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import stagewise.backends.cpu
from estimators.fingerprint import difference
from stagewise import GradientBoostingClassifier, GradientBoostingRegressor
from stagewise.kernels.jit import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="threads and thousands of rows need compiled kernels")

LOG_LINK = ("poisson", "gamma", "tweedie")
REGRESSION = ("squared_error", "absolute_error", "huber", "quantile", *LOG_LINK)


def draw_table(rng) -> np.ndarray:
    """1 to 16,000 rows of continuous, rounded, few-valued and constant columns; some with gaps or infinite values."""
    X = rng.normal(size=(int(10 ** rng.uniform(0, 4.2)), int(rng.integers(1, 14))))
    for x in X.T:
        kind = rng.integers(0, 5)
        if kind == 0:
            x[:] = np.round(x, 1)
        elif kind == 1:
            x[:] = rng.integers(0, 3, len(x))
        elif kind == 2:
            x[:] = 0.0
    if rng.random() < 0.4:
        X[rng.random(X.shape) < rng.uniform(0.0, 0.9)] = np.nan
    if rng.random() < 0.2:
        X[rng.random(X.shape) < 0.05] = np.inf
    return X


def draw_settings(rng) -> dict:
    def one_of(*values):
        return values[rng.integers(0, len(values))]

    growth = one_of("leafwise", "levelwise", "symmetric")
    return {
        "n_estimators": int(rng.integers(1, 6)),
        "learning_rate": one_of(0.1, 0.5, 1.0),
        "growth": growth,
        "max_leaf_nodes": one_of(2, 5, 31, 100) if growth == "symmetric" else one_of(None, 2, 5, 31, 100),
        "max_depth": one_of(None, 1, 3, 7),
        "min_samples_leaf": one_of(1, 2, 20, 100),
        "min_child_weight": one_of(0.0, 1e-3, 1.0),
        "min_split_gain": one_of(0.0, 0.0, 0.5),
        "l1_regularization": one_of(0.0, 0.0, 0.5),
        "l2_regularization": one_of(0.0, 0.0, 2.0),
        "criterion": one_of("newton", "friedman_mse"),
        "subsample": one_of(1.0, 1.0, 0.5),
        "max_features": one_of(1.0, 1.0, 0.5),
        "max_features_tree": one_of(1.0, 1.0, 0.5),
        "max_bins": one_of(2, 16, 255),
        "random_state": int(rng.integers(0, 100)),
    }


def draw_case(seed: int):
    """(estimator, X, y, weight)."""
    rng = np.random.default_rng(seed)
    X, settings = draw_table(rng), draw_settings(rng)
    n = len(X)
    bounded = np.nan_to_num(np.clip(X, -5, 5))
    signal = bounded[:, 0] + np.sin(2 * bounded[:, -1]) + 0.5 * rng.normal(size=n)
    weight = None if rng.random() < 0.5 else 10.0 ** rng.uniform(-rng.uniform(0, 3), 0, n)
    if n >= 8 and rng.random() < 0.5:
        K = int(rng.integers(2, 5))
        y = np.digitize(signal, np.quantile(signal, np.arange(1, K) / K))
        loss = "exponential" if K == 2 and rng.random() < 0.4 else "log_loss"
        return GradientBoostingClassifier(loss=loss, **settings), X, y, weight
    if weight is not None and n > 3:
        weight[rng.random(n) < rng.choice([0.0, 0.3])] = 0.0
        weight[0] = 1.0
    loss = REGRESSION[rng.integers(0, len(REGRESSION))]
    y = np.exp(signal) if loss in LOG_LINK else signal * 10.0 ** rng.uniform(-5, 5)
    y[0] *= rng.choice([1.0, 1e6])
    return GradientBoostingRegressor(loss=loss, alpha=float(rng.choice([0.1, 0.5, 0.9])), **settings), X, y, weight


def check_tree(tree, settings: dict, leaves: np.ndarray | None) -> None:
    """Limits, sums over children, and where `leaves` are given the number of rows in each leaf."""
    inner = tree.left >= 0
    assert (tree.count[inner] == tree.count[tree.left[inner]] + tree.count[tree.left[inner] + 1]).all()
    assert np.isfinite(tree.gain).all()
    assert (tree.gain >= 0.0).all()
    assert tree.count[tree.leaves].min() >= min(settings["min_samples_leaf"], tree.count[0])
    assert len(tree.leaves) <= (settings["max_leaf_nodes"] or len(tree.left))
    assert tree.depth.max() <= (settings["max_depth"] or len(tree.left))
    if leaves is not None:
        found = np.bincount(leaves, minlength=tree.n_nodes)
        np.testing.assert_array_equal(found[tree.leaves], tree.count[tree.leaves])


def check_case(seed: int, monkeypatch) -> None:
    estimator, X, y, weight = draw_case(seed)
    rng = np.random.default_rng(seed)
    settings = estimator.get_params()
    model = clone(estimator).set_params(n_jobs=1).fit(X, y, weight)
    # the same bytes with threads, with little memory, in another order
    assert difference(clone(estimator).set_params(n_jobs=int(rng.choice([2, 3, 5]))).fit(X, y, weight), model) == ""
    with monkeypatch.context() as patch:
        patch.setattr(stagewise.backends.cpu, "_POOL_BYTES", 0)
        assert difference(clone(estimator).set_params(n_jobs=int(rng.choice([1, 2]))).fit(X, y, weight), model) == ""
    if estimator.subsample == 1.0:
        order = rng.permutation(len(X))
        other = clone(estimator).fit(X[order], y[order], None if weight is None else weight[order])
        assert difference(other, model) == ""
    # predictions are sums of leaf values, one row at a time or many
    raw, leaves = model._raw(X), model.model_.forest.leaves(X)
    total = np.repeat(model.model_.initial[:, None], len(X), axis=1)
    present = np.ones(len(X), bool) if weight is None else weight > 0.0
    for number, (output, tree) in enumerate((k, tree) for stage in model.model_.stages for k, tree in enumerate(stage)):
        check_tree(tree, settings, leaves[present, number] if estimator.subsample == 1.0 else None)
        total[output] += tree.value[leaves[:, number]]
    assert np.isfinite(raw).all()
    np.testing.assert_array_equal(raw, total)
    np.testing.assert_array_equal(model._raw(X[:5]), raw[:, :5])


@pytest.mark.parametrize("seed", range(60))
def test_any_settings(seed, monkeypatch):
    monkeypatch.setattr("stagewise.backends.pace._WORK_A_THREAD", 1)
    check_case(seed, monkeypatch)


@pytest.mark.slow
def test_many_settings(monkeypatch):
    monkeypatch.setattr("stagewise.backends.pace._WORK_A_THREAD", 1)
    for seed in range(1000, 3000):
        check_case(seed, monkeypatch)
