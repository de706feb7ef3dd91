"""LightGBM's text model, read.

What LightGBM does with a value x at a split (its `NumericalDecision`, and the copying of rows before it):

- |x| <= 1e-35 (as float32) is 0;
- a NaN is 0 unless the split's missing type is "nan";
- with missing type "zero" a 0, and with "nan" a NaN, goes to the default side; all else goes left when x <= threshold;
- a split on categories sends the codes of its set left, everything else right: NaN, negative and unseen codes too.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np

from stagewise.data.categories import Levels
from stagewise.errors import InputError, InputTypeError
from stagewise.io.grove import MOST_CODES, Grove, walk
from stagewise.io.imported import MOST_OUTPUTS, Source, estimator_of, level_table
from stagewise.losses.base import Loss
from stagewise.losses.classification import LogLoss, MulticlassLogLoss
from stagewise.losses.linked import Linked
from stagewise.losses.regression import AbsoluteError, Gamma, Huber, Poisson, Quantile, SquaredError, Tweedie
from stagewise.storage.container import strict_json
from stagewise.storage.disk import read_file

__all__ = ["ZERO", "import_lightgbm"]

ZERO = float(np.float32(1e-35))
"""What lies between -ZERO and ZERO is 0 to LightGBM."""

_BELOW_ZERO = float(np.nextafter(-ZERO, -np.inf))
_MOST_GROWTH = 64
"""Times the nodes of a tree that it may have when splits on zeros are written out."""

_NONE, _ZERO_MISSING, _NAN = 0, 1, 2


def import_lightgbm(model: Any, *, classes: Any = None) -> Any:
    """A LightGBM model as a fitted estimator of ours, which predicts the same.

    model: the path of a text model, its text (str with line breaks, or bytes), a lightgbm.Booster, or a fitted
    LGBMClassifier, LGBMRegressor or LGBMRanker. classes: labels in the order of the outputs; 0, 1, ... by default.
    """
    text, known = _text(model)
    return estimator_of(_read(text, known), classes)


def _text(model: Any) -> tuple[str, Any]:
    """The text model, and the class labels that a scikit-learn wrapper knows."""
    known = getattr(model, "classes_", None)
    booster = getattr(model, "booster_", model)
    if hasattr(booster, "model_to_string"):
        return str(booster.model_to_string()), known
    if isinstance(model, str) and "\n" in model:
        return model, None
    if isinstance(model, (str, os.PathLike)):
        model = read_file(model)
    if not isinstance(model, bytes):
        raise InputTypeError(
            f"import_lightgbm reads a path, a text model or a fitted LightGBM model, not {type(model).__name__}."
        )
    try:
        return model.decode("utf-8"), None
    except UnicodeDecodeError as error:
        raise InputError(f"This is no LightGBM text model: {error.reason} at byte {error.start}.") from error


class _Fields:
    """The `key=value` lines of a part of the file."""

    def __init__(self, lines: list[str], where: str) -> None:
        self.where = where
        self.values: dict[str, str] = {}
        for line in lines:
            key, equals, value = line.partition("=")
            if equals:
                if key in self.values:
                    raise InputError(f"{where} has {key!r:.60} twice.")
                self.values[key] = value
            elif line.strip():
                self.values[line.strip()] = ""

    def text(self, key: str) -> str:
        if key not in self.values:
            raise InputError(f"{self.where} has no line {key}=...; this is no complete LightGBM text model.")
        return self.values[key]

    def count(self, key: str, default: int | None = None) -> int:
        if default is not None and key not in self.values:
            return default
        text = self.text(key).strip()
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise InputError(f"{self.where} has {key}={text!r:.60}, which is no number from 0 to 999999999.")
        return int(text)

    def numbers(self, key: str, kind: Any, length: int, optional: bool = False) -> np.ndarray:
        if optional and not self.values.get(key, "").strip():
            return np.zeros(length, kind)
        words = self.text(key).split()
        if len(words) != length:
            raise InputError(f"{self.where} has {len(words)} values of {key}; {length} are needed.")
        try:
            return np.array(
                [int(word) for word in words] if kind is np.int64 else [float(word) for word in words], kind
            )
        except (ValueError, OverflowError) as error:
            raise InputError(f"{self.where} has a value of {key} that is no number: {str(error)[:60]}.") from error


def _read(text: str, known: Any) -> Source:
    lines = text.splitlines()
    if not lines or lines[0].strip() != "tree":
        raise InputError("This is no LightGBM text model: its first line is not 'tree'.")
    starts = [k for k, line in enumerate(lines) if line.startswith("Tree=")]
    end = next((k for k, line in enumerate(lines) if line.strip() == "end of trees"), None)
    if end is None or (starts and starts[-1] > end):
        raise InputError("This LightGBM text model is cut short: there is no line 'end of trees'.")
    head = _Fields(lines[1 : starts[0] if starts else end], "The head of the LightGBM model")
    n_columns = head.count("max_feature_idx") + 1
    names = head.text("feature_names").split(" ")
    if len(names) != n_columns:
        raise InputError(f"The LightGBM model has {len(names)} feature_names for {n_columns} columns.")
    k = head.count("num_tree_per_iteration", 1)
    if not 1 <= k <= MOST_OUTPUTS:
        raise InputError(f"The LightGBM model has {k} outputs; from 1 to {MOST_OUTPUTS:,} can be imported.")
    settings = dict(line[1:-1].partition(": ")[::2] for line in lines[end:] if line[:1] == "[" and line[-1:] == "]")
    loss, classifier = _loss(head.values.get("objective", "custom"), k, settings)
    parts = [
        _tree(_Fields(lines[a + 1 : b], f"Tree {number} of the LightGBM model"), n_columns)
        for number, (a, b) in enumerate(zip(starts, [*starts[1:], end][: len(starts)], strict=True))
    ]
    rate = settings.get("learning_rate", "")
    plain = all(name == f"Column_{j}" for j, name in enumerate(names))
    return Source(
        what="The LightGBM model",
        loss=loss,
        classifier=classifier,
        initial=np.zeros(k),
        grove=_joined(parts),
        output=np.arange(len(parts)) % k,
        n_columns=n_columns,
        names=None if plain else tuple(names),
        classes=known,
        rate=float(rate) if rate.replace(".", "", 1).isdigit() and rate.isascii() else None,
        average="average_output" in head.values,
        levels=_level_tables(lines[end:], _infos(head, n_columns)),
    )


def _infos(head: _Fields, n_columns: int) -> list[str]:
    """What the model says about each column: [least:largest], none, or the codes of categories."""
    infos = head.values.get("feature_infos", "").split(" ")
    return infos if len(infos) == n_columns else [""] * n_columns


def _loss(objective: str, k: int, settings: dict[str, str]) -> tuple[Loss, bool]:
    """The loss that an objective line stands for, and whether it is for classes. settings: the model's parameters."""
    name, *words = objective.split() or ["custom"]
    options = dict(word.partition(":")[::2] for word in words)

    def number(key: str, default: float) -> float:
        try:
            return float(options.get(key) or settings.get(key) or default)
        except ValueError as error:
            raise InputError(f"The objective {objective!r:.80} of the LightGBM model has no number {key}.") from error

    factor = number("sigmoid", 1.0) if "sigmoid" in options else 1.0
    if not 0.0 < factor < np.inf:
        raise InputError(f"The objective {objective!r:.80} of the LightGBM model has a sigmoid that is not positive.")
    if name == "multiclass" and k > 1:
        return MulticlassLogLoss(k), True
    if name == "multiclassova" and k > 1:
        return Linked(name, "one_vs_all", factor, k), True
    if k != 1:
        return Linked(name, "identity", 1.0, k), False
    if name == "binary":
        return (LogLoss() if factor == 1.0 else Linked(name, "sigmoid", factor)), True
    if "sqrt" in options and name in ("regression", "regression_l2"):
        return Linked(f"{name} sqrt", "signed_square"), False
    level, power = number("alpha", 0.9), number("tweedie_variance_power", 1.5)
    if name == "huber" and 0.0 < level < 1.0:
        return Huber(level), False
    if name == "quantile" and 0.0 < level < 1.0:
        return Quantile(level), False
    if name == "tweedie" and 1.0 < power < 2.0:
        return Tweedie(power), False
    plain: dict[str, Loss] = {
        "regression": SquaredError(), "regression_l2": SquaredError(), "regression_l1": AbsoluteError(),
        "poisson": Poisson(), "gamma": Gamma(),
    }  # fmt: skip
    if name in plain:
        return plain[name], False
    links = {"cross_entropy": "sigmoid", "xentropy": "sigmoid", "cross_entropy_lambda": "softplus", "tweedie": "exp"}
    identity = ("huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg", "custom", "none")
    if name not in links and name not in identity:
        raise InputError(
            f"The objective {objective!r:.80} of the LightGBM model is not known here, so its predictions are not; "
            "known are regression, binary, multiclass and ranking objectives of LightGBM 4."
        )
    return Linked(name, links.get(name, "identity")), False


def _tree(fields: _Fields, n_columns: int) -> Grove:
    """One tree; the inner nodes come first, then the leaves."""
    n_leaves = fields.count("num_leaves")
    if not 1 <= n_leaves <= len(fields.text("leaf_value")):
        raise InputError(f"{fields.where} has {n_leaves} leaves, but not their values.")
    if fields.count("is_linear", 0):
        raise InputError(
            f"{fields.where} has linear models in its leaves (linear_tree); only constants can be imported."
        )
    n = n_leaves - 1
    kind = fields.numbers("decision_type", np.int64, n, optional=n == 0)
    missing = (kind >> 2) & 3
    by_set = (kind & 1) != 0
    if (kind < 0).any() or (missing > _NAN).any():
        raise InputError(f"{fields.where} has a decision_type that is not known.")
    child = [fields.numbers(side, np.int64, n, optional=n == 0) for side in ("left_child", "right_child")]
    if any((own >= n).any() or (own < -n_leaves).any() for own in child):
        raise InputError(f"{fields.where} has a child that is not there.")
    left, right = (np.concatenate([np.where(own >= 0, own, n + ~own), np.full(n_leaves, -1)]) for own in child)
    feature = fields.numbers("split_feature", np.int64, n, optional=n == 0)
    if (feature < 0).any() or (feature >= n_columns).any():
        raise InputError(f"{fields.where} splits on a column outside of the {n_columns} that there are.")
    at = fields.numbers("threshold", np.float64, n, optional=n == 0)
    if np.isnan(at).any():
        raise InputError(f"{fields.where} has a threshold that is no number.")
    threshold = np.where((at >= -ZERO) & (at < 0.0), _BELOW_ZERO, np.where((at >= 0.0) & (at < ZERO), ZERO, at))
    zero_left, default_left = threshold >= 0.0, (kind & 2) != 0
    subset, sets = _sets(fields, at, by_set)
    leaves, none = np.zeros(n_leaves), np.zeros(n_leaves, np.int64)
    gain = np.maximum(fields.numbers("split_gain", np.float64, n, optional=True), 0.0)
    grove = Grove(
        root=np.zeros(1, np.int64),
        feature=np.concatenate([feature, none]),
        threshold=np.concatenate([threshold, leaves]),
        missing_left=np.concatenate([np.where(missing == _NONE, zero_left, default_left) & ~by_set, none]).astype(bool),
        left=left,
        right=right,
        value=np.concatenate([np.zeros(n), fields.numbers("leaf_value", np.float64, n_leaves)]),
        gain=np.concatenate([np.where(gain < np.inf, gain, 0.0), leaves]),
        count=np.concatenate(
            [
                fields.numbers("internal_count", np.int64, n, True),
                fields.numbers("leaf_count", np.int64, n_leaves, True),
            ]
        ),
        cover=np.concatenate(
            [
                fields.numbers("internal_weight", np.float64, n, True),
                fields.numbers("leaf_weight", np.float64, n_leaves, True),
            ]
        ),
        subset=np.concatenate([subset, np.full(n_leaves, -1)]),
        sets=sets,
    )
    if not grove.cover.any():
        grove.cover = grove.count.astype(np.float64)
    against = (missing == _ZERO_MISSING) & (zero_left != default_left) & ~by_set
    return _with_zeros(grove, against, fields.where) if against.any() else grove


def _sets(fields: _Fields, at: np.ndarray, by_set: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """(the set of each inner node or -1, the sets); `at` of a split on categories is the number of its set."""
    subset = np.full(len(at), -1, np.int64)
    n_sets = fields.count("num_cat", 0)
    if not by_set.any():
        return subset, []
    words = fields.text("cat_threshold").split()
    bounds = fields.numbers("cat_boundaries", np.int64, n_sets + 1)
    bits = fields.numbers("cat_threshold", np.int64, len(words))
    if bounds[0] != 0 or bounds[-1] != len(bits) or (np.diff(bounds) < 0).any() or len(bits) > MOST_CODES // 32:
        raise InputError(f"{fields.where} has cat_boundaries that do not fit cat_threshold.")
    if (bits < 0).any() or (bits >= 1 << 32).any():
        raise InputError(f"{fields.where} has a value of cat_threshold that is no word of 32 bits.")
    if ((at < 0) | (at >= n_sets) | (at != np.floor(at)))[by_set].any():
        raise InputError(f"{fields.where} names a set of categories that is not there.")
    subset[by_set] = at[by_set].astype(np.int64)
    halves = [bits[a:b] for a, b in pairwise(bounds.tolist())]
    pairs = [np.append(own, np.zeros(len(own) % 2, np.int64)).astype(np.uint32) for own in halves]
    return subset, [own[::2] | own[1::2].astype(np.uint64) << np.uint64(32) for own in pairs]


def _level_tables(lines: list[str], infos: list[str]) -> tuple[Levels | None, ...]:
    """The level tables of the columns that were categories of a pandas frame. infos: feature_infos of all columns.

    The text lists the categories of such columns one after the other, without saying which they are: those whose info
    is a list of codes.
    """
    said = [line.partition(":")[2] for line in lines if line.startswith("pandas_categorical:")]
    try:
        tables = strict_json(said[-1].encode()) if said else None
    except (ValueError, RecursionError) as error:
        raise InputError("pandas_categorical of the LightGBM model is no valid JSON.") from error
    if not tables:
        return ()
    columns = [j for j, info in enumerate(infos) if ":" in info and info[:1] != "["]
    if not isinstance(tables, list) or not all(isinstance(own, list) and own for own in tables):
        raise InputError("pandas_categorical of the LightGBM model is no list of lists.")
    if len(tables) != len(columns):
        raise InputError(
            f"The LightGBM model was trained on {len(tables)} columns of pandas categories, but splits {len(columns)} "
            "columns as such, and does not say which. Train it with all of them as unordered categories, or on codes."
        )
    found: list[Levels | None] = [None] * len(infos)
    for j, own in zip(columns, tables, strict=True):
        found[j] = level_table(own, "The LightGBM model")
    return tuple(found)


def _with_zeros(grove: Grove, against: np.ndarray, where: str) -> Grove:
    """Splits whose zeros go where the comparison would not send them, written out as three tests each.

    x < -ZERO, the zeros, 0 < x: one of the subtrees stands on both sides of the zeros, the other one takes the zeros
    and its own part, so both are there twice. What was counted is divided between the copies.
    """
    walk(grove, where)  # no circles: copying must end
    nodes: list[list[Any]] = []  # [old node, threshold, missing_left, left, right, share]

    def copy_of(old: int, share: float) -> int:
        nodes.append([old, float(grove.threshold[old]), bool(grove.missing_left[old]), -1, -1, share])
        return len(nodes) - 1

    waiting = [copy_of(0, 1.0)]
    while waiting:
        if len(nodes) > _MOST_GROWTH * len(grove.left):
            raise InputError(f"{where} takes zeros for missing in so many splits that it cannot be written out.")
        at = waiting.pop()
        old, threshold, *_, share = nodes[at]
        left, right = int(grove.left[old]), int(grove.right[old])
        if left < 0:
            continue
        if not against[old]:
            nodes[at][3:5] = pair = [copy_of(left, share), copy_of(right, share)]
            waiting += pair
            continue
        parts = [copy_of(child, 0.5 * share) for child in (left, right, left, right)]  # from left to right
        two, three = copy_of(old, share), copy_of(old, share)
        tests = [_BELOW_ZERO, ZERO, threshold] if threshold >= 0.0 else [threshold, _BELOW_ZERO, ZERO]
        with_zeros = [False, True, True] if threshold >= 0.0 else [False, False, True]  # where a NaN goes
        links = [[parts[0], two], [parts[1], three], parts[2:]]
        for node, bound, side, own in zip((at, two, three), tests, with_zeros, links, strict=True):
            nodes[node] = [old, bound, side, *own, share]
        waiting += parts
    source, bounds, sides, lefts, rights, shares = (np.array(own) for own in zip(*nodes, strict=True))
    return Grove(
        root=np.zeros(1, np.int64),
        feature=grove.feature[source],
        threshold=bounds,
        missing_left=sides,
        left=lefts,
        right=rights,
        value=grove.value[source],
        gain=grove.gain[source] * shares,
        count=np.ceil(grove.count[source] * shares).astype(np.int64),
        cover=grove.cover[source] * shares,
        subset=grove.subset[source],
        sets=grove.sets,
    )


def _joined(parts: list[Grove]) -> Grove:
    """One grove of many."""
    sizes = np.array([len(part.left) for part in parts], np.int64)
    shift = np.concatenate(([0], np.cumsum(sizes)))[:-1]

    def of(name: str, kind: Any) -> np.ndarray:
        return np.concatenate([np.empty(0, kind), *(getattr(part, name) for part in parts)]).astype(kind)

    def children(name: str) -> np.ndarray:
        own = of(name, np.int64)
        return np.where(own >= 0, own + np.repeat(shift, sizes), -1)

    before = np.concatenate(([0], np.cumsum([len(part.sets) for part in parts], dtype=np.int64)))[:-1]
    subset = of("subset", np.int64)
    return Grove(
        subset=np.where(subset >= 0, subset + np.repeat(before, sizes), -1),
        sets=[words for part in parts for words in part.sets],
        root=shift.astype(np.int64),
        feature=of("feature", np.int64),
        threshold=of("threshold", np.float64),
        missing_left=of("missing_left", np.bool_),
        left=children("left"),
        right=children("right"),
        value=of("value", np.float64),
        gain=of("gain", np.float64),
        count=of("count", np.int64),
        cover=of("cover", np.float64),
    )
