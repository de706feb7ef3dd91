"""AdaBoost of stumps against scikit-learn's: 100 k × 30, 400 rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.options import Options, Outcome
from benchmarks.table import plain
from benchmarks.timing import Plan, interleaved, medians, stopwatch, summary

__all__ = ["run"]

_SHARE = 10
"""scikit-learn runs a tenth of the rounds, each of which takes as long as the last (0.8 s here), and once only."""


def run(options: Options) -> Outcome:
    from sklearn.ensemble import AdaBoostClassifier as Theirs

    from stagewise import AdaBoostClassifier

    n, rounds = options.size(100_000, 5_000), options.size(400, 40)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + 20_000, 30)).astype(np.float32)
    y = (np.square(X[:, :10]).sum(axis=1) > 9.34).astype(np.int64)
    held: dict[str, float] = {}

    def timed(name: str, model: Any) -> Callable[[], float]:
        def once() -> float:
            seconds, fitted = stopwatch(lambda: model.fit(X[:n], y[:n]))
            if name not in held:
                held[name] = 1.0 - float(fitted.score(X[n:], y[n:]))
            return seconds

        return once

    few = rounds // _SHARE
    AdaBoostClassifier(n_estimators=2, n_jobs=options.threads).fit(X[:n], y[:n])  # compiles
    ours = {
        f"stagewise, {m} rounds": timed(f"{m}", AdaBoostClassifier(n_estimators=m, n_jobs=options.threads))
        for m in (rounds, few)
    }
    times = interleaved(ours, Plan.of(options), "adaboost")
    theirs = f"scikit-learn, {few} rounds"
    times[theirs] = [timed("theirs", Theirs(n_estimators=few, random_state=0))()]
    seconds = medians(times)
    whole = seconds[f"stagewise, {rounds} rounds"]
    ratio = seconds[theirs] * _SHARE / whole
    rows = [[name, f"{own:.3f}", str(len(times[name]))] for name, own in seconds.items()]
    text = "\n".join(
        [
            f"adaboost: {n:,} × 30, stumps",
            plain(["contestant", "s", "rounds"], rows),
            f"  scikit-learn's time for {rounds} rounds (× {_SHARE}) ÷ ours: {ratio:.0f}",
            f"  its time for {few} rounds ÷ ours for {rounds}: {seconds[theirs] / whole:.1f}",
            f"  held-out error after {few} rounds: ours {held[str(few)]:.4f}, theirs {held['theirs']:.4f}; "
            f"after {rounds}: ours {held[str(rounds)]:.4f}",
        ]
    )
    data = {
        "title": f"adaboost: {n:,} × 30, {rounds} rounds",
        "seconds": {name: summary(own) for name, own in times.items()},
        "ratio": ratio,
        "held_out_error": held,
    }
    return Outcome(text, data)
