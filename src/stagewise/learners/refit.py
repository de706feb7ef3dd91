"""The learner that keeps the trees of a model and gives their leaves new values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.backends.grown import Grown
from stagewise.data.sparse import Sparse
from stagewise.learners.base import Working
from stagewise.learners.tree import TreeFit
from stagewise.tree.compact import Compact
from stagewise.tree.forest import Forest
from stagewise.tree.tree import NO_SHRINKAGE, Shrink, Tree

__all__ = ["RefitLearner", "Structure"]


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """The trees to keep, the rows to refit them on, and the share of the old values that stays."""

    stages: Sequence[tuple[Tree, ...]]
    initial: np.ndarray  # (n_outputs,)
    X: np.ndarray | Sparse  # (n_rows, n_columns)
    decay: float

    def mixed(self, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        return self.decay * old + (1.0 - self.decay) * new


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Kept(Tree):
    """A tree whose leaves remember what they were; those that no row reaches stay as they are."""

    old: np.ndarray
    structure: Structure

    def with_leaves(self, values: np.ndarray, weights: np.ndarray, rate: float, shrink: Shrink = NO_SHRINKAGE) -> Tree:
        plain = Tree(**{field.name: getattr(self, field.name) for field in fields(Tree)})
        new = plain.with_leaves(values, weights, rate, shrink)
        reached = (self.left < 0) & (self.count > 0)
        new.value[:] = np.where(reached, self.structure.mixed(self.old, new.value), self.old)
        return new


class RefitLearner:
    """Plays the part of `TreeLearner`, with trees that are there already."""

    def __init__(self, backend: CpuBackend, structure: Structure, n_outputs: int) -> None:
        self.backend, self.structure, self.outputs = backend, structure, range(n_outputs)

    def fit(self, working: Working, index: np.ndarray, rest: np.ndarray, stage: int, output: int) -> TreeFit:
        """The tree of this stage and output, with the rows that reach its leaves."""
        w = working
        packed = self.backend.pack(w.grad, w.hess, (w.grad_peak, w.hess_peak), w.constant, w.wide, w.by_weight)
        tree = self.structure.stages[stage][output]
        X, n_threads = self.structure.X, self.backend.team.n_threads
        if isinstance(X, Sparse):
            labels = Compact.of([tree], [0], X.shape[1]).leaves(X, n_threads)[:, 0]
        else:
            labels = Forest.of([tree], [0]).leaves(X, n_threads)[:, 0]
        grown = self.backend.adopt(tree, labels, rest)
        parts = {field.name: getattr(grown.tree, field.name) for field in fields(Tree)}
        kept = Grown(_Kept(**parts, old=tree.value, structure=self.structure), grown.leaves, not packed.narrow)
        return TreeFit(self.backend, kept, working, rest)
