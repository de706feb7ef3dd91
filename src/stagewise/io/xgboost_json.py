"""XGBoost's JSON model, written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from stagewise.errors import InputError
from stagewise.inspection.levels import set_codes
from stagewise.io.export import Export, Proof, export_of, finish
from stagewise.io.xgboost import import_xgboost
from stagewise.losses.regression import AbsoluteError, Gamma, Tweedie
from stagewise.tree.tree import Tree

__all__ = ["export_xgboost"]

_EPSILON = 2.0**-24  # the largest relative error of rounding to float32


def export_xgboost(model: Any, path: str | os.PathLike[str], *, on_difference: str = "refuse") -> Proof:
    """Write a fitted estimator as an XGBoost JSON model, for xgboost.Booster(model_file=path).

    XGBoost rounds every value to float32 before it compares, and adds float32 leaves in float32. Of float32 values
    every row reaches the same leaves, and predictions agree to the rounding of those sums. Checked with XGBoost itself
    where it is installed, else with our own reader, on float32 rows that stand on and around every threshold;
    on_difference="warn" writes the file even if some differ. XGBoost takes no values of 3.4e38 and more. Categories are
    codes, as `export_input` gives them.
    """
    export = export_of(model, "XGBoost")
    data = json.dumps(_model(export), allow_nan=False, separators=(",", ":")).encode()
    scale = export.factor
    total = scale * sum(float(np.abs(tree.value).max()) for tree in export.with_start())

    def margin(rows: np.ndarray) -> np.ndarray:
        return scale * export.model.raw(rows).T

    try:
        import xgboost
    except ImportError:
        ours = import_xgboost(data)
        reader, predict = "stagewise's own reader", lambda rows: ours.model_.raw(rows).T
    else:
        booster = xgboost.Booster()
        booster.load_model(bytearray(data))
        reader = f"XGBoost {xgboost.__version__}"

        def predict(rows: np.ndarray) -> np.ndarray:
            return np.asarray(booster.predict(xgboost.DMatrix(rows), output_margin=True, validate_features=False))

    return finish(
        path, data, export, reader, predict, on_difference=on_difference, dtype=np.float32, infinite=False,
        absolute=_EPSILON * (len(export.trees) + 2) * total, expected=margin, prepare=_below_largest,
    )  # fmt: skip


def _below_largest(rows: np.ndarray) -> np.ndarray:
    """No threshold is above the largest float32, so x < t can never hold for it."""
    return np.where(np.abs(rows) == np.finfo(np.float32).max, np.float32(1e38) * np.sign(rows), rows)


def _objective(export: Export) -> tuple[dict[str, Any], str]:
    """(objective, the base_score whose margin is 0)."""
    loss, link = export.loss, export.link
    plain: dict[str, Any] = {"reg_loss_param": {"scale_pos_weight": "1"}}
    if link == "softmax":
        k = str(export.n_outputs)
        return {"name": "multi:softprob", "softmax_multiclass_param": {"num_class": k}}, "0E0"
    if link == "sigmoid":
        return {"name": "binary:logistic" if export.classes is not None else "reg:logistic", **plain}, "5E-1"
    if link == "exp" and isinstance(loss, Tweedie):
        power = {"tweedie_regression_param": {"tweedie_variance_power": repr(loss.power)}}
        return {"name": "reg:tweedie", **power}, "1E0"
    if link == "exp" and isinstance(loss, Gamma):
        return {"name": "reg:gamma", **plain}, "1E0"
    if link == "exp":
        return {"name": "count:poisson", "poisson_regression_param": {"max_delta_step": "7E-1"}}, "1E0"
    if link == "identity" and export.n_outputs == 1:
        name = "reg:absoluteerror" if isinstance(loss, AbsoluteError) else "reg:squarederror"
        return {"name": name, **plain}, "0E0"
    raise export.refuse("XGBoost")


def _model(export: Export) -> dict[str, Any]:
    objective, base_score = _objective(export)
    k, trees = export.n_outputs, export.with_start()
    names, codes = list(export.names or ()), export.codes
    types = ["c" if j in codes else "float" for j in range(export.n_columns)]
    if len(set(names)) != len(names) or any(set("[]<") & set(name) for name in names):
        names = []  # XGBoost forbids these
    forest = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(0, len(trees) + 1, k)),
        "tree_info": [t % k for t in range(len(trees))],
        "trees": [_tree(t, tree, export.factor, export.n_columns, codes) for t, tree in enumerate(trees)],
    }
    params = {
        "base_score": base_score,
        "boost_from_average": "1",
        "num_class": str(k if k > 1 else 0),
        "num_feature": str(export.n_columns),
        "num_target": "1",
    }
    learner = {
        "attributes": {},
        "feature_names": names,
        "feature_types": types if codes else ["float"] * len(names),
        "gradient_booster": {"model": forest, "name": "gbtree"},
        "learner_model_param": params,
        "objective": objective,
    }
    return {"learner": learner, "version": [2, 1, 0]}


def _threshold(at: np.ndarray) -> np.ndarray:
    """The float32 t with x < t exactly when x <= at, for float32 x: the next one above, at most the largest."""
    with np.errstate(over="ignore"):
        near = at.astype(np.float32)
        below = near.astype(np.float64) > at
        above = np.where(below, near, np.nextafter(near, np.float32(np.inf)))
    largest = np.finfo(np.float32).max
    return np.clip(above, -largest, largest)


def _mirrored(tree: Tree) -> Tree:
    """The tree whose splits by sets send the set right, as XGBoost does, and missing values still where they went.

    The two children change places in the arrays: XGBoost relies on the right one standing next to the left one.
    """
    if not len(tree.sets):
        return tree
    asks = tree.subset >= 0
    order = np.arange(tree.n_nodes)
    first = tree.left[asks]
    order[first], order[first + 1] = first + 1, first
    moved = {own.name: getattr(tree, own.name)[order] for own in fields(Tree) if own.name != "sets"}
    return replace(tree, **{**moved, "missing_left": (tree.missing_left ^ asks)[order]})


def _tree(number: int, tree: Tree, factor: float, n_columns: int, codes: Mapping[int, np.ndarray]) -> dict[str, Any]:
    tree = _mirrored(tree)
    n, inner = tree.n_nodes, tree.left >= 0
    with np.errstate(over="ignore"):
        value = (factor * tree.value).astype(np.float32)
    if not np.isfinite(value).all():
        raise InputError("A leaf is beyond float32's range of 3.4e38, which XGBoost works in.")
    asks = tree.subset >= 0 if len(tree.subset) else np.zeros(n, bool)
    nodes = np.flatnonzero(asks)
    sets = [set_codes(tree.sets[tree.subset[k]]) for k in nodes]
    # XGBoost refuses an empty set: a code that does not occur stands in
    sets = [own if len(own) else codes[int(tree.feature[k])][-1:] + 1 for k, own in zip(nodes, sets, strict=True)]
    sizes = np.array([len(own) for own in sets], np.int64)
    parents = np.full(n, 2147483647, np.int64)
    parents[tree.left[inner]] = parents[tree.left[inner] + 1] = np.flatnonzero(inner)

    def floats(values: np.ndarray) -> list[float]:
        """As float32, in the few digits that identify it."""
        return [float(str(own)) for own in np.clip(values, -3e38, 3e38).astype(np.float32)]

    return {
        "base_weights": floats(value),
        "categories": np.concatenate([np.empty(0, np.int64), *sets]).tolist(),
        "categories_nodes": nodes.tolist(),
        "categories_segments": (np.cumsum(sizes) - sizes).tolist(),
        "categories_sizes": sizes.tolist(),
        "default_left": np.where(inner, tree.missing_left, 0).tolist(),
        "id": number,
        "left_children": tree.left.tolist(),
        "loss_changes": floats(tree.gain),
        "parents": parents.tolist(),
        "right_children": np.where(inner, tree.left + 1, -1).tolist(),
        "split_conditions": [
            float(str(own)) for own in np.where(asks, np.float32(0), np.where(inner, _threshold(tree.threshold), value))
        ],
        "split_indices": np.where(inner, tree.feature, 0).tolist(),
        "split_type": asks.astype(int).tolist(),
        "sum_hessian": floats(tree.cover),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_columns),
            "num_nodes": str(n),
            "size_leaf_vector": "1",
        },
    }
