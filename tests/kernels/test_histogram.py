"""Histograms of packed and wide words beside sums of the decoded integers."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from kernels.build import Case, backend_of, integers, pack, random_case, wide_histogram

FORMS = {"narrow": (False, False), "constant": (True, False), "wide": (False, True), "wide, constant": (True, True)}
every_form = pytest.mark.parametrize("constant, wide", FORMS.values(), ids=FORMS)


def check(case: Case, rows: np.ndarray, block: int | None = None) -> None:
    with backend_of(case) as backend:
        chosen = pack(backend, case, block)
        g, h = integers(case.grad, case.hess, chosen)
        expected = naive.histogram_of_rows(case.codes, g, h, rows.astype(np.int64))
        np.testing.assert_array_equal(wide_histogram(backend, chosen, rows), expected)


@pytest.mark.nojit
@every_form
@pytest.mark.parametrize("n_bins", [[1], [2, 3], [4, 1, 255, 6], [3, 3, 3, 3, 3]])
def test_small_tables(n_bins, constant, wide):
    rng = np.random.default_rng(0)
    case = random_case(rng, 30, n_bins, 0.2, constant, wide)
    check(case, np.arange(30, dtype=np.uint32))
    check(case, np.array([3, 4, 17, 29], np.uint32))
    check(case, np.array([5], np.uint32))


@pytest.mark.nojit
@every_form
@pytest.mark.parametrize("block", [1, 3, 30])
def test_small_blocks(constant, wide, block):
    case = random_case(np.random.default_rng(1), 30, [5, 2], 0.2, constant, wide)
    check(case, np.arange(30, dtype=np.uint32), block)


@every_form
@pytest.mark.parametrize("n_rows", [4094, 4095, 4096, 8190, 8191, 40_000])
def test_blocks(n_rows, constant, wide):
    rng = np.random.default_rng(n_rows)
    case = random_case(rng, n_rows, [255, 2, 40], 0.1, constant, wide)
    check(case, np.arange(n_rows, dtype=np.uint32))
    check(case, np.sort(rng.choice(n_rows, n_rows // 2, replace=False)).astype(np.uint32))


@every_form
def test_one_bin_takes_the_largest_values_of_all_rows(constant, wide):
    """Every row in one bin with the largest gradient and second derivative: what could overflow, would."""
    n = 12_345
    for sign in (1.0, -1.0):
        case = Case(np.zeros((n, 1), np.uint8), [1], np.full(n, sign), np.ones(n), constant, wide)
        check(case, np.arange(n, dtype=np.uint32))


@every_form
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_entries_fill_up_one_column_at_a_time(constant, wide, sign):
    """Packed sums stay where they are until an entry might run over; a column's may at any time, others' never."""
    n, rng = 50_000, np.random.default_rng(3)
    codes = rng.integers(0, 255, (n, 5)).astype(np.uint8)
    codes[20_000:31_000, 0] = 7
    codes[:9_000, 1] = 254
    codes[45_000:, 2] = 255  # missing
    case = Case(codes, [255] * 5, np.full(n, sign), np.ones(n), constant, wide)
    check(case, np.arange(n, dtype=np.uint32))
    check(case, np.flatnonzero(rng.random(n) < 0.7).astype(np.uint32))


@pytest.mark.parametrize("n_columns", [12, 16, 17, 20, 28, 33, 50, 65])
def test_rows_that_follow_each_other_are_added_to_groups_of_columns(n_columns):
    rng = np.random.default_rng(n_columns)
    case = random_case(rng, 5_000, [2 + 13 * j % 250 for j in range(n_columns)], 0.1)
    check(case, np.arange(5_000, dtype=np.uint32))
    check(case, np.arange(7, 2_056, dtype=np.uint32))  # one more than a round
    check(case, np.arange(4_999, 5_000, dtype=np.uint32))
