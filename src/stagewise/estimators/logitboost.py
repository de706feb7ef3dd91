"""LogitBoostClassifier and GentleBoostClassifier."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from stagewise.boosting.loop import Method
from stagewise.boosting.methods import gentleboost, logitboost
from stagewise.estimators.family import BaseFamily
from stagewise.estimators.labels import LabelClassifier
from stagewise.losses.base import Loss
from stagewise.losses.classification import Exponential, LogLoss, MulticlassLogLoss, OneVsRestExponential
from stagewise.params import TreeParams, check_number

__all__ = ["GentleBoostClassifier", "LogitBoostClassifier"]


class LogitBoostClassifier(LabelClassifier, BaseFamily):
    """LogitBoost: additive logistic regression by weighted least squares on working responses.

    Friedman, Hastie and Tibshirani (2000), Algorithm 3 for two classes and Algorithm 6 for K:

        w = p(1 - p),    z = (y - p)/w within ±z_max,    f ← f + ν·(weighted least-squares fit of z on x)

    Parameters
    ----------
    estimator : scikit-learn regressor that takes sample_weight, or None
        What fits the working response. None: our own trees, of max_depth levels; stumps by default.
    n_estimators : int >= 1, default 100
        M, the number of stages.
    learning_rate : float in (0, 1], default 1
        ν, the share of each fit that is added; the paper has 1.
    z_max : float > 0, default 4
        Largest working response; the paper recommends 2 to 4.
    subsample : float in (0, 1], default 1
        The share of rows drawn without replacement for each stage.
    max_depth, min_samples_leaf, max_bins : of our own trees, as in `AdaBoostClassifier`; any depth
    misclassification_cost, random_state, n_jobs, verbose, callbacks : as in `AdaBoostClassifier`

    Attributes
    ----------
    classes_, model_, history_, n_estimators_, n_features_in_, feature_names_in_ : as in `GradientBoostingClassifier`

    The decision function is the log-odds for two classes (twice the paper's F); for K classes it sums to 0 over them.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 100,
        learning_rate: float = 1.0,
        z_max: float = 4.0,
        subsample: float = 1.0,
        max_depth: int | None = 1,
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
        self.z_max = z_max
        self.subsample = subsample
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
        return LogLoss() if k == 2 else MulticlassLogLoss(k)

    def _method(self, tree: TreeParams) -> Method:
        z_max = check_number("z_max", self.z_max, 0.0, low_open=True, hint="try 4")
        return logitboost(tree, self.estimator, self._foreign_seed(), z_max)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, init_score: Any = None) -> Self:
        """Fit to a table and labels, or (our own trees) to a Dataset.

        sample_weight : (n_rows,) non-negative weights; rows of weight 0 take no part.
        init_score : (n_rows,) or (n_rows, K) raw predictions to start from.
        """
        return self._keeping_labels(lambda: self._fit(X, y, sample_weight, init_score))

    def _decide(self, raw: np.ndarray) -> np.ndarray:
        if len(raw) == 1 or self.misclassification_cost is not None:
            return super()._decide(raw)
        top = raw.max(axis=0)  # two classes that mirror each other tie but for rounding: the first one has it
        return self.classes_[(raw >= top - 1e-12 * (1.0 + np.abs(raw).max(axis=0))).argmax(axis=0)]

    @staticmethod
    def _decision(raw: np.ndarray) -> np.ndarray:
        """With K classes the paper centres every fit over the classes; the sum of them is centred here, at once."""
        return raw[0] if len(raw) == 1 else np.ascontiguousarray((raw - raw.mean(axis=0)).T)


class GentleBoostClassifier(LabelClassifier, BaseFamily):
    """GentleBoost: weighted least squares on the classes themselves, coded ±1, under exponential loss.

    Friedman, Hastie and Tibshirani (2000), Algorithm 4:

        w = e^(-y·f),    f ← f + ν·(weighted least-squares fit of y on x)

    A tree's step is a difference of weighted class shares, so never larger than 1, where AdaBoost's and LogitBoost's
    can be anything: steadier with outliers and overlapping classes. With K > 2 classes each is boosted against the
    rest (AdaBoost.MH's loss), and the K probabilities are scaled to sum 1.

    Parameters
    ----------
    estimator : scikit-learn regressor that takes sample_weight, or None
        What fits the classes. None: our own trees, of max_depth levels; stumps by default.
    n_estimators, learning_rate, subsample, max_depth, min_samples_leaf, max_bins : as in `LogitBoostClassifier`
    misclassification_cost, random_state, n_jobs, verbose, callbacks : as in `AdaBoostClassifier`

    Attributes
    ----------
    classes_, model_, history_, n_estimators_, n_features_in_, feature_names_in_ : as in `GradientBoostingClassifier`

    The decision function is half the log-odds: p = 1/(1 + e^(-2f)).
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 100,
        learning_rate: float = 1.0,
        subsample: float = 1.0,
        max_depth: int | None = 1,
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
        self.subsample = subsample
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
        return Exponential() if k == 2 else OneVsRestExponential(k)

    def _method(self, tree: TreeParams) -> Method:
        return gentleboost(tree, self.estimator, self._foreign_seed())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, init_score: Any = None) -> Self:
        """Fit to a table and labels, or (our own trees) to a Dataset.

        sample_weight : (n_rows,) non-negative weights; rows of weight 0 take no part.
        init_score : (n_rows,) or (n_rows, K) raw predictions to start from.
        """
        return self._keeping_labels(lambda: self._fit(X, y, sample_weight, init_score))
