"""Shrinkage against the number of terms: Friedman (2001), section 5 and figure 1; ESL 10.12.1.

The smaller ν, the more stages it takes to reach the least error, and the lower that is; from about 0.1 on little more
is gained.

    python examples/shrinkage.py [--small] [--out DIR]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from canvas import options, panels, save
from problems import random_function

from stagewise import Dataset, GradientBoostingRegressor

RATES = (1.0, 0.5, 0.25, 0.125, 0.06)


def main(arguments: Sequence[str] | None = None) -> dict[float, tuple[float, int]]:
    given = options(__doc__, arguments)
    n, n_test, stages = given.size(5000, 500), given.size(5000, 1000), given.size(1000, 60)
    seeds = range(given.size(5, 2))
    curves: dict[float, list[list[float]]] = {rate: [] for rate in RATES}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = random_function(rng)
        X, X_test = rng.standard_normal((n, 10)), rng.standard_normal((n_test, 10))
        f, f_test = truth(X), truth(X_test)
        y = f + np.mean(np.abs(f - np.median(f))) * np.sqrt(np.pi / 2) * rng.standard_normal(
            n
        )  # as much noise as signal
        data = Dataset(X, y)
        base = np.mean(np.abs(f_test - np.median(f_test)))
        for rate in RATES:
            model = GradientBoostingRegressor(learning_rate=rate, n_estimators=stages, max_leaf_nodes=11).fit(data)
            curves[rate].append([np.mean(np.abs(f_test - guess)) / base for guess in model.staged_predict(X_test)])
    means = {rate: np.mean(own, axis=0) for rate, own in curves.items()}
    best = {rate: (float(own.min()), int(own.argmin()) + 1) for rate, own in means.items()}
    print(
        f"absolute error ÷ that of the best constant, mean of {len(seeds)} random functions; least over {stages} stages"
    )
    for rate, (error, stage) in best.items():
        print(f"  ν = {rate:<6g} {error:.4f} after {stage} stages")

    figure, (left, right) = panels(2)
    for rate, own in means.items():
        left.plot(np.arange(1, stages + 1), own, label=f"ν = {rate:g}")
    left.set(xlabel="stages", ylabel="absolute error ÷ that of the best constant", title="The path")
    left.set_ylim(
        min(own.min() for own in means.values()) - 0.02, min(1.0, max(own[0] for own in means.values()) + 0.02)
    )
    left.legend(frameon=False)
    right.plot(RATES, [best[rate][0] for rate in RATES], marker="o")
    for rate in RATES:
        label, place = f"M = {best[rate][1]}", (rate, best[rate][0])
        right.annotate(label, place, textcoords="offset points", xytext=(0, 8), ha="center", fontsize=8)
    right.margins(0.12)
    right.set(xscale="log", xlabel="ν", title="The least error, and when it is reached")
    right.set_xticks(RATES, [f"{rate:g}" for rate in RATES])
    right.minorticks_off()
    save(figure, given, "shrinkage")
    return best


if __name__ == "__main__":
    main()
