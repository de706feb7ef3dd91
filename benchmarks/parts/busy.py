"""A shared machine: another program keeps every core busy. A second thread must not make a fit slower than one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from benchmarks.options import Options, Outcome
from benchmarks.rivals import RIVALS
from benchmarks.table import plain
from benchmarks.timing import Plan, interleaved, medians, say, summary
from benchmarks.training import contestant, settings_of, warm_up
from benchmarks.workloads import WORKLOADS

__all__ = ["run"]

# ends by itself when the benchmark is gone
_SPIN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(1_000_000))"


@contextmanager
def busy_cores(n: int) -> Iterator[None]:
    """n other processes that compute all the time."""
    children = [subprocess.Popen([sys.executable, "-c", _SPIN, str(os.getpid())]) for _ in range(n)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()


def run(options: Options) -> Outcome:
    workload = replace(WORKLOADS["A"], rows=300_000, held_out=1_000).sized(options.quick)
    many, cores = max(2, options.threads), os.cpu_count() or 2
    say(f"busy: {workload.title}")
    data = workload.data()
    rivals = {name: RIVALS[name] for name in ("stagewise", "lightgbm")}
    warm_up(rivals, settings_of(workload, many), data)
    runs = {
        f"{name}, {threads}": contestant(rival, settings_of(workload, threads), data)
        for name, rival in rivals.items()
        for threads in (1, many)
    }
    idle = interleaved(runs, Plan(1, 0.0), "idle machine,")
    with busy_cores(cores):
        busy = interleaved(runs, replace(Plan.of(options), seconds=0.0), "busy machine,")
    calm, shared = medians(idle), medians(busy)
    rows = [[name, f"{calm[name]:.3f}", f"{own:.3f}", f"{own / calm[name]:.2f}"] for name, own in shared.items()]
    ratio = {name: shared[f"{name}, {many}"] / shared[f"{name}, 1"] for name in rivals}
    header = ["library, threads", "idle s", "busy s", "busy ÷ idle"]
    lines = [f"busy: {workload.title}, {cores} other processes on {cores} cores", plain(header, rows)]
    lines += [f"  {name}: {many} threads ÷ 1 thread while busy: {own:.2f}" for name, own in ratio.items()]
    result = {
        "title": workload.title,
        "idle": {name: summary(own) for name, own in idle.items()},
        "busy": {name: summary(own) for name, own in busy.items()},
        "ratio": ratio,
    }
    return Outcome("\n".join(lines), result)
