"""The stage loop: forward stagewise additive modelling. There is no other loop in this library.

    rows   = sampler(stage, pairs)               # which rows, and how many times each counts
    fitted = learner.fit(rule.working(pairs), rows)   # a tree, a column, any regressor: least squares on the pairs
    terms  = rule.finish(fitted, pairs, raw)     # leaves re-fitted, a line searched, votes weighed; times the rate
    raw   += terms
    pairs  = maker(raw)                          # (grad, hess) per row, per output; the deviance of the stage
    monitor(...)                                 # history, stopping, progress
    checkpoints.write(...)                       # now and then

What differs between methods is in the objects that are plugged into it; methods.py puts them together.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.backends.sharded import ShardedBackend
from stagewise.boosting.checkpoint import Checkpoints, Progress, digest, run_prints
from stagewise.boosting.model import Model
from stagewise.boosting.monitor import GoingOn, Monitor, deferred_interrupt
from stagewise.boosting.pairs import NO_UPDATE, PairsMaker, target_of
from stagewise.boosting.residuals import Residuals, residual_packing
from stagewise.boosting.rules import LeafRule, Rule, Targets, integer_weights
from stagewise.boosting.sampling import Sampler
from stagewise.boosting.start import starting_values
from stagewise.data.binning import Marginal
from stagewise.data.shard import Shard
from stagewise.data.table import Schema
from stagewise.errors import InputError, TrainingInterrupted
from stagewise.kernels.histogram import Bins
from stagewise.kernels.reducer import ALONE, Reducer
from stagewise.learners.base import Learner
from stagewise.learners.refit import Structure
from stagewise.learners.tree import TreeLearner
from stagewise.losses.base import Loss
from stagewise.losses.regression import SquaredError
from stagewise.params import BoostParams, TreeParams
from stagewise.tree.tree import Tree

__all__ = ["Bench", "Method", "Parts", "Problem", "Validation", "boost"]

_NO_ROWS = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """Rows on which early stopping looks: all of `bins`, or those of `index`. Arrays have one entry a row."""

    bins: Bins
    index: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    offset: np.ndarray | None  # (n_outputs, n): init_score
    raw: np.ndarray | None  # warm start: predictions so far (n_outputs, n)
    X: np.ndarray | None = None  # the values of these rows: for learners that do not work on bins


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Everything that is given: data, targets, loss."""

    bins: Bins
    cuts: tuple[np.ndarray, ...]
    marginals: tuple[Marginal, ...]
    schema: Schema
    loss: Loss
    y: np.ndarray  # (n_rows,)
    weight: np.ndarray  # empty: 1 each
    skip: np.ndarray  # bool: rows that take no part in training
    offset: np.ndarray | None  # (n_outputs, n_rows): init_score
    validation: Validation | None
    before: Model | None  # warm start: these stages come first ...
    raw: np.ndarray | None  # ... and these are their predictions (n_outputs, n_rows)
    X: np.ndarray | None = None  # (n_rows, n_columns): for learners that do not work on bins
    rows: np.ndarray = field(default_factory=lambda: _NO_ROWS)  # rows of `bins` that all else is about; empty: all
    structure: Structure | None = None  # refit: trees that are kept, only their leaves are fitted
    shard: Shard | None = None  # the rows here are some of many: the others are held by others, who run this too
    progress: Progress | None = None  # stages that were finished before, elsewhere


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """What a method builds its parts from."""

    problem: Problem
    targets: Targets
    backend: CpuBackend
    params: BoostParams


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The objects that make a method."""

    rule: Rule
    learner: Learner
    sampler: Sampler


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """What is plugged into the loop, the trees it grows (if any), and where it starts."""

    build: Callable[[Bench], Parts]
    tree: TreeParams
    from_zero: bool = False  # f = 0 before the first stage, as the classical algorithms have it


def boost(
    problem: Problem,
    method: Method,
    params: BoostParams,
    callbacks: Sequence[Any],
    n_threads: int,
    checkpoints: Checkpoints | None = None,
) -> Model:
    """Fit params.n_estimators stages; the fitted model, cut at the best stage when stopping early is on.

    With checkpoints it goes on from the newest one, and keeps some: the result is the same.
    """
    loss, rate, tree = problem.loss, params.learning_rate, method.tree
    reducer = ALONE if problem.shard is None else problem.shard.reducer
    targets = _targets(problem, reducer)
    n_training = reducer.count(len(problem.y) - int(problem.skip.sum()))
    with _backend(problem, tree, n_threads, n_training) as backend, deferred_interrupt() as ctrl_c:
        maker = PairsMaker(loss, targets.y, targets.weight, backend.team, n_training)
        parts = method.build(Bench(problem, targets, backend, params))
        rule, learner, sampler = parts.rule, parts.learner, parts.sampler
        # one pass adds a tree and evaluates the loss, unless something must be known in between: other classes, delta
        at_once = isinstance(rule, LeafRule) and loss.n_outputs == 1 and loss.delta_quantile is None
        initial, raw = _start(problem, targets, maker, backend, sampler.all.index, method.from_zero)
        maker = _residuals(problem, targets, parts, backend, initial, raw) or maker
        delta = rule.delta(raw, sampler.all.index)
        pairs = maker(raw, _option(loss, delta))
        watcher = _Watcher(problem.validation, loss, initial, _option(loss, delta), backend)
        if problem.before is not None and problem.raw is not None:  # after the start, which sets the units of deviances
            initial, raw = problem.before.initial, problem.raw
            delta = rule.delta(raw, sampler.all.index)
            pairs = maker(raw, _option(loss, delta))
        stages = list(problem.before.stages) if problem.before else []
        going_on = GoingOn(len(stages), pairs.deviance, watcher.now(_option(loss, delta)) if stages else None)
        history = problem.before.history if problem.before else None
        found = problem.progress
        if checkpoints is not None and checkpoints.digests:
            found = _newest(checkpoints, problem, tree, params)
        if found is not None:
            _resume(found, len(stages), problem, maker, watcher, backend, raw)
            stages, history = list(found.stages), found.history
            delta = rule.delta(raw, sampler.all.index)
            pairs = maker(raw, _option(loss, delta))
        end = len(stages) if found is not None and found.stopped else params.n_estimators
        start = pairs.deviance if history is None else history.initial
        on_train = problem.validation is None
        monitor = Monitor(
            params.n_estimators, params.patience, params.tol, callbacks, start, history, on_train, going_on
        )
        try:
            for stage in range(len(stages), end):
                rows = sampler(stage, pairs)
                seen = rows.pairs or pairs
                terms, used, update = list[Any](), 0, NO_UPDATE
                for output in learner.outputs:
                    own = sampler.narrow(rows, pairs, output)
                    fitted = learner.fit(rule.working(seen, output), own.index, own.rest, stage, output)
                    finished = rule.finish(fitted, seen, output, raw, delta, rate)
                    if finished is None:  # only rules of one fit a stage say so: nothing has been added yet
                        break
                    if at_once:
                        update = sampler.foresee(stage + 1, maker.update(fitted, *finished))
                    else:
                        fitted.add(finished, raw, output)
                    terms += finished
                    used += backend.rows_used(own.index)
                if not terms:
                    break
                stages.append(tuple(terms))
                delta = rule.delta(raw, sampler.all.index)
                option = _option(loss, delta)
                pairs = maker(raw, option, update)
                used = round(used / len(learner.outputs))
                watched = watcher(stages[-1], option)
                stop = monitor(pairs.deviance, watched, used, used / n_training, rule.notes()) or rule.last
                done = stop or ctrl_c.pressed or reducer.stopped or stage + 1 == end
                if checkpoints is not None and (done or (stage + 1) % checkpoints.every == 0):
                    checkpoints.write(_progress(problem, stages, monitor, maker, watcher, raw, stop, checkpoints))
                if done:
                    break
        finally:
            monitor.end()
        interrupted = ctrl_c.pressed
    if interrupted:
        warnings.warn(
            f"Training was interrupted: the model has {len(stages)} of {params.n_estimators} stages and can be used.",
            TrainingInterrupted,
            stacklevel=4,
        )
    history = monitor.history()
    return Model(loss, initial, tuple(stages[: history.best]), problem.cuts, problem.schema, history, problem.marginals)


def _option(loss: Loss, delta: float) -> np.ndarray:
    return loss.option if loss.delta_quantile is None else np.array([delta])


def _backend(problem: Problem, tree: TreeParams, n_threads: int, n_training: int) -> CpuBackend:
    rows = (problem.bins, len(problem.y), problem.cuts, tree, n_threads, n_training, problem.schema.in_sets)
    return CpuBackend(*rows, problem.rows) if problem.shard is None else ShardedBackend(*rows, problem.shard)


def _targets(problem: Problem, reducer: Reducer) -> Targets:
    """Rows that are skipped weigh nothing; weights as integers for quantiles."""
    weight, skip = _bounded(problem.weight, reducer), problem.skip
    plain = len(weight) == 0
    if reducer.largest(float(skip.any())) > 0.0:
        weight = np.where(skip, 0.0, 1.0 if plain else weight)
    counts = np.empty(0, np.int64)
    peak = 1.0
    if len(weight):
        peak = reducer.largest(float(weight.max()))
        counts = integer_weights(weight, peak, reducer.count(len(weight)))
    present = weight[weight > 0.0]
    light = reducer.sum(np.array([np.count_nonzero(present * 256.0 < peak), len(present)], np.int64))
    # more than a tenth of the rows weigh under 1/256 of the heaviest: 15 bits would leave them too few
    uneven = not plain and light[0] / light[1] > 0.1
    return Targets(target_of(problem.loss, problem.y), weight, counts, plain, bool(uneven), peak)


def _bounded(weight: np.ndarray, reducer: Reducer) -> np.ndarray:
    """Weights beyond 2**±200 scaled back by a power of two: only proportions count, and products must not overflow."""
    peak = reducer.largest(float(weight.max()) if len(weight) else 0.0) or 1.0
    return weight if 2.0**-200 < peak < 2.0**200 else np.ldexp(weight, -math.frexp(peak)[1])


def _start(
    problem: Problem, targets: Targets, maker: PairsMaker, backend: CpuBackend, index: np.ndarray, from_zero: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The constants, and the raw predictions before the first stage."""
    if from_zero:
        initial = np.zeros(problem.loss.n_outputs)
    else:
        initial = starting_values(problem.loss, targets, maker, backend, problem.offset, index)
    if problem.structure is not None:
        initial = problem.structure.mixed(problem.structure.initial, initial)
    raw = np.repeat(initial[:, None], len(problem.y), axis=1)
    return initial, raw if problem.offset is None else raw + problem.offset


def _residuals(
    problem: Problem, targets: Targets, parts: Parts, backend: CpuBackend, initial: np.ndarray, raw: np.ndarray
) -> Residuals | None:
    """What stands in for the maker of pairs where gradients can stay integers (residuals.py), and rounds the start; or
    None. It depends on what is asked for and on the targets, not on who holds which rows."""
    plain = type(problem.loss) is SquaredError and targets.plain and problem.offset is None
    usual = isinstance(parts.rule, LeafRule) and type(parts.learner) is TreeLearner and type(parts.sampler) is Sampler
    if not (plain and usual):
        return None
    chosen = residual_packing(problem.y, float(initial[0]), backend, ~problem.skip)
    if chosen is None:
        return None
    result = Residuals(problem.loss, targets.y, targets.weight, backend, problem.skip, chosen)
    raw[:] = np.rint(initial[0] * chosen.grad_scale) / chosen.grad_scale
    if not result.usable(raw if problem.raw is None else problem.raw):
        raw[:], backend.keeping = initial[:, None], False
        return None
    initial[:] = np.rint(initial[0] * chosen.grad_scale) / chosen.grad_scale
    return result


class _Watcher:
    """Deviance on the validation sample, kept up to date tree by tree."""

    def __init__(
        self, validation: Validation | None, loss: Loss, initial: np.ndarray, option: np.ndarray, backend: CpuBackend
    ) -> None:
        self.validation, self.backend, self.loss = validation, backend, loss
        self.raw = np.empty((0, 0))
        if validation is None:
            return
        self.maker = PairsMaker(loss, validation.y, _bounded(validation.weight, backend.team.reducer), backend.team)
        self.raw = np.repeat(initial[:, None], len(validation.y), axis=1)
        if validation.offset is not None:
            self.raw += validation.offset
        self.maker(self.raw, option)  # the unit of the deviance is that of the constant, also in a warm start
        if validation.raw is not None:
            self.raw = validation.raw

    def __call__(self, terms: tuple[Any, ...], option: np.ndarray) -> float | None:
        if self.validation is None:
            return None
        self.add(terms)
        return self.now(option)

    def now(self, option: np.ndarray) -> float | None:
        """The deviance of what has been added so far."""
        return None if self.validation is None else self.maker(self.raw, option).deviance

    def add(self, terms: tuple[Any, ...]) -> None:
        """A stage, without looking at the deviance."""
        validation = self.validation
        if validation is None:
            return
        for output, term in enumerate(terms):
            if isinstance(term, Tree):
                self.backend.add_tree(term, validation.bins, validation.index, self.raw[output])
            else:
                self.raw[output] += term.predict(validation.X)


# --- checkpoints -----------------------------------------------------------------------------------------------------


def _newest(checkpoints: Checkpoints, problem: Problem, tree: TreeParams, params: BoostParams) -> Progress | None:
    held_out = problem.validation
    targets = [problem.y, problem.weight, problem.skip, problem.offset, problem.raw]
    if held_out is not None:
        targets += [held_out.bins.by_row, held_out.index, held_out.y, held_out.weight, held_out.offset]
    prints = run_prints(problem.bins, problem.rows, problem.cuts, targets, problem.before, problem.loss, tree, params)
    found = checkpoints.newest(prints, problem.loss.n_outputs, problem.schema.n_columns, params.n_estimators)
    before = 0 if problem.before is None else len(problem.before.stages)
    return found if found is not None and len(found.stages) > before else None


def _progress(
    problem: Problem,
    stages: list[tuple[Any, ...]],
    monitor: Monitor,
    maker: PairsMaker,
    watcher: _Watcher,
    raw: np.ndarray,
    stop: bool,
    checkpoints: Checkpoints,
) -> Progress:
    history = replace(monitor.history(), best=len(stages))
    held_out = watcher.maker.unit if watcher.validation is not None else 0.0
    known = digest([_in_training(maker.current(raw), problem), watcher.raw]) if checkpoints.digests else ""
    return Progress(tuple(stages), history, (maker.unit, held_out), known, stop)


def _in_training(raw: np.ndarray, problem: Problem) -> np.ndarray:
    """The predictions that training depends on."""
    return raw[:, ~problem.skip] if problem.skip.any() else raw


def _resume(
    found: Progress,
    first: int,
    problem: Problem,
    maker: PairsMaker,
    watcher: _Watcher,
    backend: CpuBackend,
    raw: np.ndarray,
) -> None:
    """Add the trees of a checkpoint, from stage `first` on, in the order in which they were added: the same bits."""
    for trees in found.stages[first:]:
        for output, tree in enumerate(trees):
            backend.add_tree(tree, problem.bins, problem.rows, raw[output])
        watcher.add(trees)
    if found.raw and digest([_in_training(raw, problem), watcher.raw]) != found.raw:
        raise InputError(
            "The trees of the checkpoint do not give the predictions that it was written with; the data or the machine "
            "differ. Start afresh with resume=False."
        )
    maker.unit = found.units[0]
    if watcher.validation is not None:
        watcher.maker.unit = found.units[1]
