"""Cut points: where a column is divided into at most 255 bins.

A column with few distinct values gets a bin for each: nothing is lost. Otherwise bins hold about equal weight, and a
value heavier than a bin's share gets a bin of its own, so that ties (many zeros, say) do not waste bins.

Cut points are computed from all rows up to 200,000, else from the 200,000 rows whose numbers have the smallest hashes:
a sample that does not depend on threads, blocks or how the rows are divided among files or machines.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from stagewise.data.table import Table
from stagewise.kernels.cuts import DIGITS, matrix_cuts
from stagewise.kernels.exact import hash_values, stream_key
from stagewise.kernels.team import Team

__all__ = ["SAMPLE_ROWS", "find_cuts", "sample_rows"]

SAMPLE_ROWS = 200_000
_PURPOSE = 0x62696E73  # "bins": keeps this stream apart from subsampling
_NO_ROWS, _NO_WEIGHTS = np.empty(0, np.int64), np.empty(0, np.int64)


def sample_rows(n_rows: int, size: int = SAMPLE_ROWS) -> np.ndarray:
    """The rows that decide the cut points, ascending; empty for all of them."""
    if n_rows <= size:
        return _NO_ROWS
    hashes = np.empty(n_rows, np.uint64)
    hash_values(stream_key(0, _PURPOSE), 0, hashes)
    return np.flatnonzero(hashes <= np.partition(hashes, size - 1)[size - 1])


def integer_weights(weight: np.ndarray) -> np.ndarray:
    """Weights as integers: their sums (below 2**53) do not depend on order. A positive weight stays positive."""
    bits = min(30, 52 - len(weight).bit_length())
    scaled = np.rint(weight / weight.max() * 2.0**bits).astype(np.int64)
    return np.where(weight > 0.0, np.maximum(scaled, 1), 0)


def cuts_of(
    cells: np.ndarray, rows: np.ndarray, weight: np.ndarray, max_bins: int, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cut points (n_columns, max_bins - 1), padded with +inf, and how many distinct values the rows have.

    cells: a contiguous matrix of floats. rows: those to look at, all when empty; weight: theirs, 1 each when empty.
    """
    f, n = cells.shape[1], len(rows) or len(cells)
    narrow = cells.dtype == np.float32
    bits = cells.view(np.uint32 if narrow else np.uint64)
    at_once = min(f, 16 if narrow else 8)  # a cache line
    cuts, found = np.full((f, max(1, max_bins - 1)), np.inf), np.zeros(f, np.int64)
    with Team(min(n_threads, -(-f // at_once)) if n * f >= 50_000 else 1) as team:
        threads = team.n_threads
        team.run(
            matrix_cuts, team.gate, bits, rows, weight, max_bins, np.empty((threads, at_once + 1, n), bits.dtype),
            np.empty((threads, 2, n if len(weight) else 0), np.int64), np.empty((threads, n), np.int64),
            np.empty((threads, 6, DIGITS), np.int64), cuts, found,
        )  # fmt: skip
    return cuts, found


def find_cuts(table: Table, sample_weight: np.ndarray | None, max_bins: int, n_threads: int) -> tuple[np.ndarray, ...]:
    """Cut points of every column, ascending float64. Rows of weight zero do not count."""
    weight = _NO_WEIGHTS
    if sample_weight is not None and not (sample_weight == sample_weight[0]).all():
        keep = np.flatnonzero(sample_weight > 0.0)
        if len(keep) < table.n_rows:
            table = table.take(keep)
        weight = integer_weights(sample_weight[keep])
    rows = sample_rows(table.n_rows)
    sample_weights = weight[rows] if len(weight) and len(rows) else weight

    def column(j: int, rows: np.ndarray) -> np.ndarray:
        own = table.column(j)
        return np.ascontiguousarray(own[rows] if len(rows) else own)[:, None]

    if table.matrix is not None:
        cuts, found = cuts_of(table.matrix, rows, sample_weights, max_bins, n_threads)
        each = list(cuts)
    else:
        with ThreadPoolExecutor(n_threads) as pool:  # kernels release the GIL
            parts = list(
                pool.map(
                    lambda j: cuts_of(column(j, rows), _NO_ROWS, sample_weights, max_bins, 1), range(table.n_columns)
                )
            )
        each, found = [cuts[0] for cuts, _ in parts], np.array([n[0] for _, n in parts], np.int64)
    if len(rows):  # few distinct values in the sample: look at all rows, so that rare values keep their own bins
        for j in np.flatnonzero(found <= max_bins):
            each[j] = cuts_of(column(int(j), _NO_ROWS), _NO_ROWS, weight, max_bins, 1)[0][0]
    return tuple(own[: int(np.searchsorted(own, np.inf))] for own in each)
