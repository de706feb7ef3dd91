"""Dependence as sums over leaves beside trees that are walked down both ways."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import naive_paths
from inspection.small import N_BINS, model_of, random_rows, random_shares, random_trees
from kernels.build import every_team, run
from stagewise.inspection.dependence import expected_reach
from stagewise.inspection.leaves import paths_of
from stagewise.kernels.dependence import add_boxes, add_curves, add_reached, reach_shares

TREES = random_trees(1, [1, 7, 12, 3], nothing=0.1)
OUTPUTS = [0, 1, 0, 1]
PATHS = paths_of(model_of(TREES, len(N_BINS), 2))
AXES = {
    "one": {2: [3.0, np.nan, -np.inf, 0.5, 0.25, np.inf]},
    "two": {3: [0.5, 1.5, np.nan], 0: [0.0, 1.0, 2.5, 9.0]},
    "three": {0: [0.0, 2.0], 1: [np.nan, 1.0], 2: [0.5, 4.0, 1.0]},
}


def grid_of(axes):
    """(axis by column, padded grid, sizes, cells (n, n_axes))."""
    axis = np.full(len(N_BINS), -1, np.int64)
    axis[list(axes)] = np.arange(len(axes))
    size = np.array([len(own) for own in axes.values()], np.int64)
    padded = np.zeros((len(axes), size.max()))
    for line, own in zip(padded, axes.values(), strict=True):
        line[: len(own)] = own
    return axis, padded, size, np.array(list(product(*axes.values())))


@pytest.mark.nojit
@pytest.mark.parametrize("name", AXES)
def test_boxes(name):
    axis, padded, size, cells = grid_of(AXES[name])
    out = np.zeros((2, len(cells)))
    run(1, add_boxes, PATHS, PATHS.value * expected_reach(PATHS, axis >= 0), axis, padded, size, out)
    points = np.zeros((len(cells), len(N_BINS)))
    points[:, list(AXES[name])] = cells
    expected = naive_paths.dependence(TREES, OUTPUTS, points, list(AXES[name]))
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.nojit
@pytest.mark.parametrize("name", AXES)
def test_curves(name):
    axis, padded, size, cells = grid_of(AXES[name])
    X = random_rows(3, 10)
    out = np.zeros((2, len(X), len(cells)))
    run(1, add_curves, X.T.copy(), PATHS, (axis < 0).astype(np.uint8), axis, padded, size, out)
    np.testing.assert_allclose(out, naive_paths.curves(TREES, OUTPUTS, X, list(AXES[name]), cells), rtol=1e-12)


@pytest.mark.nojit
@pytest.mark.parametrize("inside", [(), (1,), (0, 3), (0, 1, 2, 3)])
def test_reached_and_shares(inside):
    X, shares = random_rows(4, 30), random_shares(5, 30)
    chosen = np.isin(np.arange(len(N_BINS)), inside)
    out = np.zeros((2, len(X)))
    run(1, add_reached, X.T.copy(), PATHS, chosen.astype(np.uint8), PATHS.value * expected_reach(PATHS, chosen), out)
    np.testing.assert_allclose(out, naive_paths.dependence(TREES, OUTPUTS, X, inside), rtol=1e-12, atol=1e-14)
    reached = np.empty(len(PATHS.value))
    run(1, reach_shares, X.T.copy(), shares, PATHS, chosen.astype(np.uint8), reached)
    expected = [share for tree in TREES for share in naive_paths.reach_shares(tree, X, shares, inside)]
    np.testing.assert_allclose(reached, expected, rtol=1e-12, atol=1e-15)


@every_team
def test_threads_change_nothing(n_threads):
    X, shares = random_rows(4, 900), random_shares(5, 900)
    axis, padded, size, cells = grid_of(AXES["two"])
    inside = (axis < 0).astype(np.uint8)

    def results(threads):
        boxes, curves = np.zeros((2, len(cells))), np.zeros((2, len(X), len(cells)))
        rows, reached = np.zeros((2, len(X))), np.empty(len(PATHS.value))
        run(threads, add_boxes, PATHS, PATHS.value, axis, padded, size, boxes)
        run(threads, add_curves, X.T.copy(), PATHS, inside, axis, padded, size, curves)
        run(threads, add_reached, X.T.copy(), PATHS, inside, PATHS.value, rows)
        run(threads, reach_shares, X.T.copy(), shares, PATHS, inside, reached)
        return boxes, curves, rows, reached

    for one, other in zip(results(1), results(n_threads), strict=True):
        np.testing.assert_array_equal(one, other)
