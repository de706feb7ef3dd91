"""The table: columns of numbers with names, read from whatever the user has.

    an array, lists, anything with __array__  ->  _read_array  ┐
                                                               ├  Table (a matrix, or columns)
    an eager frame that narwhals knows        ->  _read_frame  ┘
    a scipy.sparse matrix or array            ->  read_sparse  -  Table (its entries)

A 1 M x 28 float matrix is taken as it is in microseconds: no copy and no look at its cells. Missing is NaN; infinite
values are legal. Categories are numbers too, see categories.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stagewise.data.categories import FROM_DTYPE, Cells, Levels, choose_columns, column_cells, learn
from stagewise.data.cells import Floats, is_sparse, to_floats, unmask
from stagewise.data.frame import by_dtype, column_names, frame_cells, frame_floats, open_frame
from stagewise.data.sparse import Sparse, read_sparse
from stagewise.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from stagewise.data.frame import Frame

__all__ = ["Schema", "Table", "read_table"]

_TEXT_HINT = (
    "X must hold numbers: convert text that looks like numbers with X.astype(float), name columns of categories in "
    "categorical_features, or encode them first, for example with sklearn.preprocessing.OrdinalEncoder."
)
_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if "
    "it contains a single sample."
)
_BLOCK = 4096  # rows copied at once in to_matrix: a block of 28 columns stays in the L2 cache


@dataclass(frozen=True, slots=True)
class Schema:
    """What a fitted model remembers of the table it saw: the number of columns, their names if there were any, and the
    level tables of categorical columns (None for others; empty when no column is categorical)."""

    n_columns: int
    names: tuple[str, ...] | None
    levels: tuple[Levels | None, ...] = ()
    zeros_missing: bool = False  # a zero is no value: it says that there is none

    @property
    def coded(self) -> frozenset[int]:
        """The columns that have a level table."""
        return frozenset(j for j, own in enumerate(self.levels) if own is not None)

    @property
    def in_sets(self) -> npt.NDArray[np.bool_]:
        """bool (n_columns): the columns that trees split by sets of codes."""
        own = self.levels or (None,) * self.n_columns
        return np.array([levels is not None and not levels.by_target for levels in own], np.bool_)

    @property
    def texts(self) -> frozenset[str]:
        """The names of the columns whose levels are text."""
        own = zip(self.names or (), self.levels, strict=False)
        return frozenset(name for name, levels in own if levels is not None and levels.is_text)

    def numbered(self) -> Schema:
        """The same with level numbers in columns of target statistics."""
        levels = tuple(own.numbered() if own is not None and own.by_target else own for own in self.levels)
        return replace(self, levels=levels)

    def label(self, j: int) -> str:
        """What messages call a column."""
        return f"column {j} of X" if self.names is None else f"column {self.names[j]!r} of X"

    def check(self, table: Table, estimator_name: str = "the model") -> None:
        """Raise InputError unless `table` has the columns of this schema, by name and order, or at least by number.

        Names on one side only are a UserWarning, as in scikit-learn, whose words these are.
        """
        self.check_names(table.names, table.n_columns, estimator_name)

    def check_names(self, names: tuple[str, ...] | None, n_columns: int, estimator_name: str) -> None:
        """As `check`, before there is a table: wrong names are reported ahead of columns that cannot be read."""
        if self.names is not None and names is not None:
            if self.names != names:
                raise InputError(_say_names(self.names, names))
            return
        if n_columns != self.n_columns:
            raise InputError(
                f"X has {n_columns} features, but {estimator_name} is expecting {self.n_columns} features as input."
            )
        if names is not None:
            warnings.warn(f"X has feature names, but {estimator_name} was fitted without feature names", stacklevel=3)
        elif self.names is not None:
            warnings.warn(
                f"X does not have valid feature names, but {estimator_name} was fitted with feature names", stacklevel=3
            )

    def check_zeros(self, other: Schema, owner: str) -> None:
        """Raise InputError unless zeros mean the same in a Dataset of the schema `other`: its codes cannot tell."""
        if self.zeros_missing != other.zeros_missing:
            here, there = ("missing", "values") if self.zeros_missing else ("values", "missing")
            raise InputError(
                f'zeros are {here} for {owner}, but the Dataset was made with zeros="{there}"; make it with '
                f'zeros="{here}" or like=training_dataset.'
            )


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of numbers with names; a missing value is NaN. Exactly one of `matrix`, `columns`, `entries` is set.

    matrix: (n_rows, n_columns), C-contiguous, float32 or float64; or None.
    columns: n_columns contiguous arrays (n_rows,), each float32 or float64; or None.
    entries: a sparse matrix, of which nothing but the stored entries is ever laid out in training and prediction.
    names: n_columns names, or None when the input had none.
    levels: as in Schema; a categorical column holds codes, or before a Dataset pools them the numbers of its levels.

    Arrays made by `read_table` are aligned, in native byte order and read-only. Many of them are the user's own
    memory, and Numba compiles a kernel separately for read-only arrays: always read-only means always one kernel.
    """

    matrix: Floats | None
    columns: tuple[Floats, ...] | None
    names: tuple[str, ...] | None
    n_rows: int
    n_columns: int
    levels: tuple[Levels | None, ...] = ()
    entries: Sparse | None = None
    zeros_missing: bool = False

    @property
    def schema(self) -> Schema:
        """The part of the table that a model remembers."""
        return Schema(self.n_columns, self.names, self.levels, self.zeros_missing)

    def column(self, j: int) -> Floats:
        """Column `j` as a 1-D array (n_rows,), a strided view if the table is one matrix."""
        if self.columns is not None:
            return self.columns[j]
        assert self.matrix is not None
        return self.matrix[:, j]

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Table:
        """The table of these rows, in this order, repeats allowed. rows: (n,) integers -> a table of n rows."""
        rows = np.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise InputTypeError(f"rows must be a 1-D array of integers, not {rows.ndim}-D of {rows.dtype}.")
        if self.entries is not None:
            return replace(self, entries=self.entries.take(rows), n_rows=len(rows))
        matrix = None if self.matrix is None else _frozen(self.matrix[rows])
        columns = None if self.columns is None else tuple(_frozen(column[rows]) for column in self.columns)
        return replace(self, matrix=matrix, columns=columns, n_rows=len(rows))

    def with_columns(self, changed: Mapping[int, tuple[Levels, Floats]]) -> Table:
        """The table with other level tables and cells for some of its columns."""
        assert self.columns is not None
        columns, levels = list(self.columns), list(self.levels)
        for j, (own, cells) in changed.items():
            levels[j], columns[j] = own, _frozen(np.require(cells, requirements=["C", "A"]))
        return replace(self, columns=tuple(columns), levels=tuple(levels))

    def rows(self) -> Floats | Sparse:
        """The table as prediction takes it: one matrix, dense or sparse."""
        return self.to_matrix() if self.entries is None else self.entries

    def to_matrix(self) -> Floats:
        """All cells as one C-contiguous array (n_rows, n_columns): float32 if every column is, else float64."""
        if self.matrix is not None:
            return self.matrix
        if self.entries is not None:
            return _frozen(self.entries.dense())
        assert self.columns is not None
        narrow = all(column.dtype == np.float32 for column in self.columns)
        out: Floats = np.empty((self.n_rows, self.n_columns), np.float32 if narrow else np.float64)
        for start in range(0, self.n_rows, _BLOCK):
            rows = slice(start, start + _BLOCK)
            for j, column in enumerate(self.columns):
                out[rows, j] = column[rows]
        return _frozen(out)


def read_table(
    X: object,
    *,
    like: Schema | None = None,
    categorical: Any = None,
    estimator_name: str = "the model",
    zeros_missing: bool = False,
) -> Table:
    """Whatever holds numbers and categories in rows and columns, as a Table; `X` itself is never changed.

    X: (n_rows, n_columns), at least 1 x 1: a NumPy array, anything `np.asarray` reads, a scipy.sparse matrix, or an
    eager frame of any library narwhals knows. `like` is the schema of a fitted model that X must fit; `estimator_name`
    is its name in messages. Without it `categorical` says which columns hold categories: "from_dtype", a list of names
    or numbers, a mask, or None; and zeros_missing, whether zeros are read as missing values (not in these columns).
    """
    zeros_missing = zeros_missing if like is None else like.zeros_missing
    if is_sparse(X):
        return _read_sparse(X, like, categorical, estimator_name, zeros_missing)
    frame = open_frame(X, () if like is None or like.names is None else like.names)
    if frame is None:
        table = _read_array(_as_array(X), like, categorical, estimator_name)
    else:
        table = _read_frame(frame, like, categorical, estimator_name)
    return _without_zeros(table) if zeros_missing else table


def _read_sparse(X: Any, like: Schema | None, categorical: Any, estimator_name: str, zeros_missing: bool) -> Table:
    """A table from a scipy.sparse matrix or array, which holds numbers only."""
    if X.ndim == 2:
        _check_not_empty(X.shape)
        if like is not None:
            like.check_names(None, X.shape[1], estimator_name)
        chosen = like.coded if like is not None else _named(categorical, X.shape[1])
        if len(chosen):
            raise InputTypeError(
                f"X is a sparse matrix, which holds numbers only, but column {min(chosen)} is to hold categories; pass "
                "a frame, or one-hot columns."
            )
    entries = read_sparse(X, zeros_missing, _TEXT_HINT)
    return Table(None, None, None, *entries.shape, (), entries, zeros_missing)


def _named(categorical: Any, n_columns: int) -> frozenset[int]:
    """The columns of a sparse matrix that are said to hold categories."""
    from_dtype = isinstance(categorical, str) and categorical == FROM_DTYPE
    return frozenset() if from_dtype else choose_columns(categorical, None, n_columns)


def _without_zeros(table: Table) -> Table:
    """The table with NaN for every zero; codes of categories stay."""

    def cleared(values: Floats) -> Floats:
        return _frozen(np.where(values == 0.0, values.dtype.type(np.nan), values))

    matrix = None if table.matrix is None else cleared(table.matrix)
    coded = table.schema.coded
    columns = None
    if table.columns is not None:
        columns = tuple(own if j in coded else cleared(own) for j, own in enumerate(table.columns))
    return replace(table, matrix=matrix, columns=columns, zeros_missing=True)


def _read_frame(frame: Frame, like: Schema | None, categorical: Any, estimator_name: str) -> Table:
    """A table from an eager frame: names first, because a wrong frame often has unreadable columns as well."""
    n_rows, n_columns = frame.shape
    names = column_names(frame)
    _check_not_empty((n_rows, n_columns))
    if like is not None:
        like.check_names(names, n_columns, estimator_name)
        chosen = like.coded
    elif isinstance(categorical, str) and categorical == FROM_DTYPE:
        chosen = by_dtype(frame)
    else:
        chosen = choose_columns(categorical, names, n_columns)
    cells = frame_floats(frame, chosen, trained=like is not None)
    if isinstance(cells, np.ndarray):
        return _from_matrix(cells, names)
    if not chosen:
        return Table(None, _contiguous(cells), names, n_rows, n_columns)
    return _coded(Schema(n_columns, names), cells, chosen, lambda j: frame_cells(frame, j), n_rows, like)


def _read_array(X: npt.NDArray[Any], like: Schema | None, categorical: Any, estimator_name: str) -> Table:
    """A table from an array of any dtype and shape."""
    _check_shape(X)
    n_rows, n_columns = X.shape
    if like is not None:
        like.check_names(None, n_columns, estimator_name)
        chosen = like.coded
    elif isinstance(categorical, str) and categorical == FROM_DTYPE:
        chosen = frozenset()
    else:
        chosen = choose_columns(categorical, None, n_columns)
    if not chosen:
        return _from_matrix(to_floats(X, "X", _TEXT_HINT), None)
    schema = Schema(n_columns, None)
    cells = [np.empty(0) if j in chosen else to_floats(X[:, j], schema.label(j), _TEXT_HINT) for j in range(n_columns)]
    return _coded(schema, cells, chosen, lambda j: column_cells(X[:, j], schema.label(j)), n_rows, like)


def _coded(
    schema: Schema,
    floats: list[Floats],
    chosen: frozenset[int],
    cells: Callable[[int], Cells],
    n_rows: int,
    like: Schema | None,
) -> Table:
    """A table whose `chosen` columns are categories: by the level tables of `like`, or by their own."""
    levels: list[Levels | None] = [None] * schema.n_columns
    for j in sorted(chosen):
        known = None if like is None else like.levels[j]
        if known is None:
            levels[j], floats[j] = learn(cells(j))
        else:
            levels[j], floats[j] = known, known.encode(cells(j), schema.label(j))
    return Table(None, _contiguous(floats), schema.names, n_rows, schema.n_columns, tuple(levels))


def _from_matrix(cells: Floats, names: tuple[str, ...] | None) -> Table:
    """A table from floats (n_rows, n_columns): kept if C-contiguous, cut into columns if they are what is contiguous,
    copied in the nearer of the two orders if neither is."""
    n_rows, n_columns = cells.shape
    by_rows = cells.flags.c_contiguous or (
        not cells.flags.f_contiguous and abs(cells.strides[0]) >= abs(cells.strides[1])
    )
    if by_rows:
        return Table(_frozen(np.require(cells, requirements=["C", "A"])), None, names, n_rows, n_columns)
    return Table(None, _contiguous(cells.T), names, n_rows, n_columns)


def _as_array(X: object) -> npt.NDArray[Any]:
    """`X` as a plain array of any dtype and shape, without a copy where there is one already."""
    if isinstance(X, np.ma.MaskedArray):
        return unmask(X)
    if isinstance(X, np.ndarray):
        return X
    try:
        values = np.asarray(X)
        if values.dtype.kind in "US" and isinstance(X, list | tuple):
            values = np.array(X, dtype=object)  # NumPy made every number a string: find out which cells are text
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputTypeError(
            f"X ({type(X).__name__}) cannot be read as a table: {error} Pass a 2-D array, a frame, or a list of rows "
            "that all have the same length."
        ) from error
    if values.ndim == 0 and values.dtype.kind == "O":
        hint = ""
        if hasattr(X, "same_cuts"):
            hint = " A Dataset keeps the codes of bins, not values: pass the table it was made of."
        raise InputTypeError(f"Expected 2D array or a frame for X, got {type(X).__name__} instead.{hint}")
    return values


def _check_shape(X: npt.NDArray[Any]) -> None:
    """Raise scikit-learn's errors for arrays that are not (at least one row, at least one column)."""
    if X.dtype.names is not None:
        to_floats(X, "X", _TEXT_HINT)  # a structured array is 1-D, but reshaping it would not help
    if X.ndim == 2:
        _check_not_empty(X.shape)
    elif X.ndim < 2:
        kind = "scalar" if X.ndim == 0 else "1D"
        raise InputError(f"Expected 2D array, got {kind} array instead:\narray={np.array2string(X)}.\n{_RESHAPE}")
    else:
        raise InputError(f"Found array with dim {X.ndim} (shape={X.shape}), while dim <= 2 is required.")


def _check_not_empty(shape: tuple[int, ...]) -> None:
    """Raise scikit-learn's errors for no rows and for no columns."""
    for count, noun in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise InputError(f"Found array with 0 {noun}(s) (shape={shape}) while a minimum of 1 is required.")


def _contiguous(columns: Iterable[Floats]) -> tuple[Floats, ...]:
    """Each column contiguous and aligned, without a copy where it is so already."""
    return tuple(_frozen(np.require(column, requirements=["C", "A"])) for column in columns)


def _frozen(values: Floats) -> Floats:
    """A read-only view of the plain ndarray (memmaps and matrices are subclasses that kernels do not know)."""
    view: Floats = values.view(np.ndarray)
    view.flags.writeable = False
    return view


def _say_names(expected: tuple[str, ...], got: tuple[str, ...]) -> str:
    """scikit-learn's message for names that differ from those of fit."""

    def bullets(names: set[str]) -> str:
        ordered = sorted(names)
        return "".join(f"- {name}\n" for name in ordered[:5]) + ("- ...\n" if len(ordered) > 5 else "")

    unseen, absent = set(got) - set(expected), set(expected) - set(got)
    message = "The feature names should match those that were passed during fit.\n"
    if unseen:
        message += "Feature names unseen at fit time:\n" + bullets(unseen)
    if absent:
        message += "Feature names seen at fit time, yet now missing:\n" + bullets(absent)
    if not unseen and not absent:
        message += "Feature names must be in the same order as they were in fit.\n"
    return message
