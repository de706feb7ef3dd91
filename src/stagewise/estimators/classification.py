"""GradientBoostingClassifier."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from stagewise.data.target import class_numbers, read_labels
from stagewise.errors import InputError, ParameterError
from stagewise.estimators.base import BaseGradientBoosting, Keeping
from stagewise.estimators.labels import LabelClassifier
from stagewise.losses.base import Loss
from stagewise.losses.names import classification_loss

__all__ = ["GradientBoostingClassifier"]


class GradientBoostingClassifier(LabelClassifier, BaseGradientBoosting):
    """Gradient boosted trees for classes: labels of any kind, two or more.

    Parameters
    ----------
    loss : {"log_loss", "exponential"} or Loss
        "log_loss" grows one tree a stage for two classes and K trees for K classes; "exponential" is AdaBoost's loss.
    multiclass_curvature : {"friedman", "diagonal", "bound"}, default "friedman"
        What stands for the second derivative of each class's tree in the log-loss of K ≥ 3 classes: K/(K-1)·p(1 - p),
        from which the leaves have Friedman's (K-1)/K (2001, Algorithm 6), as in LightGBM; p(1 - p), as in
        `HistGradientBoostingClassifier`, whose steps are longer by K/(K-1): close to a higher learning rate; or
        2·p(1 - p), as in XGBoost, whose steps are the shortest. Two classes have one tree a stage, and need none of it.
    class_weight : dict, "balanced" or None
        Weights of classes, multiplied with sample_weight.
    misclassification_cost : (K, K) array or None
        cost[k, j]: what predicting class k costs when the truth is class j, in the order of `classes_`. `predict` then
        returns the class of least expected cost (Friedman 2001, section 4.6) instead of the most likely one.
    influence_trimming : float in [0, 1), default 0
        α of Friedman (2001), section 4.5.1: at each stage the rows of least influence (second derivative times weight,
        p(1 - p) for two classes) that together have α of the total are left out of that stage's tree.
        `history_.kept` is the share of rows that stayed; 0.1 to 0.2 leaves most rows out late in training.
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
        goss_top: float = 0.2,
        goss_rest: float = 0.1,
        influence_trimming: float = 0.0,
        max_features: Any = 1.0,
        max_features_tree: Any = 1.0,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        category_encoding: str = "auto",
        multiclass_curvature: str = "friedman",
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
        self.goss_top = goss_top
        self.goss_rest = goss_rest
        self.influence_trimming = influence_trimming
        self.max_features = max_features
        self.max_features_tree = max_features_tree
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.category_encoding = category_encoding
        self.multiclass_curvature = multiclass_curvature
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

    def _read_y(self, y: Any, n_rows: int) -> np.ndarray:
        known = getattr(self._first, "classes_", None)
        if known is not None:  # init_model: not every class need be there again
            self.classes_ = known
            return self._read_eval_y(y, n_rows)
        classes, codes = read_labels(y, n_rows)
        if self.warm_start and hasattr(self, "model_") and not np.array_equal(classes, self.classes_):
            raise InputError(f"warm_start needs the classes of the first fit {self.classes_}, but y has {classes}.")
        self.classes_ = classes
        return class_numbers(codes, len(classes))

    def _loss(self) -> Loss:
        self._cost()
        loss = classification_loss(self.loss, len(self.classes_), self.multiclass_curvature)
        if self.influence_trimming and (loss.constant_hessian or not loss.second_order):
            raise ParameterError(
                f"influence_trimming needs second derivatives, which loss {loss!r} has none of; use 0."
            )
        return loss

    def _trimming(self) -> Any:
        return self.influence_trimming

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
        with self._going_on_from(init_model):
            return self._keeping_labels(
                lambda: self._fit(X, y, sample_weight, eval_set, init_score, Keeping(checkpoint, every, resume))
            )
