"""AdaBoost: weak classifiers vote, each with the weight that its error deserves (ESL Algorithm 10.1, SAMME for K).

    err = Σ w·[miss] / Σ w        α = log((1 - err)/err) + log(K - 1)        w ← w·e^(α·[miss])

Forward stagewise modelling under exponential loss (ESL 10.4) is the same thing: the term β·G with β = α/2 for two
classes ((K-1)²/K · α for K, Zhu et al. 2009) minimises the loss along G, and w is the loss of a row up to a constant.
So the raw prediction here is f = Σ β_m G_m, half the log-odds, and trees take their weights from the loss's pairs.

A weak classifier without error ends training; its α would be infinite and is 1 (as in scikit-learn). One that is no
better than guessing (err ≥ 1 - 1/K) ends training too and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.boosting.pairs import Pairs
from stagewise.boosting.rules import Rule, Targets
from stagewise.errors import InputError
from stagewise.learners.base import Working
from stagewise.learners.classes import ClassTreeFit
from stagewise.learners.foreign import VoteFit, VoteTerm
from stagewise.learners.tree import TreeFit
from stagewise.losses.base import Loss
from stagewise.tree.tree import Tree

__all__ = ["ClassTreeVoteRule", "ForeignVoteRule", "TreeVoteRule", "VoteRule"]


class VoteRule(Rule):
    """Common part: from the error of a weak classifier to its weight."""

    slack = 1e-12
    """An error this close to that of guessing is rounding."""

    def __init__(self, loss: Loss, targets: Targets, backend: CpuBackend, n_classes: int) -> None:
        super().__init__(loss, targets, backend)
        self.n_classes = n_classes
        self._notes: dict[str, float] = {}

    def notes(self) -> Mapping[str, float]:
        return self._notes

    def _weigh(self, error: float, rate: float) -> float | None:
        """rate · α, or None for a classifier that only guesses; notes both."""
        k = self.n_classes
        if error >= 1.0 - 1.0 / k - self.slack:
            if not self._notes:
                raise InputError(
                    f"the first weak classifier errs on {100.0 * error:.4g} % of the weight, no better than guessing "
                    f"among {k} classes: boosting cannot start. Use a stronger estimator, or deeper trees."
                )
            return None
        self.last = error <= 0.0
        alpha = 1.0 if self.last else math.log((1.0 - error) / error) + math.log(k - 1.0)
        weight = alpha if self.last else rate * alpha
        self._notes = {"error": error, "alpha": alpha, "weight": weight}
        return weight

    def _step(self, weight: float) -> float:
        """β: what a vote adds to f."""
        k = self.n_classes
        return 0.5 * weight if k == 2 else (k - 1.0) ** 2 / k * weight


class TreeVoteRule(VoteRule):
    """Two classes, the engine's trees: least squares on ±1 with the rows' weights; leaves vote by their sign."""

    def working(self, pairs: Pairs, output: int) -> Working:
        return Working(pairs.grad[0], pairs.hess[0], pairs.grad_peak, pairs.hess_peak, False, self._wide)

    def finish(
        self, fitted: TreeFit, pairs: Pairs, output: int, raw: np.ndarray, delta: float, rate: float
    ) -> tuple[Tree, ...] | None:
        sums, leaves = fitted.sums(), fitted.grown.tree.leaves
        grad, hess = sums[leaves, 0], sums[leaves, 1]  # W₋ - W₊ and W₋ + W₊
        error = math.fsum(0.5 * (hess - np.abs(grad))) / math.fsum(hess)
        weight = self._weigh(error, rate)
        if weight is None:
            return None
        votes = np.where(sums[:, 0] < 0.0, 1.0, -1.0)
        cover = np.ascontiguousarray(sums[:, 1])
        return (fitted.grown.tree.with_leaves(votes, cover, self._step(weight)),)


class ClassTreeVoteRule(VoteRule):
    """K classes, trees of our own: leaves vote for their heaviest class."""

    def working(self, pairs: Pairs, output: int) -> Working:
        """The weight of a row is its loss, which is K times the size of its own class's gradient."""
        own = self.targets.y.astype(np.int64)
        weight = np.abs(np.take_along_axis(pairs.grad, own[None, :], axis=0)[0])
        return Working(pairs.grad[0], weight, pairs.grad_peak, pairs.grad_peak)

    def finish(
        self, fitted: ClassTreeFit, pairs: Pairs, output: int, raw: np.ndarray, delta: float, rate: float
    ) -> tuple[Tree, ...] | None:
        sums = fitted.class_weights()
        total = sum(sums.ravel().tolist())  # Python's integers: exact
        error = (total - sum(sums.max(axis=1).tolist())) / total
        weight = self._weigh(error, rate)
        return None if weight is None else fitted.voting(sums.argmax(axis=1), self._step(weight))


class ForeignVoteRule(VoteRule):
    """Any classifier. Weights go from stage to stage as in the book, in scikit-learn's arithmetic (its floor of 2e-16
    too): classifiers that break ties by the last bit of a sum then see the same bits."""

    slack = 0.0

    def __init__(self, loss: Loss, targets: Targets, backend: CpuBackend, n_classes: int) -> None:
        super().__init__(loss, targets, backend, n_classes)
        n = len(targets.y)
        self._code = targets.y.astype(np.int64)
        self._weight = np.ones(n) if len(targets.weight) == 0 else targets.weight.copy()
        self._absent = self._weight == 0.0

    def working(self, pairs: Pairs, output: int) -> Working:
        self._weight = np.maximum(self._weight / np.sum(self._weight), np.finfo(np.float64).eps)
        self._weight[self._absent] = 0.0
        return Working(pairs.grad[0], self._weight, pairs.grad_peak, float(self._weight.max()))

    def finish(
        self, fitted: VoteFit, pairs: Pairs, output: int, raw: np.ndarray, delta: float, rate: float
    ) -> tuple[VoteTerm, ...] | None:
        miss = fitted.codes != self._code
        error = float(np.average(miss, weights=self._weight))
        weight = self._weigh(error, rate)
        if weight is None:
            return None
        with np.errstate(divide="ignore"):
            self._weight = np.exp(np.log(self._weight) + weight * miss * (self._weight > 0.0))
        return (fitted.voting(self._step(weight)),)
