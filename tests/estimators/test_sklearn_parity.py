"""The first trees, and many more where definitions coincide, are those of scikit-learn's exact GradientBoosting*.

Columns have few distinct values, so nothing is lost by binning. docs/differences.md says where definitions differ; the
tests at the end of this file show each of those places.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import ensemble, tree
from sklearn.dummy import DummyRegressor

from stagewise import GradientBoostingClassifier, GradientBoostingRegressor

N_ROWS = 400

SHAPES = {
    "depth": {"max_depth": 3, "max_leaf_nodes": None, "min_samples_leaf": 5},
    "leaves": {"max_depth": None, "max_leaf_nodes": 8, "min_samples_leaf": 7},
    "both": {"max_depth": 4, "max_leaf_nodes": 10, "min_samples_leaf": 12},
    "stumps": {"max_depth": 1, "max_leaf_nodes": None, "min_samples_leaf": 3},
}
every_shape = pytest.mark.parametrize("shape", SHAPES)
weighted = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


@pytest.fixture(scope="module", name="X")
def whole_numbers():
    return np.random.default_rng(0).integers(0, 60, (N_ROWS, 5)).astype(float)


@pytest.fixture(scope="module")
def signal(X):
    return np.sin(X[:, 0] / 8) + (X[:, 1] > 20) * X[:, 2] / 30


@pytest.fixture(scope="module")
def y(signal):
    return signal + np.random.default_rng(1).normal(size=N_ROWS)


@pytest.fixture(scope="module")
def labels(signal):
    return (signal + np.random.default_rng(4).logistic(size=N_ROWS) > 0.5).astype(int)


@pytest.fixture(scope="module")
def three(signal):
    return np.digitize(signal + np.random.default_rng(3).logistic(size=N_ROWS), [-0.3, 1.2])


@pytest.fixture(scope="module")
def weight():
    return np.random.default_rng(9).uniform(0.5, 2.0, N_ROWS)


def between(y: np.ndarray, level: float) -> np.ndarray:
    """Weights under which the `level`-quantile of y lies between two rows, and on none: there, scikit-learn counts the
    row that the start hits exactly as one above it, and we count it as neither."""
    units = np.random.default_rng(5).integers(300, 900, len(y))
    units[np.argmax(y)] = 1024  # the largest is a power of two: our 30-bit integers hold the others exactly
    order = np.argsort(y)
    below, above = np.split(order, [int(level * len(y))])
    short = round(level / (1.0 - level)) * units[above].sum() - units[below].sum()
    units[below] += short // len(below)
    units[below[: short % len(below)]] += 1
    assert units[below].sum() == level * units.sum()
    assert 0 < units.min() < units.max() == 1024
    return units / 1024.0


def starting_at(ours):
    """scikit-learn's way to start from the same constant."""
    return DummyRegressor(strategy="constant", constant=ours.model_.initial[0])


def walk(ours, theirs, X: np.ndarray, rate: float, rtol: float) -> int:
    """Both trees from the root down: the same rows in every node, the same column at every split, the same leaves.

    Returns the number of leaves.
    """
    n_leaves = 0
    waiting = [(0, 0, np.arange(len(X)))]
    while waiting:
        a, b, rows = waiting.pop()
        assert ours.count[a] == theirs.n_node_samples[b] == len(rows)
        assert (ours.left[a] < 0) == (theirs.children_left[b] < 0), (
            f"one goes on where the other ends, {len(rows)} rows"
        )
        if ours.left[a] < 0:
            np.testing.assert_allclose(ours.value[a], rate * theirs.value[b, 0, 0], rtol=rtol, atol=rtol / 100)
            n_leaves += 1
            continue
        assert ours.feature[a] == theirs.feature[b]
        here, there = X[rows, ours.feature[a]] <= ours.threshold[a], X[rows, theirs.feature[b]] <= theirs.threshold[b]
        np.testing.assert_array_equal(here, there)
        waiting.append((ours.left[a], theirs.children_left[b], rows[here]))
        waiting.append((ours.left[a] + 1, theirs.children_right[b], rows[~here]))
    return n_leaves


def compare(ours, theirs, X: np.ndarray, rtol: float = 1e-9) -> None:
    """All trees of two fitted models."""
    rate = ours.learning_rate
    assert len(ours.model_.stages) == len(theirs.estimators_)
    for mine, other in zip(ours.model_.stages, theirs.estimators_, strict=True):
        for a, b in zip(mine, other, strict=True):
            assert walk(a, b.tree_, X, rate, rtol) > 1


def pair(kind: str, shape: str, n_estimators: int, **options):
    """(ours, theirs), unfitted, with the same settings."""
    ours, theirs = {
        "regressor": (GradientBoostingRegressor, ensemble.GradientBoostingRegressor),
        "classifier": (GradientBoostingClassifier, ensemble.GradientBoostingClassifier),
    }[kind]
    both = {"n_estimators": n_estimators, "learning_rate": 0.1, **SHAPES[shape], **options}
    return ours(criterion="friedman_mse", min_child_weight=0.0, **both), theirs(random_state=0, **both)


# ------------------------------------------------------------------------------------------------ where they coincide


@every_shape
@weighted
def test_squared_error(shape, weighted, X, y, weight):
    ours, theirs = pair("regressor", shape, 20)
    w = weight if weighted else None
    ours.fit(X, y, w)
    theirs.fit(X, y, w)
    compare(ours, theirs, X)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-9, atol=1e-10)  # targets have a unit
    np.testing.assert_allclose(ours.history_.train, theirs.train_score_, rtol=1e-9)


@every_shape
def test_absolute_error(shape, X, y):
    w = between(y, 0.5)
    ours, theirs = pair("regressor", shape, 5, loss="absolute_error")
    ours.fit(X, y, w)
    theirs.set_params(init=starting_at(ours)).fit(X, y, w)
    compare(ours, theirs, X)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-9)


@every_shape
def test_quantile(shape, X, y):
    w = between(y, 0.75)
    ours, theirs = pair("regressor", shape, 5, loss="quantile", alpha=0.75)
    ours.fit(X, y, w)
    theirs.set_params(init=starting_at(ours)).fit(X, y, w)
    compare(ours, theirs, X)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-9)


@every_shape
@pytest.mark.parametrize("alpha", [0.5, 0.9])
def test_huber(shape, alpha, X, y, weight):
    ours, theirs = pair("regressor", shape, 10, loss="huber", alpha=alpha)
    ours.fit(X, y, weight)
    theirs.set_params(init=starting_at(ours)).fit(X, y, weight)
    compare(ours, theirs, X, rtol=1e-7)  # weights as integers of 30 bits
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-7)


@every_shape
@weighted
def test_log_loss(shape, weighted, X, labels, weight):
    ours, theirs = pair("classifier", shape, 10)
    w = weight if weighted else None
    ours.fit(X, labels, w)
    theirs.fit(X, labels, w)
    compare(ours, theirs, X)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-9)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-8, atol=1e-10)


@every_shape
@weighted
def test_three_classes(shape, weighted, X, three, weight):
    ours, theirs = pair("classifier", shape, 8)
    w = weight if weighted else None
    ours.fit(X, three, w)
    theirs.fit(X, three, w)
    compare(ours, theirs, X)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("shape", ["leaves", "both"])
@weighted
def test_exponential(shape, weighted, X, labels, weight):
    """The same first tree; its leaves are the exact minimum where scikit-learn takes one Newton step, its tanh."""
    ours, theirs = pair("classifier", shape, 1, loss="exponential", learning_rate=1.0)
    w = weight if weighted else None
    ours.fit(X, labels, w)
    theirs.fit(X, labels, w)
    first = theirs.estimators_[0, 0].tree_
    first.value[:, 0, 0] = np.where(first.children_left < 0, np.arctanh(first.value[:, 0, 0]), 0.0)
    compare(ours, theirs, X)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_tree_with_missing_values(shape, missing, X, y, weight):
    """scikit-learn's GradientBoosting* takes no missing values, but its trees do: learned sides at every split."""
    X = np.where(np.random.default_rng(6).random(X.shape) < missing, np.nan, X)
    ours, _ = pair("regressor", shape, 1, learning_rate=1.0)
    ours.fit(X, y, weight)
    other = tree.DecisionTreeRegressor(random_state=0, **SHAPES[shape]).fit(X, y, weight)
    np.testing.assert_allclose(ours.predict(X), other.predict(X), rtol=1e-9)
    assert len(np.unique(ours.apply(X))) == other.get_n_leaves()
    np.testing.assert_array_equal(partition(ours.apply(X)[:, 0]), partition(other.apply(X)))


def partition(leaves: np.ndarray) -> np.ndarray:
    """Leaf numbers, renamed in the order in which rows meet them."""
    _, first, number = np.unique(leaves, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "three"])
def test_newton_trees_of_hist_gradient_boosting(loss, X, y, labels, three, weight):
    """criterion="newton" grows the trees of HistGradientBoosting*. Their gradients are float32: a few digits."""
    X = np.where(np.random.default_rng(6).random(X.shape) < 0.1, np.nan, X)
    both = {"max_leaf_nodes": 8, "min_samples_leaf": 10, "l2_regularization": 2.0, "learning_rate": 0.1}
    if loss == "squared_error":
        ours = GradientBoostingRegressor(n_estimators=10, **both).fit(X, y, weight)
        theirs = ensemble.HistGradientBoostingRegressor(max_iter=10, **both).fit(X, y, weight)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4, atol=1e-5)
    elif loss == "log_loss":
        ours = GradientBoostingClassifier(n_estimators=10, **both).fit(X, labels, weight)
        theirs = ensemble.HistGradientBoostingClassifier(max_iter=10, **both).fit(X, labels, weight)
        np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-4, atol=1e-5)
    else:
        # theirs has no factor (K-1)/K: a rate 3/2 as large gives the same steps; and there is no penalty
        both = {**both, "l2_regularization": 0.0}
        ours = GradientBoostingClassifier(n_estimators=10, **{**both, "learning_rate": 0.15}).fit(X, three, weight)
        theirs = ensemble.HistGradientBoostingClassifier(max_iter=10, **both).fit(X, three, weight)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-4, atol=1e-5)


# --------------------------------------------------------------------- where definitions differ (docs/differences.md)


def test_difference_thresholds_lie_between_global_neighbours():
    """A gap that only this node's rows have is cut beside its lower end by us, in its middle by scikit-learn."""
    X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    y = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    both = {"n_estimators": 1, "max_depth": 1, "min_samples_leaf": 1, "learning_rate": 1.0}
    ours = GradientBoostingRegressor(**both).fit(X, y)
    assert ours.model_.stages[0][0].threshold[0] == 6.0  # the gap of the whole column: the same middle
    # now column 1 sends the row that lies in the gap elsewhere first
    X = np.column_stack([np.append(X[:, 0], 3.0), [0, 0, 0, 0, 0, 0, 1.0]])
    y = np.append(y, 50.0)
    ours = GradientBoostingRegressor(**{**both, "max_depth": 2}).fit(X, y)
    theirs = ensemble.GradientBoostingRegressor(**{**both, "max_depth": 2}).fit(X, y)
    mine, other = ours.model_.stages[0][0], theirs.estimators_[0, 0].tree_
    assert mine.threshold[mine.feature == 0].tolist() == [2.5]
    assert other.threshold[other.feature == 0].tolist() == [6.0]
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-10, atol=1e-10)


def test_difference_medians_and_quantiles():
    """Averaged inverted CDF at every place, so a median is the usual one; scikit-learn interpolates for the start and
    takes the lower of two middle values in a leaf."""
    X, y = np.zeros((4, 1)), np.array([1.0, 2.0, 4.0, 8.0])
    for alpha, expected in ((0.5, 3.0), (0.75, 6.0), (0.6, 4.0), (0.9, 8.0)):
        ours = GradientBoostingRegressor(loss="quantile", alpha=alpha, n_estimators=1).fit(X, y)
        assert ours.model_.initial[0] == expected == np.quantile(y, alpha, method="averaged_inverted_cdf")
        again = GradientBoostingRegressor(loss="quantile", alpha=alpha, n_estimators=1).fit(X, y, np.ones(4))
        assert again.model_.initial[0] == expected
    theirs = ensemble.GradientBoostingRegressor(loss="quantile", alpha=0.6, n_estimators=1).fit(X, y)
    np.testing.assert_allclose(theirs.init_.predict(X), np.quantile(y, 0.6))
    X, y = np.repeat([[0.0], [1.0]], 4, axis=0), np.concatenate([y, y + 100.0])
    both = {"loss": "absolute_error", "n_estimators": 1, "max_depth": 1, "learning_rate": 1.0, "min_samples_leaf": 1}
    ours, theirs = GradientBoostingRegressor(**both).fit(X, y), ensemble.GradientBoostingRegressor(**both).fit(X, y)
    np.testing.assert_allclose(ours.predict([[0.0], [1.0]]), [3.0, 103.0])
    np.testing.assert_allclose(theirs.predict([[0.0], [1.0]]), [2.0, 102.0])


def test_huber_starts_from_the_median():
    """Friedman's Algorithm 4, line 1; scikit-learn does so too."""
    X, y = np.zeros((5, 1)), np.array([0.0, 1.0, 2.0, 3.0, 100.0])
    both = {"loss": "huber", "n_estimators": 1}
    assert GradientBoostingRegressor(**both).fit(X, y).model_.initial[0] == 2.0
    assert ensemble.GradientBoostingRegressor(**both).fit(X, y).init_.predict(X)[0] == 2.0


def test_difference_a_row_on_its_prediction_pulls_nowhere():
    """y = f: the gradient of |y - f| is 0 here; scikit-learn takes the slope of the upper side."""
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 2.0])
    both = {"loss": "absolute_error", "n_estimators": 1, "max_depth": 1, "min_samples_leaf": 1, "learning_rate": 1.0}
    ours = GradientBoostingRegressor(**both).fit(X, y)
    theirs = ensemble.GradientBoostingRegressor(**both).fit(X, y)
    # gradients 1, 0, -1 here: both cuts are as good and the lower one is taken; 1, -1, -1 there
    assert ours.model_.stages[0][0].threshold[0] == theirs.estimators_[0, 0].tree_.threshold[0] == 0.5
    gain = ours.model_.stages[0][0].gain[0]
    assert gain == pytest.approx(1.5)  # (1·2 + 1·1)² / (1·2·3)


def test_difference_exponential_leaves():
    X, y = np.repeat([[0.0], [1.0]], 4, axis=0), np.array([0, 0, 0, 1, 0, 1, 1, 1])
    both = {"loss": "exponential", "n_estimators": 1, "max_depth": 1, "min_samples_leaf": 1, "learning_rate": 1.0}
    ours = GradientBoostingClassifier(**both).fit(X, y).decision_function([[0.0], [1.0]])
    theirs = ensemble.GradientBoostingClassifier(**both).fit(X, y).decision_function([[0.0], [1.0]])
    np.testing.assert_allclose(ours, [-0.5 * np.log(3), 0.5 * np.log(3)])
    np.testing.assert_allclose(theirs, [-0.5, 0.5])
    np.testing.assert_allclose(np.tanh(ours), theirs)


def test_difference_equal_models_without_a_seed(X, labels):
    """random_state=None is a seed like any other."""
    one, other = (
        GradientBoostingClassifier(n_estimators=3, subsample=0.5, max_features=2).fit(X, labels) for _ in range(2)
    )
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
