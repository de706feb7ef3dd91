"""Dividing rows beside boolean masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from kernels.build import partitioned, quick


def check(column: np.ndarray, cut: int, missing_left: bool, rows: np.ndarray) -> None:
    left, right = naive.partition_rows(column, cut, missing_left, rows.astype(np.int64))
    got = partitioned(column, cut, missing_left, rows, len(left))
    np.testing.assert_array_equal(got, np.concatenate([left, right]))


@pytest.mark.nojit
@quick
@given(
    st.lists(st.one_of(st.integers(0, 254), st.just(255), st.integers(0, 3)), min_size=1, max_size=40),
    st.one_of(st.integers(0, 253), st.integers(0, 3)),
    st.booleans(),
    st.data(),
)
def test_rows_keep_their_order(codes, cut, missing_left, data):
    column = np.array(codes, np.uint8)
    chosen = data.draw(st.lists(st.booleans(), min_size=len(codes), max_size=len(codes)))
    check(column, cut, missing_left, np.flatnonzero(chosen).astype(np.uint32))


@pytest.mark.nojit
@pytest.mark.parametrize("missing_left", [False, True])
@pytest.mark.parametrize("codes", [[0], [255], [254], [255] * 9, [0] * 9, [254, 255, 0]])
@pytest.mark.parametrize("cut", [0, 1, 253, 254])
def test_edges(codes, cut, missing_left):
    """Cut 254: all values left, which is a split when missing ones go right."""
    check(np.array(codes, np.uint8), cut, missing_left, np.arange(len(codes), dtype=np.uint32))


@pytest.mark.parametrize("missing_left", [False, True])
def test_many_rows(missing_left):
    rng = np.random.default_rng(0)
    column = rng.integers(0, 256, 10_000).astype(np.uint8)
    for n in [1, 2, 3, 5001, 10_000]:
        for cut in [0, 100, 254]:
            check(column, cut, missing_left, np.sort(rng.choice(10_000, n, replace=False)).astype(np.uint32))


@pytest.mark.parametrize("n", [15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 4099])
@pytest.mark.parametrize("cut", [0, 7, 100, 254])
def test_rows_that_fill_vectors(n, cut):
    """Where rows are moved sixteen at a time there is a rest at either end."""
    rng = np.random.default_rng(n)
    column = rng.integers(0, 256, 3 * n).astype(np.uint8)
    check(column, cut, bool(n % 2), np.sort(rng.choice(3 * n, n, replace=False)).astype(np.uint32))
