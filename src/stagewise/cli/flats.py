"""The built-in table of the demo."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flats", "explained", "generate_flats"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Flats:
    """Generated flats and their prices.

    Generated, because the real tables that come with scikit-learn have a few hundred rows: training would be over
    before the progress bar is drawn. And because the formula is known, the score can be set beside the best one
    that is possible.

    X: (rows, len(columns)), missing values are NaN. price, expected: (rows,), with and without the noise.
    """

    columns: tuple[str, ...]
    X: Floats
    price: Floats
    expected: Floats

    def part(self, start: float, stop: float) -> Flats:
        """The rows from one fraction to another; rows are in random order."""
        rows = slice(round(start * len(self.X)), round(stop * len(self.X)))
        return Flats(self.columns, self.X[rows], self.price[rows], self.expected[rows])


def generate_flats(rows: int, seed: int) -> Flats:
    """Steps, curves, interactions, missing values, and two columns that mean nothing."""
    rng = np.random.default_rng(seed)
    area = rng.lognormal(4.25, 0.35, rows)
    rooms = np.clip(np.round(area / 24 + rng.normal(0, 0.6, rows)), 1, 8)
    floor = rng.integers(0, 12, rows).astype(np.float64)
    lift = (rng.random(rows) < 0.5).astype(np.float64)
    year = rng.integers(1890, 2025, rows).astype(np.float64)
    distance = rng.gamma(2.0, 3.0, rows)
    energy = 60 + 1.1 * (2025 - year) + rng.normal(0, 25, rows)
    street_noise = rng.normal(55, 8, rows)
    weekday = rng.integers(0, 7, rows).astype(np.float64)
    listing = rng.integers(0, 100_000, rows).astype(np.float64)

    log_price = 1.6 + 0.95 * np.log(area) + 0.03 * rooms
    log_price += 0.55 * np.exp(-distance / 4)  # the centre is dear, and it fades
    log_price += floor * np.where(lift == 1, 0.012, -0.022)  # high up is good with a lift, bad without
    log_price += np.where(year < 1919, 0.12, 0.0) - 0.0011 * np.clip(energy - 80, 0, None)
    log_price -= np.where(distance < 4, 0.012, 0.002) * np.clip(street_noise - 50, 0, None)
    sigma = 0.12
    price = np.exp(log_price + rng.normal(0, sigma, rows))
    energy[rng.random(rows) < 0.15] = np.nan  # nobody measured it

    columns = {
        "area_m2": area,
        "rooms": rooms,
        "floor": floor,
        "lift": lift,
        "year_built": year,
        "distance_km": distance,
        "energy_kwh_m2": energy,
        "street_noise_db": street_noise,
        "weekday_listed": weekday,
        "listing_number": listing,
    }
    return Flats(tuple(columns), np.column_stack(list(columns.values())), price, np.exp(log_price + sigma**2 / 2))


def explained(target: Floats, predicted: Floats) -> float:
    """The part of the target's variance that the predictions explain (R²)."""
    return float(1 - np.sum((target - predicted) ** 2) / np.sum((target - target.mean()) ** 2))
