"""Held-out loss on real tables with equal settings: ours, LightGBM's and XGBoost's.

The mean over several random divisions of a table, since one division says little on a small table: everyone gets the
same ones.
"""

from __future__ import annotations

import numpy as np

from benchmarks import tables
from benchmarks.options import Options, Outcome
from benchmarks.rivals import OURS, RIVALS
from benchmarks.scores import LOSS_NAMES, held_out_loss
from benchmarks.table import plain
from benchmarks.timing import say
from benchmarks.training import settings_of
from benchmarks.workloads import Workload

__all__ = ["run"]

_NAMES = ("stagewise", "lightgbm", "xgboost-lossguide", "xgboost")
_LIKE_OURS = ("lightgbm", "xgboost-lossguide")  # leafwise trees

_TABLES = (
    "adult",
    "bank_marketing",
    "give_me_some_credit",
    "magic_telescope",
    "california_housing",
    "diamonds",
    "elevators",
    "pol",
    "protein_casp",
    "bike_sharing_hour",
    "letter",
    "otto",
)


def _sources(seed: int, options: Options) -> dict[str, Workload]:
    found = tables.named(seed)
    if not found:
        return tables.bundled(seed)
    return {name: found[name] for name in _TABLES[: 2 if options.quick else None] if name in found}


def run(options: Options) -> Outcome:
    splits = options.size(3, 1)
    if not tables.named():
        say(f"  quality: {tables.FOLDER} is absent; scikit-learn's bundled tables instead")
    losses: dict[str, dict[str, list[float]]] = {}
    tasks: dict[str, str] = {}
    for seed in range(splits):
        for name, source in _sources(seed, options).items():
            workload = source.sized(options.quick)
            data, settings = workload.data(), settings_of(workload, options.threads)
            tasks[name] = workload.task
            for rival in _NAMES:
                with RIVALS[rival].limited(options.threads):
                    model = RIVALS[rival].fit(settings, data.X, data.y)
                    predicted = RIVALS[rival].predict(settings, model, data.X_test)
                own = held_out_loss(workload.task, data.y_test, predicted)
                losses.setdefault(name, {}).setdefault(rival, []).append(own)
            say(f"  quality: {name}, division {seed + 1} of {splits}")
    mean = {name: {rival: float(np.mean(own)) for rival, own in by.items()} for name, by in losses.items()}
    gap = {name: by[OURS] / min(by[peer] for peer in _LIKE_OURS) - 1.0 for name, by in mean.items()}
    rows = [
        [name, LOSS_NAMES[tasks[name]], *(f"{by[rival]:.6g}" for rival in _NAMES), f"{100 * gap[name]:+.2f} %"]
        for name, by in mean.items()
    ]
    header = ["table", "loss", *(RIVALS[rival].title for rival in _NAMES), "ours against best leafwise peer"]
    within = sum(own <= 0.01 for own in gap.values())
    text = f"quality: mean of {splits} divisions\n{plain(header, rows)}\n  within 1 % or better: {within} of {len(gap)}"
    return Outcome(text, {"mean": mean, "gap": gap, "all": losses})
