"""StagewiseRegressor and StagewiseClassifier: gradient boosting of any learner."""

from __future__ import annotations

from typing import Any, Self

from stagewise.boosting.loop import Method
from stagewise.boosting.methods import any_learner
from stagewise.errors import ParameterError
from stagewise.estimators.family import BaseFamily
from stagewise.estimators.labels import LabelClassifier
from stagewise.estimators.numbers import NumberRegressor
from stagewise.losses.base import Loss
from stagewise.losses.names import classification_loss, regression_loss
from stagewise.params import TreeParams, check_choice

__all__ = ["StagewiseClassifier", "StagewiseRegressor"]


class _AnyLearner(BaseFamily):
    """Friedman's Algorithm 1."""

    def _method(self, tree: TreeParams) -> Method:
        search = check_choice("line_search", self.line_search, ("exact", "newton", "none", "leaves"))
        if search == "leaves" and self.estimator is not None:
            raise ParameterError(
                f"line_search='leaves' re-fits the leaves of our own trees, not of {type(self.estimator).__name__}; "
                "use 'exact', or estimator=None."
            )
        return any_learner(tree, self.estimator, self._foreign_seed(), search)

    def _min_child_weight(self) -> float:
        return 1e-3  # as GradientBoosting* has it: the trees are the same


class StagewiseRegressor(NumberRegressor, _AnyLearner):
    """Friedman's (2001) Algorithm 1 with any base learner and any loss.

    Each stage fits the learner h to the negative gradient of the loss by least squares and then goes along it by

        ρ_m = argmin Σ w·L(y, f + ρ·h),        f ← f + ν·ρ_m·h

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"} or Loss
        What is minimised.
    estimator : scikit-learn regressor, or None
        The base learner; it must take sample_weight when weights are given. None: our own trees.
    line_search : {"exact", "newton", "none", "leaves"}, default "exact"
        ρ_m. "exact": the minimum, in closed form for squared error; the weighted median of (y - f)/h with weights
        w|h| for absolute error; from break points for Huber's loss and quantiles; by safeguarded Newton steps for
        the others. "newton": one Newton step. "none": 1. "leaves": our own trees only, every leaf has a ρ of its own,
        which gives the model of `GradientBoostingRegressor(criterion="friedman_mse")`.
    n_estimators : int >= 1, default 100
    learning_rate : float in (0, 1], default 0.1
    subsample : float in (0, 1], default 1
        The share of rows drawn without replacement for each stage.
    max_leaf_nodes, max_depth, min_samples_leaf, max_bins : of our own trees, as in `GradientBoostingRegressor`
    alpha, tweedie_power : of the loss, as in `GradientBoostingRegressor`
    random_state : int, RandomState or None, default None
        Seed of subsampling; gives every clone of `estimator` its random_state. None means 0.
    n_jobs, verbose, callbacks : as in `GradientBoostingRegressor`

    Attributes
    ----------
    model_, history_, n_estimators_, n_features_in_, feature_names_in_ : as in `GradientBoostingRegressor`;
        `history_.notes["step"]` holds ρ_m.

    Missing values are taken where the learner takes them: our own trees do.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from stagewise import StagewiseRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StagewiseRegressor("absolute_error", Ridge(0.1), n_estimators=50).fit(X, y)
    >>> round(model.score(X, y), 1)
    0.5
    """

    def __init__(
        self,
        loss: Any = "squared_error",
        estimator: Any = None,
        *,
        line_search: str = "exact",
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        subsample: float = 1.0,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int | float = 20,
        max_bins: int = 255,
        alpha: float = 0.9,
        tweedie_power: float = 1.5,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
    ) -> None:
        self.loss = loss
        self.estimator = estimator
        self.line_search = line_search
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.subsample = subsample
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_bins = max_bins
        self.alpha = alpha
        self.tweedie_power = tweedie_power
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    def _loss(self) -> Loss:
        return regression_loss(self.loss, self.alpha, self.tweedie_power)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, init_score: Any = None) -> Self:
        """Fit to a table and a target, or (our own trees) to a Dataset.

        sample_weight : (n_rows,) non-negative weights; rows of weight 0 take no part.
        init_score : (n_rows,) raw predictions to start from.
        """
        return self._fit(X, y, sample_weight, init_score)


class StagewiseClassifier(LabelClassifier, _AnyLearner):
    """Friedman's (2001) Algorithm 1 for classes, with any base learner: see `StagewiseRegressor`.

    Parameters
    ----------
    loss : {"log_loss", "exponential"} or Loss
        As in `GradientBoostingClassifier`. With K > 2 classes each stage fits one learner to each class's gradient and
        searches along one after the other.
    estimator : scikit-learn regressor, or None
        The base learner fits gradients, so it is a regressor here too. None: our own trees.
    line_search, n_estimators, learning_rate, subsample, max_leaf_nodes, max_depth, min_samples_leaf, max_bins,
    random_state, n_jobs, verbose, callbacks : as in `StagewiseRegressor`
    class_weight, misclassification_cost : as in `GradientBoostingClassifier`

    Attributes
    ----------
    classes_, model_, history_, n_estimators_, n_features_in_, feature_names_in_ : as in `GradientBoostingClassifier`
    """

    def __init__(
        self,
        loss: Any = "log_loss",
        estimator: Any = None,
        *,
        line_search: str = "exact",
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        subsample: float = 1.0,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int | float = 20,
        max_bins: int = 255,
        class_weight: Any = None,
        misclassification_cost: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
    ) -> None:
        self.loss = loss
        self.estimator = estimator
        self.line_search = line_search
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.subsample = subsample
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_bins = max_bins
        self.class_weight = class_weight
        self.misclassification_cost = misclassification_cost
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    def _loss(self) -> Loss:
        self._cost()
        return classification_loss(self.loss, len(self.classes_))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, init_score: Any = None) -> Self:
        """Fit to a table and labels, or (our own trees) to a Dataset.

        sample_weight : (n_rows,) non-negative weights; rows of weight 0 take no part.
        init_score : (n_rows,) or (n_rows, K) raw predictions to start from.
        """
        return self._keeping_labels(lambda: self._fit(X, y, sample_weight, init_score))
