"""Preparing data: raw float32 values to what a library trains on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contest import hold
from benchmarks.options import Options, Outcome
from benchmarks.timing import Plan, stopwatch

__all__ = ["run"]

_BINS = 255


def run(options: Options) -> Outcome:
    n, threads = options.size(1_000_000, 5_000), options.threads
    X = np.random.default_rng(0).standard_normal((n, 28), dtype=np.float32)

    def timed(make: Callable[[np.ndarray], Any]) -> Callable[[], float]:
        make(X[:1_000])
        return lambda: stopwatch(lambda: make(X))[0]

    title = f"binning: {n:,} × 28 float32, {threads} threads"
    return hold(
        title,
        {
            "stagewise": timed(lambda X: _stagewise(X, threads)),
            "lightgbm": timed(lambda X: _lightgbm(X, threads)),
            "xgboost": timed(lambda X: _xgboost(X, threads)),
        },
        Plan.of(options),
        unit="ms",
    )


def _stagewise(X: np.ndarray, threads: int) -> Any:
    from stagewise import Dataset

    return Dataset(X, max_bins=_BINS, n_jobs=threads)


def _lightgbm(X: np.ndarray, threads: int) -> Any:
    from lightgbm import Dataset

    return Dataset(X, params={"max_bin": _BINS, "num_threads": threads, "verbosity": -1}).construct()


def _xgboost(X: np.ndarray, threads: int) -> Any:
    from xgboost import QuantileDMatrix

    return QuantileDMatrix(X, max_bin=_BINS, nthread=threads)
