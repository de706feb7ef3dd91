"""Cut points: where a column is divided into at most 255 bins.

A column with few distinct values gets a bin for each: nothing is lost. Otherwise bins hold about equal weight, and a
value heavier than a bin's share gets a bin of its own, so that ties (many zeros, say) do not waste bins.

Cut points are computed from all rows up to 200,000, else from the 200,000 rows whose numbers have the smallest hashes:
a sample that does not depend on threads, blocks or how the rows are divided among files or machines.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from stagewise.data.table import Table
from stagewise.kernels.binning import distinct_sorted, greedy_cuts
from stagewise.kernels.exact import hash_values, stream_key

__all__ = ["Marginal", "SAMPLE_ROWS", "find_cuts", "sample_rows"]

SAMPLE_ROWS = 200_000
_PURPOSE = 0x62696E73  # "bins": keeps this stream apart from subsampling


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """How a column was distributed in training, as far as its bins tell: what grids and averages need later.

    From the rows that decided the cut points. A column with a bin for each value is known exactly.
    """

    points: np.ndarray  # float64 (n_bins): a value of each bin, ascending; the least, middle ones, the largest
    shares: np.ndarray  # float64 (n_bins): weight of the bins
    missing: float  # and of missing values; all together are 1

    @classmethod
    def of(cls, values: np.ndarray, counts: np.ndarray, last: np.ndarray, total: int) -> Marginal:
        """From distinct values, their weights, the number of the last value of each bin, and the weight of all rows."""
        if len(values) == 0:
            return cls(np.empty(0), np.empty(0), 1.0)
        upto = np.cumsum(counts)
        ends = upto[last]
        starts = np.concatenate(([0], ends[:-1]))
        middle = np.searchsorted(upto, starts + (ends - starts + 1) // 2)
        middle[0], middle[-1] = 0, len(values) - 1
        points = values[middle].astype(np.float64) + 0.0  # -0 and 0 are one value: which came first means nothing
        return cls(points, (ends - starts) / total, float(total - upto[-1]) / total)


def sample_rows(n_rows: int, size: int = SAMPLE_ROWS) -> np.ndarray | None:
    """The rows that decide the cut points, ascending; None for all of them."""
    if n_rows <= size:
        return None
    hashes = np.empty(n_rows, np.uint64)
    hash_values(stream_key(0, _PURPOSE), 0, hashes)
    return np.flatnonzero(hashes <= np.partition(hashes, size - 1)[size - 1])


def midpoints(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A cut between each two neighbours of ascending distinct values: low <= cut < high, also for ±inf and 1 ulp."""
    low, high = low.astype(np.float64), high.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        cuts = 0.5 * low + 0.5 * high
    return np.where((cuts >= low) & (cuts < high), cuts, low)


def distinct(values: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Ascending distinct values without NaN, and the integer weight of each."""
    if weight is None:
        ordered, weight = np.sort(values), np.empty(0, np.int64)
    else:
        order = np.argsort(values, kind="stable")
        ordered, weight = values[order], weight[order]
    found, counts = np.empty_like(ordered), np.empty(len(ordered), np.int64)
    n = distinct_sorted(ordered, weight, found, counts)
    return found[:n], counts[:n]


def column_cuts(
    column: np.ndarray, weight: np.ndarray | None, rows: np.ndarray | None, sample: np.ndarray, max_bins: int
) -> tuple[np.ndarray, Marginal]:
    """Cut points of one column, ascending float64, at most max_bins - 1; and how its values are distributed."""
    own = weight if weight is None or rows is None else weight[rows]
    values, counts = distinct(sample, own)
    if rows is not None and len(values) <= max_bins:
        # few distinct values in the sample: look at all rows, so that rare values keep their own bins
        sample, own = column, weight
        values, counts = distinct(sample, own)
    last = np.arange(len(values))
    if len(values) > max_bins:
        last = np.empty(max_bins, np.int64)
        last = last[: greedy_cuts(counts, max_bins, last)]
    marginal = Marginal.of(values, counts, last, len(sample) if own is None else int(own.sum()))
    return midpoints(values[last[:-1]], values[last[:-1] + 1]), marginal


def integer_weights(weight: np.ndarray) -> np.ndarray:
    """Weights as integers of at most 30 bits: their sums do not depend on order. A positive weight stays positive."""
    scaled = np.rint(weight / weight.max() * 2.0**30).astype(np.int64)
    return np.where(weight > 0.0, np.maximum(scaled, 1), 0)


def find_cuts(
    table: Table, sample_weight: np.ndarray | None, max_bins: int, n_threads: int
) -> tuple[tuple[np.ndarray, ...], tuple[Marginal, ...]]:
    """Cut points and distribution of every column. Rows of weight zero do not count."""
    weight = None
    if sample_weight is not None and not (sample_weight == sample_weight[0]).all():
        keep = np.flatnonzero(sample_weight > 0.0)
        if len(keep) < table.n_rows:
            table = table.take(keep)
        weight = integer_weights(sample_weight[keep])
    rows = sample_rows(table.n_rows)
    sampled = table if rows is None else table.take(rows)
    by_column = None if sampled.matrix is None else np.ascontiguousarray(sampled.matrix.T)

    def cuts_of(j: int) -> tuple[np.ndarray, Marginal]:
        sample = sampled.column(j) if by_column is None else by_column[j]
        return column_cuts(table.column(j), weight, rows, sample, max_bins)

    if n_threads == 1 or table.n_rows * table.n_columns < 100_000:
        found = [cuts_of(j) for j in range(table.n_columns)]
    else:
        with ThreadPoolExecutor(n_threads) as pool:  # sorting releases the GIL
            found = list(pool.map(cuts_of, range(table.n_columns)))
    return tuple(cuts for cuts, _ in found), tuple(marginal for _, marginal in found)
