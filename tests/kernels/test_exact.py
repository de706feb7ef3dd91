"""Hashes, exp and log, exact sums, and the fields of packed gradients."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import naive
from kernels.build import NOTHING, every_team, from_python, quick, run, ulps, unpack, unpack_wide
from stagewise.boosting.pairs import exact_sum
from stagewise.boosting.sampling import smallest_hashes
from stagewise.kernels import exact
from stagewise.kernels.exact import Packing, limb_bits, limbs_total, packing, power_above, stream_key
from stagewise.kernels.team import Team

KEYS = [0, 1, (1 << 64) - 1, 0x9E3779B97F4A7C15, 0x0123456789ABCDEF]
finite = st.floats(allow_nan=False, allow_infinity=False)

# ------------------------------------------------------------------------------------------------------------- hashes


@pytest.mark.nojit
def test_the_hash_is_splitmix64():
    """The first outputs of the generator from state 0 (Vigna's splitmix64.c) are the hashes of 1, 2, 3 under key 0."""
    out = np.empty(3, np.uint64)
    exact.hash_values(np.uint64(0), 1, out)
    assert out.tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@pytest.mark.nojit
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("first", [0, 7, 1 << 40, (1 << 62) - 3])
def test_hash_values(key, first):
    out = np.empty(40, np.uint64)
    exact.hash_values(np.uint64(key), first, out)
    assert out.tolist() == naive.hash_values(key, first, 40)


@pytest.mark.nojit
@pytest.mark.parametrize("key", KEYS)
def test_hash_threshold_counts(key):
    skip = np.random.default_rng(0).random(50) < 0.3
    out = np.zeros(1 << 16, np.int64)
    exact.hash_threshold_counts(np.uint64(key), skip, out)
    np.testing.assert_array_equal(out, naive.hash_threshold_counts(key, skip))
    assert out.sum() == (~skip).sum()


@pytest.mark.nojit
@pytest.mark.parametrize("key", KEYS)
def test_mix_rows(key):
    rng = np.random.default_rng(1)
    skip = rng.random(55) < 0.3
    hashes = naive.hash_values(key, 0, 55)
    none = np.empty(0, np.uint32)
    for threshold in [0, (1 << 64) - 1, 1 << 63, hashes[3], hashes[3] - 1]:
        chosen, rest, edge = naive.mix_rows(key, skip, hashes[9] >> 48, threshold)
        got_chosen, got_rest = np.empty(len(chosen), np.uint32), np.empty(len(rest), np.uint32)
        exact.mix_rows(np.uint64(key), skip, 0, np.uint64(threshold), got_chosen, got_rest, np.empty(0, np.uint64))
        assert got_chosen.tolist() == chosen
        assert got_rest.tolist() == rest
        if edge:
            got_edge = np.empty(len(edge), np.uint64)
            exact.mix_rows(np.uint64(key), skip, hashes[9] >> 48, np.uint64(threshold), none, none, got_edge)
            assert got_edge.tolist() == edge


@pytest.mark.nojit
@quick
@given(st.integers(0, (1 << 64) - 1), st.lists(st.booleans(), min_size=1, max_size=50), st.data())
def test_smallest_hashes_are_those_of_a_sort(key, skipped, data):
    skip = np.array(skipped)
    assume(not skip.all())
    wanted = data.draw(st.integers(1, int((~skip).sum())))
    chosen, rest = smallest_hashes(np.uint64(key), skip, wanted)
    assert (chosen.tolist(), rest.tolist()) == naive.smallest_hashes(key, skip, wanted)


@pytest.mark.parametrize("wanted", [1, 2, 99_999, 100_000, 150_000, 199_999])
def test_smallest_hashes_of_many_rows(wanted):
    """More rows than buckets of the top 16 bits, so that buckets hold several."""
    n = 200_000
    skip = np.zeros(n, np.bool_)
    skip[::200] = True
    wanted = min(wanted, int((~skip).sum()))
    key = stream_key(3, 1)
    chosen, rest = smallest_hashes(key, skip, wanted)
    hashes = np.empty(n, np.uint64)
    exact.hash_values(key, 0, hashes)
    eligible = np.flatnonzero(~skip)
    expected = np.sort(eligible[np.argsort(hashes[eligible])[:wanted]])
    np.testing.assert_array_equal(chosen, expected)
    np.testing.assert_array_equal(rest, np.setdiff1d(np.arange(n), expected))


@pytest.mark.nojit
def test_stream_keys_differ():
    """Every part of a key matters, and its place."""
    keys = [stream_key(s, *rest) for s in range(5) for rest in [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]]
    keys += [stream_key(0, 5, stage, k) for stage in range(100) for k in range(3)]
    assert len(set(keys)) == len(keys)
    assert all(key.dtype == np.uint64 for key in keys)
    assert stream_key(0) == 0x632BE59BD9B4E019
    assert stream_key(1 << 70, -1) >= 0, "any integer is a seed"


# -------------------------------------------------------------------------------------------------------- exp and log

PRECISE = Context(prec=60, Emin=-100_000, Emax=100_000)


def in_decimals(name: str, x: float) -> Fraction:
    with localcontext(PRECISE):
        d = Decimal(x)
        if name == "exp":
            out = d.exp()
        elif name == "log":
            out = d.ln()
        elif name == "log1p":
            out = (1 + d).ln() if abs(x) > 1e-17 else d
        elif name == "expm1":
            # as above: with abs(x) > 1e-17 enough of the 60 digits are left, below x itself is near enough
            out = d.exp() - 1 if abs(x) > 1e-17 else d
        else:
            e = (2 * abs(d)).exp()
            out = ((e - 1) / (e + 1) if abs(x) > 1e-17 else abs(d)).copy_sign(d)
        return Fraction(out)


def spread(low: float, high: float, n: int) -> list[float]:
    """Uniform numbers, and numbers of all sizes, between two bounds."""
    rng = np.random.default_rng(5)
    plain = rng.uniform(low, high, n)
    sizes = np.exp(rng.uniform(np.log(1e-12), np.log(max(abs(low), abs(high))), n)) * rng.choice([-1.0, 1.0], n)
    return [*plain.tolist(), *sizes[(sizes >= low) & (sizes <= high)].tolist(), low, high]


RANGES = {
    "exp": [*spread(-707.9, 707.9, 400), 0.0, -0.0, 1.0, math.log(2) / 2, -math.log(2) / 2, 5e-324],
    "log": [math.exp(x) for x in spread(-708.0, 709.0, 400)]
    + spread(0.5, 2.0, 200)[:200]
    + [1.0, 2.0, 0.5, math.sqrt(0.5), math.sqrt(2.0), 1 + 2**-52, 1 - 2**-53, 2.0**-1022, 1.7976931348623157e308],
    "log1p": spread(-0.999, 1e6, 300) + spread(-0.9, 0.9, 300) + [0.0, 1e-300, -1e-300, 1e300],
    "expm1": spread(-40.0, 40.0, 400) + spread(-0.5, 0.5, 400) + [0.0, 0.01, -0.01, 0.0099999, 1e-300, 700.0, -700.0],
    "tanh": spread(-20.0, 20.0, 300) + spread(-0.6, 0.6, 300) + [0.0, 0.005, -0.005, 1e-300, 400.0, -400.0],
}


@pytest.mark.nojit
@pytest.mark.parametrize("name", RANGES)
def test_within_two_ulp(name):
    function = from_python(getattr(exact, f"exact_{name}"))
    worst = max((ulps(function(x), in_decimals(name, x)), x) for x in RANGES[name])
    assert worst[0] <= 2.5, f"exact_{name}({worst[1]!r}) is {worst[0]:.1f} ulp off"


@pytest.mark.nojit
def test_ends_of_the_ranges():
    exp, log, tanh, expm1 = (from_python(getattr(exact, f"exact_{name}")) for name in ("exp", "log", "tanh", "expm1"))
    assert 0.0 <= exp(-1e9) < 1e-300
    assert exp(-708.5) == exp(-1e9)
    assert 1e307 < exp(1e9) < math.inf
    assert exp(0.0) == 1.0
    assert log(1.0) == 0.0
    assert tanh(1e9) == 1.0
    assert tanh(-1e9) == -1.0
    assert expm1(-1e9) == -1.0


# --------------------------------------------------------------------------------------------------------------- sums


@pytest.mark.nojit
@quick
@given(st.floats(min_value=0.0, allow_infinity=False, allow_nan=False))
@example(1.0)
@example(math.nextafter(1.0, 2.0))
@example(0.75)
def test_power_above(peak):
    power = power_above(peak)
    assert math.frexp(power)[0] == 0.5, "a power of two"
    assert 1.0 / power > 0.0
    assert 1.0 / power < math.inf
    if 1e-270 < peak < 1e300:
        assert power / 2 < peak <= power
    if peak == 0.0:
        assert power == 1.0


@pytest.mark.nojit
def test_limb_bits():
    for n in [0, 1, 2, 3, 2**23, 2**24 - 1, 2**24, 10**9, 2**31]:
        bits = limb_bits(n)
        assert 1 <= bits <= exact.LIMB_BITS
        assert n * 2**bits < 2**62
    assert limb_bits(10**6) == exact.LIMB_BITS


@pytest.mark.nojit
@quick
@given(st.lists(st.tuples(finite, st.floats(0.0, 1e6)), min_size=1, max_size=40), st.booleans())
def test_sum_products(pairs, weighted):
    a, b = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    a = np.clip(a, -1e250, 1e250)
    b = b if weighted else NOTHING
    products = a * b if weighted else a
    unit, bits = power_above(float(np.abs(products).max())), limb_bits(len(a))
    out = np.zeros((1, 2), np.int64)
    exact.sum_products(0, 1, a, b, 1.0 / unit, bits, out)
    hi, lo = out[0].tolist()
    assert (hi << bits) + lo == naive.sum_products(a, b, unit, 2 * bits)
    exactly = sum((Fraction(float(p)) for p in products), Fraction(0))
    total = Fraction(limbs_total(out, unit, bits))
    assert abs(total - exactly) <= len(a) * Fraction(unit) / 2 ** (2 * bits) + abs(exactly) / 2**53


@every_team
def test_an_exact_sum_has_no_order(n_threads):
    rng = np.random.default_rng(2)
    values, weight = rng.standard_cauchy(10_001), rng.exponential(size=10_001)
    order = rng.permutation(len(values))
    with Team(n_threads) as team, Team(1) as alone:
        first = exact_sum(alone, values, weight)
        assert exact_sum(team, values[order], weight[order]) == first
        assert exact_sum(team, values, NOTHING) == exact_sum(alone, values[order], NOTHING)
        assert exact_sum(team, NOTHING, NOTHING) == 0.0
    assert first == pytest.approx(math.fsum(values * weight), rel=1e-14)


@every_team
@pytest.mark.parametrize("n", [1, 2, 7, 5000])
def test_threads_sum_what_one_would(n, n_threads):
    a = np.random.default_rng(n).normal(size=n)
    a /= 8.0
    out, alone = np.zeros((8, 2), np.int64), np.zeros((1, 2), np.int64)
    run(n_threads, exact.sum_products, a, NOTHING, 1.0, 38, out)
    run(1, exact.sum_products, a, NOTHING, 1.0, 38, alone)
    np.testing.assert_array_equal(out.sum(axis=0), alone[0])


@pytest.mark.nojit
def test_limbs_value_is_the_total():
    rng, limbs_value = np.random.default_rng(3), from_python(exact.limbs_value)
    for bits in [20, 31, 38]:
        for unit in [1.0, 2.0**40, 2.0**-60]:
            hi, lo = (int(x) for x in rng.integers(-(2**61), 2**61, 2))
            value = limbs_value(np.int64(hi), np.int64(lo), unit, bits)
            exactly = (Fraction(hi) + Fraction(lo, 2**bits)) / 2**bits * Fraction(unit)
            assert value == pytest.approx(float(exactly), rel=1e-14)
            parts = np.array([[hi - 5, lo + 7], [5, -7]], np.int64)
            assert limbs_total(parts, unit, bits) == float(exactly)


# ------------------------------------------------------------------------------------------------------------ packing


def sizes() -> st.SearchStrategy[int]:
    """Numbers of rows, dense near powers of two."""
    near = st.builds(lambda e, d: 2**e + d, st.integers(0, 31), st.integers(-2, 2))
    return st.one_of(near, st.integers(1, 2**31)).filter(lambda n: 1 <= n <= 2**31 - 1)


def extreme_pairs(chosen: Packing, peaks: tuple[float, float], constant: bool) -> tuple[int, int]:
    """The largest integer grad and hess that a row can have."""
    hess = 1 if constant else naive.quantize([peaks[1]], chosen.hess_scale)[0]
    return naive.quantize([peaks[0]], chosen.grad_scale)[0], hess


@pytest.mark.nojit
@quick
@given(
    sizes(),
    st.sampled_from([1.0, 0.75, 2.0**-300, 3e200, 1.0000000000000002]),
    st.sampled_from([0.25, 1.0, 1e-30, 5e10]),
    st.booleans(),
    st.data(),
)
@example(2**31 - 1, 1.0, 1.0, False, None)
@example(2**31 - 1, 1.0, 1.0, True, None)
@example(1, 1.0, 1.0, False, None)
@example(4095, 1.0, 1.0, False, None)
@example(4096, 1.0, 1.0, False, None)
def test_a_full_block_of_extreme_values_decodes_exactly(n, grad_peak, hess_peak, constant, data):
    hess_peak = 1.0 if constant else hess_peak
    chosen = packing(grad_peak, hess_peak, n, narrow=True, constant_hess=constant)
    top_grad, top_hess = extreme_pairs(chosen, (grad_peak, hess_peak), constant)
    rows = min(n, int(chosen.block))
    negative = data.draw(st.integers(0, rows)) if data else rows
    without = data.draw(st.integers(0, rows)) if data else 0  # rows whose hess is 0
    field = 0 if constant else top_hess << int(chosen.hess_shift)
    words = [(sign * top_grad << int(chosen.grad_shift)) + h + 1 for sign in (1, -1) for h in (field, 0)]
    both = min(negative, without)
    counts = [rows - negative - (without - both), without - both, negative - both, both]
    if min(counts) < 0:  # more rows without hess than positive ones
        counts = [0, rows - negative, negative, 0]
    total = sum(count * word for count, word in zip(counts, words, strict=True))
    assert -(2**63) <= total < 2**63
    expected_grad = top_grad * (counts[0] + counts[1] - counts[2] - counts[3])
    expected_hess = rows if constant else top_hess * (counts[0] + counts[2])
    assert unpack(total, chosen) == (expected_grad, expected_hess, rows)
    assert unpack(-(2**63), chosen)[0] <= -rows * top_grad, "room on the negative side too"


@pytest.mark.nojit
@quick
@given(sizes(), st.booleans(), st.booleans(), st.sampled_from([-1, 1]))
@example(2**31 - 1, True, False, -1)
@example(2**31 - 1, False, False, 1)
@example(2**31 - 1, False, True, 1)
@example(2**31 - 1, True, True, 1)
def test_the_wide_words_of_all_rows_decode_exactly(n, narrow, constant, sign):
    """A node of all rows, each with the largest values, however its blocks were flushed."""
    chosen = packing(1.0, 1.0, n, narrow=narrow, constant_hess=constant)
    top_grad, top_hess = extreme_pairs(chosen, (1.0, 1.0), constant)
    grad, more = sign * n * top_grad, n * ((top_hess << int(chosen.count_bits)) + 1)
    assert abs(grad) < 2**63
    assert more < 2**63
    assert unpack_wide(grad, more, chosen) == (grad, n * top_hess, n)


@pytest.mark.nojit
@quick
@given(sizes(), st.floats(1e-200, 1e200), st.floats(1e-200, 1e200), st.booleans())
def test_units_and_scales_belong_together(n, grad_peak, hess_peak, narrow):
    """integer * unit * peak is the value that was packed, and the peak itself is at most 1 unit."""
    chosen = packing(grad_peak, hess_peak, n, narrow=narrow)
    for scale, unit, power, peak in [
        (chosen.grad_scale, chosen.grad_unit, chosen.grad_peak, grad_peak),
        (chosen.hess_scale, chosen.hess_unit, chosen.hess_peak, hess_peak),
    ]:
        assert Fraction(scale) * Fraction(unit) * Fraction(power) == 1
        assert power / 2 < peak <= power


@pytest.mark.nojit
def test_bits_of_usual_sizes():
    """What the documentation says: 15 and 12 bits a row in blocks of 4,095, more for small tables."""
    large, small = packing(1.0, 1.0, 10**6), packing(1.0, 1.0, 1000)
    assert (large.block, large.grad_unit, large.hess_unit) == (4095, 2.0**-15, 2.0**-12)
    assert (small.block, small.grad_unit, small.hess_unit) == (1023, 2.0**-18, 2.0**-15)
    assert packing(1.0, 1.0, 10**6, constant_hess=True).grad_unit == 2.0**-35
    assert packing(1.0, 1.0, 10**6, narrow=False).grad_unit <= 2.0**-40
