"""Influence trimming: which rows a stage can do without.

Influences are not negative, so their bits have their order. The first pass adds them up (as integers) by their top 16
bits, which finds the few rows among which the threshold lies; only those are sorted. (200,000 rows: 0.7 ms instead of
the 3.3 ms that selecting a weighted quantile took.)
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import float_bits, kernel

__all__ = ["BUCKETS", "influence_edge", "influence_rows", "influence_sums"]

BUCKETS = 1 << 15


@kernel
def influence_sums(influence, out, scale, sums):
    """sums[0, b] += influence · scale as an integer, sums[1, b] += 1 for the rows whose top bits are b.

    out: bool, rows that take no part; empty when all do. sums: int64 (2, BUCKETS), zero.
    """
    some = out.shape[0] > 0
    for i in range(influence.shape[0]):
        if not (some and out[i]):
            b = float_bits(influence[i] + 0.0) >> np.int64(48)
            sums[0, b] += np.int64(np.rint(influence[i] * scale))
            sums[1, b] += 1


@kernel
def influence_edge(influence, out, bucket, edge):
    """edge = the influences of the rows whose top bits are `bucket`; how many there are."""
    some, n = out.shape[0] > 0, 0
    for i in range(influence.shape[0]):
        if float_bits(influence[i] + 0.0) >> np.int64(48) == bucket and not (some and out[i]):
            edge[n] = influence[i]
            n += 1
    return n


@kernel
def influence_rows(influence, out, least, chosen, rest):
    """chosen = rows of at least this influence that take part, rest = all others, both ascending; the number chosen."""
    some, n, m = out.shape[0] > 0, np.int64(0), np.int64(0)
    for i in range(influence.shape[0]):
        kept = influence[i] >= least and not (some and out[i])
        chosen[n] = i  # without a branch: overwritten unless it counts
        rest[m] = i
        n += np.int64(kept)
        m += np.int64(not kept)
    return n
