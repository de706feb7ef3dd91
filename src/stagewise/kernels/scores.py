"""How much a row matters, as a code: what samplers that look at gradients go by.

The score of a row is its |gradient| times its weight. Its code is the exponent and the first eight bits behind it, so
that 8,191 codes reach 32 octaves down from the largest score. How many rows have each code is all that a sampler needs
to know to give every code a probability (draw.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.jit import device, float_bits, never_inline

__all__ = ["ABSENT", "CODES", "NEAR", "NO_SCORES", "Scores", "code_rows", "count_codes"]

CODES = 8192
ABSENT = 0
"""The code of rows that take no part in training."""

_SHIFT = 44
_TOP = np.int64((0x3FF0000000000000 >> _SHIFT) - (CODES - 1))  # a score of 1 has the last code


class Scores(NamedTuple):
    """Where codes go, and their counts."""

    scale: float  # brings scores to at most 1
    skip: np.ndarray  # bool (n_rows), empty when all rows take part; the others get ABSENT
    codes: np.ndarray  # uint16 (n_rows); empty: nobody wants to know
    counts: np.ndarray  # int64 (n_threads, CODES): each thread adds its rows
    low: int = 0  # only NEAR codes from here on are told apart, see `count_near`; 0: all of them


NO_SCORES = Scores(1.0, np.empty(0, np.bool_), np.empty(0, np.uint16), np.empty((0, 0), np.int64))


NEAR = 8
"""Codes that `count_near` tells apart."""


@device
def count_codes(codes, counts):
    """Add the rows of each code to its count."""
    for i in range(codes.shape[0]):
        counts[codes[i]] += 1


@device
def count_from(codes, least):
    """How many codes are not below `least`; at most 65,535 of them."""
    n = np.uint16(0)
    for i in range(codes.shape[0]):
        n = np.uint16(n + np.uint16(codes[i] >= least))
    return np.int64(n)


@device
def count_near(codes, low, counts):
    """The same, but rows of codes from low + NEAR on count as that one, and rows of codes below low as the one before
    it. In vectors, which counting in a table is not: a quarter of the time."""
    before = count_from(codes, np.uint16(ABSENT + 1))
    for code in range(low, low + NEAR + 1):
        beyond = count_from(codes, np.uint16(code))
        counts[code - 1] += before - beyond
        before = beyond
    counts[low + NEAR] += before


@device
def code_rows(sizes, factor, scores, a, b, tid):
    """Codes of rows a..b, whose scores are |sizes| * factor."""
    never_inline()
    found, own = scores.codes[a:b], scores.counts[tid]
    for i in range(b - a):
        code = (float_bits(abs(sizes[i]) * factor) >> np.int64(_SHIFT)) - _TOP
        code = code if code > 1 else np.int64(1)
        found[i] = code if code < CODES else np.int64(CODES - 1)  # NaN too
    if scores.skip.shape[0] > 0:
        for i in range(b - a):
            found[i] = ABSENT if scores.skip[a + i] else found[i]
    if scores.low > 0:
        count_near(found, scores.low, own)
    else:
        count_codes(found, own)
