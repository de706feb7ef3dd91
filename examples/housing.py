"""House prices in California, as in The Elements of Statistical Learning, section 10.14.1.

    python examples/housing.py [--data FOLDER] [--out FOLDER]

Huber loss, ν = 0.1, trees of J = 6 leaves, 800 stages, 20 % of the neighbourhoods held out. The book reports R² = 0.84,
and 0.86 for the logarithm of the price. Draws the book's figures: deviance by stage, relative importance, dependence on
four columns, on house age and occupancy together, and on the map. Without california_housing.parquet in FOLDER,
generated flats take its place.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import stagewise as sw
from stagewise.inspection.listing import frame_of

FOLDER = Path(__file__).parents[2] / "shared" / "data"


class Houses(NamedTuple):
    names: tuple[str, ...]
    X: np.ndarray
    y: np.ndarray
    single: tuple[str, ...]  # columns whose dependence is drawn on its own
    pairs: tuple[tuple[str, str], ...]
    title: str


def california(folder: Path) -> Houses | None:
    """The book's eight columns; prices in 100,000 dollars. None when the file is not there."""
    path = folder / "california_housing.parquet"
    if not path.is_file():
        return None
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)

    def column(name: str) -> np.ndarray:
        return np.asarray(table.column(name).to_numpy(), np.float64)

    houses = column("households")
    columns = {
        "MedInc": column("median_income"),
        "HouseAge": column("housing_median_age"),
        "AveRooms": column("total_rooms") / houses,
        "AveBedrms": column("total_bedrooms") / houses,
        "Population": column("population"),
        "AveOccup": column("population") / houses,
        "Latitude": column("latitude"),
        "Longitude": column("longitude"),
    }
    return Houses(
        tuple(columns),
        np.column_stack(list(columns.values())),
        column("target") / 1e5,
        ("MedInc", "AveOccup", "HouseAge", "AveRooms"),
        (("HouseAge", "AveOccup"), ("Longitude", "Latitude")),
        "California housing",
    )


def flats() -> Houses:
    """Generated flats with known interactions."""
    from stagewise.cli.flats import generate_flats

    made = generate_flats(20_000, 0)
    single = ("area_m2", "distance_km", "energy_kwh_m2", "floor")
    pairs = (("floor", "lift"), ("distance_km", "street_noise_db"))
    return Houses(made.columns, made.X, made.price / 100.0, single, pairs, "generated flats")


def r2(y: np.ndarray, predicted: np.ndarray) -> float:
    return float(1.0 - np.mean((y - predicted) ** 2) / np.var(y))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=FOLDER, help="folder with california_housing.parquet")
    parser.add_argument("--out", type=Path, default=Path("examples_output"), help="folder for the pictures")
    parser.add_argument("--stages", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0, help="of the rows that are held out")
    asked = parser.parse_args()
    houses = california(asked.data) or flats()
    print(f"{houses.title}: {len(houses.y):,} rows, {len(houses.names)} columns")

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    held_out = np.random.default_rng(asked.seed).random(len(houses.y)) < 0.2
    X, X_test = (frame_of(dict(zip(houses.names, houses.X[rows].T, strict=True))) for rows in (~held_out, held_out))
    y, y_test = houses.y[~held_out], houses.y[held_out]
    options = {"n_estimators": asked.stages, "learning_rate": 0.1, "max_leaf_nodes": 6}
    model = sw.GradientBoostingRegressor("huber", **options).fit(X, y, eval_set=(X_test, y_test))
    logged = sw.GradientBoostingRegressor("huber", **options).fit(X, np.log(y))
    print(f"held-out mean absolute error: {np.abs(y_test - model.predict(X_test)).mean():.3f}")
    print(f"held-out R²: {r2(y_test, model.predict(X_test)):.3f}")
    print(f"held-out R² of log y: {r2(np.log(y_test), logged.predict(X_test)):.3f}\n")

    importance = sw.inspection.feature_importance(model)
    print(importance, "\n")
    print(sw.inspection.h_statistic(model, X), "\n")
    for name in houses.single:
        print(sw.inspection.completeness(model, name, X_test))

    asked.out.mkdir(parents=True, exist_ok=True)

    def keep(name: str) -> None:
        plt.savefig(asked.out / f"housing_{name}.png", dpi=110)
        plt.close("all")

    sw.plots.history(model)
    keep("deviance")
    sw.plots.importance(importance)
    keep("importance")
    sw.plots.dependence_panels(model, houses.single, columns=2)
    keep("dependence")
    for pair in houses.pairs:
        grid = sw.inspection.partial_dependence(model, pair, resolution=80)
        sw.plots.partial_dependence(grid)
        keep(f"{'_'.join(pair)}_map")
        sw.plots.surface(grid)
        keep(f"{'_'.join(pair)}_surface")
    print(f"\npictures: {asked.out.resolve()}")


if __name__ == "__main__":
    main()
