"""Training on a sparse one-hot matrix: 200,000 rows, 30 variables of 667 levels each, two classes.

Everyone gets the same CSR matrix of float32 and the settings of the other workloads. Memory is that of a child process
for each, above its input.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.memory import measured
from benchmarks.options import Options, Outcome
from benchmarks.rivals import OURS, RIVALS, Rival
from benchmarks.scores import held_out_loss
from benchmarks.settings import Settings
from benchmarks.table import plain
from benchmarks.timing import Plan, fastest, interleaved, medians, say, stopwatch, summary

__all__ = ["one_hot", "run"]

ROOT = Path(__file__).parents[2]
_NAMES = (OURS, "lightgbm", "xgboost", "xgboost-lossguide")
_VARIABLES, _LEVELS = 30, 667
_STAGES = 10
"""Of the fits whose memory is measured: the peak is reached with the first trees."""


def one_hot(n_rows: int, levels: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """(CSR matrix, classes): every level of every variable moves the log-odds."""
    rng = np.random.default_rng(seed)
    columns = (rng.integers(0, levels, (n_rows, _VARIABLES)) + levels * np.arange(_VARIABLES)).astype(np.int32)
    start = np.arange(0, n_rows * _VARIABLES + 1, _VARIABLES, dtype=np.int32)
    X = sp.csr_matrix((np.ones(columns.size, np.float32), columns.ravel(), start), shape=(n_rows, _VARIABLES * levels))
    effect = np.random.default_rng(1).normal(scale=0.25, size=_VARIABLES * levels)
    chance = 1.0 / (1.0 + np.exp(-effect[columns].sum(axis=1)))
    return X, (rng.random(n_rows) < chance).astype(np.int64)


def run(options: Options) -> Outcome:
    n, levels = options.size(200_000, 3_000), options.size(_LEVELS, 20)
    settings = Settings("binary", options.size(100, 5), options.threads)
    X, y = one_hot(n, levels)
    X_test, y_test = one_hot(n // 4, levels, seed=2)
    rivals = {name: RIVALS[name] for name in _NAMES if name in RIVALS and name in (*(options.rivals or _NAMES), OURS)}
    predicting: dict[str, list[float]] = {name: [] for name in rivals}
    loss: dict[str, float] = {}

    def contestant(name: str, rival: Rival) -> Callable[[], float]:
        rival.predict(settings, rival.fit(settings.short(), X[:2_000], y[:2_000]), X_test[:2_000])  # not timed

        def once() -> float:
            seconds, model = stopwatch(lambda: rival.fit(settings, X, y))
            own, predicted = stopwatch(lambda: rival.predict(settings, model, X_test))
            predicting[name].append(own)
            loss[name] = held_out_loss(settings.task, y_test, predicted)
            return seconds

        return once

    title = f"sparse: {n:,} × {X.shape[1]:,} one-hot CSR, {_VARIABLES} non-zeros a row, {settings.stages} stages"
    say(title)
    times = interleaved({name: contestant(name, own) for name, own in rivals.items()}, Plan.of(options), "sparse")
    memory = {name: _peak(name, settings, n, levels) for name in rivals} if options.memory else {}
    seconds = medians(times)
    rows = [
        [
            RIVALS[name].title, f"{seconds[name]:.2f}", f"{seconds[name] / seconds[OURS]:.1f}", str(len(times[name])),
            f"{1e3 * medians(predicting)[name]:.0f}", f"{loss[name]:.5f}",
            f"{memory[name] / 2**20:.0f}" if memory.get(name) is not None else "",
        ]
        for name in sorted(seconds, key=seconds.__getitem__)
    ]  # fmt: skip
    header = ["library", "fit s", "÷ ours", "rounds", "predict ms", "log-loss", "peak MiB"]
    lines = [f"{title}, {options.threads} threads", plain(header, rows)]
    data: dict[str, Any] = {
        name: {"fit": summary(times[name]), "loss": loss[name], "memory": memory.get(name)} for name in seconds
    }
    if len(seconds) > 1:
        peer = fastest(seconds)
        data["ratio"] = seconds[peer] / seconds[OURS]
        lines.append(f"  fastest peer ÷ ours: {data['ratio']:.2f} ({RIVALS[peer].title})")
    return Outcome("\n".join(lines), {"title": title, **data})


def _peak(name: str, settings: Settings, n_rows: int, levels: int) -> int | None:
    """Bytes above the input at the peak of a fit, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="stagewise-bench-") as folder:
        path = Path(folder, "case.json")
        path.write_text(
            json.dumps([name, min(settings.stages, _STAGES), settings.threads, n_rows, levels]), encoding="utf-8"
        )
        command = [sys.executable, "-m", "benchmarks.parts.sparse", str(path)]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if child.returncode:
        say(f"  memory of {name} not measured: {child.stderr.strip().splitlines()[-1:]}")
        return None
    return int(child.stdout.splitlines()[-1])


def main(path: str) -> None:
    """The child."""
    name, stages, threads, n_rows, levels = json.loads(Path(path).read_text(encoding="utf-8"))
    settings, rival = Settings("binary", stages, threads), RIVALS[name]
    X, y = one_hot(n_rows, levels)
    rival.fit(settings.short(), X[:2_000], y[:2_000])
    kept: list[Any] = []
    before, peak = measured(lambda: kept.append(rival.fit(settings, X, y)))
    print(peak - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
