"""Which rows a stage sees: exact in number, decided by hashes of row numbers alone."""

from __future__ import annotations

import numpy as np
import pytest

from stagewise.boosting.sampling import Sampler, UniformSampler, smallest_hashes
from stagewise.kernels.exact import hash_values, stream_key

KEY = stream_key(7, 1, 2)


@pytest.mark.nojit
@pytest.mark.parametrize("n, wanted", [(1, 1), (2, 1), (10, 3), (10, 10), (300, 299), (300, 1)])
def test_the_smallest_hashes_are_chosen(n, wanted):
    hashes = np.empty(n, np.uint64)
    hash_values(KEY, 0, hashes)
    chosen, rest = smallest_hashes(KEY, np.zeros(n, np.bool_), wanted)
    np.testing.assert_array_equal(chosen, np.sort(np.argsort(hashes)[:wanted]))
    np.testing.assert_array_equal(np.sort(np.concatenate([chosen, rest])), np.arange(n))
    assert chosen.dtype == rest.dtype == np.uint32


def test_many_rows():
    n = 200_000
    hashes = np.empty(n, np.uint64)
    hash_values(KEY, 0, hashes)
    for wanted in (1, 777, n // 2, n - 1, n):
        chosen, rest = smallest_hashes(KEY, np.zeros(n, np.bool_), wanted)
        assert len(chosen) == wanted
        assert len(rest) == n - wanted
        assert wanted == n or hashes[chosen].max() < hashes[rest].min()
        assert (np.diff(chosen.astype(np.int64)) > 0).all()
        assert (np.diff(rest.astype(np.int64)) > 0).all()


def test_skipped_rows_are_never_chosen():
    skip = np.arange(1000) % 3 == 0
    chosen, rest = smallest_hashes(KEY, skip, 100)
    assert not skip[chosen].any()
    assert len(chosen) == 100
    np.testing.assert_array_equal(np.sort(np.concatenate([chosen, rest])), np.arange(1000))


def test_a_row_is_drawn_as_often_as_any_other():
    """Without replacement within a stage; over 2,000 stages every row has its share, up to chance."""
    sampler = UniformSampler(200, np.zeros(200, np.bool_), 0.3, seed=5)
    times = np.zeros(200)
    for stage in range(2000):
        rows = sampler(stage)
        assert len(np.unique(rows.index)) == len(rows.index) == 60
        times[rows.index] += 1
    assert abs(times - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)
    pairs = np.mean([np.isin([0, 1], sampler(stage).index).all() for stage in range(2000)])
    assert pairs == pytest.approx(0.3 * 59 / 199, abs=0.02)


def test_draws_depend_on_seed_and_stage_alone():
    skip = np.zeros(100, np.bool_)
    one, same, other = (UniformSampler(100, skip, 0.5, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one(3).index, same(3).index)
    assert not np.array_equal(one(3).index, one(4).index)
    assert not np.array_equal(one(3).index, other(3).index)


def test_all_rows():
    everything = Sampler(5, np.zeros(5, np.bool_))(0)
    assert len(everything.index) == len(everything.rest) == 0  # empty: all of them
    some = Sampler(5, np.array([True, False, False, True, False]))(0)
    assert some.index.tolist() == [1, 2, 4]
    assert some.rest.tolist() == [0, 3]


@pytest.mark.parametrize("share, expected", [(0.001, 1), (0.5, 50), (0.499, 50), (0.994, 99), (0.999, 100)])
def test_sizes(share, expected):
    assert len(UniformSampler(100, np.zeros(100, np.bool_), share, 0)(0).index) == expected
