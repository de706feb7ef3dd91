"""XGBoost's JSON and UBJSON models, read.

XGBoost rounds every value to float32 and sends it left when it is < the threshold, missing ones to the default side.
Leaves are float32 and are added up in float32; here they are added in float64, so predictions agree up to that rounding
and the leaves that a row reaches agree exactly.

A split on categories sends those that it names right and all others left: here children change places.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from stagewise.data.categories import Levels
from stagewise.errors import InputError, InputTypeError
from stagewise.io.grove import MOST_CODES, Grove, float32_threshold, words_of
from stagewise.io.imported import MOST_COLUMNS, MOST_OUTPUTS, Source, estimator_of, level_table
from stagewise.io.ubjson import read_ubjson
from stagewise.losses.base import Loss
from stagewise.losses.classification import LogLoss, MulticlassLogLoss
from stagewise.losses.linked import Linked
from stagewise.losses.regression import AbsoluteError, Gamma, Poisson, SquaredError, Tweedie
from stagewise.params import check_count
from stagewise.storage.container import strict_json
from stagewise.storage.disk import read_file

__all__ = ["import_xgboost"]

T = TypeVar("T")

_MOST_WORDS = 1 << 22
"""Words of all sets of categories, beyond what their numbers let one expect."""

_LINKS = {
    "reg:squaredlogerror": "identity", "reg:pseudohubererror": "identity", "reg:quantileerror": "identity",
    "reg:expectileerror": "identity", "binary:logitraw": "identity", "rank:pairwise": "identity",
    "rank:ndcg": "identity", "rank:map": "identity", "reg:logistic": "sigmoid", "binary:hinge": "step",
    "survival:cox": "exp", "survival:aft": "exp",
}  # fmt: skip


def import_xgboost(model: Any, *, classes: Any = None, iterations: int | None = None) -> Any:
    """An XGBoost model as a fitted estimator of ours, which predicts the same.

    model: the path of a .json or .ubj model, its bytes, an xgboost.Booster, or a fitted XGBClassifier, XGBRegressor,
    XGBRanker or random forest. classes: labels in the order of the outputs; 0, 1, ... by default. iterations: how many
    boosting rounds to take; all by default, and of a scikit-learn wrapper those up to its best_iteration.
    """
    data, known, best = _bytes(model)
    if iterations is not None:
        best = check_count("iterations", iterations, 1)
    return estimator_of(_read(_parse(data), known, best), classes)


def _bytes(model: Any) -> tuple[bytes, Any, int | None]:
    """(model, class labels, rounds to take) as far as the object knows them."""
    if hasattr(model, "get_booster"):
        missing = getattr(model, "missing", None)
        if missing is not None and missing == missing:  # anything but NaN
            raise InputError(
                f"The XGBoost model takes {missing!r} for missing; here only NaN is. Replace it in X first."
            )
        best = getattr(model, "best_iteration", None) if model.get_booster().attr("best_iteration") else None
        known = getattr(model, "classes_", None)
        return bytes(model.get_booster().save_raw("ubj")), known, None if best is None else int(best) + 1
    if hasattr(model, "save_raw"):
        return bytes(model.save_raw("ubj")), None, None
    if isinstance(model, (str, os.PathLike)):
        model = read_file(model)
    if not isinstance(model, (bytes, bytearray)):
        raise InputTypeError(
            f"import_xgboost reads a path, the bytes of a model or a fitted XGBoost model, not {type(model).__name__}."
        )
    return bytes(model), None, None


def _parse(data: bytes) -> Any:
    """JSON starts with {" or {, white space and "; UBJSON with { and the type of a length."""
    rest = data[1:].lstrip(b" \t\r\n")
    if data[:1] != b"{":
        raise InputError("This is no XGBoost model: it starts as neither JSON nor UBJSON. Save it as .json or .ubj.")
    if rest[:1] not in (b'"', b"}"):
        return read_ubjson(data)
    try:
        return strict_json(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"This is no valid JSON: {str(error)[:80]}.") from error


def _at(value: Any, *path: str) -> Any:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            raise InputError(
                f"The XGBoost model has no entry {'/'.join(path)}: it is not complete, or of another format."
            )
        value = value[key]
    return value


def _table(value: Any, *path: str) -> dict[str, Any]:
    """The entry at a path, which must hold further entries."""
    found = _at(value, *path)
    if not isinstance(found, dict):
        raise InputError(f"{'/'.join(path)} of the XGBoost model holds no entries: it is of another format.")
    return found


def _number(value: Any, what: str, make: Callable[[Any], T]) -> T:
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError("no number")
        return make(value)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{what} of the XGBoost model is {value!r:.60}, which is no number.") from error


def _read(model: Any, known: Any, best: int | None) -> Source:
    learner = _table(model, "learner")
    params, booster = _table(learner, "learner_model_param"), _at(learner, "gradient_booster")
    kind = _at(booster, "name")
    if kind not in ("gbtree", "dart"):
        raise InputError(f"The XGBoost model is a {kind!r:.40} booster; only gbtree and dart have trees.")
    forest = _table(booster, "model") if kind == "gbtree" else _table(booster, "gbtree", "model")
    n_columns = _number(_at(params, "num_feature"), "num_feature", int)
    n_classes = _number(params.get("num_class", "0"), "num_class", int)
    n_targets = _number(params.get("num_target", "1"), "num_target", int)
    if not 1 <= n_columns <= MOST_COLUMNS or max(n_classes, n_targets) > MOST_OUTPUTS:
        raise InputError(f"The XGBoost model has {n_columns} columns, {n_classes} classes, {n_targets} targets.")
    k = max(1, n_classes, n_targets)
    trees = _at(forest, "trees")
    output = np.asarray(_row(_at(forest, "tree_info"), "tree_info", np.int64))
    if not isinstance(trees, list) or len(output) != len(trees):
        raise InputError("tree_info of the XGBoost model does not have one entry for each tree.")
    rounds = forest.get("iteration_indptr")
    if best is not None and rounds is not None:
        bounds = _row(rounds, "iteration_indptr", np.int64)
        last = int(bounds[min(best, len(bounds) - 1)]) if len(bounds) else 0
        trees, output = trees[: max(0, last)], output[: max(0, last)]
    elif best is not None:
        parallel = _number(_table(forest, "gbtree_model_param").get("num_parallel_tree", "1"), "num_parallel_tree", int)
        trees, output = trees[: best * k * max(1, parallel)], output[: best * k * max(1, parallel)]
    scale = None
    if kind == "dart":
        scale = _row(_at(booster, "weight_drop"), "weight_drop", np.float64)[: len(trees)].astype(np.float32)
        if len(scale) != len(trees):
            raise InputError("weight_drop of the XGBoost model does not have one entry for each tree.")
    loss, classifier, start = _loss(_at(learner, "objective"), k)
    if n_classes > 1 and not classifier:
        raise InputError(f"The XGBoost model has {n_classes} classes, but an objective for numbers.")
    names = learner.get("feature_names") or []
    if (
        not isinstance(names, list)
        or not all(isinstance(own, str) for own in names)
        or len(names) not in (0, n_columns)
    ):
        raise InputError(f"feature_names of the XGBoost model are not {n_columns} texts.")
    return Source(
        what="The XGBoost model",
        loss=loss,
        classifier=classifier,
        initial=start(_base_score(_at(params, "base_score"), k)),
        grove=_grove(trees, scale),
        output=output,
        n_columns=n_columns,
        names=tuple(names) or None,
        classes=known,
        levels=_level_tables(forest.get("cats"), n_columns),
    )


def _base_score(stored: Any, k: int) -> np.ndarray:
    """One number a class, or one for all: "5E-1", or "[1E-1,2E-1]" from version 3.1 on. float32, as it is used."""
    if isinstance(stored, str) and stored.startswith("["):
        stored = stored.strip("[]").split(",")
    values = stored if isinstance(stored, list) else [stored]
    score = np.array([_number(own, "base_score", float) for own in values])
    if len(score) not in (1, k) or not (np.abs(score) < 3e38).all():
        raise InputError(f"base_score of the XGBoost model has {len(score)} values for {k} outputs.")
    return np.broadcast_to(score.astype(np.float32).astype(np.float64), (k,)).copy()


def _loss(objective: Any, k: int) -> tuple[Loss, bool, Callable[[np.ndarray], np.ndarray]]:
    """(loss, whether it is for classes, how base_score becomes a raw prediction)."""
    name = _at(objective, "name")

    def same(score: np.ndarray) -> np.ndarray:
        return score

    def logit(score: np.ndarray) -> np.ndarray:
        if not ((score > 0.0) & (score < 1.0)).all():
            raise InputError(f"base_score {score.tolist()} of the XGBoost model must be a probability.")
        odds = np.float32(1.0) / score.astype(np.float32) - np.float32(1.0)  # in float32, as XGBoost does it
        return _single(-np.log(odds.astype(np.float64)))

    def log(score: np.ndarray) -> np.ndarray:
        if not (score > 0.0).all():
            raise InputError(f"base_score {score.tolist()} of the XGBoost model must be positive.")
        return _single(np.log(score))

    if name in ("multi:softmax", "multi:softprob") and k > 1:
        return MulticlassLogLoss(k, "bound"), True, same
    if not isinstance(name, str) or name.startswith("multi:"):
        raise InputError(f"The XGBoost model has the objective {name!r:.60} and {k} outputs.")
    if k > 1:
        if _LINKS.get(name, "identity") != "identity" or name in ("count:poisson", "reg:gamma", "reg:tweedie"):
            raise InputError(
                f"The XGBoost model has {k} targets with the objective {name!r}, which cannot be imported."
            )
        return Linked(name, "identity", 1.0, k), False, same
    if name == "reg:tweedie":
        power = _number(_at(objective, "tweedie_regression_param", "tweedie_variance_power"), "tweedie", float)
        return (Tweedie(power) if 1.0 < power < 2.0 else Linked(name, "exp")), False, log
    known: dict[str, tuple[Loss, bool, Callable[[np.ndarray], np.ndarray]]] = {
        "reg:squarederror": (SquaredError(), False, same),
        "reg:linear": (SquaredError(), False, same),
        "reg:absoluteerror": (AbsoluteError(), False, same),
        "binary:logistic": (LogLoss(), True, logit),
        "count:poisson": (Poisson(), False, log),
        "reg:gamma": (Gamma(), False, log),
    }
    if name in known:
        return known[name]
    if name in _LINKS:
        link = _LINKS[name]
        start = {"sigmoid": logit, "exp": log}.get(link, same)
        return Linked(name, link), False, start
    raise InputError(
        f"The objective {name!r:.60} of the XGBoost model is not known here, so its predictions are not; known are "
        f"{', '.join([*known, 'reg:tweedie', 'multi:softprob', *_LINKS])}."
    )


def _single(values: np.ndarray) -> np.ndarray:
    """Rounded to float32."""
    rounded: np.ndarray = values.astype(np.float32).astype(np.float64)
    return rounded


def _row(values: Any, what: str, kind: Any) -> np.ndarray:
    """A list or array of numbers as one type; nothing is cut off."""
    try:
        if isinstance(values, list) and any(type(own) not in (int, float, bool) for own in values):
            raise ValueError("not a number")
        out = np.asarray(values, dtype=np.float64 if kind is np.float64 else None)
        if len(out) == 0:
            return np.zeros(0, kind)
        if out.ndim != 1 or (kind is np.int64 and out.dtype.kind not in "iub"):
            raise ValueError("not whole numbers")
        row: np.ndarray = out.astype(kind)
        return row
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{what} of the XGBoost model is not a row of numbers: {str(error)[:60]}.") from error


def _grove(trees: list[Any], scale: np.ndarray | None) -> Grove:
    """All trees; node numbers of a tree follow those of the trees before it."""
    columns: dict[str, list[np.ndarray]] = {
        name: [] for name in ("feature", "at", "missing", "left", "right", "gain", "cover", "subset")
    }
    sets: list[np.ndarray] = []
    sizes: list[int] = []
    before = 0
    for number, tree in enumerate(trees):
        where = f"Tree {number} of the XGBoost model"
        left = _row(_at(tree, "left_children"), "left_children", np.int64)
        right = _row(_at(tree, "right_children"), "right_children", np.int64)
        n = len(left)
        at = _row(_at(tree, "split_conditions"), "split_conditions", np.float64)
        rows = {
            "feature": _row(_at(tree, "split_indices"), "split_indices", np.int64),
            "missing": _row(_at(tree, "default_left"), "default_left", np.int64) != 0,
            "gain": _row(_at(tree, "loss_changes"), "loss_changes", np.float64),
            "cover": _row(_at(tree, "sum_hessian"), "sum_hessian", np.float64),
        }
        if str(_table(tree, "tree_param").get("size_leaf_vector", "1")) not in ("0", "1"):
            raise InputError(f"{where} has leaves of several values (multi_output_tree), which cannot be imported.")
        inner = left >= 0
        if n < 1 or len(right) != n or len(at) != n or any(len(own) != n for own in rows.values()):
            raise InputError(f"{where} has arrays of different lengths, or no node.")
        if (left >= n).any() or (right >= n).any() or (right[inner] < 0).any() or not np.isfinite(at).all():
            raise InputError(f"{where} has a child that is not there, or a number that is not finite.")
        leaf = at if scale is None else at.astype(np.float32) * scale[number]  # both float32, as in XGBoost
        rows |= {"at": np.where(inner, at, leaf), "left": np.where(inner, left + before, -1)}
        rows["right"] = np.where(inner, right + before, -1)
        rows["subset"] = _sets(tree, inner, where, sets)
        by_set = rows["subset"] >= 0
        rows["left"], rows["right"] = (
            np.where(by_set, rows[b], rows[a]) for a, b in (("left", "right"), ("right", "left"))
        )
        rows["missing"] = rows["missing"] != by_set
        for name, own in rows.items():
            columns[name].append(own)
        sizes.append(n)
        before += n
    joined = {name: np.concatenate([np.empty(0), *own]) for name, own in columns.items()}
    inner = joined["left"] >= 0
    # as float32, which a decimal number in the file stands for
    at = joined["at"].astype(np.float32).astype(np.float64)
    whole = {name: joined[name].astype(np.int64) for name in ("feature", "left", "right", "subset")}
    gain, cover = (_single(np.clip(np.nan_to_num(joined[name]), 0.0, 3e38)) for name in ("gain", "cover"))
    return Grove(
        root=np.concatenate(([0], np.cumsum(np.array(sizes, np.int64))))[: len(sizes)].astype(np.int64),
        feature=np.where(inner, whole["feature"], 0),
        threshold=np.where(inner, float32_threshold(at, strict=True), 0.0),
        missing_left=joined["missing"] != 0,
        left=whole["left"],
        right=whole["right"],
        value=np.where(inner, 0.0, at),
        gain=gain,
        count=np.rint(np.minimum(cover, 2.0**50)).astype(np.int64),
        cover=cover,
        subset=whole["subset"],
        sets=sets,
    )


def _sets(tree: Any, inner: np.ndarray, where: str, sets: list[np.ndarray]) -> np.ndarray:
    """By node the number of its set of categories, or -1; the sets of this tree are added to `sets`."""
    subset = np.full(len(inner), -1, np.int64)
    kind = _row(tree.get("split_type", []), "split_type", np.int64)
    parts = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    codes, nodes, first, sizes = (_row(tree.get(name, []), name, np.int64) for name in parts)
    if not kind.any() and not len(codes) and not len(nodes):
        return subset
    asked = np.flatnonzero(inner & (kind == 1)) if len(kind) == len(inner) else None
    if asked is None or not np.array_equal(np.sort(nodes), asked) or not len(nodes) == len(first) == len(sizes):
        raise InputError(f"{where} splits on categories at nodes that it does not give them for.")
    inside = (first >= 0) & (sizes >= 0) & (first <= len(codes)) & (sizes <= len(codes) - first)
    if not inside.all() or int(sizes.sum()) != len(codes):
        raise InputError(f"{where} has categories_segments that do not fit its categories.")
    if (codes < 0).any() or (codes >= MOST_CODES).any():
        raise InputError(f"{where} has a category outside of 0 to {MOST_CODES:,}.")
    if sum(map(len, sets)) + int((codes // 64 + 1).max(initial=0)) * len(nodes) > _MOST_WORDS + 64 * len(codes):
        raise InputError(f"{where} has categories with numbers that are too high for so few of them.")
    for node, a, n in zip(nodes.tolist(), first.tolist(), sizes.tolist(), strict=True):
        subset[node] = len(sets)
        sets.append(words_of(codes[a : a + n]))
    return subset


def _level_tables(stored: Any, n_columns: int) -> tuple[Levels | None, ...]:
    """The level tables that XGBoost keeps of frames, from version 3.1 on."""
    tables = stored.get("enc") if isinstance(stored, dict) else None
    if not tables:
        return ()
    if not isinstance(tables, list) or len(tables) != n_columns:
        raise InputError(f"The XGBoost model does not have a table of categories for each of {n_columns} columns.")
    found: list[Levels | None] = [None] * n_columns
    for j, own in enumerate(tables):
        values = _at(own, "values")
        if "offsets" in own:
            ends = _row(own["offsets"], "offsets", np.int64)
            texts = (_row(values, "values", np.int64) & 255).astype(np.uint8).tobytes()
            if max(texts, default=0) > 127:
                warnings.warn(
                    f"Column {j} of the XGBoost model has categories with letters beyond ASCII, which XGBoost 3.2 cuts "
                    "at the wrong places. Their names are not known here; pass the codes of this column.",
                    stacklevel=4,
                )
                continue
            if (np.diff(ends) < 0).any() or (len(ends) and (ends[0] != 0 or ends[-1] != len(texts))):
                raise InputError("The XGBoost model has a table of categories whose offsets do not fit its texts.")
            names: list[Any] = [texts[a:b].decode() for a, b in pairwise(ends.tolist())]
        else:
            names = _row(values, "values", np.float64).tolist()
        if names:
            found[j] = level_table(names, "The XGBoost model")
    return tuple(found)
