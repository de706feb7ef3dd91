"""Arithmetic whose result does not depend on order, threads or machine.

Sums are made of integers: a float is scaled by a power of two, rounded once, and added as an integer; integer sums
are associative, so any grouping of the rows gives the same bits (DESIGN section 2). Random choices are hashes of row
or column numbers, so they do not depend on who draws first. `exp` and `log` are built from plain IEEE operations:
the same on every machine, and the compiler turns them into vector code.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from stagewise.kernels.jit import device, float_bits, from_bits, kernel, multiply_add

__all__ = [
    "LIMB_BITS",
    "Packing",
    "exact_exp",
    "exact_expm1",
    "exact_log",
    "exact_log1p",
    "exact_tanh",
    "hash_threshold_counts",
    "hash_values",
    "limb_bits",
    "limbs_total",
    "limbs_value",
    "mix",
    "mix_rows",
    "packing",
    "power_above",
    "shifted",
    "stream_key",
    "sum_products",
]

_MASK64 = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


# --- hashing ---------------------------------------------------------------------------------------------------------


def stream_key(seed: int, *numbers: int) -> np.uint64:
    """The key of one stream of random choices: (seed, purpose, stage, class, ...)."""
    key = (seed * _GOLDEN + 0x632BE59BD9B4E019) & _MASK64
    for number in numbers:
        key = _mix_int((key ^ ((number & _MASK64) * 0xD6E8FEB86659FD93)) & _MASK64)
        key = (key + _GOLDEN) & _MASK64
    return np.uint64(key)


def _mix_int(x: int) -> int:
    x ^= x >> 30
    x = (x * 0xBF58476D1CE4E5B9) & _MASK64
    x ^= x >> 27
    x = (x * 0x94D049BB133111EB) & _MASK64
    return x ^ (x >> 31)


@device
def mix(key: np.uint64, number: int) -> np.uint64:
    """Hash of a number under a key: the finaliser of splitmix64, a bijection, so hashes under one key never tie."""
    x = key + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def shifted(key: np.uint64, first: int) -> np.uint64:
    """The key under which i = 0, 1, ... have the hashes that first + i have under `key`."""
    return np.uint64((int(key) + first * _GOLDEN) & _MASK64)


@kernel
def hash_values(key, first, out):
    """out[i] = hash of number first + i."""
    for i in range(out.shape[0]):
        out[i] = mix(key, first + i)


@kernel
def hash_threshold_counts(key, skip, out):
    """out[b] = how many rows have a hash whose top 16 bits are b; rows with skip[i] set are left out."""
    for i in range(skip.shape[0]):
        if not skip[i]:
            out[mix(key, i) >> np.uint64(48)] += 1


@kernel
def mix_rows(key, skip, bucket, threshold, chosen, rest, edge):
    """Divide rows by their hashes: `chosen` gets those at or below threshold, `rest` the others and the skipped ones.

    When `edge` is not empty it gets the hashes whose top 16 bits are `bucket` instead, and nothing else is written.
    """
    n_chosen, n_rest, n_edge = 0, 0, 0
    looking = edge.shape[0] > 0
    for i in range(skip.shape[0]):
        x = mix(key, i)
        if looking:
            if not skip[i] and x >> np.uint64(48) == np.uint64(bucket):
                edge[n_edge] = x
                n_edge += 1
        elif skip[i] or x > threshold:
            rest[n_rest] = i
            n_rest += 1
        else:
            chosen[n_chosen] = i
            n_chosen += 1


# --- exp and log -----------------------------------------------------------------------------------------------------

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # the first 33 bits of ln 2, so that k * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, which then sits in the low bits
_ROUND_BITS = np.int64(4843621399236968448)


@device
def exp_parts(x):
    """(e**r - 1, 2**k) with x = r + k·ln 2 and |r| at most ln(2)/2; x is first limited to ±708."""
    x = x if x > -708.0 else -708.0
    x = x if x < 708.0 else 708.0
    shifted = multiply_add(x, _LOG2_E, _ROUND)
    k = shifted - _ROUND
    r = multiply_add(-k, _LN2_LOW, multiply_add(-k, _LN2_HIGH, x))
    # Taylor to r**13 on |r| <= ln(2)/2: the remainder is below 2**-57
    p = 1.6059043836821613e-10
    p = multiply_add(p, r, 2.08767569878681e-09)
    p = multiply_add(p, r, 2.505210838544172e-08)
    p = multiply_add(p, r, 2.755731922398589e-07)
    p = multiply_add(p, r, 2.7557319223985893e-06)
    p = multiply_add(p, r, 2.48015873015873e-05)
    p = multiply_add(p, r, 0.0001984126984126984)
    p = multiply_add(p, r, 0.001388888888888889)
    p = multiply_add(p, r, 0.008333333333333333)
    p = multiply_add(p, r, 0.041666666666666664)
    p = multiply_add(p, r, 0.16666666666666666)
    p = multiply_add(p, r, 0.5)
    return multiply_add(p * r, r, r), from_bits((float_bits(shifted) - _ROUND_BITS + np.int64(1023)) << np.int64(52))


@device
def exact_exp(x):
    """e**x within 1 ulp or two; 0 or huge (1e307) outside ±708. NaN gives some number: callers hold finite values."""
    p, power = exp_parts(x)
    return (p + 1.0) * power


@device
def exact_log(x):
    """Natural logarithm of a positive normal float64, within 1 ulp or two."""
    bits = float_bits(x)
    # mantissa in [sqrt(1/2), sqrt(2)) by moving the exponent's rounding point
    k = (bits - np.int64(0x3FE6A09E667F3BCD)) >> np.int64(52)
    m = from_bits(bits - (k << np.int64(52)))
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    # atanh series as in fdlibm: log(1+f) = 2s + s*(z*L1 + z^2*L2 + ...)
    p = 1.479819860511658591e-01
    p = multiply_add(p, z, 1.531383769920937332e-01)
    p = multiply_add(p, z, 1.818357216161805012e-01)
    p = multiply_add(p, z, 2.222219843214978396e-01)
    p = multiply_add(p, z, 2.857142874366239149e-01)
    p = multiply_add(p, z, 3.999999999940941908e-01)
    p = multiply_add(p, z, 6.666666666666735130e-01)
    half = 0.5 * f * f
    return k * _LN2_HIGH - ((half - multiply_add(s, multiply_add(p, z, half), k * _LN2_LOW)) - f)


@device
def exact_log1p(x):
    """log(1 + x) for x > -1: log of the rounded sum, corrected by what rounding lost."""
    u = 1.0 + x
    return exact_log(u) + (x - (u - 1.0)) / u


@device
def exact_expm1(x):
    """e**x - 1, also near 0, where the power of two is 1 and nothing cancels (the difference would cost 60 ulp)."""
    p, power = exp_parts(x)
    return p * power + (power - 1.0)


@device
def exact_tanh(x):
    """Hyperbolic tangent from expm1 of a negative number, which cannot overflow."""
    e = exact_expm1(-2.0 * abs(x))
    t = -e / (2.0 + e)
    return t if x >= 0.0 else -t


# --- exact sums ------------------------------------------------------------------------------------------------------
#
# A value v with |v| <= 2**e becomes two integers: hi in units of 2**(e - bits) and lo in units of 2**(e - 2 * bits).
# Their sums stay below 2**62 for any number of rows that fits, and carry some 80 bits below the largest value.

LIMB_BITS = 42


def limb_bits(n_rows: int) -> int:
    """Bits of one limb such that n_rows of them fit an int64."""
    return min(LIMB_BITS, 62 - max(1, int(n_rows)).bit_length())


def power_above(peak: float) -> float:
    """The smallest power of two not below `peak` (1.0 for zero); kept within the range of normal floats."""
    if not peak > 0.0:
        return 1.0
    if peak == math.inf:
        return math.ldexp(1.0, 1000)
    mantissa, exponent = math.frexp(peak)
    return math.ldexp(1.0, min(1000, max(-900, exponent - (mantissa == 0.5))))


@device
def limbs_value(hi, lo, unit, bits):
    """The float of a two-limb sum; `unit` is the power of two that scaled the values to at most 1."""
    step = 1.0 / (1 << bits)
    return (np.float64(hi) + np.float64(lo) * step) * step * unit


def limbs_total(limbs: np.ndarray, unit: float, bits: int) -> float:
    """The float of limbs (..., 2) summed over all leading axes, exactly and then rounded once."""
    hi, lo = limbs.tolist() if limbs.ndim == 1 else map(sum, zip(*limbs.reshape(-1, 2).tolist(), strict=True))
    return float(math.ldexp(1.0, -2 * bits) * ((hi << bits) + lo)) * unit


@kernel
def sum_products(tid, n_threads, a, b, scale, bits, out):
    """out[tid] = two limbs of the sum of a[i] * b[i] * scale over this thread's rows; |product| * scale <= 1.

    b may be empty: then the sum is of a alone.
    """
    n = a.shape[0]
    one = np.float64(1 << bits)
    hi, lo = np.int64(0), np.int64(0)
    weighted = b.shape[0] > 0
    for i in range(n * tid // n_threads, n * (tid + 1) // n_threads):
        v = a[i] * b[i] if weighted else a[i]
        v = v * scale * one
        high = np.trunc(v)
        hi += np.int64(high)
        lo += np.int64((v - high) * one)
    out[tid, 0] = hi
    out[tid, 1] = lo


# --- packing of gradients --------------------------------------------------------------------------------------------


class Packing(NamedTuple):
    """How a stage's (grad, hess, count) become integers.

    narrow: one int64 a row, grad << grad_shift | hess << hess_shift | 1. A block of at most `block` rows can be
    summed in one int64 before a field could run into its neighbour; then the sum is moved to two wide words,
    grad and hess << count_bits | count. Without `narrow` rows are added to the wide words at once: twice the adds,
    for gradients so unequal that 15 bits would lose most rows.

    When the second derivative is the same for all rows, the narrow hess field is the count field itself, and
    gradients get the freed bits (35 of them).
    """

    grad_scale: float  # integer grad = rint(grad * grad_scale)
    hess_scale: float
    grad_shift: np.int64
    hess_shift: np.int64
    hess_mask: np.int64
    count_mask: np.int64  # of the narrow word
    count_bits: np.int64  # of the wide word
    block: np.int64
    narrow: bool
    grad_unit: float  # split search works with integer * unit: gradients relative to grad_peak, at most 1 in size
    hess_unit: float
    grad_peak: float  # a power of two
    hess_peak: float
    hess_step: float  # what rounding a second derivative may change, relative to the peak: hess_unit, or 0 if constant


BLOCK_BITS = 12
"""A block is 4,095 rows in the three-field form: leaves 15 bits for a gradient and 12 for a second derivative."""


def packing(
    grad_peak: float,
    hess_peak: float,
    n_rows: int,
    *,
    narrow: bool = True,
    constant_hess: bool = False,
    fine: bool = False,
) -> Packing:
    """Choose the fields from the largest |grad| and hess and the number of rows.

    All choices depend on maxima (the powers of two above them) and counts alone, so they are the same however rows are
    divided, and seldom change between stages.
    Small tables leave room for more bits: 1,000 rows get 18 and 15 instead of 15 and 12. fine: smaller blocks with a
    constant second derivative, for 39 bits instead of 35.
    """
    hess_power = float(hess_peak) if constant_hess else power_above(hess_peak)
    row_bits = max(1, int(n_rows).bit_length())
    return _packing(power_above(grad_peak), hess_power, row_bits, narrow, constant_hess, fine)


@functools.lru_cache(maxsize=64)
def _packing(
    grad_power: float, hess_power: float, row_bits: int, narrow: bool, constant_hess: bool, fine: bool
) -> Packing:
    if constant_hess:
        block_bits = min(BLOCK_BITS if fine else 14, row_bits)
        hess_bits, hess_shift, grad_shift = 0, 0, block_bits
        grad_bits = min(40, 63 - 2 * block_bits)
    else:
        block_bits = min(BLOCK_BITS, row_bits)
        free = 63 - 3 * block_bits
        hess_bits = (free - 3) // 2
        hess_shift, grad_shift = block_bits, 2 * block_bits + hess_bits
        grad_bits = min(40, free - hess_bits)
        hess_bits = max(1, min(hess_bits if narrow else 24, 63 - 2 * row_bits))
    grad_bits = min(grad_bits if narrow else 44, 62 - row_bits)
    if constant_hess:  # hess_scale 0 leaves the narrow field to the count; the wide word gets 1 a row
        hess_scale, hess_unit = 0.0 if narrow else 1.0 / hess_power, 1.0
    else:
        hess_scale, hess_unit = math.ldexp(1.0, hess_bits) / hess_power, math.ldexp(1.0, -hess_bits)
    return Packing(
        grad_scale=math.ldexp(1.0, grad_bits) / grad_power,
        hess_scale=hess_scale,
        grad_shift=np.int64(grad_shift),
        hess_shift=np.int64(hess_shift),
        hess_mask=np.int64((1 << (grad_shift - hess_shift)) - 1),
        count_mask=np.int64((1 << block_bits) - 1),
        count_bits=np.int64(row_bits),
        block=np.int64((1 << block_bits) - 1),
        narrow=narrow,
        grad_unit=math.ldexp(1.0, -grad_bits),
        hess_unit=hess_unit,
        grad_peak=grad_power,
        hess_peak=hess_power,
        hess_step=0.0 if constant_hess else hess_unit,
    )
