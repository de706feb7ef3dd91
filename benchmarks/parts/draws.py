"""Held-out loss on the generated workloads, as a mean over several draws of each.

One draw says little: the problem of A, C, E and H has a saddle (x₀·x₁) in it, where the first split of a tree gains
next to nothing and is decided by noise, so that two correct libraries end up to 2 % apart, either way. Large workloads
are made smaller here, since what is compared is the trees and not the time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.options import Options, Outcome
from benchmarks.rivals import OURS, RIVALS
from benchmarks.scores import held_out_loss
from benchmarks.table import plain
from benchmarks.timing import say
from benchmarks.training import settings_of
from benchmarks.workloads import WORKLOADS

__all__ = ["run"]

_NAMES = (OURS, "lightgbm", "xgboost-lossguide")
_DRAWS = {"A": 6, "B": 6, "C": 20, "D": 20, "E": 6, "F": 3, "G": 6}
_MOST_CELLS = 8_000_000  # of a table


def run(options: Options) -> Outcome:
    rows, found = [], {}
    for name, draws in _DRAWS.items():
        workload = WORKLOADS[name].sized(options.quick)
        workload = replace(workload, rows=min(workload.rows, _MOST_CELLS // workload.columns))
        draws = options.size(draws, 2)
        losses: dict[str, list[float]] = {rival: [] for rival in _NAMES}
        for seed in range(100, 100 + draws):
            own = workload.drawn(seed)
            data, settings = own.data(), settings_of(own, options.threads)
            for rival in _NAMES:
                with RIVALS[rival].limited(options.threads):
                    predicted = RIVALS[rival].predict(
                        settings, RIVALS[rival].fit(settings, data.X, data.y), data.X_test
                    )
                losses[rival].append(held_out_loss(own.task, data.y_test, predicted))
        say(f"  draws: {workload.title}, {draws} draws")
        best = min(_NAMES[1:], key=lambda rival: float(np.mean(losses[rival])))
        ratio = np.array(losses[OURS]) / np.array(losses[best]) - 1.0
        gap, error = float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(draws))
        found[name] = {"gap": gap, "error": error, "best": best, "losses": losses}
        rows.append(
            [
                f"{name}, {workload.rows:,} rows",
                str(draws),
                *(f"{np.mean(own):.6g}" for own in losses.values()),
                f"{100 * gap:+.2f} % ± {100 * error:.2f}",
                f"{100 * ratio.min():+.2f} to {100 * ratio.max():+.2f} %",
            ]
        )
    header = ["workload", "draws", *(RIVALS[rival].title for rival in _NAMES), "ours against the better peer", "range"]
    return Outcome(f"draws: mean held-out loss\n{plain(header, rows)}", found)
