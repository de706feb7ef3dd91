"""Times of several contestants in one process: one round runs each of them once, and the order moves on by one."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from benchmarks.options import Options

__all__ = ["Plan", "fastest", "interleaved", "medians", "say", "stopwatch", "summary"]

T = TypeVar("T")

_PAUSE = 0.1
"""Seconds between two contestants: OpenMP threads spin for some milliseconds after their last work, and would take a
core from whoever comes next."""

_HOPELESS = 5.0
_LONG = 20.0
"""A contestant that needs over 20 s and 5 times as long as the second fastest (we may be the fastest) runs once only:
it is not the fastest peer, and its second digit is not worth an hour. Not so when the plan is patient."""


@dataclass(frozen=True, slots=True)
class Plan:
    """At least `repeats` rounds; short ones go on for `seconds`, for at most `most` rounds: medians of few
    milliseconds need more of them."""

    repeats: int
    seconds: float = 20.0
    most: int = 21
    patient: bool = False

    @classmethod
    def of(cls, options: Options) -> Plan:
        return cls(options.repeats, 0.0) if options.quick else cls(options.repeats)


def say(*words: object) -> None:
    """Progress, on stderr: stdout has the results only."""
    print(*words, file=sys.stderr, flush=True)


def stopwatch(action: Callable[[], T]) -> tuple[float, T]:
    """Seconds that a call took, and its result."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def interleaved(contestants: Mapping[str, Callable[[], float]], plan: Plan, title: str = "") -> dict[str, list[float]]:
    """Run all contestants in rounds. Each returns its seconds, so that it can leave out what is not to be timed."""
    names = list(contestants)
    times: dict[str, list[float]] = {name: [] for name in names}
    begin, rounds = time.perf_counter(), 0
    while names and (rounds < plan.repeats or (rounds < plan.most and time.perf_counter() - begin < plan.seconds)):
        shift = rounds % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect()
            time.sleep(_PAUSE)
            seconds = contestants[name]()
            times[name].append(seconds)
            if rounds < plan.repeats:
                say(f"  {title} round {rounds + 1}: {name} {seconds:.3f} s")
        if not plan.patient:
            quick = sorted(times[name][0] for name in names)[:2][-1]
            names = [name for name in names if times[name][0] < max(_LONG, _HOPELESS * quick)]
        rounds += 1
    return times


def summary(times: Sequence[float]) -> dict[str, Any]:
    """Times for the JSON file."""
    return {"median": statistics.median(times), "best": min(times), "all": list(times)}


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(own) for name, own in times.items() if own}


def fastest(seconds: Mapping[str, float], without: str = "stagewise") -> str:
    """The name with the least time, leaving out those that start with `without`."""
    return min((name for name in seconds if not name.startswith(without)), key=seconds.__getitem__)
