"""Leaf values: exact sums, closed-form steps, and quantiles by selection beside quantiles by sorting."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from kernels.build import (
    NOTHING,
    Leaves,
    every_team,
    from_python,
    leaf_quantiles_of,
    leaf_sums_of,
    quick,
    random_leaves,
    run,
)
from stagewise.kernels import leaves as kernels
from stagewise.kernels.exact import limb_bits, power_above
from stagewise.kernels.leaves import add_leaves

# --------------------------------------------------------------------------------------------------------------- sums


def one_leaf(n: int) -> Leaves:
    return random_leaves(np.random.default_rng(0), n, 1)


def check_sums(rng: np.random.Generator, n: int, n_leaves: int, idle: int, n_threads: int, weighted: bool) -> None:
    leaves = random_leaves(rng, n, n_leaves, idle)
    grad, hess = rng.standard_cauchy(n), rng.exponential(size=n)
    weight = rng.exponential(size=n) if weighted else NOTHING
    units = [power_above(float(np.abs(v).max())) if len(v) else 1.0 for v in (grad, hess, weight)]
    bits = limb_bits(n)
    values = (grad, hess, weight if weighted else np.ones(n))
    for fine in (False, True):
        got = leaf_sums_of(leaves, (grad, hess, weight), units, bits, fine, n_threads=n_threads)
        twin = naive.leaf_sums(values, leaves.members, units, 2 * bits if fine else bits)
        for line, sums, own in zip(got, twin, leaves.members, strict=True):
            # two limbs become a float with three roundings
            np.testing.assert_allclose(line[:3], [float(total) for total in sums], rtol=5e-16)
            assert line[3] == pytest.approx(naive.leaf_step("newton", 0.0, line[0], line[1], len(own)), rel=1e-15)


@pytest.mark.nojit
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n, n_leaves, idle", [(1, 1, 0), (2, 2, 0), (40, 7, 0), (40, 5, 9)])
def test_leaf_sums(n, n_leaves, idle, weighted):
    check_sums(np.random.default_rng(n), n, n_leaves, idle, 1, weighted)


@every_team
@pytest.mark.parametrize("weighted", [False, True])
def test_leaf_sums_on_threads(n_threads, weighted):
    rng = np.random.default_rng(2)
    for n, n_leaves, idle in [(3, 2, 0), (3000, 31, 500), (1024, 1, 0)]:
        check_sums(rng, n, n_leaves, idle, n_threads, weighted)


@pytest.mark.nojit
def test_a_sum_has_no_order():
    """Huge terms that cancel leave the small one, wherever they stand."""
    values = np.array([1e9, 1.0, -1e9, 0.0])
    for order in ([0, 1, 2, 3], [1, 0, 3, 2], [3, 2, 1, 0]):
        got = leaf_sums_of(one_leaf(4), (values[order], np.ones(4), NOTHING), [2.0**30, 1.0, 1.0], 38)
        assert got[0, 0] == 1.0


@pytest.mark.nojit
@quick
@given(
    st.sampled_from(["newton", "exponential", "log_ratio"]),
    st.floats(-1.0, 1.0),
    st.floats(0.0, 1.0),
    st.sampled_from([1.0, 1.3, 1.5, 2.0]),
    st.integers(1, 40),
)
@example("exponential", 1.0, 1.0, 1.0, 5)
@example("exponential", -1.0, 1.0, 1.0, 5)
@example("exponential", 0.0, 1.0, 1.0, 2)
@example("log_ratio", 1.0, 1.0, 1.0, 3)
@example("log_ratio", 0.0, 0.0, 1.0, 3)
@example("log_ratio", -1.0, 1e-30, 1.0, 3)
@example("log_ratio", -1.0, 1e-10, 1.0, 3)  # log 10^10 is 23, which counts as 19
@example("log_ratio", 1.0 - 2e-9, 1.0, 1.0, 3)
@example("log_ratio", -1.0, 2.7557319223985893e-06, 1.0, 1)  # B, a millionth of A, is not lost in the sum
@example("newton", 0.5, 0.0, 1.0, 3)
def test_the_step_of_a_leaf(kind, grad, hess, power, count):
    if kind == "exponential":
        hess = max(hess, abs(grad))  # |W₋ - W₊| is at most W₋ + W₊
    values = (np.array([grad] + [0.0] * (count - 1)), np.array([hess] + [0.0] * (count - 1)), NOTHING)
    got = leaf_sums_of(one_leaf(count), values, [1.0, 1.0, 1.0], 38, True, kind, power)
    g, h = got[0, :2].tolist()
    expected = naive.leaf_step(kind, power, g, h, count)
    assert got[0, 3] == pytest.approx(expected, rel=1e-13, abs=1e-13)


@pytest.mark.nojit
def test_steps_minimise_the_loss():
    """The closed forms beside a direct look at the loss around them."""
    rng = np.random.default_rng(0)
    n = 30
    y, f, w = rng.integers(0, 2, n).astype(float), rng.normal(size=n), rng.exponential(size=n)
    for kind, loss, power, pairs in [
        ("exponential", naive.exponential_pairs, 0.0, 0.0),
        ("log_ratio", naive.tweedie_pairs, 1.0, 1.0),
        ("log_ratio", naive.tweedie_pairs, 1.5, 1.5),
        ("log_ratio", naive.tweedie_pairs, 2.0, 2.0),
    ]:
        target = y + (power == 2.0)
        at = loss(target, f, w, pairs)
        units = [power_above(float(np.abs(v).max())) for v in (at.grad, at.hess)]
        step = leaf_sums_of(one_leaf(n), (at.grad, at.hess, NOTHING), [*units, 1.0], 38, True, kind, power)[0, 3]
        here, *around = (loss(target, f + step + d, w, pairs).value.sum() for d in (0.0, -1e-4, 1e-4))
        assert here < min(around)


@every_team
@pytest.mark.nojit
def test_add_leaves(n_threads):
    rng = np.random.default_rng(6)
    for n, n_leaves in [(1, 1), (50, 6)]:
        leaves = random_leaves(rng, n, n_leaves)
        values, raw = rng.normal(size=leaves.n_nodes), rng.normal(size=n)
        expected = naive.add_leaves(raw, leaves.members, values[leaves.places[:, 0]])
        run(n_threads, add_leaves, leaves.labels, values, raw)
        np.testing.assert_array_equal(raw, expected)


# ---------------------------------------------------------------------------------------------------------- selection

ordered_key, key_value = from_python(kernels.ordered_key), from_python(kernels.key_value)


@pytest.mark.nojit
@quick
@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
@example(0.0, -0.0)
@example(-5e-324, 5e-324)
def test_keys_have_the_order_of_floats(a, b):
    key_a, key_b = int(ordered_key(a)), int(ordered_key(b))
    assert (key_a < key_b, key_a == key_b) == (a < b, a == b)
    assert key_value(np.uint64(key_a)) == a


weights = st.integers(0, 5)
values = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-1e100, 1e100), st.sampled_from([0.0, -0.0, 1.0, 1 + 2**-52])
)


@pytest.mark.nojit
@quick
@given(
    st.lists(st.tuples(values, weights), min_size=1, max_size=30),
    st.one_of(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]), st.floats(0.0, 1.0)),
    st.booleans(),
)
@example([(1.0, 1), (2.0, 1)], 0.5, True)
@example([(1.0, 0), (2.0, 1), (3.0, 0), (4.0, 1)], 0.5, True)
@example([(1.0, 0), (2.0, 0)], 0.5, True)
@example([(1.0, 0), (2.0, 3)], 0.0, True)
@example([(-1.0, 1), (-2.0, 1), (-3.0, 1)], 1.0, False)
def test_leaf_quantiles_are_those_of_a_sort(pairs, alpha, weighted):
    residuals, counts = np.array([v for v, _ in pairs]), np.array([c for _, c in pairs], np.int64)
    counts_in = counts if weighted else np.empty(0, np.int64)
    got = leaf_quantiles_of(one_leaf(len(pairs)), residuals, counts_in, alpha)
    exactly = naive.quantile(residuals, counts if weighted else np.ones_like(counts), alpha)
    # the mean of two values is rounded; a single one is not
    assert abs(Fraction(float(got[0])) - exactly) <= abs(exactly) / 2**51 + Fraction(2) ** -1074
    if float(exactly) in residuals.tolist():
        assert got[0] == float(exactly)


def check_quantiles(rng: np.random.Generator, n: int, n_leaves: int, idle: int, n_threads: int) -> None:
    leaves = random_leaves(rng, n, n_leaves, idle)
    for residuals in (rng.standard_cauchy(n), np.rint(rng.normal(size=n) * 2)):
        for counts in (np.empty(0, np.int64), rng.integers(0, 4, n), rng.integers(0, 1 << 30, n)):
            weights = counts if len(counts) else np.ones(n, np.int64)
            for alpha, delta in [(0.5, 0.0), (0.9, 0.0), (0.5, 0.8), (0.5, 1e-3)]:
                got = leaf_quantiles_of(leaves, residuals, counts, alpha, delta, n_threads)
                expected = naive.leaf_quantiles(residuals, weights, leaves.members, alpha, delta)
                np.testing.assert_allclose(got, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.nojit
def test_leaf_quantiles():
    rng = np.random.default_rng(1)
    for n, n_leaves, idle in [(1, 1, 0), (9, 3, 2)]:
        check_quantiles(rng, n, n_leaves, idle, 1)


@every_team
def test_leaf_quantiles_on_threads(n_threads):
    check_quantiles(np.random.default_rng(5), 800, 20, 5, n_threads)


def test_a_median_is_numpys():
    rng = np.random.default_rng(9)
    for n in [2, 3, 1000, 1001]:
        residuals = rng.normal(size=n)
        got = leaf_quantiles_of(one_leaf(n), residuals, np.empty(0, np.int64), 0.5)
        assert got[0] == pytest.approx(np.median(residuals), rel=1e-15)
