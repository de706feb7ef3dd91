"""Newton boosting as the books write it, in float64 NumPy, one node at a time: the oracle for the engine's trees.

Every distinct value of a column is a candidate, sums are plain float sums over the rows of a node, nothing is binned
or packed. Slow and obvious.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

NOISE = 1e-12
"""What float sums leave of an improvement that is 0."""


@dataclass
class Limits:
    growth: str = "leafwise"
    max_leaf_nodes: int = 31
    max_depth: int = 99
    min_samples_leaf: int = 1
    min_child_weight: float = 0.0
    min_split_gain: float = 0.0
    l1: float = 0.0
    l2: float = 0.0


@dataclass
class Node:
    rows: np.ndarray
    depth: int
    split: tuple | None = None  # (gain, column, value that is the last on the left, missing go left)
    children: list[Node] = field(default_factory=list)


def shrunk(total: float, l1: float) -> float:
    return np.sign(total) * max(abs(total) - l1, 0.0)


def score(grad: float, hess: float, limits: Limits) -> float:
    """Twice the reduction of the loss by the best leaf value."""
    return shrunk(grad, limits.l1) ** 2 / (hess + limits.l2)


def leaf_value(grad: np.ndarray, hess: np.ndarray, limits: Limits) -> float:
    return -shrunk(grad.sum(), limits.l1) / (hess.sum() + limits.l2)


def candidates(x: np.ndarray):
    """(column value, missing left, mask of the left side) of every division of these rows by one column."""
    missing = np.isnan(x)
    values = np.unique(x[~missing])
    if missing.any():
        for value in values:
            yield value, False, x <= value
        for value in values[:-1]:
            yield value, True, (x <= value) | missing
    else:
        for value in values[:-1]:
            yield value, False, x <= value


def gain_of(left: np.ndarray, grad: np.ndarray, hess: np.ndarray, limits: Limits) -> float | None:
    """Improvement of a division, None where it is not allowed."""
    n_left = left.sum()
    if n_left < limits.min_samples_leaf or len(left) - n_left < limits.min_samples_leaf:
        return None
    sums = [(grad[side].sum(), hess[side].sum()) for side in (left, ~left)]
    if any(h < limits.min_child_weight or h <= 0.0 for _, h in sums):
        return None
    return sum(score(g, h, limits) for g, h in sums) - score(grad.sum(), hess.sum(), limits)


def best_split(X: np.ndarray, grad: np.ndarray, hess: np.ndarray, rows: np.ndarray, limits: Limits) -> tuple | None:
    best = None
    for j in range(X.shape[1]):
        for value, missing_left, left in candidates(X[rows, j]):
            gain = gain_of(left, grad[rows], hess[rows], limits)
            if gain is not None and gain > max(limits.min_split_gain, NOISE) and (best is None or gain > best[0]):
                best = (gain, j, value, missing_left)
    return best


def divide(X: np.ndarray, node: Node) -> list[Node]:
    _, j, value, missing_left = node.split
    x = X[node.rows, j]
    left = (x <= value) | (np.isnan(x) & missing_left)
    return [Node(node.rows[left], node.depth + 1), Node(node.rows[~left], node.depth + 1)]


def grow(X: np.ndarray, grad: np.ndarray, hess: np.ndarray, limits: Limits) -> Node:
    """A tree grown best leaf first, or by levels."""
    if limits.growth == "symmetric":
        return grow_symmetric(X, grad, hess, limits)
    root = Node(np.arange(len(X)), 0)
    waiting, n_leaves = [root], 1
    root.split = best_split(X, grad, hess, root.rows, limits)
    while n_leaves < limits.max_leaf_nodes:
        open_ = [node for node in waiting if node.split and node.depth < limits.max_depth]
        if not open_:
            break
        if limits.growth == "levelwise":
            level = min(node.depth for node in open_)
            open_ = [node for node in open_ if node.depth == level]
        node = max(open_, key=lambda node: node.split[0])
        node.children = divide(X, node)
        for child in node.children:
            child.split = best_split(X, grad, hess, child.rows, limits)
        waiting = [other for other in waiting if other is not node] + node.children
        n_leaves += 1
    return root


def grow_symmetric(X: np.ndarray, grad: np.ndarray, hess: np.ndarray, limits: Limits) -> Node:
    """One split a level: that with the largest sum of improvements over the nodes in which it is allowed."""
    root = Node(np.arange(len(X)), 0)
    level = [root]
    for _ in range(min(limits.max_depth, int(np.log2(limits.max_leaf_nodes)))):
        best = None
        for j in range(X.shape[1]):
            for value, missing_left, _ in candidates(X[:, j]):
                gains = []
                for node in level:
                    x = X[node.rows, j]
                    left = (x <= value) | (np.isnan(x) & missing_left)
                    gains.append(gain_of(left, grad[node.rows], hess[node.rows], limits))
                total = sum(gain for gain in gains if gain is not None)
                allowed = [gain is not None for gain in gains]
                if any(allowed) and total > max(limits.min_split_gain, NOISE) and (best is None or total > best[0]):
                    best = (total, j, value, missing_left, allowed)
        if best is None:
            break
        following = []
        for node, allowed in zip(level, best[4], strict=True):
            if allowed:
                node.split = best[:4]
                node.children = divide(X, node)
                following += node.children
        level = following
    return root


def leaves(node: Node) -> list[Node]:
    return [node] if not node.children else [leaf for child in node.children for leaf in leaves(child)]


def inner(node: Node) -> list[Node]:
    return [node, *(below for child in node.children for below in inner(child))] if node.children else []


def boost(X, y, pairs, initial: float, n_stages: int, rate: float, limits: Limits, weight=None):
    """(trees, raw predictions) after n_stages; pairs(y, raw) -> (grad, hess)."""
    raw, trees = np.full(len(y), initial), []
    w = np.ones(len(y)) if weight is None else weight
    for _ in range(n_stages):
        grad, hess = (w * part for part in pairs(y, raw))
        tree = grow(X, grad, hess, limits)
        for leaf in leaves(tree):
            raw[leaf.rows] += rate * leaf_value(grad[leaf.rows], hess[leaf.rows], limits)
        trees.append(tree)
    return trees, raw
