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


@compiled
def are_below(values, bounds, k):
    return lanes.below_mask(values, bounds, k)


@pytest.mark.nojit
def test_below_mask():
    rng = np.random.default_rng(2)
    values, bounds = rng.integers(0, 2**32, (2, 40)).astype(np.uint32)  # beyond int32, too
    bounds[3:9] = values[3:9]
    for k in (0, 5, 24):
        mask = are_below(values, bounds, np.uint64(k))
        assert [bool(mask >> i & 1) for i in range(16)] == (values < bounds)[k : k + 16].tolist()


if lanes.COMPRESSES_BYTES or not JIT:

    @compiled
    def store_bytes(column, k, mask, to, place):
        lanes.store_bytes(column, k, mask, to, place)

    @pytest.mark.nojit
    @pytest.mark.parametrize("mask", [0, 1, 1 << 63, 2**64 - 1, 0x0F0F0F0F0F0F0F0F, 0x123456789ABCDEF0])
    def test_chosen_bytes_are_stored_and_nothing_else(mask):
        column, to = np.arange(100, 170, dtype=np.uint8), np.full(80, 7, np.uint8)
        store_bytes(column, np.uint64(3), np.uint64(mask), to, np.uint64(5))
        chosen = [103 + i for i in range(64) if mask >> i & 1]
        assert to.tolist() == [7] * 5 + chosen + [7] * (75 - len(chosen))
        assert ones(np.uint64(mask)) == len(chosen)
