"""What goes with the rows of a table: targets, class labels, weights and starting scores.

Every array handed out is fresh, C-contiguous and writable: the user's own is never touched, later changes of it do not
reach the model, and kernels see one kind of array. (Copying 1 M values costs 1 ms.)
"""

from __future__ import annotations

import numbers
import re
import warnings
from collections.abc import Iterable
from itertools import repeat
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stagewise.data.cells import is_missing, is_sparse, to_floats, unmask
from stagewise.data.frame import open_native
from stagewise.data.labels import Labels
from stagewise.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from stagewise.data.frame import Column

__all__ = [
    "check_finite",
    "class_numbers",
    "encode_labels",
    "plain_numbers",
    "read_init_score",
    "read_labels",
    "read_piece",
    "read_target",
    "read_weights",
    "take_rows",
    "tally_labels",
]

_TARGET_HINT = "A regression target must hold numbers; to predict class labels, use a classifier."
_NUMBER_HINT = "Numbers are needed here."
_SHOWN = 5
_CLOSE = 1 << 16


def read_target(y: object, n_rows: int) -> npt.NDArray[np.float64]:
    """A regression target: n_rows finite numbers, as float64 (n_rows,). A single column is taken with a warning.

    It is y itself where that will do, and so only to be read. (Kernels take arrays that could be written to: for others
    they would be compiled again.)
    """
    values = _read_vector(y, n_rows)
    out = np.require(to_floats(values, "y", _TARGET_HINT), np.float64, ("C", "A", "W", "E"))
    check_finite(out, "y")
    return out


def read_labels(y: object, n_rows: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Class labels: strings, booleans, integers, or floats with integer values; none may be missing.

    Returns (classes, codes): the K >= 2 distinct labels in the order of np.unique, (K,), and for each row the position
    of its label among them, (n_rows,).
    """
    if isinstance(y, Labels) and len(y) == n_rows:
        classes, codes = y.seen()
        if len(classes) > 1:
            return classes, codes.astype(np.int64)
    labels = _read_label_array(y, n_rows)
    if labels.dtype.kind == "f" and np.any(labels != np.rint(labels)):
        raise InputError(
            "Unknown label type: continuous. Maybe you are trying to fit a classifier, which expects discrete classes "
            "on a regression target with continuous values."
        )
    classes = _distinct(labels)
    if len(classes) < 2:
        only = short_repr(classes.tolist()[0])
        raise InputError(f"y contains one class only ({only}); a classifier needs at least two classes.")
    codes, _ = _match(labels, classes)
    return classes, codes


def class_numbers(codes: npt.NDArray[np.int64], n_classes: int) -> npt.NDArray[Any]:
    """Positions among the classes as losses take them: bytes, where these suffice."""
    return codes.astype(np.uint8 if n_classes <= 256 else np.float64)


def read_piece(values: object, n_rows: int, name: str, first: int) -> npt.NDArray[Any]:
    """The values (n_rows,) of some rows, of which `first` is the number of the first; none is missing."""
    if values is None:
        raise InputError(f"{name} came with earlier batches, but not with the rows from {first} on.")
    try:
        return _read_vector(values, n_rows)
    except InputError as error:
        row = re.search(r"The first is in row (\d+);", str(error))
        if row is None:
            raise
        raise InputError(_say_not_finite(name, "NaN", first + int(row[1]))) from error


def plain_numbers(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """An object array (n_rows,) of truth values, integers or other numbers as the NumPy kind of these."""
    kinds = set(map(type, values))
    if all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return values.astype(np.bool_)
    if all(issubclass(kind, numbers.Integral) for kind in kinds):
        integers: npt.NDArray[Any] = np.array(values.tolist())
        if integers.dtype.kind in "iu":  # not beyond 64 bits
            return integers
    return to_floats(values, name, _NUMBER_HINT)


def tally_labels(
    y: object, n_rows: int, weight: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct labels of a part of a table (there may be one only), how many rows each has, and how many of those
    have a positive weight: what the classes of a table in parts are found from."""
    labels = _read_label_array(y, n_rows)
    classes = _distinct(labels)
    codes, _ = _match(labels, classes)
    heavy = codes if weight is None else codes[weight > 0.0]
    return classes, np.bincount(codes, minlength=len(classes)), np.bincount(heavy, minlength=len(classes))


def encode_labels(y: object, classes: npt.NDArray[Any], n_rows: int) -> npt.NDArray[np.int64]:
    """The positions (n_rows,) of labels among known `classes` (K,), sorted, as `read_labels` gave them. A label that
    is not among them is an error."""
    labels = _read_label_array(y, n_rows)
    codes, known = _match(labels, classes)
    if not known.all():
        unknown = list(dict.fromkeys(labels[~known].tolist()))
        raise InputError(
            f"y contains labels that were not seen during fit: {_say_some(unknown)}. The known classes are "
            f"{_say_some(classes.tolist())}."
        )
    return codes


def read_weights(sample_weight: object, n_rows: int) -> npt.NDArray[np.float64] | None:
    """Row weights as float64 (n_rows,): finite, none negative, not all zero. One number stands for n_rows of it; None
    stays None (no weights), and weights of 1.0 stay weights."""
    name = "sample_weight"
    if sample_weight is None:
        return None
    values = _read_array(sample_weight, name)
    if values.ndim == 0:
        values = np.full(n_rows, values[()])
    if values.ndim != 1:
        raise InputError(
            f"Sample weights must be 1D array or scalar, got {values.ndim}D array. Expected either a scalar value or a "
            f"1D array of length {n_rows}."
        )
    if len(values) != n_rows:
        raise InputError(f"sample_weight.shape == {values.shape}, expected ({n_rows},): one weight a row of X.")
    out = np.array(to_floats(values, name, _NUMBER_HINT), dtype=np.float64, order="C")
    check_finite(out, name)
    if np.any(out < 0.0):
        row = int(np.argmax(out < 0.0))
        raise InputError(
            f"Negative values in data passed to `sample_weight`: the first is {out[row]} in row {row}. Weights must be "
            "zero or more."
        )
    if not np.any(out):
        raise InputError("Sample weights must contain at least one non-zero number: all weights are zero.")
    return out


def read_init_score(init_score: object, n_rows: int, n_outputs: int) -> npt.NDArray[np.float64] | None:
    """Raw scores to start boosting from, as float64 (n_outputs, n_rows), finite; None stays None.

    Given as `decision_function` returns them: (n_rows,) for one output, (n_rows, n_outputs) for several. One number
    stands for that score everywhere.
    """
    name = "init_score"
    if init_score is None:
        return None
    values = _read_array(init_score, name)
    if values.ndim == 1 and n_outputs == 1:
        values = values[:, np.newaxis]
    if values.ndim == 0:
        values = np.full((n_rows, n_outputs), values[()])
    if values.shape != (n_rows, n_outputs):
        wanted = f"({n_rows},)" if n_outputs == 1 else f"({n_rows}, {n_outputs})"
        raise InputError(f"init_score has shape {values.shape}, expected {wanted}: the raw score of each row of X.")
    out = np.array(to_floats(values, name, _NUMBER_HINT).T, dtype=np.float64, order="C")
    check_finite(out.T, name)
    return out


def take_rows(y: object, rows: npt.NDArray[np.uint32], n_rows: int) -> npt.NDArray[Any]:
    """The entries of y (n_rows,), of any kind, that belong to these rows."""
    values = _read_array(y, "y")
    if values.ndim == 0 or len(values) != n_rows:
        raise InputError(f"y has shape {values.shape}, but the Dataset has {n_rows} rows; give one entry a row.")
    taken: npt.NDArray[Any] = values[rows]
    return taken


def _read_vector(y: object, n_rows: int) -> npt.NDArray[Any]:
    """`y` as an array (n_rows,) of any dtype, with scikit-learn's errors for all that is no such thing."""
    if y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    values = _read_array(y, "y")
    if values.ndim == 2 and values.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning  # here, because scikit-learn takes a second to import

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, ), "
            "for example using ravel().",
            DataConversionWarning,
            stacklevel=3,
        )
        values = values[:, 0]
    if values.ndim != 1:
        more = " Several targets at once are not supported: fit one model for each." if values.ndim == 2 else ""
        raise InputError(f"y should be a 1d array, got an array of shape {values.shape} instead.{more}")
    if len(values) != n_rows:
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: [{n_rows}, {len(values)}]; X and y must have "
            "the same number of rows."
        )
    return values


def _read_array(data: object, name: str) -> npt.NDArray[Any]:
    """An array, list, series or frame as a plain array of any dtype and shape; nulls of a series are an error."""
    opened = open_native(data, name)
    if opened is not None:
        import narwhals as nw

        if isinstance(opened, nw.Series):
            return _read_column(opened, name)
        columns = [_read_column(column, name) for column in opened.iter_columns()]
        return np.column_stack(columns) if columns else np.empty(opened.shape)
    if isinstance(data, np.ma.MaskedArray):
        return unmask(data)
    if is_sparse(data):
        raise InputTypeError(f"Sparse data was passed for {name}, but a dense 1-D array is required.")
    try:
        values = np.asarray(data)
        if values.dtype.kind in "US" and not hasattr(data, "dtype"):
            # A list of strings, or one of strings and numbers that NumPy made strings: look at what was there.
            cells = np.array(data, dtype=object)
            values = values if all(isinstance(cell, str) for cell in cells.flat) else cells
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputTypeError(f"{name} ({type(data).__name__}) cannot be read as an array: {error}") from error
    return values


def _read_column(column: Column, name: str) -> npt.NDArray[Any]:
    """One narwhals series (n_rows,) as an array of any dtype. Nulls go first: as an array, an Arrow dictionary with
    nulls shows a neighbour's value in their place (narwhals 2.28, pyarrow 26)."""
    import narwhals as nw

    if column.null_count() > 0:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise InputError(_say_not_finite(name, "NaN", row))
    if column.dtype in (nw.Int128, nw.UInt128):
        column = column.cast(nw.Float64)  # NumPy has no such integers
    values: npt.NDArray[Any] = column.to_numpy()
    return values


def _read_label_array(y: object, n_rows: int) -> npt.NDArray[Any]:
    """Labels (n_rows,) as one of: booleans, integers, finite floats, NumPy strings, objects that are all str."""
    values = _read_vector(y, n_rows)
    if values.dtype.kind == "T":
        values = values.astype(object)
    if values.dtype.kind == "O":
        values = _plain_labels(values)
    if values.dtype.kind == "c":
        raise InputError(f"Complex data not supported: y has dtype {values.dtype}.")
    if values.dtype.kind not in "biufUO":
        raise InputTypeError(
            f"Unknown label type: {values.dtype}. Labels are strings, integers or booleans: convert y, for example "
            "with y.astype(str)."
        )
    if values.dtype.kind == "f":
        check_finite(values, "y")
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _plain_labels(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An object array (n_rows,) of labels of one kind: as it is if they are strings, else as that NumPy kind."""
    kinds = set(map(type, values))
    if any(is_missing(kind) or issubclass(kind, float | np.floating) for kind in kinds):
        # x != x is NaN among floats.
        gaps = [is_missing(type(cell)) or (isinstance(cell, float | np.floating) and cell != cell) for cell in values]
        if any(gaps):
            raise InputError(_say_not_finite("y", "NaN", gaps.index(True)))
    if all(issubclass(kind, str) for kind in kinds):
        return values
    if all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return values.astype(np.bool_)
    if all(issubclass(kind, numbers.Integral | np.bool_) for kind in kinds):
        integers: npt.NDArray[Any] = np.array(values.tolist())
        if integers.dtype.kind in "iu":  # beyond 64 bits they stay objects, and floats could merge two labels
            return integers
    elif all(issubclass(kind, numbers.Real | np.bool_) for kind in kinds):
        return values.astype(np.float64)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    if any(issubclass(kind, str) for kind in kinds):
        raise InputTypeError(f"y mixes labels of different types ({names}); convert them all, with y.astype(str).")
    raise InputTypeError(
        f"Unknown label type: {names}. Labels are strings, booleans or integers of at most 64 bits: convert y, for "
        "example with y.astype(str)."
    )


def _distinct(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """np.unique, faster: 1 M strings of an object array take 0.05 s instead of 0.7 by hashing, and 1 M whole numbers
    that lie close together 3 ms instead of 17 by counting."""
    if labels.dtype.kind in "UO":
        return np.array(sorted(set(labels.tolist())), dtype=labels.dtype)
    if labels.dtype.kind in "iu" and len(labels):
        low = labels.min()
        if int(labels.max()) - int(low) < _CLOSE:
            found = np.flatnonzero(np.bincount(_above(labels, low))).astype(labels.dtype)
            found += low  # wraps around to where it belongs, if it does
            return found
    return np.unique(labels)


def _above(labels: npt.NDArray[Any], low: Any) -> npt.NDArray[np.int64]:
    """labels - low, integers of one type, where that fits into 64 bits; a negative number where it does not."""
    if labels.dtype.itemsize < 8:
        labels, low = labels.astype(np.int64), np.int64(low)
    result: npt.NDArray[np.int64] = (labels - low).astype(np.int64, copy=False)  # wraps around, one to one
    return result


def _match(labels: npt.NDArray[Any], classes: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """(codes, known), each (n_rows,): the position of each label among the sorted `classes`, and whether it is there
    at all (where it is not, the code means nothing)."""
    text = labels.dtype.kind in "UO"
    if text != (classes.dtype.kind in "UO"):
        return np.zeros(len(labels), np.int64), np.zeros(len(labels), np.bool_)
    if text:
        position = {label: code for code, label in enumerate(classes.tolist())}
        found = np.fromiter(map(position.get, labels.tolist(), repeat(-1)), np.int64, len(labels))
        return found, found >= 0
    if labels.dtype == classes.dtype and labels.dtype.kind in "iu" and _without_gaps(classes):
        codes = _above(labels, classes[0])
        return codes, (codes >= 0) & (codes < len(classes))
    codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1).astype(np.int64)
    return codes, classes[codes] == labels


def _without_gaps(classes: npt.NDArray[Any]) -> bool:
    """Whether sorted whole numbers follow each other: 0, 1, 2 ..."""
    return len(classes) > 0 and int(classes[-1]) - int(classes[0]) == len(classes) - 1


def check_finite(values: npt.NDArray[Any], name: str) -> None:
    """Raise scikit-learn's errors if any value is NaN or infinite. values: (n_rows,) or (n_rows, n_outputs)."""
    finite = np.isfinite(values)
    if finite.all():
        return
    missing = np.isnan(values)
    bad = missing if missing.any() else ~finite
    what = "NaN" if missing.any() else f"infinity or a value too large for {values.dtype!r}"
    raise InputError(_say_not_finite(name, what, int(np.argwhere(bad)[0, 0])))


def _say_not_finite(name: str, what: str, row: int) -> str:
    """The message for a value that is missing or infinite; the first sentence is scikit-learn's."""
    return f"Input {name} contains {what}. The first is in row {row}; drop such rows or replace the values."


def _say_some(values: Iterable[object]) -> str:
    """The first few values, and how many more there are."""
    shown = [repr(value) for value in values]
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")
