"""The trees of another library, as they come, and as ours.

Readers of foreign formats fill a Grove: one entry a node, children anywhere. `plant` checks it and lays the nodes out
as our trees are: children after their parent, the right one next to the left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stagewise.errors import InputError
from stagewise.files.trees import check_trees, read_trees
from stagewise.tree.tree import Tree

__all__ = ["Grove", "MOST_CODES", "MOST_NODES", "column_cuts", "float32_threshold", "plant", "walk", "words_of"]

MOST_NODES = 20_000_000
"""Nodes of a model that is imported, at the most."""

MOST_CODES = 1 << 20
"""Categories of a column of a model that is imported, at the most."""

_FEWEST_WORDS = 4
"""Of a set of a tree; those of a tree are as wide as the widest. Trees of our own have as many."""

_MOST_PADDING = 64
"""Times the words of all sets that they may need when they are made equally wide; above a million of them."""

_NO_CUTS = np.empty(0)


@dataclass(slots=True)
class Grove:
    """Nodes of all trees. Values <= threshold go left, missing ones where missing_left is set."""

    root: np.ndarray  # int64 (n_trees): where each tree begins
    feature: np.ndarray  # int64
    threshold: np.ndarray  # float64
    missing_left: np.ndarray  # bool
    left: np.ndarray  # int64: node number, -1 for leaves
    right: np.ndarray  # int64
    value: np.ndarray  # float64, of leaves
    gain: np.ndarray  # float64
    count: np.ndarray  # int64
    cover: np.ndarray  # float64
    subset: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # -1 or a number in `sets`; empty: none
    sets: list[np.ndarray] = field(
        default_factory=list
    )  # uint64 words of codes that go left; others, also beyond: right


def float32_threshold(at: np.ndarray, strict: bool) -> np.ndarray:
    """Thresholds t for which float64 x <= t exactly when x, rounded to float32, is <= `at` (strict: < at).

    Some libraries round every value to float32 first. The largest float32 that passes is b, the next one c; what is
    rounded to b or less is everything up to their middle, and the middle itself where b is the even one of the two.
    When strict, `at` must be above -inf: nothing is below that, but every t lets -inf pass.
    """
    with np.errstate(over="ignore"):
        near = at.astype(np.float32)
        below = np.nextafter(near, np.float32(-np.inf))
        passes = near.astype(np.float64) < at if strict else near.astype(np.float64) <= at
        last = np.where(passes, near, below)
        after = np.nextafter(last, np.float32(np.inf))
    # 2**128 stands for infinity: half-way to it is where rounding overflows
    low = np.clip(last.astype(np.float64), -(2.0**128), None)
    high = np.where(np.isinf(after), 2.0**128, after.astype(np.float64))
    middle = 0.5 * low + 0.5 * high
    even = (last.view(np.uint32) & 1) == 0
    threshold = np.where(even, middle, np.nextafter(middle, -np.inf))
    threshold = np.where(np.isneginf(last), -(2.0**128) * (1 - 2.0**-25), threshold)  # what overflows downwards
    return np.where(np.isposinf(last), np.inf, threshold)


def plant(grove: Grove, n_columns: int, what: str) -> list[Tree]:
    """The trees, checked. `what` names the source in messages. Nodes that no tree reaches are left out."""
    order, tree = walk(grove, what)
    size = np.bincount(tree, minlength=len(grove.root))
    start = np.concatenate(([0], np.cumsum(size)))
    by_tree = np.argsort(tree, kind="stable")  # breadth first within each tree: siblings stay next to each other
    order = order[by_tree]
    place = np.full(len(grove.left), -1, np.int64)
    place[order] = np.arange(len(order))
    leaf = grove.left[order] < 0
    first = np.repeat(start[:-1], size)
    left = np.where(leaf, -1, place[grove.left[order]] - first)
    arrays = {
        "size": size.astype(np.int64),
        "feature": np.where(leaf, -1, grove.feature[order]),
        "threshold": np.where(leaf, 0.0, grove.threshold[order]),
        "missing_left": np.where(leaf, 0, grove.missing_left[order]),
        "left": left,
        "value": np.where(leaf, grove.value[order], 0.0),
        "gain": np.where(leaf, 0.0, grove.gain[order]),
        "count": grove.count[order],
        "cover": grove.cover[order],
    }
    if len(grove.sets):
        arrays |= _set_arrays(grove, np.where(leaf, -1, grove.subset[order]), size, what)
        arrays["threshold"] = np.where(arrays["subset"] >= 0, 0.0, arrays["threshold"])
    by_number = arrays["feature"] if not len(grove.sets) else np.where(arrays["subset"] >= 0, -1, arrays["feature"])
    cuts = column_cuts(by_number, arrays["threshold"], n_columns)
    cut = np.zeros(len(order), np.int64)
    for column, own in enumerate(cuts):
        if len(own):
            here = by_number == column
            cut[here] = np.searchsorted(own, arrays["threshold"][here])
    arrays["cut"] = cut
    kinds = {"feature": np.int32, "missing_left": np.uint8, "left": np.int32, "cut": np.int32}
    arrays = {name: array.astype(kinds.get(name, array.dtype)) for name, array in arrays.items()}
    try:
        check_trees(arrays, n_columns)
    except InputError as error:
        raise InputError(f"{what} cannot be used. {error}") from error
    return read_trees(arrays, n_columns)


def _set_arrays(grove: Grove, own: np.ndarray, size: np.ndarray, what: str) -> dict[str, np.ndarray]:
    """The sets as a file has them (files/trees.py). own: by node of all trees the set, or -1."""
    node = np.flatnonzero(own >= 0)
    tree = np.repeat(np.arange(len(size)), size)[node]
    first = np.searchsorted(tree, np.arange(len(size)))
    subset = np.full(len(own), -1, np.int32)
    subset[node] = np.arange(len(node)) - first[tree]
    wide = np.array([len(words) for words in grove.sets], np.int64)[own[node]]
    set_words = np.zeros(len(size), np.int64)
    np.maximum.at(set_words, tree, np.maximum(wide, _FEWEST_WORDS))
    ends = np.cumsum(set_words[tree])
    total = int(ends[-1]) if len(ends) else 0
    if total > _MOST_PADDING * int(wide.sum()) + (1 << 20):
        raise InputError(f"{what} cannot be used: its sets of categories are of too different sizes.")
    sets = np.zeros(total, np.uint64)
    for k, a in zip(own[node].tolist(), (ends - set_words[tree]).tolist(), strict=True):
        sets[a : a + len(grove.sets[k])] = grove.sets[k]
    return {"subset": subset, "set_words": set_words, "sets": sets}


def words_of(codes: np.ndarray) -> np.ndarray:
    """The words of a set of codes (int64, not negative)."""
    out = np.zeros(int(codes.max(initial=-1)) // 64 + 1, np.uint64)
    np.bitwise_or.at(out, codes // 64, np.uint64(1) << (codes % 64).astype(np.uint64))
    return out


def walk(grove: Grove, what: str) -> tuple[np.ndarray, np.ndarray]:
    """(nodes, their trees) level by level; InputError when a child is out of range or a node is reached twice."""
    total = len(grove.left)
    if total > MOST_NODES:
        raise InputError(f"{what} has {total:,} nodes; at most {MOST_NODES:,} can be imported.")
    left, right = grove.left, grove.right
    if (left >= total).any() or (right >= total).any() or (right < 0)[left >= 0].any():
        raise InputError(f"{what} cannot be used: a node's child is not there.")
    inner = left >= 0
    if (grove.feature[inner] < 0).any() or (grove.feature[inner] > 2**31 - 1).any():
        raise InputError(f"{what} cannot be used: a split is on a column that cannot be.")
    front, trees = grove.root, np.arange(len(grove.root))
    nodes, owners, seen = [], [], 0
    while len(front):
        seen += len(front)
        if seen > total:
            raise InputError(f"{what} cannot be used: its nodes go round in a circle.")
        nodes.append(front)
        owners.append(trees)
        split = left[front] >= 0
        parents, owner = front[split], trees[split]
        front = np.column_stack([left[parents], right[parents]]).ravel()
        trees = np.repeat(owner, 2)
    order = np.concatenate([*nodes, np.empty(0, np.int64)]).astype(np.int64)
    if len(np.unique(order)) != len(order):
        raise InputError(f"{what} cannot be used: a node has two parents.")
    return order, np.concatenate([*owners, np.empty(0, np.int64)]).astype(np.int64)


def column_cuts(feature: np.ndarray, threshold: np.ndarray, n_columns: int) -> tuple[np.ndarray, ...]:
    """The thresholds of each column, ascending: cut points that divide it as the trees do."""
    cuts = [_NO_CUTS] * n_columns
    inner = (feature >= 0) & (feature < n_columns) & (threshold < np.inf)
    for column in np.unique(feature[inner]).tolist():
        cuts[column] = np.unique(threshold[inner & (feature == column)])
    return tuple(cuts)
