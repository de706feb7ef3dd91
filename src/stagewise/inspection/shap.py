"""Shapley values: what each column adds to a raw prediction, and what each pair of columns does together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.errors import MissingExtraError, ParameterError
from stagewise.inspection.attribution import contributions
from stagewise.inspection.dependence import expected_reach
from stagewise.inspection.leaves import paths_of
from stagewise.inspection.levels import Names, name_of
from stagewise.inspection.listing import Listed, Summary, frame_of, number, unlike
from stagewise.inspection.subject import Subject

__all__ = ["ShapInteractions", "ShapValues", "shap_interactions", "shap_values"]

_MOST_NUMBERS = 500_000_000
"""Of interaction values: 4 GB."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapValues(Listed):
    """expected + the values of a row add up to its raw prediction (log-odds, log of the mean, ...)."""

    values: np.ndarray  # (n_rows, n_columns); with several outputs (n_rows, n_columns, n_outputs)
    expected: np.ndarray  # (n_outputs,)
    data: np.ndarray  # (n_rows, n_columns); codes of categories
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    method: str  # "path" or "interventional"
    levels: tuple[Names, ...] = ()  # by column: names of the codes of categories, None for numbers

    def level(self, column: int) -> Names:
        """Names of the codes of a column of categories; None for numbers."""
        return self.levels[column] if self.levels else None

    def output(self, output: int = 0) -> np.ndarray:
        """The values of one output, (n_rows, n_columns)."""
        return self.values if self.values.ndim == 2 else self.values[:, :, output]

    def mean_size(self, output: int | None = None) -> np.ndarray:
        """Mean absolute value of each column, (n_columns,); summed over outputs when none is named."""
        sizes = np.abs(self.values).mean(axis=0)
        return sizes if sizes.ndim == 1 else sizes.sum(axis=1) if output is None else sizes[:, output]

    def to_frame(self, library: str | None = None) -> Any:
        """One row for each row of X and each output, one column for each column of X, and the expected value."""
        n, k = len(self.values), len(self.outputs)
        stacked = np.concatenate([self.output(o) for o in range(k)])
        output, expected = unlike("output", self.names), unlike("expected", self.names)
        columns: dict[str, Any] = {} if k == 1 else {output: np.repeat(np.array(self.outputs, object), n)}
        columns |= {name: stacked[:, j] for j, name in enumerate(self.names)}
        return frame_of(columns | {expected: np.repeat(self.expected, n)}, library)

    def _shown(self) -> np.ndarray:
        """The data with the names of levels in place of their codes."""
        if not any(own is not None for own in self.levels):
            return self.data
        shown = self.data.astype(object)
        for j, names in enumerate(self.levels):
            if names is not None:
                shown[:, j] = [name_of(names, code) for code in self.data[:, j].tolist()]
        return shown

    def to_explanation(self) -> Any:
        """A `shap.Explanation`, for the shap package's plots."""
        try:
            from shap import Explanation
        except ImportError:
            raise MissingExtraError("to_explanation needs the shap package: pip install shap") from None
        several = self.values.ndim == 3
        base = np.tile(self.expected, (len(self.values), 1)) if several else np.full(len(self.values), self.expected[0])
        return Explanation(
            self.values,
            base_values=base,
            data=self._shown(),
            feature_names=list(self.names),
            output_names=list(self.outputs) if several else None,
        )

    def _summary(self) -> Summary:
        sizes = self.mean_size()
        rows = [[self.names[j], number(sizes[j])] for j in np.argsort(-sizes, kind="stable")[:10]]
        kind = "path-dependent" if self.method == "path" else "interventional"
        return Summary(f"SHAP values of {len(self.values)} rows, {kind}", ["column", "mean |value|"], rows, len(sizes))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapInteractions(Listed):
    """Interaction values of a row: symmetric, and each line adds up to the column's SHAP value.

    Off the diagonal each of (i, j) and (j, i) holds half of what the pair does together; the diagonal is the rest, the
    column's main effect.
    """

    values: np.ndarray  # (n_rows, n_columns, n_columns); with several outputs (..., n_outputs)
    expected: np.ndarray  # (n_outputs,)
    data: np.ndarray  # (n_rows, n_columns)
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    method: str

    def output(self, output: int = 0) -> np.ndarray:
        """The values of one output, (n_rows, n_columns, n_columns)."""
        return self.values if self.values.ndim == 3 else self.values[..., output]

    def mean_size(self, output: int = 0) -> np.ndarray:
        """(n_columns, n_columns): mean absolute values; twice that off the diagonal, the whole effect of a pair."""
        sizes = np.abs(self.output(output)).mean(axis=0)
        return np.asarray(2.0 * sizes - np.diag(np.diag(sizes)))

    def to_frame(self, library: str | None = None) -> Any:
        """One row a pair and output: the mean absolute effect; main effects are the pairs of a column with itself."""
        i, j = np.triu_indices(len(self.names))
        k = len(self.outputs)
        columns: dict[str, Any] = {} if k == 1 else {"output": np.repeat(np.array(self.outputs, object), len(i))}
        columns |= {
            "column": np.tile(np.array(self.names, object)[i], k),
            "with": np.tile(np.array(self.names, object)[j], k),
            "mean size": np.concatenate([self.mean_size(o)[i, j] for o in range(k)]),
        }
        return frame_of(columns, library)

    def _summary(self) -> Summary:
        sizes = np.triu(self.mean_size(), 1)
        order = [k for k in np.argsort(-sizes, axis=None, kind="stable")[:10] if sizes.flat[k] > 0.0]
        pairs = [divmod(int(k), len(self.names)) for k in order]
        rows = [[f"{self.names[i]} × {self.names[j]}", number(sizes[i, j])] for i, j in pairs]
        title = f"SHAP interactions of {len(self.values)} rows"
        return Summary(title, ["pair", "mean |value|"], rows, int((sizes > 0.0).sum()))


def shap_values(model: Any, X: Any, *, background: Any = None, background_weight: Any = None) -> ShapValues:
    """SHAP values of the rows of X, on the scale of raw predictions.

    Without background, a column that is left out sends a row both ways, by the training rows that went there
    (path-dependent TreeSHAP). With a background table, columns that are left out are taken from its rows, one after the
    other, with weights if given (interventional TreeSHAP).
    """
    subject = Subject.of_trees(model)
    matrix = subject.matrix(X)
    rows, shares, expected = _background(subject, background, background_weight)
    values = contributions(subject.model, matrix, rows, shares, False, subject.n_threads)
    return ShapValues(
        _outputs_last(values), expected, matrix, subject.names, subject.outputs, _method(background), subject.levels
    )


def shap_interactions(model: Any, X: Any, *, background: Any = None, background_weight: Any = None) -> ShapInteractions:
    """SHAP interaction values of the rows of X; arguments as in `shap_values`."""
    subject = Subject.of_trees(model)
    matrix = subject.matrix(X)
    size = len(matrix) * subject.model.n_outputs * len(subject.names) ** 2
    if size > _MOST_NUMBERS:
        raise ParameterError(
            f"{len(matrix):,} rows of {len(subject.names)} columns have {size:,} interaction values; at most "
            f"{_MOST_NUMBERS:,} are computed at once. Pass fewer rows."
        )
    rows, shares, expected = _background(subject, background, background_weight)
    own = contributions(subject.model, matrix, rows, shares, False, subject.n_threads)
    values = contributions(subject.model, matrix, rows, shares, True, subject.n_threads)
    j = np.arange(len(subject.names))
    for part, sums in zip(values, own, strict=True):  # row by row: no second copy of all of them
        part += part.swapaxes(1, 2).copy()
        part[:, j, j] = sums - part.sum(axis=2)
    return ShapInteractions(
        _outputs_last(values), expected, matrix, subject.names, subject.outputs, _method(background)
    )


def _method(background: Any) -> str:
    return "path" if background is None else "interventional"


def _outputs_last(values: np.ndarray) -> np.ndarray:
    """(n_rows, n_outputs, ...) in the order of the shap package: without the outputs when there is one, else last."""
    return values[:, 0] if values.shape[1] == 1 else np.moveaxis(values, 1, -1)


def _background(subject: Subject, background: Any, weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, their weights, and the prediction of the empty coalition, (n_outputs,)."""
    model = subject.model
    if background is None:
        if weight is not None:
            raise ParameterError("background_weight needs a background.")
        paths = paths_of(model)
        mean = paths.value * expected_reach(paths, np.zeros(len(subject.names), np.bool_))
        totals = np.bincount(paths.output, mean, minlength=model.n_outputs)
        return np.empty((0, len(subject.names))), np.empty(0), model.initial + totals
    rows = np.array(subject.matrix(background), np.float64)
    shares = subject.shares(weight, len(rows))
    return rows, shares, model.raw(rows, subject.n_threads) @ shares
