"""A fitted tree: frozen arrays, one entry a node; node 0 is the root and the right child follows the left one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Tree"]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """The record that prediction, explanation and files read.

    Rows with value <= threshold go left. Rows whose value is missing go left where missing_left is set: the side that
    gained more in training or, when nothing was missing there, the side with more rows (ties: left).
    """

    feature: np.ndarray  # int32, -1 for leaves
    threshold: np.ndarray  # float64
    cut: np.ndarray  # int32: the last bin that goes left, the same test on bin codes
    missing_left: np.ndarray  # uint8
    left: np.ndarray  # int32, -1 for leaves; the right child is left + 1
    value: np.ndarray  # float64: what a leaf adds to the raw prediction (already shrunk by the learning rate)
    gain: np.ndarray  # float64: improvement in squared error of the split (Friedman 2001, eq. 35)
    count: np.ndarray  # int64: training rows
    cover: np.ndarray  # float64: their weight
    depth: np.ndarray  # int32

    @property
    def n_nodes(self) -> int:
        return len(self.left)

    @property
    def leaves(self) -> np.ndarray:
        """Node numbers of the leaves, ascending."""
        return np.flatnonzero(self.left < 0)

    def with_leaves(self, values: np.ndarray, cover: np.ndarray) -> Tree:
        """The same tree with these leaf values and weights (in the order of `leaves`); inner cover is summed up."""
        value, total = np.zeros(self.n_nodes), np.zeros(self.n_nodes)
        value[self.leaves], total[self.leaves] = values, cover
        for node in np.flatnonzero(self.left >= 0)[::-1]:  # children come after their parent
            total[node] = total[self.left[node]] + total[self.left[node] + 1]
        return replace(self, value=value, cover=total)
