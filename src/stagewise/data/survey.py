"""Cut points of a table that is never in memory as a whole: the same ones as if it were.

Two things are kept while batches come by: the rows whose numbers have the smallest hashes (the sample of binning.py,
found without knowing how many rows there will be), and the distinct values of every column while there are few. Rows of
weight zero do not count and have no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from stagewise.data.binning import SAMPLE_ROWS, Columns, Marginal, describe, integer_weights, row_hashes
from stagewise.data.table import Table
from stagewise.kernels.binning import bin_column

__all__ = ["Found", "Survey", "Unequal", "recount", "shares_of_codes", "whole_weights"]

_NONE = np.empty(0, np.int64)
_SPARE = SAMPLE_ROWS // 4
"""Rows beyond the sample that are kept before it is cut back: fewer would cost time, more memory."""
_HEAD = 2048
"""Values looked at first: a column with many distinct ones shows it at once."""


@dataclass(frozen=True, slots=True)
class Unequal:
    """What turns weights into integers, some rows at a time, as if it were done for all at once."""

    n_rows: int  # that have weight
    peak: float

    @classmethod
    def of(cls, weight: np.ndarray | None) -> Unequal | None:
        """From the weights of all rows; None when they are equal, or there are none."""
        if weight is None or (weight == weight[0]).all():
            return None
        return cls(int((weight > 0.0).sum()), float(weight.max()))


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a survey found. Some columns may need another look at all rows."""

    columns: Columns
    unequal: Unequal | None  # None: all rows weigh the same
    open_shares: tuple[int, ...]  # columns whose cut points are known, but the weight of whose bins is not yet
    open_cuts: tuple[int, ...]  # columns with few distinct values in the sample, but many in all


class Survey:
    """Looks at batches, one after the other."""

    def __init__(self, n_columns: int, max_bins: int, leave: frozenset[int] = frozenset()) -> None:
        """leave: columns of categories, which have no cut points to be found."""
        self.max_bins, self.n_kept = max_bins, 0
        self._own = [j for j in range(n_columns) if j not in leave]
        self._hashes = np.empty(SAMPLE_ROWS + _SPARE, np.uint64)
        self._weight = np.empty(SAMPLE_ROWS + _SPARE)
        self._cells: list[np.ndarray] = [
            np.empty(SAMPLE_ROWS + _SPARE if j not in leave else 0, np.float32) for j in range(n_columns)
        ]
        self._n = 0
        self._below = np.uint64(2**64 - 1)
        # None: too many
        self._values: list[np.ndarray | None] = [None if j in leave else np.empty(0) for j in range(n_columns)]

    def add(self, table: Table, weight: np.ndarray | None) -> None:
        """One more batch."""
        rows = _counted(weight)
        n = table.n_rows if rows is None else len(rows)
        hashes = row_hashes(self.n_kept, n)
        self.n_kept += n
        chosen = np.flatnonzero(hashes <= self._below)
        at = 0
        while at < len(chosen):
            part = chosen[at : at + len(self._hashes) - self._n]
            self._keep(table, part if rows is None else rows[part], hashes[part], weight)
            at += len(part)
            if self._n == len(self._hashes):
                self._cut_back()
                chosen = chosen[at:][hashes[chosen[at:]] <= self._below]
                at = 0
        for j, known in enumerate(self._values):
            if known is not None:
                x = table.column(j)
                self._values[j] = _more_values(known, x if rows is None else x[rows], self.max_bins)

    def is_empty(self, j: int) -> bool:
        """Whether a column of numbers had nothing but missing values so far."""
        known = self._values[j] if j < len(self._values) else None
        return known is not None and len(known) == 0

    def _keep(self, table: Table, rows: np.ndarray, hashes: np.ndarray, weight: np.ndarray | None) -> None:
        own = slice(self._n, self._n + len(rows))
        self._hashes[own] = hashes
        self._weight[own] = 1.0 if weight is None else weight[rows]
        for j in self._own:
            x, cells = table.column(j), self._cells[j]
            if x.dtype == np.float64 and cells.dtype == np.float32:
                wide = np.empty(len(cells))
                wide[: self._n] = cells[: self._n]
                self._cells[j] = cells = wide
            cells[own] = x[rows]
        self._n += len(rows)

    def _cut_back(self) -> None:
        """Leave the smallest hashes only."""
        if self._n <= SAMPLE_ROWS:
            return
        least = np.argpartition(self._hashes[: self._n], SAMPLE_ROWS - 1)[:SAMPLE_ROWS]
        kept: list[np.ndarray] = [self._hashes, self._weight, *(self._cells[j] for j in self._own)]
        for values in kept:
            values[:SAMPLE_ROWS] = values[least]
        self._n = SAMPLE_ROWS
        self._below = self._hashes[:SAMPLE_ROWS].max()

    def finish(self, weight: np.ndarray | None, n_threads: int) -> Found:
        """Cut points of all columns. weight: that of all rows, zeros too; None for 1 each. The sample is gone then."""
        self._cut_back()
        unequal = Unequal.of(weight)
        whole = whole_weights(self._weight[: self._n], unequal)

        def look(j: int) -> Columns:
            cells = self._cells[j][: self._n].copy()
            self._cells[j] = cells[:0]
            return describe(cells[:, None], _NONE, whole, self.max_bins, 1)

        n = len(self._cells)
        found = Columns([np.empty(0)] * n, [Marginal(np.empty(0), np.empty(0), 0.0)] * n, [0] * n)
        with ThreadPoolExecutor(n_threads) as pool:  # kernels release the GIL
            for j, part in zip(self._own, pool.map(look, self._own), strict=True):
                found.cuts[j], found.marginals[j] = part.cuts[0], part.marginals[0]
                found.n_distinct[j] = part.n_distinct[0]
        shares: list[int] = []
        cuts: list[int] = []
        if self.n_kept > SAMPLE_ROWS:
            for j in self._own:
                known = self._values[j]
                if found.n_distinct[j] > self.max_bins:
                    continue
                if known is None:
                    cuts.append(j)
                else:
                    own = _described(known, np.ones(len(known), np.int64), 1, self.max_bins)
                    found.cuts[j], found.marginals[j] = own.cuts[0], own.marginals[0]
                    shares.append(j)
        return Found(found, unequal, tuple(shares), tuple(cuts))


def _counted(weight: np.ndarray | None) -> np.ndarray | None:
    """The rows of a batch that have weight; None for all."""
    if weight is None or (weight > 0.0).all():
        return None
    return np.flatnonzero(weight > 0.0)


def whole_weights(weight: np.ndarray | None, unequal: Unequal | None) -> np.ndarray:
    """The weights of some rows as integers; empty when all weigh the same."""
    return _NONE if weight is None or unequal is None else integer_weights(weight, unequal.n_rows, unequal.peak)


def _more_values(known: np.ndarray, x: np.ndarray, most: int) -> np.ndarray | None:
    """The distinct values of a column and those before, ascending; None when there are more than `most`."""
    for part in (x[:_HEAD], x[_HEAD:]):
        new = part
        if len(known):
            padded = np.full(256, np.inf)
            padded[: len(known)] = known
            codes = np.empty(len(part), np.uint8)
            own = np.ascontiguousarray(part).view()
            own.flags.writeable = False  # as all columns of tables are: one kernel
            bin_column(0, 1, own, padded, codes)
            new = part[(padded[codes] != part) | (codes >= len(known))]
        new = np.unique(new[~np.isnan(new)])
        if len(new):
            known = np.union1d(known, new.astype(np.float64))
        if len(known) > most:
            return None
    return known


def _described(values: np.ndarray, weight: np.ndarray, missing: int, max_bins: int) -> Columns:
    """Cut points and distribution from distinct values and their integer weights; `missing` is that of NaN."""
    cells = np.append(values, np.nan)
    return describe(cells[:, None], _NONE, np.append(weight, missing), max_bins, 1)


def recount(
    batches: Iterable[tuple[Table, np.ndarray | None]], found: Found, max_bins: int
) -> Iterator[tuple[int, np.ndarray, Marginal]]:
    """(column, cut points, distribution) of the columns of `found.open_cuts`, from all rows: every distinct value is
    counted. Batches hold just these columns, in this order.

    At most 255 distinct values in the sample of 200,000 rows mean that hardly more than one row in a thousand has a
    value of its own, so what is kept is small beside one number a row.
    """
    n = len(found.open_cuts)
    values, counts, missing = [np.empty(0)] * n, [_NONE] * n, [0] * n
    for table, weight in batches:
        rows = _counted(weight)
        whole = whole_weights(weight, found.unequal)
        if rows is not None and len(whole):
            whole = whole[rows]
        for k in range(n):
            x = table.column(k) if rows is None else table.column(k)[rows]
            gaps = np.isnan(x)
            missing[k] += int(whole[gaps].sum()) if len(whole) else int(gaps.sum())
            new, place = np.unique(x[~gaps].astype(np.float64) + 0.0, return_inverse=True)
            own = np.bincount(place, whole[~gaps] if len(whole) else None, len(new)).astype(np.int64)  # below 2**53
            merged, place = np.unique(np.concatenate([values[k], new]), return_inverse=True)
            counts[k] = np.bincount(place, np.concatenate([counts[k], own]), len(merged)).astype(np.int64)
            values[k] = merged
    for k, j in enumerate(found.open_cuts):
        done = _described(values[k], counts[k], missing[k], max_bins)
        yield j, done.cuts[0], done.marginals[0]


def shares_of_codes(points: np.ndarray, counts: np.ndarray) -> Marginal:
    """The distribution of a column with a bin for each value. counts: weight of every code, int64 (256)."""
    total, n = int(counts.sum()), len(points)
    return Marginal(points, counts[:n] / total, float(total - int(counts[:n].sum())) / total)
