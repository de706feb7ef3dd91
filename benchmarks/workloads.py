"""Workloads A to H: generated tables with fixed seeds, one part to train on and one held out.

Values are float32, as large tables usually are (XGBoost turns everything into it); targets are float64, or class
numbers. Generated rows are independent, so the held-out part is simply the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

__all__ = ["WORKLOADS", "Data", "Workload", "binary", "regression"]

Drawn = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """X: float32 (rows, columns), row-major; y: (rows,)."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True, slots=True)
class Workload:
    """One table and what is fitted to it. task: binary, multiclass, regression or count (Poisson)."""

    name: str
    task: str
    rows: int
    columns: int
    stages: int
    source: Callable[[Workload], Data]
    leaves: int = 31
    held_out: int = 100_000

    @property
    def title(self) -> str:
        return (
            f"{self.name} · {self.rows:,} × {self.columns:,} {self.task}, {self.stages} stages × {self.leaves} leaves"
        )

    def data(self) -> Data:
        return self.source(self)

    def drawn(self, seed: int) -> Workload:
        """The same problem with other random numbers; a table that is not generated stays as it is."""
        again = replace(self.source, seed=seed) if isinstance(self.source, Generated) else self.source
        return replace(self, source=again)

    def sized(self, quick: bool) -> Workload:
        """The same, small, when only the benchmark itself is tried."""
        if not quick:
            return self
        return replace(
            self,
            rows=min(self.rows, 2_000),
            columns=min(self.columns, 60),
            stages=min(self.stages, 5),
            leaves=min(self.leaves, 80),
            held_out=min(self.held_out, 1_000),
        )


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))  # type: ignore[no-any-return]


def binary(rng: np.random.Generator, n: int, f: int) -> Drawn:
    """The prototype's problem: interactions and curves in 11 columns, the others (f >= 11) are noise."""
    X = rng.standard_normal((n, f)).astype(np.float32)
    z = X[:, 0] * X[:, 1] + np.sin(X[:, 2] * 2) + 0.5 * X[:, 3] ** 2 - 0.5
    z += 0.3 * X[:, 4:10].sum(1) * np.tanh(X[:, 10])
    return X, (rng.random(n) < _sigmoid(z.astype(np.float64))).astype(np.int64)


def regression(rng: np.random.Generator, n: int, f: int) -> Drawn:
    """Friedman's first problem (MARS, 1991) with unit noise: 5 columns matter."""
    X = rng.random((n, f), dtype=np.float32)
    y = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3] + 5.0 * X[:, 4]
    return X, y.astype(np.float64) + rng.standard_normal(n)


def seven_classes(rng: np.random.Generator, n: int, f: int) -> Drawn:
    """Class scores from 30 bent directions; a class is drawn with the softmax of its scores."""
    X = rng.standard_normal((n, f)).astype(np.float32)
    directions = rng.standard_normal((f, 30)).astype(np.float32) * (rng.random((f, 30)) < 0.1)
    scores = np.tanh(X @ directions.astype(np.float32)) @ rng.standard_normal((30, 7)).astype(np.float32)
    return X, np.argmax(scores + rng.gumbel(size=(n, 7)), axis=1)


@dataclass(frozen=True, slots=True)
class Generated:
    """A source that draws all rows at once and holds the last ones out."""

    draw: Callable[[np.random.Generator, int, int], Drawn]
    seed: int

    def __call__(self, workload: Workload) -> Data:
        X, y = self.draw(np.random.default_rng(self.seed), workload.rows + workload.held_out, workload.columns)
        k = workload.rows
        # copies: a view would keep both parts alive, and memory is measured against the training part
        return Data(X[:k].copy(), y[:k].copy(), X[k:].copy(), y[k:].copy())


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("A", "binary", 1_000_000, 28, 100, Generated(binary, 0)),
        Workload("B", "regression", 100_000, 50, 200, Generated(regression, 1)),
        Workload("C", "binary", 1_000, 20, 100, Generated(binary, 2)),
        Workload("D", "regression", 10_000, 20, 100, Generated(regression, 3)),
        Workload("E", "binary", 20_000, 1_000, 50, Generated(binary, 4), held_out=20_000),
        Workload("F", "multiclass", 200_000, 50, 30, Generated(seven_classes, 5)),
        Workload("G", "regression", 5_000_000, 10, 100, Generated(regression, 6)),
        Workload("H", "binary", 1_000_000, 28, 100, Generated(binary, 0), leaves=255),
    )
}
