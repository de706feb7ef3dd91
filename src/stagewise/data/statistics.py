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

__all__ = ["STRENGTH", "Statistics", "Units", "earlier_sums", "row_hashes", "target_statistics"]

STRENGTH = 10.0
"""Rows that the prior counts for."""

_PURPOSE = 0x7374617473  # "stats"


class Statistics(NamedTuple):
    """What a column of levels becomes."""

    rows: np.ndarray  # float64 (n_rows,): the number of each row, NaN where missing
    levels: np.ndarray  # float64 (n_levels,): of each level at prediction
    prior: float  # of a level that was not seen


class Units(NamedTuple):
    """How weights, and targets times weights, become integers whose sums fit an int64, and the mean of all."""

    sums: int  # exponents of the units
    weights: int
    prior: float = math.nan

    @classmethod
    def of(cls, largest: float, n_rows: int) -> Units:
        """largest: of the targets times weights, which are at most 1."""
        return cls(_exponent(largest, n_rows), _exponent(1.0, n_rows))

    def integers(self, w: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sums, weights = np.ldexp(w * y, -self.sums), np.ldexp(w, -self.weights)
        return np.rint(sums).astype(np.int64), np.rint(weights).astype(np.int64)

    def with_prior(self, total: int, share: int) -> Units:
        """total, share: the sums of all."""
        return self._replace(prior=float(total * math.ldexp(1.0, self.sums) / (share * math.ldexp(1.0, self.weights))))

    def mean(self, total: np.ndarray, share: np.ndarray) -> np.ndarray:
        """The formula above, of sums of integers."""
        drawn: np.ndarray = total * math.ldexp(1.0, self.sums) + STRENGTH * self.prior
        return drawn / (share * math.ldexp(1.0, self.weights) + STRENGTH)


def _exponent(largest: float, n_rows: int) -> int:
    return math.frexp(largest)[1] - min(50, 62 - max(1, n_rows).bit_length())


def row_hashes(first: int, n_rows: int) -> np.ndarray:
    """uint64 (n_rows): what rows first, first + 1, ... are ordered by."""
    hashes = np.empty(n_rows, np.uint64)
    hash_values(stream_key(0, _PURPOSE), first, hashes)
    return hashes


def earlier_sums(
    level: np.ndarray, hashes: np.ndarray, sums: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each row, the sums and weights of the rows of its level that have smaller hashes."""
    order = np.argsort(hashes)  # hashes never tie
    order = order[np.argsort(level[order], kind="stable")]  # level after level, each in the order of the hashes
    level = level[order]
    first = np.flatnonzero(np.append(True, level[1:] != level[:-1])) if len(level) else np.empty(0, np.int64)
    start = np.repeat(first, np.diff(np.append(first, len(level))))
    out = []
    for own in (sums, weights):
        before = np.cumsum(own[order]) - own[order]
        here = np.empty_like(own)
        here[order] = before - before[start]
        out.append(here)
    return out[0], out[1]


def target_statistics(
    index: np.ndarray, n_levels: int, y: np.ndarray, weight: np.ndarray | None, training: np.ndarray
) -> Statistics:
    """index: int (n_rows,), the level of each row, -1 where missing; training: bool (n_rows,), rows that count.

    Rows outside of training get the number of their level at prediction.
    """
    counted = np.flatnonzero(training)
    w = np.ones(len(counted)) if weight is None else weight[counted]
    w = w / w.max()  # the strength is in rows of the largest weight
    units = Units.of(float(np.abs(w * y[counted]).max(initial=0.0)), len(counted))
    sums, weights = units.integers(w, y[counted])
    units = units.with_prior(int(sums.sum()), int(weights.sum()))
    level = index[counted]
    own = units.mean(*earlier_sums(level, row_hashes(0, len(index))[counted], sums, weights))
    known = level >= 0
    total, share = np.zeros(n_levels, np.int64), np.zeros(n_levels, np.int64)
    np.add.at(total, level[known], sums[known])
    np.add.at(share, level[known], weights[known])
    levels = units.mean(total, share)
    rows = np.append(levels, np.nan)[index]
    rows[counted[known]] = own[known]
    return Statistics(rows, levels, units.prior)
