"""LightGBM's text model, written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from stagewise.inspection.levels import set_codes
from stagewise.io.export import Export, Proof, export_of, finish
from stagewise.io.grove import words_of
from stagewise.io.lightgbm import ZERO, import_lightgbm
from stagewise.losses.linked import Linked
from stagewise.losses.regression import AbsoluteError, Gamma, Huber, Poisson, Quantile, Tweedie
from stagewise.tree.tree import Tree

__all__ = ["export_lightgbm"]

_NAN_MISSING, _DEFAULT_LEFT, _CATEGORICAL = 2 << 2, 2, 1


def export_lightgbm(model: Any, path: str | os.PathLike[str], *, on_difference: str = "refuse") -> Proof:
    """Write a fitted estimator as a LightGBM text model (version 4), for lightgbm.Booster(model_file=path).

    Raw predictions are the same bits, with one exception that lies in LightGBM: to it every value between -1e-35 and
    1e-35 is 0. Categories are codes, as `export_input` gives them; where the model knows the names of all of them, a
    pandas frame with these categories can be passed as well. Checked with LightGBM itself where it is installed, else
    with our own reader, on rows that stand on and around every threshold; on_difference="warn" writes the file even if
    some differ.
    """
    export = export_of(model, "LightGBM")
    text = _text(export)

    def raw(rows: np.ndarray) -> np.ndarray:
        return export.model.raw(rows).T

    try:
        import lightgbm
    except ImportError:
        ours = import_lightgbm(text)
        reader, predict = "stagewise's own reader", lambda rows: ours.model_.raw(rows).T
    else:
        booster = lightgbm.Booster(model_str=text)
        reader = f"LightGBM {lightgbm.__version__}"

        def predict(rows: np.ndarray) -> np.ndarray:
            return np.asarray(booster.predict(rows, raw_score=True))

    return finish(
        path, text.encode(), export, reader, predict, on_difference=on_difference, prepare=_without_tiny, expected=raw
    )


def _without_tiny(rows: np.ndarray) -> np.ndarray:
    return np.where(np.abs(rows) <= ZERO, 0.0, rows)


def _objective(export: Export) -> str:
    loss, link, factor = export.loss, export.link, export.factor
    if isinstance(loss, Linked) and link == "identity" and export.n_outputs == 1:
        return "regression"
    if link == "softmax":
        return f"multiclass num_class:{export.n_outputs}"
    if link == "one_vs_all":
        return f"multiclassova num_class:{export.n_outputs} sigmoid:{factor!r}"
    if link == "sigmoid" and export.classes is not None:
        return f"binary sigmoid:{factor!r}"
    if link == "sigmoid" and factor == 1.0:
        return "cross_entropy"
    if link == "softplus":
        return "cross_entropy_lambda"
    if link == "signed_square":
        return "regression sqrt"
    names = {AbsoluteError: "regression_l1", Huber: "huber", Quantile: "quantile", Gamma: "gamma", Tweedie: "tweedie"}
    if link in ("identity", "exp") and export.n_outputs == 1:
        return names.get(type(loss), "regression" if link == "identity" else "poisson")
    raise export.refuse("LightGBM")


def _text(export: Export) -> str:
    k, f = export.n_outputs, export.n_columns
    objective = _objective(export)
    names = [f"Column_{j}" for j in range(f)]
    if export.names is not None:
        own = ["_".join(name.split()) or f"Column_{j}" for j, name in enumerate(export.names)]
        names = own if len(set(own)) == f else names
    infos = [
        f"[{cuts[0]!r}:{cuts[-1]!r}]" if len(cuts) else "none" for cuts in map(np.ndarray.tolist, export.model.cuts)
    ]
    codes = export.codes
    for j, present in codes.items():
        infos[j] = ":".join(["-1", *map(str, present.tolist())])
    blocks = [f"Tree={t}\n{_tree(tree, codes)}\n\n" for t, tree in enumerate(export.with_start())]
    head = [
        "tree",
        "version=v4",
        f"num_class={k}",
        f"num_tree_per_iteration={k}",
        "label_index=0",
        f"max_feature_idx={f - 1}",
        f"objective={objective}",
        f"feature_names={' '.join(names)}",
        f"feature_infos={' '.join(infos)}",
        f"tree_sizes={' '.join(str(len(block.encode())) for block in blocks)}",
    ]
    settings = ["[boosting: gbdt]", f"[objective: {objective.split()[0]}]", f"[num_class: {k}]"]
    if isinstance(export.loss, Quantile | Huber):
        level = export.loss.leaf_quantile if isinstance(export.loss, Quantile) else export.loss.delta_quantile
        settings.append(f"[alpha: {level!r}]")
    if isinstance(export.loss, Tweedie | Poisson):
        settings.append(f"[tweedie_variance_power: {export.loss.power!r}]")
    tail = ["end of trees", "", "feature_importances:", "", "parameters:", *settings, "end of parameters", ""]
    known = f"pandas_categorical:{json.dumps(_categories(export, codes))}"
    return "\n".join(head) + "\n\n" + "".join(blocks) + "\n".join([*tail, known, ""])


def _categories(export: Export, codes: Mapping[int, np.ndarray]) -> list[list[Any]] | None:
    """The names of all categories, in the order of their codes; None when not every code has just one."""
    found: list[list[Any]] = []
    levels = export.model.schema.levels
    if any(own is not None and own.by_target for own in levels):
        return None
    for j in codes:
        own = levels[j] if levels else None
        if own is None or sorted(own.codes.tolist()) != list(range(len(own.values))):
            return None
        names = own.values[np.argsort(own.codes)].tolist()
        found.append([int(name) if isinstance(name, float) and name.is_integer() else name for name in names])
    return found or None


def _sets(tree: Tree, codes: Mapping[int, np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """(bool by node: whether its children change places, the words of 32 bits of each set in the order of nodes).

    LightGBM sends missing values and all codes beyond a set right. Where missing ones go left the rest of the codes is
    the set, and what was left is right.
    """
    swapped, words = np.zeros(tree.n_nodes, bool), []
    for k in np.flatnonzero(tree.subset >= 0).tolist():
        members = set_codes(tree.sets[tree.subset[k]])
        if tree.missing_left[k]:
            swapped[k] = True
            members = np.setdiff1d(codes[int(tree.feature[k])], members)
        words.append(words_of(members).view(np.uint32))
    return swapped, words


def _tree(tree: Tree, codes: Mapping[int, np.ndarray]) -> str:
    """The lines of one tree: inner nodes and leaves have numbers of their own, a leaf j is the child ~j."""
    leaf = tree.left < 0
    inner = ~leaf
    number = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(inner) - 1)
    left = tree.left[inner]
    mean = _means(tree)
    swapped, words = _sets(tree, codes)
    asks = tree.subset >= 0 if len(tree.subset) else np.zeros(tree.n_nodes, bool)
    kind = np.where(asks, _CATEGORICAL, _DEFAULT_LEFT * tree.missing_left.astype(np.int64)) + _NAN_MISSING
    threshold = np.where(asks, np.cumsum(asks) - 1.0, tree.threshold)
    swap = swapped[inner].astype(np.int64)

    def line(key: str, values: np.ndarray) -> str:
        return f"{key}={' '.join(repr(value) for value in values.tolist())}"

    lines = [f"num_leaves={int(leaf.sum())}", f"num_cat={len(words)}"]
    lines += [
        line("split_feature", tree.feature[inner]),
        line("split_gain", tree.gain[inner]),
        line("threshold", threshold[inner]),
        line("decision_type", kind[inner]),
        line("left_child", number[left + swap]),
        line("right_child", number[left + 1 - swap]),
        line("leaf_value", tree.value[leaf]),
        line("leaf_weight", tree.cover[leaf]),
        line("leaf_count", tree.count[leaf]),
        line("internal_value", mean[inner]),
        line("internal_weight", tree.cover[inner]),
        line("internal_count", tree.count[inner]),
    ]
    if words:
        lines.append(line("cat_boundaries", np.cumsum([0, *map(len, words)])))
        lines.append(line("cat_threshold", np.concatenate(words)))
    lines += [
        "is_linear=0",
        "shrinkage=1",
        "",
    ]
    return "\n".join(lines)


def _means(tree: Tree) -> np.ndarray:
    """The mean of the leaves below each node, by their weight."""
    mean = tree.value.copy()
    for k in np.flatnonzero(tree.left >= 0)[::-1]:
        a = int(tree.left[k])
        weight = tree.cover[a : a + 2] if tree.cover[a : a + 2].sum() > 0.0 else np.ones(2)
        mean[k] = float(np.average(mean[a : a + 2], weights=weight))
    return mean
