"""Sets of categories in files: what comes back, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inspection.small import random_trees
from stagewise.errors import InputError
from stagewise.files.trees import read_trees, tree_arrays

TREES = [*random_trees(1, [6, 1, 9]), *random_trees(2, [5], sets=())]


def arrays():
    return {name: own.copy() for name, own in tree_arrays(TREES).items()}


def test_sets_come_back():
    again = read_trees(arrays(), 4)
    for one, other in zip(TREES, again, strict=True):
        np.testing.assert_array_equal(one.subset if len(one.sets) else np.empty(0), other.subset)
        np.testing.assert_array_equal(one.sets, other.sets)
    assert "subset" not in tree_arrays(random_trees(2, [5], sets=()))  # nothing new in files without categories


def test_one_encoding_of_a_tree():
    """Whatever the order of a tree's sets, and however many it does not use."""
    tree = TREES[2]
    n = len(tree.sets)
    mixed = np.random.default_rng(0).permutation(n)
    other = replace(
        tree,
        subset=np.where(tree.subset >= 0, np.argsort(mixed)[tree.subset], -1).astype(np.int32),
        sets=np.concatenate([tree.sets[mixed], np.full((2, 4), 7, np.uint64)]),
    )
    one, two = tree_arrays([tree]), tree_arrays([other])
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


def first(name, value):
    """The arrays with the first entry of a node that has a set changed."""
    changed = arrays()
    at = np.flatnonzero(changed["subset"] >= 0)[0]
    changed[name][at] = value
    return changed


@pytest.mark.parametrize(
    "changed, words",
    [
        (lambda: first("subset", 99), "beyond|do not add up"),
        (lambda: first("subset", 2**31 - 1), "beyond"),
        (lambda: first("subset", -2), "negative number"),
        (lambda: first("threshold", 1.0), "threshold besides"),
        (lambda: first("cut", 1), "threshold besides"),
        (lambda: first("subset", -1), "have no words"),
        (lambda: {**arrays(), "subset": arrays()["subset"][1:]}, "differ in length"),
        (lambda: {**arrays(), "subset": np.zeros(len(arrays()["left"]), np.int32)}, "leaf of a tree has a set"),
        (lambda: {**arrays(), "set_words": arrays()["set_words"] * 2**62}, "more than there are|no words"),
        (lambda: {**arrays(), "set_words": -arrays()["set_words"]}, "more than there are|no words"),
        (lambda: {**arrays(), "set_words": arrays()["set_words"][1:]}, "differ in length"),
        (lambda: {**arrays(), "sets": arrays()["sets"][1:]}, "no words|do not add up"),
        (lambda: {**arrays(), "sets": arrays()["sets"].astype(np.int64)}, "must be a row of uint64"),
        (lambda: {name: own for name, own in arrays().items() if name != "sets"}, "no array 'sets'"),
        (lambda: {name: own for name, own in arrays().items() if name != "subset"}, "no array 'subset'"),
    ],
)
def test_what_is_refused(changed, words):
    with pytest.raises(InputError, match=words):
        read_trees(changed(), 4)


def test_a_column_is_of_one_kind():
    with pytest.raises(InputError, match="by sets of categories and by thresholds"):
        read_trees(tree_arrays([*TREES, *random_trees(1, [9], sets=())]), 4)
