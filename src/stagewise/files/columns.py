"""Lines and splines through single columns as the arrays of a section, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stagewise.errors import InputError
from stagewise.learners.columns import Line, Spline

__all__ = ["line_arrays", "read_lines", "read_splines", "spline_arrays"]

_LINE = {"column": np.int64, "slope": np.float64, "level": np.float64}
_SPLINE = {"column": np.int64, "low": np.float64, "width": np.float64}  # and size, coef
_FEWEST = 4  # coefficients of a spline with one cell


def line_arrays(lines: Sequence[Line]) -> dict[str, np.ndarray]:
    """One entry a line."""
    return {name: np.array([getattr(line, name) for line in lines], kind) for name, kind in _LINE.items()}


def read_lines(arrays: Mapping[str, np.ndarray], n_columns: int) -> list[Line]:
    """The lines of `line_arrays`, checked."""
    _check("lines", arrays, _LINE)
    column, slope = arrays["column"], arrays["slope"]
    if (column < -1).any() or (column >= n_columns).any():
        raise InputError(f"A line is on a column outside of the {n_columns} that there are.")
    if not np.isfinite(slope).all() or not np.isfinite(arrays["level"]).all():
        raise InputError("The slope or the level of a line is not a finite number.")
    if (slope[column < 0] != 0.0).any():
        raise InputError("A line without a column has a slope.")
    return [Line(*own) for own in zip(*(arrays[name].tolist() for name in _LINE), strict=True)]


def spline_arrays(splines: Sequence[Spline]) -> dict[str, np.ndarray]:
    """One entry a spline, and the coefficients of all of them, one spline after the other."""
    return {
        **{name: np.array([getattr(own, name) for own in splines], kind) for name, kind in _SPLINE.items()},
        "size": np.array([len(own.coef) for own in splines], np.int64),
        "coef": np.concatenate([np.empty(0), *(own.coef for own in splines)]),
    }


def read_splines(arrays: Mapping[str, np.ndarray], n_columns: int) -> list[Spline]:
    """The splines of `spline_arrays`, checked: the kernel finds the cell of any value within the coefficients."""
    _check("splines", arrays, {**_SPLINE, "size": np.int64}, {"coef": np.float64})
    column, width, size, coef = arrays["column"], arrays["width"], arrays["size"], arrays["coef"]
    if (column < 0).any() or (column >= n_columns).any():
        raise InputError(f"A spline is on a column outside of the {n_columns} that there are.")
    if not np.isfinite(arrays["low"]).all() or not np.isfinite(width).all() or (width <= 0.0).any():
        raise InputError("The cells of a spline must begin at a finite number and have a finite width above 0.")
    if (size < _FEWEST).any() or (size > len(coef)).any() or int(size.sum()) != len(coef):
        raise InputError(f"The coefficients of the splines do not add up, or a spline has fewer than {_FEWEST}.")
    if not np.isfinite(coef).all():
        raise InputError("A coefficient of a spline is not a finite number.")
    parts = np.split(coef, np.cumsum(size)[:-1])
    whole = zip(*(arrays[name].tolist() for name in _SPLINE), parts, strict=True) if len(size) else ()
    return [Spline(*own) for own in whole]


def _check(
    what: str, arrays: Mapping[str, np.ndarray], each: Mapping[str, type], more: Mapping[str, type] = {}
) -> None:
    """Raise unless the arrays are just these rows: `each` has one entry a term."""
    expected = {**each, **more}
    for name in {**expected, **arrays}:
        if name not in arrays or name not in expected:
            raise InputError(f"The {what} have the arrays {sorted(arrays)[:9]}; they should have {sorted(expected)}.")
        if arrays[name].ndim != 1 or arrays[name].dtype != expected[name]:
            raise InputError(f"{name} of the {what} must be a row of {np.dtype(expected[name])}.")
    if len({len(arrays[name]) for name in each}) > 1:
        raise InputError(f"The arrays of the {what} differ in length.")
