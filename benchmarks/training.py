"""One workload: everyone trains and predicts in turn; times, held-out loss and peak memory of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.memory import WARM_ROWS, peak_memory
from benchmarks.options import Options, Outcome
from benchmarks.rivals import OURS, RIVALS, Rival, chosen
from benchmarks.scores import LOSS_NAMES, held_out_loss
from benchmarks.settings import Settings
from benchmarks.table import plain
from benchmarks.timing import Plan, fastest, interleaved, medians, say, stopwatch, summary
from benchmarks.workloads import Data, Workload

__all__ = ["compare", "contestant", "geometric_mean", "settings_of", "warm_up"]

_QUICK_MEMORY = (OURS, "lightgbm")  # a child process takes seconds to import a library


@dataclass(slots=True)
class Notes:
    """What a contestant leaves behind besides its training time."""

    predicting: list[float] = field(default_factory=list)
    loss: float | None = None


def settings_of(workload: Workload, threads: int) -> Settings:
    return Settings(workload.task, workload.stages, threads, workload.leaves)


def compare(workload: Workload, options: Options) -> Outcome:
    """Time, held-out loss and memory of every rival on one workload."""
    workload = workload.sized(options.quick)
    say(workload.title)
    data, settings = workload.data(), settings_of(workload, options.threads)
    workload = replace(workload, rows=len(data.y), columns=data.X.shape[1])  # a real table has what it has
    rivals, failed = warm_up(chosen(options.rivals), settings, data)
    notes = {name: Notes() for name in rivals}
    runs = {name: contestant(rival, settings, data, notes[name]) for name, rival in rivals.items()}
    times = interleaved(runs, Plan.of(options), workload.name)
    measured = {name: rival for name, rival in rivals.items() if not options.quick or name in _QUICK_MEMORY}
    memory = peak_memory(measured, settings, data) if options.memory else {}
    found: dict[str, dict[str, Any]] = {
        name: {
            "fit": summary(times[name]),
            "predict": summary(notes[name].predicting),
            "loss": notes[name].loss,
            "memory": memory.get(name, {}).get("above"),
            "process_memory": memory.get(name, {}).get("process"),
        }
        for name in rivals
    }
    result = {
        "title": workload.title,
        "task": workload.task,
        "rows": workload.rows,
        "columns": workload.columns,
        "leaves": workload.leaves,
        "stages": workload.stages,
        "loss": LOSS_NAMES[workload.task],
        "rivals": found,
        "failed": failed,
        **ratios(found),
    }
    return Outcome(_text(result, options), result)


def contestant(rival: Rival, settings: Settings, data: Data, notes: Notes | None = None) -> Callable[[], float]:
    """A function that trains once and returns the seconds; predicting the held-out part goes into the notes."""

    def once() -> float:
        with rival.limited(settings.threads):
            seconds, model = stopwatch(lambda: rival.fit(settings, data.X, data.y))
            if notes is not None:
                if notes.loss is None:  # not timed: two stages need not have warmed up what a whole model predicts with
                    predicted = rival.predict(settings, model, data.X_test)
                    notes.loss = held_out_loss(settings.task, data.y_test, predicted)
                notes.predicting.append(stopwatch(lambda: rival.predict(settings, model, data.X_test))[0])
        return seconds

    return once


def warm_up(rivals: Mapping[str, Rival], settings: Settings, data: Data) -> tuple[dict[str, Rival], dict[str, str]]:
    """Two stages and a prediction for each, not timed. Those that can do it, and why the others cannot."""
    able: dict[str, Rival] = {}
    failed: dict[str, str] = {}
    rows = slice(0, WARM_ROWS)
    for name, rival in rivals.items():
        try:
            with rival.limited(settings.threads):
                model = rival.fit(settings.short(), data.X[rows], data.y[rows])
                rival.predict(settings, model, data.X_test)
        except Exception as error:  # whatever a library raises: the others go on without it, and the report says so
            if name == OURS:
                raise
            failed[name] = f"{type(error).__name__}: {error}"
            say(f"  {name} cannot do this: {failed[name][:200]}")
            continue
        able[name] = rival
    return able, failed


def ratios(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Fastest peer ÷ ours, in training and predicting; our held-out loss against the best leafwise peer's."""
    if len(found) < 2:
        return {}
    result: dict[str, Any] = {}
    for what in ("fit", "predict"):
        seconds = medians({name: own[what]["all"] for name, own in found.items()})
        peer = fastest(seconds)
        result[what] = {"fastest_peer": peer, "ratio": seconds[peer] / seconds[OURS]}
    like_ours = {name: own["loss"] for name, own in found.items() if RIVALS[name].trees == RIVALS[OURS].trees}
    own_loss = like_ours.pop(OURS)
    if like_ours:
        best = min(like_ours, key=like_ours.__getitem__)
        result["loss_gap"] = {"best_peer": best, "gap": own_loss / like_ours[best] - 1.0}
    memory = {name: own["memory"] for name, own in found.items() if own["memory"] is not None}
    if OURS in memory and len(memory) > 1:
        least = min((name for name in memory if name != OURS), key=memory.__getitem__)
        result["memory_ratio"] = {"least_peer": least, "ratio": memory[least] / max(memory[OURS], 1)}
    return result


def _text(result: Mapping[str, Any], options: Options) -> str:
    found = result["rivals"]
    own = found[OURS]["fit"]["median"]
    rows = []
    for name, facts in sorted(found.items(), key=lambda item: item[1]["fit"]["median"]):
        fit, memory = facts["fit"], facts["memory"]
        rows.append(
            [
                RIVALS[name].title,
                f"{fit['median']:.3f}",
                f"{fit['median'] / own:.2f}",
                str(len(fit["all"])),
                f"{1e3 * facts['predict']['median']:.1f}",
                f"{facts['loss']:.6g}",
                "" if memory is None else f"{memory / 2**20:.0f}",
            ]
        )
    header = ["library", "fit s", "÷ ours", "rounds", "predict ms", result["loss"], "peak MiB"]
    lines = [f"{result['title']}, {options.threads} threads", plain(header, rows)]
    lines += [f"  {RIVALS[name].title} failed: {why[:120]}" for name, why in result["failed"].items()]
    return "\n".join([*lines, *_verdict(result)])


def _verdict(result: Mapping[str, Any]) -> list[str]:
    if "fit" not in result:
        return []
    fit, predict = result["fit"], result["predict"]
    lines = [
        f"  fastest peer ÷ ours: training {fit['ratio']:.2f} ({RIVALS[fit['fastest_peer']].title}), "
        f"predicting {predict['ratio']:.2f} ({RIVALS[predict['fastest_peer']].title})"
    ]
    if "loss_gap" in result:
        gap = result["loss_gap"]
        against = f"{100 * gap['gap']:+.2f} % ({gap['best_peer']})"
        lines.append(f"  our loss against the best leafwise peer's, one draw (see `draws`): {against}")
    if "memory_ratio" in result:
        least = result["memory_ratio"]
        lines.append(f"  least memory of a peer ÷ ours: {least['ratio']:.2f} ({RIVALS[least['least_peer']].title})")
    return lines


def geometric_mean(values: Mapping[str, float]) -> float:
    return float(np.exp(np.mean(np.log(list(values.values())))))
