"""The arrays of a tree from the records of growth; what growth itself decides is in test_grow.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
from kernels.build import Case, Grown, backend_of, grow_tree, pack, random_tree, same_tree, twin_tree
from stagewise.tree.tree import NO_SHRINKAGE

ALL = np.empty(0, np.uint32)


@pytest.mark.nojit
@pytest.mark.parametrize("n_leaves", [1, 2, 5, 30])
def test_values_of_leaves(n_leaves):
    rng = np.random.default_rng(n_leaves)
    tree = random_tree(rng, n_leaves, [4, 6])
    values, weights = rng.normal(size=tree.n_nodes), rng.exponential(size=tree.n_nodes)
    values[::3] = np.nan
    got = tree.with_leaves(values, weights, 0.1)
    value, cover = naive.set_leaves(tree, values, weights, 0.1)
    assert got.value.tolist() == value
    np.testing.assert_allclose(got.cover, cover, rtol=1e-14)
    values[1::5], values[2::7] = np.inf, -1e300
    got = tree.with_leaves(values, weights, 0.1, (NO_SHRINKAGE[0], 0.0, 0.0, 0.5))
    assert got.value.tolist() == naive.set_leaves(tree, values, weights, 0.1, 0.5)[0]


def grown(codes: list[list[int]], n_bins: list[int], grad: list[float], **params: Any) -> Grown:
    """A tree on columns of codes; checked beside its twin."""
    case = Case(np.array(codes, np.uint8).T, n_bins, np.array(grad), np.ones(len(grad)), True)
    with backend_of(case, **{"min_samples_leaf": 1} | params) as backend:
        chosen = pack(backend, case)
        out = grow_tree(backend, chosen, ALL)
        same_tree(out, twin_tree(backend, case, chosen, ALL), chosen, params.get("growth") == "symmetric")
    return out


@pytest.mark.nojit
def test_missing_values_that_training_did_not_see_go_with_the_majority():
    few_left = grown([[0, 1, 1, 1]], [2], [5.0, 1.0, 1.0, 1.0], max_leaf_nodes=2).tree
    few_right = grown([[0, 0, 0, 1]], [2], [1.0, 1.0, 1.0, 5.0], max_leaf_nodes=2).tree
    equal = grown([[0, 0, 1, 1]], [2], [1.0, 1.0, 5.0, 5.0], max_leaf_nodes=2).tree
    assert [tree.missing_left[0] for tree in (few_left, few_right, equal)] == [0, 1, 1]


@pytest.mark.nojit
def test_a_symmetric_tree_has_one_majority_a_level():
    """The second column sends 1 of 2 rows left in one node and 1 of 4 in the other: 2 of 6 over the level."""
    codes = [[0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 1, 1]]
    out = grown(codes, [2, 2], [9.0, 5.0, -5.0, -9.0, -9.0, -9.0], growth="symmetric", max_depth=2)
    assert out.tree.feature.tolist()[:3] == [0, 1, 1]
    assert out.tree.missing_left.tolist()[:3] == [0, 0, 0]


@pytest.mark.nojit
def test_the_last_bin_ends_at_infinity():
    """Values left, missing right."""
    tree = grown([[0, 1, 255, 255]], [2], [1.0, 1.0, 5.0, 5.0], max_leaf_nodes=2).tree
    assert (tree.cut[0], tree.threshold[0], tree.missing_left[0]) == (1, np.inf, 0)


@pytest.mark.nojit
def test_a_tree_of_one_leaf():
    out = grown([[0, 0, 0]], [1], [1.0, 2.0, 3.0])
    assert (out.tree.left.tolist(), out.tree.count.tolist(), out.tree.feature.tolist()) == ([-1], [3], [-1])
    assert out.members[0].tolist() == [0, 1, 2]
