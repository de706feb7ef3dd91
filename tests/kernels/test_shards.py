"""The steps of growth on some of the rows beside their twins; whole trees of several members are in backends/."""

from __future__ import annotations

import numpy as np
import pytest

import naive_shards
from kernels.build import backend_of, bins_of, every_team, integers, pack, random_case, run
from stagewise.kernels.histogram import PITCH
from stagewise.kernels.nodes import GRAD, HESS, N_STATE, START, STOP, Nodes
from stagewise.kernels.shards import (
    add_narrow,
    build_nodes,
    count_digits,
    divide_nodes,
    keys_above,
    keys_to_values,
    label_nodes,
    open_nodes,
    residual_keys,
    step_sums,
    to_narrow,
)
from stagewise.kernels.split import COUNT_LEFT, GRAD_LEFT, HESS_LEFT, N_FIELDS
from stagewise.kernels.team import Team

pytestmark = pytest.mark.nojit
NO_COUNTS = np.empty(0, np.int64)


def test_children_get_what_the_split_says():
    nodes = Nodes(np.zeros((3, N_STATE), np.int64), np.zeros((3, N_FIELDS), np.int64), np.zeros(3))
    nodes.state[0, [STOP, GRAD, HESS]] = 10, -7, 90
    nodes.split[0, [COUNT_LEFT, GRAD_LEFT, HESS_LEFT]] = 4, 5, 30
    open_nodes(nodes, np.array([0]), np.array([1]))
    got = [tuple(map(int, (row[STOP] - row[START], row[GRAD], row[HESS]))) for row in nodes.state[1:]]
    assert tuple(got) == naive_shards.open_nodes((10, -7, 90), (4, 5, 30))


@every_team
def test_rows_are_divided_in_order(n_threads):
    rng = np.random.default_rng(0)
    case = random_case(rng, 60, [5, 7], 0.2)
    bins = bins_of(case.codes, case.n_bins)
    rows = np.zeros((2, 60), np.uint32)
    rows[0], rows[1] = rng.permutation(60), 99
    before = rows[0].copy()
    jobs = np.array([[0, 25, 0, 0, 2, 0, 0], [25, 25, 0, 1, 3, 1, 0], [25, 60, 0, 1, 3, 1, 0]], np.int64)
    counts = np.zeros((n_threads, 3), np.int64)
    with Team(n_threads) as team:
        sides = np.zeros((n_threads, 256), np.uint8)
        team.run(divide_nodes, team.gate, bins, rows, jobs, np.zeros((3, N_FIELDS), np.int64), sides, counts)
    for start, stop, _, column, cut, side, middle in jobs.tolist():
        left, right = naive_shards.divide_nodes(case.codes, before[start:stop], column, cut, side == 1)
        assert (rows[1, start:middle].tolist(), rows[1, middle:stop].tolist()) == (left, right)


@every_team
@pytest.mark.parametrize("wide", [False, True])
def test_histograms_of_some_nodes(n_threads, wide):
    rng = np.random.default_rng(1)
    case = random_case(rng, 80, [5, 7, 3], 0.2, wide=wide)
    with backend_of(case, n_threads) as backend:
        chosen = pack(backend, case, 7)
        grad, hess = integers(case.grad, case.hess, chosen)
        size = backend.bins.width * PITCH
        rows = np.stack([rng.permutation(80), rng.permutation(80)]).astype(np.uint32)
        parts = np.array([[0, 30, 0, 0], [10, 80, 1, 1], [5, 5, 0, 2]], np.int64)
        out = np.ones((2, 3, size), np.int64)
        packed = np.zeros((n_threads, size), np.int64)
        backend.team.run(
            build_nodes, backend.bins, backend._words, backend._more_words, rows, parts, chosen, packed, out[0], out[1]
        )
        assert not packed.any()
    bits = int(chosen.count_bits)
    slots, n_bins = np.arange(3), np.full(3, 255)
    entries = (np.arange(3)[:, None] * PITCH + np.arange(256)).ravel()
    narrow, back = np.empty((3, 3 * len(entries)), np.int32), np.zeros((2, 3, size), np.int64)
    assert to_narrow(out[0], out[1], slots, n_bins, 0, 3, chosen.count_bits, narrow) == (not wide)
    if not wide:
        add_narrow(narrow, slots, n_bins, 0, 3, chosen.count_bits, back[0], back[1])
        add_narrow(narrow, slots, n_bins, 0, 3, chosen.count_bits, back[0], back[1])
    for p, (start, stop, line, _) in enumerate(parts.tolist()):
        slow = naive_shards.build_nodes(case.codes, grad, hess, rows[line, start:stop]).reshape(-1, 3)
        got = np.column_stack([out[0, p], out[1, p] >> bits, out[1, p] & ((1 << bits) - 1)])[entries]
        np.testing.assert_array_equal(got, slow)
        if not wide:
            lines = narrow.reshape(3, 3, -1)[:, p].T
            assert [naive_shards.to_narrow(*map(int, row)) for row in slow] == [tuple(row) for row in lines.tolist()]
            twice = [naive_shards.add_narrow([tuple(row)] * 2) for row in lines.tolist()]
            sums = np.column_stack([back[0, p], back[1, p] >> bits, back[1, p] & ((1 << bits) - 1)])[entries]
            assert [tuple(row) for row in sums.tolist()] == twice


def test_what_does_not_fit_is_not_narrow():
    out, one, none = np.empty((3, 2), np.int32), np.ones(1, np.int64), np.zeros((1, PITCH), np.int64)
    for grad, fits in ((2**31 - 1, True), (-(2**31), False), (2**31, False)):
        large = none + 0
        large[0, 0] = grad
        assert to_narrow(large, none, one - 1, one, 0, 1, np.int64(20), out) == fits
        assert (naive_shards.to_narrow(grad, 0, 0) is not None) == fits


@every_team
def test_labels_of_parts(n_threads):
    rows = np.array([[4, 2, 0, 1, 3, 5], [0, 1, 2, 3, 4, 5]], np.uint32)
    labels = np.full(6, 9, np.uint16)
    run(n_threads, label_nodes, rows, np.array([[0, 2, 0, 7], [5, 6, 1, 3]], np.int64), labels)
    expected = naive_shards.label_nodes(6, [([4, 2], 7), ([5], 3)])
    assert labels.tolist() == [9 if number < 0 else number for number in expected]


@every_team
@pytest.mark.parametrize("weighted", [False, True])
def test_selection_of_a_key(n_threads, weighted):
    rng = np.random.default_rng(2)
    n = 50
    y, raw = rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n), rng.normal(size=n)
    y[:3], raw[:3] = (0.0, -0.0, 1.0), 0.0
    labels = rng.integers(0, 4, n).astype(np.uint16)
    counts = rng.integers(0, 3, n) if weighted else NO_COUNTS
    weights = counts if weighted else np.ones(n, np.int64)
    keys = np.empty(n, np.uint64)
    run(n_threads, residual_keys, y, raw, keys)
    assert keys.tolist() == naive_shards.residual_keys(y, raw)
    values = np.empty(n)
    keys_to_values(keys, values)
    np.testing.assert_array_equal(values, naive_shards.keys_to_values(keys.tolist()))
    np.testing.assert_array_equal(values, y - raw)
    some = keys[[labels.tolist().index(leaf) for leaf in range(3)]]  # label 3 takes no part
    for done in (0, 8, 56):
        prefix = some >> np.uint64(64 - done) if done else np.zeros(3, np.uint64)
        table = np.zeros((n_threads, 3, 256), np.int64)
        run(n_threads, count_digits, keys, counts, labels, prefix, done, table)
        for leaf in range(3):
            own = labels == leaf
            slow = naive_shards.count_digits(keys[own].tolist(), weights[own].tolist(), int(prefix[leaf]), done)
            assert table.sum(axis=0)[leaf].tolist() == slow
    above = np.full((n_threads, 3), 2**64 - 1, np.uint64)
    run(n_threads, keys_above, keys, counts, labels, some, above)
    for leaf in range(3):
        own = labels == leaf
        assert above.min(axis=0)[leaf] == naive_shards.keys_above(
            keys[own].tolist(), weights[own].tolist(), int(some[leaf])
        )


@every_team
def test_steps_from_the_median(n_threads):
    rng = np.random.default_rng(3)
    y, raw, counts = rng.normal(size=40), np.zeros(40), rng.integers(0, 5, 40)
    labels, values, delta, unit, bits = rng.integers(0, 3, 40).astype(np.uint16), np.array([0.1, -0.2]), 0.5, 4.0, 40
    out = np.zeros((n_threads, 2, 3), np.int64)
    run(n_threads, step_sums, y, raw, counts, labels, values, delta, unit, bits, out)
    for leaf in range(2):
        own = labels == leaf
        total, weight = naive_shards.step_sums(y[own].tolist(), counts[own].tolist(), values[leaf], delta)
        hi, lo, c = out.sum(axis=0)[leaf].tolist()
        assert c == weight
        assert (hi + lo / 2**bits) * unit / 2**bits == pytest.approx(float(total), rel=1e-12)
