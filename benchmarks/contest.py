"""A part that is one contest: several contestants, one time each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.options import Outcome
from benchmarks.table import plain
from benchmarks.timing import Plan, interleaved, medians, summary

__all__ = ["UNITS", "hold", "times_table"]

UNITS = {"s": 1.0, "ms": 1e3, "µs": 1e6}


def times_table(title: str, times: Mapping[str, list[float]], base: str, unit: str = "s") -> str:
    """Medians of contestants and how they compare with `base`, fastest first."""
    seconds = medians(times)
    rows = [
        [name, f"{UNITS[unit] * own:.{3 if unit == 's' else 1}f}", f"{own / seconds[base]:.2f}", str(len(times[name]))]
        for name, own in sorted(seconds.items(), key=lambda item: item[1])
    ]
    return "\n".join([title, plain(["contestant", unit, f"÷ {base}", "rounds"], rows)])


def hold(
    title: str, contestants: Mapping[str, Callable[[], float]], plan: Plan, base: str = "stagewise", unit: str = "s"
) -> Outcome:
    """Run the contest: the table as text; medians, all times and ratios to `base` as data."""
    times = interleaved(contestants, plan, title.split(":")[0])
    seconds = medians(times)
    data: dict[str, Any] = {
        "title": title,
        "seconds": {name: summary(own) for name, own in times.items()},
        "ratio": {name: own / seconds[base] for name, own in seconds.items()},
    }
    return Outcome(times_table(title, times, base, unit), data)
