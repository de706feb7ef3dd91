"""A classification tree with K classes as base learner: AdaBoost's own stump where there are more than two classes.

Two classes need none of this: least squares on ±1 is the Gini index up to a factor, and the engine's trees do that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.data.bundling import unbundled
from stagewise.data.dataset import padded_cuts
from stagewise.kernels.classes import class_splits, class_sums
from stagewise.kernels.partition import MISSING
from stagewise.kernels.split import NOT_SEEN
from stagewise.learners.base import Working
from stagewise.tree.tree import Tree

__all__ = ["ClassTreeFit", "ClassTreeLearner"]


class _Split(NamedTuple):
    column: int
    cut: int  # the last bin on the left
    side: int  # of missing values: 1 is left
    gain: float
    codes: frozenset[int] | None = None  # a split by a set: the codes on the left


class _Node(NamedTuple):
    split: _Split | None  # None: a leaf
    left: int
    depth: int


class ClassTreeFit:
    """A grown tree, and the class weights of its nodes."""

    def __init__(self, tree: Tree, node: np.ndarray, weights: np.ndarray) -> None:
        """node (n_rows,): the leaf of every row. weights int64 (n_nodes, K), exact."""
        self.tree, self.node, self.weights = tree, node, weights

    def class_weights(self) -> np.ndarray:
        """(n_leaves, K), in the order of `tree.leaves`."""
        chosen: np.ndarray = self.weights[self.tree.leaves]
        return chosen

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
        bins = unbundled(backend.bins)  # columns are looked at one by one
        self._n_bins, codes = bins.n_bins, bins.by_column
        self._codes = codes[:, backend.places] if len(backend.places) else codes  # of a subset: a copy
        self._cuts = padded_cuts(backend.cuts)
        self._bits = min(40, 61 - max(1, len(y)).bit_length())

    def fit(self, working: Working, index: np.ndarray, rest: np.ndarray, stage: int, output: int) -> ClassTreeFit:
        weight = np.rint(working.hess * (2.0**self._bits / working.hess_peak)).astype(np.int64)
        used = np.ones(len(weight), np.bool_)
        used[rest] = False
        node = np.zeros(len(weight), np.int32)  # where every row is; those of `rest` walk down too
        grown: list[_Node] = []
        sums: list[np.ndarray] = []
        n_level, depth = 1, 0
        while n_level:
            first = len(grown)  # this level's nodes are first, first + 1, ...
            level = np.where(used & (node >= first), node - first, -1).astype(np.int32)
            sums.append(self._sums(level, weight, n_level))
            splits = self._splits(level, weight, sums[-1], depth)
            following = first + n_level
            for m, split in enumerate(splits):
                if split is not None:
                    split = self._divide(node, used, first + m, split, following)
                grown.append(_Node(split, -1 if split is None else following, depth))
                following += 0 if split is None else 2
            n_level, depth = following - len(grown), depth + 1
        scale = working.hess_peak * 0.5**self._bits
        return ClassTreeFit(self._harvest(grown, np.concatenate(sums), scale), node, np.concatenate(sums)[:, :-1])

    def _splits(self, level: np.ndarray, weight: np.ndarray, whole: np.ndarray, depth: int) -> list[_Split | None]:
        """The best split of each node of a level; None where nothing improves. Ties: the lowest column."""
        backend, n_nodes = self.backend, len(whole)
        if depth >= backend.params.max_depth:
            return [None] * n_nodes
        gain = np.zeros((backend.n_columns, n_nodes))
        cut, side = np.zeros(gain.shape, np.int64), np.zeros(gain.shape, np.int64)
        hist = np.empty((backend.team.n_threads, n_nodes, 256, self.n_classes + 1), np.int64)
        backend.team.run(
            class_splits, self._codes, self._n_bins, backend.in_sets, level, self.code, weight, whole,
            np.int64(backend.params.min_samples_leaf), hist, gain, cut, side,
        )  # fmt: skip
        best = gain.argmax(axis=0).tolist()
        return [
            _Split(j, int(cut[j, m]), int(side[j, m]), float(gain[j, m])) if gain[j, m] > 0.0 else None
            for m, j in enumerate(best)
        ]

    def _divide(self, node: np.ndarray, used: np.ndarray, number: int, split: _Split, left: int) -> _Split:
        """Send the rows of a node to its children, `left` and `left + 1`; the split, with a side for missing values."""
        rows = np.flatnonzero(node == number)
        codes = self._codes[split.column, rows]
        missing, goes_left = codes == MISSING, codes <= split.cut
        if self.backend.in_sets[split.column]:
            there = set(codes[used[rows]].tolist())
            chosen = {split.cut} - {MISSING}
            if 2 * int((codes[used[rows]] == split.cut).sum()) >= int(used[rows].sum()):
                chosen |= set(range(int(self._n_bins[split.column]))) - there  # where most rows go
            split, goes_left = split._replace(cut=0, codes=frozenset(chosen)), np.isin(codes, list(chosen))
        if split.side == NOT_SEEN:  # the side with more rows; ties: left
            known = used[rows] & ~missing
            split = split._replace(side=int(2 * int(goes_left[known].sum()) >= int(known.sum())))
        node[rows] = np.where(np.where(missing, split.side == 1, goes_left), left, left + 1)
        return split

    def _sums(self, node: np.ndarray, weight: np.ndarray, n_nodes: int) -> np.ndarray:
        """int64 (n_nodes, K + 1): class weights and rows of each node."""
        team = self.backend.team
        out = np.zeros((team.n_threads, n_nodes, self.n_classes + 1), np.int64)
        team.run(class_sums, node, self.code, weight, out)
        total: np.ndarray = out.sum(axis=0)
        return total

    def _harvest(self, grown: list[_Node], sums: np.ndarray, scale: float) -> Tree:
        """The nodes as a frozen tree; `scale` turns integer weights back."""
        leaf = _Split(-1, 0, 0, 0.0)
        splits = [leaf if node.split is None else node.split for node in grown]
        columns = np.array([split.column for split in splits], np.int32)
        cuts = np.array([split.cut for split in splits], np.int32)
        by_set = np.array([split.codes is not None for split in splits])
        sets = np.zeros((int(by_set.sum()), 4), np.uint64)
        for k, split in enumerate(split for split in splits if split.codes is not None):
            for b in split.codes or ():
                sets[k, b // 64] |= np.uint64(1 << (b % 64))
        return Tree(
            feature=columns,
            threshold=np.where((columns >= 0) & ~by_set, self._cuts[np.maximum(columns, 0), cuts], 0.0),
            cut=cuts,
            missing_left=np.array([split.side for split in splits], np.uint8),
            left=np.array([node.left for node in grown], np.int32),
            value=np.zeros(len(grown)),
            gain=np.array([split.gain for split in splits]) * scale,
            count=sums[:, -1].copy(),
            cover=sums[:, :-1].sum(axis=1) * scale,
            depth=np.array([node.depth for node in grown], np.int32),
            subset=np.where(by_set, np.cumsum(by_set) - 1, -1).astype(np.int32) if len(sets) else np.empty(0, np.int32),
            sets=sets,
        )
