"""ComponentwiseRegressor and ComponentwiseClassifier: boosting one column at a time."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np

from stagewise.boosting.complexity import information_criterion, operator_traces
from stagewise.boosting.loop import Method, Problem, Validation, boost
from stagewise.boosting.methods import componentwise
from stagewise.boosting.model import Model
from stagewise.data.sparse import Sparse
from stagewise.errors import InputError, ParameterError, TrainingInterrupted
from stagewise.estimators.family import BaseFamily
from stagewise.estimators.joining import check_fitted
from stagewise.estimators.labels import LabelClassifier
from stagewise.estimators.numbers import NumberRegressor
from stagewise.kernels.team import Team
from stagewise.learners.columns import Line, LineLearner, SplineLearner, check_values
from stagewise.losses.base import Loss
from stagewise.losses.names import classification_loss, regression_loss
from stagewise.params import BoostParams, TreeParams, check_choice, check_count, check_number

__all__ = ["ComponentwiseClassifier", "ComponentwiseRegressor"]

_VALUES_A_THREAD = 500_000
"""Values of the table that are worth a thread: some 0.3 ms of a stage's work."""


class _Componentwise(BaseFamily):
    """One column a stage."""

    def _on_bins(self) -> bool:
        return bool(self.base == "stump")

    def _check_estimator(self) -> None:
        check_choice("base", self.base, ("linear", "spline", "stump"))
        check_choice("line_search", self.line_search, ("none", "newton", "exact"))
        check_choice("stopping", self.stopping, (None, "aic", "cv"))
        if self.stopping == "aic" and (self.base == "stump" or self.line_search != "none"):
            raise ParameterError(
                "stopping='aic' is for base 'linear' and 'spline' with line_search='none': there are no degrees of "
                "freedom to count otherwise; use 'cv'."
            )
        check_number("df", self.df, 1.0, 20.0, low_open=True, hint="try 4")
        if isinstance(self.cv, (bool, numbers.Number)):
            check_count("cv", self.cv, 2, hint="or a splitter, or pairs of training and test rows")

    def _tree_params(self, n_rows: int, n_columns: int) -> TreeParams:
        return replace(super()._tree_params(n_rows, n_columns), max_leaf_nodes=2, max_depth=1)

    def _method(self, tree: TreeParams) -> Method:
        return componentwise(tree, self.base, float(self.df), self.line_search)

    def _takes_missing(self) -> bool:
        return self._on_bins()

    def _threads(self, n_rows: int, n_columns: int, n_jobs: int) -> int:
        return max(1, min(n_jobs, n_columns, n_rows * n_columns // _VALUES_A_THREAD))

    # --- fitting -----------------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any, init_score: Any = None) -> Self:
        problem, tree, params, threads = self._problem(X, y, sample_weight, init_score)
        method, chosen, criterion = self._method(tree), params.n_estimators, None
        if self.stopping == "cv":
            criterion = self._cross_validated(problem, method, params, threads)
            chosen = int(np.argmin(criterion)) + 1
        shortened = replace(params, n_estimators=chosen)
        model = boost(problem, method, shortened, self._callbacks(), threads)
        if self.stopping == "aic":
            criterion = self._information(model, problem, params)
            chosen = int(np.argmin(criterion)) + 1
            model = replace(model, stages=model.stages[:chosen], history=replace(model.history, best=chosen))
        self._keep(model)
        if criterion is not None:
            self.criterion_path_ = criterion
        elif hasattr(self, "criterion_path_"):
            del self.criterion_path_
        return self

    def _folds(self, problem: Problem) -> list[tuple[np.ndarray, np.ndarray]]:
        """Training and test rows of every fold. A number of folds: shuffled by random_state and stratified by class."""
        from sklearn.model_selection import KFold, StratifiedKFold, check_cv

        rows, labelled = np.flatnonzero(~problem.skip), isinstance(self, LabelClassifier)
        folds = self.cv
        if isinstance(folds, numbers.Integral):
            folds = (StratifiedKFold if labelled else KFold)(folds, shuffle=True, random_state=self._seed())
        else:
            rows = np.arange(len(problem.y))  # pairs of rows that were given are rows of the whole table
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a class with fewer rows than folds
                pairs = [(rows[own], rows[test]) for own, test in check_cv(folds).split(rows, problem.y[rows])]
        except (UserWarning, ValueError, IndexError, TypeError) as error:
            raise InputError(f"stopping='cv' with cv={self.cv!r} cannot divide the rows: {error}") from error
        pairs = [(own[~problem.skip[own]], test[~problem.skip[test]]) for own, test in pairs]  # weight 0: no part
        pairs = [(own, test) for own, test in pairs if len(test)]
        if not pairs or not all(len(own) for own, _ in pairs):
            raise InputError(f"stopping='cv' with cv={self.cv!r} leaves no rows to train on, or none to test.")
        return pairs

    def _cross_validated(self, problem: Problem, method: Method, params: BoostParams, threads: int) -> np.ndarray:
        """(M,): the deviance on the rows left out after each stage, weighted over the folds."""
        total, weight = np.zeros(params.n_estimators), 0.0
        for own_rows, test in self._folds(problem):
            skip = np.ones(len(problem.y), np.bool_)
            skip[own_rows] = False
            validation = Validation(
                bins=problem.bins,
                index=problem.rows[test] if len(problem.rows) else test.astype(np.uint32),
                y=problem.y[test],
                weight=problem.weight[test] if len(problem.weight) else np.empty(0),
                offset=None if problem.offset is None else problem.offset[:, test].copy(),
                raw=None,
                X=None if problem.X is None else problem.X[test],
            )
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", TrainingInterrupted)
                    model = boost(replace(problem, skip=skip, validation=validation), method, params, [], threads)
            except TrainingInterrupted:  # the stages of a fold are of no use to anybody
                raise KeyboardInterrupt("stopped in cross-validation: there is no model yet") from None
            own = float(validation.weight.sum()) if len(validation.weight) else float(len(test))
            total += own * model.history.validation
            weight += own
        return total / weight

    def _information(self, model: Model, problem: Problem, params: BoostParams) -> np.ndarray:
        """(M,): AIC after each stage."""
        columns = np.array([[term.column for term in stage] for stage in model.stages])
        size = 1.0 if self.base == "linear" else float(self.df)
        seen: set[tuple[int, int]] = set()
        active = np.empty(len(columns))
        for m, chosen in enumerate(columns):
            seen |= {(k, j) for k, j in enumerate(chosen.tolist()) if j >= 0}
            active[m] = model.n_outputs + size * len(seen)
        traces = active
        weight = np.where(problem.skip, 0.0, problem.weight if len(problem.weight) else 1.0)
        if model.loss.name == "squared_error":
            with Team(1) as team:
                assert problem.X is not None
                learner = (
                    LineLearner(problem.X, weight, team, 1)
                    if self.base == "linear"
                    else SplineLearner(problem.X, weight, team, 1, df=float(self.df))
                )
                traces = operator_traces(columns[:, 0].tolist(), params.learning_rate, learner)
        return information_criterion(model.loss, model.history.train, traces, active, int((weight > 0.0).sum()))

    # --- results -----------------------------------------------------------------------------------------------------

    def _rows(self, X: Any) -> np.ndarray | Sparse:
        rows = super()._rows(X)
        if self.base == "stump":
            return rows
        matrix = rows.dense() if isinstance(rows, Sparse) else rows
        check_values(matrix)
        return matrix

    @property
    def selected_(self) -> np.ndarray:
        """The column of each stage: (M,), or (M, K) with K > 2 classes; -1 where no column fitted anything."""
        check_fitted(self)
        chosen = np.array([[self._column(term) for term in stage] for stage in self.model_.stages], np.int64)
        return chosen[:, 0] if chosen.shape[1] == 1 else chosen

    @staticmethod
    def _column(term: Any) -> int:
        return int(term.feature[0]) if hasattr(term, "feature") else term.column  # a stump, or a line or spline

    def _lines(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (M, K, n_columns) and intercepts (M, K) after each stage."""
        check_fitted(self)
        if self.base != "linear":
            raise AttributeError(f"a model of base={self.base!r} has no coefficients; only base='linear' has.")
        stages, k = self.model_.stages, self.model_.n_outputs
        slopes, levels = np.zeros((len(stages), k, self.n_features_in_)), np.zeros((len(stages), k))
        for m, stage in enumerate(stages):
            for output, line in enumerate(stage):
                assert isinstance(line, Line)
                levels[m, output] = line.level
                if line.column >= 0:
                    slopes[m, output, line.column] = line.slope
        return np.cumsum(slopes, axis=0), self.model_.initial + np.cumsum(levels, axis=0)

    @property
    def coef_path_(self) -> np.ndarray:
        """Coefficients after each stage: (M, n_columns), or (M, K, n_columns) with K > 2 classes."""
        slopes = self._lines()[0]
        return slopes[:, 0] if slopes.shape[1] == 1 else slopes


class ComponentwiseRegressor(NumberRegressor, _Componentwise):
    """Componentwise boosting, L2Boosting with squared error: at each stage the column that fits best, and it alone.

    Bühlmann and Yu (2003), Bühlmann (2006); ESL 16.2.1 shows how close the path is to the lasso's. Each stage fits the
    negative gradient by simple weighted least squares on every column and adds ν times the best of these fits. Columns
    that are never the best stay out: with base="linear" the model is a sparse linear one.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"} or Loss
        What is minimised.
    base : {"linear", "spline", "stump"}, default "linear"
        What is fitted to a column: a line with intercept; a penalised cubic spline; a tree of two leaves.
    n_estimators : int >= 1, default 100
        M, the number of stages, or the most of them when `stopping` chooses.
    learning_rate : float in (0, 1], default 0.1
    line_search : {"none", "newton", "exact"}, default "none"
        How far to go along the fit before the learning rate, see `StagewiseRegressor`. "none", the whole fit, is right
        for squared error and fine for log-loss; losses whose gradient has other units than f (Poisson, gamma, absolute
        error) want "exact".
    df : float in (1, 20], default 4
        Degrees of freedom of a spline; the penalty of every column is chosen to give that many.
    stopping : None, "aic" or "cv", default None
        How M is chosen: not at all; by the corrected AIC with the trace of the boosting operator (squared error), or
        AIC with the number of parameters in use (Poisson); by cross-validation.
    cv : int >= 2, splitter or list of (training, test) rows, default 5
        Folds of stopping="cv".
    alpha, tweedie_power : of the loss, as in `GradientBoostingRegressor`
    random_state : int, RandomState or None, default None
        Shuffles the folds; None means 0.
    n_jobs, verbose, callbacks : as in `GradientBoostingRegressor`

    Attributes
    ----------
    coef_ : (n_columns,), intercept_ : float, coef_path_ : (M, n_columns)
        With base="linear": raw predictions are intercept_ + X @ coef_.
    selected_ : (M,)
        The column of each stage.
    criterion_path_ : (n_estimators,)
        What `stopping` minimised.
    model_, history_, n_estimators_, n_features_in_, feature_names_in_ : as in `GradientBoostingRegressor`

    Missing values are taken by base="stump" alone.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stagewise import ComponentwiseRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ComponentwiseRegressor(n_estimators=500, stopping="aic").fit(X, y)
    >>> int((model.coef_ != 0).sum())
    8
    """

    def __init__(
        self,
        loss: Any = "squared_error",
        *,
        base: str = "linear",
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        line_search: str = "none",
        df: float = 4.0,
        stopping: str | None = None,
        cv: Any = 5,
        alpha: float = 0.9,
        tweedie_power: float = 1.5,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
    ) -> None:
        self.loss = loss
        self.base = base
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.line_search = line_search
        self.df = df
        self.stopping = stopping
        self.cv = cv
        self.alpha = alpha
        self.tweedie_power = tweedie_power
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    def _loss(self) -> Loss:
        return regression_loss(self.loss, self.alpha, self.tweedie_power)

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients (n_columns,) of base="linear"."""
        return self._lines()[0][-1, 0]

    @property
    def intercept_(self) -> float:
        """Intercept of base="linear"."""
        return float(self._lines()[1][-1, 0])

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, init_score: Any = None) -> Self:
        """Fit to a table and a target; base="stump" takes a Dataset too.

        sample_weight : (n_rows,) non-negative weights; rows of weight 0 take no part.
        init_score : (n_rows,) raw predictions to start from, an offset: `predict` returns what is added to it.
        """
        return self._fit(X, y, sample_weight, init_score)


class ComponentwiseClassifier(LabelClassifier, _Componentwise):
    """Componentwise boosting for classes: see `ComponentwiseRegressor`.

    Parameters
    ----------
    loss : {"log_loss", "exponential"} or Loss
        As in `GradientBoostingClassifier`. With K > 2 classes each of them chooses a column in every stage.
    base, n_estimators, learning_rate, line_search, df, stopping, cv, random_state, n_jobs, verbose, callbacks :
        as in `ComponentwiseRegressor`; stopping="aic" (log-loss) counts the parameters in use
    class_weight, misclassification_cost : as in `GradientBoostingClassifier`

    Attributes
    ----------
    coef_ : (1, n_columns) or (K, n_columns), intercept_ : (1,) or (K,)
    coef_path_ : (M, n_columns) or (M, K, n_columns)
        With base="linear": the decision function is intercept_ + X @ coef_.T.
    selected_ : (M,) or (M, K)
    classes_, criterion_path_, model_, history_, n_estimators_, n_features_in_, feature_names_in_ : as elsewhere
    """

    def __init__(
        self,
        loss: Any = "log_loss",
        *,
        base: str = "linear",
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        line_search: str = "none",
        df: float = 4.0,
        stopping: str | None = None,
        cv: Any = 5,
        class_weight: Any = None,
        misclassification_cost: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
    ) -> None:
        self.loss = loss
        self.base = base
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.line_search = line_search
        self.df = df
        self.stopping = stopping
        self.cv = cv
        self.class_weight = class_weight
        self.misclassification_cost = misclassification_cost
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    def _loss(self) -> Loss:
        self._cost()
        return classification_loss(self.loss, len(self.classes_))

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients (1, n_columns) or (K, n_columns) of base="linear"."""
        return self._lines()[0][-1]

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts (1,) or (K,) of base="linear"."""
        return self._lines()[1][-1]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, init_score: Any = None) -> Self:
        """Fit to a table and labels; base="stump" takes a Dataset too.

        sample_weight : (n_rows,) non-negative weights; rows of weight 0 take no part.
        init_score : (n_rows,) or (n_rows, K) raw predictions to start from.
        """
        return self._keeping_labels(lambda: self._fit(X, y, sample_weight, init_score))
