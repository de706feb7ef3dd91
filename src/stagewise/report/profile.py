"""What is in the columns of a table: kinds, missing values, distributions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from stagewise.data.frame import open_frame

__all__ = ["profile", "profile_target"]

_BARS = 24
_TOP = 6


def profile(X: Any, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """One dictionary for each column: name, kind, missing (a share), distinct, and what its kind has.

    Numbers have low, median, high and bars (counts in equal steps between the 1 % and 99 % quantile, ends included);
    texts and categories have top, their most frequent values with shares.
    """
    frame = open_frame(X)
    if frame is None:
        return [_numbers(name, column) for name, column in zip(names, np.asarray(X, np.float64).T, strict=True)]
    return [_column(name, frame[column]) for name, column in zip(names, frame.columns, strict=True)]


def profile_target(y: Any, classes: np.ndarray | None, name: str) -> dict[str, Any]:
    """The same of a target."""
    if classes is None:
        return _numbers(name, np.asarray(y, np.float64))
    return _labels(name, [str(own) for own in np.asarray(y).tolist()])


def _column(name: str, column: Any) -> dict[str, Any]:
    import narwhals as nw

    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        if column.dtype == nw.Boolean:
            return _labels(name, [None if own is None else str(own) for own in column.to_list()])
        return _numbers(name, np.asarray(column.cast(nw.Float64).to_numpy(), np.float64))
    return _labels(name, [None if own is None else str(own) for own in column.to_list()])


def _numbers(name: str, values: np.ndarray) -> dict[str, Any]:
    known = values[~np.isnan(values)]
    own: dict[str, Any] = {"name": name, "kind": "number", "missing": 1.0 - len(known) / max(1, len(values))}
    finite = known[np.isfinite(known)]
    own["distinct"] = len(np.unique(known))
    if len(finite) == 0:
        return {**own, "low": None, "median": None, "high": None, "bars": []}
    ends = np.quantile(finite, [0.01, 0.99])
    if not ends[0] < ends[1]:
        ends = np.array([finite.min(), finite.max()])
    bars = (
        np.array([len(finite)]) if ends[0] == ends[1] else np.histogram(np.clip(finite, *ends), _BARS, tuple(ends))[0]
    )
    middle = float(np.median(finite))
    return {**own, "low": float(known.min()), "median": middle, "high": float(known.max()), "bars": bars.tolist()}


def _labels(name: str, values: list[str | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    counts = Counter(known)
    top = [(label, count / len(values)) for label, count in sorted(counts.items(), key=lambda own: (-own[1], own[0]))]
    missing = 1.0 - len(known) / max(1, len(values))
    return {"name": name, "kind": "category", "missing": missing, "distinct": len(counts), "top": top[:_TOP]}
