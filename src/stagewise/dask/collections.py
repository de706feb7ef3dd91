"""From what a user has on a cluster to partitions: futures of frames or arrays, or row groups of Parquet files."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Client, Future

from stagewise.dask.partitions import Piece
from stagewise.errors import InputError, InputTypeError

__all__ = ["is_collection", "partitions_of"]

_PIECE_ROWS = 1 << 18
"""Rows of a Parquet piece, at least, where row groups are smaller."""

Parts = list[tuple[Any, Any, Any, Any]]


def is_collection(data: Any) -> bool:
    """Something lazy of Dask's: an array, a frame, a series."""
    import dask

    return bool(dask.is_dask_collection(data))


def partitions_of(client: Client, X: Any, y: Any, weight: Any, score: Any, results: Any) -> Parts:
    """(X, y, weight, init_score) of each partition; each is a Future, a Piece, a column's name or None.

    results: waits for futures and returns what they hold (Fleet.results).
    """
    if isinstance(X, str):
        return _files(client, X, y, weight, score, results)
    if y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    columns = [_futures(client, X, "X", X)]
    n = len(columns[0])
    for data, name in ((y, "y"), (weight, "sample_weight"), (score, "init_score")):
        # None, or the name of a column of every frame
        own = [data] * n if data is None or isinstance(data, str) else _futures(client, data, name, X)
        if len(own) != n:
            raise InputError(
                f"X has {n} partitions and {name} has {len(own)}; they must be divided alike. Repartition one of them."
            )
        columns.append(own)
    return list(zip(*columns, strict=True))


def _futures(client: Client, data: Any, name: str, X: Any) -> list[Any]:
    """The partitions of one argument."""
    return [own if isinstance(own, Future) else client.compute(own) for own in _delayed(data, name, X)]


def _delayed(data: Any, name: str, X: Any) -> list[Any]:
    from dask.delayed import Delayed

    import dask

    if isinstance(data, list | tuple) and data and all(isinstance(own, Delayed | Future) for own in data):
        return list(data)
    if hasattr(data, "to_delayed") and hasattr(data, "chunks"):  # an array
        if data.ndim == 2 and data.numblocks[1] > 1:
            data = data.rechunk({1: -1})
        rows = getattr(X, "chunks", None)
        if name != "X" and rows is not None and data.chunks[0] != rows[0] and not _unknown(data) and not _unknown(X):
            if data.shape[0] != X.shape[0]:
                raise InputError(
                    f"Found input variables with inconsistent numbers of samples: [{X.shape[0]}, {data.shape[0]}]; X "
                    f"and {name} must have the same number of rows."
                )
            data = data.rechunk({0: rows[0]})
        return list(data.to_delayed().ravel())
    if hasattr(data, "to_delayed"):  # a frame or a series
        return list(data.to_delayed())
    if is_collection(data):
        return [data]
    if isinstance(data, str) or not (hasattr(data, "shape") or hasattr(data, "__len__")):
        raise InputTypeError(
            f"{name} ({type(data).__name__}) must be a Dask array or frame, a list of delayed frames, or for X the "
            "name pattern of Parquet files."
        )
    if name != "X" and hasattr(X, "chunks") and not _unknown(X):  # plain data beside a collection
        ends = np.cumsum((0, *X.chunks[0]))
        if ends[-1] != len(data):
            raise InputError(
                f"Found input variables with inconsistent numbers of samples: [{ends[-1]}, {len(data)}]; X and "
                f"{name} must have the same number of rows."
            )
        return [dask.delayed(data[a:b]) for a, b in pairwise(ends.tolist())]
    return [dask.delayed(data)]


def _unknown(array: Any) -> bool:
    return any(np.isnan(size) for size in array.chunks[0])


def _files(client: Client, pattern: str, y: Any, weight: Any, score: Any, results: Any) -> Parts:
    for own, name in ((y, "y"), (weight, "sample_weight"), (score, "init_score")):
        if not isinstance(own, str) and (own is not None or name == "y"):
            raise InputTypeError(f"With Parquet files, {name} must be the name of one of their columns.")
    (pieces,) = results([client.submit(pieces_of, pattern, pure=False)])
    return [(piece, y, weight, score) for piece in pieces]


def pieces_of(pattern: str) -> list[Piece]:
    """The row groups of all files that match, in the order of their names; small groups together."""
    from stagewise.errors import MissingExtraError

    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Reading Parquet needs pyarrow: pip install 'stagewise[dask]'.") from error
    paths = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  a pattern may be absolute, which Path.glob refuses
    if not paths:
        raise InputError(f"No file matches {pattern!r} on the workers.")
    pieces: list[Piece] = []
    for path in paths:
        with pq.ParquetFile(path) as file:
            sizes: Sequence[int] = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
        groups: list[int] = []
        rows = 0
        for k, size in enumerate(sizes):
            groups.append(k)
            rows += size
            if rows >= _PIECE_ROWS or k + 1 == len(sizes):
                pieces.append(Piece(path, tuple(groups)))
                groups, rows = [], 0
    return pieces
