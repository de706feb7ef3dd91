"""Leaves as boxes, and leaves in groups: the same conditions as the tests on their way, one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import naive_paths
from inspection.small import N_BINS, model_of, random_rows, random_trees
from stagewise.inspection.leaves import groups_of, paths_of
from stagewise.kernels.paths import Groups, Paths

PROBES = [np.nan, -np.inf, np.inf, *np.arange(-1.0, 6.0, 0.25)]


def holds(value: float, found: Paths | Groups, c: int) -> bool:
    """Whether a value meets condition c of paths, or test c of groups."""
    if np.isnan(value):
        return bool(found.missing[c])
    if found.subset[c] >= 0:
        *words, beyond = found.sets[found.subset[c]]
        coded = 0.0 <= value < 64 * len(words)
        return int(value) in naive_paths.codes_of(words) if coded else bool(int(beyond) & 1)
    return bool(not value <= found.low[c] and value <= found.high[c])


@pytest.mark.nojit
@pytest.mark.parametrize("seed", range(4))
def test_conditions_are_the_tests_of_the_way(seed):
    trees = random_trees(seed, [1, 2, 7, 12], nothing=0.2)
    paths = paths_of(model_of(trees, len(N_BINS), 2))
    leaf = 0
    for t, tree in enumerate(trees):
        expected = naive_paths.leaf_paths(tree)
        for node in tree.leaves:
            own = slice(paths.start[leaf], paths.start[leaf + 1])
            assert paths.value[leaf] == tree.value[node]
            assert (paths.tree[leaf], paths.output[leaf]) == (t, t % 2)
            assert sorted(paths.column[own]) == sorted(expected[node])
            for c in range(own.start, own.stop):
                passes, share = expected[node][paths.column[c]]
                assert paths.ratio[c] == pytest.approx(share, abs=1e-15)
                for value in PROBES:
                    assert holds(value, paths, c) == passes(value)
            leaf += 1
    assert leaf == len(paths.value)


def word_of(groups: Groups, g: int, row: np.ndarray) -> int:
    tests = range(groups.test[g], groups.test[g + 1])
    return sum(holds(row[groups.column[t]], groups, t) << b for b, t in enumerate(tests))


@pytest.mark.nojit
@pytest.mark.parametrize("most_bits", [1, 3, 5, 12])
def test_words_answer_the_conditions_of_all_leaves(most_bits):
    trees = random_trees(most_bits, [1, 9, 14, 2])
    groups = groups_of(model_of(trees, len(N_BINS)), most_bits)
    X = random_rows(0, 12)
    n_leaves = np.diff(groups.leaf)
    assert (np.diff(groups.test)[n_leaves > 1] <= most_bits).all()
    assert n_leaves.sum() == len(groups.value) == sum(len(tree.leaves) for tree in trees if tree.n_nodes > 1)
    for row in X:
        expected = {}
        for tree in trees:
            for leaf, met in naive_paths.conditions_met(tree, row).items():
                expected[tree.value[leaf]] = met, {j: r for j, (_, r) in naive_paths.leaf_paths(tree)[leaf].items()}
        for g in range(len(groups.output)):
            word = word_of(groups, g, row)
            slots = groups.slot_column[groups.slot[g] : groups.slot[g + 1]]
            assert len(set(slots)) == len(slots)
            for leaf in range(groups.leaf[g], groups.leaf[g + 1]):
                met, ratios = expected[groups.value[leaf]]
                own = range(groups.held[leaf], groups.held[leaf + 1])
                assert {slots[groups.place[c]]: word & groups.mask[c] == groups.want[c] for c in own} == met
                for c in own:
                    assert groups.ratio[c] == pytest.approx(ratios[slots[groups.place[c]]], rel=1e-12)
