"""Where the time of workload A goes, and how near the histogram loop comes to what this machine can do.

Times are taken from outside: `Team.run` is wrapped while one fit runs, so that each kernel's time is booked on its
name; `Dataset` is timed as a whole; and the cycles that `grow` counts divide its own time. What is left is Python.

There are two ceilings, both over all rows in their order, every thread its own part. One is the plain loop: a row after
the other, one packed add for each of its columns, four columns a step; what this machine does with the obvious code, in
C++ as in Numba. The other is our own loop for such rows (histogram.add_run), which is faster because it takes the
columns in groups that fit the first-level cache; rows of deeper nodes are scattered, and no loop of ours reaches that
speed on them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np

from benchmarks.options import Options, Outcome
from benchmarks.rivals import RIVALS
from benchmarks.settings import Settings
from benchmarks.table import plain
from benchmarks.timing import say, stopwatch
from benchmarks.training import settings_of
from benchmarks.workloads import WORKLOADS, Data
from stagewise import Dataset
from stagewise.backends.cpu import CpuBackend
from stagewise.kernels.blocks import histogram_of_rows
from stagewise.kernels.exact import packing
from stagewise.kernels.expansion import HISTOGRAM, PARTITION, SPLIT
from stagewise.kernels.histogram import PITCH, Pools
from stagewise.kernels.jit import cycles
from stagewise.kernels.team import Team

__all__ = ["run"]

_UPDATE = ("leaf_sums", "leaf_quantiles", "add_leaves", "label_binned")


@dataclass
class Book:
    """Seconds by kernel name, seconds of binning, and growth's own counts of cycles."""

    kernels: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    binning: float = 0.0
    clock: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))


@contextmanager
def watched() -> Iterator[Book]:
    """Book the time of everything that runs inside."""
    book = Book()
    run, bin_all, leave = Team.run, Dataset.__init__, CpuBackend.__exit__
    inside: list[bool] = []

    def timed_run(self: Team, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        seconds, result = stopwatch(lambda: run(self, function, *args, **options))
        if not inside:  # a kernel of binning is part of binning
            book.kernels[getattr(function, "__name__", repr(function))] += seconds
        return result

    def timed_init(self: Dataset, *args: Any, **options: Any) -> None:
        inside.append(True)
        book.binning += stopwatch(lambda: bin_all(self, *args, **options))[0]
        inside.pop()

    def noted_exit(self: CpuBackend, *error: object) -> None:
        book.clock += self.clock
        leave(self, *error)

    Team.run, Dataset.__init__, CpuBackend.__exit__ = timed_run, timed_init, noted_exit  # type: ignore[method-assign]
    try:
        yield book
    finally:
        Team.run, Dataset.__init__, CpuBackend.__exit__ = run, bin_all, leave  # type: ignore[method-assign]


def cycles_a_second() -> float:
    """The rate of the counter that growth reads."""
    read = numba.njit(lambda: cycles())
    read()
    begin, first = time.perf_counter(), read()
    time.sleep(0.2)
    last, end = read(), time.perf_counter()
    return float(last - first) / (end - begin)


def shares(book: Book, total: float) -> dict[str, float]:
    """Seconds by phase; they add up to the whole fit."""
    rate = cycles_a_second()
    phase = {name: float(book.clock[k]) / rate for name, k in (("h", HISTOGRAM), ("s", SPLIT), ("p", PARTITION))}
    grow = sum(own for name, own in book.kernels.items() if name.startswith("grow"))
    update = sum(own for name, own in book.kernels.items() if name in _UPDATE)
    pairs = sum(book.kernels.values()) - grow - update
    return {
        "binning": book.binning,
        "pairs": pairs,
        "histograms": phase["h"],
        "split search": phase["s"],
        "partition": phase["p"],
        "rest of growth": grow - sum(phase.values()),
        "update": update,
        "Python": total - book.binning - sum(book.kernels.values()),
    }


def updates(model: Any, n_columns: int, settings: Settings) -> int:
    """Row × column additions to histograms: the root's rows and the smaller child's of every split that is searched.

    Not of a full tree's last split: its children are leaves. Nor where no child is large enough to be split.
    """
    total = 0
    for trees in model.model_.stages:
        for tree in trees:
            count, splits = tree.count, np.flatnonzero(tree.left >= 0)
            left = np.sort(tree.left[splits])  # children are numbered in the order of the splits
            if len(splits) + 1 == settings.leaves:
                left = left[:-1]
            small, large = np.minimum(count[left], count[left + 1]), np.maximum(count[left], count[left + 1])
            total += int(count[0]) + int(small[large >= 2 * settings.min_rows].sum())
    return total * n_columns


@numba.njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def plain_loop(codes, stride, words, start, stop, width, out):  # type: ignore[no-untyped-def]
    """out[column * PITCH + code] += words[row]; unsigned indices, as a signed one is checked for being negative."""
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for i in range(start, stop):
        word, p, q = words[i], np.uint64(i) * np.uint64(stride), np.uint64(0)
        for _ in range(width >> 2):
            out[q + np.uint64(codes[p])] += word
            out[q + np.uint64(PITCH) + np.uint64(codes[p + one])] += word
            out[q + np.uint64(2 * PITCH) + np.uint64(codes[p + two])] += word
            out[q + np.uint64(3 * PITCH) + np.uint64(codes[p + three])] += word
            p += np.uint64(4)
            q += np.uint64(4 * PITCH)


@contextmanager
def ceilings(data: Data, threads: int, repeats: int) -> Iterator[Callable[[], np.ndarray]]:
    """Measures updates a second of the plain loop and of our own: all rows in their order, every thread its part."""
    dataset = Dataset(data.X, n_jobs=threads)
    n, bins = dataset.n_rows, dataset.bins
    words, more = np.ones(n, np.int64), np.empty(1, np.int64)
    chosen = packing(1.0, 0.25, n)

    def room(slots: int) -> np.ndarray:
        return np.zeros((slots, bins.width * PITCH), np.int64)

    with Team(threads) as team:
        parts = np.array_split(np.arange(n, dtype=np.uint32), team.n_threads)
        pools = [Pools(room(1), room(1), room(1), room(1), room(0), room(0)) for _ in parts]

        def plain(tid: int, n_threads: int) -> None:
            start, stop = parts[tid][0], int(parts[tid][-1]) + 1
            plain_loop(bins.by_row, bins.stride, words, start, stop, bins.width, pools[tid].own_packed[0])

        def own(tid: int, n_threads: int) -> None:
            histogram_of_rows(bins, words, more, parts[tid], chosen, pools[tid])

        def fastest(part: Callable[[int, int], None]) -> float:
            return min(stopwatch(lambda: team.run(part))[0] for _ in range(repeats))

        def measured() -> np.ndarray:
            slow = fastest(plain)
            for pool in pools:  # our own loop expects nothing in them
                pool.own_packed[:] = 0
            return n * dataset.n_columns / np.array([slow, fastest(own)])

        measured()
        yield measured


def run(options: Options) -> Outcome:
    workload = WORKLOADS["A"].sized(options.quick)
    say(f"roofline: {workload.title}")
    data, settings, ours = workload.data(), settings_of(workload, options.threads), RIVALS["stagewise"]
    ours.fit(settings.short(), data.X, data.y)
    runs = []
    with ceilings(data, options.threads, options.size(20, 3)) as top_speeds:
        before = top_speeds()
        for _ in range(options.repeats):
            with watched() as book:
                total, model = stopwatch(lambda: ours.fit(settings, data.X, data.y))
            after = top_speeds()  # beside every fit: on a shared machine it changes from minute to minute
            runs.append((total, book, np.maximum(before, after)))
            before = after
    total, book, (plain_top, top) = sorted(runs, key=lambda entry: entry[0])[len(runs) // 2]  # the median fit
    phases = shares(book, total)
    n_updates = updates(model, data.X.shape[1], settings)
    speed = n_updates / phases["histograms"]
    rows = [[name, f"{own:.3f}", f"{100 * own / total:.1f} %"] for name, own in phases.items()]
    rows.append(["whole fit", f"{total:.3f}", "100.0 %"])
    text = "\n".join(
        [
            f"roofline: {workload.title}, {options.threads} threads",
            plain(["phase", "s", "share"], rows),
            f"  histogram updates: {n_updates / 1e9:.2f} billion, {speed / 1e9:.2f} billion/s",
            f"  the plain loop over all rows in order: {plain_top / 1e9:.2f} billion/s; reached: "
            f"{100 * speed / plain_top:.0f} %",
            f"  our own loop over all rows in order: {top / 1e9:.2f} billion/s; reached: {100 * speed / top:.0f} %",
        ]
    )
    result = {
        "title": workload.title,
        "seconds": total,
        "phases": phases,
        "kernels": dict(book.kernels),
        "updates": n_updates,
        "updates_a_second": speed,
        "plain_ceiling": plain_top,
        "plain_reached": speed / plain_top,
        "ceiling": top,
        "reached": speed / top,
    }
    return Outcome(text, result)
