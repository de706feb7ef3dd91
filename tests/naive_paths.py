"""Slow twins of the kernels that look inside: games played out coalition by coalition, trees walked down both ways.

Part of naive.py, which lists them in TWINS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np


def children(tree: Any, node: int) -> tuple[int, int]:
    return int(tree.left[node]), int(tree.left[node]) + 1


def codes_of(words: Iterable[int]) -> set[int]:
    """The codes of a set."""
    return {64 * w + bit for w, word in enumerate(words) for bit in range(64) if int(word) >> bit & 1}


def goes_left(tree: Any, node: int, row: Sequence[float]) -> bool:
    value = float(row[tree.feature[node]])
    if math.isnan(value):
        return bool(tree.missing_left[node])
    if len(tree.subset) and tree.subset[node] >= 0:
        return 0.0 <= value < math.inf and int(value) in codes_of(tree.sets[tree.subset[node]])
    return value <= tree.threshold[node]


def share_left(tree: Any, node: int) -> float:
    """The part of a node's training weight that went left; one half when there was none."""
    left, right = (float(tree.cover[child]) for child in children(tree, node))
    return left / (left + right) if left + right > 0.0 else 0.5


# --- expectations ----------------------------------------------------------------------------------------------------


def traversal(tree: Any, row: Sequence[float], known: Iterable[int], node: int = 0) -> float:
    """Friedman's weighted traversal (2001, section 8.2): the row's way at known columns, both ways at the others."""
    known = set(known)
    if tree.left[node] < 0:
        return float(tree.value[node])
    left, right = children(tree, node)
    if int(tree.feature[node]) in known:
        return traversal(tree, row, known, left if goes_left(tree, node, row) else right)
    share = share_left(tree, node)
    return share * traversal(tree, row, known, left) + (1.0 - share) * traversal(tree, row, known, right)


def leaf_value(tree: Any, row: Sequence[float]) -> float:
    return traversal(tree, row, range(len(row)))


def substituted(tree: Any, row: Sequence[float], known: Iterable[int], other: Sequence[float]) -> float:
    """The tree's value of a row whose columns are taken from another row unless they are known."""
    known = set(known)
    return leaf_value(tree, [row[j] if j in known else other[j] for j in range(len(row))])


def dependence(trees: Sequence[Any], outputs: Sequence[int], points: np.ndarray, known: Iterable[int]) -> np.ndarray:
    """(n_outputs, n_points): by traversal, at rows of which only the known columns are looked at."""
    out = np.zeros((max(outputs, default=0) + 1, len(points)))
    for tree, output in zip(trees, outputs, strict=True):
        out[output] += [traversal(tree, row, known) for row in points]
    return out


def curves(
    trees: Sequence[Any], outputs: Sequence[int], X: np.ndarray, columns: Sequence[int], cells: np.ndarray
) -> np.ndarray:
    """(n_outputs, n_rows, n_cells): leaf values of every row with some columns set to every cell."""
    out = np.zeros((max(outputs, default=0) + 1, len(X), len(cells)))
    for i, row in enumerate(X):
        for c, cell in enumerate(cells):
            changed = row.copy()
            changed[list(columns)] = cell
            for tree, output in zip(trees, outputs, strict=True):
                out[output, i, c] += leaf_value(tree, changed)
    return out


# --- leaves ----------------------------------------------------------------------------------------------------------


def ways(tree: Any, node: int = 0, way: tuple[tuple[int, bool], ...] = ()) -> list[tuple[int, list[tuple[int, bool]]]]:
    """(leaf, [(inner node, went left), ...]) of all leaves."""
    if tree.left[node] < 0:
        return [(node, list(way))]
    left, right = children(tree, node)
    return ways(tree, left, (*way, (node, True))) + ways(tree, right, (*way, (node, False)))


def leaf_paths(tree: Any) -> dict[int, dict[int, tuple[Callable[[float], bool], float]]]:
    """By leaf and column: whether a value passes all tests on the column, and the share of training weight that did."""
    found: dict[int, dict[int, tuple[Callable[[float], bool], float]]] = {}
    for leaf, way in ways(tree):
        found[leaf] = {}
        for column in {int(tree.feature[node]) for node, _ in way}:
            mine = [(node, left) for node, left in way if tree.feature[node] == column]

            def passes(value: float, mine: Any = tuple(mine), column: int = column) -> bool:
                row = {column: value}
                return all(goes_left(tree, node, row) == left for node, left in mine)  # type: ignore[arg-type]

            share = math.prod(share_left(tree, node) if left else 1.0 - share_left(tree, node) for node, left in mine)
            found[leaf][column] = passes, share
    return found


def conditions_met(tree: Any, row: Sequence[float]) -> dict[int, dict[int, bool]]:
    """By leaf and column: whether the row meets the condition. What words of answers must say."""
    return {leaf: {j: passes(row[j]) for j, (passes, _) in own.items()} for leaf, own in leaf_paths(tree).items()}


def background_words(tree: Any, rows: np.ndarray, shares: np.ndarray) -> dict[int, dict[tuple[bool, ...], float]]:
    """By leaf: the weight of the background rows with each pattern of conditions met (columns ascending)."""
    found: dict[int, dict[tuple[bool, ...], float]] = {}
    for row, share in zip(rows, shares, strict=True):
        for leaf, met in conditions_met(tree, row).items():
            pattern = tuple(met[j] for j in sorted(met))
            own = found.setdefault(leaf, {})
            own[pattern] = own.get(pattern, 0.0) + float(share)
    return found


def reach_shares(tree: Any, X: np.ndarray, weight: np.ndarray, inside: Sequence[int]) -> list[float]:
    """By leaf, in the order of node numbers: weight of the rows that pass all tests on the columns inside."""
    totals = []
    for _leaf, way in sorted(ways(tree)):
        own = [(node, left) for node, left in way if tree.feature[node] in inside]
        passed = [all(goes_left(tree, node, row) == left for node, left in own) for row in X]
        totals.append(float(weight[np.array(passed, bool)].sum()))
    return totals


# --- games -----------------------------------------------------------------------------------------------------------

Game = Callable[[tuple[int, ...]], float]


def cover_game(trees: Sequence[Any], row: Sequence[float]) -> Game:
    return lambda known: sum(traversal(tree, row, known) for tree in trees)


def background_game(trees: Sequence[Any], row: Sequence[float], rows: np.ndarray, shares: np.ndarray) -> Game:
    return lambda known: sum(
        float(share) * substituted(tree, row, known, other)
        for tree in trees
        for other, share in zip(rows, shares, strict=True)
    )


def shapley(game: Game, n: int) -> np.ndarray:
    """Shapley's values (1953): the average over all orders, by looking at every coalition."""
    value = {s: game(s) for k in range(n + 1) for s in combinations(range(n), k)}
    out = np.zeros(n)
    for i in range(n):
        for s, without in value.items():
            if i not in s:
                factor = math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n)
                out[i] += factor * (value[tuple(sorted((*s, i)))] - without)
    return out


def shapley_interactions(game: Game, n: int) -> np.ndarray:
    """(n, n): halves of the Shapley interaction indices; the diagonal is what is left of the values."""
    value = {s: game(s) for k in range(n + 1) for s in combinations(range(n), k)}
    out = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        for s, neither in value.items():
            if i not in s and j not in s:
                factor = math.factorial(len(s)) * math.factorial(n - len(s) - 2) / (2 * math.factorial(n - 1))
                one, other, both = (value[tuple(sorted((*s, *more)))] for more in ((i,), (j,), (i, j)))
                out[i, j] += factor * (both - one - other + neither)
    out += out.T
    return out + np.diag(shapley(game, n) - out.sum(axis=1))


# --- interactions ----------------------------------------------------------------------------------------------------


def centred(values: np.ndarray, shares: np.ndarray) -> np.ndarray:
    return np.asarray(values - values @ shares)


def row_effects(trees: Sequence[Any], X: np.ndarray, shares: np.ndarray, j: int, k: int) -> tuple[np.ndarray, ...]:
    """At the rows, centred: F_j, F_jk - F_j - F_k, and F - F_j - F_{all but j}."""
    p = X.shape[1]

    def at(known: Iterable[int]) -> np.ndarray:
        return centred(dependence(trees, [0] * len(trees), X, known)[0], shares)

    one, other, both = at([j]), at([k]), at([j, k])
    return one, both - one - other, at(range(p)) - one - at(set(range(p)) - {j})


def h_statistic(trees: Sequence[Any], X: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Friedman and Popescu (2008), equations 44 and 45, from dependence at all rows; square roots."""
    p = X.shape[1]
    H, total = np.zeros((p, p)), np.zeros(p)
    whole = centred(dependence(trees, [0] * len(trees), X, range(p))[0], shares)
    for j in range(p):
        for k in range(p):
            if j != k:
                one, joint, rest = row_effects(trees, X, shares, j, k)
                other = row_effects(trees, X, shares, k, j)[0]
                under = (one + other + joint) ** 2 @ shares
                H[j, k] = math.sqrt(joint**2 @ shares / under) if under > 1e-20 else 0.0
                total[j] = math.sqrt(rest**2 @ shares / (whole**2 @ shares))
    return H, total


def component(
    tree: Any, known: Sequence[int], values: Sequence[Sequence[float]], chances: Sequence[Sequence[float]]
) -> np.ndarray:
    """Mean of a tree over independent columns with given values and chances, as a function of the known ones."""
    p = len(values)
    out = np.zeros([len(values[j]) for j in known])
    for place in np.ndindex(*(len(own) for own in values)):
        weight = math.prod(chances[j][place[j]] for j in range(p) if j not in known)
        row = [values[j][place[j]] for j in range(p)]
        out[tuple(place[j] for j in known)] += weight * leaf_value(tree, row)
    return out
