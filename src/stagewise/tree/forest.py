"""All trees of a model laid out for prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from stagewise.kernels.coded import Coded, predict_coded
from stagewise.kernels.lookups import Lookups, Sets, fill_lookups, walk_sets
from stagewise.kernels.octets import OCTET_ROWS, Octets, predict_octets
from stagewise.kernels.predict import (
    BLOCK,
    STRIDE,
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
from stagewise.tree.coding import MOST_BYTES, coded, coding, octets
from stagewise.tree.tree import Tree

__all__ = ["Forest"]

Layout = TypeVar("Layout", Levels, Masks)

_FEW_ROWS = 8
"""Under this many rows walking each tree beats testing all of its nodes for a whole block."""

_MOST_LEVELS = 10
"""Depth up to which a symmetric tree's leaf values are kept as a table of 2**depth entries."""

_ROWS_A_THREAD = 2_000_000
"""Row × tree steps that are worth a thread. Laying out two values of a row takes as long as one of them."""

_CODED_BYTES = 1 << 14
"""Codes of a block of rows: half of the first-level cache, beside the nodes of a tree."""

_MOST_ENTRIES = 1 << 23
"""Entries of all tables of sets: 32 or 64 MB. Models that need more are walked."""


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Read-only arrays of all trees; tree t adds to output `walks.output[t]`."""

    walks: Walks
    masks: Masks | None  # None when a tree has more than 64 leaves, or sets would need too large tables
    levels: Levels | None  # None when a tree is not symmetric
    on_codes: Octets | Coded | None  # for larger trees without sets; None when a column has too many thresholds

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
            sets=_sets(trees),
        )
        n_leaves = np.add.reduceat(leaf.astype(np.int64), start[:-1]) if len(trees) else np.empty(0, np.int64)
        lookups = _lookups(walks)
        if len(trees) == 0 or lookups is None:
            return cls(walks, None, None, None)
        used = np.unique(walks.feature[~leaf]).astype(np.int64)
        shallow = depth.max() <= _MOST_LEVELS
        levels = _levels(walks, joined["depth"].astype(np.int64), lookups, used) if shallow else None
        few = n_leaves.max() <= 64
        masks = _masks(walks, n_leaves, lookups, used) if few and levels is None else None
        if masks is not None or levels is not None or len(walks.sets.subset):
            return cls(walks, masks, levels, None)
        codes = coding(walks, np.flatnonzero(~leaf), used)
        if codes is None:
            return cls(walks, None, None, None)
        by_bytes = n_leaves.max() <= 8 * MOST_BYTES
        return cls(walks, None, None, octets(walks, codes, n_leaves) if by_bytes else coded(walks, codes))

    @property
    def n_trees(self) -> int:
        return len(self.walks.depth)

    def add(self, X: np.ndarray, out: np.ndarray, first: int = 0, last: int | None = None, n_threads: int = 1) -> None:
        """out[output, row] += the trees first..last, for a row-major float matrix X; out is float64 (n_outputs, n)."""
        last = self.n_trees if last is None else last
        n, layout = X.shape[0], self.levels or self.masks or self.on_codes
        n_used = 0 if layout is None else len(layout.used)
        threads = max(1, min(n_threads, n * (last - first + n_used // 2) // _ROWS_A_THREAD, n // BLOCK))
        # a value's code takes about as long as what it saves in one tree; and a block of rows is worked on as a whole
        few = n < _FEW_ROWS or (layout is self.on_codes and last - first < n_used)
        few |= isinstance(layout, Octets) and n < OCTET_ROWS // 4
        with Team(threads) as team:
            if few or layout is None:
                if len(self.walks.sets.subset):
                    team.run(walk_sets, X, self.walks, first, last, np.empty((0, 0), np.int64), out)
                else:
                    team.run(predict_walks, X, self.walks, first, last, out)
                return
            if isinstance(layout, Octets):
                codes = np.zeros((team.n_threads, 2, n_used, OCTET_ROWS), np.uint8)
                words, cuts = np.zeros((team.n_threads, 3, OCTET_ROWS), np.uint8), _rounded(layout.cuts, X.dtype)
                team.run(predict_octets, X, layout._replace(cuts=cuts), first, last, codes, words, out)
                return
            if isinstance(layout, Coded):
                rows = max(8, min(BLOCK, _CODED_BYTES // (2 * n_used) // 8 * 8))
                codes, cuts = np.zeros((team.n_threads, rows, 2 * n_used), np.uint8), _rounded(layout.cuts, X.dtype)
                team.run(predict_coded, X, layout._replace(cuts=cuts), first, last, codes, out)
                return
            columns = np.zeros((team.n_threads, 2, X.shape[1], STRIDE), X.dtype)
            if isinstance(layout, Levels):
                codes, words = _scratch(team.n_threads, layout.lookups, np.uint32)
                team.run(predict_levels, X, _as(layout, X), first, last, columns, codes, words, out)
            else:
                codes, words = _scratch(team.n_threads, layout.lookups, layout.keep.dtype)
                team.run(predict_masks, X, _as(layout, X), first, last, columns, codes, words, out)

    def leaves(self, X: np.ndarray, n_threads: int = 1) -> np.ndarray:
        """(n_rows, n_trees): the node number of each row's leaf."""
        out = np.empty((X.shape[0], self.n_trees), np.int64)
        with Team(max(1, min(n_threads, out.size // _ROWS_A_THREAD))) as team:
            if len(self.walks.sets.subset):
                team.run(walk_sets, X, self.walks, 0, self.n_trees, out, np.empty((0, 0)))
            else:
                team.run(tree_leaves, X, self.walks, out)
        return out


def _scratch(n_threads: int, lookups: Lookups, kind: Any) -> tuple[np.ndarray, np.ndarray]:
    """Codes and words of a block, for each thread."""
    return np.zeros((n_threads, len(lookups.column), BLOCK), np.int64), np.empty((n_threads, BLOCK), kind)


def _sets(trees: Sequence[Tree]) -> Sets:
    """The sets of all trees; their numbers follow those of the trees before."""
    if not any(len(tree.sets) for tree in trees):
        return Sets(np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.uint64))
    subset, before = [], 0
    for tree in trees:
        own = tree.subset if len(tree.subset) else np.full(tree.n_nodes, -1, np.int32)
        subset.append(np.where(own >= 0, own + before, -1))
        before += len(tree.sets)
    widths = np.concatenate([np.full(len(tree.sets), tree.sets.shape[1]) for tree in trees])
    return Sets(
        np.concatenate(subset).astype(np.int32),
        np.concatenate(([0], np.cumsum(widths))).astype(np.int64),
        np.concatenate([tree.sets.ravel() for tree in trees]),
    )


def _lookups(walks: Walks) -> Lookups | None:
    """Room for the tables of all sets, zeros; None when there is too much of it."""
    sets, n_trees = walks.sets, len(walks.depth)
    node = np.flatnonzero(sets.subset >= 0)
    column, place_of = np.unique(walks.feature[node], return_inverse=True)
    highest = np.zeros(len(sets.start) - 1, np.int64)  # the first code beyond each set
    used = np.flatnonzero(sets.words)
    top = np.frexp((sets.words[used] >> np.uint64(1)).astype(np.float64))[1]  # 0 to 63, at most one too many
    owner = np.searchsorted(sets.start, used, side="right") - 1
    np.maximum.at(highest, owner, 64 * (used - sets.start[owner]) + top + 1)
    size = np.zeros(len(column), np.int64)
    np.maximum.at(size, place_of, highest[sets.subset[node]])
    pair = np.unique((np.searchsorted(walks.start, node, side="right") - 1) * max(1, len(column)) + place_of)
    tree, place = np.divmod(pair, max(1, len(column)))
    ends = np.cumsum(size[place] + 2)
    total = int(ends[-1]) if len(ends) else 0
    if total > _MOST_ENTRIES:
        return None
    return Lookups(
        start=np.searchsorted(tree, np.arange(n_trees + 1)).astype(np.int64),
        place=place.astype(np.int64),
        first=(ends - size[place] - 2).astype(np.int64),
        table=np.zeros(total, np.uint64),
        column=column.astype(np.int32),
        size=size,
    )


def _tables(walks: Walks, right: np.ndarray, lookups: Lookups) -> Lookups:
    """Tables of what `right` says of nodes."""
    if not len(lookups.table):
        return lookups
    own = lookups._replace(table=np.zeros_like(lookups.table))
    fill_lookups(walks, right, own)
    return own


def _levels(walks: Walks, node_depth: np.ndarray, lookups: Lookups, used: np.ndarray) -> Levels | None:
    """Tests by level, or None when some tree is not symmetric."""
    n_trees, total = len(walks.depth), int(walks.depth.sum())
    levels = Levels(
        feature=np.empty(total, np.int32),
        threshold=np.zeros(total),
        missing_left=np.empty(total, np.uint8),
        start=np.zeros(n_trees + 1, np.int64),
        value=np.empty(int((1 << walks.depth).sum())),
        value_start=np.empty(n_trees, np.int64),
        output=np.empty(n_trees, np.int64),
        lookups=lookups,
        used=used,
    )
    right = np.zeros(len(walks.left), np.uint64)
    if not level_tables(walks, node_depth, levels, right):
        return None
    made = _tables(walks, right, lookups)
    return levels._replace(lookups=made._replace(table=made.table.astype(np.uint32)))


def _as(layout: Layout, X: np.ndarray) -> Layout:
    """A layout for these values: thresholds of their type, and all columns where most are used, which is faster."""
    used = layout.used if 4 * len(layout.used) < 3 * X.shape[1] else np.arange(X.shape[1])
    return layout._replace(threshold=_rounded(layout.threshold, X.dtype), used=used)


def _rounded(thresholds: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Rounded down to float32 they divide float32 values as they did before."""
    if dtype == np.float64:
        return thresholds
    with np.errstate(over="ignore"):  # 1e300 becomes infinity, and the number below it
        near = thresholds.astype(np.float32)
    above = near.astype(np.float64) > thresholds
    return np.where(above, np.nextafter(near, np.float32(-np.inf)), near)


def _masks(walks: Walks, n_leaves: np.ndarray, lookups: Lookups, used: np.ndarray) -> Masks:
    n_trees, n_nodes, total = len(n_leaves), len(walks.left), int(n_leaves.sum())
    n_tests = int(np.maximum(TESTS, -(-(n_leaves - 1) // TESTS) * TESTS).sum())
    masks = Masks(
        column=np.empty(n_tests, np.int32),
        threshold=np.zeros(n_tests),  # splits by sets leave some unused
        keep=np.empty(n_tests, np.uint64),
        start=np.empty(n_trees + 1, np.int64),
        value=np.empty(total),
        value_start=np.empty(n_trees, np.int64),
        output=np.empty(n_trees, np.int64),
        lookups=lookups,
        used=used,
    )
    right = np.zeros(n_nodes, np.uint64)
    leaf_masks(walks, np.empty(n_nodes, np.int64), masks, np.empty(n_nodes, np.int64), right)
    lost = _tables(walks, right, lookups)
    kind = np.uint64 if n_leaves.max() > 32 else np.uint32
    kept = lost._replace(table=(~lost.table).astype(kind))
    return masks._replace(keep=masks.keep.astype(kind), lookups=kept)
