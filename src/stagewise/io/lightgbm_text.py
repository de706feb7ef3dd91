"""LightGBM's text model, written."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from stagewise.io.export import Export, Proof, export_of, finish
from stagewise.io.lightgbm import ZERO, import_lightgbm
from stagewise.losses.linked import Linked
from stagewise.losses.regression import AbsoluteError, Gamma, Huber, Poisson, Quantile, Tweedie
from stagewise.tree.tree import Tree

__all__ = ["export_lightgbm"]

_NAN_MISSING, _DEFAULT_LEFT = 2 << 2, 2


def export_lightgbm(model: Any, path: str | os.PathLike[str], *, on_difference: str = "refuse") -> Proof:
    """Write a fitted estimator as a LightGBM text model (version 4), for lightgbm.Booster(model_file=path).

    Raw predictions are the same bits, with one exception that lies in LightGBM: to it every value between -1e-35 and
    1e-35 is 0. Checked with LightGBM itself where it is installed, else with our own reader, on rows that stand on and
    around every threshold; on_difference="warn" writes the file even if some differ.
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
    blocks = [f"Tree={t}\n{_tree(tree)}\n\n" for t, tree in enumerate(export.with_start())]
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
    return "\n".join(head) + "\n\n" + "".join(blocks) + "\n".join([*tail, "pandas_categorical:null", ""])


def _tree(tree: Tree) -> str:
    """The lines of one tree: inner nodes and leaves have numbers of their own, a leaf j is the child ~j."""
    leaf = tree.left < 0
    inner = ~leaf
    number = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(inner) - 1)
    left = tree.left[inner]
    mean = _means(tree)

    def line(key: str, values: np.ndarray) -> str:
        return f"{key}={' '.join(repr(value) for value in values.tolist())}"

    lines = [f"num_leaves={int(leaf.sum())}", "num_cat=0"]
    lines += [
        line("split_feature", tree.feature[inner]),
        line("split_gain", tree.gain[inner]),
        line("threshold", tree.threshold[inner]),
        line("decision_type", _NAN_MISSING + _DEFAULT_LEFT * tree.missing_left[inner].astype(np.int64)),
        line("left_child", number[left]),
        line("right_child", number[left + 1]),
        line("leaf_value", tree.value[leaf]),
        line("leaf_weight", tree.cover[leaf]),
        line("leaf_count", tree.count[leaf]),
        line("internal_value", mean[inner]),
        line("internal_weight", tree.cover[inner]),
        line("internal_count", tree.count[inner]),
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
