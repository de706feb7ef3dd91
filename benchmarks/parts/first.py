"""The first speed check: workload A, training and predicting, against every peer. (Memory is measured by `A`.)"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.options import Options, Outcome
from benchmarks.training import compare
from benchmarks.workloads import WORKLOADS

__all__ = ["run"]


def run(options: Options) -> Outcome:
    outcome = compare(WORKLOADS["A"], replace(options, memory=False))
    if "fit" not in outcome.data:
        return outcome
    training, predicting = outcome.data["fit"]["ratio"], outcome.data["predict"]["ratio"]
    verdict = "yes" if min(training, predicting) > 1.0 else "NO"
    return Outcome(f"{outcome.text}\n  faster than every peer, training and predicting: {verdict}", outcome.data)
