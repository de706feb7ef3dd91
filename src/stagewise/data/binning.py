"""Cut points: where a column is divided into at most 255 bins.

A column with few distinct values gets a bin for each: nothing is lost. Otherwise bins hold about equal weight, and a
value heavier than a bin's share gets a bin of its own, so that ties (many zeros, say) do not waste bins.

Cut points are computed from all rows up to 200,000, else from the 200,000 rows whose numbers have the smallest hashes:
a sample that does not depend on threads, blocks or how the rows are divided among files or machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stagewise.data.sparse import Sparse
from stagewise.data.table import Table
from stagewise.kernels.cuts import DIGITS, matrix_cuts
from stagewise.kernels.entries import entry_cuts
from stagewise.kernels.exact import hash_values, stream_key
from stagewise.kernels.team import Team

__all__ = [
    "Columns",
    "Marginal",
    "SAMPLE_ROWS",
    "describe",
    "find_cuts",
    "integer_weights",
    "row_hashes",
    "sample_rows",
]

SAMPLE_ROWS = 200_000
_PURPOSE = 0x62696E73  # "bins": keeps this stream apart from subsampling
_NO_ROWS, _NO_WEIGHTS = np.empty(0, np.int64), np.empty(0, np.int64)
_COLUMNS = 1024
"""Sparse columns described at a time: room for 255 bins of each is made, of which most need two."""


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """How a column was distributed in training, as far as its bins tell: what grids and averages need later.

    From the rows that decided the cut points. A column with a bin for each value is known exactly.
    """

    points: np.ndarray  # float64 (n_bins): a value of each bin, ascending; the least, middle ones, the largest
    shares: np.ndarray  # float64 (n_bins): weight of the bins
    missing: float  # and of missing values; all together are 1


class Columns(NamedTuple):
    """What a sample says about columns, one entry each."""

    cuts: list[np.ndarray]
    marginals: list[Marginal]
    n_distinct: list[int]


def sample_rows(n_rows: int, size: int = SAMPLE_ROWS) -> np.ndarray | None:
    """The rows that decide the cut points, ascending; None for all of them."""
    if n_rows <= size:
        return None
    hashes = row_hashes(0, n_rows)
    # they are spread evenly, so those that are sought are below this, but for chance: fewer to look through
    likely = hashes[hashes <= np.uint64(2**64 * min((size + 8 * size**0.5) / n_rows, 1 - 2**-53))]
    return np.flatnonzero(hashes <= np.partition(likely if len(likely) >= size else hashes, size - 1)[size - 1])


def row_hashes(first: int, n_rows: int) -> np.ndarray:
    """Hashes of the row numbers from `first` on: those of the smallest are the sample."""
    hashes = np.empty(n_rows, np.uint64)
    hash_values(stream_key(0, _PURPOSE), first, hashes)
    return hashes


def integer_weights(weight: np.ndarray, n_rows: int | None = None, peak: float | None = None) -> np.ndarray:
    """Weights as integers: their sums (below 2**53) do not depend on order. A positive weight stays positive.

    When these are not all of them: there are n_rows, and the largest is `peak`.
    """
    n_rows, peak = n_rows or len(weight), peak or weight.max()
    bits = min(30, 52 - n_rows.bit_length())
    scaled = np.rint(weight / peak * 2.0**bits).astype(np.int64)
    return np.where(weight > 0.0, np.maximum(scaled, 1), 0)


def describe(cells: np.ndarray, rows: np.ndarray, weight: np.ndarray, max_bins: int, n_threads: int) -> Columns:
    """Cut points and distribution of the columns of a matrix.

    cells: contiguous floats. rows: those to look at, all when empty; weight: theirs, 1 each when empty.
    """
    f, n = cells.shape[1], len(rows) or len(cells)
    narrow = cells.dtype == np.float32
    bits = cells.view(np.uint32 if narrow else np.uint64)
    threads = n_threads if n * f >= 50_000 else 1
    groups = -(-f // (16 if narrow else 8))  # at most a cache line each, and as many for every thread
    at_once = -(-f // (-(-groups // threads) * threads))
    cuts, points = np.full((f, max_bins), np.inf), np.empty((f, max_bins))
    shares, found = np.zeros((f, max_bins), np.int64), np.zeros(f, np.int64)
    with Team(min(threads, -(-f // at_once))) as team:
        threads = team.n_threads
        team.run(
            matrix_cuts, team.gate, bits, rows, weight, max_bins, np.empty((threads, at_once + 1, n), bits.dtype),
            np.empty((threads, 2, n if len(weight) else 0), np.int64), np.empty((threads, n), np.int64),
            np.empty((threads, 6, DIGITS), np.int64), cuts, points, shares, found,
        )  # fmt: skip
    total = int(weight.sum()) if len(weight) else n
    return columns_of(cuts, points, shares, [total] * f, found)


def columns_of(
    cuts: np.ndarray, points: np.ndarray, shares: np.ndarray, totals: Sequence[int], found: np.ndarray
) -> Columns:
    """What a kernel wrote into padded arrays, column by column. totals: the weight of all rows."""
    n_bins = (shares > 0).sum(axis=1)
    return Columns(
        [own[: max(0, n - 1)].copy() for own, n in zip(cuts, n_bins, strict=True)],
        [
            Marginal(points[j, :n].copy(), shares[j, :n] / total, float(total - int(shares[j].sum())) / total)
            for j, (n, total) in enumerate(zip(n_bins.tolist(), totals, strict=True))
        ],
        found.tolist(),
    )


def find_cuts(
    table: Table, sample_weight: np.ndarray | None, max_bins: int, n_threads: int
) -> tuple[tuple[np.ndarray, ...], tuple[Marginal, ...]]:
    """Cut points (ascending float64) and distribution of every column. Rows of weight zero do not count."""
    if table.entries is not None:
        return find_entry_cuts(table.entries, sample_weight, max_bins, n_threads)
    weight = _NO_WEIGHTS
    if sample_weight is not None and not (sample_weight == sample_weight[0]).all():
        keep = np.flatnonzero(sample_weight > 0.0)
        if len(keep) < table.n_rows:
            table = table.take(keep)
        weight = integer_weights(sample_weight[keep])
    sampled = sample_rows(table.n_rows)
    rows = _NO_ROWS if sampled is None else sampled
    sample_weights = weight[rows] if len(weight) and len(rows) else weight

    def alone(j: int, rows: np.ndarray, weight: np.ndarray) -> Columns:
        own = table.column(j)
        return describe(np.ascontiguousarray(own[rows] if len(rows) else own)[:, None], _NO_ROWS, weight, max_bins, 1)

    if table.matrix is not None:
        found = describe(table.matrix, rows, sample_weights, max_bins, n_threads)
    else:
        with ThreadPoolExecutor(n_threads) as pool:  # kernels release the GIL
            parts = list(pool.map(lambda j: alone(j, rows, sample_weights), range(table.n_columns)))
        found = Columns(
            [part.cuts[0] for part in parts],
            [part.marginals[0] for part in parts],
            [part.n_distinct[0] for part in parts],
        )
    if len(rows):  # few distinct values in the sample: look at all rows, so that rare values keep their own bins
        for j in range(table.n_columns):
            if found.n_distinct[j] <= max_bins:
                whole = alone(j, _NO_ROWS, weight)
                found.cuts[j], found.marginals[j] = whole.cuts[0], whole.marginals[0]
    return tuple(found.cuts), tuple(found.marginals)


def find_entry_cuts(
    table: Sparse, sample_weight: np.ndarray | None, max_bins: int, n_threads: int
) -> tuple[tuple[np.ndarray, ...], tuple[Marginal, ...]]:
    """`find_cuts` of a sparse matrix, from its entries alone: the same cut points as from the dense one."""
    (n_rows, n_columns), entries = table.shape, table.by_column()
    sample, whole, n_used = _NO_WEIGHTS, _NO_WEIGHTS, n_rows
    keep: np.ndarray | None = None
    if sample_weight is not None and not (sample_weight == sample_weight[0]).all():
        keep = np.flatnonzero(sample_weight > 0.0)
        whole, n_used = np.zeros(n_rows, np.int64), len(keep)
        whole[keep] = integer_weights(sample_weight[keep])
    chosen = sample_rows(n_used)
    if chosen is None:
        sample = whole
    else:
        rows = chosen if keep is None else keep[chosen]
        sample = np.zeros(n_rows, np.int64)
        sample[rows] = whole[rows] if len(whole) else 1
    totals = np.array([int(own.sum()) if len(own) else n_rows for own in (sample, whole)], np.int64)
    bits = entries.values.view(np.uint32 if entries.values.dtype == np.float32 else np.uint64)
    longest = int(np.diff(entries.start).max())
    parts: list[Columns] = []
    with Team(n_threads if len(bits) >= 50_000 else 1) as team:
        threads = team.n_threads
        scratch = (
            np.empty((threads, 2, longest + 1), bits.dtype), np.empty((threads, longest), np.int64),
            np.empty((threads, 2, longest), np.int64), np.empty((threads, longest + 1), np.int64),
            np.empty((threads, 6, DIGITS), np.int64),
        )  # fmt: skip
        for j in range(0, n_columns, _COLUMNS):
            n = min(_COLUMNS, n_columns - j)
            cuts, points = np.full((n, max_bins), np.inf), np.empty((n, max_bins))
            shares, found = np.zeros((n, max_bins), np.int64), np.zeros(n, np.int64)
            looked = np.zeros(n, np.int64)
            team.run(
                entry_cuts, team.gate, entries.start[j : j + n + 1], entries.place, bits, table.empty, sample, whole,
                totals, max_bins, *scratch, cuts, points, shares, found, looked,
            )  # fmt: skip
            parts.append(columns_of(cuts, points, shares, totals[looked].tolist(), found))
    return tuple(own for part in parts for own in part.cuts), tuple(own for part in parts for own in part.marginals)
