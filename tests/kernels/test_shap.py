"""Shapley values from tables beside games that are played out coalition by coalition."""

from __future__ import annotations

import numpy as np
import pytest

import naive_paths
from inspection.small import N_BINS, model_of, random_rows, random_shares, random_trees
from stagewise.inspection import attribution
from stagewise.inspection.attribution import contributions
from stagewise.inspection.leaves import groups_of
from stagewise.kernels.jit import JIT

NO_ROWS = np.empty((0, len(N_BINS)))
NO_SHARES = np.empty(0)
SEEDS = range(3 if JIT else 1)


def exhaustive(trees, row, rows, shares, pairs):
    game = naive_paths.background_game(trees, row, rows, shares) if len(rows) else naive_paths.cover_game(trees, row)
    if pairs:
        return np.triu(naive_paths.shapley_interactions(game, len(row)), 1)
    return naive_paths.shapley(game, len(row))


@pytest.fixture(params=["one table", "small groups", "hashed", "no words"])
def layout(request, monkeypatch):
    """Every way in which leaves are kept."""
    if request.param == "small groups":
        monkeypatch.setattr(attribution, "_GROUP_BITS", 3)
    elif request.param == "hashed":
        monkeypatch.setattr(attribution, "_GROUP_BITS", 5)
        monkeypatch.setattr(attribution, "_TABLE_BITS", 2)
        monkeypatch.setattr(attribution, "_TABLE_NUMBERS", 40)
    elif request.param == "no words":
        monkeypatch.setattr(attribution, "_GROUP_BITS", 0)

        def without(model, bits):
            groups = groups_of(model, bits)
            return groups._replace(worded=np.zeros_like(groups.worded))

        monkeypatch.setattr(attribution, "groups_of", without)
    return request.param


@pytest.mark.nojit
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_path_dependent_values_are_shapleys(layout, seed, pairs):
    trees = random_trees(seed, [1, 8, 13], nothing=0.15)
    X = random_rows(seed, 6)
    got = contributions(model_of(trees, len(N_BINS)), X, NO_ROWS, NO_SHARES, pairs, 1)[:, 0]
    for row, own in zip(X, got, strict=True):
        np.testing.assert_allclose(own, exhaustive(trees, row, NO_ROWS, NO_SHARES, pairs), rtol=1e-9, atol=1e-12)


@pytest.mark.nojit
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_interventional_values_are_shapleys(layout, seed, pairs):
    trees = random_trees(seed, [8, 1, 12])
    X, rows, shares = random_rows(seed, 4), random_rows(seed + 100, 6), random_shares(seed, 6)
    got = contributions(model_of(trees, len(N_BINS)), X, rows, shares, pairs, 1)[:, 0]
    for row, own in zip(X, got, strict=True):
        np.testing.assert_allclose(own, exhaustive(trees, row, rows, shares, pairs), rtol=1e-9, atol=1e-12)


def test_a_row_does_not_know_its_neighbours_or_the_threads():
    trees = random_trees(5, [30, 31, 9, 64], (9, 8, 9, 7, 9, 8))
    model, X = model_of(trees, 6, 2), random_rows(1, 1500, (9,) * 6)
    rows, shares = random_rows(2, 30, (9,) * 6), random_shares(3, 30)
    for background in ((np.empty((0, 6)), NO_SHARES), (rows, shares)):
        whole = contributions(model, X, *background, False, 1)
        for n_threads in (2, 3):
            np.testing.assert_array_equal(contributions(model, X, *background, False, n_threads), whole)
        np.testing.assert_array_equal(contributions(model, X[700:703], *background, False, 1), whole[700:703])


def test_tables_change_nothing(monkeypatch):
    trees = random_trees(7, [40, 33], (9, 8, 9, 7, 9, 8))
    model, X = model_of(trees, 6), random_rows(1, 300, (9,) * 6)
    before = contributions(model, X, np.empty((0, 6)), NO_SHARES, False, 2)
    monkeypatch.setattr(attribution, "_TABLE_BITS", 3)
    monkeypatch.setattr(attribution, "_STEPS_A_CALL", 1000)
    np.testing.assert_array_equal(contributions(model, X, np.empty((0, 6)), NO_SHARES, False, 2), before)


@pytest.mark.nojit
def test_patterns_of_the_background(monkeypatch):
    (tree,) = random_trees(3, [11])
    rows, shares = random_rows(4, 9), random_shares(5, 9)
    groups = groups_of(model_of([tree], len(N_BINS)), 6)
    game = attribution._game(groups, 9, rows, shares, False)
    expected = {tree.value[leaf]: own for leaf, own in naive_paths.background_words(tree, rows, shares).items()}
    for g in range(len(groups.output)):
        columns = groups.slot_column[groups.slot[g] : groups.slot[g + 1]]
        for leaf in range(groups.leaf[g], groups.leaf[g + 1]):
            own = columns[groups.place[groups.held[leaf] : groups.held[leaf + 1]]]
            found = {}
            for k in range(game.seen[leaf], game.seen[leaf + 1]):
                met = dict(zip(own, [bool(game.seen_word[k] >> c & 1) for c in range(len(own))], strict=True))
                found[tuple(met[j] for j in sorted(met))] = game.seen_share[k]
            assert found == pytest.approx(expected[groups.value[leaf]])


def test_very_deep_paths_stay_exact():
    """80 columns on one path: more than a word has bits. Sums must still be the prediction."""
    from dataclasses import replace

    from inspection.small import covered
    from stagewise.tree.tree import Tree

    depth = 80
    n = 2 * depth + 1
    left = np.full(n, -1, np.int32)
    feature = np.full(n, -1, np.int32)
    for level in range(depth):  # the right child goes on
        node = 0 if level == 0 else 2 * level
        left[node], feature[node] = 2 * level + 1, level
    tree = replace(
        Tree.stump(1), feature=feature, threshold=np.zeros(n), cut=np.zeros(n, np.int32),
        missing_left=np.ones(n, np.uint8), left=left, value=np.random.default_rng(0).normal(size=n),
        gain=np.zeros(n), count=np.ones(n, np.int64), depth=np.repeat(np.arange(depth + 1), 2)[1:].astype(np.int32),
    )  # fmt: skip
    tree = covered(np.random.default_rng(1), tree)
    model = model_of([tree], depth)
    X = np.random.default_rng(2).normal(size=(40, depth)) + 1.5
    X[0] = 1.0
    rows = np.random.default_rng(3).normal(size=(5, depth)) + 1.0
    raw = model.raw(X)[0]
    for background, shares in ((np.empty((0, depth)), NO_SHARES), (rows, np.full(5, 0.2))):
        phi = contributions(model, X, background, shares, False, 1)[:, 0]
        base = model.raw(background)[0] @ shares if len(background) else naive_paths.traversal(tree, X[0], ()) + 0.25
        np.testing.assert_allclose(phi.sum(axis=1) + base, raw, rtol=1e-9)
