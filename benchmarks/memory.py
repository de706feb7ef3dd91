"""Peak memory of one fit, above its input: a child process for each, so that nobody inherits another one's heap.

The child loads the training part (nothing else is made on the way, so nothing is left on its heap), imports the
library and fits a few rows, notes its resident size, and fits. What is reported is the peak during that fit minus the
size before it. Code, compiled kernels and thread stacks are in both, and so is the input.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.rivals import RIVALS, Rival
from benchmarks.settings import Settings
from benchmarks.timing import say
from benchmarks.workloads import Data

__all__ = ["WARM_ROWS", "peak_memory"]

ROOT = Path(__file__).parents[1]

WARM_ROWS = 210_000
"""Rows of a warm-up: more than the 200,000 from which we take a sample of the rows for cut points, so that every
kernel is loaded before the clock starts."""

_SAMPLING_SECONDS = 0.002


def peak_memory(rivals: dict[str, Rival], settings: Settings, data: Data) -> dict[str, dict[str, int]]:
    """Bytes by rival: "above" the input during fit, and the "process" in all. None that failed."""
    found: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="stagewise-bench-") as folder:
        np.save(Path(folder, "X.npy"), data.X)
        np.save(Path(folder, "y.npy"), data.y)
        Path(folder, "settings.json").write_text(json.dumps(asdict(settings)), encoding="utf-8")
        for name in rivals:
            command = [sys.executable, "-m", "benchmarks.memory", folder, name]
            child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            if child.returncode:
                say(f"  memory of {name} not measured: {child.stderr.strip().splitlines()[-1:]}")
                continue
            found[name] = json.loads(child.stdout.splitlines()[-1])
            say(f"  memory of {name}: {found[name]['above'] / 2**20:.0f} MiB above the input")
    return found


def measured(action: Callable[[], Any]) -> tuple[int, int]:
    """Resident bytes before a call, and their peak during it."""
    process = psutil.Process()
    marker = Path("/proc/self/clear_refs")
    if marker.exists():
        _return_free_memory()
        marker.write_text("5", encoding="ascii")  # Linux: the high-water mark starts again from here
        before = process.memory_info().rss
        action()
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return before, max(before, 1024 * int(line.split()[1]))
    before = peak = process.memory_info().rss
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(_SAMPLING_SECONDS):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    action()
    done.set()
    watcher.join()
    return before, peak


def _return_free_memory() -> None:
    """What the warm-up freed goes back to the system; else the fit could use it again, and it would not be counted."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


def main(folder: str, name: str) -> None:
    """The child."""
    settings = Settings(**json.loads(Path(folder, "settings.json").read_text(encoding="utf-8")))
    X, y = np.load(Path(folder, "X.npy")), np.load(Path(folder, "y.npy"))
    rival = RIVALS[name]
    with rival.limited(settings.threads):
        few = np.linspace(0, len(y) - 1, min(len(y), 1_000)).astype(np.int64)
        few = np.concatenate([few, np.unique(y, return_index=True)[1]]) if settings.classes else few
        rival.fit(settings.short(), X[few], y[few])
        kept: list[Any] = []  # the model is part of what a fit needs
        before, peak = measured(lambda: kept.append(rival.fit(settings, X, y)))
    print(json.dumps({"above": peak - before, "process": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
