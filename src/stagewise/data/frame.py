"""Frames of any library, read through narwhals: their names and their columns as floats or categories.

narwhals is imported when the first frame arrives (35 ms); no frame library is ever imported here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from stagewise.data.categories import Cells, Texts, cells_of, column_cells, exact_numbers
from stagewise.data.cells import Floats, to_floats
from stagewise.errors import InputError, InputTypeError

if TYPE_CHECKING:
    import narwhals as nw

    Frame: TypeAlias = nw.DataFrame[Any]
    Column: TypeAlias = nw.Series[Any]

__all__ = [
    "by_dtype",
    "column_names",
    "frame_cells",
    "frame_floats",
    "is_index",
    "open_frame",
    "open_native",
]

_SHOWN = 5
_INDEX = re.compile(r"__index_level_\d+__")
_TEXT_HINT = "Encode text as numbers first, for example with sklearn.preprocessing.OrdinalEncoder."


def open_frame(X: object, known: Collection[str] = ()) -> Frame | None:
    """The narwhals view of `X` if it is an eager frame of any library, None if it is no frame; a series is an error.

    Without columns that are a pandas index, unless they are known: to a model that was trained on them.
    """
    opened = open_native(X, "X")
    if opened is None:
        return None
    import narwhals as nw

    if isinstance(opened, nw.DataFrame):
        index = [name for name in opened.columns if is_index(name) and name not in known]
        return opened.drop(index) if index else opened
    raise InputError(
        f"Expected a 2-dimensional container but got {type(X)} instead. Use X.to_frame() if it is one column; a single "
        "row needs a frame of one row."
    )


def is_index(name: object) -> bool:
    """Whether a column is the index of a pandas frame, which has no name of its own and gets this one when the frame
    becomes an Arrow table or a Parquet file. It is no column of the data, and a pandas frame has it not as one."""
    return isinstance(name, str) and _INDEX.fullmatch(name) is not None


def open_native(data: object, name: str) -> Frame | Column | None:
    """The narwhals view of `data` if it is an eager frame or a series of any library, else None.

    A lazy frame, duplicate column names and a pandas MultiIndex are errors; `name` ("X", "y") is how they call it.
    """
    if isinstance(data, np.ndarray | list | tuple):
        return None
    import narwhals as nw

    try:
        opened: object = nw.from_native(data, pass_through=True, allow_series=True)
        if isinstance(opened, nw.DataFrame):
            _ = opened.columns  # pyarrow tables are checked for duplicates only here
    except nw.exceptions.DuplicateError as error:
        raise InputError(_say_duplicates(data, name)) from error
    if isinstance(opened, nw.LazyFrame):
        raise InputTypeError(
            f"{name} is a lazy frame ({type(data).__module__}.{type(data).__name__}); read it into memory first, with "
            f"{name}.collect() in polars or {name}.compute() in Dask."
        )
    if isinstance(opened, nw.DataFrame) and any(isinstance(label, tuple) for label in opened.columns):
        raise InputError(
            f"The columns of {name} are a pandas MultiIndex; one name a column is needed. Flatten them first: "
            f'{name}.columns = ["_".join(map(str, levels)) for levels in {name}.columns].'
        )
    if isinstance(opened, nw.DataFrame | nw.Series):
        return opened
    return _open_capsule(data)


def _open_capsule(data: object) -> Frame | None:
    """A table that only speaks the Arrow PyCapsule interface (a pyarrow RecordBatch, nanoarrow, …), else None."""
    import narwhals as nw

    if hasattr(data, "__arrow_c_stream__"):
        for backend in ("pyarrow", "polars"):
            if find_spec(backend) is not None:
                try:
                    return nw.DataFrame.from_arrow(data, backend=backend)
                except (TypeError, ValueError):  # a stream of plain arrays, not of a table
                    return None
    return None


def column_names(frame: Frame) -> tuple[str, ...] | None:
    """The names of the columns, or None if none of them is a string (pandas' default 0, 1, 2, …)."""
    names: Sequence[object] = frame.columns  # pandas may name columns by integers, whatever narwhals' types say
    strings = sum(isinstance(name, str) for name in names)
    if strings == 0:
        return None
    if strings < len(names):
        kinds = sorted({type(name).__qualname__ for name in names})
        raise InputTypeError(
            "Feature names are only supported if all input features have string names, "
            f"but your input has {kinds} as feature name / column name types. "
            "Make them all strings, with X.columns = X.columns.astype(str) for example."
        )
    return tuple(str(name) for name in names)


def by_dtype(frame: Frame) -> frozenset[int]:
    """The columns whose type says that they hold categories: text and categorical types of any library."""
    import narwhals as nw

    return frozenset(j for j, own in enumerate(frame.schema.dtypes()) if own in (nw.String, nw.Categorical, nw.Enum))


def frame_floats(frame: Frame, leave: Collection[int] = (), trained: bool = False) -> Floats | list[Floats]:
    """The cells as floats, nulls as NaN: one (n_rows, n_columns) matrix of any order if the frame keeps just that,
    without a copy, else one 1-D array of n_rows a column (views where the frame's memory allows it).

    Columns of `leave` are left empty. Others that are no numbers raise one error that names up to five of them.
    trained: they were numbers when a model was trained.
    """
    if not leave and frame.implementation.is_pandas() and (block := _pandas_block(frame.to_native())) is not None:
        return block
    columns: list[Floats] = []
    wrong: list[Column] = []
    for j, column in enumerate(frame.iter_columns()):
        try:
            columns.append(np.empty(0) if j in leave else _column_floats(column))
        except InputError:
            wrong.append(column)
    if wrong:
        raise InputError(_say_wrong_columns(wrong, trained))
    return columns


def _pandas_block(native: Any) -> Floats | None:
    """The matrix (n_rows, n_columns) inside a pandas frame that is one block of float32 or float64, else None.

    Column by column would be right too, but costs 60 us a column, and a copy where the block is C-ordered.
    """
    dtypes = set(native.dtypes)
    if len(dtypes) != 1 or dtypes.pop() not in (np.dtype(np.float32), np.dtype(np.float64)):
        return None
    n_rows, n_columns = native.shape
    first, last = native.iloc[:, 0].to_numpy(), native.iloc[:, -1].to_numpy()
    # `to_numpy` of several blocks is a copy of everything, so look first whether the last column lies where one block,
    # of either order, has it.
    distance = last.ctypes.data - first.ctypes.data
    if distance not in ((n_columns - 1) * first.itemsize, (n_columns - 1) * n_rows * first.itemsize):
        return None
    block: Floats = native.to_numpy()
    return block if np.may_share_memory(block, first) else None


def _column_floats(column: Column) -> Floats:
    """One column (n_rows,) as float32 or float64 with nulls as NaN, or an InputError if it holds no numbers."""
    import narwhals as nw

    dtype = column.dtype
    if dtype in (nw.String, nw.Object, nw.Unknown) and column.null_count() == len(column):
        # Nothing but nulls: readers of CSV, and narwhals for pandas objects, call such a column a string.
        return np.full(len(column), np.nan)
    if dtype == nw.Decimal:
        # By way of text: Arrow's own cast is a unit in the last place off for every tenth number (pyarrow 26), which
        # as a category would be another one than in any other library.
        column = column.cast(nw.String).cast(nw.Float64)
    elif dtype in (nw.Int128, nw.UInt128):
        column = column.cast(nw.Float64)  # NumPy has no such types
    elif dtype == nw.Boolean:
        if column.null_count() > 0:
            column = column.cast(nw.Float32)  # else an object array of True, False and None
    elif not (dtype.is_numeric() or dtype in (nw.Object, nw.Unknown)):
        raise InputTypeError(f"a column of {dtype}")
    elif "Sparse" in str(_native_dtype(column)):
        raise InputTypeError("a sparse column")
    values = column.to_numpy()
    if dtype in (nw.Int8, nw.Int16, nw.UInt8, nw.UInt16):
        values = values.astype(np.float32, copy=False)  # with nulls some libraries give float64
    return to_floats(values, f"column {column.name!r} of X", _TEXT_HINT)


def frame_cells(frame: Frame, j: int) -> Cells:
    """Column `j` as categories: text or numbers."""
    import narwhals as nw

    column = frame[:, j]
    name, dtype = f"column {column.name!r} of X", column.dtype
    if dtype not in (nw.String, nw.Categorical, nw.Enum):
        if dtype.is_temporal() or dtype.is_nested() or dtype == nw.Binary:
            if column.null_count() == len(column):  # nothing but missing values may be of any type
                return Texts(np.full(len(column), -1, np.int64), [])
            raise InputError(f"{name} ({_native_dtype(column)}) cannot be a category; make it text first.")
        if dtype.is_integer() and column.null_count() < len(column):
            # looked at before anything turns them into floats
            exact_numbers(np.array([column.max(), column.min()], object), name)
        if dtype == nw.Boolean or dtype in (nw.Decimal, nw.Int128, nw.UInt128):
            return _column_floats(column).astype(np.float64)
        return column_cells(column.to_numpy(), name)
    native: Any = column.to_native()
    if column.implementation.is_pandas():
        if str(native.dtype) == "category":
            return cells_of(list(native.cat.categories), native.cat.codes.to_numpy(), name)
        index, entries = native.factorize()
        return cells_of(list(entries), index, name)
    if column.implementation.is_pyarrow():
        return _arrow_cells(native, name)
    if column.implementation.is_polars() and dtype != nw.String:
        # the physical numbers belong to a table that other frames may share: look at the entries that occur
        physical = native.to_physical().cast(int).fill_null(-1).to_numpy()
        distinct, first, index = np.unique(physical, return_index=True, return_inverse=True)
        texts = nw.from_native(native.gather(first), series_only=True).cast(nw.String).to_list()
        return cells_of(texts, np.where(distinct[index] < 0, -1, index), name)
    return column_cells(np.array(column.cast(nw.String).to_list(), object), name)


def _arrow_cells(native: Any, name: str) -> Cells:
    """A pyarrow array of text or of a dictionary, in chunks whose dictionaries may differ."""
    if not hasattr(native.type, "value_type"):
        native = native.dictionary_encode()
    if hasattr(native, "chunks") and len(native.chunks) > 1:
        try:
            native = native.unify_dictionaries()
        except (ValueError, NotImplementedError):  # of dictionaries that hold a null, or entries of a rare type
            native = native.cast(native.type.value_type).dictionary_encode().unify_dictionaries()
    chunks = native.chunks if hasattr(native, "chunks") else [native]
    if not chunks:
        return cells_of([], np.empty(0, np.int64), name)
    index = np.concatenate([own.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False) for own in chunks])
    return cells_of(chunks[0].dictionary.to_pylist(), index, name)


def _native_dtype(column: Column) -> object:
    """The column's type as its own library calls it, for messages."""
    native = column.to_native()
    return getattr(native, "dtype", None) or getattr(native, "type", column.dtype)


def _say_wrong_columns(wrong: Sequence[Column], trained: bool) -> str:
    """The message for columns that hold no numbers."""
    import narwhals as nw

    shown = ", ".join(f"{column.name!r} ({_native_dtype(column)})" for column in wrong[:_SHOWN])
    rest = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    message = f"X has columns that are not numeric: {shown}{rest}."
    dtypes = [column.dtype for column in wrong]
    native = [str(_native_dtype(column)) for column in wrong]
    if any(dtype.is_temporal() for dtype in dtypes):
        message += " Turn dates and times into numbers, for example year, month, weekday or days since a fixed date."
    if any("Sparse" in kind for kind in native):
        message += (
            " Pass a frame of sparse columns as X.sparse.to_coo().tocsr(), or make it dense with X.sparse.to_dense()."
        )
    if any("complex" in kind for kind in native):
        message += " Complex data not supported: pass real and imaginary parts as two columns."
    if any(dtype.is_nested() or dtype == nw.Binary for dtype in dtypes):
        message += " Take lists, structs and binary columns apart into one number a column, or drop them."
    is_text = any(dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object) for dtype in dtypes)
    if is_text and trained:
        message += (
            " They were numbers in training: pass them as numbers again, converted or encoded just as then. If they "
            "are categories, train a model on them as text or categories."
        )
    elif is_text:
        message += (
            ' Text and categories are read where they are asked for: with categorical_features="from_dtype", or with '
            "these columns named in it, where an estimator has that parameter. Otherwise encode them as numbers first, "
            "for example with sklearn.preprocessing.OrdinalEncoder. A column that mixes text and numbers must be made "
            "one or the other, for example with .astype(str)."
        )
    return message


def _say_duplicates(data: object, name: str) -> str:
    """The message for column names that occur more than once."""
    # pyarrow's `columns` are the columns themselves, so its `column_names` go first.
    names = getattr(data, "column_names", None)
    counts: Counter[object] = Counter(getattr(data, "columns", ()) if names is None else names)
    twice = [repr(label) for label, count in counts.items() if count > 1]
    shown = ", ".join(twice[:_SHOWN]) + (f" and {len(twice) - _SHOWN} more" if len(twice) > _SHOWN else "")
    return f"{name} has duplicate column names: {shown}. Rename or drop columns so that each name occurs once."
