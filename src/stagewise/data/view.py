"""Row numbers of a subset: what a user may pass, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.errors import InputError

__all__ = ["read_rows"]


def read_rows(rows: Any, n_rows: int) -> np.ndarray:
    """Row numbers as uint32, in the order given: from whole numbers 0 .. n_rows - 1, each at most once, or a mask."""
    given = np.asarray(rows)
    if given.ndim != 1:
        raise InputError(
            f"rows of shape {given.shape} must be one list of row numbers, or a mask of {n_rows} booleans."
        )
    if given.dtype == np.bool_:
        if len(given) != n_rows:
            raise InputError(f"rows is a mask of {len(given)} booleans, but the Dataset has {n_rows} rows.")
        given = np.flatnonzero(given)
    if len(given) == 0:
        raise InputError("rows is empty; a subset needs at least one row.")
    if given.dtype.kind not in "iu":
        raise InputError(f"rows of dtype {given.dtype} must be whole numbers, or a mask of booleans.")
    least, most = int(given.min()), int(given.max())
    if least < 0 or most >= n_rows:
        raise InputError(
            f"rows contains {least if least < 0 else most}, but the rows of this Dataset are 0 to {n_rows - 1}."
        )
    once = np.zeros(n_rows, np.bool_)
    once[given] = True
    if int(once.sum()) < len(given):
        raise InputError(
            "rows names a row more than once; a subset is a view, in which a row is or is not. To draw rows with "
            "replacement, give their counts as sample_weight."
        )
    return given.astype(np.uint32)
