"""Trees of several classes that begin together are those that begin alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stagewise as sw
from stagewise.backends import roots
from stagewise.backends.roots import Roots, group_of, together_pays
from stagewise.kernels.exact import Packing
from stagewise.learners import tree as learner


def table(n_rows: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    X[:, 1] = np.round(X[:, 1])
    X[rng.random(X.shape) < 0.05] = np.nan
    score = np.nan_to_num(X) @ rng.normal(size=(6, n_classes)) + rng.gumbel(size=(n_rows, n_classes))
    y = score.argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def printed(model: Any) -> list[bytes]:
    """Everything that a fit decided."""
    trees = [tree for stage in model.model_.stages for tree in stage]
    return [own.tobytes() for t in trees for own in (t.feature, t.cut, t.missing_left, t.left, t.value, t.gain)]


@pytest.fixture
def calls(monkeypatch) -> list[bool]:
    """Whether each tree had its root, for fits of any size."""
    seen: list[bool] = []

    class Watched(Roots):
        def __call__(
            self, grad: np.ndarray, hess: np.ndarray, chosen: Packing, index: np.ndarray, output: int
        ) -> np.ndarray | None:
            root = super().__call__(grad, hess, chosen, index, output)
            seen.append(root is not None and len(root) > 0)
            return root

    monkeypatch.setattr(roots, "_LEAST_ROWS", 1)
    monkeypatch.setattr(learner, "Roots", Watched)
    return seen


SETTINGS: dict[str, dict[str, Any]] = {
    "all rows": {},
    "some rows": {"subsample": 0.4, "random_state": 3},
    "held out": {"validation_fraction": 0.2, "n_iter_no_change": 3, "random_state": 1},
    "first order": {"criterion": "friedman_mse"},
    "symmetric": {"growth": "symmetric", "max_depth": 3},
    "levelwise": {"growth": "levelwise", "max_depth": 3},
    "one thread": {"n_jobs": 1},
    "columns drawn": {"max_features": 0.5, "random_state": 2},
}


@pytest.mark.parametrize("n_classes", [3, 7, 10])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_same_trees(settings, n_classes, calls, monkeypatch):
    X, y = table(1500, n_classes)
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    for given in (None, weight):
        models = []
        for pays in (together_pays, lambda backend, n_outputs: False):
            monkeypatch.setattr(learner, "together_pays", pays)
            made = sw.GradientBoostingClassifier(**{"n_estimators": 4, "max_leaf_nodes": 8, "n_jobs": 2} | settings)
            models.append(printed(made.fit(X, y, sample_weight=given)))
        assert models[0] == models[1]
    assert len(calls) == 2 * 4 * n_classes
    assert all(calls)


def test_rows_of_a_larger_table(calls, monkeypatch):
    X, y = table(1200, 5)
    data = sw.Dataset(X, y)
    rows = np.sort(np.random.default_rng(0).choice(1200, 700, replace=False))
    models = []
    for pays in (together_pays, lambda backend, n_outputs: False):
        monkeypatch.setattr(learner, "together_pays", pays)
        models.append(printed(sw.GradientBoostingClassifier(n_estimators=3).fit(data.subset(rows))))
    assert models[0] == models[1]
    assert len(calls) == 15
    assert all(calls)


def test_classes_with_rows_of_their_own_begin_alone(calls, monkeypatch):
    """Influence trimming: each class leaves other rows out."""
    X, y = table(1500, 4)
    models = []
    for pays in (together_pays, lambda backend, n_outputs: False):
        monkeypatch.setattr(learner, "together_pays", pays)
        made = sw.GradientBoostingClassifier(n_estimators=6, influence_trimming=0.2, learning_rate=0.5)
        models.append(printed(made.fit(X, y)))
    assert models[0] == models[1]
    assert not all(calls)


def test_a_class_with_unequal_gradients_takes_two_words(calls, monkeypatch):
    """Where one class never occurs its gradients vanish: narrow words lose these rows."""
    X, y = table(600, 3)
    X[:, 0] = np.arange(600) % 4
    y[(X[:, 0] < 3) & (y == 2)], X = 0, X[:, :1]
    models = []
    for pays in (together_pays, lambda backend, n_outputs: False):
        monkeypatch.setattr(learner, "together_pays", pays)
        made = sw.GradientBoostingClassifier(n_estimators=30, max_leaf_nodes=3, learning_rate=1.0, min_samples_leaf=5)
        models.append(printed(made.fit(X, y)))
    assert models[0] == models[1]
    assert any(calls)
    assert not all(calls)


@pytest.mark.parametrize("n_outputs", [*range(1, 40), 100, 1000])
def test_groups(n_outputs):
    """Every output is in one group of at most eight."""
    groups = sorted({(group_of(k, n_outputs).start, group_of(k, n_outputs).stop) for k in range(n_outputs)})
    assert [k for a, b in groups for k in range(a, b)] == list(range(n_outputs))
    assert max(b - a for a, b in groups) == groups[0][1] <= 8
