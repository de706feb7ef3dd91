"""The loss of a model that was trained elsewhere, when it is none of ours: a link, and no derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stagewise.errors import ParameterError
from stagewise.losses.base import Loss, two_class
from stagewise.losses.classification import Exponential, LogLoss, MulticlassLogLoss
from stagewise.losses.regression import Gamma, Poisson, Tweedie

__all__ = ["LINKS", "Linked", "link_of"]

LINKS = ("identity", "exp", "sigmoid", "softplus", "signed_square", "step", "one_vs_all")
"""How raw predictions f become predictions:

    identity        f
    exp             e^f
    sigmoid         1/(1 + e^(-factor·f)), one output
    softplus        log(1 + e^f)
    signed_square   sign(f)·f²
    step            1 where f > 0, else 0
    one_vs_all      1/(1 + e^(-factor·f_k)) of each class k, which need not sum to 1
"""


class Linked(Loss):
    """Predicts through a link; cannot be trained. `objective` is what the other library calls its loss."""

    name = "linked"

    def __init__(self, objective: str, link: str, factor: float = 1.0, n_outputs: int = 1) -> None:
        self.objective, self.link, self.factor, self.n_outputs = objective, link, factor, n_outputs

    @property
    def pairs(self) -> Callable[..., None]:
        raise ParameterError(
            f"The model was trained elsewhere with the objective {self.objective!r}, for which stagewise has no "
            "derivatives: it can predict, but not be trained further. Fit an estimator with another loss instead."
        )

    def predict(self, raw: np.ndarray) -> np.ndarray:
        f = raw[0]
        if self.link == "one_vs_all":
            return np.column_stack([two_class(own, self.factor)[:, 1] for own in raw])
        if len(raw) > 1:  # several targets: the identity alone has them
            return np.ascontiguousarray(raw.T)
        if self.link == "sigmoid":
            return two_class(f, self.factor)[:, 1]
        if self.link == "exp":
            return np.exp(np.clip(f, -708.0, 708.0))
        if self.link == "softplus":
            return np.logaddexp(0.0, f)
        if self.link == "signed_square":
            return np.sign(f) * f * f
        return f if self.link == "identity" else (f > 0.0).astype(np.float64)

    def probabilities(self, raw: np.ndarray) -> np.ndarray:
        return two_class(raw[0], self.factor) if self.link == "sigmoid" else super().probabilities(raw)

    def __repr__(self) -> str:
        return f"Linked({self.objective!r}, {self.link!r}, factor={self.factor}, n_outputs={self.n_outputs})"


def link_of(loss: Loss) -> tuple[str, float] | None:
    """(link, factor) of a loss, one of LINKS or "softmax"; None when a class of one's own has a link of its own."""
    if isinstance(loss, Linked):
        return loss.link, loss.factor
    if isinstance(loss, LogLoss):
        return "sigmoid", 1.0
    if isinstance(loss, Exponential):
        return "sigmoid", 2.0
    if isinstance(loss, MulticlassLogLoss):
        return "softmax", 1.0
    if isinstance(loss, Poisson | Gamma | Tweedie):
        return "exp", 1.0
    own = type(loss).predict is not Loss.predict or type(loss).probabilities is not Loss.probabilities
    return None if own else ("identity", 1.0)
