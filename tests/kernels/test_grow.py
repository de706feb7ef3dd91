"""Whole trees beside a grower that makes every histogram afresh from its rows, in exact arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
from kernels.build import (
    Case,
    backend_of,
    every_team,
    grow_tree,
    integers,
    leaf_totals,
    pack,
    random_case,
    same_again,
    same_tree,
    twin_tree,
)
from stagewise.backends import cpu
from stagewise.kernels.exact import Packing
from stagewise.kernels.histogram import PITCH
from stagewise.kernels.jit import JIT

ALL = np.empty(0, np.uint32)
FORMS = {"narrow": (False, False), "constant": (True, False), "wide": (False, True), "wide, constant": (True, True)}
every_form = pytest.mark.parametrize("constant, wide", FORMS.values(), ids=FORMS)

PARAMS: dict[str, dict[str, Any]] = {
    "leafwise": {"growth": "leafwise"},
    "levelwise": {"growth": "levelwise"},
    "shallow": {"growth": "leafwise", "max_depth": 3},
    "levelwise, shallow": {"growth": "levelwise", "max_depth": 2},
    "two leaves": {"max_leaf_nodes": 2},
    "l1, l2": {"l1": 1.0, "l2": 2.0},
    "limits": {"min_samples_leaf": 4, "min_child_weight": 0.9, "min_split_gain": 0.5},
    "few columns": {"tree_columns": 3, "split_columns": 2},
}
every_param = pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)


def check(
    case: Case, n_threads: int, index: np.ndarray = ALL, key: int = 9, block: int | None = None, **params: Any
) -> int:
    """Grow a tree and its twin; the number of nodes."""
    with backend_of(case, n_threads, **params) as backend:
        chosen = pack(backend, case, block)
        grown = grow_tree(backend, chosen, index, key)
        nodes = twin_tree(backend, case, chosen, index, key)
    same_tree(grown, nodes, chosen, params.get("growth") == "symmetric")
    return len(nodes)


# -------------------------------------------------------------------------------------------------------- small trees


@pytest.mark.nojit
@every_param
def test_small_trees(params):
    case = random_case(np.random.default_rng(0), 50, [6, 3, 9, 2], 0.1)
    grew = check(case, 1, **{"min_samples_leaf": 2, "max_leaf_nodes": 8, "min_child_weight": 0.0} | params)
    assert grew > 1


@pytest.mark.nojit
@every_form
@pytest.mark.parametrize("block", [None, 7, 15])
def test_small_trees_of_every_form(constant, wide, block):
    """Small blocks: packed and wide histograms in one small tree."""
    case = random_case(np.random.default_rng(1), 45, [5, 3], 0.15, constant, wide)
    check(case, 1, min_samples_leaf=1, max_leaf_nodes=9, block=block)


@pytest.mark.nojit
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_tiny_tables(n_rows):
    case = random_case(np.random.default_rng(n_rows), n_rows, [3, 2], 0.0)
    check(case, 1, min_samples_leaf=1, min_child_weight=0.0)
    check(case, 1)


@pytest.mark.nojit
def test_some_rows():
    rng = np.random.default_rng(2)
    case = random_case(rng, 60, [8, 4, 3])
    index = np.sort(rng.choice(60, 33, replace=False)).astype(np.uint32)
    check(case, 1, index, min_samples_leaf=2)
    check(case, 1, index[:1], min_samples_leaf=1)


@pytest.mark.nojit
def test_columns_that_say_nothing():
    rng = np.random.default_rng(3)
    case = random_case(rng, 40, [1, 4, 1], 0.0)
    case.codes[:, 2] = 255  # all missing
    check(case, 1, min_samples_leaf=2)
    nothing = case._replace(codes=np.zeros_like(case.codes))
    assert check(nothing, 1, min_samples_leaf=2) == 1


@pytest.mark.nojit
@pytest.mark.parametrize("growth", ["leafwise", "levelwise", "symmetric"])
def test_a_least_gain_ends_growth(growth):
    case, middle = random_case(np.random.default_rng(4), 50, [6, 5, 4]), 150.0 if growth == "symmetric" else 40.0
    params = {"growth": growth, "min_samples_leaf": 2, "max_depth": 5, "min_child_weight": 0.0}
    sizes = [check(case, 1, min_split_gain=gain, **params) for gain in (0.0, middle, 1e9)]
    assert sizes[0] > sizes[1] > sizes[2] == 1


@pytest.mark.nojit
@pytest.mark.parametrize("growth", ["leafwise", "levelwise"])
def test_of_equal_leaves_the_first_is_split(growth):
    """Two halves that mirror each other gain the same, to the last bit."""
    rng = np.random.default_rng(5)
    half = rng.integers(0, 4, 20)
    grad = 5.0 + half + 0.1 * rng.normal(size=20)
    codes = np.column_stack([np.repeat([0, 1], 20), np.tile(half, 2)]).astype(np.uint8)
    case = Case(codes, [2, 4], np.concatenate([grad, -grad]), np.full(40, 0.25))
    with backend_of(case, growth=growth, max_leaf_nodes=3, min_samples_leaf=1) as backend:
        tree = grow_tree(backend, pack(backend, case), ALL).tree
    assert tree.left.tolist() == [1, 3, -1, -1, -1]
    check(case, 1, growth=growth, max_leaf_nodes=3, min_samples_leaf=1)
    check(case, 1, growth=growth, max_leaf_nodes=6, min_samples_leaf=1)


@pytest.mark.nojit
def test_gradients_of_zero():
    case = random_case(np.random.default_rng(3), 40, [4, 4])
    for hess in (case.hess, np.zeros(40)):
        with backend_of(case, min_samples_leaf=1) as backend:
            chosen = backend.pack(np.zeros(40), hess, (0.0, float(hess.max())), False, False)
            assert grow_tree(backend, chosen, ALL).tree.n_nodes == 1


# -------------------------------------------------------------------------------------------------------------- teams


@every_team
@every_param
def test_trees_on_threads(params, n_threads):
    case = random_case(np.random.default_rng(4), 3000, [12, 3, 60, 2, 7, 5], 0.1)
    assert check(case, n_threads, **{"min_samples_leaf": 10, "max_leaf_nodes": 12} | params) > 1


@every_team
@every_form
def test_packed_and_wide_histograms(constant, wide, n_threads):
    case = random_case(np.random.default_rng(5), 40_000 if constant else 11_000, [16, 5, 7], 0.05, constant, wide)
    check(case, n_threads, min_samples_leaf=20, max_leaf_nodes=10)


def halves(n_rows: int, left: int, constant: bool) -> Case:
    """A table whose first split sends `left` rows left, and whose children split again."""
    rng = np.random.default_rng(n_rows + left)
    codes = np.column_stack([np.arange(n_rows) >= left, rng.integers(0, 6, n_rows)]).astype(np.uint8)
    jump = 1.0 + np.sqrt(n_rows / min(left, n_rows - left))  # worth more than the other column, however few rows
    grad = np.where(codes[:, 0] == 0, jump, 0.0) + 0.1 * codes[:, 1] + 0.05 * rng.normal(size=n_rows)
    return Case(codes, [2, 6], grad, np.ones(n_rows) if constant else rng.uniform(0.1, 0.2, n_rows), constant)


# (blocks, rows more) of a node, and of its left child
SIZES = {
    "all packed": [((1, 0), (0, 2000)), ((1, 0), (0, 1))],
    "wide, children packed": [((1, 1), (1, 0)), ((1, 1), (0, 1)), ((2, 0), (1, 0)), ((1, 900), (0, 2500))],
    "wide, one child packed": [((2, 1), (1, 0)), ((2, 1), (1, 1)), ((2, 500), (0, 30)), ((3, 0), (2, 5))],
    "all wide": [((2, 2), (1, 1)), ((3, 100), (1, 300))],
}


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_sizes_around_a_block(sizes, constant, n_threads):
    """A parent's histogram less its smaller child's, each packed or wide."""
    for whole, part in sizes:
        block = 16_383 if constant else 4095
        n_rows, left = (blocks * block + more for blocks, more in (whole, part))
        case = halves(n_rows, left, constant)
        with backend_of(case, n_threads, min_samples_leaf=1, max_leaf_nodes=5) as backend:
            chosen = pack(backend, case)
            assert chosen.block == block
            grown = grow_tree(backend, chosen, ALL)
            assert grown.tree.count[:3].tolist() == [n_rows, left, n_rows - left]
            same_tree(grown, twin_tree(backend, case, chosen, ALL), chosen)


@every_team
def test_some_rows_on_threads(n_threads):
    rng = np.random.default_rng(6)
    case = random_case(rng, 12_000, [20, 5, 3])
    index = np.sort(rng.choice(12_000, 9000, replace=False)).astype(np.uint32)
    check(case, n_threads, index, min_samples_leaf=30, max_leaf_nodes=8)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("growth", ["leafwise", "levelwise"])
def test_histograms_that_are_dropped_are_made_again(monkeypatch, growth, n_threads):
    """With room for three histograms the tree is the same."""
    monkeypatch.setattr(cpu, "_POOL_BYTES", 1)
    case = random_case(np.random.default_rng(8), 11_000, [16, 5, 7], 0.05)
    params = {"min_samples_leaf": 10, "max_leaf_nodes": 20}
    with backend_of(case, n_threads, growth=growth, **params) as backend:
        assert backend._room.tolist() == [3, 3]
    check(case, n_threads, growth=growth, **params)


@pytest.mark.nojit
@pytest.mark.parametrize("block", [None, 7])
def test_small_histograms_that_are_dropped(monkeypatch, block):
    monkeypatch.setattr(cpu, "_POOL_BYTES", 1)
    case = random_case(np.random.default_rng(9), 60, [9, 5, 7], 0.05)
    check(case, 1, growth="levelwise", min_samples_leaf=1, max_leaf_nodes=14, block=block)


@pytest.mark.skipif(not JIT, reason="one thread only")
@pytest.mark.parametrize("n_threads", [2, 5])
def test_threads_never_disagree(n_threads):
    """The same tree from more threads than cores, again and again: a missing barrier shows here, if seldom."""
    case = random_case(np.random.default_rng(10), 2500, [9, 5, 7, 3, 4, 6, 8, 2], 0.1)
    same_again(case, n_threads, 150, min_samples_leaf=5, max_leaf_nodes=60)


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_splits_that_differ_in_the_last_bit(n_threads):
    """Columns 0 and 4, which two threads search, differ by 1 ulp in what is compared and not at all in improvement."""
    codes = np.zeros((10, 8), np.uint8)
    codes[3:, 0] = 1
    codes[[1, 2, 6, 7, 8, 9], 4] = 1
    grad = np.zeros(10)
    grad[[0, 1, 3, 6]] = np.array([315190184523, -185493602669, -225167717919, -517861595181]) * 2.0**-40
    case = Case(codes, [2, 1, 1, 1, 2, 1, 1, 1], grad, np.ones(10), True)
    columns = []
    for threads in (1, n_threads):
        with backend_of(case, threads, min_samples_leaf=1, max_leaf_nodes=2) as backend:
            columns.append(grow_tree(backend, pack(backend, case), ALL).tree.feature[0])
    assert columns[0] == columns[1]


# ------------------------------------------------------------------------------------------------- a root that is there


def root_of(case: Case, chosen: Packing, stride: int) -> np.ndarray:
    """The wide histogram of all rows, as growth takes it."""
    g, h = integers(case.grad, case.hess, chosen)
    sums = naive.histogram_of_rows(case.codes, g, h, np.arange(len(g)))
    root = np.zeros((2, stride, PITCH), np.int64)
    root[0, : len(sums), :256] = sums[..., 0]
    root[1, : len(sums), :256] = (sums[..., 1] << int(chosen.count_bits)) + sums[..., 2]
    return root.reshape(2, -1)


def check_root(case: Case, n_threads: int, block: int | None = None, **params: Any) -> None:
    """The tree grown from a root's histogram is that of its rows; it is that histogram which is looked at."""
    with backend_of(case, n_threads, **params) as backend:
        chosen = pack(backend, case, block)
        root = root_of(case, chosen, backend.bins.width)
        before = root.copy()
        grown = grow_tree(backend, chosen, ALL, root=root)
        np.testing.assert_array_equal(root, before)
        same_tree(grown, twin_tree(backend, case, chosen, ALL), chosen, params.get("growth") == "symmetric")
        assert grow_tree(backend, chosen, ALL, root=np.zeros_like(root)).tree.n_nodes == 1


@pytest.mark.nojit
@every_form
@pytest.mark.parametrize("block", [None, 7])
@pytest.mark.parametrize("growth", ["leafwise", "symmetric"])
def test_small_trees_from_a_root(growth, constant, wide, block):
    case = random_case(np.random.default_rng(13), 45, [5, 3, 2, 4, 9], 0.15, constant, wide)
    check_root(case, 1, block, growth=growth, min_samples_leaf=1, max_leaf_nodes=8, max_depth=3)


@every_team
@pytest.mark.parametrize("growth", ["leafwise", "symmetric"])
def test_trees_from_a_root_on_threads(growth, n_threads):
    for n_rows in (3000, 11_000):
        case = random_case(np.random.default_rng(14), n_rows, [16, 5, 7, 3, 200, 9], 0.05)
        check_root(case, n_threads, growth=growth, min_samples_leaf=20, max_leaf_nodes=8, max_depth=3)


# ----------------------------------------------------------------------------------------------------- what is packed


@pytest.mark.nojit
def test_unequal_gradients_are_kept_in_two_words():
    """More than half of the rows with next to no bits left: wide words, chosen by themselves."""
    rng = np.random.default_rng(11)
    case = random_case(rng, 40, [5, 4])
    huge = case.grad.copy()
    huge[0] = 1e9
    for grad, narrow in [(case.grad, True), (huge, False)]:
        unequal = case._replace(grad=grad)
        with backend_of(unequal, min_samples_leaf=1) as backend:
            chosen = pack(backend, unequal)
            assert chosen.narrow == narrow
            g, _ = integers(grad, case.hess, chosen)
            assert np.count_nonzero(np.abs(g) < 8) <= 2
        check(unequal, 1, min_samples_leaf=1, max_leaf_nodes=6)


@pytest.mark.nojit
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("growth", ["leafwise", "symmetric"])
def test_leaves_of_a_sample_hold_its_rows_only(growth, n_threads):
    """The sums of a tree's leaves: rows that did not grow the tree take no part, however small the tree is."""
    rng = np.random.default_rng(12)
    case = random_case(rng, 60, [8, 4, 3])
    index = np.sort(rng.choice(60, 33, replace=False)).astype(np.uint32)
    for most in (2, 8, 31):
        params = {"growth": growth, "min_samples_leaf": 3, "max_leaf_nodes": most, "max_depth": 3}
        with backend_of(case, n_threads, **params) as backend:
            chosen = pack(backend, case)
            for rows in (index, ALL):
                sums, members = leaf_totals(backend, case, chosen, rows)
                for node, own in members.items():
                    expected = [case.grad[own].sum(), case.hess[own].sum(), len(own)]
                    np.testing.assert_allclose(sums[node, :3], expected, rtol=1e-9, atol=1e-9)
