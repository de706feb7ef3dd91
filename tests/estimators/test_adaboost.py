"""AdaBoost beside scikit-learn's at every stage, beside the book's formulas, and beside forward stagewise modelling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import ensemble
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from estimators.fingerprint import difference
from stagewise import AdaBoostClassifier, Dataset, InputError, ParameterError, StagewiseError


def spheres(n, seed=0):
    """Ten standard Gaussians, and whether they lie outside of half of the probability (ESL 10.1)."""
    X = np.random.default_rng(seed).standard_normal((n, 10))
    return X, ((X**2).sum(axis=1) > 9.34).astype(int)


def few_values(n, classes, seed=0):
    """Columns of at most 60 values, so that bins lose nothing."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 60, (n, 6)).astype(float)
    score = X[:, 0] + 0.7 * X[:, 1] - 0.5 * np.abs(X[:, 2] - 30) + rng.normal(0, 12, n)
    return X, np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))


# ------------------------------------------------------------------------------------------- beside scikit-learn's

PROBLEMS = {
    "cancer": load_breast_cancer(return_X_y=True),
    "spheres": spheres(600),
    "noise": make_classification(400, 12, flip_y=0.3, random_state=1),
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "digits": tuple(a[:500] for a in load_digits(return_X_y=True)),
}
LEARNERS = {
    "stump": DecisionTreeClassifier(max_depth=1),
    "tree": DecisionTreeClassifier(max_depth=3, max_features=0.5),
    "bayes": GaussianNB(),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_same_predictions_as_scikit_learn_at_every_stage(problem, learner, weighted):
    X, y = PROBLEMS[problem]
    weight = np.random.default_rng(5).integers(1, 5, len(y)).astype(float) if weighted else None
    settings = {"n_estimators": 30, "random_state": 7}
    theirs = ensemble.AdaBoostClassifier(LEARNERS[learner], **settings)
    ours = AdaBoostClassifier(LEARNERS[learner], **settings)
    try:
        theirs.fit(X, y, weight)
    except ValueError:  # worse than guessing: neither can start
        with pytest.raises(InputError, match="no better than guessing"):
            ours.fit(X, y, weight)
        return
    ours.fit(X, y, weight)
    m = len(theirs.estimators_)
    assert ours.n_estimators_ == m
    np.testing.assert_allclose(ours.errors_, theirs.estimator_errors_[:m], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(ours.estimator_weights_, theirs.estimator_weights_[:m], rtol=1e-10)
    stages = list(zip(ours.staged_predict(X), theirs.staged_predict(X), strict=True))
    assert len(stages) == m
    for one, other in stages:
        np.testing.assert_array_equal(one, other)
    # theirs is divided by the sum of weights, and for two classes the difference of two opposite columns
    scale = 0.25 if len(ours.classes_) == 2 else (len(ours.classes_) - 1) ** 2 / len(ours.classes_)
    total = scale * theirs.estimator_weights_[:m].sum()
    np.testing.assert_allclose(ours.decision_function(X), total * theirs.decision_function(X), rtol=1e-9, atol=1e-9)


def test_labels_of_any_kind_and_a_learning_rate():
    X, y = load_wine(return_X_y=True)
    names = np.array(["red", "rosé", "white"])[y]
    settings = {"n_estimators": 25, "learning_rate": 0.3, "random_state": 0}
    stump = DecisionTreeClassifier(max_depth=1)
    ours, theirs = AdaBoostClassifier(stump, **settings), ensemble.AdaBoostClassifier(stump, **settings)
    np.testing.assert_array_equal(ours.fit(X, names).predict(X), theirs.fit(X, names).predict(X))
    np.testing.assert_allclose(ours.estimator_weights_, 0.3 * ours.alphas_)


@pytest.mark.parametrize("classes, depth", [(2, 1), (2, 2), (3, 1), (5, 1), (4, 2)])
def test_our_own_trees_choose_the_splits_of_scikit_learn(classes, depth):
    """With few distinct values and without ties the splits are the same; thresholds differ only between values."""
    X, y = few_values(700, classes, seed=classes)
    theirs = ensemble.AdaBoostClassifier(DecisionTreeClassifier(max_depth=depth), n_estimators=25, random_state=0)
    ours = AdaBoostClassifier(max_depth=depth, n_estimators=25)
    np.testing.assert_allclose(ours.fit(X, y).errors_, theirs.fit(X, y).estimator_errors_, rtol=1e-7)
    for one, other in zip(ours.staged_predict(X), theirs.staged_predict(X), strict=True):
        np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------------------------------------- the book's formulas


def discrete_adaboost(X, y, learner, stages, half):
    """ESL Algorithm 10.1 with y = ±1, or with `half` the form that takes ½ log and normalises."""
    n = len(y)
    w = np.full(n, 1.0 / n)
    votes, alphas, weights = [], [], []
    for _ in range(stages):
        g = learner().fit(X, y, sample_weight=w / w.sum()).predict(X)
        miss = g != y
        error = w[miss].sum() / w.sum()
        if half:
            alpha = 0.5 * math.log((1 - error) / error)
            w = w * np.exp(-alpha * y * g)
            w = w / w.sum()
        else:
            alpha = math.log((1 - error) / error)
            w = w * np.exp(alpha * miss)
        votes.append(g)
        alphas.append(alpha)
        weights.append(w / w.sum())
    return np.array(votes), np.array(alphas), np.array(weights)


def stump():
    return DecisionTreeClassifier(max_depth=1, random_state=0)


def test_half_the_logarithm_gives_the_same_classifier():
    X, y = spheres(400)
    sign = 2 * y - 1
    votes, alphas, weights = discrete_adaboost(X, sign, stump, 30, half=False)
    half_votes, half_alphas, half_weights = discrete_adaboost(X, sign, stump, 30, half=True)
    np.testing.assert_array_equal(votes, half_votes)
    np.testing.assert_allclose(alphas, 2 * half_alphas, rtol=1e-9)
    np.testing.assert_allclose(weights, half_weights, rtol=1e-9)
    ours = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=30).fit(X, y)
    np.testing.assert_allclose(ours.alphas_, alphas, rtol=1e-9)
    f = np.cumsum(half_alphas[:, None] * half_votes, axis=0)
    for m, (own, classes) in enumerate(zip(ours.staged_decision_function(X), ours.staged_predict(X), strict=True)):
        np.testing.assert_allclose(own, f[m], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(classes, (f[m] > 0).astype(int))


def test_it_is_forward_stagewise_modelling_under_exponential_loss():
    """ESL 10.4: β = α/2 minimises Σ w·exp(-y·β·G), with w = exp(-y·f) up to a factor."""
    X, y = spheres(300, seed=3)
    sign = 2.0 * y - 1.0
    model = AdaBoostClassifier(n_estimators=20).fit(X, y)
    f = np.zeros(len(y))
    for m, after in enumerate(model.staged_decision_function(X)):
        w = np.exp(-sign * f)
        vote = np.sign(after - f)
        beta = np.abs(after - f)
        np.testing.assert_allclose(beta, model.alphas_[m] / 2, rtol=1e-9)
        assert model.errors_[m] == pytest.approx(w[vote != sign].sum() / w.sum(), rel=1e-10)
        best = model.alphas_[m] / 2
        at, below, above = (np.sum(w * np.exp(-sign * b * vote)) for b in (best, best - 1e-4, best + 1e-4))
        assert at <= below
        assert at <= above
        f = after
        assert model.history_.train[m] == pytest.approx(np.mean(np.exp(-sign * f)), rel=1e-10)


def test_weights_follow_the_book():
    """w ← w·exp(α·[miss]) is exp(-y·f) up to a factor that is the same for every row."""
    X, y = spheres(300, seed=4)
    sign = 2.0 * y - 1.0
    model = AdaBoostClassifier(n_estimators=15).fit(X, y)
    w, f = np.full(len(y), 1.0 / len(y)), np.zeros(len(y))
    for alpha, after in zip(model.alphas_, model.staged_decision_function(X), strict=True):
        w = w * np.exp(alpha * (np.sign(after - f) != sign))
        f = after
        ratio = w / np.exp(-sign * f)
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


def test_f_estimates_half_the_log_odds():
    """A table of four cells: boosted long with trees that can tell them apart, f is ½ log(p/(1 - p)) in each."""
    rng = np.random.default_rng(0)
    p = np.array([0.1, 0.3, 0.6, 0.9])
    cell = rng.integers(0, 4, 4000)
    y = (rng.random(4000) < p[cell]).astype(int)
    X = np.column_stack([cell // 2, cell % 2]).astype(float)
    model = AdaBoostClassifier(max_depth=2, n_estimators=300, learning_rate=0.3).fit(X, y)
    share = np.array([y[cell == c].mean() for c in range(4)])
    grid = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)
    np.testing.assert_allclose(model.decision_function(grid), 0.5 * np.log(share / (1 - share)), atol=0.02)
    np.testing.assert_allclose(model.predict_proba(grid)[:, 1], share, atol=0.01)


def test_probabilities_of_k_classes_are_the_population_minimiser():
    rng = np.random.default_rng(1)
    cell = rng.integers(0, 3, 6000)
    p = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.2, 0.2, 0.6]])
    y = (rng.random(6000)[:, None] > np.cumsum(p, axis=1)[cell]).sum(axis=1)
    X = cell[:, None].astype(float)
    model = AdaBoostClassifier(max_depth=2, n_estimators=400, learning_rate=0.1).fit(X, y)
    raw = model.decision_function(X[:5])
    np.testing.assert_allclose(raw.sum(axis=1), 0.0, atol=1e-9)
    e = np.exp(raw / 2)
    np.testing.assert_allclose(model.predict_proba(X[:5]), e / e.sum(axis=1, keepdims=True), rtol=1e-12)


# --------------------------------------------------------------------------------------------------- where it stops


def test_a_perfect_classifier_ends_training():
    X = np.arange(20.0)[:, None]
    y = (X[:, 0] > 9).astype(int)
    for model in (AdaBoostClassifier(), AdaBoostClassifier(DecisionTreeClassifier(max_depth=1))):
        model.fit(X, y)
        assert model.n_estimators_ == 1
        assert model.errors_.tolist() == [0.0]
        assert model.alphas_.tolist() == [1.0]
        assert model.score(X, y) == 1.0


def test_guessing_ends_training():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)
    y = np.array([0, 1, 1, 0])  # no stump helps
    for estimator in (None, DecisionTreeClassifier(max_depth=1)):
        with pytest.raises(InputError, match=r"errs on 50 % of the weight, no better than guessing among 2 classes"):
            AdaBoostClassifier(estimator).fit(X, y)
    assert (
        AdaBoostClassifier(max_depth=2, min_samples_leaf=1).fit(X[[0, 1, 1, 2, 3]], y[[0, 1, 1, 2, 3]]).score(X, y)
        == 1.0
    )


def test_a_later_guess_is_left_out():
    """Nothing to split by: after the first vote both classes weigh the same."""
    X = np.zeros((5, 2))
    model = AdaBoostClassifier(n_estimators=50).fit(X, [0, 0, 0, 1, 1])
    assert model.n_estimators_ == 1
    np.testing.assert_array_equal(model.predict(X), 0)
    three = AdaBoostClassifier(n_estimators=1000).fit(np.zeros((7, 1)), [0, 0, 0, 0, 1, 1, 2])
    assert three.n_estimators_ < 1000
    np.testing.assert_array_equal(three.predict(X[:, :1]), 0)


# ------------------------------------------------------------------------------------------------------ other things


@pytest.mark.parametrize("classes", [2, 4])
def test_threads_do_not_matter(classes):
    X, y = few_values(30_000, classes)
    one, two = (AdaBoostClassifier(n_estimators=8, max_depth=2, n_jobs=jobs).fit(X, y) for jobs in (1, 3))
    assert difference(one, two) == ""


@pytest.mark.parametrize("classes", [2, 3])
def test_a_dataset_and_missing_values(classes):
    X, y = few_values(500, classes)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = AdaBoostClassifier(n_estimators=20, max_depth=2).fit(X, y)
    assert difference(model, AdaBoostClassifier(n_estimators=20, max_depth=2).fit(Dataset(X, y))) == ""
    assert model.score(X, y) > 1.2 / classes
    raw = list(model.staged_decision_function(X))[-1]
    np.testing.assert_array_equal(raw, model.decision_function(X))


@pytest.mark.parametrize("classes", [2, 3])
def test_training_and_prediction_agree(classes):
    """What the loop kept for the training rows is what the model predicts for them."""
    X, y = few_values(400, classes, seed=9)
    X[::7, 0] = np.nan
    model = AdaBoostClassifier(n_estimators=10, max_depth=3).fit(X, y)
    p = model.predict_proba(X)
    assert (model.predict(X) == model.classes_[p.argmax(axis=1)]).all()
    loss = model.model_.loss
    k = loss.n_outputs
    raw = model.model_.raw(X)
    if k == 1:
        value = np.exp(-(2 * y - 1) * raw[0])
    else:
        code = np.where(np.arange(k)[:, None] == y, 1.0, -1.0 / (k - 1))
        value = np.exp(-(code * raw).sum(axis=0) / k)
    assert model.history_.train[-1] == pytest.approx(value.mean(), rel=1e-10)


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_of_weight_zero_take_no_part(classes):
    X, y = few_values(300, classes)
    weight = np.where(np.arange(300) % 3 == 0, 0.0, 1.0)
    kept = weight > 0
    with_zeros = AdaBoostClassifier(n_estimators=10).fit(X, y, weight)
    without = AdaBoostClassifier(n_estimators=10).fit(X[kept], y[kept])
    np.testing.assert_allclose(with_zeros.errors_, without.errors_, rtol=1e-9)
    np.testing.assert_array_equal(with_zeros.predict(X), without.predict(X))


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"estimator": KNeighborsClassifier()}, "KNeighborsClassifier does not support sample_weight"),
        ({"estimator": DecisionTreeClassifier}, "an instance, not a class"),
        ({"estimator": "stump"}, "must be a scikit-learn classifier"),
        ({"estimator": LogisticRegression(), "max_depth": 3}, "max_depth=3 is a setting of our own trees"),
        ({"max_depth": 0}, "max_depth=0 must be a whole number from 1 to 12"),
        ({"max_depth": 13}, "for deeper trees give an estimator"),
        ({"learning_rate": 1.7}, "learning_rate=1.7 must be in"),
        ({"n_estimators": 0}, "n_estimators=0"),
        ({"misclassification_cost": [[0, 1]]}, "misclassification_cost of shape"),
    ],
)
def test_what_cannot_be_used_is_named(settings, words):
    with pytest.raises(ParameterError, match=words):
        AdaBoostClassifier(**settings).fit(*spheres(60))


def test_missing_values_are_refused_where_the_learner_does():
    X, y = spheres(60)
    X[3, 2] = np.nan
    with pytest.raises(InputError, match="NaN, which LogisticRegression does not accept"):
        AdaBoostClassifier(LogisticRegression()).fit(X, y)
    AdaBoostClassifier(DecisionTreeClassifier(max_depth=1)).fit(X, y).predict(X)  # takes them
    with pytest.raises(StagewiseError, match="needs the values of X"):
        AdaBoostClassifier(DecisionTreeClassifier()).fit(Dataset(X, y))


def test_classifiers_of_an_earlier_fit_are_gone():
    X, y = load_iris(return_X_y=True)
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=3).fit(X, y)
    assert len(model.estimators_) == 3
    assert not hasattr(model.set_params(estimator=None).fit(X, y), "estimators_")
