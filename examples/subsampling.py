"""Subsampling with and without shrinkage: stochastic gradient boosting, ESL 10.12.2 and figure 10.12; Friedman (2002).

Drawing half of the rows for each tree helps, but only together with shrinkage; alone it does poorly.

    python examples/subsampling.py [--small] [--out DIR]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from canvas import options, panels, save
from problems import nested_spheres
from sklearn.metrics import log_loss

from stagewise import Dataset, GradientBoostingClassifier

SETTINGS = {
    "no shrinkage": (1.0, 1.0),
    "shrink = 0.1": (0.1, 1.0),
    "sample = 0.5": (1.0, 0.5),
    "shrink = 0.1, sample = 0.5": (0.1, 0.5),
}


def main(arguments: Sequence[str] | None = None) -> dict[str, tuple[float, float]]:
    given = options(__doc__, arguments)
    stages, seeds = given.size(1000, 50), range(given.size(5, 2))
    deviances: dict[str, list[list[float]]] = {name: [] for name in SETTINGS}
    errors: dict[str, list[list[float]]] = {name: [] for name in SETTINGS}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, y = nested_spheres(given.size(2000, 600), rng)
        X_test, y_test = nested_spheres(given.size(10_000, 2000), rng)
        data = Dataset(X, y)
        for name, (rate, share) in SETTINGS.items():
            model = GradientBoostingClassifier(
                n_estimators=stages, learning_rate=rate, subsample=share, max_leaf_nodes=6, random_state=seed
            ).fit(data)
            p = [own[:, 1] for own in model.staged_predict_proba(X_test)]
            deviances[name].append([2.0 * log_loss(y_test, np.clip(own, 1e-9, 1 - 1e-9)) for own in p])
            errors[name].append([float(np.mean((own > 0.5) != y_test)) for own in p])
    mean_deviance = {name: np.mean(own, axis=0) for name, own in deviances.items()}
    mean_error = {name: np.mean(own, axis=0) for name, own in errors.items()}
    best = {name: (float(mean_deviance[name].min()), float(mean_error[name].min())) for name in SETTINGS}
    print(f"least over {stages} stages, mean of {len(seeds)} samples: test deviance, test error")
    for name, (deviance, error) in best.items():
        print(f"  {name:<28} {deviance:.3f}   {100 * error:.1f} %")

    figure, (left, right) = panels(2)
    for name in SETTINGS:
        left.plot(np.arange(1, stages + 1), mean_deviance[name], label=name)
        right.plot(np.arange(1, stages + 1), mean_error[name], label=name)
    left.set(xlabel="stages", ylabel="test deviance", ylim=(0.0, 1.6), title="Deviance")
    right.set(xlabel="stages", ylabel="test error", ylim=(0.0, 0.5), title="Error")
    right.legend(frameon=False)
    save(figure, given, "subsampling")
    return best


if __name__ == "__main__":
    main()
