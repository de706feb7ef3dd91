"""Grid search, and why the number of stages needs none: ν and J by cross-validation, M from the staged predictions.

Every point of the grid is a fit of M stages in each of five folds. Staged predictions give the error after 1, 2, ..., M
stages of that one fit, so the best M is read off the curve and is no third dimension. Small ν wants many stages; J
follows the order of the interactions (ESL 10.11), and trees that are too large only add variance.

    python examples/grid_search.py [--small] [--out DIR]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from canvas import options, panels, save
from problems import random_function
from sklearn.model_selection import KFold

from stagewise import GradientBoostingRegressor

RATES = (0.5, 0.2, 0.1, 0.05, 0.02)
LEAVES = (2, 4, 8, 16, 32, 64)
FOLDS = 5


def curve(X: np.ndarray, y: np.ndarray, rate: float, leaves: int, stages: int) -> np.ndarray:
    """Root mean squared error over all folds after each stage."""
    squares = np.zeros(stages)
    for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(X):
        model = GradientBoostingRegressor(learning_rate=rate, max_leaf_nodes=leaves, n_estimators=stages)
        model.fit(X[train], y[train])
        squares += [float(np.square(y[test] - guess).sum()) for guess in model.staged_predict(X[test])]
    return np.sqrt(squares / len(y))


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    given = options(__doc__, arguments)
    n, n_test, stages = given.size(4000, 400), given.size(10_000, 1000), given.size(600, 30)
    rng = np.random.default_rng(5)
    truth = random_function(rng)
    X, X_test = rng.standard_normal((n, 10)), rng.standard_normal((n_test, 10))
    noise = 0.5 * float(truth(X).std())
    y, y_test = (truth(own) + noise * rng.standard_normal(len(own)) for own in (X, X_test))
    curves = {(rate, leaves): curve(X, y, rate, leaves, stages) for rate in RATES for leaves in LEAVES}
    rate, leaves = min(curves, key=lambda point: float(curves[point].min()))
    best = int(curves[rate, leaves].argmin()) + 1
    chosen = GradientBoostingRegressor(learning_rate=rate, max_leaf_nodes=leaves, n_estimators=best).fit(X, y)
    plain = GradientBoostingRegressor().fit(X, y)
    found = {
        "chosen": float(np.sqrt(np.mean((y_test - chosen.predict(X_test)) ** 2))),
        "defaults": float(np.sqrt(np.mean((y_test - plain.predict(X_test)) ** 2))),
        "noise": noise,
    }
    print(f"least error of {FOLDS} folds over {stages} stages, and the stage where it is reached")
    print("  ν \\ J   " + "".join(f"{own:>14d}" for own in LEAVES))
    for own in RATES:
        cells = [curves[own, size] for size in LEAVES]
        print(f"  {own:<8g}" + "".join(f"{cell.min():8.4f} {cell.argmin() + 1:5d}" for cell in cells))
    print(f"chosen: ν = {rate:g}, J = {leaves}, M = {best}")
    print(f"error on {n_test:,} new rows: {found['chosen']:.4f}; defaults {found['defaults']:.4f}; noise {noise:.4f}")

    figure, (left, right) = panels(2, 6.0, 4.2)
    errors = np.array([[curves[own, size].min() for size in LEAVES] for own in RATES])
    image = left.imshow(errors, cmap="cividis", aspect="auto", vmax=float(np.quantile(errors, 0.9)))
    left.grid(visible=False)
    left.set(xlabel="J, leaves of a tree", ylabel="ν, learning rate", title="Least error of 5 folds, and its stage")
    left.set_xticks(range(len(LEAVES)), LEAVES)
    left.set_yticks(range(len(RATES)), [f"{own:g}" for own in RATES])
    middle = (errors.min() + float(np.quantile(errors, 0.9))) / 2.0
    for i, own in enumerate(RATES):
        for j, size in enumerate(LEAVES):
            text = f"{errors[i, j]:.3f}\n{curves[own, size].argmin() + 1}"
            left.text(
                j, i, text, ha="center", va="center", fontsize=8, color="black" if errors[i, j] > middle else "white"
            )
    mark = (LEAVES.index(leaves) - 0.48, RATES.index(rate) - 0.48)
    left.add_patch(figure_box(mark))
    figure.colorbar(image, ax=left, extend="max")
    for own in RATES:
        right.plot(np.arange(1, stages + 1), curves[own, leaves], label=f"ν = {own:g}")
    low = float(errors.min())
    right.set(xlabel="stages", ylabel="cross-validated error", title=f"Staged curves, J = {leaves}")
    right.set_ylim(low - 0.02 * low, low + 0.25 * low)
    right.legend(frameon=False)
    save(figure, given, "grid_search")
    return found


def figure_box(corner: tuple[float, float]) -> object:
    """A frame around the best cell."""
    from matplotlib.patches import Rectangle

    return Rectangle(corner, 0.96, 0.96, fill=False, edgecolor="#D55E00", linewidth=2.5)


if __name__ == "__main__":
    main()
