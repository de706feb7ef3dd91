"""Exponential losses for K classes, with the signature of kernels/pairs.py; raw, grad and hess are (K, n_rows)."""

from __future__ import annotations

import numpy as np

from stagewise.kernels.exact import exact_exp
from stagewise.kernels.jit import device, kernel
from stagewise.kernels.pairs import CHUNK, settle
from stagewise.kernels.team import share

__all__ = ["one_vs_rest_pairs", "samme_pairs"]


@device
def samme_rows(y, raw, a, b, grad, hess, value, total):
    """L = e^(-Y·f/K), Y_k = 1 for the row's class and -1/(K-1) for the others (Zhu et al. 2009, section 2).

    grad_k = -Y_k·L/K, hess_k = (Y_k/K)²·L. y holds class numbers of rows a..b; total is scratch.
    """
    n_classes, n = raw.shape[0], b - a
    other = 1.0 / (n_classes - 1.0)
    for i in range(n):
        total[i] = 0.0
    for k in range(n_classes):
        f = raw[k, a:b]
        for i in range(n):
            total[i] += f[i]
    for i in range(n):
        own = raw[np.int64(y[i]), a + i]
        total[i] = (own - other * (total[i] - own)) / n_classes
    for i in range(n):
        value[i] = exact_exp(-total[i])
    for k in range(n_classes):
        g, h = grad[k, a:b], hess[k, a:b]
        for i in range(n):
            code = (1.0 if y[i] == k else -other) / n_classes
            g[i] = -code * value[i]
            h[i] = code * code * value[i]


@kernel(arrays=True)
def samme_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs and value of `samme_rows` for this thread's rows."""
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    total = np.empty(CHUNK)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        samme_rows(y[a:b], raw, a, b, grad, hess, value[tid], total)
        for k in range(raw.shape[0]):
            settle(weight[a:b], grad[k, a:b], hess[k, a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
            value[tid, :] = 0.0  # the value is counted once


@device
def one_vs_rest_rows(y, f, k, grad, hess, value):
    """L = e^(-s·f) with s = 1 for rows of class k and -1 for others; grad = -s·L, hess = L."""
    for i in range(y.shape[0]):
        s = 1.0 if y[i] == k else -1.0
        e = exact_exp(-s * f[i])
        grad[i] = -s * e
        hess[i] = e
        value[i] = e


@kernel
def one_vs_rest_pairs(tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update):
    """Pairs of `one_vs_rest_rows` for this thread's rows; the value of a row is the sum over the classes."""
    k0, k1 = share(0, y.shape[0], tid, n_threads)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        for k in range(raw.shape[0]):
            one_vs_rest_rows(y[a:b], raw[k, a:b], k, grad[k, a:b], hess[k, a:b], value[tid])
            settle(weight[a:b], grad[k, a:b], hess[k, a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
