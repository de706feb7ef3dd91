"""Relative importance of columns (ESL 10.13.1), and what a score loses when a column is shuffled."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stagewise.errors import InputError, InputTypeError
from stagewise.inspection.listing import Listed, Summary, frame_of, number
from stagewise.inspection.subject import Subject
from stagewise.params import check_choice, check_count

__all__ = ["Importance", "feature_importance"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Importance(Listed):
    """One number a column."""

    names: tuple[str, ...]
    values: np.ndarray  # (n_columns,)
    kind: str  # "gain", "split", "cover" or "permutation"
    scale: str  # "max", "sum" or "none"
    outputs: tuple[str, ...]
    by_output: np.ndarray  # (n_outputs, n_columns), scaled each on its own; no rows for permutation
    repeats: np.ndarray  # (n_repeats, n_columns): the drops of a permutation importance, else no rows

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation over the repeats of a permutation importance, else zeros; (n_columns,)."""
        return self.repeats.std(axis=0, ddof=1) if len(self.repeats) > 1 else np.zeros(len(self.values))

    @property
    def order(self) -> np.ndarray:
        """Numbers of the columns, the most important first; equal ones as in the table."""
        return np.argsort(-self.values, kind="stable")

    def to_frame(self, library: str | None = None) -> Any:
        """One row a column, the most important first."""
        order = self.order
        columns: dict[str, Any] = {"column": [self.names[j] for j in order], "importance": self.values[order]}
        if len(self.repeats):
            columns["spread"] = self.spread[order]
        if len(self.by_output) > 1:
            columns |= {
                f"importance {name}": own[order] for name, own in zip(self.outputs, self.by_output, strict=True)
            }
        return frame_of(columns, library)

    def _summary(self) -> Summary:
        spread = self.spread
        rows = [
            [self.names[j], number(self.values[j])] + ([f"± {number(spread[j])}"] if len(self.repeats) else [])
            for j in self.order[:10]
        ]
        header = ["column", "importance"] + (["over repeats"] if len(self.repeats) else [])
        return Summary(f"Importance by {self.kind}", header, rows, len(self.names))


def feature_importance(
    model: Any,
    kind: str = "gain",
    *,
    scale: str = "auto",
    X: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    scoring: Any = None,
    n_repeats: int = 5,
    random_state: int = 0,
) -> Importance:
    """How much the columns matter to a model.

    kind: "gain" sums the squared improvement of the splits on a column, averaged over trees and classes (ESL 10.13.1);
    "split" counts those splits and "cover" adds up the weight of the rows they divide, a tree on average;
    "permutation" is the drop in score when the column is shuffled in X, which should be held-out data. It needs X and y
    and an estimator; scoring is what scikit-learn takes (default: the estimator's own score).
    scale: "max" makes the largest 100, "sum" makes them sum to 1, "none" leaves them; "auto" is "max", and "none" for
    permutation.
    """
    kind = check_choice("kind", kind, ("gain", "split", "cover", "permutation"))
    subject = Subject.of(model) if kind == "permutation" else Subject.of_trees(model)
    scale = check_choice("scale", scale, ("auto", "max", "sum", "none"))
    if kind == "permutation":
        repeats = _drops(subject, X, y, sample_weight, scoring, check_count("n_repeats", n_repeats, 1), random_state)
        scale = "none" if scale == "auto" else scale
        values = _scaled(repeats.mean(axis=0), scale)
        return Importance(subject.names, values, kind, scale, subject.outputs, np.empty((0, values.size)), repeats)
    scale = "max" if scale == "auto" else scale
    by_output = _by_output(subject, kind)
    values = _scaled(by_output.mean(axis=0), scale)
    each = np.array([_scaled(own, scale) for own in by_output])
    return Importance(subject.names, values, kind, scale, subject.outputs, each, np.empty((0, values.size)))


def _by_output(subject: Subject, kind: str) -> np.ndarray:
    """(n_outputs, n_columns): averages over the trees of each output."""
    model = subject.model
    total = np.zeros((model.n_outputs, model.schema.n_columns))
    for stage in model.stages:
        for own, tree in zip(total, stage, strict=True):
            inner = np.flatnonzero(tree.left >= 0)
            each = np.ones(len(inner)) if kind == "split" else getattr(tree, kind)[inner]
            np.add.at(own, tree.feature[inner], each)
    return total / max(1, len(model.stages))


def _scaled(values: np.ndarray, scale: str) -> np.ndarray:
    total = {"max": values.max(initial=0.0) / 100.0, "sum": values.sum(), "none": 1.0}[scale]
    return values / total if total > 0.0 else values


def _drops(
    subject: Subject, X: Any, y: Any, sample_weight: Any, scoring: Any, n_repeats: int, random_state: int
) -> np.ndarray:
    """(n_repeats, n_columns): score as it is minus score with a column shuffled."""
    if subject.estimator is None:
        raise InputTypeError("permutation importance needs an estimator, which has a score; a model_ has none.")
    if X is None or y is None:
        raise InputError("permutation importance needs X and y, best of rows that were held out.")
    model = subject.model
    matrix = subject.matrix(X)
    from sklearn.metrics import check_scoring  # here, because scikit-learn takes a second to import

    scorer = check_scoring(subject.estimator, scoring)
    options = {} if sample_weight is None else {"sample_weight": sample_weight}
    shuffled = np.array(matrix)  # ours to write to
    plain = copy(subject.estimator)  # takes categories as codes, which is what the matrix has
    plain.model_ = replace(model, schema=replace(model.schema, levels=()))

    def score() -> float:
        with warnings.catch_warnings():  # the names were compared when X was read
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return float(scorer(plain, shuffled, y, **options))

    before = score()
    used = np.full(model.schema.n_columns, not model.of_trees)  # other terms may look at any column
    for tree in (tree for stage in model.stages for tree in stage if model.of_trees):
        used[tree.feature[tree.left >= 0]] = True
    drops = np.zeros((n_repeats, model.schema.n_columns))  # exactly 0 for a column that no tree looks at
    rng = np.random.default_rng(random_state)
    for repeat in range(n_repeats):
        order = rng.permutation(len(matrix))
        for j in np.flatnonzero(used):
            shuffled[:, j] = matrix[order, j]
            drops[repeat, j] = before - score()
            shuffled[:, j] = matrix[:, j]
    return drops
