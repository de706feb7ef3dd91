"""Trees as the arrays of a section, node after node, and the checks that make them safe to walk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stagewise.errors import InputError
from stagewise.tree.tree import Tree

__all__ = ["check_trees", "node_depths", "read_trees", "tree_arrays"]

_FIELDS = {
    "feature": np.int32, "threshold": np.float64, "cut": np.int32, "missing_left": np.uint8, "left": np.int32,
    "value": np.float64, "gain": np.float64, "count": np.int64, "cover": np.float64,
}  # fmt: skip
"""What is stored of a tree. The depth of a node follows from the children."""

_SETS = {"subset": np.int32, "set_words": np.int64, "sets": np.uint64}
"""And of trees that split by sets of categories: the set of a node within its tree, or -1; by tree the words of each of
its sets; all words, set after set. Sets are not trimmed, so a small file cannot ask for much memory."""


def tree_arrays(trees: Sequence[Tree]) -> dict[str, np.ndarray]:
    """The nodes of all trees, one after the other, and the number of nodes of each tree."""
    joined: dict[str, np.ndarray] = {"size": np.array([tree.n_nodes for tree in trees], np.int64)}
    for name, kind in _FIELDS.items():
        joined[name] = np.concatenate([np.empty(0, kind), *(getattr(tree, name) for tree in trees)], dtype=kind)
    if any(len(tree.sets) for tree in trees):
        numbers, rows = zip(*map(_numbered, trees), strict=True)
        joined["subset"] = np.concatenate(numbers, dtype=np.int32)
        joined["set_words"] = np.array([own.shape[1] if len(own) else 0 for own in rows], np.int64)
        joined["sets"] = np.concatenate([own.ravel() for own in rows], dtype=np.uint64)
    return joined


def _numbered(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """(subset, sets) with the sets in the order in which nodes first ask for them: one encoding of a tree."""
    if not len(tree.sets):
        return np.full(tree.n_nodes, -1, np.int32), tree.sets
    there = tree.subset >= 0
    used, first, inverse = np.unique(tree.subset[there], return_index=True, return_inverse=True)
    order = np.argsort(first)
    numbers = np.full(tree.n_nodes, -1, np.int32)
    numbers[there] = np.argsort(order)[inverse]
    return numbers, tree.sets[used[order]]


def read_trees(arrays: Mapping[str, np.ndarray], n_columns: int) -> list[Tree]:
    """The trees of `tree_arrays`, after every check of `check_trees`."""
    expected = {**_FIELDS, "size": np.int64, **(_SETS if _SETS.keys() & arrays.keys() else {})}
    for name in expected:
        if name not in arrays:
            raise InputError(f"The trees have no array {name!r}.")
    for name, array in arrays.items():
        if name not in expected:
            raise InputError(f"The trees have an array {name!r} that this version of stagewise does not know.")
        if array.ndim != 1 or array.dtype != expected[name]:
            raise InputError(f"{name} of the trees must be a row of {np.dtype(expected[name])}, not {array.dtype}.")
    size = arrays["size"]
    check_trees(arrays, n_columns)
    start = _starts(size)
    depth = node_depths(arrays["left"], size)
    ends = list(zip(start[:-1].tolist(), start[1:].tolist(), strict=True))
    trees = [Tree(**{name: arrays[name][a:b] for name in _FIELDS}, depth=depth[a:b]) for a, b in ends]
    if "subset" not in arrays:
        return trees
    counts, words = _set_counts(arrays), arrays["set_words"]
    first = _starts(counts * words).tolist()
    for t, (a, b) in enumerate(ends):
        if counts[t]:
            sets = arrays["sets"][first[t] : first[t + 1]].reshape(counts[t], words[t])
            trees[t] = replace(trees[t], subset=arrays["subset"][a:b], sets=sets)
    return trees


def _set_counts(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The number of sets of each tree: its nodes count them from 0."""
    size = arrays["size"]
    return np.maximum.reduceat(arrays["subset"].astype(np.int64), _starts(size)[:-1]) + 1 if len(size) else size


def _starts(size: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(size))).astype(np.int64)


def check_trees(arrays: Mapping[str, np.ndarray], n_columns: int) -> None:
    """Raise InputError unless every walk down every tree ends in a leaf and reads nothing out of bounds.

    Each node but the root is the child of exactly one node before it, so a walk goes forward and ends; columns are
    those of the table; thresholds are numbers; values, gains and weights are finite.
    """
    size, left, feature = arrays["size"], arrays["left"], arrays["feature"]
    total = len(left)
    if any(len(arrays[name]) != total for name in _FIELDS):
        raise InputError("The arrays of the trees differ in length.")
    if (size < 1).any() or (size > total).any() or int(size.sum()) != total or total >= 2**31:
        raise InputError("The numbers of nodes of the trees do not add up to the nodes that are there.")
    start = _starts(size)
    tree = np.repeat(np.arange(len(size)), size)
    number = np.arange(total) - start[tree]
    inner = left >= 0
    child = left[inner].astype(np.int64)
    if (left < -1).any() or (child <= number[inner]).any() or (child + 1 >= size[tree[inner]]).any():
        raise InputError("A child of a tree's node does not come after its parent, or lies outside of the tree.")
    absolute = child + start[tree[inner]]
    parents = np.bincount(np.concatenate([absolute, absolute + 1]), minlength=total)
    parents[start[:-1]] += 1  # the roots
    if (parents != 1).any():
        raise InputError("A node of a tree has no parent, or two.")
    if (feature[inner] < 0).any() or (feature[inner] >= n_columns).any():
        raise InputError(f"A split is on a column outside of the {n_columns} that there are.")
    if (feature[~inner] != -1).any():
        raise InputError("A leaf names a column.")
    if np.isnan(arrays["threshold"]).any():
        raise InputError("A threshold is not a number.")
    if (arrays["cut"] < 0).any() or (arrays["missing_left"] > 1).any():
        raise InputError("A split has a negative bin, or a side for missing values that is neither 0 nor 1.")
    for name in ("value", "gain", "cover"):
        if not np.isfinite(arrays[name]).all():
            raise InputError(f"A node's {name} is not a finite number.")
    if (arrays["count"] < 0).any() or (arrays["cover"] < 0.0).any():
        raise InputError("A node has a negative number of rows, or a negative weight.")
    if "subset" in arrays:
        _check_sets(arrays)


def _check_sets(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise InputError unless every set that a node names is there, and no column is split in two ways."""
    subset, words, left = arrays["subset"], arrays["set_words"], arrays["left"]
    if len(subset) != len(left) or len(words) != len(arrays["size"]):
        raise InputError("The arrays of the trees' sets differ in length from those of the trees.")
    asks = subset >= 0
    if (subset < -1).any() or (asks & (left < 0)).any():
        raise InputError("A leaf of a tree has a set, or a node one of a negative number.")
    if (subset > len(left)).any():
        raise InputError("A node of a tree names a set beyond those that there can be.")
    counts, total = _set_counts(arrays), len(arrays["sets"])
    if (words < 0).any() or (words > total).any() or ((words == 0) != (counts == 0)).any():
        raise InputError("The sets of a tree have no words, or more than there are.")
    if sum(n * w for n, w in zip(counts.tolist(), words.tolist(), strict=True)) != total:
        raise InputError("The words of the trees' sets do not add up to those that are there.")
    if (arrays["threshold"][asks] != 0.0).any() or (arrays["cut"][asks] != 0).any():
        raise InputError("A split by a set has a threshold besides.")
    by_set, by_number = np.unique(arrays["feature"][asks]), np.unique(arrays["feature"][~asks & (left >= 0)])
    if len(np.intersect1d(by_set, by_number)):
        raise InputError("A column is split by sets of categories and by thresholds; it can be of one kind only.")


def node_depths(left: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Depth of every node (int32) of checked trees, level by level through all of them at once."""
    depth = np.zeros(len(left), np.int32)
    start = _starts(size)
    first = np.repeat(start[:-1], size)
    front, level = start[:-1], 0
    while len(front):
        depth[front] = level
        inner = front[left[front] >= 0]
        child = first[inner] + left[inner]
        front, level = np.concatenate([child, child + 1]), level + 1
    return depth
