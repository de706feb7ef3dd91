"""scikit-learn's gradient boosting, read from fitted estimators.

`GradientBoosting*` rounds every value to float32 and compares it with a float64 threshold; `HistGradientBoosting*`
compares in float64. Both send values <= the threshold left, and add up in float64, stage after stage: the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stagewise.data.categories import Levels
from stagewise.errors import InputError, InputTypeError
from stagewise.io.grove import Grove, float32_threshold
from stagewise.io.imported import Source, estimator_of, level_table
from stagewise.losses.base import Loss
from stagewise.losses.classification import Exponential, LogLoss, MulticlassLogLoss
from stagewise.losses.regression import AbsoluteError, Gamma, Huber, Poisson, Quantile, SquaredError

__all__ = ["import_sklearn"]


def import_sklearn(model: Any) -> Any:
    """A fitted GradientBoosting* or HistGradientBoosting* of scikit-learn as one of ours, which predicts the same."""
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    plain, histogram = (
        GradientBoostingClassifier | GradientBoostingRegressor,
        (HistGradientBoostingClassifier | HistGradientBoostingRegressor),
    )
    if not isinstance(model, plain | histogram):
        raise InputTypeError(
            "import_sklearn reads fitted GradientBoosting* and HistGradientBoosting* estimators of scikit-learn, not "
            f"{type(model).__name__}."
        )
    if not hasattr(model, "n_features_in_"):
        raise InputError(f"This {type(model).__name__} is not fitted yet.")
    return estimator_of(_from_plain(model) if isinstance(model, plain) else _from_histogram(model))


def _loss(name: str, alpha: float, n_classes: int, curvature: str) -> Loss:
    if n_classes > 2:
        return MulticlassLogLoss(n_classes, curvature)
    if name == "log_loss":
        return LogLoss()
    if name == "exponential":
        return Exponential()
    if name == "huber":
        return Huber(alpha)
    if name == "quantile":
        return Quantile(alpha)
    known = {"squared_error": SquaredError, "absolute_error": AbsoluteError, "poisson": Poisson, "gamma": Gamma}
    if name not in known:
        raise InputError(f"The loss {name!r} of the scikit-learn model is not known here.")
    return known[name]()


def _source(model: Any, loss: Loss, initial: np.ndarray, grove: Grove, n_trees: int) -> Source:
    names = getattr(model, "feature_names_in_", None)
    return Source(
        what=f"The {type(model).__name__} of scikit-learn",
        loss=loss,
        classifier=hasattr(model, "classes_"),
        initial=initial,
        grove=grove,
        output=np.arange(n_trees) % len(initial),
        n_columns=int(model.n_features_in_),
        names=None if names is None else tuple(map(str, names)),
        classes=getattr(model, "classes_", None),
        rate=float(model.learning_rate),
    )


def _from_plain(model: Any) -> Source:
    """`GradientBoosting*`: leaves are not yet multiplied by the learning rate, and the start is another estimator."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    classes = len(getattr(model, "classes_", ()))
    start = model.init_
    if not isinstance(start, str) and not isinstance(start, DummyClassifier | DummyRegressor):
        raise InputError(f"The model starts from a {type(start).__name__} (init=...); only constants can be imported.")
    X = np.zeros((1, model.n_features_in_), np.float32)
    initial = np.asarray(model._raw_predict_init(X), np.float64)[0]
    trees = [own.tree_ for own in model.estimators_.ravel()]
    sizes = np.array([tree.node_count for tree in trees], np.int64)
    shift = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    base = np.repeat(shift, sizes)

    def of(name: str) -> np.ndarray:
        return np.concatenate([np.asarray(getattr(tree, name)).reshape(tree.node_count, -1)[:, 0] for tree in trees])

    left, right = of("children_left"), of("children_right")
    gain = [_impurity_gain(tree) for tree in trees]
    grove = Grove(
        root=shift.astype(np.int64),
        feature=of("feature").astype(np.int64),
        threshold=float32_threshold(of("threshold"), strict=False),
        missing_left=of("missing_go_to_left").astype(bool),
        left=np.where(left >= 0, left + base, -1),
        right=np.where(left >= 0, right + base, -1),
        value=of("value") * model.learning_rate,
        gain=np.concatenate(gain),
        count=of("n_node_samples").astype(np.int64),
        cover=of("weighted_n_node_samples"),
    )
    loss = _loss(model.loss, getattr(model, "alpha", 0.9), classes, "friedman")
    return _source(model, loss, initial, grove, len(trees))


def _impurity_gain(tree: Any) -> np.ndarray:
    """The improvement of each split: weight × impurity of a node minus that of its children."""
    total = tree.weighted_n_node_samples * tree.impurity
    inner = tree.children_left >= 0
    out = np.zeros(tree.node_count)
    out[inner] = total[inner] - total[tree.children_left[inner]] - total[tree.children_right[inner]]
    return np.maximum(out, 0.0)


def _from_histogram(model: Any) -> Source:
    predictors = [predictor for stage in model._predictors for predictor in stage]
    nodes = [predictor.nodes for predictor in predictors]
    sizes = np.array([len(own) for own in nodes], np.int64)
    shift = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    base = np.repeat(shift, sizes)

    def of(name: str, kind: Any) -> np.ndarray:
        return np.concatenate([np.empty(0, kind), *(own[name] for own in nodes)]).astype(kind)

    leaf = of("is_leaf", np.bool_)
    by_set = of("is_categorical", np.bool_) & ~leaf
    subset, sets = np.full(len(leaf), -1, np.int64), []
    if by_set.any():
        before = np.concatenate(([0], np.cumsum([len(own.raw_left_cat_bitsets) for own in predictors])))[:-1]
        subset[by_set] = (of("bitset_idx", np.int64) + np.repeat(before, sizes))[by_set]
        sets = [
            np.ascontiguousarray(words, np.uint32).view(np.uint64)
            for own in predictors
            for words in own.raw_left_cat_bitsets
        ]
    order, levels = _columns(model)
    grove = Grove(
        subset=subset,
        sets=sets,
        root=shift.astype(np.int64),
        feature=order[of("feature_idx", np.int64)],
        threshold=of("num_threshold", np.float64),
        missing_left=of("missing_go_to_left", np.bool_),
        left=np.where(leaf, -1, of("left", np.int64) + base),
        right=np.where(leaf, -1, of("right", np.int64) + base),
        value=of("value", np.float64),
        gain=np.maximum(np.where(leaf, 0.0, of("gain", np.float64)), 0.0),
        count=of("count", np.int64),
        cover=of("count", np.float64),
    )
    classes = len(getattr(model, "classes_", ()))
    level = model.quantile if getattr(model, "quantile", None) is not None else 0.5
    loss = _loss(model.loss, level, classes, "diagonal")
    initial = np.asarray(model._baseline_prediction, np.float64).ravel()
    return replace(_source(model, loss, initial, grove, len(nodes)), levels=levels)


def _columns(model: Any) -> tuple[np.ndarray, tuple[Levels | None, ...]]:
    """(the column of X that each column of the trees is, level tables): categories come first there, encoded.

    Levels that training did not see (they were in its validation sample only) go where missing values go.
    """
    if model.is_categorical_ is None or not np.any(model.is_categorical_):
        return np.arange(model.n_features_in_), ()
    mask = np.asarray(model.is_categorical_, bool)
    first = np.flatnonzero(mask)
    known, places = model._bin_mapper.make_known_categories_bitsets()
    levels: list[Levels | None] = [None] * len(mask)
    for k, (j, names) in enumerate(
        zip(first, model._preprocessor.named_transformers_["encoder"].categories_, strict=True)
    ):
        present = [own for own in names.tolist() if own is not None and own == own]
        table = level_table(present, "The model of scikit-learn")
        bits = np.unpackbits(np.ascontiguousarray(known[places[k]], "<u4").view(np.uint8), bitorder="little")
        seen = bits[table.codes] != 0
        levels[j] = Levels(table.values[seen], table.numbers[seen])
    return np.concatenate([first, np.flatnonzero(~mask)]), tuple(levels)
