"""AdaBoostClassifier."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from stagewise.boosting.loop import Method
from stagewise.boosting.methods import adaboost
from stagewise.boosting.model import Model
from stagewise.estimators.family import BaseFamily
from stagewise.estimators.labels import LabelClassifier
from stagewise.learners.foreign import check_foreign
from stagewise.losses.base import Loss
from stagewise.losses.classification import Exponential, MulticlassExponential
from stagewise.params import TreeParams, check_count

__all__ = ["AdaBoostClassifier"]

_DEEPEST = 12


class AdaBoostClassifier(LabelClassifier, BaseFamily):
    """AdaBoost.M1 (ESL Algorithm 10.1), and SAMME for K classes (Zhu, Zou, Rosset and Hastie 2009).

    Weak classifiers are fitted to weighted rows, one a stage; each has the error err_m and the say

        α_m = log((1 - err_m)/err_m) + log(K - 1)

    and rows that it gets wrong weigh e^α_m times as much in the next stage. Training ends early when a classifier makes
    no error (α_m = 1 then, as in scikit-learn) or is no better than guessing (it is left out).

    Parameters
    ----------
    estimator : scikit-learn classifier that takes sample_weight, or None
        The weak classifier. None: our own trees, of max_depth levels; stumps by default.
    n_estimators : int >= 1, default 50
        M, the most stages.
    learning_rate : float in (0, 1], default 1
        ν: a stage's say is ν·α_m.
    max_depth : int from 1 to 12, default 1
        Levels of our own trees.
    min_samples_leaf : int >= 1, or a share in (0, 1) of the rows, default 1
        Rows in every leaf of our own trees.
    max_bins : int from 2 to 255, default 255
        Bins a column is divided into, for our own trees.
    misclassification_cost : (K, K) array or None
        cost[k, j]: what predicting class k costs when the truth is class j; `predict` then returns the class of least
        expected cost.
    random_state : int, RandomState or None, default None
        Gives every clone of `estimator` its random_state, as in scikit-learn; None means 0.
    n_jobs, verbose, callbacks : as in `GradientBoostingClassifier`

    Attributes
    ----------
    alphas_, errors_ : (n_estimators_,)
        α_m and err_m.
    estimator_weights_ : (n_estimators_,)
        ν·α_m.
    classes_, model_, history_, n_estimators_, n_features_in_, feature_names_in_ : as in `GradientBoostingClassifier`
    estimators_ : list
        The fitted weak classifiers, when `estimator` is given; their classes are positions in `classes_`.

    The decision function f = Σ β_m·G_m is that of forward stagewise modelling under exponential loss (ESL 10.4): with
    two classes β_m = α_m/2 and f estimates half the log-odds, so predict_proba is 1/(1 + e^(-2f)); with K classes
    β_m = (K-1)²/K·α_m and p = softmax(f/(K-1)).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from stagewise import AdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostClassifier(n_estimators=20).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        learning_rate: float = 1.0,
        max_depth: int = 1,
        min_samples_leaf: int | float = 1,
        max_bins: int = 255,
        misclassification_cost: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_bins = max_bins
        self.misclassification_cost = misclassification_cost
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    def _loss(self) -> Loss:
        self._cost()
        k = len(self.classes_)
        return Exponential() if k == 2 else MulticlassExponential(k)

    def _check_estimator(self) -> None:
        if self.estimator is None:
            check_count("max_depth", self.max_depth, 1, _DEEPEST, hint="for deeper trees give an estimator")
            return
        check_foreign(self.estimator, classifier=True)
        self._check_own_trees(f"estimator={type(self.estimator).__name__}")

    def _method(self, tree: TreeParams) -> Method:
        return adaboost(tree, self.estimator, self._foreign_seed(), len(self.classes_))

    def _keep(self, model: Model) -> None:
        super()._keep(model)
        notes = model.history.notes
        self.errors_, self.alphas_, self.estimator_weights_ = notes["error"], notes["alpha"], notes["weight"]
        if self.estimator is not None:
            self.estimators_ = [stage[0].estimator for stage in model.stages]
        elif hasattr(self, "estimators_"):  # of an earlier fit
            del self.estimators_

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to a table and labels, or (our own trees) to a Dataset.

        sample_weight : (n_rows,) non-negative weights; rows of weight 0 take no part.
        """
        return self._keeping_labels(lambda: self._fit(X, y, sample_weight))

    def _decide(self, raw: np.ndarray) -> np.ndarray:
        if self.misclassification_cost is None and len(raw) == 1:  # by the sign itself: a sure thing has no rounding
            return self.classes_[(raw[0] > 0.0).astype(np.int64)]
        return super()._decide(raw)
