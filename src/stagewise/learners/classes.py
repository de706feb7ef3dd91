"""A classification tree with K classes as base learner: AdaBoost's own stump where there are more than two classes.

Two classes need none of this: least squares on ±1 is the Gini index up to a factor, and the engine's trees do that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.data.dataset import padded_cuts
from stagewise.kernels.classes import class_splits, class_sums
from stagewise.kernels.split import NOT_SEEN
from stagewise.learners.base import Working
from stagewise.tree.tree import Tree

__all__ = ["ClassTreeFit", "ClassTreeLearner"]


class ClassTreeFit:
    """A grown tree, and the class weights of its nodes."""

    def __init__(self, tree: Tree, node: np.ndarray, weights: np.ndarray) -> None:
        """node (n_rows,): the leaf of every row. weights int64 (n_nodes, K), exact."""
        self.tree, self.node, self.weights = tree, node, weights

    def class_weights(self) -> np.ndarray:
        """(n_leaves, K), in the order of `tree.leaves`."""
        return self.weights[self.tree.leaves]

    def voting(self, choice: np.ndarray, step: float) -> tuple[Tree, ...]:
        """K trees of one structure: leaf l adds `step` to class choice[l] and -step/(K-1) to the others."""
        n_classes = self.weights.shape[1]
        trees = []
        for k in range(n_classes):
            value = np.zeros(self.tree.n_nodes)
            value[self.tree.leaves] = np.where(choice == k, step, -step / (n_classes - 1.0))
            trees.append(replace(self.tree, value=value))
        return tuple(trees)

    def add(self, terms: Sequence[Tree], raw: np.ndarray, output: int) -> None:
        for k, tree in enumerate(terms):
            raw[k] += tree.value[self.node]


class ClassTreeLearner:
    """Grows trees level by level; the weights of the rows become integers first, so that sums are exact."""

    outputs = range(1)

    def __init__(self, backend: CpuBackend, y: np.ndarray, n_classes: int) -> None:
        self.backend, self.code, self.n_classes = backend, y.astype(np.int64), n_classes
        self._cuts = padded_cuts(backend.cuts)
        self._bits = min(40, 61 - max(1, len(y)).bit_length())

    def fit(self, working: Working, index: np.ndarray, rest: np.ndarray, stage: int, output: int) -> ClassTreeFit:
        weight = np.rint(working.hess * (2.0**self._bits / working.hess_peak)).astype(np.int64)
        node = np.zeros(len(weight), np.int32)  # of the tree, of every row; rows of `rest` walk down too
        taking_part = np.ones(len(weight), np.bool_)
        taking_part[rest] = False
        columns: dict[str, list[float]] = {name: [] for name in ("feature", "cut", "missing_left", "left", "gain")}
        sums = [self._sums(np.where(taking_part, node, -1), weight, 1)]
        first, n_level, depth, depths = 0, 1, 0, [0]
        scale = working.hess_peak * 0.5**self._bits
        while n_level:
            open_node = np.where(taking_part & (node >= first), node - first, -1).astype(np.int32)
            splits = self._splits(open_node, weight, sums[-1]) if depth < self.backend.params.max_depth else None
            following = first + n_level
            for m in range(n_level):
                feature, cut, side, gain = (-1, 0, 0, 0.0) if splits is None else (column[m] for column in splits)
                inner = feature >= 0
                for name, value in zip(columns, (feature, cut, side, following if inner else -1, gain * scale), strict=True):
                    columns[name].append(value)
                if inner:
                    self._divide(node, open_node, first + m, m, columns, following, taking_part)
                    depths += [depth + 1, depth + 1]
                    following += 2
            n_level, first, depth = following - first - n_level, first + n_level, depth + 1
            if n_level:
                sums.append(self._sums(np.where(taking_part & (node >= first), node - first, -1), weight, n_level))
        return self._harvest(columns, np.concatenate(sums), np.array(depths, np.int32), node, scale)

    def _splits(self, open_node: np.ndarray, weight: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, ...] | None:
        """(feature, cut, side, gain) of each open node; feature -1 where nothing improves. Ties: the lowest column."""
        backend = self.backend
        bins, n_nodes, team = backend.bins, len(whole), backend.team
        gain = np.zeros((backend.n_columns, n_nodes))
        cut, side = np.zeros(gain.shape, np.int64), np.zeros(gain.shape, np.int64)
        hist = np.empty((team.n_threads, n_nodes, 256, self.n_classes + 1), np.int64)
        team.run(
            class_splits, bins.by_column, bins.n_bins, open_node, self.code, weight, whole,
            np.int64(backend.params.min_samples_leaf), hist, gain, cut, side,
        )  # fmt: skip
        best, own = gain.argmax(axis=0), np.arange(n_nodes)
        feature = np.where(gain[best, own] > 0.0, best, -1)
        return feature, cut[best, own], side[best, own], gain[best, own]

    def _divide(
        self, node: np.ndarray, open_node: np.ndarray, number: int, m: int, columns: dict[str, list[float]], left: int,
        taking_part: np.ndarray,
    ) -> None:  # fmt: skip
        """Send the rows of a node to its children, `left` and `left + 1`."""
        rows = np.flatnonzero(node == number)
        codes = self.backend.bins.by_column[int(columns["feature"][-1]), rows]
        goes_left = codes <= columns["cut"][-1]
        if columns["missing_left"][-1] == NOT_SEEN:  # the side with more rows; ties: left
            known = taking_part[rows] & (codes != 255)
            columns["missing_left"][-1] = int(2 * int(goes_left[known].sum()) >= int(known.sum()))
        goes_left = np.where(codes == 255, columns["missing_left"][-1] == 1, goes_left)
        node[rows] = np.where(goes_left, left, left + 1)

    def _sums(self, node: np.ndarray, weight: np.ndarray, n_nodes: int) -> np.ndarray:
        """int64 (n_nodes, K + 1): class weights and rows of each node."""
        team = self.backend.team
        out = np.zeros((team.n_threads, n_nodes, self.n_classes + 1), np.int64)
        team.run(class_sums, node.astype(np.int32), self.code, weight, out)
        return out.sum(axis=0)

    def _harvest(
        self, columns: dict[str, list[float]], sums: np.ndarray, depth: np.ndarray, node: np.ndarray, scale: float
    ) -> ClassTreeFit:
        feature, cut, missing_left, left = (
            np.array(columns[name]).astype(np.int32) for name in ("feature", "cut", "missing_left", "left")
        )
        inner = left >= 0
        tree = Tree(
            feature=feature,
            threshold=np.where(inner, self._cuts[np.where(inner, feature, 0), cut], 0.0),
            cut=np.where(inner, cut, 0).astype(np.int32),
            missing_left=np.where(inner, missing_left, 0).astype(np.uint8),
            left=left,
            value=np.zeros(len(left)),
            gain=np.where(inner, np.array(columns["gain"]), 0.0),
            count=sums[:, -1].copy(),
            cover=sums[:, :-1].sum(axis=1) * scale,
            depth=depth,
        )
        return ClassTreeFit(tree, node, sums[:, :-1])
