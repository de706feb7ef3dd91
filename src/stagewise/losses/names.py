"""Losses by name."""

from __future__ import annotations

from typing import Any

from stagewise.errors import ParameterError
from stagewise.losses.base import Loss, as_loss
from stagewise.losses.classification import CURVATURES, Exponential, LogLoss, MulticlassLogLoss
from stagewise.losses.regression import AbsoluteError, Gamma, Huber, Poisson, Quantile, SquaredError, Tweedie
from stagewise.params import check_choice, check_number

__all__ = ["CLASSIFICATION", "REGRESSION", "classification_loss", "regression_loss"]

REGRESSION = ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie")
CLASSIFICATION = ("log_loss", "exponential")


def regression_loss(loss: Any, alpha: Any, tweedie_power: Any) -> Loss:
    """A loss for numbers. alpha is the level of "huber" and "quantile", tweedie_power that of "tweedie"."""
    level = check_number("alpha", alpha, 0.0, 1.0, low_open=True, high_open=True)
    power = check_number("tweedie_power", tweedie_power, 1.0, 2.0, low_open=True, high_open=True)
    if not isinstance(loss, str):
        return as_loss(loss)
    name = check_choice("loss", loss, REGRESSION)
    if name == "huber":
        return Huber(level)
    if name == "quantile":
        return Quantile(level)
    if name == "tweedie":
        return Tweedie(power)
    plain: dict[str, type[Loss]] = {
        "squared_error": SquaredError, "absolute_error": AbsoluteError, "poisson": Poisson, "gamma": Gamma,
    }  # fmt: skip
    return plain[name]()


def classification_loss(loss: Any, n_classes: int, curvature: Any = "friedman") -> Loss:
    """A loss for classes; "exponential" and losses of one's own are for two of them.

    curvature: of the log-loss of three and more, one of CURVATURES.
    """
    curvature = check_choice("multiclass_curvature", curvature, CURVATURES)
    if not isinstance(loss, str):
        chosen = as_loss(loss)
    elif check_choice("loss", loss, CLASSIFICATION) == "exponential":
        chosen = Exponential()
    else:
        return LogLoss() if n_classes == 2 else MulticlassLogLoss(n_classes, curvature)
    if n_classes > 2:
        raise ParameterError(f"loss={loss!r} is for two classes, but y has {n_classes}; use loss='log_loss'.")
    return chosen
