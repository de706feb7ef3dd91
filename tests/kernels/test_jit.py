"""The machine operations of jit.py, the same compiled and plain."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest

from stagewise.kernels import jit
from stagewise.kernels.jit import JIT


def compiled(function):
    return numba.njit(error_model="numpy")(function) if JIT else function


@compiled
def bits_of(value):
    return jit.float_bits(value)


@compiled
def value_of(bits):
    return jit.from_bits(bits)


@compiled
def lowest(word):
    return jit.trailing_zeros(word)


@compiled
def add(array, index, value):
    return jit.atomic_add(array, index, value)


@compiled
def load(array, index):
    return jit.atomic_load(array, index)


@pytest.mark.nojit
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.5, 5e-324, 1e308, math.inf, -math.inf])
def test_bits_of_floats(value):
    expected = int(np.array([value]).view(np.int64)[0])
    assert bits_of(value) == expected
    assert value_of(np.int64(expected)) == value
    assert math.copysign(1.0, value_of(np.int64(expected))) == math.copysign(1.0, value)


@pytest.mark.nojit
@pytest.mark.parametrize("word", [0, 1, 2, 3, 12, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1, 5 << 61])
def test_trailing_zeros(word):
    expected = next((k for k in range(64) if word >> k & 1), 64)
    assert lowest(np.uint64(word)) == expected


@pytest.mark.nojit
def test_atomics():
    array = np.array([5, 7, -3])
    assert add(array, 1, 10) == 7
    assert add(array, 2, -4) == -3
    assert array.tolist() == [5, 17, -7]
    assert load(array, 1) == 17


@compiled
def about(a, b, c):
    return jit.loose_multiply_add(a, b, c)


@pytest.mark.nojit
def test_loose_multiply_add():
    assert about(3.0, 4.0, 5.0) == 17.0
    assert about(0.1, 0.2, 0.3) == pytest.approx(0.32, rel=1e-15)
