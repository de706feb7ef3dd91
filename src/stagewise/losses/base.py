"""What a loss is.

A loss knows its gradient and second derivative row by row (a kernel of kernels/pairs.py, or one compiled from a
user's three functions), its starting value, how a leaf is re-fitted, and how a raw prediction becomes a mean.

    class LogCosh(sw.Loss):
        def loss(y, f): return math.log(math.cosh(f - y))
        def gradient(y, f): return math.tanh(f - y)
        def hessian(y, f): return 1.0 - math.tanh(f - y) ** 2

    GradientBoostingRegressor(loss=LogCosh())
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from stagewise.errors import ParameterError
from stagewise.kernels.leaves import NEWTON
from stagewise.kernels.pairs import sigmoid
from stagewise.losses.custom import compiled_pairs

__all__ = ["Loss", "as_loss", "two_class"]


class Loss:
    """Base of all losses. A subclass of your own defines `loss`, `gradient` and `hessian` as functions of (y, f).

    They are plain scalar functions (no self), compiled on first use; math.exp, np.log and the like inside them are
    replaced by the library's reproducible, vectorised ones. y is the target (0 or 1 for two classes), f the raw
    prediction. Override `predict` to turn raw predictions into the scale of y (two classes: the probability of the
    second one), and `from_mean` if the constant that a fit starts from is a function of the mean of y.
    """

    name: ClassVar[str] = "custom"
    n_outputs: int = 1
    constant_hessian: ClassVar[bool] = False  # every row's second derivative is 1: counts stand for it
    second_order: ClassVar[bool] = True  # False: the hessian means nothing, trees are grown on gradients alone
    takes_bytes: ClassVar[bool] = False  # the kernel takes class numbers as they come; others get float64
    leaf_kind: ClassVar[int] = NEWTON
    largest_step: ClassVar[float] = math.inf  # of a leaf, before the learning rate
    power: float = 0.0  # of the log-link family
    leaf_quantile: float | None = None  # leaves are this quantile of the residuals instead of a Newton step
    delta_quantile: float | None = None  # Huber: the quantile of |residual| that is the transition point of a stage

    @property
    def pairs(self) -> Callable[..., None]:
        """The kernel that fills grad and hess (signature: kernels/pairs.py)."""
        return compiled_pairs(type(self))

    @property
    def option(self) -> np.ndarray:
        """Numbers that the kernel needs."""
        return np.zeros(1)

    def check_target(self, y: np.ndarray) -> None:
        """Raise InputError when y lies outside the loss's range."""

    def from_mean(self, mean: np.ndarray) -> np.ndarray | None:
        """The constants (n_outputs,) that minimise the loss, when the mean of y (K classes: their shares) gives them.

        None: they are found by minimising the loss numerically, or are the `leaf_quantile` of y.
        """
        return None

    def deviance(self, mean_value: float, y_part: float) -> float:
        """The reported deviance from the mean of the kernel's value; y_part is the mean of `target_part`."""
        return mean_value

    def target_part(self, y: np.ndarray) -> np.ndarray | None:
        """The part of the deviance that depends on y alone, row by row; None for losses without one."""
        return None

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Raw predictions (n_outputs, n_rows) on the scale of y: (n_rows,), or (n_rows, K) probabilities."""
        return raw[0]

    def probabilities(self, raw: np.ndarray) -> np.ndarray:
        """Raw predictions as probabilities (n_rows, K). Without a link of its own, a loss's f is taken as log-odds."""
        if self.n_outputs > 1:
            return self.predict(raw)
        if type(self).predict is Loss.predict:
            return two_class(raw[0], 1.0)
        p = self.predict(raw)
        return np.column_stack([1.0 - p, p])

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def two_class(f: np.ndarray, factor: float) -> np.ndarray:
    """(1 - p, p) with p = 1/(1 + e^(-factor·f)), (n_rows, 2)."""
    out = np.empty((len(f), 2))
    sigmoid(0, 1, f, factor, out)
    return out


def as_loss(loss: Any) -> Loss:
    """An instance of a Loss from an instance or a class."""
    if isinstance(loss, type) and issubclass(loss, Loss):
        loss = loss()
    if not isinstance(loss, Loss):
        raise ParameterError(f"loss={loss!r} must be the name of a loss or a stagewise.Loss; see the class docstring.")
    return loss
