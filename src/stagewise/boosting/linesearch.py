"""Friedman's Algorithm 1 with any learner: how far to go along a fit h, argmin over ρ of Σ w·L(y, f + ρ·h).

"exact" finds that minimum: in closed form for squared error, as a weighted quantile of the residuals (y - f)/h with
weights w|h| for absolute error and quantiles (the median for the former: Friedman 2001, section 4.3), from the break
points of a piecewise linear derivative for Huber's loss, and by Newton steps kept within a shrinking bracket for all
others. "newton" takes one Newton step from ρ = 0, "none" takes ρ = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.boosting.pairs import Pairs, PairsMaker, exact_sum
from stagewise.boosting.rules import Rule, Targets
from stagewise.errors import InputError, ParameterError
from stagewise.kernels.leaves import LOG_RATIO
from stagewise.learners.base import Working
from stagewise.losses.base import Loss

__all__ = ["LineSearchRule", "breakpoint_root", "huber_step", "quantile_step", "safeguarded_root"]

_NOTHING = np.empty(0)
_HOPELESS = 1e3
"""A deviance that has grown by this many times its first value will not come back."""

_FURTHEST = 2.0**40
"""Largest |ρ| tried: a loss may fall for ever."""

_CERTAIN = 38.0
"""The same, along h of size 1 to 2, where f is a logarithm: nothing further out than e^±38 can be told apart. Reached
where the minimum lies at infinity, because h separates the classes."""


def breakpoint_root(points: np.ndarray, jumps: np.ndarray, start: float) -> float:
    """Where start + Σ jumps[points <= ρ] reaches 0 from below (jumps ≥ 0); the middle of the stretch where it is 0."""
    order = np.argsort(points, kind="stable")
    reached = start + np.cumsum(jumps[order])
    slack = 1e-12 * max(abs(start), float(np.abs(reached[-1])))  # a sum that is 0 but for rounding
    first = int(np.searchsorted(reached, -slack))
    if first >= len(order):
        return float(points[order[-1]])
    value = float(points[order[first]])
    if abs(reached[first]) <= slack:
        later = np.flatnonzero(reached > slack)
        if len(later):
            value = 0.5 * value + 0.5 * float(points[order[later[0]]])
    return value


def quantile_step(residual: np.ndarray, h: np.ndarray, weight: np.ndarray, alpha: float) -> float:
    """argmin over ρ of Σ w·pinball(residual - ρ·h): for α = ½ the median of residual/h with weights w|h|."""
    use = (h != 0.0) & (weight > 0.0)
    residual, h, weight = residual[use], h[use], weight[use]
    if len(h) == 0:
        return 0.0
    size = weight * np.abs(h)
    below = np.where(h > 0.0, alpha, 1.0 - alpha)  # share of the jump that lies left of the break point
    return breakpoint_root(residual / h, size, -float(np.sum(below * size)))


def huber_step(residual: np.ndarray, h: np.ndarray, weight: np.ndarray, delta: float) -> float:
    """argmin over ρ of Σ w·Huber_δ(residual - ρ·h), from its piecewise linear derivative.

    Row i's part of the derivative is -w·h·clip(r - ρh, ±δ): flat, then of slope w·h² between (r - δ)/h and (r + δ)/h
    (in either order), then flat again.
    """
    if delta <= 0.0:
        return quantile_step(residual, h, weight, 0.5)
    use = (h != 0.0) & (weight > 0.0)
    r, h, weight = residual[use], h[use], weight[use]
    if len(h) == 0:
        return 0.0
    ends = np.sort(np.stack([(r - delta) / h, (r + delta) / h]), axis=0)
    slope = weight * h * h
    points = np.concatenate([ends[0], ends[1]])
    change = np.concatenate([slope, -slope])
    order = np.argsort(points, kind="stable")
    points = points[order]
    slopes = np.maximum(np.cumsum(change[order]), 0.0)  # between points[k] and points[k + 1]
    start = -float(np.sum(weight * np.abs(h))) * delta  # the derivative left of all points
    values = start + np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(points))])
    k = int(np.searchsorted(values, 0.0))  # values ascend: the first point at or beyond the root
    k = min(max(k, 1), len(points) - 1)
    rise = values[k] - values[k - 1]
    if rise <= 0.0:
        return float(points[k - 1])
    at = float(points[k - 1] + (points[k] - points[k - 1]) * (-values[k - 1] / rise))
    return _polished(at, r, h, weight, delta)


def _polished(at: float, r: np.ndarray, h: np.ndarray, weight: np.ndarray, delta: float) -> float:
    """One Newton step within the linear piece: the running sums above carry the rounding of all points before it."""
    left = r - at * h
    inside = np.abs(left) <= delta
    slope = float(np.sum(weight[inside] * h[inside] ** 2))
    if slope <= 0.0:
        return at
    return at + float(np.sum(weight * h * np.clip(left, -delta, delta))) / slope


def safeguarded_root(slope: Callable[[float], tuple[float, float]], furthest: float = _FURTHEST) -> float:
    """The root of an ascending derivative within ±furthest: slope(ρ) gives it and its own derivative. 0 if flat at 0.

    First out, at least doubling the distance, until the root lies behind; then Newton steps, and halves of the bracket
    where such a step would leave it or where steps do not shrink fast enough.
    """
    value, curve = slope(0.0)
    if value == 0.0 or not np.isfinite(value):
        return 0.0
    sign = -1.0 if value > 0.0 else 1.0
    enough = 1e-15 * abs(value)
    low, high, at = 0.0, 0.0, sign * min(abs(value / curve) if curve > 0.0 else 1.0, furthest)
    while True:
        value, curve = slope(at)
        if not np.isfinite(value) or value * sign >= 0.0:
            high = at
            break
        if abs(at) >= furthest:
            return at
        newton = at - value / curve if curve > 0.0 else at
        low, at = at, sign * min(max(2.0 * abs(at), min(abs(newton), 16.0 * abs(at))), furthest)
    before = last = abs(high - low)
    for _ in range(200):
        newton = at - value / curve if np.isfinite(value) and curve > 0.0 else np.nan
        inside = min(low, high) < newton < max(low, high)
        following = newton if inside and abs(newton - at) <= 0.5 * before else 0.5 * (low + high)
        before, last = last, abs(following - at)
        if following in (low, high) or last <= 1e-16 * abs(following):
            return following
        at = following
        value, curve = slope(at)
        if abs(value) <= enough:
            return at
        low, high = (at, high) if value * sign < 0.0 else (low, at)
    return at


class LineSearchRule(Rule):
    """Least squares on the negative gradient, then a step along it."""

    def __init__(self, loss: Loss, targets: Targets, backend: CpuBackend, search: str) -> None:
        super().__init__(loss, targets, backend)
        self.search = search
        # of its own: the pairs of the stage must stay as they are while trial steps are looked at
        self._maker = PairsMaker(loss, targets.y, targets.weight, backend.team, backend.n_training)
        self._steps: list[float] = []
        self._deviance: float | None = None  # before the first stage
        if search == "newton" and not loss.second_order:
            raise ParameterError(
                f"line_search='newton' needs second derivatives, which loss {loss.name!r} has none of; use 'exact'."
            )

    def notes(self) -> Mapping[str, float]:
        """ρ of the stage: "step", or with K outputs "step_0", "step_1", ..."""
        steps, self._steps = self._steps, []
        return {"step" if len(steps) == 1 else f"step_{k}": step for k, step in enumerate(steps)}

    def working(self, pairs: Pairs, output: int) -> Working:
        if self._deviance is None:
            self._deviance = pairs.deviance
        if not pairs.deviance - self._deviance <= _HOPELESS * abs(self._deviance):
            raise InputError(
                f"the deviance has grown from {self._deviance:.4g} to {pairs.deviance:.4g}: steps of the whole "
                f"gradient are too long for loss {self.loss.name!r} and this y; use line_search='exact', or a smaller "
                "learning_rate."
            )
        return self._first_order(pairs, output)

    def finish(
        self, fitted: Any, pairs: Pairs, output: int, raw: np.ndarray, delta: float, rate: float
    ) -> tuple[Any, ...]:
        step = 1.0 if self.search == "none" else self._scaled_step(fitted.values(), pairs, output, raw, delta)
        self._steps.append(step)
        return (fitted.scaled(rate * step),)

    def _scaled_step(self, h: np.ndarray, pairs: Pairs, output: int, raw: np.ndarray, delta: float) -> float:
        """The step along h, found along h / 2^k of size 1: products of tiny or huge numbers would be lost."""
        weight = self.targets.weight
        peak = float(np.abs(h if len(weight) == 0 else h[weight > 0.0]).max())
        if peak == 0.0:
            return 0.0
        unit = math.ldexp(1.0, math.frexp(peak)[1] - 1)
        return self._step(h / unit, pairs, output, raw, delta) / unit

    def _step(self, h: np.ndarray, pairs: Pairs, output: int, raw: np.ndarray, delta: float) -> float:
        loss, y = self.loss, self.targets.y
        weight = self.targets.weight if len(self.targets.weight) else np.ones(len(y))
        if self.search == "newton" or loss.name == "squared_error":
            grad, hess = self._dot(pairs.grad[output], h), self._dot(pairs.hess[output] * h, h)
            return -grad / hess if hess > 0.0 else 0.0
        if loss.delta_quantile is not None:
            return huber_step(y - raw[output], h, weight, delta)
        if loss.leaf_quantile is not None:
            return quantile_step(y - raw[output], h, weight, loss.leaf_quantile)
        trial, option = raw.copy(), loss.option

        def slope(at: float) -> tuple[float, float]:
            with np.errstate(over="ignore"):
                trial[output] = raw[output] + at * h
            made = self._maker(trial, option)
            with np.errstate(over="ignore", invalid="ignore"):
                return self._dot(made.grad[output], h), self._dot(made.hess[output] * h, h)

        logarithmic = loss.name in ("log_loss", "exponential") or loss.leaf_kind == LOG_RATIO
        return safeguarded_root(slope, _CERTAIN if logarithmic else _FURTHEST)

    def _dot(self, a: np.ndarray, b: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            product = a * b
        if not np.isfinite(product).all():
            return float("nan")
        return exact_sum(self.backend.team, product, _NOTHING)
