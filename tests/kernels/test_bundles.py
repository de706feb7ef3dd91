"""Trees on bundled columns beside the slow grower, which knows nothing of bundles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
from kernels.build import Case, backend_of, every_team, from_python, grow_tree, pack, same_tree, twin_tree
from stagewise.data.bundling import Codes, find_bundles, laid_out, unbundled
from stagewise.kernels.bundles import MIXED, PLAIN, SINGLE, WITH_MISSING
from stagewise.kernels.histogram import Bins
from stagewise.kernels.predict import add_tree_binned, label_binned
from stagewise.kernels.split import column_threshold
from stagewise.kernels.team import Team

ALL = np.empty(0, np.uint32)
KINDS = ("mixed", "whole", "single", "empty")
"""Columns with missing values; without; of two bins each; and such that are missing where nothing else is said."""


def sparse_codes(rng: np.random.Generator, n_rows: int, n_bins: list[int], default: np.ndarray, missing: float) -> Any:
    """Codes that are mostly those of `default` (255: missing); a block of columns is one-hot."""
    codes = np.repeat(np.where(default == 255, 255, default)[None, :], n_rows, axis=0).astype(np.uint8)
    hot = rng.integers(0, len(n_bins), n_rows)
    for j, n in enumerate(n_bins):
        off = (hot == j) if j % 3 else rng.random(n_rows) < 0.15
        codes[off, j] = rng.integers(0, n, off.sum())
        codes[off & (rng.random(n_rows) < missing), j] = 255
    return codes


def bundled(codes: np.ndarray, n_bins: list[int], default: np.ndarray) -> Bins:
    j, rows = np.nonzero(default[:, None] != codes.T)
    start = np.append(0, np.cumsum(np.bincount(j, minlength=len(n_bins))))
    found = Codes(start, rows.astype(np.int32), codes[rows, j], default.astype(np.uint8), np.array(n_bins), len(codes))
    return laid_out(found, find_bundles(found, 0.0), 1)


def case_of(seed: int, n_rows: int = 150, missing: float = 0.1, kind: str = "mixed") -> tuple[Case, Bins]:
    rng = np.random.default_rng(seed)
    n_bins = [2] * 12 if kind == "single" else rng.choice([1, 2, 2, 3, 7], 14).tolist()
    default = np.array([rng.integers(0, n) for n in n_bins])
    if kind == "empty":
        default[:] = 255
    codes = sparse_codes(rng, n_rows, n_bins, default, 0.0 if kind in ("single", "whole") else missing)
    signal = (np.where(codes == naive.MISSING, 3.0, codes) * rng.normal(size=len(n_bins))).sum(axis=1)
    grad = signal - signal.mean() + rng.normal(size=n_rows)
    case = Case(codes, n_bins, grad, rng.uniform(0.05, 0.25, n_rows))
    return case, bundled(codes, n_bins, default)


def check(
    case: Case, bins: Bins, n_threads: int = 1, index: np.ndarray = ALL, block: int | None = None, **params: Any
) -> int:
    with backend_of(case, n_threads, **params) as backend:
        backend.bins = bins
        backend._make_room()
        chosen = pack(backend, case, block)
        grown = grow_tree(backend, chosen, index, 9)
        nodes = twin_tree(backend, case, chosen, index, 9)
    same_tree(grown, nodes, chosen, params.get("growth") == "symmetric")
    tree, n = grown.tree, len(case.codes)
    labels, raw = np.full(n, 99, np.uint16), np.zeros(n)
    value = np.arange(tree.n_nodes, dtype=np.float64)
    shape = (tree.feature, tree.cut, tree.missing_left, tree.left)
    with Team(n_threads) as team:
        every = np.arange(n, dtype=np.uint32)
        team.run(label_binned, bins, every, *shape, tree.subset, tree.sets, labels)
        team.run(add_tree_binned, bins, ALL, *shape, tree.subset, tree.sets, value, raw)
    leaves = [naive.leaf_of_codes(tree, row) for row in case.codes]
    assert labels.tolist() == leaves
    assert raw.tolist() == leaves
    return len(nodes)


def test_all_kinds_of_columns_occur():
    kinds = {kind for seed in range(6) for name in KINDS for kind in case_of(seed, kind=name)[1].bundles.kind.tolist()}
    assert kinds == {PLAIN, SINGLE, MIXED, WITH_MISSING}


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("growth", ["leafwise", "levelwise", "symmetric"])
def test_small_trees(kind, growth):
    case, bins = case_of(1, 60, kind=kind)
    grew = check(case, bins, growth=growth, min_samples_leaf=2, max_leaf_nodes=8, min_child_weight=0.0)
    assert grew > 1


@every_team
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("growth", ["leafwise", "levelwise", "symmetric"])
def test_trees(n_threads, kind, growth):
    for seed in range(4):
        case, bins = case_of(seed, kind=kind)
        for params in ({}, {"l1": 0.5, "l2": 1.0}, {"tree_columns": 9, "split_columns": 5}):
            check(case, bins, n_threads, growth=growth, min_samples_leaf=2, max_leaf_nodes=16, **params)
        check(case, bins, n_threads, block=15, growth=growth, min_samples_leaf=1, max_leaf_nodes=8)
        index = np.flatnonzero(np.random.default_rng(seed).random(len(case.codes)) < 0.5).astype(np.uint32)
        check(case, bins, n_threads, index, growth=growth, min_samples_leaf=1, max_leaf_nodes=8)


def test_equal_columns_tie_to_the_lowest_whatever_their_place():
    """Every column twice: the second of each never splits, though bundles shuffle them."""
    for seed in range(6):
        case, _ = case_of(seed, 120)
        default = np.array([np.bincount(own, minlength=256).argmax() for own in case.codes.T])
        order = np.random.default_rng(seed).permutation(14)
        codes = np.hstack([case.codes, case.codes[:, order]])
        twice = case._replace(codes=codes, n_bins=[*case.n_bins, *(case.n_bins[j] for j in order)])
        bins = bundled(codes, list(twice.n_bins), np.append(default, default[order]))
        for n_threads in (1, 3):
            check(twice, bins, n_threads, min_samples_leaf=2, max_leaf_nodes=16)


def test_codes_come_back():
    for seed in range(5):
        for kind in KINDS:
            case, bins = case_of(seed, kind=kind)
            assert len(bins.n_bins) < len(case.n_bins)
            np.testing.assert_array_equal(unbundled(bins).by_column, case.codes.T)


@pytest.mark.parametrize("wanted", [1, 2, 300, 699])
def test_columns_are_drawn_from_many(wanted):
    """Byte by byte the same columns as by sorting."""
    eligible = np.random.default_rng(0).random(1000) < 0.7
    wanted = min(wanted, int(eligible.sum()))
    key = 0x9E3779B97F4A7C15
    got = int(from_python(column_threshold)(np.uint64(key), 1000, eligible, wanted))
    assert got == sorted(naive.splitmix64(key, j) for j in np.flatnonzero(eligible).tolist())[wanted - 1]
