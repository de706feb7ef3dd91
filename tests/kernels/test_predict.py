"""Predictions: masks over leaves, walks of many rows and binned walks, beside a walk of one row at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
from kernels.build import (
    add_tree,
    every_team,
    label,
    layouts_of,
    masks_of,
    predict_by,
    random_codes,
    random_symmetric_tree,
    random_tree,
    run,
    values_of,
)
from stagewise.kernels.coded import Coded
from stagewise.kernels.octets import OCTET_ROWS, Octets, leaf_spans
from stagewise.kernels.predict import BLOCK, TESTS, tree_leaves
from stagewise.tree.forest import Forest
from stagewise.tree.tree import Tree

N_BINS = (2, 5, 9, 1, 30)


def forest_of(rng: np.random.Generator, sizes: list[int], n_outputs: int = 1) -> tuple[list[Tree], list[int]]:
    return [random_tree(rng, size, N_BINS) for size in sizes], rng.integers(0, n_outputs, len(sizes)).tolist()


def check_values(trees: list[Tree], outputs: list[int], X: np.ndarray, n_threads: int) -> set[str]:
    """Every layout gives what one row at a time gives; the names of the layouts."""
    n_outputs = max(outputs, default=0) + 1
    start = np.random.default_rng(0).normal(size=(n_outputs, len(X)))
    expected = naive.predict(trees, outputs, X, start)
    layouts = layouts_of(trees, outputs)
    for method, layout in layouts.items():
        out = start.copy()
        predict_by(method, layout, X, out, n_threads, 0, len(trees))
        np.testing.assert_array_equal(out, expected, err_msg=method)
        middle = len(trees) // 2  # a part of the trees, then the rest
        out = start.copy()
        predict_by(method, layout, X, out, n_threads, 0, middle)
        predict_by(method, layout, X, out, n_threads, middle, len(trees))
        np.testing.assert_array_equal(out, expected, err_msg=method)
    out = start.copy()
    Forest.of(trees, outputs).add(X, out, n_threads=n_threads)
    np.testing.assert_array_equal(out, expected)
    return set(layouts)


def check_prediction(n_rows: int, sizes: list[int], n_threads: int, dtype: type, n_outputs: int = 1) -> None:
    rng = np.random.default_rng(n_rows + len(sizes))
    trees, outputs = forest_of(rng, sizes, n_outputs)
    codes = random_codes(rng, n_rows, N_BINS)
    X = values_of(codes, dtype)
    layouts = check_values(trees, outputs, X, n_threads)
    assert ("masks" in layouts) == (max(sizes) <= 64)
    leaves = np.full((n_rows, len(trees)), -1, np.int64)
    run(n_threads, tree_leaves, X, Forest.of(trees, outputs).walks, leaves)
    np.testing.assert_array_equal(leaves, naive.tree_leaves(trees, X))
    # the same leaves from codes
    for t, tree in enumerate(trees):
        np.testing.assert_array_equal(leaves[:, t], [naive.leaf_of_codes(tree, row) for row in codes])


@pytest.mark.nojit
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_forests(dtype):
    check_prediction(14, [1, 2, 7, 12], 1, dtype)
    check_prediction(3, [5, 1], 1, dtype, n_outputs=3)


@every_team
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 15, 17, BLOCK, 2 * BLOCK + 9])
def test_prediction_on_threads(n_rows, n_threads, dtype):
    check_prediction(n_rows, [31, 1, 2, 64, 13], n_threads, dtype, n_outputs=2)


@pytest.mark.parametrize("n_leaves", [63, 64, 65, 300])
def test_large_trees(n_leaves):
    check_prediction(60, [n_leaves, 3], 2, np.float64)


# ---------------------------------------------------------------------------------------------------- symmetric trees


@pytest.mark.nojit
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_small_symmetric_forests(share):
    rng = np.random.default_rng(1)
    trees = [random_symmetric_tree(rng, depth, N_BINS, share) for depth in (3, 0, 1, 4)]
    X = values_of(random_codes(rng, 20, N_BINS))
    assert "levels" in check_values(trees, [0, 1, 0, 1], X, 1)


@every_team
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, BLOCK, 2 * BLOCK + 9])
def test_symmetric_trees_on_threads(n_rows, n_threads, dtype):
    rng = np.random.default_rng(n_rows)
    trees = [random_symmetric_tree(rng, depth, N_BINS) for depth in (6, 3, 0, 10)]
    X = values_of(random_codes(rng, n_rows, N_BINS), dtype)
    assert "levels" in check_values(trees, [1, 0, 1, 0], X, n_threads)


@pytest.mark.nojit
def test_level_tables():
    rng = np.random.default_rng(2)
    trees = [random_symmetric_tree(rng, depth, N_BINS) for depth in (3, 0, 1, 2)]
    levels = Forest.of(trees, [0, 1, 0, 2]).levels
    assert levels is not None
    assert levels.output.tolist() == [0, 1, 0, 2]
    for t, tree in enumerate(trees):
        expected = naive.level_tables(tree)
        assert expected is not None
        tests, values = expected
        own = slice(levels.start[t], levels.start[t + 1])
        fields = (levels.feature[own].tolist(), levels.threshold[own].tolist(), levels.missing_left[own].tolist())
        assert list(zip(*fields, strict=True)) == tests
        first = levels.value_start[t]
        assert levels.value[first : first + len(values)].tolist() == values


@pytest.mark.nojit
@pytest.mark.parametrize("field, other", [("feature", 0), ("threshold", 7.5), ("missing_left", 0)])
def test_two_tests_on_a_level_are_not_symmetric(field, other):
    """One field of one test is changed, in the middle of a forest."""
    rng = np.random.default_rng(3)
    first, last = random_symmetric_tree(rng, 2, N_BINS, 1.0), random_symmetric_tree(rng, 1, N_BINS, 1.0)
    tree = replace(
        first, feature=np.where(first.left >= 0, 2, -1).astype(np.int32), missing_left=first.missing_left | 1
    )
    changed = getattr(tree, field).copy()
    changed[2] = other
    odd = replace(tree, **{field: changed})
    assert naive.level_tables(tree) is not None
    assert Forest.of([first, tree, last], [0, 0, 0]).levels is not None
    assert naive.level_tables(odd) is None
    forest = Forest.of([first, odd, last], [0, 0, 0])
    assert forest.levels is None
    assert forest.masks is not None
    check_values([first, odd, last], [0, 0, 0], values_of(random_codes(rng, 20, N_BINS)), 1)


# -------------------------------------------------------------------------------------------------------------- masks


def chain(n_leaves: int, side: int) -> Tree:
    """A tree in which every split but the last has a leaf on one side: as deep as can be."""
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 1, [255])
    n = 2 * n_leaves - 1
    left, feature, depth = np.full(n, -1), np.full(n, -1), np.zeros(n, int)
    node = 0
    for k in range(n_leaves - 1):
        left[node], feature[node] = 2 * k + 1, 0
        depth[left[node] : left[node] + 2] = k + 1
        node = left[node] + side
    cuts = np.arange(n)[::-1] // 2 if side == 0 else np.arange(n) // 2
    return Tree(
        feature=feature.astype(np.int32),
        threshold=cuts + 0.5,
        cut=cuts.astype(np.int32),
        missing_left=(np.arange(n) % 3 == 0).astype(np.uint8),
        left=left.astype(np.int32),
        value=rng.normal(size=n),
        gain=np.zeros(n),
        count=np.ones(n, np.int64),
        cover=np.ones(n),
        depth=depth.astype(tree.depth.dtype),
    )


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("n_leaves", [64, 65])
def test_chains(n_leaves, side):
    tree = chain(n_leaves, side)
    X = np.append(np.arange(-1.0, 130.0, 0.5), [np.nan, np.inf, -np.inf])[:, None]
    assert check_values([tree], [0], X, 2) == {"walks", "coded", "octets"} | ({"masks"} if n_leaves == 64 else set())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_at_the_edges(dtype):
    """Values on a threshold, next to it, infinite, missing, and thresholds that float32 cannot tell apart."""
    rng = np.random.default_rng(0)
    near = [0.1, np.nextafter(0.1, 1.0), float(np.float32(0.1)), 1e300, -1e300, 1e-300, 0.0, -0.0, np.inf]
    trees = [chain(200, 1), chain(90, 0)]
    trees = [replace(own, threshold=np.where(own.left >= 0, rng.choice(near, len(own.left)), 0.0)) for own in trees]
    with np.errstate(over="ignore"):
        beside = np.nextafter(np.float32(near), np.float32(9))
        X = np.array([*near, np.nan, -np.inf, 0.2, *beside], dtype)[:, None]
    assert check_values(trees, [0, 1], np.vstack([X, X]), 1) == {"walks", "coded", "octets"}


def test_columns_of_many_thresholds_are_walked():
    tree = chain(300, 1)
    X = np.arange(-2.0, 320.0, 0.5)[:, None]
    assert check_values([tree], [0], X, 2) == {"walks"}
    narrow = replace(tree, threshold=np.minimum(tree.threshold, 253.5))  # 254 different ones
    assert check_values([narrow], [0], X, 2) == {"walks", "coded", "octets"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("leaves", [40, 100])
def test_wide_tables_of_which_trees_use_some_columns(dtype, leaves):
    """Columns that no test asks for are not even read."""
    rng = np.random.default_rng(leaves)
    trees = [random_tree(rng, leaves, N_BINS) for _ in range(9)]
    codes = random_codes(rng, BLOCK + 20, N_BINS)
    X = np.full((len(codes), 700), np.nan, dtype)
    place = np.array([699, 3, 64, 65, 500])
    X[:, place] = values_of(codes, dtype)
    moved = [replace(own, feature=np.where(own.left >= 0, place[own.feature], -1).astype(np.int32)) for own in trees]
    assert {"coded", "octets"} <= check_values(moved, [0] * 9, X, 2)


@pytest.mark.nojit
def test_leaf_spans():
    trees, outputs = forest_of(np.random.default_rng(0), [9, 1, 30, 2])
    walks = Forest.of(trees, outputs).walks
    first, last = np.empty((2, len(walks.left)), np.int64)
    leaf_spans(walks, first, last)
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == [
        span for tree in trees for span in naive.leaf_spans(tree)
    ]


@pytest.mark.parametrize("n_leaves", [65, 500, 512, 513, 600])
def test_forests_of_large_trees(n_leaves):
    """A forest predicts by bytes of leaves, beyond 512 of them by walks on codes, few rows or trees on values."""
    rng = np.random.default_rng(n_leaves)
    trees = [random_tree(rng, n_leaves, [250] * 6) for _ in range(8)]
    forest = Forest.of(trees, [0] * 8)
    assert type(forest.on_codes) is (Octets if n_leaves <= 512 else Coded)
    for n_rows in (3, 40, OCTET_ROWS // 4, OCTET_ROWS + 1):
        X = values_of(random_codes(rng, n_rows, [250] * 6))
        check_values(trees, [0] * 8, X, 1)
    assert forest.masks is None


@pytest.mark.nojit
@pytest.mark.parametrize("n_leaves", [1, 2, 5, 12])
def test_leaf_masks(n_leaves):
    rng = np.random.default_rng(n_leaves)
    trees, outputs = forest_of(rng, [n_leaves, 3, n_leaves, 1], 2)
    masks = masks_of(trees, outputs)
    assert masks is not None
    assert masks.output.tolist() == outputs
    for t, tree in enumerate(trees):
        leaves, tests = naive.leaf_masks(tree)
        a, b = masks.start[t], masks.start[t + 1]
        bits = 8 * masks.keep.dtype.itemsize
        column, threshold, keep = masks.column[a:b].tolist(), masks.threshold[a:b].tolist(), masks.keep[a:b].tolist()
        found = [(c & 1, c >> 1, h, m) for c, h, m in zip(column, threshold, keep, strict=True)]
        real = [test for test in found if test != (0, 0, np.inf, 2**bits - 1)]  # the others have no effect
        assert len(found) % TESTS == 0
        assert sorted(real) == sorted((side, c, h, kept % 2**bits) for side, c, h, kept in tests)
        first = masks.value_start[t]
        np.testing.assert_array_equal(masks.value[first : first + len(leaves)], tree.value[leaves])


@every_team
@pytest.mark.nojit
@pytest.mark.parametrize("n_leaves", [1, 2, 20])
def test_binned_rows(n_leaves, n_threads):
    rng = np.random.default_rng(n_leaves)
    tree = random_tree(rng, n_leaves, N_BINS)
    codes = random_codes(rng, 50, N_BINS)
    some = np.sort(rng.choice(50, 23, replace=False)).astype(np.uint32)
    for index, rows in [(np.empty(0, np.uint32), np.arange(50)), (some, some)]:
        raw = rng.normal(size=len(rows))
        expected = naive.add_tree_binned(tree, codes, rows, raw)
        add_tree(tree, codes, index, raw, n_threads)
        np.testing.assert_array_equal(raw, expected)
    labels = np.full(50, 7, np.int32)
    expected = naive.label_binned(tree, codes, some, labels)
    label(tree, codes, some, labels, n_threads)
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.nojit
def test_a_forest_without_trees():
    forest = Forest.of([], [])
    out = np.ones((1, 4))
    forest.add(np.zeros((4, 2)), out)
    assert out.tolist() == [[1.0] * 4]
    assert forest.leaves(np.zeros((4, 2))).shape == (4, 0)
