"""Partial dependence on one column or a few (ESL 10.13.2, Friedman 2001, section 8.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stagewise.errors import InputError, ParameterError
from stagewise.inspection.curves import curve_values, on_scale
from stagewise.inspection.grid import Grid, make_grid
from stagewise.inspection.leaves import paths_of
from stagewise.inspection.levels import Names
from stagewise.inspection.listing import Listed, Summary, frame_of, number, unlike
from stagewise.inspection.subject import Subject
from stagewise.kernels.dependence import add_boxes, reach_shares
from stagewise.kernels.paths import Paths
from stagewise.kernels.team import Team
from stagewise.markup import curves
from stagewise.params import check_choice

__all__ = ["Dependence", "expected_reach", "partial_dependence"]

_CELLS_A_THREAD = 10_000_000
_ROWS_AT_ONCE = 4_000_000  # numbers of curves that are averaged


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dependence(Listed):
    """The average prediction as a function of some columns, on a grid."""

    features: tuple[str, ...]
    grid: tuple[np.ndarray, ...]  # one array a column; NaN stands for missing; codes of categories
    values: np.ndarray  # (n_outputs, *sizes of the grid)
    outputs: tuple[str, ...]
    method: str  # "traversal" or "brute"
    response: str  # "raw" or "prediction"
    deciles: tuple[np.ndarray, ...]  # of the training values of each column; empty when they are not known
    labels: tuple[Names, ...] = ()  # of a column of categories the name of each grid point; None for numbers
    steps_only: bool = False  # values are differences from one grid point to the next

    def label(self, axis: int) -> Names:
        """Names of the points of an axis of categories; None for numbers."""
        return self.labels[axis] if self.labels else None

    def centred(self) -> Dependence:
        """The same minus its mean over the grid."""
        return replace(
            self, values=self.values - self.values.mean(axis=tuple(range(1, self.values.ndim)), keepdims=True)
        )

    def steps(self) -> Dependence:
        """By how much the dependence on one column rises from each grid point to the next: where a model jumps.

        Value i belongs to grid point i + 1 of the original; missing values have no neighbour and are left out.
        """
        if len(self.grid) != 1:
            raise ParameterError(f"steps are defined for one column, and this is the dependence on {len(self.grid)}.")
        if self.label(0) is not None:
            raise ParameterError(
                f"the levels of {self.features[0]!r} have no order, so there are no steps between them."
            )
        present = ~np.isnan(self.grid[0])
        order = np.argsort(self.grid[0][present], kind="stable")
        ordered, values = self.grid[0][present][order], self.values[:, present][:, order]
        return replace(self, grid=(ordered[1:],), values=np.diff(values, axis=1), steps_only=True)

    def to_frame(self, library: str | None = None) -> Any:
        """One row for each grid point and output."""
        points = [
            axis if self.label(d) is None else np.array(self.label(d), object) for d, axis in enumerate(self.grid)
        ]
        axes = np.meshgrid(*points, indexing="ij")
        k = len(self.outputs)
        columns: dict[str, Any] = {
            name: np.tile(axis.ravel(), k) for name, axis in zip(self.features, axes, strict=True)
        }
        if k > 1:
            columns[unlike("output", columns)] = np.repeat(np.array(self.outputs, object), axes[0].size)
        value = unlike("step" if self.steps_only else "dependence", columns)
        return frame_of({**columns, value: self.values.ravel()}, library)

    def _summary(self) -> Summary:
        size = " × ".join(str(len(axis)) for axis in self.grid)
        low, high = (self.values.min(), self.values.max()) if self.values.size else (np.nan, np.nan)
        title = f"{'Steps of dependence' if self.steps_only else 'Dependence'} on {' and '.join(self.features)}"
        rows = [
            ["grid", size],
            ["from", number(low)],
            ["to", number(high)],
            ["method", self.method],
            ["response", self.response],
        ]
        if len(self.outputs) > 1:
            rows.append(["outputs", ", ".join(self.outputs)])
        return Summary(title, ["", ""], rows)

    def _picture(self) -> str:
        """The lines of a single column of numbers; everything else is for `plots`."""
        if len(self.grid) > 1 or self.grid[0].dtype.kind != "f":
            return ""
        order = np.argsort(self.grid[0], kind="stable")
        lines = {name: (self.grid[0][order], own[order]) for name, own in zip(self.outputs, self.values, strict=True)}
        return curves(lines, f"dependence on {self.features[0]}")


def expected_reach(paths: Paths, fixed: np.ndarray) -> np.ndarray:
    """By leaf: the product of cover shares of its conditions on columns that are not fixed (bool by column)."""
    factors = np.where(fixed[paths.column], 1.0, paths.ratio)
    lengths = np.diff(paths.start)
    out = np.ones(len(lengths))
    some = lengths > 0
    if some.any():
        out[some] = np.multiply.reduceat(factors, paths.start[:-1][some])
    return out


def partial_dependence(
    model: Any,
    features: Any,
    grid: Any = None,
    *,
    method: str = "traversal",
    X: Any = None,
    sample_weight: Any = None,
    response: str = "raw",
    resolution: int | None = None,
    percentiles: tuple[float, float] = (0.05, 0.95),
) -> Dependence:
    """The dependence of a model on one to four columns, the others averaged out.

    features: a name or number, or a sequence of them. grid: the values to look at (a sequence; for several columns one
    each, or a mapping); NaN asks for the dependence at missing values. Without it, all training values of a column with
    at most `resolution` of them, else evenly spaced ones between two percentiles of the training data; and NaN where
    training values were missing. The model remembers what is needed for that. A column of categories has all of its
    levels; a grid names them.

    method: "traversal" weighs both sides of a split on another column by the training rows that went there, and needs
    no data; "brute" averages over the rows of X (with sample_weight).
    response: "raw" is the model's own scale (log-odds, log of the mean, ...); "prediction" the scale of `predict` or
    `predict_proba`, averaged over X and so only with "brute".
    """
    subject = Subject.of_trees(model)
    method = check_choice("method", method, ("traversal", "brute"))
    response = check_choice("response", response, ("raw", "prediction"))
    points = make_grid(subject, features, grid, resolution, percentiles)
    if method == "traversal":
        if response != "raw":
            raise ParameterError('response="prediction" is an average over rows: use method="brute" and give X.')
        if X is not None or sample_weight is not None:
            raise ParameterError('method="traversal" takes no X and no sample_weight; use method="brute" for them.')
        values = _traversal(subject, points)
    else:
        if X is None:
            raise InputError('method="brute" averages over rows: give X, for example the training data.')
        matrix = subject.matrix(X)
        shares = subject.shares(sample_weight, len(matrix))
        if response == "raw":
            values = _brute(subject, points, matrix, shares)
        else:
            values = _averaged(subject, points, matrix, shares)
    return Dependence(
        tuple(subject.names[j] for j in points.columns),
        points.axes,
        values.reshape(-1, *points.shape),
        subject.outputs,
        method,
        response,
        points.deciles,
        points.labels,
    )


def _boxes(subject: Subject, paths: Paths, weight: np.ndarray, points: Grid) -> np.ndarray:
    """(n_outputs, cells): the leaves' weights added up where grid points can reach them."""
    cells = int(np.prod(points.shape))
    out = np.repeat(subject.model.initial[:, None], cells, axis=1)
    axis = points.axis_of(subject.model.schema.n_columns)
    work = cells * len(paths.value)
    with Team(max(1, min(subject.n_threads, work // _CELLS_A_THREAD)) if len(points.axes) > 1 else 1) as team:
        team.run(add_boxes, paths, weight, axis, points.padded, points.size, out)
    return out


def _fixed(subject: Subject, points: Grid) -> np.ndarray:
    fixed = np.zeros(subject.model.schema.n_columns, np.bool_)
    fixed[list(points.columns)] = True
    return fixed


def _traversal(subject: Subject, points: Grid) -> np.ndarray:
    paths = paths_of(subject.model)
    weight = paths.value * expected_reach(paths, _fixed(subject, points))
    return _boxes(subject, paths, weight, points)


def _brute(subject: Subject, points: Grid, matrix: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """As traversal, with the share of rows that meet a leaf's other conditions in place of cover shares."""
    paths = paths_of(subject.model)
    inside = (~_fixed(subject, points)).astype(np.uint8)
    columns = np.array(matrix.T, np.float64, order="C")
    reach = np.empty(len(paths.value))
    with Team(subject.n_threads if columns.shape[1] * len(reach) > _CELLS_A_THREAD else 1) as team:
        team.run(reach_shares, columns, shares, paths, inside, reach)
    return _boxes(subject, paths, paths.value * reach, points)


def _averaged(subject: Subject, points: Grid, matrix: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(n_outputs, cells): means of predictions on the scale of y."""
    cells = int(np.prod(points.shape))
    rows = max(1, _ROWS_AT_ONCE // (cells * subject.model.n_outputs))
    paths = paths_of(subject.model)
    total = np.zeros((subject.model.n_outputs, cells))
    for a in range(0, len(matrix), rows):
        raw = curve_values(subject, paths, points, matrix[a : a + rows])
        total += np.einsum("krc,r->kc", on_scale(subject, raw, "prediction"), shares[a : a + rows])
    return total
