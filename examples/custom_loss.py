"""A loss of one's own: what it costs to order too little.

A shop orders bread before it knows the demand. A loaf too few costs four times a loaf too many, so neither mean nor
median is the right order. The cost itself is the pinball loss at level 4/5, which is built in ("quantile"). A smooth
version of it, three functions of (y, f), is compiled and trained like a built-in loss; it costs as little, and the
orders jump less from day to day.

The second derivative of the smooth loss all but vanishes away from the truth, and Newton steps would be huge there. Its
upper bound stands in for it: then no step overshoots, because the parabola with that curvature lies above the loss.

    python examples/custom_loss.py [--small] [--out DIR]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from canvas import options, panels, save

import stagewise as sw

FEW, MANY, SOFT = 4.0, 1.0, 8.0


class Bread(sw.Loss):
    """FEW a loaf for ordering too few, MANY for too many, rounded within SOFT loaves of the truth."""

    @staticmethod
    def loss(y: float, f: float) -> float:
        e = (f - y) / SOFT
        return SOFT * (MANY * e + (FEW + MANY) * (max(0.0, -e) + math.log1p(math.exp(-abs(e)))))

    @staticmethod
    def gradient(y: float, f: float) -> float:
        return MANY - (FEW + MANY) / (1.0 + math.exp((f - y) / SOFT))

    @staticmethod
    def hessian(y: float, f: float) -> float:
        return (FEW + MANY) / (4.0 * SOFT)  # the most that it can be


def cost(y: np.ndarray, order: np.ndarray) -> float:
    """What a day costs on average."""
    return float(np.mean(np.where(order < y, FEW * (y - order), MANY * (order - y))))


def demand(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Loaves sold by day of the year: waves, and more spread when there is more to sell."""
    day = rng.uniform(0.0, 365.0, n)
    level = 120.0 + 40.0 * np.sin(day / 58.0) + 30.0 * np.exp(-(((day - 350.0) / 12.0) ** 2))
    return day[:, None], level * np.exp(0.25 * rng.standard_normal(n) - 0.03)


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    given = options(__doc__, arguments)
    rng = np.random.default_rng(3)
    (X, y), (X_test, y_test) = demand(given.size(5000, 800), rng), demand(given.size(50_000, 2000), rng)
    settings: dict[str, Any] = {"n_estimators": given.size(150, 30), "max_leaf_nodes": 8, "learning_rate": 0.1}
    models = {
        "squared error": sw.GradientBoostingRegressor("squared_error", **settings),
        "absolute error": sw.GradientBoostingRegressor("absolute_error", **settings),
        "quantile 4/5": sw.GradientBoostingRegressor("quantile", alpha=FEW / (FEW + MANY), **settings),
        "a loss of one's own": sw.GradientBoostingRegressor(Bread(), **settings),
    }
    found = {name: cost(y_test, model.fit(X, y).predict(X_test)) for name, model in models.items()}
    print("cost of a day, on new days")
    for name, value in found.items():
        print(f"  {name:<22} {value:6.2f}")

    figure, (left, right) = panels(2, 6.0, 4.2)
    miss = np.linspace(-20.0, 20.0, 401)
    left.plot(miss, np.where(miss < 0.0, -FEW * miss, MANY * miss), color="black", linestyle="--", label="the cost")
    left.plot(miss, [Bread.loss(0.0, own) for own in miss], color="#D55E00", label="a loss of one's own")
    left.set(xlabel="order − demand", ylabel="loss", title="The cost, and its smooth version")
    left.legend(frameon=False)
    days = np.linspace(0.0, 365.0, 731)[:, None]
    some = slice(None, 1500)
    right.scatter(X[some, 0], y[some], s=4, color="#BBBBBB", label="demand", rasterized=True)
    for (name, model), colour in zip(models.items(), ("#0072B2", "#009E73", "#CC79A7", "#D55E00"), strict=True):
        right.plot(days[:, 0], model.predict(days), color=colour, label=f"{name}: {found[name]:.1f}")
    right.set(xlabel="day of the year", ylabel="loaves", ylim=(0.0, 330.0), title="Orders, and what a day costs")
    right.legend(frameon=False, ncols=2, fontsize=8, loc="upper left")
    save(figure, given, "custom_loss")
    return found


if __name__ == "__main__":
    main()
