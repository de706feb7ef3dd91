"""Predictions for the rows of a Dataset, from their bin codes.

The threshold of a split says which code is the last on its left, provided that it is one of the Dataset's cut points;
so a Dataset can be predicted by every model that was trained on it, on subsets of it, or on its like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from stagewise.boosting.model import Model
from stagewise.data.dataset import Dataset
from stagewise.errors import InputError
from stagewise.kernels.predict import add_tree_binned
from stagewise.kernels.team import Team
from stagewise.tree.tree import Tree

__all__ = ["binned_raw", "binned_stages"]

_NO_ROWS = np.empty(0, np.uint32)


def _cut_of(tree: Tree, dataset: Dataset) -> np.ndarray:
    """For each node the last code that goes left."""
    cut = np.zeros(tree.n_nodes, np.int32)
    by_threshold = tree.left >= 0
    if len(tree.subset):
        by_threshold &= tree.subset < 0
    for k in np.flatnonzero(by_threshold).tolist():
        own, threshold = dataset.cuts[tree.feature[k]], tree.threshold[k]
        cut[k] = np.searchsorted(own, threshold)
        everything = cut[k] == len(own) and threshold == np.inf  # only missing values go right
        if not everything and (cut[k] == len(own) or own[cut[k]] != threshold):
            raise InputError(
                f"the model splits column {tree.feature[k]} at {threshold:.6g}, which is no cut point of this Dataset: "
                "bins cannot tell its rows apart there. Pass X itself, or train on this Dataset, or bin X with "
                "Dataset(X, like=training_dataset)."
            )
    return cut


def binned_stages(
    model: Model,
    dataset: Dataset,
    n_threads: int,
    offset: np.ndarray | None = None,
    ordered: Mapping[int, np.ndarray] | None = None,
) -> Iterator[np.ndarray]:
    """Raw predictions (n_outputs, n_rows) before the first stage and after each: one array, which goes on changing."""
    if not model.of_trees:
        raise InputError("this model needs the values of X, which a Dataset does not keep; pass X instead.")
    if model.schema.n_columns != dataset.n_columns:
        raise InputError(f"X has {dataset.n_columns} columns, but the model was trained on {model.schema.n_columns}.")
    model.schema.check_names(dataset.names, dataset.n_columns, "the model")
    model.schema.check_zeros(dataset.schema, "the model")
    coded = dataset.following(model.schema, model.cuts, n_threads, ordered)
    if coded is None:
        raise InputError(
            "the categories of this Dataset have other codes than those of the model; pass X itself, or bin X with "
            "Dataset(X, like=training_dataset)."
        )
    dataset = coded
    index = _NO_ROWS if dataset.rows is None else dataset.rows
    out = np.repeat(model.initial[:, None], dataset.n_rows, axis=1)
    if offset is not None:  # before the trees, in the order of training: the same bits
        out += offset
    with Team(n_threads if dataset.n_rows >= 10_000 else 1) as team:
        yield out
        for stage in model.stages:
            for output, tree in enumerate(stage):
                team.run(
                    add_tree_binned, dataset.bins, index, tree.feature, _cut_of(tree, dataset), tree.missing_left,
                    tree.left, tree.subset, tree.sets, tree.value, out[output],
                )  # fmt: skip
            yield out


def binned_raw(
    model: Model,
    dataset: Dataset,
    n_threads: int,
    offset: np.ndarray | None = None,
    ordered: Mapping[int, np.ndarray] | None = None,
) -> np.ndarray:
    """Raw predictions (n_outputs, n_rows), the same bits as from the values of X, on top of an offset of that shape.

    ordered: target statistics that rows have in training, by column; otherwise they are those of the model's levels.
    """
    *_, last = binned_stages(model, dataset, n_threads, offset, ordered)
    return last
