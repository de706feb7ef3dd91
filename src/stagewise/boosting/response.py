"""LogitBoost and GentleBoost: each stage is a weighted least-squares fit to a working response, added as it is.

Friedman, Hastie and Tibshirani (2000), Algorithms 3, 4 and 6. In terms of pairs both are Newton steps: the response is
-grad/hess and the weight hess. For log-loss that is z = (y - p)/(p(1 - p)) with w = p(1 - p), kept within ±z_max; for
the exponential loss it is y = ±1 itself with w = e^(-y·f), so that no step is larger than 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.boosting.pairs import Pairs
from stagewise.boosting.rules import Rule, Targets
from stagewise.learners.base import Working
from stagewise.losses.base import Loss

__all__ = ["GentleRule", "LogitRule"]

_LEAST_WEIGHT = 2.0 * float(np.finfo(np.float64).eps)
"""Least p(1 - p), as the paper has it: a row that is certain keeps a weight."""


class GentleRule(Rule):
    """The response as it comes."""

    def working(self, pairs: Pairs, output: int) -> Working:
        return Working(pairs.grad[output], pairs.hess[output], pairs.grad_peak, pairs.hess_peak, False, self._wide)

    def finish(
        self, fitted: Any, pairs: Pairs, output: int, raw: np.ndarray, delta: float, rate: float
    ) -> tuple[Any, ...]:
        return (fitted.scaled(rate),)


class LogitRule(GentleRule):
    """The response within ±z_max.

    The paper's F is half the log-odds for two classes, where a stage adds ½ of the fit: here f = 2F gets all of it.
    With K classes it gets (K-1)/K of the fit; the loss's hess is K/(K-1)·p(1 - p). That fits are centred over the
    classes there changes no probability and is left to the decision function.
    """

    def __init__(self, loss: Loss, targets: Targets, backend: CpuBackend, z_max: float) -> None:
        super().__init__(loss, targets, backend)
        k = loss.n_outputs
        self._shrink = (k - 1.0) / k if k > 1 else 1.0
        self.z_max = z_max

    def working(self, pairs: Pairs, output: int) -> Working:
        least = _LEAST_WEIGHT * (self.targets.weight if len(self.targets.weight) else 1.0)
        hess = np.maximum(self._shrink * pairs.hess[output], least)
        limit = self.z_max * hess
        grad = np.minimum(np.maximum(pairs.grad[output], -limit), limit)
        return Working(grad, hess, float(np.abs(grad).max()), float(hess.max()), False, self._wide)

    def finish(
        self, fitted: Any, pairs: Pairs, output: int, raw: np.ndarray, delta: float, rate: float
    ) -> tuple[Any, ...]:
        return (fitted.scaled(self._shrink * rate),)
