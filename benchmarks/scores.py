"""Held-out loss: the one that was trained, on rows that were not."""

from __future__ import annotations

import numpy as np

__all__ = ["LOSS_NAMES", "held_out_loss"]

LOSS_NAMES = {
    "binary": "log-loss",
    "multiclass": "log-loss",
    "regression": "squared error",
    "count": "Poisson deviance",
}

_EDGE = 1e-7
"""Some predict float32 probabilities, which can be 1 exactly; the same limit for all."""


def held_out_loss(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    """Mean loss of probabilities (rows, classes), or of means (rows,)."""
    predicted = np.asarray(predicted, np.float64)
    if task in ("binary", "multiclass"):
        chosen = predicted[np.arange(len(y)), y]
        return float(-np.log(np.clip(chosen, _EDGE, 1.0 - _EDGE)).mean())
    if task == "regression":
        return float(((y - predicted) ** 2).mean())
    mean = np.maximum(predicted, _EDGE)
    log_ratio = np.log(np.where(y > 0.0, y, mean) / mean)
    return float(2.0 * (y * log_ratio - y + mean).mean())
