"""The leaves of all rows at once, beside a walk down the tree."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from kernels.build import bins_of, every_team, run
from stagewise.kernels.jit import JIT
from stagewise.kernels.labels import MOST_LEAVES, label_all, label_and_sum
from stagewise.kernels.leaves import NEWTON
from stagewise.kernels.team import Team
from stagewise.tree.tree import Tree


def random_tree(rng: np.random.Generator, n_leaves: int, n_columns: int) -> Tree:
    """Leaves split at random, anywhere; cut points at both ends of the codes among them."""
    left, leaves = [-1], [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(int(rng.integers(len(leaves))))
        left[node] = len(left)
        leaves += [len(left), len(left) + 1]
        left += [-1, -1]
    n = len(left)
    return Tree(
        feature=rng.integers(0, n_columns, n).astype(np.int32),
        threshold=np.zeros(n),
        cut=rng.choice([0, 1, 7, 100, 253], n).astype(np.int32),
        missing_left=rng.integers(0, 2, n).astype(np.uint8),
        left=np.array(left, np.int32),
        value=np.zeros(n),
        gain=np.zeros(n),
        count=np.zeros(n, np.int64),
        cover=np.zeros(n),
        depth=np.zeros(n, np.int32),
    )


@pytest.mark.nojit
@every_team
@pytest.mark.parametrize("n_leaves", [1, 2, 3, 5, 31, 64, 127, MOST_LEAVES])
def test_label_all(n_threads, n_leaves):
    rng = np.random.default_rng(n_leaves)
    n = 700 if n_leaves < 31 or not JIT else 5000  # more than a block, and not a whole number of vectors
    codes = rng.choice(np.array([0, 1, 2, 7, 8, 100, 101, 253, 254, 255], np.uint8), (n, 3))
    tree = random_tree(rng, n_leaves, 3)
    labels = np.zeros(n, np.uint16)
    shape = (tree.feature, tree.cut, tree.missing_left, tree.left)
    run(n_threads, label_all, bins_of(codes, [255] * 3), *shape, labels)
    expected = naive.label_binned(tree, codes, range(n), np.zeros(n, np.uint16))
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.nojit
@every_team
def test_label_and_sum(n_threads):
    """All rows get labels; the sums are those of a sample, and so are the labels that it goes by."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 255, (900, 3)).astype(np.uint8)
    tree, index = random_tree(rng, 6, 3), np.flatnonzero(rng.random(900) < 0.3).astype(np.uint32)
    expected = naive.label_binned(tree, codes, range(900), np.zeros(900, np.uint16))
    own, (grad, hess, weight) = expected[index], rng.integers(-1024, 1024, (3, len(index))) / 1024.0
    counts = np.bincount(own, minlength=tree.n_nodes)
    labels, found, out = np.zeros(900, np.uint16), np.zeros(400, np.uint16), np.zeros((tree.n_nodes, 4))
    with Team(n_threads) as team:
        limbs = np.zeros((team.n_threads, tree.n_nodes + 1, 6), np.int64)
        tests = (bins_of(codes, [255] * 3), tree.feature, tree.cut, tree.missing_left, tree.left, labels)
        sums = (team.gate, found, counts, grad, hess, weight, np.ones(3), 42, False, NEWTON, 0.0, limbs, out)
        team.run(label_and_sum, tests, index, sums)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(found[: len(index)], own)
    members = [np.flatnonzero(own == node) for node in range(tree.n_nodes)]
    twin = naive.leaf_sums((grad, hess, weight), members, [1.0] * 3, 42)
    np.testing.assert_array_equal(out[:, :3], np.array(twin, float))


def test_numbers_of_nodes_are_bytes():
    assert 2 * MOST_LEAVES - 1 <= 255, "255 itself is nobody's number"
