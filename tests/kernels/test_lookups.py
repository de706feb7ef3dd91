"""Splits by sets: masks and levels with look-ups, and walks, beside a walk of one row at a time."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from kernels.build import (
    every_team,
    random_codes,
    random_symmetric_tree,
    random_tree,
    run,
    values_of,
    with_sets,
)
from kernels.test_predict import check_values
from stagewise.kernels.lookups import walk_sets
from stagewise.kernels.predict import BLOCK
from stagewise.tree import forest as layouts
from stagewise.tree.forest import Forest
from stagewise.tree.tree import Tree

N_BINS = (6, 5, 200, 1, 30)
CATEGORICAL = (0, 2, 3)


def forest_of(rng: np.random.Generator, sizes: list[int], n_words: int = 4) -> tuple[list[Tree], list[int]]:
    trees = [random_tree(rng, size, N_BINS) for size in sizes]
    trees = [with_sets(rng, tree, CATEGORICAL if t % 3 else (2,), 200, n_words) for t, tree in enumerate(trees)]
    return trees, rng.integers(0, 2, len(sizes)).tolist()


def rows_of(rng: np.random.Generator, n: int, dtype: type = np.float64) -> np.ndarray:
    """Codes and numbers, some missing; and values that are no code of any set."""
    X = values_of(random_codes(rng, n, N_BINS), dtype)
    odd = rng.random(X.shape) < 0.1
    X[odd] = rng.choice([-1.0, -0.5, 255.0, 256.0, 1e9, 1e30, np.inf, -np.inf], int(odd.sum())).astype(dtype)
    return X


def check(trees: list[Tree], outputs: list[int], X: np.ndarray, n_threads: int) -> set[str]:
    leaves = np.full((len(X), len(trees)), -1, np.int64)
    run(
        n_threads, walk_sets, X, Forest.of(trees, outputs).walks, 0, len(trees), leaves, np.empty((0, 0))
    )  # fmt: skip
    np.testing.assert_array_equal(leaves, naive.tree_leaves(trees, X))
    np.testing.assert_array_equal(Forest.of(trees, outputs).leaves(X), leaves)
    return check_values(trees, outputs, X, n_threads)


@pytest.mark.nojit
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_forests_with_sets(dtype):
    rng = np.random.default_rng(5)
    trees, outputs = forest_of(rng, [5, 1, 2, 9])
    assert sum(len(tree.sets) for tree in trees) > 2
    assert check(trees, outputs, rows_of(rng, 14, dtype), 1) >= {"walks", "masks"}


@every_team
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 15, BLOCK, 2 * BLOCK + 9])
def test_sets_on_threads(n_rows, n_threads, dtype):
    rng = np.random.default_rng(n_rows)
    trees, outputs = forest_of(rng, [31, 1, 2, 64, 13])
    assert check(trees, outputs, rows_of(rng, n_rows, dtype), n_threads) == {"walks", "masks"}


@pytest.mark.parametrize("n_leaves", [32, 33, 64, 65, 300])
def test_large_trees_with_sets(n_leaves):
    rng = np.random.default_rng(n_leaves)
    trees, outputs = forest_of(rng, [n_leaves, 3])
    assert ("masks" in check(trees, outputs, rows_of(rng, 60), 2)) == (n_leaves <= 64)


@pytest.mark.nojit
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_symmetric_trees_with_sets(share):
    rng = np.random.default_rng(1)
    trees = [random_symmetric_tree(rng, depth, N_BINS, share) for depth in (3, 0, 1, 4, 2)]
    trees = [with_sets(rng, tree, CATEGORICAL, 200) for tree in trees]
    assert any(len(tree.sets) > 2 for tree in trees)
    assert "levels" in check(trees, [0, 1, 0, 1, 0], rows_of(rng, 20), 1)


@pytest.mark.nojit
def test_two_sets_on_a_level_are_not_symmetric():
    rng = np.random.default_rng(3)
    tree = with_sets(rng, random_symmetric_tree(rng, 2, [9], 1.0), (0,), 9)
    assert Forest.of([tree], [0]).levels is not None
    tree.sets[2] ^= np.uint64(2)
    assert Forest.of([tree], [0]).levels is None
    check([tree], [0], np.array([*np.arange(11.0), np.nan])[:, None], 1)


@pytest.mark.nojit
@pytest.mark.parametrize("bit", [0, 1, 62, 63, 64, 127, 255])
def test_single_codes(bit):
    """A set of one code, at the ends of words; every code around it."""
    rng = np.random.default_rng(0)
    tree = with_sets(rng, random_tree(rng, 2, [300]), (0,), 1)
    tree.sets[:] = 0
    tree.sets[0, bit // 64] = np.uint64(1) << np.uint64(bit % 64)
    X = np.array([*range(max(0, bit - 2), bit + 3), np.nan, -1.0])[:, None].astype(float)
    X = np.concatenate([X, X])  # more rows than are walked
    check([tree], [0], X, 1)


@pytest.mark.nojit
@pytest.mark.parametrize("words", [[0, 0], [2**64 - 1, 2**64 - 1], [0, 2**63], [1, 0]])
def test_empty_and_full_sets(words):
    rng = np.random.default_rng(0)
    tree = with_sets(rng, random_tree(rng, 2, [300]), (0,), 1, 2)
    tree.sets[0] = words
    X = np.array([0.0, 1.0, 63.0, 64.0, 126.0, 127.0, 128.0, 1e18, np.nan])[:, None]
    check([tree], [0], X, 1)


def test_sets_of_many_words_and_of_different_widths():
    rng = np.random.default_rng(8)
    narrow, wide = (with_sets(rng, random_tree(rng, 9, [5, 9]), (1,), n, w) for n, w in ((40, 1), (5000, 80)))
    X = np.column_stack([rng.normal(size=100), rng.integers(0, 5200, 100)])
    check([narrow, wide], [0, 0], X, 2)


def test_tables_that_would_be_too_large_are_not_made(monkeypatch):
    rng = np.random.default_rng(8)
    trees, outputs = forest_of(rng, [9, 12])
    X = rows_of(rng, 50)
    small = Forest.of(trees, outputs)
    monkeypatch.setattr(layouts, "_MOST_ENTRIES", 10)
    large = Forest.of(trees, outputs)
    assert small.masks is not None
    assert large.masks is None
    assert large.levels is None
    results = []
    for forest in (small, large):
        out = np.zeros((2, 50))
        forest.add(X, out)
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_stages_one_after_the_other():
    """A part of the trees at a time, as staged prediction does."""
    rng = np.random.default_rng(9)
    trees, _ = forest_of(rng, [9, 4, 12, 2])
    X, forest = rows_of(rng, 40), Forest.of(trees, [0] * 4)
    whole, parts = np.zeros((1, 40)), np.zeros((1, 40))
    forest.add(X, whole)
    for t in range(4):
        forest.add(X, parts, t, t + 1)
    np.testing.assert_array_equal(whole, parts)


def test_unused_places_of_a_layout_are_no_rubbish():
    """Splits by sets are no tests of the masks: what is left over must not surprise the cast to float32."""
    import warnings

    import stagewise as sw

    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (400, 3)).astype(np.float64)
    y = np.isin(X[:, 0], [1, 4, 7]) + 0.0
    model = sw.GradientBoostingRegressor(n_estimators=30, categorical_features=[0, 1, 2]).fit(X, y)
    np.empty(100_000).fill(1e300)  # so that fresh memory holds something
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X.astype(np.float32))
