"""Cells of any kind to floats.

The one place that knows which NumPy kinds are numbers, how each is kept (float32 or float64), and what to say about
a cell that is none. `table.py`, `frame.py` and `target.py` all convert through `to_floats`.
"""

from __future__ import annotations

import sys
from reprlib import repr as short_repr
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from stagewise.errors import InputError, InputTypeError

__all__ = ["Floats", "float_dtype", "is_missing", "is_sparse", "to_floats", "unmask"]

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
"""An array of float32 or float64 in native byte order."""

# Types that have `__float__` by inheritance (np.generic, np.ndarray) but whose value is no real number.
_NOT_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64, np.void, np.ndarray)


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The smaller of float32 and float64 that holds `dtype` (integers of 32 bits and more: float64), or None if
    `dtype` is no real number. Every 16-bit integer is exact in float32; a 32-bit one is not."""
    if dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize <= 2) or (dtype.kind == "f" and dtype.itemsize <= 4):
        return np.dtype(np.float32)
    return np.dtype(np.float64) if dtype.kind in "iuf" else None


def is_missing(kind: type) -> bool:
    """Whether cells of this Python type are missing values: None and pandas.NA (NaN is a float like any other).
    pandas.NA is known by its name, because pandas is never imported here."""
    return kind is type(None) or kind.__name__ == "NAType"


def is_sparse(values: object) -> bool:
    """Whether this is a scipy.sparse matrix or array. One can only exist if scipy.sparse was imported already, so
    there is no need to import it here."""
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(values))


def unmask(values: np.ma.MaskedArray[Any, Any]) -> npt.NDArray[Any]:
    """A masked array of any shape as a plain one: masked cells become NaN (numbers) or None (other kinds). Without
    any masked cell this is a view, else a copy."""
    mask = np.ma.getmaskarray(values)
    data = np.asarray(values.data)
    if not mask.any():
        return data
    dtype = float_dtype(data.dtype)
    out: npt.NDArray[Any] = data.astype(object if dtype is None else dtype)
    out[mask] = None if dtype is None else np.nan
    return out


def to_floats(values: npt.NDArray[Any], name: str, hint: str) -> Floats:
    """`values` (any shape) as float32 or float64 of the same shape, native byte order, missing cells as NaN.

    No copy when they are that already. `name` says whose cells these are ("X", "y", "column 'age' of X") and `hint`
    what to do about text; both go into the error for a cell that is no number.
    """
    kind = values.dtype.kind
    dtype = float_dtype(values.dtype)
    if dtype is not None:
        # errstate: a longdouble beyond float64 becomes inf, which is a legal value of a column.
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dtype, copy=False)
    if kind == "O":
        return _objects_to_floats(values, name, hint)
    if kind == "V":
        raise InputTypeError(
            f"{name} is a structured array (dtype {values.dtype}); pass a frame, for example pandas.DataFrame({name}), "
            "or a plain 2-D array of numbers."
        )
    first = (0,) * values.ndim
    if values.size == 0:
        raise InputTypeError(f"{name} has dtype {values.dtype}; it must hold numbers.")
    _reject(values[first], _place(name, first), hint)


def _objects_to_floats(values: npt.NDArray[Any], name: str, hint: str) -> Floats:
    """An object array as float64 if every cell is a number or missing; text that looks like a number is still text."""
    # Judging the set of types costs 30 ns a cell; `astype` alone would silently read the string "1.5" as 1.5.
    kinds = set(map(type, values.flat))
    if wrong := {kind for kind in kinds if not (is_missing(kind) or _is_number(kind))}:
        index, cell = next((index, cell) for index, cell in np.ndenumerate(values) if type(cell) in wrong)
        _reject(cell, _place(name, index), hint)
    if any(kind.__name__ == "NAType" for kind in kinds):
        # astype reads None as NaN, but pandas.NA refuses float().
        absent = np.array([is_missing(type(cell)) for cell in values.flat], dtype=bool).reshape(values.shape)
        values = values.copy()
        values[absent] = None
    try:
        return values.astype(np.float64)
    except OverflowError as error:
        raise InputError(f"{name} holds an integer beyond float64's range of 1.8e308; rescale it.") from error
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{name} holds a cell that is no number: {error}.") from error


def _is_number(kind: type) -> bool:
    """Whether cells of this Python type convert with float() and mean a real number."""
    return not issubclass(kind, _NOT_NUMBERS) and (hasattr(kind, "__float__") or hasattr(kind, "__index__"))


def _place(name: str, index: tuple[int, ...]) -> str:
    """Where a cell is, in words."""
    if len(index) == 2:
        return f"row {index[0]}, column {index[1]} of {name}"
    return f"row {index[0]} of {name}" if len(index) == 1 else name


def _reject(cell: object, place: str, hint: str) -> NoReturn:
    """Raise the error that fits a cell which is no real number."""
    shown = short_repr(cell.item() if isinstance(cell, np.str_ | np.bytes_ | np.complexfloating) else cell)
    if isinstance(cell, complex | np.complexfloating):
        raise InputError(f"Complex data not supported: {place} is {shown}. Pass real and imaginary parts separately.")
    if isinstance(cell, str | bytes):
        raise InputError(f"could not convert string to float: {place} is {shown}. {hint}")
    if isinstance(cell, np.datetime64 | np.timedelta64) or hasattr(cell, "isoformat") or hasattr(cell, "total_seconds"):
        raise InputTypeError(
            f"{place} is a date or time ({cell}); turn it into numbers first, for example the year, the month, the "
            "weekday, or the days since a fixed date."
        )
    # The first words are Python's own and scikit-learn's check_dtype_object looks for them.
    raise InputTypeError(
        f"float() argument must be a string or a real number, not {type(cell).__name__!r}: {place} is {shown}. Every "
        "cell must be a number, or None or NaN where it is missing."
    )
