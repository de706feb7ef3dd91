"""What a worker does: it puts its partitions together and runs the stage loop on them, as one member of many."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from distributed import Worker, get_worker
from distributed.worker import secede, thread_state

from stagewise.backends.pace import threads_for
from stagewise.boosting.checkpoint import Progress
from stagewise.boosting.loop import Problem, Validation, boost
from stagewise.boosting.methods import gradient_boosting
from stagewise.boosting.model import Model
from stagewise.boosting.monitor import Stage
from stagewise.dask.mailbox import ClusterReducer
from stagewise.dask.partitions import BinnedPart, joined
from stagewise.dask.room import Keeper, Room
from stagewise.data.binning import Marginal
from stagewise.data.cache import stride_of
from stagewise.data.shard import Shard
from stagewise.data.table import Schema
from stagewise.errors import ClusterError, InputError
from stagewise.kernels.binning import aligned_bytes, interleave, row_bytes
from stagewise.kernels.exact import stream_key
from stagewise.kernels.histogram import Bins
from stagewise.kernels.reducer import Reducer
from stagewise.kernels.team import Team
from stagewise.losses.base import Loss
from stagewise.params import BoostParams, TreeParams
from stagewise.storage.mapping import is_mapped, release

__all__ = ["Job", "Outcome", "SPLIT", "train"]

_BLOCK = 1 << 16
"""Rows whose codes are laid out row by row at once on their way to disk."""

SPLIT = 0x76616C69  # the hash stream of the validation split, see estimators/base.py


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What is fitted, the same for all members."""

    run: str
    cuts: tuple[np.ndarray, ...]
    marginals: tuple[Marginal, ...]
    schema: Schema
    loss: Loss
    tree: TreeParams
    params: BoostParams
    n_rows: int  # of all partitions
    watched: int  # rows of the validation set, 0 without one
    held_out: float | None  # the share of rows to hold out
    n_classes: int  # held-out rows are drawn within each class; 0 for regression
    n_jobs: int | None
    heard: bool = True  # whether the client wants to know of every stage


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a member's part in a generation ended."""

    model: Model | None  # when the fit is complete
    progress: Progress | None  # otherwise: how far it came
    reason: str = ""
    bytes_sent: int = 0
    histograms: int = 0  # of nodes, exchanged
    lines: str = "dask"  # what members talked through: see ClusterReducer.open_lines
    on_disk: int = 0  # members whose codes were mapped


def training_bytes(job: Job, n_rows: int, weighted: bool) -> int:
    """Memory that training on some rows takes beside their codes, which may be on disk: see docs/cluster.md."""
    slots = min(2 * job.tree.max_leaf_nodes + 2, n_rows + 2)
    histograms = min(1 << 28, slots * stride_of(len(job.cuts)) * 256 * 16)
    return n_rows * (24 * job.loss.n_outputs + 27 + 16 * weighted) + histograms


class _Kept:
    """Stands where checkpoints are written, and keeps the last stage's in memory."""

    every = 1
    digests = False

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress

    def write(self, progress: Progress) -> None:
        self.progress = progress


class _Reporter:
    """Tells the client of every stage."""

    def __init__(self, worker: Worker, run: str) -> None:
        self.worker, self.topic = worker, f"stagewise-{run}"

    def on_stage(self, stage: Stage) -> None:
        told = [stage.number, stage.total, stage.train, stage.validation, stage.seconds]
        self.worker.log_event(self.topic, told)


def assembled(parts: list[BinnedPart], cuts: tuple[np.ndarray, ...], n_threads: int, room: Room, more: int) -> Bins:
    """The codes of all partitions as one table, in memory or mapped. more: bytes that training takes beside them."""
    f, n = len(cuts), sum(len(part.y) for part in parts)
    stride, n_bins = stride_of(f), np.array([len(own) + 1 for own in cuts], np.int64)
    with Team(n_threads) as team:
        if n == 0 or room.fits(n * (f + row_bytes(f)) + more):
            none = np.empty((f, 0), np.uint8)
            by_column = np.ascontiguousarray(np.concatenate([none, *(part.codes for part in parts)], axis=1))
            stride = row_bytes(f)
            by_row = aligned_bytes(n * stride)
            team.run(interleave, by_column, stride, by_row)
            return Bins(by_row, by_column, n_bins, stride)
        by_column = room.on_disk((part.codes for part in parts), f, n)
        out = np.empty(_BLOCK * stride, np.uint8)
        with room.file(n * stride) as file:
            for a in range(0, n, _BLOCK):
                some = np.ascontiguousarray(by_column[:, a : a + _BLOCK])
                own = out[: some.shape[1] * stride]
                team.run(interleave, some, stride, own)
                file.write(a * stride, own)
            by_row = file.mapped()
    release(by_column)
    return Bins(by_row, by_column, n_bins, stride)


def _held_out(job: Job, problem: Problem, shard: Shard) -> Problem:
    """Hold a share of the rows out, chosen by hashed row numbers within each class: see estimators/base.py."""
    y, skip = problem.y, problem.skip
    chosen = np.zeros(len(y), np.bool_)
    for k in range(max(1, job.n_classes)):
        eligible = ~skip & ((y == k) if job.n_classes else True)
        wanted = round(float(job.held_out or 0.0) * shard.reducer.count(int(eligible.sum())))
        if wanted:
            chosen[shard.smallest_hashes(stream_key(job.params.seed, SPLIT), ~eligible, wanted)[0]] = True
    left = shard.reducer.sum(np.array([chosen.sum(), (~skip & ~chosen).sum()], np.int64))
    if left[0] == 0 or left[1] == 0:
        raise InputError(
            f"validation_fraction={job.held_out} of {job.n_rows} rows leaves an empty training or validation sample; "
            "use more rows, another share, or give eval_set."
        )
    rows = np.flatnonzero(chosen).astype(np.uint32)
    validation = Validation(
        problem.bins,
        rows,
        y[rows],
        problem.weight[rows] if len(problem.weight) else problem.weight,
        None if problem.offset is None else problem.offset[:, rows].copy(),
        None,
    )
    return replace(problem, validation=validation, skip=skip | chosen)


def problem_of(
    job: Job,
    parts: list[BinnedPart],
    firsts: list[int],
    watched: list[BinnedPart],
    reducer: Reducer,
    n_threads: int,
    progress: Progress | None,
    room: Room,
) -> Problem:
    """This member's part of the problem."""
    n = sum(len(part.y) for part in parts)
    more = training_bytes(job, n, parts[0].weight is not None)
    if room.limit is not None and room.taken() + more > room.limit:
        raise InputError(
            f"Worker {room.address} may use {room.limit / 2**20:,.0f} MiB of memory, and uses "
            f"{room.taken() / 2**20:,.0f}; training on its {n:,} rows takes {more / 2**20:,.0f} MiB more, even with "
            "codes on disk. Use more workers, or give them more memory."
        )
    bins = assembled(parts, job.cuts, n_threads, room, more)
    y, weight = np.concatenate([part.y for part in parts]), joined([part.weight for part in parts])
    shard = Shard(reducer, np.array(firsts, np.int64), np.array([len(part.y) for part in parts], np.int64))
    validation = None
    if job.watched:
        own = joined([part.weight for part in watched])
        score = joined([part.score for part in watched])
        if score is None and not watched:
            score = np.zeros((job.loss.n_outputs, 0))
        validation = Validation(
            assembled(watched, job.cuts, n_threads, room, more),
            np.empty(0, np.uint32),
            np.concatenate([np.empty(0), *(part.y for part in watched)]),
            np.empty(0) if own is None else own,
            score,
            None,
        )
    problem = Problem(
        bins=bins,
        cuts=job.cuts,
        marginals=job.marginals,
        schema=job.schema,
        loss=job.loss,
        y=y,
        weight=np.empty(0) if weight is None else weight,
        skip=np.zeros(len(y), np.bool_) if weight is None else weight == 0.0,
        offset=joined([part.score for part in parts]),
        validation=validation,
        before=None,
        raw=None,
        shard=shard,
        progress=progress,
    )
    return problem if job.held_out is None else _held_out(job, problem, shard)


def train(
    parts: list[BinnedPart],
    firsts: list[int],
    watched: list[BinnedPart],
    job: Job,
    members: list[str],
    generation: int,
    progress: Progress | None,
) -> Outcome:
    """One member's part of a fit, from the last stage that is known to be finished on."""
    worker, key = get_worker(), thread_state.key
    threads = job.n_jobs or max(1, worker.state.nthreads)
    secede()  # other fits may run here too: none must wait for this one, whose members would wait for each other

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state in ("executing", "long-running")

    if worker.address not in members:  # Dask has moved the task: this generation is over
        return Outcome(None, progress, "a member was moved to another worker.")
    reducer = ClusterReducer(worker, job.run, generation, members, wanted)
    kept = _Kept(progress)
    try:
        lines = reducer.open_lines()
        n_threads = threads_for(sum(len(part.y) for part in parts), job.schema.n_columns, job.tree, threads)
        problem = problem_of(job, parts, firsts, watched, reducer, n_threads, progress, Room(worker))
        callbacks = [_Reporter(worker, job.run)] if job.heard and reducer.rank == 0 else []
        on_disk = reducer.count(int(is_mapped(problem.bins.by_row)))
        eyes = problem.validation.bins if problem.validation is not None else problem.bins
        with Keeper(Room(worker), (*problem.bins[:2], *eyes[:2])):
            model = boost(problem, gradient_boosting(job.tree), job.params, callbacks, n_threads, kept)  # type: ignore[arg-type]
        return Outcome(model, None, "", reducer.bytes_sent, reducer.histograms, lines, on_disk)
    except ClusterError as error:
        reducer.cut()
        return Outcome(None, kept.progress, str(error), reducer.bytes_sent)
    finally:
        reducer.close()
