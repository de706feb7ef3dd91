"""What samples of the rows save: all rows, GOSS and minimal-variance sampling in turn, on A (2 classes) and F (7).

Both draw three rows of ten. GOSS sees all rows in its first two stages, which is part of its time.
"""

from __future__ import annotations

from typing import Any

from benchmarks.options import Options, Outcome
from benchmarks.rivals import OURS, RIVALS
from benchmarks.scores import LOSS_NAMES, held_out_loss
from benchmarks.table import plain
from benchmarks.timing import Plan, interleaved, medians, say, stopwatch, summary
from benchmarks.training import settings_of
from benchmarks.workloads import WORKLOADS, Workload

__all__ = ["run"]

_SAMPLINGS: dict[str, dict[str, Any]] = {
    "all rows": {},
    "goss": {"sampling": "goss", "goss_top": 0.2, "goss_rest": 0.1},
    "mvs": {"sampling": "mvs", "subsample": 0.3},
}


def compared(workload: Workload, options: Options) -> tuple[str, dict[str, Any]]:
    """Times, held-out losses, and how many times longer all rows take."""
    say(f"sampling: {workload.title}")
    data, settings, ours = workload.data(), settings_of(workload, options.threads), RIVALS[OURS]
    losses: dict[str, float] = {}

    def once(name: str) -> float:
        model = ours.estimator(settings).set_params(**_SAMPLINGS[name])
        seconds, _ = stopwatch(lambda: model.fit(data.X, data.y))
        if name not in losses:
            losses[name] = held_out_loss(workload.task, data.y_test, ours.predict(settings, model, data.X_test))
        return seconds

    for name in _SAMPLINGS:
        once(name)  # compiles
    times = interleaved({name: lambda name=name: once(name) for name in _SAMPLINGS}, Plan.of(options), workload.name)
    seconds = medians(times)
    ratio = {name: seconds["all rows"] / own for name, own in seconds.items()}
    gap = {name: own / losses["all rows"] - 1.0 for name, own in losses.items()}
    rows = [
        [name, f"{own:.3f}", f"{ratio[name]:.2f}", f"{losses[name]:.5f}", f"{100 * gap[name]:+.2f} %"]
        for name, own in seconds.items()
    ]
    header = ["rows", "fit s", "all ÷ this", f"held-out {LOSS_NAMES[workload.task]}", "against all"]
    result = {
        "title": workload.title,
        "fit": {name: summary(own) for name, own in times.items()},
        "ratio": ratio,
        "loss": losses,
        "gap": gap,
    }
    return f"sampling: {workload.title}, {options.threads} threads\n{plain(header, rows)}", result


def run(options: Options) -> Outcome:
    found = {name: compared(WORKLOADS[name].sized(options.quick), options) for name in ("A", "F")}
    return Outcome("\n".join(text for text, _ in found.values()), {name: own for name, (_, own) in found.items()})
