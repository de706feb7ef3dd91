"""Test problems of the book and of the paper."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["nested_spheres", "random_function"]


def nested_spheres(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ten standard Gaussians; class 1 outside of the sphere that holds half of them, Σ x² > 9.34 (ESL 10.2)."""
    X = rng.standard_normal((n, 10))
    return X, (np.square(X).sum(axis=1) > 9.34).astype(int)


def random_function(
    rng: np.random.Generator, n_columns: int = 10, n_parts: int = 20
) -> Callable[[np.ndarray], np.ndarray]:
    """Friedman's (2001, section 6.1) random function generator: a sum of Gaussian bumps on small sets of columns.

    A bump sits on n_l = min(⌊1.5 + r⌋, n_columns) columns, r exponential with mean 2, so that low-order interactions
    are the most frequent; its axes are a random rotation with lengths from 0.1 to 2.
    """
    parts = []
    for _ in range(n_parts):
        size = min(int(1.5 + rng.exponential(2.0)), n_columns)
        columns = rng.permutation(n_columns)[:size]
        rotation, _ = np.linalg.qr(rng.standard_normal((size, size)))
        shape = rotation @ np.diag(rng.uniform(0.1, 2.0, size) ** 2) @ rotation.T
        parts.append((rng.uniform(-1.0, 1.0), columns, rng.standard_normal(size), shape))

    def function(X: np.ndarray) -> np.ndarray:
        out = np.zeros(len(X))
        for scale, columns, centre, shape in parts:
            away = X[:, columns] - centre
            out += scale * np.exp(-0.5 * np.einsum("ij,jk,ik->i", away, shape, away))
        return out

    return function
