"""All trees of a model laid out for prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from stagewise.kernels.predict import (
    BLOCK,
    TESTS,
    Levels,
    Masks,
    Walks,
    leaf_masks,
    level_tables,
    predict_levels,
    predict_masks,
    predict_walks,
    tree_leaves,
)
from stagewise.kernels.team import Team
from stagewise.tree.tree import Tree

__all__ = ["Forest"]

Layout = TypeVar("Layout", Levels, Masks)

_FEW_ROWS = 8
"""Under this many rows walking each tree beats testing all of its nodes for a whole block."""

_MOST_LEVELS = 10
"""Depth up to which a symmetric tree's leaf values are kept as a table of 2**depth entries."""

_ROWS_A_THREAD = 2_000_000
"""Row × tree steps that are worth a thread."""


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Read-only arrays of all trees; tree t adds to output `walks.output[t]`."""

    walks: Walks
    masks: Masks | None  # None when a tree has more than 64 leaves
    levels: Levels | None  # None when a tree is not symmetric

    @classmethod
    def of(cls, trees: Sequence[Tree], outputs: Sequence[int]) -> Forest:
        """Lay out trees; outputs names the class (or 0) that each adds to."""
        sizes = np.array([tree.n_nodes for tree in trees], np.int64)
        start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        joined = {
            name: np.concatenate([np.empty(0, kind), *(getattr(tree, name) for tree in trees)])
            for name, kind in (
                ("feature", np.int32), ("threshold", np.float64), ("missing_left", np.uint8),
                ("left", np.int32), ("value", np.float64), ("depth", np.int32),
            )
        }  # fmt: skip
        leaf = joined["left"] < 0
        number = np.arange(start[-1]) - np.repeat(start[:-1], sizes)
        depth = np.maximum.reduceat(joined["depth"], start[:-1]) if len(trees) else np.empty(0)
        walks = Walks(
            feature=np.where(leaf, 0, joined["feature"]).astype(np.int32),
            threshold=np.where(leaf, np.inf, joined["threshold"]),
            missing_left=np.where(leaf, 1, joined["missing_left"]).astype(np.uint8),
            left=np.where(leaf, number, joined["left"]).astype(np.int32),
            value=joined["value"],
            start=start,
            depth=depth.astype(np.int64),
            output=np.asarray(outputs, np.int64),
        )
        n_leaves = np.add.reduceat(leaf.astype(np.int64), start[:-1]) if len(trees) else np.empty(0, np.int64)
        few = len(trees) > 0 and n_leaves.max() <= 64
        levels = (
            _levels(walks, joined["depth"].astype(np.int64)) if len(trees) and depth.max() <= _MOST_LEVELS else None
        )
        return cls(walks, _masks(walks, n_leaves) if few and levels is None else None, levels)

    @property
    def n_trees(self) -> int:
        return len(self.walks.depth)

    def add(self, X: np.ndarray, out: np.ndarray, first: int = 0, last: int | None = None, n_threads: int = 1) -> None:
        """out[output, row] += the trees first..last, for a row-major float matrix X; out is float64 (n_outputs, n)."""
        last = self.n_trees if last is None else last
        n = X.shape[0]
        threads = max(1, min(n_threads, n * (last - first) // _ROWS_A_THREAD, n // BLOCK))
        with Team(threads) as team:
            if n < _FEW_ROWS or (self.masks is None and self.levels is None):
                team.run(predict_walks, X, self.walks, first, last, out)
                return
            columns = np.zeros((team.n_threads, 2, X.shape[1], BLOCK), X.dtype)
            if self.levels is not None:
                words = np.empty((team.n_threads, BLOCK), np.uint32)
                team.run(predict_levels, X, _as(self.levels, X.dtype), first, last, columns, words, out)
            elif self.masks is not None:
                words = np.empty((team.n_threads, BLOCK), self.masks.keep.dtype)
                team.run(predict_masks, X, _as(self.masks, X.dtype), first, last, columns, words, out)

    def leaves(self, X: np.ndarray, n_threads: int = 1) -> np.ndarray:
        """(n_rows, n_trees): the node number of each row's leaf."""
        out = np.empty((X.shape[0], self.n_trees), np.int64)
        with Team(max(1, min(n_threads, out.size // _ROWS_A_THREAD))) as team:
            team.run(tree_leaves, X, self.walks, out)
        return out


def _levels(walks: Walks, node_depth: np.ndarray) -> Levels | None:
    """Tests by level, or None when some tree is not symmetric."""
    n_trees, total = len(walks.depth), int(walks.depth.sum())
    levels = Levels(
        feature=np.empty(total, np.int32),
        threshold=np.empty(total),
        missing_left=np.empty(total, np.uint8),
        start=np.zeros(n_trees + 1, np.int64),
        value=np.empty(int((1 << walks.depth).sum())),
        value_start=np.empty(n_trees, np.int64),
        output=np.empty(n_trees, np.int64),
    )
    return levels if level_tables(walks, node_depth, levels) else None


def _as(layout: Layout, dtype: np.dtype[Any]) -> Layout:
    """Thresholds of the values' own type. Rounded down to float32 they divide float32 values as they did before."""
    if dtype == np.float64:
        return layout
    with np.errstate(over="ignore"):  # 1e300 becomes infinity, and the number below it
        near = layout.threshold.astype(np.float32)
    above = near.astype(np.float64) > layout.threshold
    return layout._replace(threshold=np.where(above, np.nextafter(near, np.float32(-np.inf)), near))


def _masks(walks: Walks, n_leaves: np.ndarray) -> Masks:
    n_trees, n_nodes, total = len(n_leaves), len(walks.left), int(n_leaves.sum())
    n_tests = int(np.maximum(TESTS, -(-(n_leaves - 1) // TESTS) * TESTS).sum())
    masks = Masks(
        column=np.empty(n_tests, np.int32),
        threshold=np.empty(n_tests),
        keep=np.empty(n_tests, np.uint64),
        start=np.empty(n_trees + 1, np.int64),
        value=np.empty(total),
        value_start=np.empty(n_trees, np.int64),
        output=np.empty(n_trees, np.int64),
    )
    leaf_masks(walks, np.empty(n_nodes, np.int64), masks, np.empty(n_nodes, np.int64))
    return masks if n_leaves.max() > 32 else masks._replace(keep=masks.keep.astype(np.uint32))
