"""How large trees should be: J leaves allow interactions of order J - 1 (ESL 10.11; Friedman 2001, section 7).

Left: nested spheres are additive in the columns, so stumps suffice and larger trees only add variance (ESL figure
10.9). Right: functions of one, two and three columns at a time; stumps cannot see a product, whatever M is.

    python examples/tree_size.py [--small] [--out DIR]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from canvas import options, panels, save
from problems import nested_spheres

from stagewise import AdaBoostClassifier, GradientBoostingClassifier, GradientBoostingRegressor

SIZES = (2, 3, 4, 6, 10, 20)
ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "one column at a time": lambda X: np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + X[:, 2],
    "two at a time": lambda X: 2 * np.sign(X[:, 0] * X[:, 1]) + X[:, 2],
    "three at a time": lambda X: 2 * np.sign(X[:, 0] * X[:, 1] * X[:, 2]) + X[:, 3],
}


def unexplained(order: str, leaves: int, seed: int, n: int, stages: int) -> float:
    """The share of the true variance that is missed, at the best number of stages."""
    rng = np.random.default_rng(seed)
    X, X_test = rng.standard_normal((n, 6)), rng.standard_normal((4000, 6))
    truth = ORDERS[order]
    f = truth(X)
    y, goal = f + 0.5 * f.std() * rng.standard_normal(n), truth(X_test)
    model = GradientBoostingRegressor(n_estimators=stages, max_leaf_nodes=leaves).fit(X, y)
    return min(float(np.mean((goal - guess) ** 2)) for guess in model.staged_predict(X_test)) / float(goal.var())


def main(arguments: Sequence[str] | None = None) -> dict[str, list[float]]:
    given = options(__doc__, arguments)
    seeds, stages = range(given.size(3, 1)), given.size(400, 40)
    curves: dict[str, np.ndarray] = {}
    for name in ("J = 2", "J = 10", "J = 100", "AdaBoost of stumps"):
        runs = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            (X, y), (X_test, y_test) = (
                nested_spheres(given.size(2000, 600), rng),
                nested_spheres(given.size(10_000, 2000), rng),
            )
            if name.startswith("J"):
                leaves = int(name[4:])
                model = GradientBoostingClassifier(
                    n_estimators=stages, max_leaf_nodes=leaves, learning_rate=1.0, min_samples_leaf=5
                )
            else:
                model = AdaBoostClassifier(n_estimators=stages)
            runs.append([np.mean(guess != y_test) for guess in model.fit(X, y).staged_predict(X_test)])
        curves[name] = np.mean(runs, axis=0)
    missed = {
        order: [
            float(np.mean([unexplained(order, leaves, seed, given.size(3000, 500), stages) for seed in seeds]))
            for leaves in SIZES
        ]
        for order in ORDERS
    }
    print("nested spheres, test error after the last stage")
    for name, own in curves.items():
        print(f"  {name:<20} {100 * own[-1]:5.1f} %")
    print("share of the variance missed      " + "".join(f"J={leaves:<6d}" for leaves in SIZES))
    for order, shares in missed.items():
        print(f"  {order:<30}" + "".join(f"{value:8.3f}" for value in shares))

    figure, (left, right) = panels(2)
    for name, own in curves.items():
        left.plot(np.arange(1, stages + 1), own, label=name)
    left.set(xlabel="stages", ylabel="test error", ylim=(0.0, 0.5), title="Nested spheres: additive (ESL figure 10.9)")
    left.legend(frameon=False)
    for order, shares in missed.items():
        right.plot(SIZES, shares, marker="o", label=order)
    right.set(xscale="log", xlabel="J, leaves of a tree", ylabel="share of the variance missed", ylim=(0.0, 1.0))
    right.set_xticks(SIZES, [str(leaves) for leaves in SIZES])
    right.minorticks_off()
    right.set_title("What a product of columns needs")
    right.legend(frameon=False)
    save(figure, given, "tree_size")
    return missed


if __name__ == "__main__":
    main()
