"""GradientBoostingRegressor."""

from __future__ import annotations

from typing import Any, Self

from stagewise.estimators.base import BaseGradientBoosting, Keeping
from stagewise.estimators.numbers import NumberRegressor
from stagewise.losses.base import Loss
from stagewise.losses.names import regression_loss

__all__ = ["GradientBoostingRegressor"]


class GradientBoostingRegressor(NumberRegressor, BaseGradientBoosting):
    """Gradient boosted trees for numbers.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"} or Loss
        What is minimised; a `stagewise.Loss` of your own is compiled and as fast as these.
    learning_rate : float in (0, 1], default 0.1
        ν, the share of each stage's tree that is added.
    n_estimators : int >= 1, default 100
        M, the number of stages.
    max_leaf_nodes : int >= 2 or None, default 31
        J, the leaves of a tree; None for no limit.
    max_depth : int >= 1 or None, default None
        Levels below the root.
    min_samples_leaf : int >= 1, or a share in (0, 1) of the rows, default 20
        Rows in every leaf. Rows of weight 0 do not count.
    min_child_weight : float >= 0, default 1e-3
        Sum of second derivatives (with criterion "friedman_mse": of weights) in every leaf.
    min_split_gain : float >= 0, default 0
        A split must improve the squared error (Friedman 2001, eq. 35) by more than this.
    l1_regularization, l2_regularization : float >= 0, default 0
        Penalties on leaf values: leaves become -(G ± l1)/(H + l2).
    criterion : {"newton", "friedman_mse", "squared_error"}, default "newton"
        What trees are grown on: gradients and second derivatives, or (the other two, which mean the same) least squares
        on the gradients alone, as in Friedman's paper and scikit-learn's `GradientBoosting*`. Losses whose second
        derivative is constant or zero give the same trees either way.
    growth : {"leafwise", "levelwise", "symmetric"}, default "leafwise"
        Best leaf first; level by level; or one split for a whole level (2^depth leaves, as in CatBoost).
    subsample : float in (0, 1], default 1.0
        μ, the share of rows drawn without replacement for each stage.
    sampling : {"uniform", "goss", "mvs"}, default "uniform"
        How the rows of a stage are drawn: `subsample` of them, all alike; with "goss" those of the largest gradients
        and some of the others (goss_top, goss_rest), after 0.2/learning_rate stages on all rows; with "mvs" the share
        `subsample`, the likelier the larger the gradient. Rows count as many times as they are unlikely.
    goss_top, goss_rest : float, default 0.2 and 0.1
        Shares of all rows that "goss" draws from the top and from the rest.
    max_features : float in (0, 1], int, "sqrt", "log2" or None, default 1.0
        Columns drawn at every split, from those drawn for the tree.
    max_features_tree : the same, default 1.0
        Columns drawn for every tree.
    max_bins : int from 2 to 255, default 255
        Bins a column is divided into. Columns with fewer distinct values lose nothing.
    categorical_features : "from_dtype", list of names or numbers of columns, mask, or None; default "from_dtype"
        Columns that hold categories, split by sets of them. "from_dtype": text and categorical columns of a frame.
        Those named may hold numbers too. None: all columns are numbers.
    category_encoding : {"auto", "sets", "target"}, default "auto"
        "sets": trees split categories by sets; with more than 255 of them in a column the rare ones share a code.
        "target": a column of more than three becomes the mean target of each category, computed in order so that no row
        sees its own. "auto": the latter for columns of more than 255 categories, unless there are over two classes.
    alpha : float in (0, 1), default 0.9
        Level of "quantile"; for "huber" the quantile of |residual| beyond which errors count as outliers.
    tweedie_power : float in (1, 2), default 1.5
        Variance power of "tweedie".
    early_stopping : "auto", True or False, default "auto"
        Stop when the validation deviance no longer falls. "auto": when n_iter_no_change is given.
    validation_fraction : float in (0, 1) or None, default 0.1
        Share of rows held out for that when no eval_set is given; None watches the training deviance.
    n_iter_no_change : int >= 1 or None, default None
        Stages without improvement after which training stops (10 with early_stopping=True).
    tol : float >= 0, default 1e-7
        An improvement must be larger than this.
    warm_start : bool, default False
        fit goes on from the stages that are there.
    random_state : int, RandomState or None, default None
        Seed of subsampling, column draws and the validation split. None means 0: two fits are equal.
    n_jobs : int or None, default None
        Threads; None and -1 use all cores. The model does not depend on it.
    verbose : int, default 0
        1 shows a progress bar.
    callbacks : list or None
        Objects with any of on_start(total, done), on_stage(stage), on_end(history); on_stage may return True to stop.

    Attributes
    ----------
    model_ : Model
        The fitted trees.
    n_estimators_ : int
        Stages kept.
    history_ : History
        Arrays `train` and `validation`: deviance after each stage.
    feature_importances_, n_features_in_, feature_names_in_ : as in scikit-learn.

    Missing values (NaN, null) need no treatment: each split learns the side they go to. A value that is missing only at
    prediction goes to the side that had more training rows. With `init_score` the constant and the trees are fitted on
    top of it; `predict` returns their part alone.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stagewise import GradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradientBoostingRegressor(n_estimators=50, max_leaf_nodes=4).fit(X, y)
    >>> round(model.score(X, y), 1)
    0.6
    """

    def __init__(
        self,
        loss: Any = "squared_error",
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
        max_features: Any = 1.0,
        max_features_tree: Any = 1.0,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        category_encoding: str = "auto",
        alpha: float = 0.9,
        tweedie_power: float = 1.5,
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
        self.max_features = max_features
        self.max_features_tree = max_features_tree
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.category_encoding = category_encoding
        self.alpha = alpha
        self.tweedie_power = tweedie_power
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    def _loss(self) -> Loss:
        return regression_loss(self.loss, self.alpha, self.tweedie_power)

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
        """Fit to a table and a target, or to a Dataset.

        sample_weight : (n_rows,) non-negative weights; rows of weight 0 take no part.
        eval_set : (X, y), or (X, y, sample_weight[, init_score]): watched by early stopping, in history_.validation.
        init_score : (n_rows,) raw predictions to start from.
        checkpoint : folder in which the state is kept every `every` stages (the last two of them). The same call after
            a kill goes on from there and ends with the same model, bit for bit; resume=False starts afresh.
        init_model : a fitted estimator or Model whose stages come first; n_estimators more are added to them.
        """
        with self._going_on_from(init_model):
            return self._fit(X, y, sample_weight, eval_set, init_score, Keeping(checkpoint, every, resume))
