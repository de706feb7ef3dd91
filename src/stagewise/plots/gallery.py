"""The losses as pictures: ESL figures 10.4 and 10.5.

Losses for two classes are functions of the margin y·f, y = ±1, and scaled to pass through (0, 1); losses for numbers
are functions of the residual y - f.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stagewise.plots.style import new_axes

__all__ = ["classification_curves", "losses", "regression_curves"]


def classification_curves(margin: np.ndarray) -> dict[str, np.ndarray]:
    """Losses of y = ±1 by margin y·f: each is 1 at margin 0 (misclassification: below it)."""
    return {
        "misclassification": (margin < 0.0).astype(np.float64),
        "exponential": np.exp(-margin),
        "binomial deviance": np.logaddexp(0.0, -2.0 * margin) / np.log(2.0),
        "squared error": (1.0 - margin) ** 2,
        "hinge": np.maximum(0.0, 1.0 - margin),
    }


def regression_curves(residual: np.ndarray, delta: float = 1.0) -> dict[str, np.ndarray]:
    """Losses of a number by residual y - f; Huber's goes from squared to absolute at ±δ.

    The book's units: squared error without its ½, and Huber's loss twice ours, so that the two meet near 0.
    """
    size = np.abs(residual)
    return {
        "squared error": residual**2,
        "absolute error": size,
        "Huber": np.where(size <= delta, residual**2, 2.0 * delta * size - delta**2),
    }


def losses(axes: Sequence[Any] | None = None, *, delta: float = 1.0) -> tuple[Any, Any]:
    """Draw both figures: losses for two classes by margin, losses for numbers by residual.

    axes : two matplotlib Axes to draw on; None makes two figures
    delta : where Huber's loss turns from squared to absolute

    Returns the two Axes.
    """
    if axes is None:
        left, right = (new_axes(None, 6.4, 4.4) for _ in range(2))
    else:
        left, right = axes
    margin = np.linspace(-2.0, 2.0, 401)
    for name, values in classification_curves(margin).items():
        left.plot(margin, values, label=name, **_style(name))
    left.set(xlabel="margin  y·f", ylabel="loss", ylim=(-0.08, 3.2), xlim=(-2.0, 2.0))
    left.set_title("Losses for two classes, y = ±1, scaled through (0, 1)")
    residual = np.linspace(-3.0, 3.0, 601)
    for name, values in regression_curves(residual, delta).items():
        right.plot(residual, values, label=name, **_style(name))
    right.set(xlabel="residual  y − f", ylabel="loss", ylim=(-0.2, 8.0), xlim=(-3.0, 3.0))
    right.set_title(f"Losses for numbers (Huber: δ = {delta:g})")
    for axis in (left, right):
        axis.legend(frameon=False)
        axis.grid(alpha=0.25)
    return left, right


def _style(name: str) -> dict[str, Any]:
    colours = {
        "misclassification": "black", "exponential": "tab:blue", "binomial deviance": "tab:green",
        "squared error": "tab:red", "hinge": "tab:orange", "absolute error": "tab:purple", "Huber": "tab:cyan",
    }  # fmt: skip
    return {
        "color": colours[name],
        "linewidth": 1.8,
        "drawstyle": "steps-post" if name == "misclassification" else "default",
    }
