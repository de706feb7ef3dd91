"""What both gradient boosting estimators share: parameters, reading the data, fitting, raw predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from stagewise.backends.forerunner import send_ahead
from stagewise.backends.pace import threads_for
from stagewise.boosting.binned import binned_raw
from stagewise.boosting.checkpoint import open_checkpoints
from stagewise.boosting.loop import Problem, Validation, boost
from stagewise.boosting.methods import gradient_boosting
from stagewise.boosting.model import Model
from stagewise.boosting.sampling import smallest_hashes
from stagewise.data.categories import MOST_CODES, Levels, level_index
from stagewise.data.dataset import Dataset, bin_table
from stagewise.data.leveltables import Crowd
from stagewise.data.table import Schema, Table, read_table
from stagewise.data.target import read_init_score, read_weights
from stagewise.errors import InputError, ParameterError
from stagewise.estimators.joining import check_fitted
from stagewise.estimators.table import TableEstimator
from stagewise.kernels.exact import stream_key
from stagewise.kernels.team import available_cores
from stagewise.learners.refit import Structure
from stagewise.losses.base import Loss
from stagewise.losses.linked import link_of
from stagewise.params import BoostParams, TreeParams, check_choice, check_count, check_number, job_count

__all__ = ["BaseGradientBoosting", "Keeping"]

_SPLIT = 0x76616C69  # "vali": the hash stream of the validation split
_NO_ROWS = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Keeping:
    """The options of fit that are about checkpoints: see the estimators' fit."""

    checkpoint: Any = None
    every: Any = 10
    resume: Any = True


_NOTHING_KEPT = Keeping()


def _source(init_model: Any, estimator: BaseGradientBoosting) -> Any:
    """The fitted estimator or Model to go on from; None when there is none."""
    if init_model is None:
        return None
    if estimator.warm_start and hasattr(estimator, "model_"):
        raise ParameterError("init_model and warm_start both name a model to go on from; use one of them.")
    if not isinstance(getattr(init_model, "model_", init_model), Model):
        raise ParameterError(
            f"init_model={type(init_model).__name__} must be a fitted estimator of stagewise or a Model; load a file "
            "with stagewise.load first."
        )
    return init_model


class BaseGradientBoosting(TableEstimator):
    """Parameters and machinery; the subclasses say what y means."""

    _first: Any = None  # during a fit: what init_model names

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

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, eval_set: Any, init_score: Any, kept: Keeping = _NOTHING_KEPT
    ) -> Self:
        checkpoints = open_checkpoints(kept.checkpoint, kept.every, kept.resume)
        n_jobs = job_count(self.n_jobs, available_cores())
        table, dataset, y, sample_weight = self._read_table(X, y, sample_weight)
        n, f = (dataset or table).n_rows, (dataset or table).n_columns  # type: ignore[union-attr]
        target = self._read_y(y, n)
        self._check_options()
        tree, params = self._tree_params(n, f), self._boost_params()
        send_ahead(tree, (dataset or table).schema.in_sets, n_jobs)  # type: ignore[union-attr]
        loss = self._loss()
        loss.check_target(target)
        weight = self._adjust_weights(read_weights(sample_weight, n), target)
        if dataset is None:
            dataset = Dataset(table, None, weight, max_bins=self.max_bins, n_jobs=n_jobs)
        before = self._before(loss, params, dataset)
        skip = np.zeros(n, np.bool_) if weight is None else weight == 0.0
        rows = _NO_ROWS
        if eval_set is None and params.patience is not None and self.validation_fraction is not None:
            rows, skip = self._split_validation(target, skip, params.seed)
        if before is not None and table is None and dataset.following(before.schema, before.cuts, n_jobs) is None:
            raise InputError("The categories of the Dataset have other codes than those of the model to go on from.")
        crowds = self._crowds(dataset, table, before, loss, tree)
        given = dataset
        made: dict[int, tuple[Levels, np.ndarray]] = {}
        if crowds:
            dataset, made = dataset.by_target(crowds, target, weight, ~skip, n_jobs)
            table = None if table is None else table.with_columns(made)
        if before is not None and self._first is not None:  # n_estimators further stages
            params = replace(params, n_estimators=len(before.stages) + params.n_estimators)
        offset = read_init_score(init_score, n, loss.n_outputs)
        held_out = None
        if eval_set is not None:
            held_out = self._eval_validation(eval_set, dataset, loss, before, n_jobs)
        elif len(rows):
            weights = np.empty(0) if weight is None else weight[rows]
            scores = None if offset is None else offset[:, rows].copy()
            places = rows if dataset.rows is None else dataset.rows[rows]
            held_out = Validation(dataset.bins, places, target[rows], weights, scores, None)
        raw = None
        if before is not None:
            if table is None:
                raw = binned_raw(before, given, n_jobs, offset, {j: own for j, (_, own) in made.items()})
            else:
                raw = before.raw(table.rows(), n_jobs, offset)
            if held_out is not None and eval_set is None:
                held_out = replace(held_out, raw=raw[:, rows].copy())
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
            rows=_NO_ROWS if dataset.rows is None else dataset.rows,
        )
        method, threads = gradient_boosting(tree), threads_for(n, len(dataset.bins.n_bins), tree, n_jobs)
        model = boost(problem, method, params, self._callbacks(), threads, checkpoints)
        self._keep(model)
        return self

    def _read_new(self, X: Any) -> Table:
        """As `_read_table`; a model to go on from brings its level tables and what zeros mean, and a column stays what
        it was there."""
        going_on = self.warm_start and hasattr(self, "model_")
        first: Any = self if self._first is None and going_on else self._first
        if first is None:
            return super()._read_new(X)
        schema: Schema = getattr(first, "model_", first).schema
        if schema.coded:
            return read_table(X, like=schema.numbered(), estimator_name=type(self).__name__)
        table = read_table(X, zeros_missing=schema.zeros_missing)
        if table.n_columns == schema.n_columns:  # otherwise `_before` says what is wrong
            schema.check(table, type(self).__name__)
        return table

    @contextmanager
    def _going_on_from(self, init_model: Any) -> Iterator[None]:
        """Remembers init_model while a fit lasts."""
        self._first = _source(init_model, self)
        try:
            yield
        finally:
            del self._first

    def refit(self, X: Any, y: Any, sample_weight: Any = None, *, decay: float = 0.9) -> Self:
        """The same trees with their leaves fitted to other data: a new estimator; this one stays as it is.

        Every leaf becomes decay · old + (1 - decay) · new, stage after stage, and so does the constant; "new" is what a
        fit would give the leaf on the rows that reach it. A leaf that no row reaches keeps its value. decay=0 forgets
        the old values. Splits, thresholds and gains stay; counts and weights are those of the new rows.
        """
        check_fitted(self)
        share = check_number("decay", decay, 0.0, 1.0)
        old: Model = self.model_
        made = copy(self)
        table = read_table(X, like=old.schema, estimator_name=type(self).__name__)
        n, f = table.n_rows, table.n_columns
        n_jobs = job_count(self.n_jobs, available_cores())
        target = self._read_eval_y(y, n)
        old.loss.check_target(target)
        weight = self._adjust_weights(read_weights(sample_weight, n), target)
        tree = self._tree_params(n, f)
        params = replace(
            self._boost_params(), n_estimators=len(old.stages), subsample=1.0, sampling="uniform", patience=None
        )
        dataset = Dataset(table, None, weight, max_bins=2, n_jobs=n_jobs)  # bins are not looked at
        problem = Problem(
            bins=dataset.bins,
            cuts=dataset.cuts,
            marginals=old.marginals,
            schema=old.schema,
            loss=old.loss,
            y=target,
            weight=np.empty(0) if weight is None else weight,
            skip=np.zeros(n, np.bool_) if weight is None else weight == 0.0,
            offset=None,
            validation=None,
            before=None,
            raw=None,
            structure=Structure(old.stages, old.initial, table.rows(), share),
        )
        made._keep(replace(boost(problem, gradient_boosting(tree), params, [], n_jobs), cuts=old.cuts))
        return made

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
            sampling=self.sampling,
            goss_top=self.goss_top,
            goss_rest=self.goss_rest,
        )

    def _check_options(self) -> None:
        """Range checks of what no record holds."""
        check_count("max_bins", self.max_bins, 2, 255)
        check_choice("category_encoding", self.category_encoding, ("auto", "sets", "target"))
        if self.validation_fraction is not None:
            check_number("validation_fraction", self.validation_fraction, 0.0, 1.0, low_open=True, high_open=True)
        if not isinstance(self.warm_start, (bool, np.bool_)):
            raise ParameterError(f"warm_start={self.warm_start!r} must be True or False.")
        self._check_watchers()

    # --- categories --------------------------------------------------------------------------------------------------

    def _crowds(
        self, dataset: Dataset, table: Table | None, before: Model | None, loss: Loss, tree: TreeParams
    ) -> dict[int, Crowd]:
        """The columns that get target statistics, with their levels."""
        if before is not None:  # they stay what they were
            own = {
                j: levels for j, levels in enumerate(before.schema.levels) if levels is not None and levels.by_target
            }
            if table is None:
                return {j: Crowd(levels, dataset.crowd(j).level) for j, levels in own.items()}
            return {j: Crowd(levels, level_index(table.column(j))) for j, levels in own.items()}
        chosen: Iterable[int] = ()
        if self.category_encoding == "target":
            if loss.n_outputs > 1:
                raise ParameterError(
                    'category_encoding="target" needs one output; with more than two classes use "auto" or "sets".'
                )
            if dataset.schema.levels:  # a table without categories may be bundled, and then has fewer bins than columns
                chosen = np.flatnonzero(dataset.schema.in_sets & (dataset.bins.n_bins > tree.max_onehot)).tolist()
        elif self.category_encoding == "auto" and loss.n_outputs == 1:
            chosen = dataset.crowds
        return {j: dataset.crowd(j) for j in chosen}

    # --- validation sample -------------------------------------------------------------------------------------------

    def _split_validation(self, y: np.ndarray, skip: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Hold a share of the rows out, chosen by hashed row numbers within each class; these, and all that are not
        trained on."""
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
        return np.flatnonzero(chosen).astype(np.uint32), skip | chosen

    def _eval_validation(
        self, eval_set: Any, dataset: Dataset, loss: Loss, before: Model | None, n_jobs: int
    ) -> Validation:
        """eval_set: (X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score); a Dataset with the training
        data's cut points; or a list with one of these."""
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if isinstance(eval_set, Dataset):
            return self._eval_dataset(eval_set, dataset, loss, before, n_jobs)
        several = isinstance(eval_set, list) and any(isinstance(part, tuple) for part in eval_set)
        if several or not isinstance(eval_set, (tuple, list)) or not 2 <= len(eval_set) <= 4:
            raise InputError(
                "eval_set must be (X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score), or a Dataset."
            )
        X, y, weight, score = (*eval_set, None, None)[:4]
        table = read_table(X, like=dataset.schema, estimator_name=type(self).__name__)
        target = self._read_eval_y(y, table.n_rows)
        loss.check_target(target)
        weights = read_weights(weight, table.n_rows)
        offset = read_init_score(score, table.n_rows, loss.n_outputs)
        raw = None
        if before is not None:
            raw = before.raw(table.rows(), n_jobs, offset)
        bins = bin_table(table, dataset.cuts, n_jobs)
        return Validation(bins, _NO_ROWS, target, np.empty(0) if weights is None else weights, offset, raw)

    def _eval_dataset(
        self, given: Dataset, dataset: Dataset, loss: Loss, before: Model | None, n_jobs: int
    ) -> Validation:
        dataset.schema.check_zeros(given.schema, "the training data")
        own = given.following(dataset.schema, dataset.cuts, n_jobs)
        if own is None or not own.same_cuts(dataset):
            raise InputError(
                "eval_set is a Dataset with other cut points or categories than the training data; use a subset of the "
                "Dataset that is fitted, make it with Dataset(X, y, like=...), or give (X, y)."
            )
        dataset.schema.check_names(given.names, given.n_columns, type(self).__name__)
        target = self._read_eval_y(given.y, given.n_rows)
        loss.check_target(target)
        weights = read_weights(given.sample_weight, given.n_rows)
        raw = None if before is None else binned_raw(before, given, n_jobs)
        index = _NO_ROWS if own.rows is None else own.rows
        return Validation(own.bins, index, target, np.empty(0) if weights is None else weights, None, raw)

    # --- warm start --------------------------------------------------------------------------------------------------

    def _before(self, loss: Loss, params: BoostParams, dataset: Dataset) -> Model | None:
        """The model to go on from, when warm_start or init_model asks for it."""
        first = self._first
        if first is None and (not self.warm_start or not hasattr(self, "model_")):
            return None
        before: Model = self.model_ if first is None else getattr(first, "model_", first)
        how = "warm_start" if first is None else "init_model"
        link = link_of(loss)
        same = repr(before.loss) == repr(loss) or (
            first is not None and link is not None and link == link_of(before.loss)
        )
        if before.n_outputs != loss.n_outputs or not same:
            raise ParameterError(f"{how} cannot go on from a model of another loss ({before.loss!r}, now {loss!r}).")
        if before.schema.n_columns != dataset.n_columns:
            raise InputError(
                f"{how} goes on from a model of {before.schema.n_columns} columns, but X has {dataset.n_columns}."
            )
        if before.schema.names is not None and dataset.names is not None:  # trees know columns by their place
            before.schema.check_names(dataset.names, dataset.n_columns, type(self).__name__)
        if not before.of_trees:
            raise ParameterError(f"{how} goes on from a model of trees, but this one has terms of another kind.")
        if any(own is not None and own.n_codes > MOST_CODES for own in before.schema.levels):
            raise InputError(
                f"{how} cannot go on from an imported model with more than {MOST_CODES} codes in a column."
            )
        if first is None and params.n_estimators < len(before.stages):
            raise ParameterError(
                f"n_estimators={params.n_estimators} must be at least the {len(before.stages)} stages that the model "
                "has when warm_start=True; set it higher, or use warm_start=False to start afresh."
            )
        return before
