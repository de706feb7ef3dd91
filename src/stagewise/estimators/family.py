"""What the estimators beside GradientBoosting* share: from a table and a method to a fitted model."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from stagewise.backends.forerunner import send_ahead
from stagewise.backends.pace import threads_for
from stagewise.boosting.loop import Method, Problem, boost
from stagewise.data.categories import FROM_DTYPE
from stagewise.data.dataset import Dataset
from stagewise.data.table import Table, read_table
from stagewise.data.target import read_init_score, read_weights
from stagewise.errors import InputError, ParameterError
from stagewise.estimators.table import TableEstimator
from stagewise.kernels.histogram import Bins
from stagewise.kernels.team import available_cores
from stagewise.learners.foreign import check_foreign, takes_missing
from stagewise.losses.base import Loss
from stagewise.params import BoostParams, TreeParams, check_count, job_count

__all__ = ["BaseFamily"]

_NO_ROWS = np.empty(0, np.uint32)
_OUR_TREES = ("max_leaf_nodes", "max_depth", "min_samples_leaf", "max_bins")


class BaseFamily(TableEstimator):
    """Reads the data, then runs the method that the subclass puts together.

    A subclass has the parameters n_estimators and learning_rate and may have `estimator`, subsample, max_leaf_nodes,
    max_depth, min_samples_leaf and max_bins.
    """

    # --- what a subclass says ----------------------------------------------------------------------------------------

    def _read_y(self, y: Any, n_rows: int) -> np.ndarray:
        """y as float64 numbers (class numbers for a classifier); sets classes_."""
        raise AssertionError("each estimator reads its own y")

    def _loss(self) -> Loss:
        raise AssertionError("each estimator has its own losses")

    def _method(self, tree: TreeParams) -> Method:
        raise AssertionError("each estimator is a method of its own")

    def _adjust_weights(self, weight: np.ndarray | None, y: np.ndarray) -> np.ndarray | None:
        return weight

    def _on_bins(self) -> bool:
        """Whether the learner is a tree of our own."""
        return self.estimator is None

    def _check_estimator(self) -> None:
        """A foreign learner must be a regressor (or classifier), and has its settings in itself."""
        if self.estimator is None:
            return
        check_foreign(self.estimator, classifier=False)
        self._check_own_trees(f"estimator={type(self.estimator).__name__}")

    def _check_own_trees(self, given: str) -> None:
        """Raise for settings of our own trees that nothing would look at."""
        defaults = type(self)().get_params(deep=False)
        for name in _OUR_TREES:
            if name in defaults and getattr(self, name) != defaults[name]:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r} is a setting of our own trees, which {given} does not use; leave "
                    "it out."
                )

    # --- fitting -----------------------------------------------------------------------------------------------------

    def _read_new(self, X: Any) -> Table:
        """Our own trees take categories, by the types of the columns; other learners take numbers only."""
        return read_table(X, categorical=FROM_DTYPE if self._on_bins() else None)

    def _boost_params(self) -> BoostParams:
        return BoostParams.check(
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            subsample=getattr(self, "subsample", 1.0),
            criterion="friedman_mse",
            early_stopping=False,
            n_iter_no_change=None,
            tol=0.0,
            seed=self._seed() if self._on_bins() else 0,  # a foreign learner draws its seeds from random_state itself
        )

    def _tree_params(self, n_rows: int, n_columns: int) -> TreeParams:
        return TreeParams.check(
            growth="leafwise",
            max_leaf_nodes=getattr(self, "max_leaf_nodes", None),
            max_depth=getattr(self, "max_depth", None),
            min_samples_leaf=getattr(self, "min_samples_leaf", 1),
            min_child_weight=self._min_child_weight(),
            min_split_gain=0.0,
            l1_regularization=0.0,
            l2_regularization=0.0,
            max_features=None,
            max_features_tree=None,
            n_rows=n_rows,
            n_columns=n_columns,
        )

    def _min_child_weight(self) -> float:
        return 0.0

    def _threads(self, n_rows: int, n_columns: int, n_jobs: int) -> int:
        """Threads of our own work where no trees are grown: a foreign learner has its own."""
        return 1

    def _foreign_seed(self) -> Any:
        """What clones of a foreign learner get their seeds from."""
        return 0 if self.random_state is None else self.random_state

    def _fit(self, X: Any, y: Any, sample_weight: Any, init_score: Any = None) -> Self:
        problem, tree, params, threads = self._problem(X, y, sample_weight, init_score)
        self._keep(boost(problem, self._method(tree), params, self._callbacks(), threads))
        return self

    def _problem(
        self, X: Any, y: Any, sample_weight: Any, init_score: Any
    ) -> tuple[Problem, TreeParams, BoostParams, int]:
        """Everything checked and read."""
        n_jobs = job_count(self.n_jobs, available_cores())
        table, dataset, y, sample_weight = self._read_table(X, y, sample_weight)
        n, f = (dataset or table).n_rows, (dataset or table).n_columns  # type: ignore[union-attr]
        target = self._read_y(y, n)
        self._check_watchers()
        self._check_estimator()
        tree, params = self._tree_params(n, f), self._boost_params()
        if self._on_bins():
            send_ahead(tree, (dataset or table).schema.in_sets, n_jobs)  # type: ignore[union-attr]
        loss = self._loss()
        loss.check_target(target)
        weight = self._adjust_weights(read_weights(sample_weight, n), target)
        values, threads = None, self._threads(n, f, n_jobs)
        if self._on_bins():
            max_bins = check_count("max_bins", getattr(self, "max_bins", 255), 2, 255)
            if dataset is None:
                dataset = Dataset(table, None, weight, max_bins=max_bins, n_jobs=n_jobs)
            bins, cuts, schema, marginals = dataset.bins, dataset.cuts, dataset.schema, dataset.marginals
            threads = threads_for(n, len(bins.n_bins), tree, n_jobs)
        elif table is None:
            raise InputError("this learner needs the values of X, which a Dataset does not keep; pass X and y instead.")
        else:
            values, schema = table.to_matrix(), table.schema
            none = np.empty(0, np.uint8)
            bins, cuts, marginals = Bins(none, np.empty((0, n), np.uint8), np.empty(0, np.int64), 4), (), ()
        problem = Problem(
            bins=bins,
            cuts=cuts,
            marginals=marginals,
            schema=schema,
            loss=loss,
            y=target,
            weight=np.empty(0) if weight is None else weight,
            skip=np.zeros(n, np.bool_) if weight is None else weight == 0.0,
            offset=read_init_score(init_score, n, loss.n_outputs),
            validation=None,
            before=None,
            raw=None,
            X=values,
            rows=_NO_ROWS if dataset is None or dataset.rows is None else dataset.rows,
        )
        return problem, tree, params, threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_missing()
        return tags

    def _takes_missing(self) -> bool:
        foreign = getattr(self, "estimator", None)
        return foreign is None or (not isinstance(foreign, type) and hasattr(foreign, "fit") and takes_missing(foreign))
