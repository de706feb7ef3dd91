"""A fit whose rows are divided among members within this process: the same model, byte for byte.

What runs on the workers of a cluster runs here in threads. It is how sharded training is tested without a cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stagewise.boosting.loop import Method, Problem, Validation, boost
from stagewise.boosting.model import Model
from stagewise.data.shard import Shard
from stagewise.errors import ClusterError
from stagewise.kernels.histogram import Bins
from stagewise.kernels.reducer import Circle, Reducer
from stagewise.params import BoostParams

__all__ = ["boost_in_shards", "rows_of", "shard_of"]

Runs = Sequence[tuple[int, int]]
"""Row numbers start..stop, run after run."""


def rows_of(bins: Bins, rows: np.ndarray) -> Bins:
    """The codes of some rows, copied."""
    by_row = bins.by_row.reshape(-1, bins.stride)[rows].reshape(-1)
    return bins._replace(by_row=by_row, by_column=np.ascontiguousarray(bins.by_column[:, rows]))


def shard_of(problem: Problem, runs: Runs, watched: np.ndarray, reducer: Reducer) -> Problem:
    """The part of a problem that one member holds: its rows, and rows `watched` of the validation sample."""
    rows = np.concatenate([np.arange(a, b) for a, b in runs])
    held_out = problem.validation
    bins = rows_of(problem.bins, rows)
    if held_out is not None and len(held_out.index):  # rows of the table itself
        place = np.full(len(problem.y), -1, np.int64)
        place[rows] = np.arange(len(rows))
        here = place[held_out.index]
        held_out = _watched(held_out, bins, np.flatnonzero(here >= 0), here[here >= 0].astype(np.uint32))
    elif held_out is not None:
        held_out = _watched(held_out, rows_of(held_out.bins, watched), watched, held_out.index)
    first, length = (np.array(own, np.int64) for own in zip(*((a, b - a) for a, b in runs), strict=True))
    return replace(
        problem,
        bins=bins,
        y=problem.y[rows],
        weight=problem.weight[rows] if len(problem.weight) else problem.weight,
        skip=problem.skip[rows],
        offset=None if problem.offset is None else problem.offset[:, rows].copy(),
        raw=None if problem.raw is None else problem.raw[:, rows].copy(),
        validation=held_out,
        shard=Shard(reducer, first, length),
    )


def _watched(held_out: Validation, bins: Bins, some: np.ndarray, index: np.ndarray) -> Validation:
    return replace(
        held_out,
        bins=bins,
        index=index,
        y=held_out.y[some],
        weight=held_out.weight[some] if len(held_out.weight) else held_out.weight,
        offset=None if held_out.offset is None else held_out.offset[:, some].copy(),
        raw=None if held_out.raw is None else held_out.raw[:, some].copy(),
    )


def boost_in_shards(
    problem: Problem,
    method: Method,
    params: BoostParams,
    callbacks: Sequence[Any],
    n_threads: int,
    runs: Sequence[Runs],
) -> Model:
    """`boost` with one member for each entry of `runs`, each in a thread; the callbacks are the first one's."""
    circle = Circle(len(runs))
    n_watched = 0 if problem.validation is None else len(problem.validation.y)
    models: list[Model | None] = [None] * len(runs)
    errors: list[BaseException] = []

    def member(rank: int) -> None:
        try:
            watched = np.arange(rank, n_watched, len(runs))
            own = shard_of(problem, runs[rank], watched, circle.members[rank])
            models[rank] = boost(own, method, params, callbacks if rank == 0 else (), n_threads)
        except BaseException as error:  # the others must not wait for this one
            errors.append(error)
            circle.leave()

    threads = [threading.Thread(target=member, args=(rank,), daemon=True) for rank in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((error for error in errors if not isinstance(error, ClusterError)), errors[0])
    assert models[0] is not None
    return models[0]
