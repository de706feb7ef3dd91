"""How likely rows of each score are drawn, beside their slow twins."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from stagewise.kernels.chances import SURE, goss_chances, variance_chances
from stagewise.kernels.scores import ABSENT, CODES

SQUARES = np.geomspace(2.0**-64, 1.0, CODES)

COUNTS = ["spread", "few codes", "one code", "lowest code", "one row", "some absent"]


def lines_of(kind: str, n_lines: int) -> np.ndarray:
    rng = np.random.default_rng(len(kind))
    lines = np.zeros((n_lines, CODES), np.int64)
    if kind in ("spread", "some absent"):
        codes = np.clip(rng.normal(7000, 400, 20_000).astype(int), 1, CODES - 1)
        np.add.at(lines, (rng.integers(0, n_lines, len(codes)), codes), 1)
        lines[0, ABSENT] = 5000 if kind == "some absent" else 0
    elif kind == "few codes":
        lines[:, [30, 4000, 4001, CODES - 1]] = rng.integers(1, 100, (n_lines, 4))
    elif kind == "one row":
        lines[-1, 5000] = 1
    else:
        lines[0, 5000 if kind == "one code" else 1] = 1000
    return lines


def goss(lines: np.ndarray, top: float, rest: float) -> tuple[np.ndarray, np.ndarray, float, int]:
    below, times = np.empty(CODES, np.uint32), np.empty(CODES)
    expected, edge = goss_chances(lines, top, rest, np.empty(CODES, np.int64), below, times)
    return below, times, expected, edge


def variance(lines: np.ndarray, wanted: float) -> tuple[np.ndarray, np.ndarray, float]:
    below, times, room = np.empty(CODES, np.uint32), np.empty(CODES), (np.empty(CODES, np.int64), np.empty(CODES))
    expected = variance_chances(lines, SQUARES, 0.1, wanted, *room, below, times)
    return below, times, expected


@pytest.mark.nojit
@pytest.mark.parametrize("kind", COUNTS)
@pytest.mark.parametrize("top, rest", [(0.2, 0.1), (0.05, 0.05), (0.5, 0.5), (0.3, 0.0001), (1e-9, 0.4)])
def test_goss(kind, top, rest):
    lines = lines_of(kind, 3)
    below, times, expected, edge = naive.goss_chances(lines.copy(), top, rest)
    got = goss(lines, top, rest)
    np.testing.assert_array_equal(got[0], below)
    np.testing.assert_array_equal(got[1], times)
    assert got[2] == pytest.approx(expected, rel=1e-12)
    assert got[3] == edge
    assert not lines.any()  # ready for the next stage
    assert got[2] <= (top + rest) * 25_000 + 1e-6


@pytest.mark.nojit
@pytest.mark.parametrize("kind", COUNTS)
@pytest.mark.parametrize("wanted", [0.001, 0.1, 0.3, 0.9])
def test_minimal_variance(kind, wanted):
    lines = lines_of(kind, 2)
    n = lines[:, 1:].sum()
    below, times, expected = naive.variance_chances(lines.copy(), SQUARES, 0.1, wanted)
    got = variance(lines, wanted)
    np.testing.assert_allclose(got[0], below, rtol=1e-9, atol=1)
    np.testing.assert_allclose(got[1], times, rtol=1e-9)
    assert got[2] == pytest.approx(expected, rel=1e-9)
    assert got[2] == pytest.approx(wanted * n, rel=1e-9)
    assert not lines.any()


@pytest.mark.nojit
def test_nobody_was_counted():
    lines = np.zeros((2, CODES), np.int64)
    lines[1, ABSENT] = 7
    assert goss(lines.copy(), 0.2, 0.1)[2] == 0.0
    assert variance(lines, 0.3)[2] == 0.0


@pytest.mark.nojit
def test_rows_of_the_top_are_sure_and_those_that_take_no_part_never_drawn():
    lines = lines_of("some absent", 2)
    counts = lines.sum(axis=0)
    below, times, *_ = goss(lines, 0.2, 0.1)
    assert below[ABSENT] == 0
    sure = below == SURE
    assert 0.19 < counts[sure].sum() / counts[1:].sum() <= 0.2
    assert (times[sure] == 1.0).all()
    np.testing.assert_allclose(times[1:][below[1:] == below[1]], 8.0, rtol=1e-15)
