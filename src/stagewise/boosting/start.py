"""The constant that a fit starts from."""

from __future__ import annotations

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.boosting.pairs import PairsMaker, exact_sum
from stagewise.boosting.rules import Targets
from stagewise.kernels.exact import power_above
from stagewise.losses.base import Loss

__all__ = ["starting_values"]

_NOTHING = np.empty(0)


def starting_values(
    loss: Loss, targets: Targets, maker: PairsMaker, backend: CpuBackend, offset: np.ndarray | None, index: np.ndarray
) -> np.ndarray:
    """argmin over constants c of Σ L(y, offset + c), (n_outputs,).

    In closed form where the loss has one and there is no offset; a quantile of y - offset; else by Newton steps.
    """
    if loss.leaf_quantile is not None:
        residual = targets.y if offset is None else targets.y - offset[0]
        return np.array([backend.quantile(residual, targets.counts, index, loss.leaf_quantile)])
    if offset is None:
        y, k = targets.y, loss.n_outputs
        parts = (y.astype(np.float64, copy=False) if k == 1 else (y == c).astype(np.float64) for c in range(k))
        means = np.array([exact_sum(backend.team, part, targets.weight) for part in parts]) / maker.total
        closed = loss.from_mean(means)
        if closed is not None:
            return closed
    return _minimise(loss, targets, maker, backend, offset, index)


def _minimise(
    loss: Loss, targets: Targets, maker: PairsMaker, backend: CpuBackend, offset: np.ndarray | None, index: np.ndarray
) -> np.ndarray:
    """Newton steps on the constants, halved while they do not improve the deviance."""
    n, k = len(targets.y), loss.n_outputs
    base = np.zeros((k, n)) if offset is None else offset
    constant = np.zeros(k)
    if offset is None and k == 1:  # somewhere among the targets, in case the loss is flat far from them
        constant[0] = backend.quantile(targets.y, targets.counts, index, 0.5)
    whole = backend.whole(index)
    pairs = maker(base + constant[:, None], loss.option)
    for _ in range(100):
        units = np.array([power_above(pairs.grad_peak), power_above(pairs.hess_peak), 1.0])
        sums = [backend.leaf_sums(whole, pairs.grad[c], pairs.hess[c], _NOTHING, units, loss)[0] for c in range(k)]
        step = np.array([total[3] for total in sums])
        deviance = pairs.deviance
        for _ in range(30):
            pairs = maker(base + (constant + step)[:, None], loss.option)
            if pairs.deviance <= deviance:
                break
            step = step / 2.0
        else:
            break
        constant = constant + step
        if np.abs(step).max() <= 1e-13 * (1.0 + np.abs(constant).max()):
            break
    return constant
