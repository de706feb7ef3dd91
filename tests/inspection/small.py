"""Small models with everything in them: random trees with random covers, missing values, cuts at infinity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernels.build import random_tree, with_sets
from stagewise.boosting.model import History, Model
from stagewise.data.table import Schema
from stagewise.losses.regression import SquaredError
from stagewise.tree.tree import Tree

N_BINS = (4, 3, 5, 2)
SETS = (2,)
"""Columns that are split by sets of codes."""


def covered(rng: np.random.Generator, tree: Tree, nothing: float = 0.0) -> Tree:
    """The tree with random covers; a share of the leaves has none."""
    cover = np.where(rng.random(tree.n_nodes) < nothing, 0.0, rng.exponential(size=tree.n_nodes))
    for node in range(tree.n_nodes - 1, -1, -1):
        left = tree.left[node]
        if left >= 0:
            cover[node] = cover[left] + cover[left + 1]
    return replace(tree, cover=cover)


def random_trees(
    seed: int, sizes: Sequence[int], n_bins: Sequence[int] = N_BINS, nothing: float = 0.0, sets: Sequence[int] = SETS
) -> list[Tree]:
    rng = np.random.default_rng(seed)
    trees = [covered(rng, random_tree(rng, size, n_bins), nothing) for size in sizes]
    return [with_sets(rng, tree, sets, 6) for tree in trees]


def model_of(trees: Sequence[Tree], n_columns: int, n_outputs: int = 1, initial: float = 0.25) -> Model:
    """A model of given trees; tree t belongs to output t modulo n_outputs."""
    stages = tuple(tuple(trees[a : a + n_outputs]) for a in range(0, len(trees), n_outputs))
    history = History(np.empty(0), np.empty(0), np.empty(0, np.int64), len(stages), 0.0)
    constants = initial + np.arange(n_outputs)
    return Model(SquaredError(), constants, stages, ((),) * n_columns, Schema(n_columns, None), history)


def random_rows(seed: int, n: int, n_bins: Sequence[int] = N_BINS, missing: float = 0.2) -> np.ndarray:
    """Values on, between and beyond the cuts, some missing, some infinite."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2 * max(n_bins) + 2, (n, len(n_bins))) / 2.0
    X[rng.random(X.shape) < missing] = np.nan
    X[rng.random(X.shape) < 0.05] = np.inf
    X[rng.random(X.shape) < 0.05] = -np.inf
    return X


def random_shares(seed: int, n: int) -> np.ndarray:
    """Weights of sum 1, some of them 0."""
    weight = np.random.default_rng(seed).exponential(size=n)
    weight[::5] = 0.0
    return weight / weight.sum()
