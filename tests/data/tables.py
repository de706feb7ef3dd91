"""Tables for tests of data on disk, and two Datasets set side by side."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet


def mixed(n, seed=0):
    """Columns that are continuous, of few values, partly missing, all missing, and rare in three ways; y and w."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    X[:, 1] = rng.integers(0, 40, n)
    X[rng.random(n) < 0.1, 2] = np.nan
    X[:, 3] = np.where(rng.random(n) < 0.0006, rng.normal(size=n), 0.0)  # few distinct in a sample, many in all
    X[:, 4] = np.where(rng.random(n) < 0.00002, rng.integers(1, 9, n), -0.0)  # absent from most samples
    X[:, 5] = np.nan
    X[:, 6] = np.where(rng.random(n) < 0.5, rng.choice([np.inf, -np.inf, 1e300], n), 7.0)
    X[:, 7] = np.where(np.arange(n) < n // 8, X[:, 7], 0.5)  # sorted: the first rows have all its values
    columns = {f"c{j}": X[:, j].astype(np.float32) if j % 2 == 0 and j != 6 else X[:, j] for j in range(8)}
    columns["c1"] = columns["c1"].astype(np.int16)
    y = 2.0 * X[:, 0] + np.sin(X[:, 1]) + rng.normal(size=n)
    return pa.table({**columns, "y": y, "w": rng.integers(0, 4, n) / 3.0})


def write(table, folder, edges):
    """The rows between each two edges as a file; the files' names sort as the rows do."""
    for k, (a, b) in enumerate(pairwise(edges)):
        parquet.write_table(table.slice(a, b - a), Path(folder) / f"part-{k:03d}.parquet", row_group_size=20_000)
    return f"{folder}/part-*.parquet"


def assert_same(one, other):
    """Equal in everything that a model is made of."""
    assert one.schema.names == other.schema.names
    for a, b in zip(one.cuts, other.cuts, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(one.marginals, other.marginals, strict=True):
        np.testing.assert_array_equal(a.points, b.points)
        np.testing.assert_array_equal(a.shares, b.shares)
        assert a.missing == b.missing
    np.testing.assert_array_equal(one.bins.by_row, other.bins.by_row)
    np.testing.assert_array_equal(one.bins.by_column, other.bins.by_column)
    np.testing.assert_array_equal(one.bins.n_bins, other.bins.n_bins)
