"""GradientBoostingClassifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight

from stagewise.data.target import encode_labels, read_labels
from stagewise.errors import InputError, ParameterError
from stagewise.estimators.base import BaseGradientBoosting, Keeping
from stagewise.losses.base import Loss
from stagewise.losses.names import classification_loss

__all__ = ["GradientBoostingClassifier"]


class GradientBoostingClassifier(ClassifierMixin, BaseGradientBoosting):
    """Gradient boosted trees for classes: labels of any kind, two or more.

    Parameters
    ----------
    loss : {"log_loss", "exponential"} or Loss
        "log_loss" grows one tree a stage for two classes and K trees for K classes; "exponential" is AdaBoost's loss.
    class_weight : dict, "balanced" or None
        Weights of classes, multiplied with sample_weight.
    misclassification_cost : (K, K) array or None
        cost[k, j]: what predicting class k costs when the truth is class j, in the order of `classes_`. `predict` then
        returns the class of least expected cost (Friedman 2001, section 4.6) instead of the most likely one.
    Others
        As in `GradientBoostingRegressor`.

    Attributes
    ----------
    classes_ : labels, sorted. Others as in `GradientBoostingRegressor`.

    The raw prediction of two classes is the log-odds of the second one (with "exponential" half of it); the ½ log-odds
    F of the paper is half of our log-odds.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from stagewise import GradientBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GradientBoostingClassifier(n_estimators=20).fit(X, y)
    >>> model.predict(X[:3])
    array([0, 0, 0])
    """

    def __init__(
        self,
        loss: Any = "log_loss",
        *,
        learning_rate: float = 0.1,
        n_estimators: int = 100,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int | float = 20,
        min_child_weight: float = 1e-3,
        min_split_gain: float = 0.0,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        criterion: str = "newton",
        growth: str = "leafwise",
        subsample: float = 1.0,
        sampling: str = "uniform",
        max_features: Any = 1.0,
        max_features_tree: Any = 1.0,
        max_bins: int = 255,
        class_weight: Any = None,
        misclassification_cost: Any = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float | None = 0.1,
        n_iter_no_change: int | None = None,
        tol: float = 1e-7,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
    ) -> None:
        self.loss = loss
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.min_split_gain = min_split_gain
        self.l1_regularization = l1_regularization
        self.l2_regularization = l2_regularization
        self.criterion = criterion
        self.growth = growth
        self.subsample = subsample
        self.sampling = sampling
        self.max_features = max_features
        self.max_features_tree = max_features_tree
        self.max_bins = max_bins
        self.class_weight = class_weight
        self.misclassification_cost = misclassification_cost
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    classes_: np.ndarray

    def _read_y(self, y: Any, n_rows: int) -> np.ndarray:
        known = getattr(self._first, "classes_", None)
        if known is not None:  # init_model: not every class need be there again
            self.classes_ = known
            return self._read_eval_y(y, n_rows)
        classes, codes = read_labels(y, n_rows)
        if self.warm_start and hasattr(self, "model_") and not np.array_equal(classes, self.classes_):
            raise InputError(f"warm_start needs the classes of the first fit {self.classes_}, but y has {classes}.")
        self.classes_ = classes
        return codes.astype(np.float64)

    def _read_eval_y(self, y: Any, n_rows: int) -> np.ndarray:
        return encode_labels(y, self.classes_, n_rows).astype(np.float64)

    def _loss(self) -> Loss:
        self._cost()
        return classification_loss(self.loss, len(self.classes_))

    def _strata(self, y: np.ndarray) -> list[np.ndarray]:
        return [y == k for k in range(len(self.classes_))]

    def _adjust_weights(self, weight: np.ndarray | None, y: np.ndarray) -> np.ndarray | None:
        if self.class_weight is not None:
            try:
                by_class = compute_sample_weight(self.class_weight, self.classes_[y.astype(np.int64)])
            except ValueError as error:
                raise ParameterError(f"class_weight={self.class_weight!r} cannot be used: {error}") from error
            with np.errstate(over="ignore"):
                weight = by_class if weight is None else weight * by_class
            if not np.isfinite(weight).all() or (by_class < 0.0).any():
                raise ParameterError(
                    f"class_weight={self.class_weight!r} must give finite weights, none negative; also multiplied with "
                    "sample_weight."
                )
        if weight is not None:
            present = np.bincount(y[weight > 0.0].astype(np.int64), minlength=len(self.classes_)) > 0
            if not present.all():
                gone = self.classes_[~present].tolist()
                raise InputError(
                    f"class {gone[0]!r} has weight 0 in all of its rows; a classifier needs every class, at least two. "
                    "Leave its rows out or give them weight."
                )
        return weight

    def _cost(self) -> np.ndarray | None:
        if self.misclassification_cost is None:
            return None
        try:
            cost = np.asarray(self.misclassification_cost, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError("misclassification_cost must be a square array of numbers.") from error
        k = len(self.classes_)
        if cost.shape != (k, k) or not np.isfinite(cost).all():
            raise ParameterError(
                f"misclassification_cost of shape {cost.shape} must be a finite array of shape ({k}, {k}): "
                "cost[predicted, true], in the order of classes_."
            )
        return cost

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        init_score: Any = None,
        checkpoint: Any = None,
        every: int = 10,
        resume: bool = True,
        init_model: Any = None,
    ) -> Self:
        """Fit to a table and labels, or to a Dataset.

        sample_weight : (n_rows,) non-negative weights; rows of weight 0 take no part.
        eval_set : (X, y), or (X, y, sample_weight[, init_score]): watched by early stopping, in history_.validation.
        init_score : (n_rows,) or (n_rows, K) raw predictions to start from.
        checkpoint : folder in which the state is kept every `every` stages (the last two of them). The same call after
            a kill goes on from there and ends with the same model, bit for bit; resume=False starts afresh.
        init_model : a fitted estimator or Model whose stages come first; n_estimators more are added to them.
        """
        before = getattr(self, "classes_", None)
        try:
            with self._going_on_from(init_model):
                return self._fit(X, y, sample_weight, eval_set, init_score, Keeping(checkpoint, every, resume))
        except BaseException:  # a model that was there keeps its labels
            if before is not None:
                self.classes_ = before
            elif hasattr(self, "classes_"):
                del self.classes_
            raise

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        return self.model_.loss.probabilities(raw)

    def _decide(self, raw: np.ndarray) -> np.ndarray:
        cost = self._cost()
        if cost is not None:
            return self.classes_[(self._probabilities(raw) @ cost.T).argmin(axis=1)]
        chosen = raw.argmax(axis=0) if len(raw) > 1 else (self._probabilities(raw)[:, 1] > 0.5).astype(np.int64)
        return self.classes_[chosen]

    @staticmethod
    def _decision(raw: np.ndarray) -> np.ndarray:
        return raw[0] if len(raw) == 1 else np.ascontiguousarray(raw.T)

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions: (n_rows,) for two classes, (n_rows, K) otherwise."""
        return self._decision(self._raw(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_rows, K), columns in the order of `classes_`."""
        return self._probabilities(self._raw(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each row, or with misclassification_cost the one of least expected cost."""
        return self._decide(self._raw(X))

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """decision_function after stage 1, 2, ..., M."""
        return (self._decision(raw) for raw in self._staged_raw(X))

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """predict_proba after stage 1, 2, ..., M."""
        return (self._probabilities(raw) for raw in self._staged_raw(X))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """predict after stage 1, 2, ..., M."""
        return (self._decide(raw) for raw in self._staged_raw(X))
