"""What both estimators share: fit on a cluster, predict on collections."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from distributed import Client, Future, default_client
from sklearn.utils.validation import check_is_fitted

from stagewise.dask.collections import is_collection, partitions_of
from stagewise.dask.crowds import Split, ordered_statistics
from stagewise.dask.fleet import Fleet
from stagewise.dask.member import SPLIT, Job
from stagewise.dask.partitions import (
    Look,
    Plan,
    bin_rows,
    few,
    look,
    merged,
    on_part,
    sample,
    sample_edge,
    weigh,
)
from stagewise.data.binning import SAMPLE_ROWS, Columns, describe, integer_weights
from stagewise.data.categories import MOST_CODES, Levels, pooled
from stagewise.data.dataset import coded_bins
from stagewise.data.leveltables import LevelCounts
from stagewise.data.table import Schema
from stagewise.errors import ClusterError, InputError, ParameterError, TrainingInterrupted
from stagewise.estimators.base import BaseGradientBoosting
from stagewise.kernels.exact import stream_key
from stagewise.params import TreeParams, job_count

__all__ = ["ClusterBoosting"]

_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table in partitions, the rows of each, and what was seen in batches of them."""

    parts: list[tuple[Any, Any, Any, Any, Any]]  # X, y, weight, init_score, target statistics
    rows: list[int]
    looks: list[Look]

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    @property
    def firsts(self) -> list[int]:
        return np.cumsum([0, *self.rows[:-1]]).tolist()


class ClusterBoosting(BaseGradientBoosting):
    """Put before an estimator of stagewise: its `fit` takes collections of Dask."""

    _local_class: Any  # the estimator of one machine

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        init_score: Any = None,
        client: Client | None = None,
    ) -> Self:
        """Fit on the workers of a cluster; the model is the one that a fit on one machine gives, byte for byte.

        X : Dask array, Dask frame, list of delayed frames, or a pattern of Parquet files, which the workers read.
        y, sample_weight, init_score : divided as X is; or the name of a column of X's frames or files.
        eval_set : (X, y), or (X, y, sample_weight[, init_score]), of the same kinds, or small tables of this machine.
        client : by default the current one of `distributed`.
        """
        if self.warm_start:
            raise ParameterError("warm_start is not available on a cluster; use warm_start=False.")
        if client is None:
            try:
                client = default_client()
            except ValueError as error:
                raise ClusterError("There is no Client; make one first: distributed.Client(address).") from error
        self._check_options()
        fleet = Fleet(client)
        table = self._look(fleet, X, y, sample_weight, init_score)
        plan, peak, kept = self._plan(fleet, table)
        loss = self._loss()
        schema = self._schema(table.looks, loss)
        tree, params = self._tree_params(table.n_rows, schema.n_columns), self._boost_params()
        plan = Plan(plan.classes, plan.by_class, plan.weighted, loss.n_outputs, schema)
        if plan.classes is None:
            loss.check_target(np.array([f(own.bounds[k] for own in table.looks) for k, f in ((0, min), (1, max))]))
        classes = 0 if plan.classes is None else len(plan.classes)
        held_out = self.validation_fraction if eval_set is None and params.patience is not None else None
        if any(own is not None and own.by_target for own in schema.levels):
            split = None if held_out is None else Split(stream_key(params.seed, SPLIT), float(held_out), classes)
            schema = _with_statistics(fleet, table, plan, schema, split)
            plan = replace(plan, schema=schema)
        found = self._cuts(fleet, table, plan, peak, kept)
        cuts = tuple(found.cuts)
        watched: Table | None = None
        if eval_set is not None:
            watched = self._look_at_eval(fleet, eval_set, schema, loss, plan)
        binned = _binned(fleet, table, plan, schema, cuts)
        eyes = [] if watched is None else _binned(fleet, watched, _unweighted(plan), schema, cuts)
        callbacks = self._callbacks()
        job = Job(
            fleet.run, cuts, tuple(found.marginals), schema, loss, tree, params, table.n_rows,
            0 if watched is None else watched.n_rows, held_out, classes,
            None if self.n_jobs is None else job_count(self.n_jobs, 1), bool(callbacks),
        )  # fmt: skip
        firsts = table.firsts
        fleet.ready([*binned, *eyes])
        for own in (table, watched):  # values are no longer needed; Dask knows how to compute them again
            if own is not None:
                own.parts.clear()
        model = fleet.boost(binned, firsts, eyes, job, callbacks)
        self._keep(model)
        self.cluster_ = {
            "generations": fleet.generations,
            "bytes_sent": fleet.bytes_sent,
            "histograms": fleet.histograms,
            "lines": fleet.lines,
            "on_disk": fleet.on_disk,
            "frozen": fleet.frozen,
        }
        if fleet.interrupted:
            warnings.warn(
                f"Training was interrupted: the model has {len(model.stages)} of {params.n_estimators} stages and can "
                "be used.",
                TrainingInterrupted,
                stacklevel=2,
            )
        return self

    # --- reading -----------------------------------------------------------------------------------------------------

    def _look(self, fleet: Fleet, X: Any, y: Any, weight: Any, score: Any) -> Table:
        """Partitions that hold rows, all with the same columns."""
        parts = [(*own, None) for own in partitions_of(fleet.client, X, y, weight, score, fleet.results)]
        labels = hasattr(self, "predict_proba")
        futures = [
            fleet.client.submit(on_part, look, *part, labels, self.categorical_features, pure=False) for part in parts
        ]
        looks: list[list[Look]] = fleet.results(futures)
        full = [k for k, own in enumerate(looks) if own]
        if not full:
            raise InputError("Found array with 0 sample(s) while a minimum of 1 is required: every partition is empty.")
        first = looks[full[0]][0]
        for k, batches in enumerate(looks):
            for own in batches:
                if own.schema != first.schema or _coded(own) != _coded(first):
                    raise InputError(
                        f"Partition {k} has other columns ({own.schema}) than partition {full[0]} ({first.schema})."
                    )
        rows = [sum(own.n_rows for own in looks[k]) for k in full]
        table = Table([parts[k] for k in full], rows, [own for batches in looks for own in batches])
        if table.n_rows >= 2**31:
            raise InputError(f"X has {table.n_rows:,} rows; at most 2,147,483,647 can be trained on at once.")
        return table

    def _look_at_eval(self, fleet: Fleet, eval_set: Any, schema: Schema, loss: Any, plan: Plan) -> Table:
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if not isinstance(eval_set, (tuple, list)) or not 2 <= len(eval_set) <= 4:
            raise InputError("eval_set must be (X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score).")
        watched = self._look(fleet, *(*eval_set, None, None)[:4])
        if plan.classes is None:
            loss.check_target(np.array([f(own.bounds[k] for own in watched.looks) for k, f in ((0, min), (1, max))]))
        return watched

    def _schema(self, looks: list[Look], loss: Any) -> Schema:
        """The columns, with the level tables of all partitions together; marked, where they get target statistics."""
        schema = looks[0].schema
        assert schema is not None
        if self.category_encoding == "target" and loss.n_outputs > 1:
            raise ParameterError(
                'category_encoding="target" needs one output; with more than two classes use "auto" or "sets".'
            )
        if not looks[0].levels:
            return schema
        levels: list[Levels | None] = [None] * schema.n_columns
        for j in _coded(looks[0]):
            name = f"Column {schema.names[j]!r}" if schema.names else f"Column {j}"
            counted = LevelCounts(name)
            for own in looks:
                counted.add_counts(*own.levels[j])  # type: ignore[misc]
            whole, rows = counted.finish()
            fewest = {"target": TreeParams().max_onehot, "auto": MOST_CODES}.get(self.category_encoding)
            by_target = fewest is not None and len(whole.values) > fewest and loss.n_outputs == 1
            levels[j] = replace(whole, by_target=True) if by_target else pooled(whole, rows)
        return replace(schema, levels=tuple(levels))

    def _classes(self, looks: list[Look]) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Labels of all partitions, and the weights that class_weight gives them; sets classes_."""
        return None, None

    def _plan(self, fleet: Fleet, table: Table) -> tuple[Plan, float, list[int]]:
        """How to read y and weights; the largest weight; and how many rows of each partition cut points depend on."""
        classes, by_class = self._classes(table.looks)
        rows = table.rows
        weighted = table.parts[0][2] is not None or by_class is not None
        if not weighted:
            return Plan(classes, by_class, False), 1.0, rows
        plan = Plan(classes, by_class, True)
        weighed = fleet.results(_tasks(fleet, table, weigh, plan))
        least, most = min(own[1] for own in weighed), max(own[2] for own in weighed)
        if most == 0.0:
            raise InputError("Sample weights must contain at least one non-zero number: all weights are zero.")
        if least == most:  # as good as none
            return Plan(classes, by_class, False), most, rows
        return plan, most, [own[0] for own in weighed]

    def _cuts(self, fleet: Fleet, table: Table, plan: Plan, peak: float, kept: list[int]) -> Columns:
        """Cut points and distribution of every column: those of data/binning.py, from the same sample."""
        n_rows, max_bins = sum(kept), self.max_bins
        edge = sample_edge(n_rows)
        firsts = np.cumsum([0, *kept[:-1]]).tolist()
        futures = [
            fleet.client.submit(on_part, sample, *part, plan, first, edge, pure=False)
            for part, first in zip(table.parts, firsts, strict=True)
        ]
        cells, weights = zip(*fleet.results(futures), strict=True)
        del futures
        weight = _NO_ROWS if not plan.weighted else integer_weights(np.concatenate(weights), n_rows, peak)
        matrix = np.ascontiguousarray(np.concatenate(cells))
        found = describe(matrix, _NO_ROWS, weight, max_bins, 1)
        assert plan.schema is not None
        in_sets = plan.schema.in_sets
        rare = [j for j, n in enumerate(found.n_distinct) if in_sets[j] or (n <= max_bins and n_rows > SAMPLE_ROWS)]
        if rare:  # few distinct values in the sample: look at all rows, so that rare values keep their own bins
            seen = fleet.results(_tasks(fleet, table, few, plan, rare, n_rows, peak))
            for k, j in enumerate(rare):
                values, counts = (np.concatenate(own) for own in zip(*(part[k] for part in seen), strict=True))
                values, counts = merged(values, counts)
                if in_sets[j]:
                    found.cuts[j], found.marginals[j] = coded_bins(plan.schema.levels[j], values, counts)
                    continue
                whole = describe(values[:, None], _NO_ROWS, counts, max_bins, 1)
                found.cuts[j], found.marginals[j] = whole.cuts[0], whole.marginals[0]
        return found

    # --- predicting --------------------------------------------------------------------------------------------------

    def to_local(self) -> Any:
        """The same model as an estimator of stagewise itself."""
        check_is_fitted(self)
        local = self._local_class(**self.get_params(deep=False))
        for name, value in vars(self).items():
            if name.endswith("_") and name != "cluster_":
                setattr(local, name, value)
        return local

    def _lazily(self, method: str, X: Any, width: int | None, dtype: Any) -> Any:
        """A method of the local estimator on every partition of X, when it is asked for."""
        local = self.to_local()
        if not is_collection(X):
            return getattr(local, method)(X)
        if hasattr(X, "chunks"):
            X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
            if width is None:
                return X.map_blocks(_call, local, method, drop_axis=1, dtype=dtype, meta=np.empty(0, dtype))
            return X.map_blocks(
                _call, local, method, chunks=(X.chunks[0], (width,)), dtype=dtype, meta=np.empty((0, 0), dtype)
            )
        import pandas as pd

        if width is None:
            meta: Any = pd.Series([], dtype=dtype, name=method)
        else:
            meta = pd.DataFrame(np.empty((0, width), dtype), columns=list(getattr(self, "classes_", range(width))))
        return X.map_partitions(_call_on_frame, local, method, meta, meta=meta)


def _coded(own: Look) -> list[int]:
    """The columns that hold categories."""
    return [j for j, levels in enumerate(own.levels) if levels is not None]


def _unweighted(plan: Plan) -> Plan:
    """Validation samples have no class weights."""
    return Plan(plan.classes, None, False, plan.n_outputs)


def _tasks(fleet: Fleet, table: Table, function: Callable[..., Any], *args: Any) -> list[Future]:
    return [fleet.client.submit(on_part, function, *part, *args, pure=False) for part in table.parts]


def _with_statistics(fleet: Fleet, table: Table, plan: Plan, schema: Schema, split: Split | None) -> Schema:
    """Every partition gets its statistics, and the level tables theirs."""
    rows, schema = ordered_statistics(fleet, table.parts, table.firsts, plan, schema, split)
    table.parts[:] = [(*part[:4], own) for part, own in zip(table.parts, rows, strict=True)]
    return schema


def _binned(fleet: Fleet, table: Table, plan: Plan, schema: Schema, cuts: tuple[np.ndarray, ...]) -> list[Future]:
    """The codes of every partition, which stay on the workers."""
    return [
        fleet.client.submit(on_part, bin_rows, *part, plan, schema, cuts, rows, table.n_rows, pure=False)
        for part, rows in zip(table.parts, table.rows, strict=True)
    ]


def _call(block: Any, local: Any, method: str) -> Any:
    if block.shape[0] == 0:
        return getattr(local, method)(np.zeros((1, local.n_features_in_)))[:0]
    return getattr(local, method)(block)


def _call_on_frame(frame: Any, local: Any, method: str, meta: Any) -> Any:
    import pandas as pd

    if len(frame) == 0:
        return meta
    out = getattr(local, method)(frame)
    if out.ndim == 1:
        return pd.Series(out, index=frame.index, name=meta.name)
    return pd.DataFrame(out, index=frame.index, columns=meta.columns)
