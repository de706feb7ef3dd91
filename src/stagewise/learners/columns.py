"""Single columns as base learners: at each stage the one that fits best (Bühlmann and Yu 2003; ESL 16.2).

Both learners keep fixed weights: they serve rules that fit the gradient itself, where weights do not change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stagewise.errors import InputError
from stagewise.kernels.columns import line_moments, spline_moments, spline_values
from stagewise.kernels.team import Team
from stagewise.learners.base import Working

__all__ = ["ColumnFit", "Line", "LineLearner", "Spline", "SplineLearner", "check_values"]

_FLAT = 1e-13
"""A column whose standard deviation is below this share of its largest value is constant but for rounding."""


def check_values(X: np.ndarray) -> None:
    """Raise InputError for what no line or spline can be drawn through."""
    if np.isnan(X).any():
        raise InputError(
            "Input X contains NaN, which lines and splines cannot use; take base='stump', or fill the gaps first."
        )
    if not np.isfinite(X).all():
        raise InputError("Input X contains infinity; lines and splines need finite values: take base='stump'.")


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """level + slope · x[column]; column -1: the level alone."""

    column: int
    slope: float
    level: float

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.at(np.ascontiguousarray(X[:, max(self.column, 0)], dtype=np.float64))

    def at(self, x: np.ndarray) -> np.ndarray:
        return self.level + self.slope * x

    def times(self, step: float) -> Line:
        return replace(self, slope=step * self.slope, level=step * self.level)


@dataclass(frozen=True, slots=True, eq=False)
class Spline:
    """Σ_k coef_k·B_k(x[column]): cubic B-splines on equidistant cells; constant beyond the outer ones."""

    column: int
    low: float
    width: float
    coef: np.ndarray  # (n_cells + 3,)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.at(np.ascontiguousarray(X[:, max(self.column, 0)], dtype=np.float64))

    def at(self, x: np.ndarray) -> np.ndarray:
        out = np.empty(len(x))
        spline_values(0, 1, x, self.low, self.width, self.coef, out)
        return out

    def times(self, step: float) -> Spline:
        return replace(self, coef=step * self.coef)


class ColumnFit:
    """The chosen column's term, and the column itself."""

    def __init__(self, term: Any, x: np.ndarray) -> None:
        self.term, self.x = term, x

    def values(self) -> np.ndarray:
        return self.term.at(self.x)  # type: ignore[no-any-return]

    def scaled(self, step: float) -> Any:
        return self.term.times(step)

    def add(self, terms: Sequence[Any], raw: np.ndarray, output: int) -> None:
        for term in terms:
            raw[output] += term.at(self.x)


class _ColumnLearner:
    """Columns (n_columns, n_rows) and the weights of the rows, 0 for those that take no part."""

    def __init__(self, X: np.ndarray, weight: np.ndarray, team: Team, n_outputs: int) -> None:
        check_values(X)
        self.columns = np.ascontiguousarray(X.T, dtype=np.float64)
        self.weight, self.team, self.outputs = weight, team, range(n_outputs)
        self.total = float(np.sum(weight))

    def _response(self, working: Working) -> np.ndarray:
        """Weight times what is to be fitted, the negative gradient, which has the weights in it: of size 1 to 2."""
        return np.where(self.weight > 0.0, -working.grad, 0.0) / self._unit(working)

    @staticmethod
    def _unit(working: Working) -> float:
        """A power of two: squares of what is fitted neither vanish nor overflow."""
        return math.ldexp(1.0, math.frexp(working.grad_peak)[1] - 1) if working.grad_peak > 0.0 else 1.0

    def operator(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """(Z, A): the fit to u is Z·A·Zᵀ·W·u, Z (n_rows, q). For degrees of freedom."""
        raise AssertionError("each learner has its own")


class LineLearner(_ColumnLearner):
    """Simple linear regressions, with an intercept; ties go to the lowest column."""

    def __init__(self, X: np.ndarray, weight: np.ndarray, team: Team, n_outputs: int) -> None:
        super().__init__(X, weight, team, n_outputs)
        used = self.columns[:, weight > 0.0]
        # a power of two for each column, so that no square overflows or vanishes
        peak = np.ldexp(1.0, np.frexp(np.maximum(np.abs(used).max(axis=1), 1e-307))[1] - 1)
        # rows that take no part are of any size: their squares, times a weight of 0, must not become NaN
        scaled = np.where(weight > 0.0, self.columns, 0.0) / peak[:, None]
        moments = np.empty(len(scaled))
        team.run(line_moments, scaled, weight, moments)
        center = moments / self.total
        scaled -= center[:, None]
        team.run(line_moments, scaled * scaled, weight, moments)
        flat = moments <= _FLAT**2 * self.total
        self.squares = np.where(flat, np.inf, moments)  # Σ w·(x - mean)²
        self.peak, self.mean, self.scaled = peak, center * peak, scaled

    def fit(self, working: Working, index: np.ndarray, rest: np.ndarray, stage: int, output: int) -> ColumnFit:
        response, unit = self._response(working), self._unit(working)
        moments = np.empty(len(self.columns))
        self.team.run(line_moments, self.scaled, response, moments)
        level = float(np.sum(response)) / self.total
        gain = moments * (moments / self.squares)
        column = int(gain.argmax())
        if not gain[column] > 0.0:
            return ColumnFit(Line(-1, 0.0, level * unit), self.columns[0])
        slope = float(moments[column] / self.squares[column]) * (unit / float(self.peak[column]))
        return ColumnFit(Line(column, slope, level * unit - slope * float(self.mean[column])), self.columns[column])

    def operator(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        ones = np.ones((self.columns.shape[1], 1))
        if column < 0:
            return ones, np.array([[1.0 / self.total]])
        basis = np.column_stack([ones, self.scaled[column]])
        return basis, np.diag([1.0 / self.total, 1.0 / self.squares[column]])


class SplineLearner(_ColumnLearner):
    """Penalised cubic B-splines (Eilers and Marx 1996): second differences of the coefficients are penalised, as much
    as leaves each column the same degrees of freedom, so that none is favoured (Bühlmann and Yu 2003, section 4)."""

    def __init__(
        self, X: np.ndarray, weight: np.ndarray, team: Team, n_outputs: int, n_cells: int = 20, df: float = 4.0
    ) -> None:
        super().__init__(X, weight, team, n_outputs)
        used = self.columns[:, weight > 0.0]
        self.low = used.min(axis=1)
        span = used.max(axis=1) - self.low
        if not np.isfinite(span).all():
            raise InputError("a column of X spans more than float64's range of 1.8e308; rescale it.")
        self.flat = span <= _FLAT * np.abs(used).max(axis=1)
        self.width = np.where(self.flat, 1.0, span / n_cells)
        size = n_cells + 3
        differences = np.diff(np.eye(size), n=2, axis=0)
        self.penalty = differences.T @ differences
        self.gram = np.stack([self._gram(j, size) for j in range(len(used))])  # (n_columns, q, q): BᵀWB
        self.inverse = np.stack([smoother(gram, self.penalty, df) for gram in self.gram])

    def _basis(self, column: int, size: int) -> np.ndarray:
        """(n_rows, q): all B-splines at every row."""
        out = np.empty((self.columns.shape[1], size))
        for k, unit in enumerate(np.eye(size)):
            spline_values(0, 1, self.columns[column], self.low[column], self.width[column], unit, out[:, k])
        return out

    def _gram(self, column: int, size: int) -> np.ndarray:
        own = self.columns[column : column + 1], self.low[column : column + 1], self.width[column : column + 1]
        out = np.empty((size, 1, size))
        for k, basis in enumerate(self._basis(column, size).T):
            spline_moments(0, 1, *own, self.weight * basis, out[k])
        return out[:, 0]

    def fit(self, working: Working, index: np.ndarray, rest: np.ndarray, stage: int, output: int) -> ColumnFit:
        response, unit = self._response(working), self._unit(working)
        moments = np.empty(self.gram.shape[:2])
        self.team.run(spline_moments, self.columns, self.low, self.width, response, moments)
        coef = np.einsum("jkl,jl->jk", self.inverse, moments)
        gain = 2.0 * np.sum(coef * moments, axis=1) - np.einsum("jk,jkl,jl->j", coef, self.gram, coef)
        gain[self.flat] = -np.inf
        column = int(gain.argmax())
        if not gain[column] > 0.0:
            return ColumnFit(Line(-1, 0.0, unit * float(np.sum(response)) / self.total), self.columns[0])
        low, width = float(self.low[column]), float(self.width[column])
        return ColumnFit(Spline(column, low, width, unit * coef[column]), self.columns[column])

    def operator(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        if column < 0:
            return np.ones((self.columns.shape[1], 1)), np.array([[1.0 / self.total]])
        return self._basis(column, self.gram.shape[1]), self.inverse[column]


def smoother(gram: np.ndarray, penalty: np.ndarray, df: float) -> np.ndarray:
    """(gram + λ·penalty)⁻¹ with λ such that the trace of the smoother, tr((gram + λ·penalty)⁻¹·gram), is df.

    A column of fewer distinct values than df has all the freedom that it can have. A ridge of 1e-10 of the average
    weight keeps cells without rows from leaving coefficients undefined.
    """
    size = len(gram)
    unit = float(np.trace(gram)) / size
    fixed = gram + 1e-10 * unit * np.eye(size)

    def trace(log_penalty: float) -> float:
        return float(np.trace(np.linalg.solve(fixed + unit * np.exp(log_penalty) * penalty, gram)))

    low, high = -18.0, 30.0
    if trace(low) > df:
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if trace(middle) > df else (low, middle)
    inverse = np.linalg.inv(fixed + unit * np.exp(low) * penalty)
    return 0.5 * (inverse + inverse.T)
