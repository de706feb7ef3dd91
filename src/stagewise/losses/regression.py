"""Losses for numbers: ESL 10.6, Friedman (2001) sections 4.1 to 4.4; the log-link family for counts and amounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from stagewise.errors import InputError
from stagewise.kernels.leaves import LOG_RATIO
from stagewise.kernels.pairs import (
    absolute_error_pairs,
    huber_pairs,
    quantile_pairs,
    squared_error_pairs,
    tweedie_pairs,
)
from stagewise.losses.base import Loss

__all__ = ["AbsoluteError", "Gamma", "Huber", "Poisson", "Quantile", "SquaredError", "Tweedie"]


class SquaredError(Loss):
    """(y - f)²/2. Leaves are mean residuals; the deviance is the mean squared error. Friedman's Algorithm 2."""

    name = "squared_error"
    constant_hessian = True
    pairs = property(lambda self: squared_error_pairs)

    def from_mean(self, mean: np.ndarray) -> np.ndarray:
        return mean


class AbsoluteError(Loss):
    """|y - f|. Trees are grown on signs, leaves are weighted medians of the residuals. Friedman's Algorithm 3."""

    name = "absolute_error"
    constant_hessian = True
    second_order = False
    leaf_quantile = 0.5
    pairs = property(lambda self: absolute_error_pairs)


class Huber(Loss):
    """Squared near 0, absolute beyond δ, with δ the α-quantile of |y - f| at every stage. Friedman's Algorithm 4.

    Leaves: the median of the residuals plus one step of the mean residual clipped to ±δ. The start is the median.
    """

    name = "huber"
    constant_hessian = True
    second_order = False
    leaf_quantile = 0.5

    def __init__(self, alpha: float = 0.9) -> None:
        self.delta_quantile = alpha

    pairs = property(lambda self: huber_pairs)

    def __repr__(self) -> str:
        return f"Huber(alpha={self.delta_quantile})"


class Quantile(Loss):
    """α(y - f) above the prediction, (1 - α)(f - y) below it; leaves are α-quantiles of the residuals."""

    name = "quantile"
    constant_hessian = True
    second_order = False

    def __init__(self, alpha: float = 0.9) -> None:
        self.leaf_quantile = alpha

    pairs = property(lambda self: quantile_pairs)

    @property
    def option(self) -> np.ndarray:
        return np.array([self.leaf_quantile])

    def __repr__(self) -> str:
        return f"Quantile(alpha={self.leaf_quantile})"


class _LogLink(Loss):
    """Deviance of a distribution with variance μ^power and log link; a leaf's minimum is log(Σ A / Σ B), exactly."""

    leaf_kind = LOG_RATIO
    lowest: ClassVar[str] = "non-negative"
    pairs: Callable[..., None] = property(lambda self: tweedie_pairs)  # type: ignore[assignment]

    @property
    def option(self) -> np.ndarray:
        return np.array([self.power])

    def check_target(self, y: np.ndarray) -> None:
        worst = float(y.min())
        if worst < 0.0 or (worst == 0.0 and self.power == 2.0):
            row = int(np.argmin(y))
            raise InputError(
                f"loss={self.name!r} needs {self.lowest} targets, but y[{row}] is {worst:g}. "
                "Use another loss, or leave such rows out."
            )
        if float(y.max()) == 0.0:
            raise InputError(f"loss={self.name!r} needs at least one positive target, but all of y are 0.")

    def from_mean(self, mean: np.ndarray) -> np.ndarray:
        if float(mean[0]) == 0.0:  # log 0: check_target saw all rows, these are the ones that are fitted to
            raise InputError(
                f"loss={self.name!r} needs at least one positive target, but y is 0 in all rows that are trained on; "
                "those of weight 0 and those held out do not count."
            )
        return np.log(mean)

    def deviance(self, mean_value: float, y_part: float) -> float:
        return 2.0 * (mean_value + y_part)

    def predict(self, raw: np.ndarray) -> np.ndarray:
        return np.exp(np.clip(raw[0], -708.0, 708.0))


class Poisson(_LogLink):
    """Counts: deviance 2·(y·log(y/μ) - y + μ), μ = e^f."""

    name = "poisson"
    power = 1.0

    def target_part(self, y: np.ndarray) -> np.ndarray:
        return y * np.log(np.where(y > 0.0, y, 1.0)) - y


class Gamma(_LogLink):
    """Positive amounts: deviance 2·(log(μ/y) + y/μ - 1), μ = e^f."""

    name = "gamma"
    power = 2.0
    lowest = "positive"

    def target_part(self, y: np.ndarray) -> np.ndarray:
        return -np.log(y) - 1.0


class Tweedie(_LogLink):
    """Amounts with many zeros: compound Poisson-gamma with variance power p between 1 and 2, μ = e^f."""

    name = "tweedie"

    def __init__(self, power: float = 1.5) -> None:
        self.power = power

    def target_part(self, y: np.ndarray) -> np.ndarray:
        return y ** (2.0 - self.power) / ((1.0 - self.power) * (2.0 - self.power))

    def __repr__(self) -> str:
        return f"Tweedie(power={self.power})"
