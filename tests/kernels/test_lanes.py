"""Sixteen rows at a time, the same compiled and plain."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from stagewise.kernels import lanes
from stagewise.kernels.jit import JIT


def compiled(function):
    return numba.njit(error_model="numpy")(function) if JIT else function


@compiled
def goes_left(column, rows, k, shift, bound):
    return lanes.left_mask(column, rows, k, shift, bound)


@compiled
def run_goes_left(column, row, shift, bound):
    return lanes.run_mask(column, row, shift, bound)


@pytest.mark.nojit
@pytest.mark.parametrize("shift, bound", [(0, 100), (200, 90)])
def test_rows_that_follow_each_other_are_read_at_once(shift, bound):
    column = np.random.default_rng(shift).integers(0, 256, 500).astype(np.uint8)
    rows = np.arange(500, dtype=np.uint32)
    for row in (0, 13, 484):
        mask = run_goes_left(column, np.uint64(row), np.uint8(shift), np.uint8(bound))
        assert mask == goes_left(column, rows, np.uint64(row), np.uint8(shift), np.uint8(bound))


@pytest.mark.nojit
@pytest.mark.parametrize("shift, bound", [(0, 0), (0, 100), (1, 101), (200, 90)])
def test_left_mask(shift, bound):
    rng = np.random.default_rng(shift)
    column, rows = rng.integers(0, 256, 500).astype(np.uint8), rng.permutation(500)[:40].astype(np.uint32)
    for k in (0, 7, 24):
        left = (column[rows[k : k + 16]].astype(int) + shift) % 256 <= bound
        mask = goes_left(column, rows, np.uint64(k), np.uint8(shift), np.uint8(bound))
        assert [bool(mask >> i & 1) for i in range(16)] == left.tolist()


if lanes.COMPRESSES or not JIT:

    @compiled
    def store(rows, k, mask, to, place):
        lanes.store_chosen(rows, k, mask, to, place)

    @compiled
    def ones(mask):
        return lanes.count_ones(mask)

    @pytest.mark.nojit
    @pytest.mark.parametrize("mask", [0, 1, 0x8000, 0xFFFF, 0x0F0F, 0x1234])
    def test_chosen_rows_are_stored_and_nothing_else(mask):
        rows, to = np.arange(100, 140, dtype=np.uint32), np.full(40, 7, np.uint32)
        store(rows, np.uint64(3), np.uint16(mask), to, np.uint64(5))
        chosen = [103 + i for i in range(16) if mask >> i & 1]
        assert to.tolist() == [7] * 5 + chosen + [7] * (35 - len(chosen))
        assert ones(np.uint16(mask)) == len(chosen)
