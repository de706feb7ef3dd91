"""Cut points found batch by batch are those of the whole table, however it is divided."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import stagewise as sw
from data.tables import assert_same, mixed
from stagewise.data import binning, survey

FEATURES = [f"c{j}" for j in range(8)]


def batches(table, edges, weighted):
    edges = [0, *edges, len(table)]
    columns = [*FEATURES, "y", *(["w"] if weighted else [])]
    return [table.select(columns).slice(a, b - a) for a, b in pairwise(edges)]


def both(table, edges, weighted, **options):
    ds = sw.Dataset.from_batches(
        batches(table, edges, weighted), "y", sample_weight="w" if weighted else None, **options
    )
    weight = table["w"].to_numpy() if weighted else None
    return ds, sw.Dataset(table.select(FEATURES), table["y"].to_numpy(), weight, **options)


@pytest.fixture
def small_sample(monkeypatch):
    """A sample of 500 rows rather than 200,000: the same code on small tables."""
    monkeypatch.setattr(binning.sample_rows, "__defaults__", (500,))
    monkeypatch.setattr(survey, "SAMPLE_ROWS", 500)
    monkeypatch.setattr(survey, "_SPARE", 60)
    monkeypatch.setattr(survey, "_HEAD", 50)


@pytest.mark.parametrize("n, size", [(1, 1), (2, 1), (300, 299), (300, 7), (5_000, 500), (50_000, 20_000)])
def test_the_sample_has_the_rows_of_the_smallest_hashes(n, size, monkeypatch):
    def smallest(hashes):
        return np.sort(np.argsort(hashes)[:size])

    found = binning.sample_rows(n, size)
    if n == size:
        assert found is None
        return
    np.testing.assert_array_equal(found, smallest(binning.row_hashes(0, n)))
    unlikely = np.arange(n, dtype=np.uint64)[::-1] + np.uint64(2**64 - n)  # all hashes large
    monkeypatch.setattr(binning, "row_hashes", lambda first, n_rows: unlikely)
    np.testing.assert_array_equal(binning.sample_rows(n, size), smallest(unlikely))


@pytest.mark.parametrize("weighted", [False, True])
def test_more_rows_than_the_sample(weighted):
    assert_same(*both(mixed(230_000), [100_001, 100_001, 150_000, 229_999], weighted))


@pytest.mark.parametrize("seed", range(12))
def test_any_division_of_any_table(small_sample, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6_000))
    table = mixed(n, seed)
    for name in ("c3", "c4"):  # rarer in a smaller sample
        x = np.where(rng.random(n) < 0.05, rng.normal(size=n), table[name].to_numpy())
        table = table.set_column(table.column_names.index(name), name, [x])
    edges = np.sort(rng.integers(0, n, rng.integers(0, 9))).tolist()
    assert_same(*both(table, edges, bool(seed % 2), max_bins=int(rng.choice([2, 16, 255]))))


@pytest.mark.parametrize("weight", [np.zeros, np.ones])
def test_equal_weights_and_zero_weights(small_sample, weight):
    table = mixed(3_000)
    w = weight(3_000)
    w[7:1_900:2] = 1.0
    table = table.set_column(table.column_names.index("w"), "w", [w])
    assert_same(*both(table, [1_000, 2_000], True))


def test_infinities_are_values_among_few(small_sample):
    x = np.where(np.arange(4_000) % 3 == 0, np.inf, np.where(np.arange(4_000) % 3 == 1, -np.inf, 1.0))
    ds = sw.Dataset.from_batches([(x[:2_000, None], x[:2_000] > 0), (x[2_000:, None], x[2_000:] > 0)])
    assert_same(ds, sw.Dataset(x[:, None]))


def test_types_of_a_column_may_differ_between_batches(small_sample):
    x = np.arange(2_000) % 700
    pieces = [(x[:900, None].astype(np.int16), x[:900]), (x[900:, None].astype(np.float64), x[900:])]
    assert_same(sw.Dataset.from_batches(pieces), sw.Dataset(x[:, None]))
