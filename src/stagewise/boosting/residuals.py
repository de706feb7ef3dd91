"""Squared error of rows that weigh the same: gradients that are integers from the first stage to the last.

Targets are rounded to a unit, a power of two some 2**-35 of the largest residual or smaller, and so are the start and
the leaves (times the rate). Then every prediction and every gradient is a whole number of units, and float64 holds it
exactly. Growth works on these integers, and a stage does no more to a row than to add its leaf's: leaf sums, the
deviance and the next root's histogram follow from the tree (kernels/residuals.py). It is one way for all: on any
number of threads, from disk, on a cluster.

It does not apply to weights, offsets and samples, nor where most targets are nearly the same and a few huge ones set
the unit, too coarse for the others; those cases go the way of every other loss (pairs.py). A fit whose residuals grow
beyond the range of the integers, to four times the first ones, goes that way from there on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.backends.residuals import ResidualWords
from stagewise.boosting.pairs import NO_UPDATE, Pairs, PairsMaker
from stagewise.kernels.exact import Packing, packing, power_above
from stagewise.kernels.pairs import Update
from stagewise.losses.base import Loss
from stagewise.tree.tree import Tree

__all__ = ["Residuals", "residual_packing"]

_HEADROOM = 4.0
_LARGEST, _SMALLEST = 2.0**400, 2.0**-400  # squares of residuals between these are floats

_AT_ONCE = 1 << 16

_EXACT = 2.0**51
"""Whole numbers up to this size are exact as float64, and so are their sums."""


def residual_packing(y: np.ndarray, start: float, backend: CpuBackend, in_training: np.ndarray) -> Packing | None:
    """The integers of y - start, chosen from extremes and counts alone; None where they would be no good."""
    some = y if in_training.all() else y[in_training]
    spread = np.zeros(2)
    if len(some):
        low, high = float(some.min()), float(some.max())
        spread[:] = max(high - start, start - low), max(abs(low), abs(high))
    peak, largest = backend.team.reducer.max(spread)
    if not _SMALLEST < peak < _LARGEST:
        return None
    chosen = packing(_HEADROOM * power_above(float(peak)), 1.0, backend.n_training, constant_hess=True, fine=True)
    return chosen if largest * chosen.grad_scale < _EXACT else None


class Residuals(PairsMaker):
    """A `PairsMaker` whose pairs are the backend's words."""

    def __init__(
        self, loss: Loss, y: np.ndarray, weight: np.ndarray, backend: CpuBackend, skip: np.ndarray, chosen: Packing
    ) -> None:
        super().__init__(loss, y, weight, backend.team, backend.n_training)
        self._backend, self.packing, self.skip, self.n_training = backend, chosen, skip, backend.n_training
        self._words = ResidualWords(backend, chosen, skip)
        self._most = round(chosen.grad_scale * chosen.grad_peak)  # the largest gradient that packed words can hold
        self._unit = 1.0 / chosen.grad_scale
        self._exhausted = False
        self._squares = 0  # Σ g²
        self._steps: np.ndarray | None = None  # what the last tree adds, by node

    def usable(self, raw: np.ndarray) -> bool:
        """Whether these predictions are multiples of the unit, and fine enough for the residuals: no half of
        the rows may lie within two neighbouring parts of BUCKETS."""
        off = False
        for start in range(0, len(self.y), _AT_ONCE):  # rows may be many and memory short
            part = slice(start, start + _AT_ONCE)
            scaled = raw[0, part] / self._unit
            off |= bool((((np.rint(scaled) != scaled) | (np.abs(scaled) > _EXACT)) & ~self.skip[part]).any())
        if self.team.reducer.largest(float(off)) > 0.0:
            return False
        peak, counts = self._load(raw)
        return peak <= self._most and 2 * int((counts[1:] + counts[:-1]).max()) <= self.n_training

    def __call__(self, raw: np.ndarray, option: np.ndarray, update: Update = NO_UPDATE) -> Pairs:
        if self._exhausted:
            return super().__call__(raw, option, update)
        if self._steps is None:
            peak, _ = self._load(raw)
        else:
            peak, self._steps = self.team.reducer.largest(self._words.step(self._steps)), None
        if peak > self._most:
            self.current(raw)
            self._exhausted, self._backend.keeping = True, False
            return super().__call__(raw, option)
        deviance = self._squares / self.n_training * self._unit * self._unit
        return Pairs(_NONE, _NONE, self.packing.grad_peak, 1.0, deviance, packed=self.packing, root=self._words.root)

    def update(self, fitted: Any, tree: Tree) -> Update:
        if self._exhausted:
            return super().update(fitted, tree)
        self._steps = np.rint(tree.value / self._unit).astype(np.int64)
        leaf = tree.leaves
        parts = (self._steps[leaf].tolist(), fitted.grown.grad[leaf].tolist(), tree.count[leaf].tolist())
        self._squares += sum(step * (2 * grad + step * count) for step, grad, count in zip(*parts, strict=True))
        return NO_UPDATE

    def current(self, raw: np.ndarray) -> np.ndarray:
        if not self._exhausted:
            own = np.rint(self.y / self._unit) * self._unit + self._words.residuals()
            raw[0] = np.where(self.skip, raw[0], own)
        return raw

    def _load(self, raw: np.ndarray) -> tuple[float, np.ndarray]:
        """Words from predictions; the largest gradient, and how many there are in each part of their range."""
        sums, counts = self._words.load(self.y, raw[0])
        largest = sums[:, 0].max(keepdims=True).astype(np.float64)
        total, peak = self.team.reducer.total(np.concatenate([sums[:, 2:].sum(axis=0), counts]), largest)
        limbs = [int(part) for part in total[:6]]
        high, mixed, low = (limbs[k] + (limbs[k + 1] << 24) for k in (0, 2, 4))
        self._squares = (high << 40) + (mixed << 21) + low
        return float(peak[0]), total[6:]


_NONE = np.empty((1, 0))
