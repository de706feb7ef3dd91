"""What a learner is: something that fits the working pairs of a stage by weighted least squares.

    fitted = learner.fit(working, index, rest, stage, output)      # Fitted: what was found
    terms  = rule.finish(fitted, ...)                              # Terms: what the model keeps
    fitted.add(terms, raw, output)                                 # raw += terms, on the training rows

A tree, a column's line or spline, and any scikit-learn regressor are all learners; a rule that re-fits leaves asks for
trees, one that searches along a line takes any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from stagewise.kernels.exact import Packing
from stagewise.kernels.histogram import NO_ROOT

__all__ = ["Fitted", "Learner", "Term", "Working"]


@dataclass(frozen=True, slots=True, eq=False)
class Working:
    """Pairs as a learner is to see them: fit -grad/hess by least squares with weights hess, both (n_rows,)."""

    grad: np.ndarray
    hess: np.ndarray
    grad_peak: float  # the largest |grad|
    hess_peak: float
    constant: bool = False  # hess is 1 in every row of training, whatever the array says
    wide: bool = False  # weights so unequal that narrow integers would lose the light rows
    by_weight: bool | None = None  # grad is the loss's own, and hess the weight (True) or the loss's own too (False)
    listed: bool = False  # the arrays hold the rows of the sample alone, in their order
    packed: Packing | None = None  # the backend has them as integers already, and the arrays are empty
    root: np.ndarray = field(default_factory=lambda: NO_ROOT)  # the histogram of all rows, if it is known
    every: tuple[np.ndarray, np.ndarray] | None = (
        None  # grad and hess of all outputs of the stage, (n_outputs, n_rows),
    )
    # hess (n_rows,) if they share it, when these are one of them and the peaks those of all

    def response(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Target -grad/hess and weight hess of the rows of `index` (all when empty); None: every weight is 1."""
        grad, hess = (self.grad, self.hess) if len(index) == 0 else (self.grad[index], self.hess[index])
        if self.constant:
            return -grad, None
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(hess > 0.0, -grad / hess, 0.0), hess


class Term(Protocol):
    """A part of a model that is no tree: adds to one output or, when it is the only term of its stage, to all."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        """What it adds to the raw predictions: (n_rows,), or (n_outputs, n_rows)."""


class Fitted(Protocol):
    """What a learner found in one stage."""

    def values(self) -> np.ndarray:
        """The least-squares fit h at every row of the table, (n_rows,)."""

    def scaled(self, step: float) -> Any:
        """The term step · h."""

    def add(self, terms: Sequence[Any], raw: np.ndarray, output: int) -> None:
        """raw[output] += the terms that the rule made of it, at every row of the table."""


class Learner(Protocol):
    """outputs: one fit a stage for each of them."""

    outputs: range

    def fit(self, working: Working, index: np.ndarray, rest: Any, stage: int, output: int) -> Any:
        """Fit the rows of `index` (all when empty); `rest` are the others (None: of weighted samples, not listed)."""
