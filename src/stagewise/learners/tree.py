"""The tree as base learner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.backends.grown import Grown
from stagewise.backends.roots import Roots, together_pays
from stagewise.kernels.exact import Packing, packing, power_above, stream_key
from stagewise.kernels.histogram import NO_ROOT
from stagewise.kernels.pairs import Update
from stagewise.learners.base import Working
from stagewise.losses.base import Loss
from stagewise.tree.tree import Tree

__all__ = ["TreeFit", "TreeLearner"]

_PURPOSE = 0x636F6C73  # "cols"
_NO_ROWS = np.empty(0, np.uint32)
_NO_KEY = np.uint64(0)
_LEAST_SQUARES = Loss()  # its leaves are -G/H


class TreeFit:
    """A grown tree. Its leaves are the rule's business; `values` and `scaled` give them the mean of the response."""

    def __init__(self, backend: CpuBackend, grown: Grown, working: Working, rest: np.ndarray | None) -> None:
        self.backend, self.grown, self.working, self.rest = backend, grown, working, rest

    def sums(self) -> np.ndarray:
        """(n_nodes, 4): exact sums of the working grad and hess of each leaf, the number of rows, and -G/H."""
        w = self.working
        units = np.array([power_above(w.grad_peak), power_above(w.hess_peak), 1.0])
        hess = np.ones_like(w.grad) if w.constant else w.hess
        return self.backend.leaf_sums(self.grown, w.grad, hess, np.empty(0), units, _LEAST_SQUARES)

    def scaled(self, step: float) -> Tree:
        sums = self.sums()
        return self.grown.tree.with_leaves(np.ascontiguousarray(sums[:, 3]), np.ascontiguousarray(sums[:, 1]), step)

    def values(self) -> np.ndarray:
        out = np.zeros(len(self.working.grad))
        self.backend.add_leaves(self.scaled(1.0), self.rest, out)
        return out

    def add(self, terms: Sequence[Tree], raw: np.ndarray, output: int) -> None:
        for tree in terms:
            self.backend.add_leaves(tree, self.rest, raw[output])

    def update(self, tree: Tree) -> Update:
        """How the next evaluation of the loss adds the tree on its way."""
        return self.backend.update(tree, self.rest)


class TreeLearner:
    """Grows trees on working pairs, turned into integers first."""

    def __init__(self, backend: CpuBackend, seed: int, n_outputs: int = 1) -> None:
        self.backend, self.seed, self.outputs = backend, seed, range(n_outputs)
        self._roots: Roots | None = None

    def fit(self, working: Working, index: np.ndarray, rest: np.ndarray | None, stage: int, output: int) -> TreeFit:
        """The tree's structure, grown on the rows of `index`."""
        w = working
        key, listed = _NO_KEY, index if w.listed else _NO_ROWS
        if self.backend.draws_columns:
            key = stream_key(self.seed, _PURPOSE, stage, output)
        packed, root = self._packed(working, index, listed if w.listed else None, output)
        grown = self.backend.grow(packed, index, rest, key, listed, root)
        return TreeFit(self.backend, grown, working, rest)

    def _packed(
        self, working: Working, index: np.ndarray, listed: np.ndarray | None, output: int
    ) -> tuple[Packing, np.ndarray]:
        """How the pairs are packed in the backend now, and the histogram of the root if it is there."""
        w, backend = working, self.backend
        if w.packed is not None:
            return w.packed, w.root
        peaks = w.grad_peak, w.hess_peak
        if w.every is not None and not w.wide and together_pays(backend, len(self.outputs)):
            if self._roots is None:
                self._roots = Roots(backend, len(self.outputs))
            chosen = packing(*peaks, backend.n_training, constant_hess=w.constant)
            root = self._roots(*w.every, chosen, index, output)
            if root is not None:
                return chosen, root
        return backend.pack(w.grad, w.hess, peaks, w.constant, w.wide, w.by_weight, listed), NO_ROOT
