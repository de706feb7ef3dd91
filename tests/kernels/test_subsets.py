"""Splits by sets of codes beside the slow search, on their own and in whole trees."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import naive
import naive_subsets
from kernels.build import (
    Case,
    backend_of,
    every_team,
    grow_tree,
    integers,
    label,
    pack,
    partitioned_by_side,
    random_case,
    rule_of,
)
from stagewise.backends.cpu import CpuBackend
from stagewise.kernels.blocks import histogram_of_rows
from stagewise.kernels.exact import Packing
from stagewise.kernels.split import BIN, COLUMN, COUNT_LEFT, GRAD_LEFT, HESS_LEFT, MISSING_LEFT, N_FIELDS, NOT_SEEN, SET
from stagewise.kernels.subsets import best_subset
from stagewise.tree.tree import Tree

ALL = np.empty(0, np.uint32)
LOOSE: dict[str, Any] = {"min_samples_leaf": 2, "level_rows": 2, "group_rows": 5, "cat_smooth": 1.0, "cat_l2": 0.5}
RULES: dict[str, dict[str, Any]] = {
    "loose": LOOSE,
    "defaults": {},
    "l1": {**LOOSE, "l1": 0.3, "l2": 0.7},
    "short": {**LOOSE, "max_group": 2},
    "one against the rest": {**LOOSE, "max_onehot": 255},
    "never one against the rest": {**LOOSE, "max_onehot": 0, "level_rows": 1, "group_rows": 1},
}
every_rule = pytest.mark.parametrize("params", RULES.values(), ids=RULES)


def set_rule(backend: CpuBackend, chosen: Packing) -> naive_subsets.SetRule:
    p = backend.params
    return naive_subsets.SetRule(
        p.cat_smooth / chosen.hess_peak, Fraction(p.cat_l2) / Fraction(chosen.hess_peak), p.max_onehot, p.max_group,
        p.level_rows, min(p.group_rows, max(p.min_samples_leaf, backend.n_training // 4)),
    )  # fmt: skip


def words_to_codes(words: Any) -> frozenset[int]:
    return frozenset(b for b in range(255) if (int(words[b // 64]) >> (b % 64)) & 1)


def present(histogram: np.ndarray) -> set[int]:
    return set(np.flatnonzero(histogram[:, 2]).tolist())


@pytest.mark.nojit
@every_rule
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n_bins", [[3, 2, 4], [9, 30, 5], [255, 64, 65]])
def test_the_best_set(n_bins, missing, params):
    rng = np.random.default_rng(sum(n_bins))
    case = random_case(rng, 400, n_bins, missing)
    with backend_of(case, in_sets=[True] * 3, **params) as backend:
        chosen = pack(backend, case)
        histogram_of_rows(
            backend.bins, backend._words, backend._more_words, np.arange(400, dtype=np.uint32), chosen, backend._pools
        )
        g, h = integers(case.grad, case.hess, chosen)
        out = np.full(N_FIELDS, -9, np.int64)
        limits = backend._limits(chosen, np.uint64(0))
        gain = best_subset(
            backend._pools, True, 0, backend.bins.n_bins, 0, (int(g.sum()), int(h.sum()), 400), limits, chosen,
            np.zeros(256), np.zeros((6, 256), np.int64), out,
        )  # fmt: skip
        rule, own = rule_of(backend.params, chosen), set_rule(backend, chosen)
    histograms = naive.histogram_of_rows(case.codes, g, h, np.arange(400))
    best = naive_subsets.best_subset(histograms, np.array(n_bins), range(3), rule, own)
    if best is None:
        assert gain == -1.0
        return
    assert gain == pytest.approx(float(best.gain), rel=1e-9)
    assert (out[COLUMN], out[BIN]) == (best.column, -1)
    assert tuple(out[[GRAD_LEFT, HESS_LEFT, COUNT_LEFT]].tolist()) == best.left
    codes, there = words_to_codes(out[SET : SET + 4]), present(histograms[best.column])
    assert codes & there == best.codes - {naive.MISSING}
    absent = set(range(n_bins[best.column])) - there
    assert codes - there == (absent if 2 * best.left[2] >= 400 else set()), "codes without rows go where most rows go"
    side = int(naive.MISSING in best.codes) if naive.MISSING in there else NOT_SEEN
    assert out[MISSING_LEFT] == side


def check_tree(case: Case, tree: Tree, rows: np.ndarray, backend: CpuBackend, chosen: Packing, in_sets: Any) -> int:
    """Every split is the best one of its node, by the slow search; the number of splits by sets."""
    g, h = integers(case.grad, case.hess, chosen)
    scale = chosen.grad_peak**2 / chosen.hess_peak
    rule, own = rule_of(backend.params, chosen), set_rule(backend, chosen)
    numeric = [j for j, flag in enumerate(in_sets) if not flag]
    coded = [j for j, flag in enumerate(in_sets) if flag]
    members = {0: rows}
    for node in range(tree.n_nodes):
        if tree.left[node] < 0:
            continue
        histograms = naive.histogram_of_rows(case.codes, g, h, members[node])
        n_bins = np.array(case.n_bins)
        split = naive.best_split(histograms, n_bins, numeric, rule)
        subset = naive_subsets.best_subset(histograms, n_bins, coded, rule, own)
        gains = [float(found.gain) for found in (split, subset) if found is not None]
        assert tree.gain[node] / scale == pytest.approx(max(gains), rel=1e-7, abs=1e-10)
        sides = np.array([_goes_left(tree, node, code) for code in case.codes[members[node], tree.feature[node]]])
        members[tree.left[node]], members[tree.left[node] + 1] = members[node][sides], members[node][~sides]
        assert [len(members[tree.left[node] + k]) for k in (0, 1)] == tree.count[tree.left[node] :][:2].tolist()
    return int((tree.subset >= 0).sum()) if len(tree.subset) else 0


def _goes_left(tree: Tree, node: int, code: int) -> bool:
    if code != naive.MISSING and len(tree.subset) and tree.subset[node] >= 0:
        return code in words_to_codes(tree.sets[tree.subset[node]])
    return bool(tree.missing_left[node]) if code == naive.MISSING else bool(code <= tree.cut[node])


@pytest.mark.parametrize("growth", ["leafwise", "levelwise"])
@pytest.mark.parametrize("wide", [False, True])
def test_whole_trees(growth, wide):
    in_sets = [True, False, True, True, False]
    case = random_case(np.random.default_rng(1), 900, [12, 20, 3, 40, 9], 0.1, wide=wide)
    params = {**LOOSE, "growth": growth, "max_leaf_nodes": 12, "min_samples_leaf": 10}
    with backend_of(case, 1, in_sets, **params) as backend:
        chosen = pack(backend, case, 300)
        grown = grow_tree(backend, chosen, ALL, 5)
        assert check_tree(case, grown.tree, np.arange(900), backend, chosen, in_sets) >= 3


@every_team
@pytest.mark.parametrize("growth", ["leafwise", "levelwise", "symmetric"])
def test_threads_and_walks(growth, n_threads):
    """The same tree with any number of threads; rows walk down it to where they were when it grew."""
    in_sets = [True, False, True, True, False, True]
    case = random_case(np.random.default_rng(2), 9_000, [200, 20, 3, 40, 9, 255], 0.05)
    params = {**LOOSE, "growth": growth, "max_leaf_nodes": 16, "split_columns": 4}
    index = np.flatnonzero(np.random.default_rng(3).random(9_000) < 0.8).astype(np.uint32)
    trees, labels = [], []
    for threads in (1, n_threads):
        with backend_of(case, threads, in_sets, **params) as backend:
            chosen = pack(backend, case, 1000)
            grown = grow_tree(backend, chosen, index, 5)
            trees.append(grown.tree)
            labels.append(grown.labels[index])
    one, other = trees
    assert (one.subset >= 0).any()
    for name in ("feature", "cut", "missing_left", "left", "gain", "count", "subset", "sets"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    walked = np.zeros(9_000, np.uint32)
    label(other, case.codes, np.arange(9_000, dtype=np.uint32), walked, n_threads)
    np.testing.assert_array_equal(walked[index], labels[1])
    some = np.arange(0, 9_000, 97)
    np.testing.assert_array_equal(walked[some], [naive.leaf_of_codes(other, row) for row in case.codes[some]])


def test_a_level_of_a_symmetric_tree_has_one_set():
    case = random_case(np.random.default_rng(4), 3_000, [30, 12], 0.0)
    with backend_of(case, 1, [True, True], **{**LOOSE, "growth": "symmetric", "max_leaf_nodes": 8}) as backend:
        tree = grow_tree(backend, pack(backend, case), ALL, 1).tree
    inner = np.flatnonzero(tree.left >= 0)
    assert len(inner) > 3
    for depth in set(tree.depth[inner].tolist()):
        level = inner[tree.depth[inner] == depth]
        assert len({(int(tree.feature[k]), tree.sets[tree.subset[k]].tobytes()) for k in level}) == 1
        assert len({int(tree.missing_left[k]) for k in level}) == 1


@pytest.mark.nojit
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_rows_are_divided_by_a_table_of_sides(n):
    rng = np.random.default_rng(n)
    column = rng.integers(0, 256, 60).astype(np.uint8)
    sides = rng.integers(0, 2, 256).astype(np.uint8)
    rows = np.sort(rng.choice(60, n, replace=False)).astype(np.uint32)
    left, right = naive.partition_sides(column, sides, rows.astype(np.int64))
    got = partitioned_by_side(column, sides, rows, len(left))
    np.testing.assert_array_equal(got, np.concatenate([left, right]))
