"""Everything that the tests of kernels hand to kernels, in one place: a changed signature is one edit here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import naive
from stagewise.kernels.exact import Packing
from stagewise.kernels.jit import JIT
from stagewise.kernels.team import Team

every_team = pytest.mark.parametrize("n_threads", [1, 2, 3, 8])

quick = settings(max_examples=60 if JIT else 15, deadline=None)
"""For properties: the first example compiles, so there is no deadline."""

NOTHING = np.empty(0)


def run(n_threads: int, kernel: Callable[..., Any], *args: Any) -> Any:
    """A kernel on a team of its own. Without the JIT a team has one thread."""
    with Team(n_threads) as team:
        return team.run(kernel, *args)


def ulps(got: float, exact: Fraction) -> float:
    """How far a float is from an exact value, in steps of the floats there."""
    return float(abs(Fraction(float(got)) - exact) / Fraction(float(np.spacing(abs(float(exact))))))


# --- packed words ----------------------------------------------------------------------------------------------------


def unpack(word: int, packing: Packing) -> tuple[int, int, int]:
    """(grad, hess, count) of a narrow word or of a block's sum of them, in Python integers."""
    count = word & int(packing.count_mask)
    hess = (word >> int(packing.hess_shift)) & int(packing.hess_mask)
    return word >> int(packing.grad_shift), hess, count


def unpack_wide(grad: int, more: int, packing: Packing) -> tuple[int, int, int]:
    """The same of the two wide words."""
    return grad, more >> int(packing.count_bits), more & ((1 << int(packing.count_bits)) - 1)


def integers(grad: np.ndarray, hess: np.ndarray, packing: Packing) -> tuple[np.ndarray, np.ndarray]:
    """The integer pairs that a packing makes of float pairs. With a constant second derivative it counts rows."""
    g = np.array(naive.quantize(grad, packing.grad_scale), np.int64)
    if packing.hess_scale == 0.0:
        return g, np.ones(len(g), np.int64)
    return g, np.array(naive.quantize(hess, packing.hess_scale), np.int64)


# --- rows ------------------------------------------------------------------------------------------------------------


def segments(rng: np.random.Generator, n_rows: int, n_leaves: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Shuffled row numbers (uint32), and n_leaves segments that follow each other from position `first` on."""
    rows = rng.permutation(n_rows).astype(np.uint32)
    stops = np.sort(rng.choice(np.arange(first + 1, n_rows), n_leaves - 1, replace=False)) if n_leaves > 1 else []
    edges = np.array([first, *stops, n_rows], np.int64)
    return rows, np.ascontiguousarray(np.column_stack([edges[:-1], edges[1:]]))


def rows_of(rows: np.ndarray, leaves: np.ndarray) -> Sequence[np.ndarray]:
    """The row numbers of each segment."""
    return [rows[a:b].astype(np.int64) for a, b in leaves]
