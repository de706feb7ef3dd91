"""How much a row matters, as a code: what samplers that look at gradients go by.

The score of a row is its |gradient| times its weight. Its code is the exponent and the first eight bits behind it, so
that 8,191 codes reach 32 octaves down from the largest score. How many rows have each code is all that a sampler needs
to know to give every code a probability (draw.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.jit import device, float_bits, never_inline

__all__ = ["ABSENT", "CODES", "NO_SCORES", "Scores", "code_rows"]

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


NO_SCORES = Scores(1.0, np.empty(0, np.bool_), np.empty(0, np.uint16), np.empty((0, 0), np.int64))


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
    for i in range(b - a):
        own[found[i]] += 1
