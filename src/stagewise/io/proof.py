"""Rows made to find differences: they reach every split of a model and stand on its threshold, and next to it.

At a split by a set of categories they have a code of the set, one that is not in it, any code, and none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stagewise.inspection.levels import set_codes
from stagewise.tree.tree import Tree

__all__ = ["probe_rows"]

_SPECIAL = (0.0, -0.0, 1.0, -1.0, 1e-36, -1e-36, 1e-300, 123456.789, -1e30, np.nan, np.nan, np.nan)


def probe_rows(
    trees: Sequence[Tree],
    n_columns: int,
    dtype: Any = np.float64,
    *,
    most: int = 50_000,
    infinite: bool = True,
    codes: Mapping[int, np.ndarray] | None = None,
) -> np.ndarray:
    """(n, n_columns) values: for each split rows that reach it, with its column at the threshold, one step of the
    type below, one step above, and missing; other columns at thresholds of their own, or missing.

    At most `most` rows: of larger models splits are taken at even distances. `infinite` allows ±inf. codes: by column
    that is split by sets, what it can hold.
    """
    codes = codes or {}
    rng = np.random.default_rng(0)
    inner = sum(int((tree.left >= 0).sum()) for tree in trees)
    step = max(1, -(-4 * inner // max(4, most)))
    with np.errstate(over="ignore"):  # the step above the largest number is infinity
        pools = _pools(trees, n_columns, dtype, infinite)
        for column, own in codes.items():
            pools[column] = np.concatenate([own, np.full(max(1, len(own) // 5), np.nan)]).astype(dtype)
        blocks = [block for tree in trees for block in _blocks(tree, pools, dtype, step, infinite, codes, rng)]
    mixed = np.column_stack([rng.choice(pool, 500) for pool in pools]).astype(dtype)
    return np.concatenate([*blocks, mixed])[: most + 500]


def _pools(trees: Sequence[Tree], n_columns: int, dtype: Any, infinite: bool) -> list[np.ndarray]:
    """Values worth trying in each column."""
    special = np.array([*_SPECIAL, *((np.inf, -np.inf) if infinite else ())])
    feature = np.concatenate([np.empty(0, np.int64), *(tree.feature[tree.left >= 0] for tree in trees)])
    threshold = np.concatenate([np.empty(0), *(tree.threshold[tree.left >= 0] for tree in trees)])
    pools = []
    for column in range(n_columns):
        at = _round_down(np.unique(threshold[feature == column]), dtype)
        near = np.concatenate([at, np.nextafter(at, -np.inf, dtype=dtype), np.nextafter(at, np.inf, dtype=dtype)])
        pool = np.concatenate([near, special.astype(dtype)])
        pools.append(pool if infinite else pool[~np.isinf(pool)])
    return pools


def _round_down(values: np.ndarray, dtype: Any) -> np.ndarray:
    """The largest numbers of the type that are not above."""
    near = values.astype(dtype)
    return np.where(near.astype(np.float64) > values, np.nextafter(near, -np.inf, dtype=dtype), near)


def _blocks(
    tree: Tree,
    pools: list[np.ndarray],
    dtype: Any,
    step: int,
    infinite: bool,
    codes: Mapping[int, np.ndarray],
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    """Four rows for every `step`-th split of a tree."""
    n, f = tree.n_nodes, len(pools)
    splits = np.flatnonzero(tree.left >= 0)[::step]
    if not len(splits):
        return
    low, high = np.full((n, f), -np.inf), np.full((n, f), np.inf)  # a row reaches the node when low < x <= high
    for k in np.flatnonzero(tree.left >= 0):
        a, j, bound = int(tree.left[k]), int(tree.feature[k]), float(tree.threshold[k])
        low[a : a + 2], high[a : a + 2] = low[k], high[k]
        if j in codes:
            continue
        high[a, j] = min(high[a, j], bound)
        low[a + 1, j] = max(low[a + 1, j], bound)
    low, high = low[splits], high[splits]
    rows = np.column_stack([rng.choice(pool, len(splits)) for pool in pools]).astype(dtype)
    top, bottom = _round_down(high, dtype), np.nextafter(_round_down(low, dtype), np.inf, dtype=dtype)
    upper = (high < np.inf) & ((low == -np.inf) | (rng.random(high.shape) < 0.5))
    rows = np.where(upper, top, np.where(low > -np.inf, bottom, rows))
    at = _round_down(tree.threshold[splits], dtype)
    column, line = tree.feature[splits], np.arange(len(splits))
    tests = [at, np.nextafter(at, np.inf, dtype=dtype), np.nextafter(at, -np.inf, dtype=dtype)]
    for j, own in codes.items():
        inside, asked = _members(tree, j, own)
        rows[:, j] = _any_of(inside[splits], own, rows[:, j], rng)
        mine = column == j
        for test, chosen in zip(tests, (inside & asked, inside & ~asked, inside), strict=True):
            test[mine] = _any_of(chosen[splits], own, rng.choice(own, len(splits)).astype(dtype), rng)[mine]
    for value in (*tests, None):
        block = rows.copy()
        block[line, column] = np.nan if value is None else value
        yield block if infinite else np.where(np.isinf(block), np.asarray(0, dtype), block)


def _members(tree: Tree, column: int, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """bool (n_nodes, codes): those with which a row can reach a node, and those that the node's set has."""
    inside, asked = np.ones((2, tree.n_nodes, len(codes)), bool)
    for k in np.flatnonzero(tree.left >= 0):
        a = int(tree.left[k])
        inside[a : a + 2] = inside[k]
        if tree.feature[k] == column and len(tree.subset) and tree.subset[k] >= 0:
            asked[k] = np.isin(codes, set_codes(tree.sets[tree.subset[k]]))
            inside[a] &= asked[k]
            inside[a + 1] &= ~asked[k]
    return inside, asked


def _any_of(chosen: np.ndarray, codes: np.ndarray, otherwise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each line of `chosen` one of its codes; where it has none, what there is otherwise."""
    best = (chosen * rng.random(chosen.shape)).argmax(axis=1)
    return np.where(chosen.any(axis=1), codes[best], otherwise)
