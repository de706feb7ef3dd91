"""Losses for classes: ESL 10.5 and 10.6, Friedman (2001) sections 4.5 and 4.6."""

from __future__ import annotations

import numpy as np

from stagewise.kernels.leaves import EXPONENTIAL
from stagewise.kernels.pairs import exponential_pairs, log_loss_pairs, multiclass_pairs
from stagewise.kernels.votes import one_vs_rest_pairs, samme_pairs
from stagewise.losses.base import Loss, two_class

__all__ = ["CURVATURES", "Exponential", "LogLoss", "MulticlassExponential", "MulticlassLogLoss", "OneVsRestExponential"]

CURVATURES = ("friedman", "diagonal", "bound")
"""What stands for the second derivatives of K-class log-loss, where K trees see one class each:

    friedman    K/(K-1)·p(1 - p)    Algorithm 6: exact when the other classes move alike, f_k by s and each by -s/(K-1);
                                    LightGBM's
    diagonal    p(1 - p)            the matrix's own diagonal, as if the other classes stood still; scikit-learn's
                                    HistGradientBoostingClassifier
    bound       2·p(1 - p)          never less than the matrix (its rows sum to 0), the most careful; XGBoost's
"""

_RAREST = 1e-16
"""The share of a class is at least this, where weights make it vanish beside the others."""

_CERTAIN = 38.0
"""Log-odds beyond this cannot be told apart from certainty (e^-38 is less than half an ulp of 1), so no step need be
longer. Newton steps are, where a class is rare and its probability nearly 0 throughout a leaf: 1e24 was seen."""


def _log_odds(mean: np.ndarray) -> np.ndarray:
    mean = np.clip(mean, _RAREST, 1.0 - _RAREST)
    return np.log(mean / (1.0 - mean))


class LogLoss(Loss):
    """Two-class log-loss on the log-odds f: p = 1/(1 + e^-f); leaves are one Newton step. Friedman's Algorithm 5.

    The paper works on F = ½ log(p/(1-p)) with y = ±1 and L = log(1 + e^(-2yF)). With f = 2F this is the loss here:
    its ỹ = 2y/(1 + e^(2yF)) is twice our y - p, its leaf Σỹ/Σ|ỹ|(2-|ỹ|) half of our Σ(y-p)/Σp(1-p).
    """

    name = "log_loss"
    largest_step = _CERTAIN
    pairs = property(lambda self: log_loss_pairs)
    takes_bytes = True

    def from_mean(self, mean: np.ndarray) -> np.ndarray:
        return _log_odds(mean)

    def predict(self, raw: np.ndarray) -> np.ndarray:
        return self.probabilities(raw)[:, 1]

    def probabilities(self, raw: np.ndarray) -> np.ndarray:
        return two_class(raw[0], 1.0)


class Exponential(Loss):
    """AdaBoost's loss e^(-y·f) with y = ±1 (ESL 10.4): f estimates half the log-odds, p = 1/(1 + e^(-2f)).

    Leaves are the exact minimum ½ log(W₊/W₋). (scikit-learn takes one Newton step, (W₊ - W₋)/(W₊ + W₋), which is the
    hyperbolic tangent of it.)
    """

    name = "exponential"
    leaf_kind = EXPONENTIAL
    pairs = property(lambda self: exponential_pairs)
    takes_bytes = True

    def from_mean(self, mean: np.ndarray) -> np.ndarray:
        return 0.5 * _log_odds(mean)

    def predict(self, raw: np.ndarray) -> np.ndarray:
        return self.probabilities(raw)[:, 1]

    def probabilities(self, raw: np.ndarray) -> np.ndarray:
        return two_class(raw[0], 2.0)


class MulticlassLogLoss(Loss):
    """K-class log-loss on K raw predictions, p = softmax(f): K trees a stage. Friedman's Algorithm 6.

    curvature: see CURVATURES.
    """

    name = "log_loss"
    largest_step = _CERTAIN
    pairs = property(lambda self: multiclass_pairs)
    takes_bytes = True

    def __init__(self, n_classes: int, curvature: str = "friedman") -> None:
        self.n_outputs, self.curvature = n_classes, curvature

    @property
    def option(self) -> np.ndarray:
        factors = {"friedman": self.n_outputs / (self.n_outputs - 1.0), "diagonal": 1.0, "bound": 2.0}
        return np.array([factors[self.curvature]])

    def from_mean(self, mean: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(mean, _RAREST))

    def predict(self, raw: np.ndarray) -> np.ndarray:
        return _softmax(raw)

    def __repr__(self) -> str:
        own = "" if self.curvature == "friedman" else f", curvature={self.curvature!r}"
        return f"MulticlassLogLoss(n_classes={self.n_outputs}{own})"


class MulticlassExponential(Loss):
    """The loss of AdaBoost with K classes, e^(-Y·f/K) with Y_k = 1 for the true class and -1/(K-1) for the others.

    Its minimiser over all f that sum to 0 is f_k = (K-1)(log p_k - mean of log p) (Zhu, Zou, Rosset and Hastie 2009,
    Lemma 1), so p = softmax(f/(K-1)). With K = 2 this is `Exponential`: f_1 is half the log-odds.
    """

    name = "exponential"
    pairs = property(lambda self: samme_pairs)
    takes_bytes = True

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = n_classes

    def predict(self, raw: np.ndarray) -> np.ndarray:
        return _softmax(raw / (self.n_outputs - 1.0))

    def __repr__(self) -> str:
        return f"MulticlassExponential(n_classes={self.n_outputs})"


class OneVsRestExponential(Loss):
    """Σ_k e^(-s_k·f_k), s_k = 1 for the true class and -1 for the others: AdaBoost.MH's loss for K classes.

    f_k is half the log-odds of class k against the rest; the K probabilities that this gives are scaled to sum 1.
    """

    name = "exponential"
    pairs = property(lambda self: one_vs_rest_pairs)
    takes_bytes = True

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = n_classes

    def predict(self, raw: np.ndarray) -> np.ndarray:
        return _softmax(-np.logaddexp(0.0, -2.0 * raw))

    def __repr__(self) -> str:
        return f"OneVsRestExponential(n_classes={self.n_outputs})"


def _softmax(raw: np.ndarray) -> np.ndarray:
    """(K, n_rows) → (n_rows, K)."""
    e = np.exp(raw - raw.max(axis=0))
    return np.ascontiguousarray((e / e.sum(axis=0)).T)
