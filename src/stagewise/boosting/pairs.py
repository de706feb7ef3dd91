"""The pairs (grad, hess) of all rows at the current predictions, with the deviance as a by-product."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stagewise.errors import InputError
from stagewise.kernels.exact import Packing, limb_bits, limbs_total, packing, power_above, sum_products
from stagewise.kernels.histogram import NO_ROOT
from stagewise.kernels.pairs import CHUNK, Update
from stagewise.kernels.team import Team
from stagewise.losses.base import Loss
from stagewise.tree.tree import Tree

__all__ = ["NO_UPDATE", "Pairs", "PairsMaker", "exact_sum", "target_of"]

NO_UPDATE = Update(
    labels=np.empty(0, np.uint16),
    leaves=np.empty(0),
    packing=packing(1.0, 1.0, 1),
    by_weight=False,
    words=np.empty(0, np.int64),
    lost=np.zeros((1, 8), np.int64),
)
"""The loss is evaluated, and nothing else."""

_HEADROOM = 2.0**24
"""How many times a row's loss may grow before the unit of the deviance is chosen anew."""

_LARGEST, _SMALLEST = 2.0**1020, 2.0**-500
"""Between these, sums of 2**31 values neither overflow nor lose bits."""

_LARGEST_UNIT = 2.0**1000
"""Where squares overflow (targets of 1e300) the deviance saturates here, 1e301, rather than being infinite or NaN."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Gradients and second derivatives (n_outputs, n_rows), times the row weights.

    weight: given when these are the pairs of the rows of a sample alone (onesided.py), one entry each, and
    weight_peak is the largest.
    """

    grad: np.ndarray
    hess: np.ndarray
    grad_peak: float  # the largest |grad|
    hess_peak: float
    deviance: float  # mean over the weights
    weight: np.ndarray | None = None
    weight_peak: float = 1.0
    packed: Packing | None = None  # squared error: the pairs are in the backend's words, and the arrays empty
    root: np.ndarray = field(default_factory=lambda: NO_ROOT)  # ... and this the root's histogram, if it is known


def exact_sum(team: Team, values: np.ndarray, weight: np.ndarray) -> float:
    """Σ values·weight (weight may be empty), the same for any order of the rows and any division among members."""
    n = team.reducer.count(len(values))
    if n == 0:
        return 0.0
    if len(weight):  # the largest value sets the unit: those of rows that take no part must not
        values = np.where(weight > 0.0, values, 0.0)
    peaks = np.zeros(2)
    if len(values):
        peaks[:] = max(float(values.max()), -float(values.min())), weight.max() if len(weight) else 1.0
    peaks = team.reducer.max(peaks)
    peak = float(peaks[0]) * float(peaks[1])
    if peak > _LARGEST:
        raise InputError("y times sample_weight goes beyond float64's range of 1.8e308; rescale one of them.")
    if 0.0 < peak < _SMALLEST:  # below the smallest unit
        return exact_sum(team, values / _SMALLEST, weight) * _SMALLEST
    unit, bits = power_above(peak), limb_bits(n)
    out = np.zeros((team.n_threads, 2), np.int64)
    team.run(sum_products, values, weight, 1.0 / unit, bits, out)
    return limbs_total(team.reducer.sum(out.sum(axis=0)), unit, bits)


def target_of(loss: Loss, y: np.ndarray) -> np.ndarray:
    """y as the loss takes it."""
    return y if loss.takes_bytes else y.astype(np.float64, copy=False)


class PairsMaker:
    """Evaluates a loss on fixed targets and weights; the arrays of its result are overwritten by the next call."""

    def __init__(
        self, loss: Loss, y: np.ndarray, weight: np.ndarray, team: Team, n_training: int | None = None
    ) -> None:
        self.loss, self.y, self.weight, self.team = loss, target_of(loss, y), weight, team
        n = len(y)
        self._grad = self._hess = np.empty((loss.n_outputs, 0))  # made when they are needed: residuals.py never does
        self._value = np.zeros((team.n_threads, CHUNK))
        rows = team.reducer.count(n)
        self.bits = limb_bits(rows if n_training is None else n_training)
        weighted = team.reducer.largest(float(len(weight) > 0)) > 0.0
        self.total = exact_sum(team, weight, np.empty(0)) if weighted else float(rows)
        part = loss.target_part(y)
        self._y_part = 0.0 if part is None else exact_sum(team, part, weight) / self.total
        self.unit = 0.0  # of the deviance's fixed point; grows when a row's loss does

    def __call__(self, raw: np.ndarray, option: np.ndarray, update: Update = NO_UPDATE) -> Pairs:
        """Pairs at the raw predictions (n_outputs, n_rows), to which `update` adds a tree first."""
        peaks, limbs = self._evaluate(raw, option, 1.0 / self.unit if self.unit else 0.0, update)
        if self.unit == 0.0 or self.unit < float(peaks[2]) < _LARGEST_UNIT:
            # the unit of the deviance's fixed point comes from the largest loss: at the start, or now beyond it
            self.unit = min(power_above(min(max(float(peaks[2]), 1e-290), 1e300)) * _HEADROOM, _LARGEST_UNIT)
            peaks, limbs = self._evaluate(raw, option, 1.0 / self.unit, NO_UPDATE)
        mean = limbs_total(limbs, self.unit, self.bits) / self.total
        return Pairs(self._grad, self._hess, float(peaks[0]), float(peaks[1]), self.loss.deviance(mean, self._y_part))

    def update(self, fitted: Any, tree: Tree) -> Update:
        """What the next evaluation is to do with a tree that was just grown."""
        update: Update = fitted.update(tree)
        return update

    def current(self, raw: np.ndarray) -> np.ndarray:
        """The raw predictions, brought up to date."""
        return raw

    def _evaluate(
        self, raw: np.ndarray, option: np.ndarray, scale: float, update: Update
    ) -> tuple[np.ndarray, np.ndarray]:
        threads = self.team.n_threads
        if self._grad.shape[1] < len(self.y):
            self._grad, self._hess = np.empty((2, self.loss.n_outputs, len(self.y)))
        peaks, limbs = np.zeros((threads, 8)), np.zeros((threads, 8), np.int64)
        one = self.loss.n_outputs == 1
        self.team.run(
            self.loss.pairs, self.y, raw[0] if one else raw, self.weight, option, scale, self.bits,
            self._grad[0] if one else self._grad, self._hess[0] if one else self._hess, self._value, peaks, limbs,
            update,
        )  # fmt: skip
        if threads == 1:
            sums, largest = self.team.reducer.total(limbs[0, :2], peaks[0])
        else:
            sums, largest = self.team.reducer.total(np.add.reduce(limbs)[:2], np.maximum.reduce(peaks))
        return largest, sums
