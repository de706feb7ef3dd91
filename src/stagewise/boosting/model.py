"""The fitted model: what boosting returns and everything else reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stagewise.data.binning import Marginal
from stagewise.data.sparse import Sparse
from stagewise.data.table import Schema
from stagewise.losses.base import Loss
from stagewise.tree.compact import Compact
from stagewise.tree.forest import Forest
from stagewise.tree.tree import Tree

__all__ = ["History", "Model"]


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Deviance after each stage: index 0 is the first stage. validation is empty without a validation sample."""

    train: np.ndarray
    validation: np.ndarray
    rows: np.ndarray  # rows that each stage's trees were grown on
    best: int  # the number of stages kept
    initial: float  # training deviance of the constant alone
    kept: np.ndarray = field(default_factory=lambda: np.empty(0))  # share of the training rows that trees were grown on
    notes: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # what the method says of each stage: "error", "step" ...

    def __repr__(self) -> str:
        parts = [f"{len(self.train)} stages", f"train {self.train[-1]:.6g}" if len(self.train) else "no stage"]
        first = len(self.train) - len(self.validation)  # a warm start may have been watched from a later stage on
        if 0 <= self.best - 1 - first < len(self.validation):
            parts.append(f"validation {self.validation[self.best - 1 - first]:.6g} at stage {self.best}")
        return f"History({', '.join(parts)})"


@dataclass(frozen=True, eq=False)
class Model:
    """f(x) = initial + Σ terms; stage m holds n_outputs trees, one for each output.

    Leaf values are already multiplied by the learning rate. Models of other learners hold other terms (learners/),
    all of them with `predict(X)`: n_outputs of them in a stage, or one that adds to all outputs.
    """

    loss: Loss
    initial: np.ndarray  # (n_outputs,)
    stages: tuple[tuple[Any, ...], ...]  # of Tree, or of terms of other learners
    cuts: tuple[np.ndarray, ...]
    schema: Schema
    history: History
    marginals: tuple[Marginal, ...] = ()  # of the training columns; empty for a model from elsewhere
    _forest: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_outputs(self) -> int:
        return len(self.initial)

    @property
    def of_trees(self) -> bool:
        """Every term is a tree."""
        return all(isinstance(term, Tree) for stage in self.stages for term in stage)

    @property
    def forest(self) -> Forest:
        """All trees laid out for prediction; made on first use."""
        made = self._forest.get("forest")
        if made is None:
            trees = [tree for stage in self.stages for tree in stage]
            made = self._forest["forest"] = Forest.of(trees, [k for stage in self.stages for k in range(len(stage))])
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_forest": {}}

    def raw(self, X: np.ndarray | Sparse, n_threads: int = 1, offset: np.ndarray | None = None) -> np.ndarray:
        """Raw predictions (n_outputs, n_rows) of a row-major or sparse float matrix, on top of an offset of that
        shape."""
        out = np.repeat(self.initial[:, None], X.shape[0], axis=1)
        if offset is not None:  # before the trees, in the order of training: the same bits
            out += offset
        self._add(X, out, 0, len(self.stages), n_threads)
        return out

    def compact(self, first: int, last: int) -> Compact:
        """The trees of stages first..last laid out for sparse rows; those of all stages are kept."""
        whole = (first, last) == (0, len(self.stages))
        made = self._forest.get("compact") if whole else None
        if made is None:
            stages = self.stages[first:last]
            trees = [tree for stage in stages for tree in stage]
            made = Compact.of(trees, [k for stage in stages for k in range(len(stage))], self.schema.n_columns)
            if whole:
                self._forest["compact"] = made
        return made

    def leaves(self, X: np.ndarray | Sparse, n_threads: int = 1) -> np.ndarray:
        """(n_rows, n_trees): the node number of the leaf that each row reaches in each tree."""
        if isinstance(X, Sparse):
            return self.compact(0, len(self.stages)).leaves(X, n_threads)
        return self.forest.leaves(X, n_threads)

    def _add(self, X: np.ndarray | Sparse, out: np.ndarray, first: int, last: int, n_threads: int) -> None:
        """out += the terms of stages first..last."""
        if isinstance(X, Sparse):
            if self.of_trees:
                self.compact(first, last).add(X, out, n_threads)
                return
            X = X.dense()
        if "forest" in self._forest or self.of_trees:
            self.forest.add(X, out, first * self.n_outputs, last * self.n_outputs, n_threads)
            return
        for stage in self.stages[first:last]:
            if len(stage) == 1:
                out += stage[0].predict(X)
                continue
            for output, term in enumerate(stage):
                out[output] += term.predict(X)

    def staged_raw(self, X: np.ndarray | Sparse, n_threads: int = 1) -> Iterator[np.ndarray]:
        """Raw predictions after each stage; the array is a fresh one each time."""
        out = np.repeat(self.initial[:, None], X.shape[0], axis=1)
        for stage in range(len(self.stages)):
            self._add(X, out, stage, stage + 1, n_threads)
            yield out.copy()

    def importance(self) -> np.ndarray:
        """Squared improvement summed over the splits on each column and averaged over the trees (ESL 10.13.1)."""
        total = np.zeros(self.schema.n_columns)
        trees = [tree for stage in self.stages for tree in stage]
        for tree in trees:
            inner = tree.left >= 0
            np.add.at(total, tree.feature[inner], tree.gain[inner])
        return total / max(1, len(trees))
