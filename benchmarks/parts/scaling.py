"""Fit time at eight times as many rows: it should grow like the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.options import Options, Outcome
from benchmarks.rivals import RIVALS
from benchmarks.table import plain
from benchmarks.timing import Plan, interleaved, medians, say, summary
from benchmarks.training import contestant, settings_of, warm_up
from benchmarks.workloads import WORKLOADS, Data, Workload, binary

__all__ = ["run"]

_TIMES = 8


def _blocks(workload: Workload) -> Data:
    """The prototype's problem, drawn a block at a time: the float64 values of all rows together are never needed."""
    block = min(workload.rows, 1_000_000)
    X, y = np.empty((workload.rows, workload.columns), np.float32), np.empty(workload.rows, np.int64)
    for start in range(0, workload.rows, block):
        stop = min(start + block, workload.rows)
        X[start:stop], y[start:stop] = binary(np.random.default_rng(start), stop - start, workload.columns)
    return Data(X, y, X[:1_000], y[:1_000])


def run(options: Options) -> Outcome:
    small = replace(WORKLOADS["A"], source=_blocks).sized(options.quick)
    large = replace(small, rows=_TIMES * small.rows)
    say(f"scaling: {large.title}")
    whole = large.data()
    few = Data(whole.X[: small.rows], whole.y[: small.rows], whole.X_test, whole.y_test)
    rivals = {name: RIVALS[name] for name in ("stagewise", "lightgbm")}
    settings = settings_of(small, options.threads)
    warm_up(rivals, settings, few)
    runs = {
        f"{name}, {len(data.y):,} rows": contestant(rival, settings, data)
        for name, rival in rivals.items()
        for data in (few, whole)
    }
    plan = replace(Plan.of(options), patient=True)  # eight times as long is the point
    times = interleaved(runs, plan, "scaling")
    seconds = medians(times)
    pairs = {
        name: (seconds[f"{name}, {small.rows:,} rows"], seconds[f"{name}, {large.rows:,} rows"]) for name in rivals
    }
    rows = [[name, f"{a:.3f}", f"{b:.3f}", f"{b / a:.2f}"] for name, (a, b) in pairs.items()]
    header = ["library", f"{small.rows:,} rows s", f"{large.rows:,} rows s", "ratio"]
    result = {
        "title": large.title,
        "ratio": {name: b / a for name, (a, b) in pairs.items()},
        "seconds": {name: summary(own) for name, own in times.items()},
    }
    return Outcome(f"scaling: {large.title}\n{plain(header, rows)}", result)
