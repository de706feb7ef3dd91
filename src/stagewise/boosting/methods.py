"""Which objects make which method: each function here plugs a rule, a learner and a sampler into the one loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.boosting.linesearch import LineSearchRule
from stagewise.boosting.loop import Bench, Method, Parts, Problem
from stagewise.boosting.onesided import Gather, GossSampler, VarianceSampler
from stagewise.boosting.response import GentleRule, LogitRule
from stagewise.boosting.rules import GradientRule, NewtonRule, Rule
from stagewise.boosting.sampling import Sampler, TrimmingSampler, UniformSampler
from stagewise.boosting.votes import ClassTreeVoteRule, ForeignVoteRule, TreeVoteRule
from stagewise.learners.base import Learner
from stagewise.learners.classes import ClassTreeLearner
from stagewise.learners.columns import LineLearner, SplineLearner
from stagewise.learners.foreign import ClassifierLearner, RegressorLearner
from stagewise.learners.refit import RefitLearner
from stagewise.learners.tree import TreeLearner
from stagewise.params import TreeParams

__all__ = [
    "adaboost",
    "any_learner",
    "componentwise",
    "gentleboost",
    "gradient_boosting",
    "logitboost",
]


_WARM_UP = 0.2
"""Stages that see all rows before goss begins, times the learning rate. LightGBM's 1 is no better: docs/sampling.md."""


def _sampler(bench: Bench) -> Sampler:
    """All rows, or a share of them; trimmed by influence where that is asked for."""
    problem, params = bench.problem, bench.params
    given = (len(problem.y), problem.skip, bench.backend.team, params.seed)
    gather = Gather(bench.targets.weight, bench.backend.foresee, bench.backend.drawn)
    if params.sampling == "goss":
        return GossSampler(*given, int(_WARM_UP / params.learning_rate), params.top, params.rest, problem.shard, gather)
    if params.sampling == "mvs" and params.subsample < 1.0:
        return VarianceSampler(*given, params.subsample, problem.shard, gather)
    chosen = (
        Sampler(len(problem.y), problem.skip, problem.shard)
        if params.subsample >= 1.0
        else UniformSampler(len(problem.y), problem.skip, params.subsample, params.seed, problem.shard)
    )
    return TrimmingSampler(chosen, params.trimming) if params.trimming > 0.0 else chosen


def _values(problem: Problem) -> np.ndarray:
    """X, where rows that take no part have the values of one that does.

    Whatever stood there, a learner predicts something ordinary for them: the loss of a prediction out of all bounds is
    infinite, and 0 times that is no number.
    """
    X, skip = problem.X, problem.skip
    assert X is not None
    return np.where(skip[:, None], X[np.argmin(skip)], X) if skip.any() else X


def _learner(bench: Bench, estimator: Any, seed: Any) -> Learner:
    """The engine's trees, or a foreign regressor."""
    n_outputs = bench.problem.loss.n_outputs
    if estimator is None:
        return TreeLearner(bench.backend, bench.params.seed, n_outputs)
    return RegressorLearner(estimator, _values(bench.problem), seed, n_outputs)


def gradient_boosting(tree: TreeParams) -> Method:
    """Friedman's Algorithms 2 to 6 and Newton boosting: trees, finished leaf by leaf."""

    def build(bench: Bench) -> Parts:
        loss, params = bench.problem.loss, bench.params
        rule = (NewtonRule if params.criterion == "newton" else GradientRule)(loss, bench.targets, bench.backend)
        kept = bench.problem.structure
        learner: Learner = (
            TreeLearner(bench.backend, params.seed, loss.n_outputs)
            if kept is None
            else RefitLearner(bench.backend, kept, loss.n_outputs)
        )
        return Parts(rule, learner, _sampler(bench))

    return Method(build, tree)


def any_learner(tree: TreeParams, estimator: Any, seed: Any, search: str) -> Method:
    """Friedman's Algorithm 1: any learner, and a line search; "leaves" re-fits the leaves of our own trees."""

    def build(bench: Bench) -> Parts:
        loss, targets, backend = bench.problem.loss, bench.targets, bench.backend
        rule: Rule = (
            GradientRule(loss, targets, backend)
            if search == "leaves"
            else LineSearchRule(loss, targets, backend, search)
        )
        return Parts(rule, _learner(bench, estimator, seed), _sampler(bench))

    return Method(build, tree)


def logitboost(tree: TreeParams, estimator: Any, seed: Any, z_max: float) -> Method:
    """Log-loss, weighted least squares on clipped working responses."""

    def build(bench: Bench) -> Parts:
        rule = LogitRule(bench.problem.loss, bench.targets, bench.backend, z_max)
        return Parts(rule, _learner(bench, estimator, seed), _sampler(bench))

    return Method(build, tree, from_zero=True)


def gentleboost(tree: TreeParams, estimator: Any, seed: Any) -> Method:
    """Exponential loss, weighted least squares on ±1."""

    def build(bench: Bench) -> Parts:
        rule = GentleRule(bench.problem.loss, bench.targets, bench.backend)
        return Parts(rule, _learner(bench, estimator, seed), _sampler(bench))

    return Method(build, tree, from_zero=True)


def adaboost(tree: TreeParams, estimator: Any, seed: Any, n_classes: int) -> Method:
    """Exponential loss, weak classifiers that vote."""

    def build(bench: Bench) -> Parts:
        problem, sampler = bench.problem, _sampler(bench)
        parts = (problem.loss, bench.targets, bench.backend, n_classes)
        if estimator is not None:
            learner = ClassifierLearner(estimator, _values(problem), problem.y, n_classes, seed)
            return Parts(ForeignVoteRule(*parts), learner, sampler)
        if n_classes == 2:
            return Parts(TreeVoteRule(*parts), TreeLearner(bench.backend, bench.params.seed), sampler)
        return Parts(ClassTreeVoteRule(*parts), ClassTreeLearner(bench.backend, problem.y, n_classes), sampler)

    return Method(build, tree, from_zero=True)


def _column_learner(bench: Bench, base: str, df: float) -> LineLearner | SplineLearner:
    """Lines or splines through the columns of the problem."""
    problem, weight = bench.problem, bench.targets.weight
    weight = weight if len(weight) else np.ones(len(problem.y))
    given = (_values(problem), weight, bench.backend.team, problem.loss.n_outputs)
    return LineLearner(*given) if base == "linear" else SplineLearner(*given, df=df)


def componentwise(tree: TreeParams, base: str, df: float, search: str) -> Method:
    """L2Boosting and its kin: the negative gradient is fitted by one column a stage, and mostly added as it is."""

    def build(bench: Bench) -> Parts:
        problem, params = bench.problem, bench.params
        learner: Learner = (
            TreeLearner(bench.backend, params.seed, problem.loss.n_outputs)
            if base == "stump"
            else _column_learner(bench, base, df)
        )
        rule = LineSearchRule(problem.loss, bench.targets, bench.backend, search)
        return Parts(rule, learner, _sampler(bench))

    return Method(build, tree)
