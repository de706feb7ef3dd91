"""Nodes that threads split ahead of their turn: the tree is the one that is grown node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.build import Case, backend_of, grow_tree, pack, random_case, same_again, same_tree, twin_tree
from stagewise.backends import cpu
from stagewise.backends.cpu import CpuBackend
from stagewise.backends.pace import Pace, rows_apart
from stagewise.kernels.jit import JIT
from stagewise.kernels.nodes import STOP
from stagewise.params import TreeParams

pytestmark = pytest.mark.skipif(not JIT, reason="without the JIT a team has one thread")

ALL = np.empty(0, np.uint32)
LARGE = 1 << 40
several = pytest.mark.parametrize("n_threads", [2, 3, 8])


def apart(monkeypatch: pytest.MonkeyPatch, rows: int, patient: bool = True) -> None:
    """Have nodes of so many rows split by one thread each; patient: also when all this takes long."""
    monkeypatch.setattr(cpu, "rows_apart", lambda *args: rows)
    if patient:
        monkeypatch.setattr(Pace, "deadline", lambda self: 0)
        monkeypatch.setattr(Pace, "note", lambda self, *args: None)


def was_ahead(backend: CpuBackend) -> bool:
    """Whether any node's children were kept aside."""
    return bool(backend._nodes.state[2 * backend.max_leaves - 1 :, STOP].any())


def check(case: Case, n_threads: int, block: int | None = None, **params: Any) -> bool:
    """Grow a tree and its twin; whether nodes were split ahead."""
    with backend_of(case, n_threads, **params) as backend:
        chosen = pack(backend, case, block)
        grown = grow_tree(backend, chosen, ALL, 5)
        same_tree(grown, twin_tree(backend, case, chosen, ALL, 5), chosen)
        return was_ahead(backend)


@several
@pytest.mark.parametrize("growth", ["leafwise", "levelwise"])
@pytest.mark.parametrize("rows", [0, 40, 300, 1200, LARGE])
def test_the_tree_is_the_same(monkeypatch, rows, growth, n_threads):
    """Large nodes by all threads and small ones apart, in turns."""
    apart(monkeypatch, rows)
    case = random_case(np.random.default_rng(1), 3000, [12, 3, 60, 2, 7, 5], 0.1)
    ahead = [check(case, n_threads, growth=growth, min_samples_leaf=5, max_leaf_nodes=most) for most in (3, 4, 12, 90)]
    assert any(ahead) or rows <= 40
    assert not ahead[0], "the second of two splits completes the tree, and is for all threads"


@several
@pytest.mark.parametrize("constant, wide", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("block", [None, 60, 400])
def test_packed_and_wide_histograms(monkeypatch, constant, wide, block, n_threads):
    apart(monkeypatch, LARGE)
    case = random_case(np.random.default_rng(2), 2500, [16, 5, 7, 40], 0.05, constant, wide)
    assert check(case, n_threads, block, min_samples_leaf=4, max_leaf_nodes=50)


@several
@pytest.mark.parametrize("room", [3, 4, 5, 9])
def test_little_room_for_histograms(monkeypatch, room, n_threads):
    """Nobody splits a node by itself unless there are slots for both children."""
    apart(monkeypatch, LARGE)
    case = random_case(np.random.default_rng(3), 2000, [9, 5, 7], 0.05)
    with backend_of(case) as backend:
        monkeypatch.setattr(cpu, "_POOL_BYTES", room * 8 * backend._pools.packed.shape[1])
    with backend_of(case, n_threads, max_leaf_nodes=40) as backend:
        assert backend._room[0] == room
    for growth in ("leafwise", "levelwise"):
        check(case, n_threads, growth=growth, min_samples_leaf=5, max_leaf_nodes=40)


@several
@pytest.mark.parametrize(
    "shape", [{"max_depth": 2}, {"max_depth": 4}, {"min_samples_leaf": 400}, {"min_split_gain": 3.0}]
)
def test_trees_that_end_early(monkeypatch, shape, n_threads):
    apart(monkeypatch, LARGE)
    case = random_case(np.random.default_rng(4), 2000, [9, 5, 7, 30], 0.05)
    check(case, n_threads, **{"min_samples_leaf": 5, "max_leaf_nodes": 40} | shape)


@several
def test_equal_leaves_keep_their_order(monkeypatch, n_threads):
    """Eight parts that mirror each other gain the same, to the last bit: the first in number is split first."""
    apart(monkeypatch, LARGE)
    rng = np.random.default_rng(5)
    part = rng.integers(0, 6, 100)
    grad = part + 0.1 * rng.normal(size=100)
    codes = np.column_stack([np.repeat(np.arange(8), 100), np.tile(part, 8)]).astype(np.uint8)
    shift = np.repeat(np.array([-90.0, -60.0, -30.0, -10.0, 10.0, 30.0, 60.0, 90.0]), 100)
    case = Case(codes, [8, 6], shift + np.tile(grad, 8), np.full(800, 0.25))
    for most in range(9, 24):
        assert check(case, n_threads, min_samples_leaf=1, max_leaf_nodes=most)


@pytest.mark.parametrize("n_threads", [2, 5])
@pytest.mark.parametrize("most", [6, 21])
def test_again_and_again(monkeypatch, most, n_threads):
    """More threads than cores, and trees whose last splits are often foreseen in vain."""
    apart(monkeypatch, LARGE)
    case = random_case(np.random.default_rng(6), 1500, [9, 5, 7, 3, 40, 6], 0.1)
    same_again(case, n_threads, 100, min_samples_leaf=5, max_leaf_nodes=most)


def test_threads_that_are_called_off(monkeypatch):
    """A deadline that passes while threads split nodes of their own: the tree is grown anew by one."""
    apart(monkeypatch, LARGE, patient=False)
    case = random_case(np.random.default_rng(7), 3000, [9, 5, 7, 30], 0.05)
    params = {"min_samples_leaf": 2, "max_leaf_nodes": 200}
    with backend_of(case, 2, **params) as backend:
        chosen = pack(backend, case)
        expected, deadline = grow_tree(backend, chosen, ALL, 3), backend._pace.deadline
        for part in np.linspace(0.0, 1.0, 25):
            monkeypatch.setattr(backend._pace, "_limit", 0.002 * part)
            monkeypatch.setattr(backend._pace, "_alone", 0)
            monkeypatch.setattr(backend._pace, "deadline", lambda: max(deadline(), 1))
            grown = grow_tree(backend, chosen, ALL, 3)
            np.testing.assert_array_equal(grown.tree.gain, expected.tree.gain)
            np.testing.assert_array_equal(grown.labels, expected.labels)


def test_when_threads_split_nodes_of_their_own():
    params = TreeParams()
    assert rows_apart(28, 28, params, 2) > 0
    assert rows_apart(28, 28, params, 1) == 0, "nobody to do it beside"
    assert rows_apart(500, 500, params, 2) == 0, "threads divide the columns"
    assert rows_apart(28, 28, TreeParams(growth="symmetric"), 2) == 0
    assert rows_apart(28, 28, TreeParams(split_columns=5), 2) == 0, "columns are drawn by the number of a node"
    assert rows_apart(28, 28, TreeParams(tree_columns=5, split_columns=28), 2) > 0
