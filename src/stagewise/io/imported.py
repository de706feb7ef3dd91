"""An estimator of ours around the trees of another library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.boosting.model import History, Model
from stagewise.data.categories import Levels, column_cells, learn
from stagewise.data.table import Schema
from stagewise.errors import InputError
from stagewise.estimators.classification import GradientBoostingClassifier
from stagewise.estimators.regression import GradientBoostingRegressor
from stagewise.io.grove import Grove, column_cuts, plant
from stagewise.losses.base import Loss
from stagewise.losses.classification import Exponential, LogLoss, MulticlassLogLoss
from stagewise.losses.linked import Linked
from stagewise.losses.regression import Huber, Quantile, Tweedie
from stagewise.tree.tree import Tree

__all__ = ["MOST_COLUMNS", "MOST_OUTPUTS", "Source", "estimator_of", "level_table"]

MOST_COLUMNS = 1 << 20
"""Columns of a model that is imported, at the most."""

MOST_OUTPUTS = 10_000


@dataclass(frozen=True, slots=True)
class Source:
    """What a reader found out about a model."""

    what: str  # for messages
    loss: Loss
    classifier: bool
    initial: np.ndarray  # (n_outputs,)
    grove: Grove
    output: np.ndarray  # int64 (n_trees): which output each tree adds to
    n_columns: int
    names: tuple[str, ...] | None
    classes: Any = None  # labels, when the source knows them
    rate: float | None = None
    average: bool = False  # predictions are the mean over stages, not the sum
    levels: tuple[Levels | None, ...] = ()  # level tables of categories, when the source knows them


def estimator_of(source: Source, classes: Any = None) -> Any:
    """A fitted GradientBoostingClassifier or GradientBoostingRegressor that predicts as the source does."""
    k, what = len(source.initial), source.what
    if not 1 <= source.n_columns <= MOST_COLUMNS:
        raise InputError(f"{what} has {source.n_columns:,} columns; from 1 to {MOST_COLUMNS:,} can be imported.")
    if not 1 <= k <= MOST_OUTPUTS or not np.isfinite(source.initial).all():
        raise InputError(f"{what} has {k} outputs, or starts from a value that is not finite.")
    if (source.output < 0).any() or (source.output >= k).any():
        raise InputError(f"{what} has a tree for an output that there is not: outputs are 0 to {k - 1}.")
    trees = plant(source.grove, source.n_columns, what)
    stages = _stages(trees, source.output, k)
    if source.average and stages:
        n = len(stages)
        stages = tuple(tuple(_scaled(tree, 1.0 / n) for tree in stage) for stage in stages)
    feature = np.concatenate([np.empty(0, np.int32), *map(_by_number, trees)])
    threshold = np.concatenate([np.empty(0), *(tree.threshold for tree in trees)])
    n = len(stages)
    unknown = np.full(n, np.nan)
    model = Model(
        loss=source.loss,
        initial=source.initial.astype(np.float64),
        stages=stages,
        cuts=column_cuts(feature, threshold, source.n_columns),
        schema=Schema(source.n_columns, source.names, source.levels),
        history=History(unknown, np.empty(0), np.zeros(n, np.int64), n, float("nan")),
    )
    made: Any = GradientBoostingClassifier() if source.classifier else GradientBoostingRegressor()
    made.set_params(n_estimators=max(1, n), **_loss_params(source.loss))
    if source.rate is not None and 0.0 < source.rate <= 1.0:
        made.set_params(learning_rate=source.rate)
    made._keep(model)
    if source.classifier:
        made.classes_ = _classes(source.classes if classes is None else classes, 2 if k == 1 else k)
    elif classes is not None:
        raise InputError(f"{what} is no classifier: leave `classes` out.")
    return made


def _by_number(tree: Tree) -> np.ndarray:
    """The columns of a tree's nodes that compare numbers; -1 for others."""
    return np.where(tree.subset >= 0, -1, tree.feature) if len(tree.subset) else tree.feature


def level_table(names: Sequence[Any], what: str) -> Levels:
    """The level table of a column whose code k stands for names[k]: texts, or numbers."""
    cells = np.empty(len(names), object)
    cells[:] = list(names)
    levels, numbers = learn(column_cells(cells, f"A column of categories of {what}"))
    if len(levels.values) != len(names) or np.isnan(numbers).any():
        raise InputError(f"{what} has a column of categories with names that are missing, or there twice.")
    code = np.empty(len(names))
    code[numbers.astype(np.int64)] = np.arange(len(names))
    return Levels(levels.values, code)


def _stages(trees: Sequence[Tree], output: np.ndarray, n_outputs: int) -> tuple[tuple[Tree, ...], ...]:
    """Stages of one tree for each output, in each output's own order; outputs with fewer trees get leaves of 0."""
    queues: list[list[Tree]] = [[] for _ in range(n_outputs)]
    for tree, k in zip(trees, output.tolist(), strict=True):
        queues[k].append(tree)
    longest = max(map(len, queues))
    if longest * n_outputs > 4 * len(trees) + n_outputs:
        raise InputError("Its trees are divided among the outputs too unevenly to be stages.")
    for queue in queues:
        queue += [Tree.stump(0)] * (longest - len(queue))
    return tuple(zip(*queues, strict=True))


def _scaled(tree: Tree, factor: float) -> Tree:
    return tree.with_leaves(tree.value, tree.cover, factor)


def _loss_params(loss: Loss) -> dict[str, Any]:
    """The parameters of an estimator that stand for a loss."""
    if isinstance(loss, Linked):
        return {"loss": loss}
    if isinstance(loss, MulticlassLogLoss):
        return {"loss": loss.name, "multiclass_curvature": loss.curvature}
    if isinstance(loss, LogLoss | Exponential):
        return {"loss": loss.name}
    params: dict[str, Any] = {"loss": loss.name}
    if isinstance(loss, Huber):
        params["alpha"] = loss.delta_quantile
    elif isinstance(loss, Quantile):
        params["alpha"] = loss.leaf_quantile
    elif isinstance(loss, Tweedie):
        params["tweedie_power"] = loss.power
    return params


def _classes(classes: Any, count: int) -> np.ndarray:
    labels = np.arange(count) if classes is None else np.asarray(classes)
    if labels.shape != (count,) or len(np.unique(labels)) != count:
        raise InputError(f"classes={classes!r} must be {count} different labels, in the order of the model's outputs.")
    if np.any(np.unique(labels) != labels):
        raise InputError(f"classes={labels.tolist()} must be in ascending order, as the model's outputs are.")
    return labels
