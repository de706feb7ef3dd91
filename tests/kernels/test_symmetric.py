"""Symmetric trees beside a slow grower."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.build import Case, backend_of, every_team, grow_tree, pack, random_case, same_tree, twin_tree

ALL = np.empty(0, np.uint32)
FORMS = {"narrow": (False, False), "constant": (True, False), "wide": (False, True), "wide, constant": (True, True)}
every_form = pytest.mark.parametrize("constant, wide", FORMS.values(), ids=FORMS)

PARAMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deep": {"max_depth": 6, "max_leaf_nodes": 64},
    "one level": {"max_depth": 1},
    "l1, l2": {"l1": 1.0, "l2": 2.0},
    "limits": {"min_samples_leaf": 7, "min_child_weight": 0.9, "min_split_gain": 0.5},
    "few columns": {"tree_columns": 3, "split_columns": 2},
}
every_param = pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)


def check(
    case: Case, n_threads: int, index: np.ndarray = ALL, key: int = 9, block: int | None = None, **params: Any
) -> int:
    params = {"min_samples_leaf": 2, "max_depth": 3, "min_child_weight": 0.0} | params
    with backend_of(case, n_threads, growth="symmetric", **params) as backend:
        chosen = pack(backend, case, block)
        grown = grow_tree(backend, chosen, index, key)
        nodes = twin_tree(backend, case, chosen, index, key)
    same_tree(grown, nodes, chosen, symmetric=True)
    return len(nodes)


@pytest.mark.nojit
@every_param
def test_small_trees(params):
    case = random_case(np.random.default_rng(0), 50, [6, 3, 4, 2], 0.1)
    assert check(case, 1, **params) > 1


@pytest.mark.nojit
@every_form
@pytest.mark.parametrize("block", [None, 7, 15])
def test_small_trees_of_every_form(constant, wide, block):
    case = random_case(np.random.default_rng(1), 40, [5, 3], 0.15, constant, wide)
    assert check(case, 1, block=block) > 1


@pytest.mark.nojit
def test_nodes_where_the_split_is_not_allowed_stay_leaves():
    case = random_case(np.random.default_rng(2), 60, [5, 3], 0.0)
    grew = check(case, 1, min_samples_leaf=6, max_depth=4)
    assert 3 < grew < 31, "some nodes were split, not all"


@pytest.mark.nojit
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_tiny_tables(n_rows):
    check(random_case(np.random.default_rng(n_rows), n_rows, [3, 2], 0.0), 1, min_samples_leaf=1)


@pytest.mark.nojit
def test_missing_in_some_nodes_only():
    case = random_case(np.random.default_rng(5), 60, [2, 4], 0.0)
    case.codes[case.codes[:, 0] == 0, 1] = 255
    check(case, 1)


@pytest.mark.nojit
def test_some_rows():
    rng = np.random.default_rng(2)
    case = random_case(rng, 60, [8, 4, 3])
    check(case, 1, np.sort(rng.choice(60, 33, replace=False)).astype(np.uint32))


@every_team
@every_param
def test_trees_on_threads(params, n_threads):
    case = random_case(np.random.default_rng(4), 3000, [12, 3, 20, 2, 7, 5], 0.1)
    assert check(case, n_threads, **{"min_samples_leaf": 10} | params) > 1


@every_team
@every_form
def test_packed_and_wide_histograms(constant, wide, n_threads):
    case = random_case(np.random.default_rng(5), 40_000 if constant else 11_000, [9, 5, 7], 0.05, constant, wide)
    check(case, n_threads, min_samples_leaf=20, max_depth=4)
