"""Sparse matrices: the stored entries of a table, by column for training and by row for prediction.

    a scipy.sparse matrix or array of any format  ->  read_sparse  ->  Sparse  ->  Entries, by column or by row

What is not stored is zero, a value like any other; with `empty` it is missing instead, and so is a stored zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stagewise.data.cells import Floats, to_floats
from stagewise.errors import InputError

__all__ = ["Entries", "Sparse", "read_sparse"]

_DENSE_BYTES = 1 << 30
"""Where values must lie in a full matrix (explanations, learners of other libraries), up to this size they are put
there."""


class Entries(NamedTuple):
    """Stored entries, line after line: those of line k from start[k] to start[k + 1]. A line is a column, or a row."""

    start: np.ndarray  # int64 (n_lines + 1)
    place: np.ndarray  # int32: row numbers (column numbers), each once in a line
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """A canonical CSR or CSC matrix of float32 or float64, which may be the user's own memory: nobody writes to it."""

    matrix: Any
    empty: bool = False  # zeros are missing

    @property
    def shape(self) -> tuple[int, int]:
        n_rows, n_columns = self.matrix.shape
        return int(n_rows), int(n_columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = self.matrix.dtype
        return kind

    def by_column(self) -> Entries:
        return _entries(self.matrix.tocsc())

    def by_row(self) -> Entries:
        return _entries(self.matrix.tocsr())

    def take(self, rows: np.ndarray) -> Sparse:
        return Sparse(self.matrix.tocsr()[rows], self.empty)

    def dense(self) -> Floats:
        """All cells (n_rows, n_columns), when they are not too many."""
        n_rows, n_columns = self.shape
        size = n_rows * n_columns * self.dtype.itemsize
        if size > _DENSE_BYTES:
            raise InputError(
                f"This needs the values of X as a dense matrix, which would take {size / 2**30:,.1f} GiB for "
                f"{n_rows:,} × {n_columns:,} cells; pass fewer rows of the sparse matrix (up to "
                f"{_DENSE_BYTES // (n_columns * self.dtype.itemsize):,}), or a dense one."
            )
        cells: Floats = self.matrix.toarray(order="C")
        if self.empty:
            cells[cells == 0.0] = np.nan
        return cells


def read_sparse(X: Any, empty: bool, hint: str) -> Sparse:
    """A scipy.sparse matrix or array of any format and number type; X itself is never changed."""
    from scipy import sparse

    if X.ndim != 2:
        raise InputError(f"Expected 2D array, got {X.ndim}D sparse array instead; reshape it to (n_rows, n_columns).")
    kind = sparse.csr_array if X.format == "csr" else sparse.csc_array
    own = X if X.format in ("csr", "csc") else X.tocsc()
    # a second wrapper around the same memory: what scipy notes about it, it notes there
    made = kind((own.data, own.indices, own.indptr), shape=own.shape, copy=False)
    try:
        made.check_format(full_check=True)  # kernels take every index at its word
    except ValueError as error:
        raise InputError(
            f"X is a broken sparse matrix: {error}. Build it anew, for example from its COO form."
        ) from error
    if not made.has_canonical_format:
        made = made.copy()
        made.sum_duplicates()
    values = to_floats(made.data, "X", hint)
    return Sparse(kind((values, made.indices, made.indptr), shape=made.shape, copy=False), empty)


def _entries(matrix: Any) -> Entries:
    """The arrays of a CSR or CSC matrix, of fixed types: one kernel for all."""
    return Entries(
        _frozen(matrix.indptr.astype(np.int64)),
        _frozen(matrix.indices.astype(np.int32, copy=False)),
        _frozen(matrix.data),
    )


def _frozen(values: np.ndarray) -> np.ndarray:
    view = np.ascontiguousarray(values).view(np.ndarray)
    if view is values:
        view = values[:]
    view.flags.writeable = False
    return view
