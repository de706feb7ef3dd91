"""Training on Parquet files of 3 GiB with 1 GiB of memory, beside the same in memory and XGBoost's external memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.external import TARGET
from benchmarks.options import Options, Outcome
from benchmarks.table import plain
from benchmarks.timing import say

__all__ = ["run", "write_files"]

ROOT = Path(__file__).parents[2]
_COLUMNS = 100
_AT_ONCE = 300_000
_LIMIT = 1024
_WAYS = {
    "stagewise, from disk, 1 GiB": ("disk", _LIMIT),
    "stagewise, in memory": ("memory", 0),
    "XGBoost, external memory": ("xgboost", 0),
}


def write_files(folder: Path, rows: int, columns: int, at_once: int = _AT_ONCE) -> None:
    """A regression problem, one file at a time: 4 bytes a cell, of which hardly any compress."""
    import pyarrow as pa
    from pyarrow import parquet

    for start in range(0, rows, at_once):
        rng = np.random.default_rng(start)
        n = min(at_once, rows - start)
        X = rng.standard_normal((n, columns), np.float32)
        X[:, 1] = np.round(4.0 * X[:, 1])  # few distinct values
        X[rng.random(n, np.float32) < 0.1, 2] = np.nan
        y = X[:, 0] + np.abs(X[:, 3]) * np.where(X[:, 1] > 0, 1.0, -1.0) + 0.5 * rng.standard_normal(n, np.float32)
        cells = {f"x{j:03d}": np.ascontiguousarray(X[:, j]) for j in range(columns)}
        table = pa.table({**cells, TARGET: y.astype(np.float32)})
        parquet.write_table(table, folder / f"{start:010d}.parquet", row_group_size=100_000, use_dictionary=False)


def child(folder: Path, way: str, stages: int, threads: int, limit: int) -> dict[str, Any]:
    """One way to train, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.external", str(folder), way, str(stages), str(threads), str(limit)]
    environment = dict(os.environ)
    if limit:  # Arrow's own allocator reserves a GiB of addresses, which the limit counts
        environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{way} failed: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(options: Options) -> Outcome:
    rows, stages = options.size(8_100_000, 30_000), options.size(20, 3)
    size = 4 * rows * _COLUMNS
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 3 * size:
        raise SystemExit(
            f"disk needs {3 * size / 2**30:.1f} GiB in {tempfile.gettempdir()}; {free / 2**30:.1f} are free."
        )
    title = f"{rows:,} × {_COLUMNS} float32 ({size / 2**30:.2f} GiB), {stages} trees of 31 leaves"
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="stagewise-disk-") as name:
        folder = Path(name)
        say(f"disk: writing {title}")
        few = folder / "few"
        few.mkdir()
        write_files(few, 60_000, _COLUMNS)
        child(
            few, "disk", 2, options.threads, 0
        )  # compiling takes more memory than training: before, without the limit
        write_files(folder, rows, _COLUMNS)
        for way, (short, limit) in _WAYS.items():
            found[way] = child(folder, short, stages, options.threads, limit)
            say(f"  {way}: {found[way]['prepare']:.1f} s + {found[way]['fit']:.1f} s")
    same = len({own["model"] for own in found.values() if own["model"]}) == 1
    table = [
        [
            way,
            f"{own['prepare']:.1f}",
            f"{own['fit']:.1f}",
            f"{own['rows'] * stages / own['fit'] / 1e6:.2f}",
            f"{own['anonymous'] / 2**20:.0f}",
        ]
        for way, own in found.items()
    ]
    header = ["way", "prepare s", "fit s", "M rows·trees/s", "anonymous MiB"]
    text = f"disk: {title}\n{plain(header, table)}\nmodels from disk and memory: {'equal' if same else 'DIFFERENT'}"
    return Outcome(text, {"title": title, "same": same, "ways": found})
