"""Rows that hardly matter: sums by leading bits, and who stays."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from stagewise.kernels.influence import BUCKETS, influence_edge, influence_rows, influence_sums


def case(seed, n=200, some=True):
    rng = np.random.default_rng(seed)
    influence = 0.25 * rng.uniform(size=n) ** rng.integers(1, 40, n)
    influence[::11] = 0.0
    influence[5::13] = influence[5]
    return influence, rng.random(n) < 0.3 if some else np.empty(0, np.bool_)


@pytest.mark.nojit
@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_beside_the_definition(seed, some):
    influence, out = case(seed, some=some)
    scale = 2.0**32
    sums = np.zeros((2, BUCKETS), np.int64)
    influence_sums(influence, out, scale, sums)
    twin = naive.influence_sums(influence, out, scale)
    assert {b: (int(sums[0, b]), int(sums[1, b])) for b in np.flatnonzero(sums[1])} == twin
    for bucket in twin:
        edge = np.empty(sums[1, bucket])
        influence_edge(influence, out, bucket, edge)
        assert edge.tolist() == naive.influence_edge(influence, out, bucket)
    for least in (0.0, influence[5], 0.1, 1.0):
        chosen, rest = np.empty(len(influence) + 1, np.uint32), np.empty(len(influence) + 1, np.uint32)
        n = influence_rows(influence, out, least, chosen, rest)
        twin_rows = naive.influence_rows(influence, out, least)
        assert (chosen[:n].tolist(), rest[: len(influence) - n].tolist()) == twin_rows
