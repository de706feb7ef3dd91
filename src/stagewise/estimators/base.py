"""What both gradient boosting estimators share: parameters, reading the data, fitting, raw predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from stagewise.backends.cpu import threads_for
from stagewise.boosting.loop import Problem, Validation, boost
from stagewise.boosting.methods import gradient_boosting
from stagewise.boosting.model import Model
from stagewise.boosting.sampling import smallest_hashes
from stagewise.data.dataset import Dataset, bin_table
from stagewise.data.table import Table, read_table
from stagewise.data.target import read_init_score, read_weights
from stagewise.errors import InputError, ParameterError
from stagewise.estimators.table import TableEstimator
from stagewise.kernels.exact import stream_key
from stagewise.kernels.team import available_cores
from stagewise.losses.base import Loss
from stagewise.params import BoostParams, TreeParams, check_choice, check_count, check_number, job_count

__all__ = ["BaseGradientBoosting"]

_SPLIT = 0x76616C69  # "vali": the hash stream of the validation split
_NO_ROWS = np.empty(0, np.uint32)


class BaseGradientBoosting(TableEstimator):
    """Parameters and machinery; the subclasses say what y means."""

    # --- what a subclass says ----------------------------------------------------------------------------------------

    def _read_y(self, y: Any, n_rows: int) -> np.ndarray:
        """y as float64 numbers (class numbers for a classifier); sets classes_."""
        raise AssertionError("each estimator reads its own y")

    def _read_eval_y(self, y: Any, n_rows: int) -> np.ndarray:
        raise AssertionError("each estimator reads its own y")

    def _loss(self) -> Loss:
        raise AssertionError("each estimator has its own losses")

    def _strata(self, y: np.ndarray) -> list[np.ndarray]:
        """Row masks within which the validation sample is drawn."""
        return [np.ones(len(y), np.bool_)]

    def _adjust_weights(self, weight: np.ndarray | None, y: np.ndarray) -> np.ndarray | None:
        return weight

    def _trimming(self) -> Any:
        """α of influence trimming."""
        return 0.0

    # --- fitting -----------------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any, eval_set: Any, init_score: Any) -> Self:
        n_jobs = job_count(self.n_jobs, available_cores())
        table, dataset, y, sample_weight = self._read_table(X, y, sample_weight)
        n, f = (dataset or table).n_rows, (dataset or table).n_columns  # type: ignore[union-attr]
        target = self._read_y(y, n)
        self._check_options()
        tree, params = self._tree_params(n, f), self._boost_params()
        loss = self._loss()
        loss.check_target(target)
        weight = self._adjust_weights(read_weights(sample_weight, n), target)
        if dataset is None:
            dataset = Dataset(table, None, weight, max_bins=self.max_bins, n_jobs=n_jobs)
        before = self._before(loss, params, dataset)
        offset = read_init_score(init_score, n, loss.n_outputs)
        skip = np.zeros(n, np.bool_) if weight is None else weight == 0.0
        held_out = None
        if eval_set is not None:
            held_out = self._eval_validation(eval_set, dataset, loss, before, n_jobs)
        elif params.patience is not None and self.validation_fraction is not None:
            held_out, skip = self._split_validation(dataset, target, weight, offset, skip, params.seed)
        raw = None
        if before is not None:
            raw = self._raw_before(before, table, offset, n_jobs)
            if held_out is not None and eval_set is None:
                held_out = replace(held_out, raw=raw[:, held_out.index].copy())
        problem = Problem(
            bins=dataset.bins,
            cuts=dataset.cuts,
            marginals=dataset.marginals,
            schema=dataset.schema,
            loss=loss,
            y=target,
            weight=np.empty(0) if weight is None else weight,
            skip=skip,
            offset=offset,
            validation=held_out,
            before=before,
            raw=raw,
        )
        method = gradient_boosting(tree)
        model = boost(problem, method, params, self._callbacks(), threads_for(n, f, tree, n_jobs))
        self._keep(model)
        return self

    def _tree_params(self, n_rows: int, n_columns: int) -> TreeParams:
        return TreeParams.check(
            growth=self.growth,
            max_leaf_nodes=self.max_leaf_nodes,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            min_child_weight=self.min_child_weight,
            min_split_gain=self.min_split_gain,
            l1_regularization=self.l1_regularization,
            l2_regularization=self.l2_regularization,
            max_features=self.max_features,
            max_features_tree=self.max_features_tree,
            n_rows=n_rows,
            n_columns=n_columns,
        )

    def _boost_params(self) -> BoostParams:
        return BoostParams.check(
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            subsample=self.subsample,
            criterion=self.criterion,
            early_stopping=self.early_stopping,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            seed=self._seed(),
            influence_trimming=self._trimming(),
        )

    def _check_options(self) -> None:
        """Range checks of what no record holds."""
        check_count("max_bins", self.max_bins, 2, 255)
        check_choice("sampling", self.sampling, ("uniform",))
        if self.validation_fraction is not None:
            check_number("validation_fraction", self.validation_fraction, 0.0, 1.0, low_open=True, high_open=True)
        if not isinstance(self.warm_start, (bool, np.bool_)):
            raise ParameterError(f"warm_start={self.warm_start!r} must be True or False.")
        self._check_watchers()

    # --- validation sample -------------------------------------------------------------------------------------------

    def _split_validation(
        self,
        dataset: Dataset,
        y: np.ndarray,
        weight: np.ndarray | None,
        offset: np.ndarray | None,
        skip: np.ndarray,
        seed: int,
    ) -> tuple[Validation, np.ndarray]:
        """Hold a share of the rows out, chosen by hashed row numbers within each class: no copy of the bins."""
        chosen = np.zeros(len(y), np.bool_)
        for stratum in self._strata(y):
            eligible = stratum & ~skip
            wanted = round(self.validation_fraction * int(eligible.sum()))
            if wanted:
                rows, _ = smallest_hashes(stream_key(seed, _SPLIT), ~eligible, wanted)
                chosen[rows] = True
        if not chosen.any() or not (~skip & ~chosen).any():
            raise InputError(
                f"validation_fraction={self.validation_fraction} of {len(y)} rows leaves an empty training or "
                "validation sample; use more rows, another share, or give eval_set."
            )
        rows = np.flatnonzero(chosen).astype(np.uint32)
        validation = Validation(
            dataset.bins,
            rows,
            y[rows],
            np.empty(0) if weight is None else weight[rows],
            None if offset is None else offset[:, rows].copy(),
            None,
        )
        return validation, skip | chosen

    def _eval_validation(
        self, eval_set: Any, dataset: Dataset, loss: Loss, before: Model | None, n_jobs: int
    ) -> Validation:
        """eval_set: (X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score); or a list with one of these."""
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        several = isinstance(eval_set, list) and any(isinstance(part, tuple) for part in eval_set)
        if several or not isinstance(eval_set, (tuple, list)) or not 2 <= len(eval_set) <= 4:
            raise InputError("eval_set must be (X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score).")
        X, y, weight, score = (*eval_set, None, None)[:4]
        table = read_table(X, like=dataset.schema, estimator_name=type(self).__name__)
        target = self._read_eval_y(y, table.n_rows)
        loss.check_target(target)
        weights = read_weights(weight, table.n_rows)
        offset = read_init_score(score, table.n_rows, loss.n_outputs)
        raw = None
        if before is not None:
            raw = before.raw(table.to_matrix(), n_jobs, offset)
        bins = bin_table(table, dataset.cuts, n_jobs)
        return Validation(bins, _NO_ROWS, target, np.empty(0) if weights is None else weights, offset, raw)

    # --- warm start --------------------------------------------------------------------------------------------------

    def _before(self, loss: Loss, params: BoostParams, dataset: Dataset) -> Model | None:
        """The model to go on from, when warm_start asks for it."""
        if not self.warm_start or not hasattr(self, "model_"):
            return None
        before: Model = self.model_
        if before.n_outputs != loss.n_outputs or repr(before.loss) != repr(loss):
            raise ParameterError(
                f"warm_start cannot go on from a model of another loss ({before.loss!r}, now {loss!r})."
            )
        if before.schema.n_columns != dataset.n_columns:
            raise InputError(
                f"warm_start goes on from a model of {before.schema.n_columns} columns, but X has {dataset.n_columns}."
            )
        if params.n_estimators < len(before.stages):
            raise ParameterError(
                f"n_estimators={params.n_estimators} must be at least the {len(before.stages)} stages that the model "
                "has when warm_start=True; set it higher, or use warm_start=False to start afresh."
            )
        return before

    def _raw_before(self, before: Model, table: Table | None, offset: np.ndarray | None, n_jobs: int) -> np.ndarray:
        if table is None:
            raise InputError("warm_start needs the values of X, which a Dataset does not keep; pass X and y instead.")
        return before.raw(table.to_matrix(), n_jobs, offset)
