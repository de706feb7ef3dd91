"""LS, LAD and Huber under normal, slash and outlier noise: Friedman (2001), section 6.2.

Targets are random functions of ten columns. An estimate F is judged by its mean absolute distance from the true F*, as
a share of that of the best constant. What the paper finds: with normal errors LS is best and Huber close to it; with
slash errors (normal over uniform, tails like Cauchy's) LS is of no use, LAD is best and Huber not far; in between, with
one row in twenty far off, Huber is best.

    python examples/robust_regression.py [--small] [--out DIR]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from canvas import options, panels, save
from problems import random_function

from stagewise import GradientBoostingRegressor

LOSSES = {"LS": "squared_error", "LAD": "absolute_error", "Huber": "huber"}
NOISES = ("normal", "outliers", "slash")


def noise_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Errors in units of the signal's mean absolute deviation."""
    normal = rng.standard_normal(n)
    if kind == "slash":
        normal = normal / rng.uniform(size=n)
    elif kind == "outliers":
        normal = np.where(rng.uniform(size=n) < 0.05, 10.0, 1.0) * normal
    return np.asarray(normal / np.median(np.abs(normal)))


def errors_of(kind: str, seed: int, n: int, n_test: int, stages: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    truth = random_function(rng)
    X, X_test = rng.standard_normal((n, 10)), rng.standard_normal((n_test, 10))
    f, f_test = truth(X), truth(X_test)
    y = f + np.mean(np.abs(f - np.median(f))) * noise_of(kind, n, rng)
    base = np.mean(np.abs(f_test - np.median(f_test)))
    out = {}
    for name, loss in LOSSES.items():
        model = GradientBoostingRegressor(loss, n_estimators=stages, max_leaf_nodes=11, criterion="friedman_mse")
        best = min(np.mean(np.abs(f_test - guess)) for guess in model.fit(X, y).staged_predict(X_test))
        out[name] = best / base
    return out


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    given = options(__doc__, arguments)
    seeds, sizes = range(given.size(30, 3)), (given.size(5000, 600), given.size(5000, 1000), given.size(300, 30))
    found = {kind: [errors_of(kind, seed, *sizes) for seed in seeds] for kind in NOISES}
    means = {
        kind: {name: float(np.mean([run[name] for run in runs])) for name in LOSSES} for kind, runs in found.items()
    }
    print(f"mean absolute error, share of the best constant's; mean of {len(seeds)} random functions")
    print("  noise     " + "".join(f"{name:>8}" for name in LOSSES))
    for kind in NOISES:
        print(f"  {kind:<10}" + "".join(f"{means[kind][name]:8.3f}" for name in LOSSES))

    figure, axes = panels(3, width=3.6)
    for axis, kind in zip(axes, NOISES, strict=True):
        runs = found[kind]
        axis.boxplot([[run[name] for run in runs] for name in LOSSES], tick_labels=list(LOSSES), widths=0.6)
        axis.set(title="one row in 20 far off" if kind == "outliers" else f"{kind} errors", ylim=(0.0, 1.5))
    axes[0].set_ylabel("absolute error ÷ that of the best constant")
    save(figure, given, "robust_regression")
    return means


if __name__ == "__main__":
    main()
