"""Trees on a sample whose codes growth fetches by itself, beside trees on a table that has these rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.build import Case, backend_of, every_team, pack, random_case
from stagewise.backends.cpu import CpuBackend
from stagewise.backends.grown import Grown
from stagewise.backends.samples import SampleRoom
from stagewise.kernels.exact import power_above
from stagewise.kernels.jit import JIT
from stagewise.kernels.lanes import COMPRESSES_BYTES
from stagewise.losses.base import Loss

KINDS: dict[str, dict[str, Any]] = {
    "leafwise": {},
    "levelwise": {"growth": "levelwise"},
    "symmetric": {"growth": "symmetric", "max_depth": 4},
    "sets": {"in_sets": [True, False, True, False, False]},
}
BINS = [6, 200, 9, 2, 40]


def same(one: Grown, other: Grown) -> None:
    for name in ("feature", "cut", "left", "gain", "count", "missing_left", "sets", "subset"):
        np.testing.assert_array_equal(getattr(one.tree, name), getattr(other.tree, name), name)
    np.testing.assert_array_equal(one.leaves, other.leaves)


def of_rows(case: Case, index: np.ndarray) -> Case:
    return Case(case.codes[index], case.n_bins, case.grad[index], case.hess[index], case.constant, case.wide)


def say_who(backend: CpuBackend, index: np.ndarray) -> None:
    """Leave word of which rows were drawn, as samplers do."""
    drawn = np.zeros(64 * len(backend.drawn.bits), np.bool_)
    drawn[index if len(drawn) else []] = True
    backend.drawn.bits[:] = np.packbits(drawn, bitorder="little").view(np.uint64)
    backend.drawn.rows = index


def grow_listed(
    backend: CpuBackend, own: Case, index: np.ndarray, block: int | None, in_bits: bool = False
) -> tuple[Grown, np.ndarray]:
    """A tree on the rows of index, whose pairs are those of `own`; and their labels."""
    if in_bits:
        say_who(backend, index)
    small = pack(backend, own, block).block  # makes room for wide histograms, too
    chosen = backend.pack(own.grad, own.hess, own.peaks, own.constant, own.wide, None, index)
    if block is not None:
        chosen = chosen._replace(block=small)
    grown = backend.grow(chosen, index, None, np.uint64(3), index)
    units = np.array([power_above(own.peaks[0]), power_above(own.peaks[1]), 1.0])
    backend.leaf_sums(grown, own.grad, own.hess, np.empty(0), units, Loss())  # finds labels, if growth did not
    return grown, backend._samples.labels[: len(index)].copy()


@pytest.mark.nojit
@every_team
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_as_a_table_of_its_own(kind, wide, n_threads):
    rng = np.random.default_rng(1)
    n = 5000 if JIT else 300  # the threads share the rows of large nodes, and one divides those of small ones
    case = random_case(rng, n, BINS, 0.1, wide=wide)
    for share, block, in_bits in ((0.3, 100, True), (0.3, 100, False), (0.9, 100, True), (0.9, None, True)):
        index = np.flatnonzero(rng.random(n) < share).astype(np.uint32)
        own = of_rows(case, index)
        params = {"min_samples_leaf": 5, "max_leaf_nodes": 16, **kind}
        with backend_of(case, n_threads, **params) as backend, backend_of(own, n_threads, **params) as alone:
            expected = alone.grow(pack(alone, own, block), index[:0], index[:0], np.uint64(3))
            assert expected.tree.n_nodes > 5
            grown, labels = grow_listed(backend, own, index, block, in_bits)
            same(grown, expected)
            np.testing.assert_array_equal(labels, alone.labels)
            own = own._replace(grad=own.grad[::-1].copy())  # another class: now the codes are there
            again, labels = grow_listed(backend, own, index, block)
            expected = alone.grow(pack(alone, own, block), index[:0], index[:0], np.uint64(3))
            same(again, expected)
            np.testing.assert_array_equal(labels, alone.labels)


def test_room_is_shared_by_the_trees_of_a_stage():
    case = random_case(np.random.default_rng(2), 200, [5, 4])
    with backend_of(case) as backend:
        room = SampleRoom(backend.bins, np.empty(0, np.uint16), 200)
        index = np.arange(50, dtype=np.uint32)
        first = room.table(index, index)[1]
        assert room.table(index, index)[1] is first
        assert room.table(index[:], index)[1] is not first, "another array, other rows"
        small, large = room.table(index[:20], index[:20])[0], room.table(np.arange(120, dtype=np.uint32), index)[0]
        assert len(small.by_row) == 20 * backend.bins.stride
        assert len(large.by_row) == 120 * backend.bins.stride
        assert len(room.labels) >= 120


def test_bits_count_for_the_rows_they_are_about_alone():
    case = random_case(np.random.default_rng(3), 200, [5, 4])
    with backend_of(case) as backend:
        index = np.arange(0, 200, 3, dtype=np.uint32)
        say_who(backend, index)
        assert len(backend._samples.table(index, index)[1].bits) == (4 if COMPRESSES_BYTES else 0)
        assert len(backend._samples.table(index[:], index)[1].bits) == 0
