"""Root histograms of several classes beside those of each class alone."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from kernels.build import bins_of, every_team, integers, quantized, random_codes
from stagewise.kernels.exact import packing
from stagewise.kernels.histogram import PITCH
from stagewise.kernels.roots import class_roots, root_room
from stagewise.kernels.team import Team

ALL = np.empty(0, np.uint32)


def check(
    n_rows: int,
    n_bins: list[int],
    n_classes: int,
    rows: np.ndarray = ALL,
    n_threads: int = 1,
    constant: bool = False,
    block: int | None = None,
    stretch: int = 1 << 20,
    peak: bool = False,
) -> None:
    """stretch: room for that many rows. peak: every row has the largest pair there is, and lies in the same bin."""
    rng = np.random.default_rng(n_rows)
    codes = random_codes(rng, n_rows, n_bins)
    grad, hess = rng.normal(size=(n_classes, n_rows)), rng.uniform(0.0, 0.25, (n_classes, n_rows))
    if peak:
        codes[:], hess[:] = 0, 0.25
        grad[:] = np.where(np.arange(n_classes) % 2 == 0, 1.0, -1.0)[:, None]
    chosen = packing(float(np.abs(grad).max()), 1.0 if constant else 0.25, n_rows, constant_hess=constant)
    words = np.stack([quantized(grad[k], hess[k], chosen).words for k in range(n_classes)])
    pairs = [integers(grad[k], hess[k], chosen) for k in range(n_classes)]
    expected = naive.class_roots(codes, pairs, rows.astype(np.int64) if len(rows) else np.arange(n_rows))
    if block is not None:
        chosen = chosen._replace(block=np.int64(block))
    bins, n_columns = bins_of(codes, n_bins), len(n_bins)
    out = np.full((n_classes, 2, bins.width * PITCH), 77, np.int64)
    room = root_room(min(n_rows, stretch), n_threads)
    with Team(n_threads) as team:
        for _ in range(2):  # the room is left as it must be found
            team.run(class_roots, team.gate, bins, rows, len(rows) or n_rows, words, chosen, room, out)
            assert not room.packed.any(), "a thread's room must be left empty"
    found = out[:, :, : n_columns * PITCH].reshape(n_classes, 2, n_columns, PITCH)[..., :256]
    bits = int(chosen.count_bits)
    sums = np.stack([found[:, 0], found[:, 1] >> bits, found[:, 1] & ((1 << bits) - 1)], axis=3)
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.nojit
@pytest.mark.parametrize("n_classes", range(1, 9))
@pytest.mark.parametrize("n_bins", [[1], [2, 3], [4, 1, 255, 6, 9]])
def test_small_tables(n_bins, n_classes):
    check(40, n_bins, n_classes)
    check(40, n_bins, n_classes, np.array([3, 4, 17, 39], np.uint32))
    check(1, n_bins, n_classes)


@pytest.mark.nojit
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("block", [1, 7, 40])
def test_small_blocks(block, constant):
    check(40, [5, 2, 3], 5, constant=constant, block=block, stretch=16)


@every_team
@pytest.mark.parametrize("constant", [False, True])
def test_columns_on_threads(constant, n_threads):
    check(9000, [255, 3, 40, 7, 2], 7, n_threads=n_threads, constant=constant)
    rows = np.flatnonzero(np.random.default_rng(1).random(9000) < 0.6).astype(np.uint32)
    check(9000, [12] * 40, 3, rows, n_threads, constant)


@pytest.mark.parametrize("n_rows", [4095, 4096, 65_519, 65_520, 65_521, 140_000])
def test_blocks_and_stretches(n_rows):
    check(n_rows, [30, 255, 2], 8, n_threads=2)


@pytest.mark.parametrize("constant", [False, True])
def test_one_bin_takes_the_largest_values_of_all_rows(constant):
    check(20_000, [1, 1], 6, constant=constant, peak=True)
