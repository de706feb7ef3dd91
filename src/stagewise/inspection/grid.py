"""Where dependence is evaluated: values of columns, from the training data as the model remembers them, or given.

An axis of categories is their codes, with the names of the levels beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.data.binning import Marginal
from stagewise.data.categories import column_cells
from stagewise.errors import InputError, ParameterError
from stagewise.inspection.levels import Names, name_of
from stagewise.inspection.subject import Subject
from stagewise.params import check_count, check_number

__all__ = ["Grid", "make_grid", "quantiles"]

MOST_COLUMNS = 4
MOST_CELLS = 10_000_000
_RESOLUTION = (100, 50, 20, 10)  # points an axis, for one, two, three and four columns


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The product of the axes. NaN stands for a missing value."""

    columns: tuple[int, ...]
    axes: tuple[np.ndarray, ...]  # float64
    deciles: tuple[np.ndarray, ...]  # of the training values of each column, nine or none
    labels: tuple[Names, ...]  # of categories: the name of each point; None for numbers

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    @property
    def padded(self) -> np.ndarray:
        """(n_axes, longest axis)."""
        out = np.zeros((len(self.axes), max(self.shape)))
        for line, axis in zip(out, self.axes, strict=True):
            line[: len(axis)] = axis
        return out

    @property
    def size(self) -> np.ndarray:
        return np.array(self.shape, np.int64)

    def axis_of(self, n_columns: int) -> np.ndarray:
        """int64 (n_columns,): the axis of a column, -1 for none."""
        axis = np.full(n_columns, -1, np.int64)
        axis[list(self.columns)] = np.arange(len(self.columns))
        return axis


def quantiles(marginal: Marginal, levels: Any) -> np.ndarray:
    """Quantiles of the values that are not missing, at the resolution of bins."""
    present = float(marginal.shares.sum())
    upto = np.cumsum(marginal.shares)
    places = np.searchsorted(upto, np.asarray(levels) * present * (1.0 - 1e-12))
    return marginal.points[np.minimum(places, len(marginal.points) - 1)]


def make_grid(subject: Subject, features: Any, grid: Any, resolution: Any, percentiles: Any) -> Grid:
    """The grid asked for, checked."""
    columns = subject.columns(features)
    if len(columns) > MOST_COLUMNS:
        raise ParameterError(f"features name {len(columns)} columns; dependence is computed on at most {MOST_COLUMNS}.")
    marginals = [subject.model.marginals[j] if subject.model.marginals else None for j in columns]
    if grid is not None:
        axes = _given(subject, columns, grid)
    else:
        points = _RESOLUTION[len(columns) - 1] if resolution is None else check_count("resolution", resolution, 2)
        low, high = _levels(percentiles)
        axes = tuple(
            _axis(subject.names[j], own, points, low, high) if subject.levels[j] is None else _codes(subject, j, own)
            for j, own in zip(columns, marginals, strict=True)
        )
    cells = int(np.prod([len(axis) for axis in axes], dtype=np.float64))
    if cells > MOST_CELLS:
        raise ParameterError(f"the grid has {cells:,} cells; at most {MOST_CELLS:,} are allowed. Lower resolution.")
    tenths = np.arange(1, 10) / 10.0
    names = [subject.levels[j] for j in columns]
    deciles = tuple(
        np.empty(0) if own is None or len(own.points) == 0 or known is not None else quantiles(own, tenths)
        for own, known in zip(marginals, names, strict=True)
    )
    labels = tuple(
        None if known is None else tuple(name_of(known, code) for code in axis.tolist())
        for known, axis in zip(names, axes, strict=True)
    )
    return Grid(columns, axes, deciles, labels)


def _levels(percentiles: Any) -> tuple[float, float]:
    try:
        low, high = percentiles
    except (TypeError, ValueError):
        raise ParameterError(f"percentiles={percentiles!r} must be two numbers, as in (0.05, 0.95).") from None
    low, high = check_number("percentiles", low, 0.0, 1.0), check_number("percentiles", high, 0.0, 1.0)
    if low >= high:
        raise ParameterError(f"percentiles={percentiles!r} must be ascending, as in (0.05, 0.95).")
    return low, high


def _axis(name: str, marginal: Marginal | None, resolution: int, low: float, high: float) -> np.ndarray:
    """All values of a column with few of them, else evenly spaced ones between two quantiles; NaN where some are."""
    if marginal is None:
        raise ParameterError(f"this model does not remember its training data: give a grid for column {name!r}.")
    points = marginal.points[np.isfinite(marginal.points)]
    if len(points) > resolution:
        ends = quantiles(marginal, (low, high))
        if not (np.isfinite(ends).all() and ends[0] < ends[1]):  # nearly all rows share one value
            ends = points[[0, -1]]
        points = np.linspace(ends[0], ends[1], resolution)
    return np.append(points, np.nan) if marginal.missing > 0.0 or len(points) == 0 else points


def _codes(subject: Subject, j: int, marginal: Marginal | None) -> np.ndarray:
    """All codes of a column of categories, and NaN where training values were missing."""
    names = subject.levels[j]
    assert names is not None
    codes = np.arange(float(len(names))) if marginal is None else marginal.points
    return np.append(codes, np.nan) if (marginal is not None and marginal.missing > 0.0) or not len(codes) else codes


def _encoded(subject: Subject, j: int, part: Any) -> np.ndarray:
    """Levels as codes; NaN and None stay missing."""
    name, levels = subject.names[j], subject.model.schema.levels[j]
    assert levels is not None
    given = list(part)
    cells = np.empty(len(given), object)
    cells[:] = given
    try:
        codes = levels.encode(column_cells(cells, f"the grid of column {name!r}"), f"the grid of column {name!r}")
    except InputError as error:
        raise ParameterError(str(error)) from error
    for own, code in zip(given, codes.tolist(), strict=True):
        if np.isnan(code) and own is not None and own == own:
            some = ", ".join(map(repr, levels.values[:8].tolist())) + (", ..." if len(levels.values) > 8 else "")
            raise ParameterError(f"{own!r} is no level of column {name!r}; there are {some}.")
    return codes.astype(np.float64)


def _given(subject: Subject, columns: tuple[int, ...], grid: Any) -> tuple[np.ndarray, ...]:
    """One sequence for a single column, a sequence of sequences or a mapping by name for several."""
    names = [subject.names[j] for j in columns]
    if isinstance(grid, Mapping):
        by_column = {subject.column(key): values for key, values in grid.items()}
        if set(by_column) != set(columns):
            raise ParameterError(f"grid must have a sequence of values for each of {', '.join(map(repr, names))}.")
        parts = [by_column[j] for j in columns]
    else:
        try:
            parts = list(grid)
        except TypeError:
            raise ParameterError(f"grid={grid!r} must be a sequence of values, or one for each column.") from None
        if len(columns) == 1 and not (len(parts) == 1 and np.ndim(parts[0]) == 1):
            parts = [parts]
    if len(parts) != len(columns):
        raise ParameterError(f"grid has {len(parts)} axes, but features name {len(columns)} columns.")
    axes = []
    for j, name, part in zip(columns, names, parts, strict=True):
        try:
            axis = _encoded(subject, j, part) if j in subject.coded else np.array(part, np.float64)
        except (TypeError, ValueError) as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(f"the grid of column {name!r} must be numbers.") from None
        if axis.ndim != 1 or len(axis) == 0:
            raise ParameterError(f"the grid of column {name!r} is empty or no sequence; give at least one value.")
        if subject.model.schema.zeros_missing and j not in subject.coded:
            axis[axis == 0.0] = np.nan  # as predict reads them
        axes.append(axis)
    return tuple(axes)
