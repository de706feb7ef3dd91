"""`stagewise warmup`: compile the kernels ahead of the first fit."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

import stagewise as sw
from stagewise.cli.app import EXIT_CODES, app

__all__ = ["cache_folders", "warmup", "warmup_cases"]

Floats = NDArray[np.float64]


def cache_folders() -> list[str]:
    """Where Numba keeps the compiled kernels; nothing when compiling is switched off or nothing can be kept."""
    folders = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("stagewise.kernels."):
            for value in vars(module).values():
                folders.add(getattr(getattr(value, "stats", None), "cache_path", None))
    return sorted(folder for folder in folders if isinstance(folder, str))


def warmup_cases() -> Iterator[tuple[str, Any, Floats, Any]]:
    """(what is compiled, estimator, X, y): tiny, but between them they run through every kernel of a normal fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    X[::7, 1] = np.nan
    amount = np.exp(rng.normal(size=120))  # positive: allowed by every regression loss
    small: dict[str, Any] = {"n_estimators": 2, "max_leaf_nodes": 4, "min_samples_leaf": 5}
    for loss in ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"):
        yield loss, sw.GradientBoostingRegressor(loss=loss, **small), X, amount
    halves, thirds = np.arange(120) % 2, np.arange(120) % 3
    yield "log_loss, 2 classes", sw.GradientBoostingClassifier(**small), X, halves
    yield "log_loss, 3 classes", sw.GradientBoostingClassifier(**small), X, thirds
    many = np.tile(X, (70, 1)), np.tile(thirds, 70)  # enough rows for classes to begin together, see backends/roots.py
    yield "3 classes, more rows", sw.GradientBoostingClassifier(**small), *many
    yield "exponential", sw.GradientBoostingClassifier(loss="exponential", **small), X, halves
    for growth in ("levelwise", "symmetric"):
        yield growth, sw.GradientBoostingRegressor(growth=growth, max_depth=2, **small), X, amount
    sampled = sw.GradientBoostingRegressor(subsample=0.5, max_features=0.7, random_state=0, n_jobs=2, **small)
    yield "sampling, two threads", sampled, X, amount
    wide = rng.normal(size=(300, 2))  # rows and leaves enough for prediction by bytes, see kernels/octets.py
    leafy = sw.GradientBoostingRegressor(n_estimators=2, max_leaf_nodes=80, min_samples_leaf=1)
    yield "many leaves", leafy, wide, wide[:, 0] * wide[:, 1]


@app.command(epilog=EXIT_CODES)
def warmup() -> None:
    """Compile the kernels now, so that the first real fit does not wait for it."""
    from stagewise.kernels.cache import announce

    console = Console(highlight=False)
    announce.silent = True  # the bar below says it
    cases = list(warmup_cases())
    began = time.perf_counter()
    line = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*line, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(cases))
        for name, estimator, X, y in cases:
            progress.update(task, description=name)
            estimator.fit(X, y, sample_weight=np.ones(len(y)), eval_set=(X, y)).predict(X)
            progress.advance(task)
    console.print(f"{len(cases)} kinds of fit ready in {time.perf_counter() - began:.1f} s.")
    folders = cache_folders()
    for folder in folders:
        console.print("Compiled kernels are kept in", Text(folder, style="bold"), soft_wrap=True)
    if not folders:
        console.print("Nothing was kept: compiling is switched off, or no cache folder can be written.")
