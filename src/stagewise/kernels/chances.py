"""How likely rows of each score are drawn, from how many rows have each (scores.py).

What NumPy takes a dozen passes over some thousand codes for, between two calls of the threads that wait for it. Sums
of floats go from the lowest code to the highest: their order is fixed.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import device, kernel
from stagewise.kernels.scores import ABSENT, CODES

__all__ = ["SURE", "goss_chances", "variance_chances"]

SURE = 2**31
"""The bound of rows that are drawn for sure: hashes have 31 bits here."""


@device
def take_counts(lines, counts):
    """counts = the rows of each code, of which each line has a part and is cleared; those that take no part are left
    out. Their number."""
    for code in range(CODES):
        counts[code] = 0
    for t in range(lines.shape[0]):
        line = lines[t]
        for code in range(CODES):
            counts[code] += line[code]
            line[code] = 0
    counts[ABSENT] = 0
    total = np.int64(0)
    for code in range(CODES):
        total += counts[code]
    return total


@device
def set_code(code, share, below, times):
    """A row of this code is drawn when its hash is under `below`, and then counts so many times."""
    below[code] = np.uint32(np.rint(share * SURE))
    times[code] = 1.0 / share


@kernel
def goss_chances(lines, top, rest, counts, below, times):
    """The share `top` of the rows with the largest scores for sure, others so that they make the share `rest` of all.

    Rows of the code that the last of the top has are all drawn alike. How many rows are drawn on average, 0 if none was
    counted; and that code.
    """
    n = take_counts(lines, counts)
    if n == 0:
        return 0.0, np.int64(ABSENT)
    wanted, others = top * n, min(1.0, rest / (1.0 - top))
    least, edge, upto = np.int64(np.floor(n - wanted)), np.int64(ABSENT), np.int64(0)
    while edge < CODES - 1 and upto + counts[edge] <= least:
        upto += counts[edge]
        edge += 1
    for code in range(CODES):
        below[code], times[code] = SURE, 1.0
    set_code(np.int64(ABSENT), others, below, times)
    for code in range(edge):
        below[code], times[code] = below[ABSENT], times[ABSENT]
    above, share = n - upto - counts[edge], others
    if counts[edge] > 0:
        inside = (wanted - above) / counts[edge]
        share = min(1.0, inside + (1.0 - inside) * others)
    set_code(edge, share, below, times)
    below[ABSENT] = 0
    return above + share * counts[edge] + others * upto, edge


@kernel
def variance_chances(lines, squares, ridge, wanted, counts, sizes, below, times):
    """min(1, s/μ), s² = squares + ridge·(their mean), such that the share `wanted` of the rows is drawn on average.

    With μ = the size of a code, all rows from there on are drawn for sure, and the others s/μ times: the lowest code
    for which these are few enough. How many rows are drawn on average; 0 if none was counted.
    """
    n = take_counts(lines, counts)
    if n == 0:
        return 0.0
    mean, sums = 0.0, 0.0
    for code in range(CODES):
        mean += counts[code] * squares[code]
    mean /= n
    for code in range(CODES):
        sizes[code] = np.sqrt(squares[code] + ridge * mean)
    left, mu, below_it, above = wanted * n, 0.0, 0.0, n
    for code in range(CODES):
        if mu == 0.0 and above + below_it / sizes[code] <= left:
            few = left - above
            mu = below_it / few if few > 0.0 and below_it > 0.0 else sizes[code]
        above -= counts[code]
        below_it += counts[code] * sizes[code]
    if mu == 0.0:
        mu = below_it / left
    for code in range(CODES):
        share = min(sizes[code] / mu, 1.0)
        set_code(code, share, below, times)
        sums += share * counts[code]
    below[ABSENT] = 0
    return sums
