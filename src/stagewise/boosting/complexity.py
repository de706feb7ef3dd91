"""How complex a componentwise model has become: its degrees of freedom, and the information criterion of each stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stagewise.errors import ParameterError
from stagewise.losses.base import Loss

__all__ = ["information_criterion", "operator_traces"]


def operator_traces(columns: Sequence[int], rate: float, learner: Any) -> np.ndarray:
    """(M,): the trace of the boosting operator, y ↦ f_m, after each stage (Bühlmann 2006, section 2.3).

    With H_j the smoother of column j, 1 - B_m = (1 - ν·H_j)(1 - B_{m-1}), and B_0 is the mean. All of it happens
    in the space that the chosen columns span: an orthonormal basis of that makes the matrices small.
    """
    root = np.sqrt(learner.weight)[:, None]
    parts = {}
    for column in dict.fromkeys([-1, *columns]):
        basis, inner = learner.operator(column)
        parts[column] = (root * basis, inner)
    left, sizes, _ = np.linalg.svd(np.column_stack([basis for basis, _ in parts.values()]), full_matrices=False)
    space = left[:, sizes > 1e-10 * sizes[0]]
    parts = {column: (space.T @ basis, inner) for column, (basis, inner) in parts.items()}
    d = space.shape[1]
    basis, inner = parts[-1]
    rest = np.eye(d) - basis @ inner @ basis.T
    out = np.empty(len(columns))
    for m, column in enumerate(columns):
        basis, inner = parts[column]
        rest = rest - rate * basis @ (inner @ (basis.T @ rest))
        out[m] = d - float(np.trace(rest))
    return out


def information_criterion(
    loss: Loss, deviance: np.ndarray, freedom: np.ndarray, active: np.ndarray, n_rows: int
) -> np.ndarray:
    """(M,): AIC after each stage; smaller is better.

    Squared error: the corrected AIC of Hurvich, Simonoff and Tsai (1998), log σ² + (1 + df/n)/(1 - (df + 2)/n), with
    the trace of the boosting operator as df. Log-loss and Poisson: -2·log-likelihood + 2·df with the number of
    parameters in use as df, since there is no linear operator.
    """
    if loss.name == "squared_error":
        room = 1.0 - (freedom + 2.0) / n_rows
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(room > 0.0, np.log(deviance) + (1.0 + freedom / n_rows) / room, np.inf)
    if loss.name in ("log_loss", "poisson"):
        return n_rows * deviance * (2.0 if loss.name == "log_loss" else 1.0) + 2.0 * active
    raise ParameterError(
        f"stopping='aic' needs a likelihood: loss squared_error, log_loss or poisson, not {loss.name!r}; use 'cv'."
    )
