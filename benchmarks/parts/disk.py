"""Training on Parquet files with little memory: from disk under a limit, in memory without one, and XGBoost's external
memory on the same files, with the same limit and without.

0.75 GiB of floats and a limit of 704 MiB; --large: 3 GiB and 1 GiB. Each way runs in processes of its own, in rounds.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
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

__all__ = ["child", "run", "write_files"]

ROOT = Path(__file__).parents[2]
_COLUMNS = 100
_AT_ONCE = 300_000
_SMALL, _LARGE = (2_000_000, 704), (8_100_000, 1024)
"""Rows, and the limit in MiB."""


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


def ways(limit: int) -> dict[str, tuple[str, int]]:
    """By title: how a child trains, and its limit in MiB."""
    return {
        f"stagewise, from disk, {limit} MiB": ("disk", limit),
        "stagewise, in memory": ("memory", 0),
        f"XGBoost, external memory, {limit} MiB": ("xgboost", limit),
        "XGBoost, external memory": ("xgboost", 0),
    }


def child(folder: Path, way: str, stages: int, threads: int, limit: int) -> dict[str, Any]:
    """One way to train, in a process of its own; {"failed": last words} when it did not end well."""
    command = [sys.executable, "-m", "benchmarks.external", str(folder), way, str(stages), str(threads), str(limit)]
    environment = dict(os.environ)
    if limit:  # Arrow's own allocator reserves a GiB of addresses, and glibc 64 MiB a thread, which the limit counts
        environment |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if line.strip()]
        return {"failed": f"exit {done.returncode}: {words[-1].strip()[:80] if words else 'no message'}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(options: Options) -> Outcome:
    rows, limit = _LARGE if options.large else _SMALL
    rows, stages = options.size(rows, 30_000), options.size(20, 3)
    size = 4 * rows * _COLUMNS
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 3 * size:
        raise SystemExit(
            f"disk needs {3 * size / 2**30:.1f} GiB in {tempfile.gettempdir()}; {free / 2**30:.1f} are free."
        )
    title = f"{rows:,} × {_COLUMNS} float32 ({size / 2**30:.2f} GiB), {stages} trees of 31 leaves"
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways(limit)}
    with tempfile.TemporaryDirectory(prefix="stagewise-disk-") as name:
        folder = Path(name)
        say(f"disk: writing {title}")
        few = folder / "few"
        few.mkdir()
        write_files(few, 60_000, _COLUMNS)
        for way in ("disk", "memory"):  # compiling takes more memory than training: before, without the limit
            child(few, way, 2, options.threads, 0)
        write_files(folder, rows, _COLUMNS)
        for _ in range(1 if options.quick or options.large else options.repeats):
            for title_of_way, (way, own_limit) in ways(limit).items():
                shutil.rmtree(folder / "cache", ignore_errors=True)
                own = child(folder, way, stages, options.threads, own_limit)
                found[title_of_way].append(own)
                said = own.get("failed") or f"{own['prepare']:.1f} s + {own['fit']:.1f} s"
                say(f"  {title_of_way}: {said}")
    return Outcome(*_report(title, stages, found))


def _report(title: str, stages: int, found: dict[str, list[dict[str, Any]]]) -> tuple[str, dict[str, Any]]:
    table, notes, speed = [], [], {}
    for way, rounds in found.items():
        good = [own for own in rounds if "failed" not in own]
        if not good:
            table.append([way, "failed", "", "", "", ""])
            notes.append(f"\n{way}: {rounds[-1]['failed']}")
            continue
        prepare, fit = (statistics.median(own[key] for own in good) for key in ("prepare", "fit"))
        speed[way] = good[0]["rows"] * stages / fit
        peak = max(own["anonymous"] for own in good)
        rows = f"{good[0]['rows'] * stages / (prepare + fit) / 1e6:.2f}"
        table.append([way, f"{prepare:.1f}", f"{fit:.2f}", f"{speed[way] / 1e6:.2f}", rows, f"{peak / 2**20:.0f}"])
    same = len({own["model"] for rounds in found.values() for own in rounds if own.get("model")}) == 1
    header = ["way", "prepare s", "fit s", "M rows·trees/s of fit", "of both", "anonymous MiB"]
    text = f"disk: {title}\n{plain(header, table)}\nmodels from disk and memory: {'equal' if same else 'DIFFERENT'}"
    own, memory = (speed.get(way, math.nan) for way in list(found)[:2])
    text += f"\nrows per second of fit, from disk ÷ in memory: {own / memory:.2f}"
    rivals = [speed[way] for way in found if way.startswith("XGBoost") and way in speed]
    if rivals:
        text += f"; from disk ÷ XGBoost's external memory: {own / max(rivals):.2f}"
    return text + "".join(notes), {"title": title, "same": same, "ways": found, "speed": speed}
