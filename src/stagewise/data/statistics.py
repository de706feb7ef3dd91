"""Ordered target statistics: a categorical column of very many levels becomes one of numbers.

The number of a row is the mean target of the rows of its level that come *before* it, drawn towards the mean of all,

    (sum of w·y over earlier rows of the level + strength · prior) / (sum of w over them + strength),

where "before" is the order of the hashes of the row numbers (Prokhorenkova et al. 2018, CatBoost, section 3.2: "ordered
target statistics"). A row's own target has no part in its number, so trees cannot read it from there. At prediction a
level has the mean over all training rows, by the same formula; a level that was not seen has the prior, which is what
the first row of every level had in training.

Sums are of integers (see kernels/exact.py): the same bits whatever the order of the rows or the threads.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stagewise.kernels.exact import hash_values, stream_key

__all__ = ["STRENGTH", "Statistics", "target_statistics"]

STRENGTH = 10.0
"""Rows that the prior counts for."""

_PURPOSE = 0x7374617473  # "stats"


class Statistics(NamedTuple):
    """What a column of levels becomes."""

    rows: np.ndarray  # float64 (n_rows,): the number of each row, NaN where missing
    levels: np.ndarray  # float64 (n_levels,): of each level at prediction
    prior: float  # of a level that was not seen


def _integers(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Values as integers and their unit: sums of all of them fit an int64."""
    bits = min(50, 62 - max(1, len(values)).bit_length())
    exponent = math.frexp(float(np.abs(values).max(initial=0.0)))[1] - bits
    return np.rint(np.ldexp(values, -exponent)).astype(np.int64), math.ldexp(1.0, exponent)


def target_statistics(
    index: np.ndarray, n_levels: int, y: np.ndarray, weight: np.ndarray | None, training: np.ndarray
) -> Statistics:
    """index: int (n_rows,), the level of each row, -1 where missing; training: bool (n_rows,), rows that count.

    Rows outside of training get the number of their level at prediction.
    """
    n = len(index)
    counted = np.flatnonzero(training)
    w = np.ones(len(counted)) if weight is None else weight[counted]
    w = w / w.max()  # the strength is in rows of the largest weight
    sums, sum_unit = _integers(w * y[counted])
    weights, weight_unit = _integers(w)
    prior = float(int(sums.sum()) * sum_unit / (int(weights.sum()) * weight_unit))

    def mean(total: np.ndarray, share: np.ndarray) -> np.ndarray:
        return (total * sum_unit + STRENGTH * prior) / (share * weight_unit + STRENGTH)

    hashes = np.empty(n, np.uint64)
    hash_values(stream_key(0, _PURPOSE), 0, hashes)
    level = index[counted]
    order = np.argsort(hashes[counted])  # hashes never tie
    order = order[np.argsort(level[order], kind="stable")]  # level after level, each in the order of the hashes
    level = level[order]
    before, before_weight = np.cumsum(sums[order]) - sums[order], np.cumsum(weights[order]) - weights[order]
    first = np.flatnonzero(np.append(True, level[1:] != level[:-1])) if len(level) else np.empty(0, np.int64)
    start = np.repeat(first, np.diff(np.append(first, len(level))))
    own = mean(before - before[start], before_weight - before_weight[start])

    known = level >= 0
    total, share = np.zeros(n_levels, np.int64), np.zeros(n_levels, np.int64)
    np.add.at(total, level[known], sums[order][known])
    np.add.at(share, level[known], weights[order][known])
    levels = mean(total, share)
    rows = np.append(levels, np.nan)[index]
    rows[counted[order[known]]] = own[known]
    return Statistics(rows, levels, prior)
