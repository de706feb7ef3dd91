"""The leaves of a model as boxes, ready for the kernels that explain it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.boosting.model import Model
from stagewise.kernels.paths import Groups, Paths, Trees, group_leaves, leaf_paths
from stagewise.tree.tree import Tree

__all__ = ["OF_CONDITIONS", "groups_of", "paths_of", "trees_of"]

OF_CONDITIONS = ("column", "low", "high", "missing", "ratio", "subset")
"""The fields of Paths that have an entry for each condition."""


def trees_of(model: Model) -> Trees:
    """All nodes of all trees, one after the other."""
    trees = [tree for stage in model.stages for tree in stage]
    outputs = [k for stage in model.stages for k in range(len(stage))]
    sizes = [tree.n_nodes for tree in trees]

    def joined(name: str, kind: type) -> np.ndarray:
        return np.concatenate([np.empty(0, kind), *(getattr(tree, name) for tree in trees)]).astype(kind, copy=False)

    subset, sets = _sets(trees)
    return Trees(
        feature=joined("feature", np.int32),
        threshold=joined("threshold", np.float64),
        missing_left=joined("missing_left", np.uint8),
        left=joined("left", np.int32),
        value=joined("value", np.float64),
        cover=joined("cover", np.float64),
        start=np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64),
        output=np.array(outputs, np.int64),
        subset=subset,
        sets=sets,
    )


def _sets(trees: list[Tree]) -> tuple[np.ndarray, np.ndarray]:
    """(subset, sets) of all trees, every set as wide as the widest and one word more."""
    width = max([0, *(tree.sets.shape[1] for tree in trees if len(tree.sets))])
    sets = np.zeros((sum(len(tree.sets) for tree in trees), width + 1), np.uint64)
    numbers, before = [np.empty(0, np.int32)], 0
    for tree in trees:
        if not len(tree.sets):
            numbers.append(np.full(tree.n_nodes, -1, np.int32))
            continue
        numbers.append(np.where(tree.subset >= 0, tree.subset + before, -1).astype(np.int32))
        sets[before : before + len(tree.sets), : tree.sets.shape[1]] = tree.sets
        before += len(tree.sets)
    return np.concatenate(numbers), sets


class _Sizes(NamedTuple):
    """What arrays over all leaves have room for."""

    leaves: int
    conditions: int  # the sum of the leaves' depths, at most one condition a level
    largest: int  # nodes of the largest tree
    depth: int  # of the deepest leaf
    sets: int  # conditions on columns that are split by sets, at the most


def _sizes(model: Model, trees: Trees) -> _Sizes:
    depth = np.concatenate([np.empty(0, np.int32), *(tree.depth for stage in model.stages for tree in stage)])
    leaf = trees.left < 0
    largest = int(np.diff(trees.start).max(initial=1))
    n_conditions, deepest = int(depth[leaf].sum(dtype=np.int64)), int(depth.max(initial=0))
    # a leaf has as many conditions by sets as its tree has columns split so, at the most
    tree = np.repeat(np.arange(len(trees.output)), np.diff(trees.start))
    by_sets = np.unique(np.column_stack([tree, trees.feature])[trees.subset >= 0], axis=0)[:, 0]
    columns = np.bincount(by_sets, minlength=len(trees.output))
    n_sets = int(np.minimum(columns[tree[leaf]], depth[leaf]).sum())
    return _Sizes(int(leaf.sum()), n_conditions, largest, deepest, n_sets)


def paths_of(model: Model) -> Paths:
    """The conditions of every leaf."""
    trees = trees_of(model)
    n_leaves, n_conditions, largest, _, n_sets = _sizes(model, trees)
    paths = Paths(
        start=np.zeros(n_leaves + 1, np.int64),
        column=np.empty(n_conditions, np.int32),
        low=np.empty(n_conditions),
        high=np.empty(n_conditions),
        missing=np.empty(n_conditions, np.uint8),
        ratio=np.empty(n_conditions),
        value=np.empty(n_leaves),
        output=np.empty(n_leaves, np.int64),
        tree=np.empty(n_leaves, np.int64),
        subset=np.empty(n_conditions, np.int32),
        sets=np.empty((n_sets, trees.sets.shape[1]), np.uint64),
    )
    _, end, _ = leaf_paths(trees, np.empty(largest, np.int64), paths)
    return paths._replace(**{name: getattr(paths, name)[:end] for name in OF_CONDITIONS})


def groups_of(model: Model, most_bits: int) -> Groups:
    """Leaves in groups of at most most_bits tests."""
    trees = trees_of(model)
    n_leaves, n_conditions, largest, depth, n_sets = _sizes(model, trees)
    n_tests = n_conditions + 2 * n_leaves + depth + 1
    groups = Groups(
        test=np.zeros(n_leaves + 1, np.int64),
        column=np.empty(n_tests, np.int32),
        low=np.empty(n_tests),
        high=np.empty(n_tests),
        missing=np.empty(n_tests, np.uint8),
        slot=np.zeros(n_leaves + 1, np.int64),
        slot_column=np.empty(n_tests, np.int32),
        leaf=np.zeros(n_leaves + 1, np.int64),
        value=np.empty(n_leaves),
        held=np.zeros(n_leaves + 1, np.int64),
        place=np.empty(n_conditions, np.int32),
        mask=np.empty(n_conditions, np.int64),
        want=np.empty(n_conditions, np.int64),
        ratio=np.empty(n_conditions),
        output=np.empty(n_leaves + 1, np.int64),
        worded=np.empty(n_leaves + 1, np.uint8),
        subset=np.empty(n_tests, np.int32),
        sets=np.empty((n_sets + int((trees.subset >= 0).sum()) + depth + 1, trees.sets.shape[1]), np.uint64),
    )
    parents, below, covered = (np.empty(size, np.int64) for size in (largest, largest, 3 * largest + 2))
    ends = np.zeros(6, np.int64)
    group_leaves(trees, most_bits, parents, below, covered, np.empty(n_tests), groups, ends)
    g, tests, slots, leaves, conditions, sets = ends.tolist()
    sizes = {
        **dict.fromkeys(("test", "slot", "leaf"), g + 1),
        **dict.fromkeys(("column", "low", "high", "missing", "subset"), tests),
        **dict.fromkeys(("place", "mask", "want", "ratio"), conditions),
        **dict.fromkeys(("output", "worded"), g),
        "slot_column": slots,
        "value": leaves,
        "held": leaves + 1,
        "sets": sets,
    }
    return groups._replace(**{name: getattr(groups, name)[:size] for name, size in sizes.items()})
