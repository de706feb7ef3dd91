"""Fitted models of every kind, small, for the tests of files and exchange."""
# ruff: noqa: N805  the functions of a Loss take (y, f) and no self

from __future__ import annotations

import functools
import math

import numpy as np

import stagewise as sw

COLUMNS = 5


class LogCosh(sw.Loss):
    """A loss of one's own."""

    def loss(y, f):
        return math.log(math.cosh(f - y))

    def gradient(y, f):
        return math.tanh(f - y)

    def hessian(y, f):
        return 1.0 - math.tanh(f - y) ** 2


def table(rows=400, missing=True, seed=0, dtype=np.float64):
    """Smooth, coarse and half-missing columns; a third of the cells of column 1 are missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, COLUMNS))
    X[:, 2] = rng.integers(-3, 4, rows)
    X[:, 3] = np.exp(2 * X[:, 3])
    if missing:
        X[rng.random(rows) < 0.33, 1] = np.nan
        X[rng.random(rows) < 0.05, 3] = np.nan
    return X.astype(dtype)


def signal(X, seed=0):
    """A target that needs splits on all columns, and on missingness."""
    Z = np.nan_to_num(X, nan=1.7).astype(np.float64)
    rng = np.random.default_rng(seed + 1)
    return Z[:, 0] + np.sin(2 * Z[:, 1]) + 0.3 * Z[:, 2] + 0.05 * Z[:, 3] + 0.3 * rng.normal(size=len(X))


REGRESSION = ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie")
SMALL = {"n_estimators": 12, "min_samples_leaf": 5, "max_leaf_nodes": 8}


@functools.cache
def fitted(kind, missing=True, **settings):
    """One of: a regression loss, "binary", "exponential", "classes" (three), "custom". Also (X, y)."""
    X = table(missing=missing)
    f = signal(X)
    options = {**SMALL, **settings}
    if kind in REGRESSION or kind == "custom":
        y = np.exp(f / 2) if kind in ("poisson", "gamma", "tweedie") else f
        loss = LogCosh() if kind == "custom" else kind
        return sw.GradientBoostingRegressor(loss=loss, **options).fit(X, y), X, y
    y = np.digitize(f, [-0.5, 1.0]) if kind == "classes" else (f > 0).astype(int)
    loss = "exponential" if kind == "exponential" else "log_loss"
    return sw.GradientBoostingClassifier(loss=loss, **options).fit(X, y), X, y


KINDS = (*REGRESSION, "binary", "exponential", "classes")
