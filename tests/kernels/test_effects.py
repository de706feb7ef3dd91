"""Interactions leaf by leaf beside differences of dependence, and tables of components beside plain averages."""

from __future__ import annotations

import numpy as np
import pytest

import naive_paths
from inspection.small import N_BINS, SETS, model_of, random_rows, random_shares, random_trees
from kernels.build import every_team, run
from stagewise.inspection import anova
from stagewise.inspection.leaves import paths_of
from stagewise.kernels.effects import component_tables, row_effects

P = len(N_BINS)
TREES = random_trees(2, [6, 1, 9], nothing=0.1)
PATHS = paths_of(model_of(TREES, P))


def effects(X, n_threads):
    i, j = np.triu_indices(P, 1)
    pair = np.full((P, P), -1, np.int64)
    pair[i, j] = pair[j, i] = np.arange(len(i))
    main, joint, rest = np.zeros((P, len(X))), np.zeros((len(i), len(X))), np.zeros((P, len(X)))
    run(n_threads, row_effects, X, PATHS, 0, pair, main, joint, rest)
    return main, joint, rest, pair


@pytest.mark.nojit
def test_effects_are_differences_of_dependence():
    X, shares = random_rows(1, 14), random_shares(2, 14)
    main, joint, rest, pair = effects(X, 1)
    for j in range(P):
        for k in range(P):
            if j != k:
                expected = naive_paths.row_effects(TREES, X, shares, j, k)
                for got, wanted in zip((main[j], joint[pair[j, k]], rest[j]), expected, strict=True):
                    np.testing.assert_allclose(naive_paths.centred(got, shares), wanted, atol=1e-12)


@every_team
def test_threads_change_nothing(n_threads):
    X = random_rows(1, 100)
    for one, other in zip(effects(X, 1), effects(X, n_threads), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.nojit
@pytest.mark.parametrize("seed", range(3))
def test_components_are_averages_over_independent_columns(seed):
    n_bins = (3, 2, 3)
    trees = random_trees(seed, [5, 7], n_bins)
    X, shares = random_rows(seed, 25, n_bins), random_shares(seed, 25)
    paths = paths_of(model_of(trees, 3))
    edges = anova._edges(paths, 3)
    names = [("",) if j in SETS else None for j in range(3)]
    chances = [np.bincount(anova._cells(own, names[j], X[:, j]), shares, len(own) + 2) for j, own in enumerate(edges)]
    runs, paths = anova._runs(paths, edges, chances)
    size = np.array([len(own) + 2 for own in edges])
    starts = np.concatenate(([0], np.cumsum(size)))
    pair, at = np.full((3, 3), -1, np.int64), 0
    for j, k in ((0, 1), (0, 2), (1, 2)):
        pair[j, k], at = at, at + size[j] * size[k]
    main, joint = np.zeros(starts[-1]), np.zeros(at)
    component_tables(paths, 0, *runs, size, starts[:-1], pair, main, joint)
    # one value in every cell; the twin averages over all combinations of cells
    values = [[*own, np.inf, np.nan] for own in edges]

    def centred(table, axes):
        for axis, j in enumerate(axes):
            weight = chances[j].reshape([-1 if a == axis else 1 for a in range(table.ndim)])
            table = table - (table * weight).sum(axis=axis, keepdims=True)
        return table

    for j in range(3):
        expected = sum(naive_paths.component(tree, [j], values, chances) for tree in trees)
        got = main[starts[j] : starts[j + 1]]
        np.testing.assert_allclose(centred(got, [j]), centred(expected, [j]), atol=1e-12)
        for k in range(j + 1, 3):
            expected = sum(naive_paths.component(tree, [j, k], values, chances) for tree in trees)
            got = joint[pair[j, k] : pair[j, k] + expected.size].reshape(expected.shape)
            np.testing.assert_allclose(centred(got, [j, k]), centred(expected, [j, k]), atol=1e-12)
