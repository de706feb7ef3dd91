"""The tree as base learner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stagewise.backends.cpu import CpuBackend, Grown
from stagewise.kernels.exact import Packing, stream_key
from stagewise.tree.tree import Tree

__all__ = ["TreeLearner", "TreeTerm"]

_PURPOSE = 0x636F6C73  # "cols"


@dataclass(frozen=True, slots=True, eq=False)
class TreeTerm:
    """One tree of a stage, with its leaf values, and the means to add it to the predictions of the training rows."""

    tree: Tree
    grown: Grown
    values: np.ndarray  # in the order of grown.leaves

    def add_to(self, raw: np.ndarray, rest: np.ndarray, backend: CpuBackend) -> None:
        """raw += term: rows that grew the tree by their leaf, the others (`rest`) by walking down the tree."""
        backend.add_leaves(self.grown, self.values, raw)
        if len(rest):
            backend.add_tree(self.tree, backend.bins, rest, False, raw)


class TreeLearner:
    """Grows a tree on packed pairs."""

    def __init__(self, backend: CpuBackend, seed: int) -> None:
        self.backend, self.seed = backend, seed

    def fit(self, packed: Packing, index: np.ndarray, stage: int, output: int) -> Grown:
        """The tree's structure; its leaves are the rule's business."""
        return self.backend.grow(packed, index, stream_key(self.seed, _PURPOSE, stage, output))

    def term(self, grown: Grown, values: np.ndarray, cover: np.ndarray) -> TreeTerm:
        """The structure with leaf values."""
        by_node = np.empty_like(grown.order)
        by_node[grown.order] = np.arange(len(grown.order))
        return TreeTerm(grown.tree.with_leaves(values[by_node], cover[by_node]), grown, values)
