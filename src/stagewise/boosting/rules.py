"""What the learner of a stage sees of the pairs, and how its fit is finished.

Newton: learners see gradient and second derivative (XGBoost). Gradient: they fit the negative gradient by least
squares, weights alone in the denominator (Friedman's Algorithm 1). Here trees are finished leaf by leaf, in the same
way by both: the loss's own minimum where it has a closed form, its quantile, or one Newton step. Rules that finish
otherwise have files of their own: linesearch.py, response.py (LogitBoost, GentleBoost), votes.py (AdaBoost).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.boosting.pairs import Pairs
from stagewise.kernels.exact import power_above
from stagewise.learners.base import Working
from stagewise.learners.tree import TreeFit
from stagewise.losses.base import Loss
from stagewise.tree.tree import NO_SHRINKAGE, Tree

__all__ = ["GradientRule", "LeafRule", "NewtonRule", "Rule", "Targets", "integer_weights"]


def integer_weights(weight: np.ndarray, heaviest: float, n_rows: int) -> np.ndarray:
    """Weights as integers whose sum over n_rows fits an int64, for quantiles.

    Times a power of two: whole weights keep their proportions, and a quantile is met exactly where it is in theirs.
    """
    bits = 61 - max(1, n_rows).bit_length()
    return np.rint(weight * (2.0 ** min(bits, 30) / power_above(heaviest))).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What is fitted: y, the weights in force (empty: 1 each) and the same weights as integers for quantiles."""

    y: np.ndarray
    weight: np.ndarray
    counts: np.ndarray
    plain: bool  # every row in training weighs 1, so that counts can stand for weights
    uneven: bool  # weights so unequal that 15 bits would leave the light rows too few
    peak: float  # the largest weight, 1 without weights


class Rule:
    """Common part of all rules."""

    last = False
    """Set by `finish` when nothing is left to do after this stage."""

    def __init__(self, loss: Loss, targets: Targets, backend: CpuBackend) -> None:
        self.loss, self.targets, self.backend = loss, targets, backend
        self._wide = targets.uneven
        self._weight_peak = targets.peak

    def delta(self, raw: np.ndarray, index: np.ndarray) -> float:
        """Huber's transition point of this stage: the α-quantile of |y - f| (Friedman 2001, section 4.4)."""
        if self.loss.delta_quantile is None:
            return 0.0
        sizes = np.abs(self.targets.y - raw[0])
        return self.backend.quantile(sizes, self.targets.counts, index, self.loss.delta_quantile)

    def working(self, pairs: Pairs, output: int) -> Working:
        """The pairs of one output, as the learner is to see them."""
        raise AssertionError("a rule says what learners see")

    def finish(
        self, fitted: Any, pairs: Pairs, output: int, raw: np.ndarray, delta: float, rate: float
    ) -> tuple[Any, ...] | None:
        """The terms of this output, times the rate; None when the fit is of no use and training ends without it."""
        raise AssertionError("a rule says what becomes of a fit")

    def notes(self) -> Mapping[str, float]:
        """Numbers of the stage that the history keeps."""
        return {}

    def _first_order(self, pairs: Pairs, output: int) -> Working:
        if pairs.packed is not None:
            none = pairs.grad[output], pairs.hess[output]
            return Working(*none, pairs.grad_peak, 1.0, True, packed=pairs.packed, root=pairs.root)
        if pairs.weight is not None:
            peaks = pairs.grad_peak, pairs.weight_peak
            return Working(pairs.grad[output], pairs.weight, *peaks, False, self._wide, True, listed=True)
        weight = self.targets.weight
        hess = weight if len(weight) else pairs.hess[output]
        peak, by_weight = 1.0 if self.targets.plain else self._weight_peak, len(weight) > 0
        return Working(
            pairs.grad[output], hess, pairs.grad_peak, peak, self.targets.plain, self._wide, by_weight,
            every=(pairs.grad, weight if by_weight else pairs.hess),
        )  # fmt: skip


class LeafRule(Rule):
    """Trees finished leaf by leaf."""

    def finish(
        self, fitted: TreeFit, pairs: Pairs, output: int, raw: np.ndarray, delta: float, rate: float
    ) -> tuple[Tree, ...]:
        """The tree with its leaves re-fitted and shrunk by the learning rate.

        l1 and l2 shrink every leaf by (1 - l1/|G|)₊ · H/(H + l2): for a Newton step this is -(G ± l1)/(H + l2). No leaf
        is larger than the loss's largest step.
        """
        loss, targets, params, grown = self.loss, self.targets, self.backend.params, fitted.grown
        weight, heaviest, counts = targets.weight, self._weight_peak, targets.counts
        if pairs.weight is not None:
            weight, heaviest = pairs.weight, pairs.weight_peak
        units = np.array([power_above(pairs.grad_peak), power_above(pairs.hess_peak), power_above(heaviest)])
        if pairs.packed is not None:
            sums = grown.sums(pairs.packed)
        else:
            sums = self.backend.leaf_sums(grown, pairs.grad[output], pairs.hess[output], weight, units, loss)
        values = np.ascontiguousarray(sums[:, 3])
        if loss.leaf_quantile is not None:
            if pairs.weight is not None:
                counts = np.zeros(len(targets.y), np.int64)
                drawn = self.backend.team.reducer.count(len(pairs.weight))
                counts[grown.listed] = integer_weights(pairs.weight, heaviest, drawn)
            values = self.backend.leaf_quantiles(grown, targets.y, raw[output], counts, loss.leaf_quantile, delta)
        shrinking = sums if params.l1 > 0.0 or params.l2 > 0.0 else NO_SHRINKAGE[0]
        shrink = shrinking, params.l1, params.l2, loss.largest_step
        tree = grown.tree.with_leaves(values, np.ascontiguousarray(sums[:, 2]), rate, shrink)
        if pairs.packed is not None:  # leaves are multiples of the unit, see residuals.py
            tree.value[:] = np.rint(tree.value * pairs.packed.grad_scale) / pairs.packed.grad_scale
        return (tree,)


class GradientRule(LeafRule):
    """Least squares on the negative gradient."""

    def working(self, pairs: Pairs, output: int) -> Working:
        return self._first_order(pairs, output)


class NewtonRule(LeafRule):
    """Gradient and second derivative; falls back to gradients for losses whose second derivative says nothing."""

    def working(self, pairs: Pairs, output: int) -> Working:
        if self.loss.constant_hessian or not self.loss.second_order:
            return self._first_order(pairs, output)
        peaks = pairs.grad_peak, pairs.hess_peak
        if pairs.weight is not None:
            return Working(pairs.grad[output], pairs.hess[output], *peaks, False, self._wide, False, listed=True)
        every = pairs.grad, pairs.hess
        return Working(pairs.grad[output], pairs.hess[output], *peaks, False, self._wide, False, every=every)
