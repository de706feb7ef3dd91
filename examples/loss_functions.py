"""The losses and what they estimate: ESL section 10.6, figures 10.4 and 10.5.

A loss decides what a prediction means. The constant that minimises it on a skewed sample is the mean, the median, a
quantile or something between; for two classes it is the log-odds, or half of them. The table sets the constant that a
fit starts from beside the same number computed by NumPy.

    python examples/loss_functions.py [--small] [--out DIR]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from canvas import options, panels, save

import stagewise as sw


def constants(n: int) -> dict[str, tuple[float, float]]:
    """By loss: the constant f₀ of a fit, and what it should be."""
    rng = np.random.default_rng(0)
    X, y = np.zeros((n, 1)), rng.lognormal(0.0, 1.0, n)
    label = (rng.random(n) < 0.2).astype(int)
    odds = float(np.log(label.mean() / (1.0 - label.mean())))

    def start(loss: str, **settings: Any) -> float:
        return float(sw.GradientBoostingRegressor(loss, n_estimators=1, **settings).fit(X, y).model_.initial[0])

    def start_of_classes(loss: str) -> float:
        return float(sw.GradientBoostingClassifier(loss, n_estimators=1).fit(X, label).model_.initial[0])

    return {
        "squared_error: the mean": (start("squared_error"), float(y.mean())),
        "absolute_error: the median": (start("absolute_error"), float(np.median(y))),
        "huber: from the median": (start("huber"), float(np.median(y))),
        "quantile, α = 0.9": (start("quantile", alpha=0.9), float(np.quantile(y, 0.9, method="averaged_inverted_cdf"))),
        "poisson: the logarithm of the mean": (start("poisson"), float(np.log(y.mean()))),
        "gamma: the same": (start("gamma"), float(np.log(y.mean()))),
        "log_loss: log-odds of the second class": (start_of_classes("log_loss"), odds),
        "exponential: half of them": (start_of_classes("exponential"), odds / 2.0),
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, tuple[float, float]]:
    given = options(__doc__, arguments)
    found = constants(given.size(100_000, 1000))
    print(f"{'the constant that minimises a loss':<42}    ours     NumPy")
    for name, (ours, numpy) in found.items():
        print(f"  {name:<40}{ours:8.4f}  {numpy:8.4f}")
    figure, axes = panels(2, 6.0, 4.4)
    sw.plots.losses(axes)
    save(figure, given, "loss_functions")
    return found


if __name__ == "__main__":
    main()
