"""Influence trimming beside its definition (Friedman 2001, section 4.5.1)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification

from estimators.fingerprint import difference
from estimators.slow_newton import Limits, grow, leaf_value
from stagewise import GradientBoostingClassifier, Loss, ParameterError
from stagewise.backends.cpu import CpuBackend

SMALL = {"n_estimators": 30, "max_leaf_nodes": 4, "min_samples_leaf": 5}


def kept_rows(influence, alpha):
    """l(α): the rows of least influence whose sum stays below α of the total are out; equal ones stay together."""
    exact = [Fraction(float(w)) for w in influence]
    total, order = sum(exact), np.argsort(influence, kind="stable")
    running, kept = Fraction(0), np.ones(len(influence), bool)
    for value in np.unique(influence[order]):
        group = influence == value
        running += sum(w for w, own in zip(exact, group, strict=True) if own)
        if running > Fraction(alpha) * total:
            break
        kept[group] = False
    return kept


def influence_of(loss, raw, y, weight):
    """(K, n): second derivatives times weights."""
    if loss == "exponential":
        return weight * np.exp(-(2.0 * y - 1.0) * raw)
    if len(raw) == 1:
        size = np.abs(2.0 * (y - 1.0 / (1.0 + np.exp(-raw))))  # the paper's |ỹ|, with F half the log-odds
        return weight * size * (2.0 - size)
    e = np.exp(raw - raw.max(axis=0))
    size = np.abs((np.arange(len(raw))[:, None] == y) - e / e.sum(axis=0))
    return weight * size * (1.0 - size)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "loss, load", [("log_loss", load_breast_cancer), ("exponential", load_breast_cancer), ("log_loss", load_iris)]
)
def test_the_rows_of_each_stage(loss, load, weighted, monkeypatch):
    X, y = load(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    seen, original = [], CpuBackend.grow

    def spied(self, chosen, index, rest, *more):
        seen.append(index.copy())
        return original(self, chosen, index, rest, *more)

    monkeypatch.setattr(CpuBackend, "grow", spied)
    model = GradientBoostingClassifier(loss, influence_trimming=0.15, **SMALL)
    model.fit(X, y, weight if weighted else None)
    raw = np.repeat(model.model_.initial[:, None], len(y), axis=1)
    k = len(raw)
    stages = [raw, *model.model_.staged_raw(np.ascontiguousarray(X))]
    for m in range(SMALL["n_estimators"]):
        influence = influence_of(loss, stages[m], y, weight)
        for output in range(k):
            own = kept_rows(np.round(influence[output] / influence[output].max(), 12), 0.15)
            used = np.ones(len(y), bool)
            if len(index := seen[m * k + output]):
                used[:] = False
                used[index] = True
            assert (own != used).sum() <= 1  # a row on the edge, which rounding decides
        assert model.history_.kept[m] == pytest.approx(model.history_.rows[m] / len(y))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_whole_model_beside_a_slow_one(classes):
    """Newton trees grown on the kept rows in NumPy, added to all of them."""
    rng = np.random.default_rng(classes)
    X = rng.integers(0, 12, (260, 4)).astype(float)
    score = X[:, 0] - X[:, 1] + rng.normal(0, 3.0, 260)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    model = GradientBoostingClassifier(
        influence_trimming=0.2, n_estimators=12, learning_rate=0.5, max_leaf_nodes=5, min_samples_leaf=8
    )
    model.fit(X, y)
    raw = np.repeat(model.model_.initial[:, None], len(y), axis=1)
    limits = Limits(max_leaf_nodes=5, min_samples_leaf=8, min_child_weight=1e-3)
    for own in model.model_.staged_raw(X):
        k = len(raw)
        p = 1 / (1 + np.exp(-raw)) if k == 1 else np.exp(raw) / np.exp(raw).sum(axis=0)
        truth = y[None] if k == 1 else (np.arange(k)[:, None] == y)
        grad, hess = p - truth, p * (1 - p) * (1.0 if k == 1 else k / (k - 1))
        for output in range(k):
            kept = kept_rows(np.round(hess[output], 13), 0.2)
            tree = grow(X[kept], grad[output, kept], hess[output, kept], limits)
            raw[output] += 0.5 * walked(tree, X, grad[output, kept], hess[output, kept], limits)
        np.testing.assert_allclose(own, raw, rtol=1e-10, atol=1e-10)
    assert model.history_.kept.min() < 0.95


def walked(node, X, grad, hess, limits):
    """Leaf values of every row of X."""
    if not node.children:
        return np.full(len(X), leaf_value(grad[node.rows], hess[node.rows], limits))
    _, j, value, _ = node.split
    parts = [walked(child, X, grad, hess, limits) for child in node.children]
    return np.where(X[:, j] <= value, *parts)


def test_late_in_training_few_rows_matter():
    X, y = make_classification(4000, 10, n_informative=6, class_sep=1.5, flip_y=0.0, random_state=0)
    train, test = slice(0, 2000), slice(2000, None)
    plain = GradientBoostingClassifier(n_estimators=200).fit(X[train], y[train])
    trimmed = GradientBoostingClassifier(n_estimators=200, influence_trimming=0.1).fit(X[train], y[train])
    assert trimmed.history_.kept[0] > 0.99
    assert trimmed.history_.kept[-1] < 0.4
    assert trimmed.score(X[test], y[test]) > plain.score(X[test], y[test]) - 0.01
    np.testing.assert_array_equal(plain.history_.kept, 1.0)


def test_with_subsampling_and_threads():
    X, y = make_classification(20_000, 8, random_state=1)
    settings = {"n_estimators": 15, "subsample": 0.5, "influence_trimming": 0.2, "random_state": 1}
    one, two = (GradientBoostingClassifier(n_jobs=jobs, **settings).fit(X, y) for jobs in (1, 3))
    assert difference(one, two) == ""
    assert (one.history_.kept <= 0.5).all()
    assert one.history_.kept[-1] < 0.4


def test_k_classes():
    X, y = load_digits(return_X_y=True)
    model = GradientBoostingClassifier(n_estimators=30, influence_trimming=0.1).fit(X, y)
    assert model.score(X, y) > 0.99
    assert model.history_.kept[-1] < 0.6


class Sharp(Loss):
    """No second derivative."""

    second_order = False

    @staticmethod
    def loss(y, f):
        return abs(y - f)

    @staticmethod
    def gradient(y, f):
        return 1.0 if f > y else -1.0

    @staticmethod
    def hessian(y, f):
        return 1.0


@pytest.mark.parametrize("alpha", [-0.1, 1.0, "much", None])
def test_what_cannot_be_used_is_named(alpha):
    with pytest.raises(ParameterError, match=r"influence_trimming=.* must be"):
        GradientBoostingClassifier(influence_trimming=alpha).fit(*load_breast_cancer(return_X_y=True))


def test_a_loss_without_second_derivatives_has_no_influence():
    with pytest.raises(ParameterError, match="influence_trimming needs second derivatives"):
        GradientBoostingClassifier(Sharp(), influence_trimming=0.1).fit(*load_breast_cancer(return_X_y=True))
