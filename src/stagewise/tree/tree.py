"""A fitted tree: frozen arrays, one entry a node; node 0 is the root and the right child follows the left one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from stagewise.kernels.harvest import set_leaves

__all__ = ["NO_SHRINKAGE", "Shrink", "Tree"]

Shrink = tuple[np.ndarray, float, float, float]
"""How leaves shrink: their sums (G, H, ...) by node, l1 and l2, and the largest size; see `set_leaves`."""

NO_SHRINKAGE: Shrink = (np.empty((0, 4)), 0.0, 0.0, math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """The record that prediction, explanation and files read.

    Rows with value <= threshold go left. Rows whose value is missing go left where missing_left is set: the side that
    gained more in training or, when nothing was missing there, the side with more rows (ties: left).

    A split by a set of categories has subset >= 0, the row of `sets` to ask: a row with code c goes left when bit c is
    set (bit c % 64 of word c // 64; words that are not there are 0). Its threshold and cut are 0. The value of a
    categorical column is the code as a float, NaN for what is missing or was not seen in training.
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
    subset: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))  # int32, -1; empty: no sets at all
    sets: np.ndarray = field(default_factory=lambda: np.empty((0, 4), np.uint64))  # uint64 (n_sets, n_words)

    @property
    def n_nodes(self) -> int:
        return len(self.left)

    @property
    def leaves(self) -> np.ndarray:
        """Node numbers of the leaves, ascending."""
        return np.flatnonzero(self.left < 0)

    @classmethod
    def stump(cls, count: int) -> Tree:
        """The tree of one leaf."""
        none, zero = np.full(1, -1, np.int32), np.zeros(1)
        counts = np.array([count], np.int64)
        flag, depth = np.zeros(1, np.uint8), np.zeros(1, np.int32)
        return cls(none, zero, depth, flag, none, zero, zero, counts, counts.astype(np.float64), depth)

    def with_leaves(self, values: np.ndarray, weights: np.ndarray, rate: float, shrink: Shrink = NO_SHRINKAGE) -> Tree:
        """The same tree with leaf values (times rate) and weights by node; those of inner nodes are not looked at."""
        value, cover = np.empty(self.n_nodes), np.empty(self.n_nodes)
        set_leaves(self.left, values, weights, *shrink, rate, value, cover)
        return Tree(
            self.feature, self.threshold, self.cut, self.missing_left, self.left, value, self.gain, self.count, cover,
            self.depth, self.subset, self.sets,
        )  # fmt: skip
