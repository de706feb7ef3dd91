"""Bins with other codes in some columns."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

import numpy as np

from stagewise.kernels.binning import aligned_bytes, interleave
from stagewise.kernels.histogram import Bins
from stagewise.kernels.team import Team
from stagewise.storage.mapping import is_mapped, map_open_file

__all__ = ["with_codes"]

_AT_ONCE = 1 << 24  # bytes


def with_codes(bins: Bins, changed: Mapping[int, np.ndarray], n_bins: np.ndarray, n_threads: int) -> Bins:
    """A copy in which the columns of `changed` have these codes (uint8, n_rows).

    In memory if the bins are; if they are mapped, in nameless files in the system's folder for temporary files.
    """
    if is_mapped(bins.by_row):
        return bins._replace(by_row=_new_rows(bins, changed), by_column=_new_columns(bins, changed), n_bins=n_bins)
    by_column = bins.by_column.copy()
    for j, codes in changed.items():
        by_column[j] = codes
    by_row = aligned_bytes(bins.by_row.size)
    with Team(n_threads if by_row.size >= 50_000 else 1) as team:
        team.run(interleave, by_column, bins.stride, by_row)
    return bins._replace(by_row=by_row, by_column=by_column, n_bins=n_bins)


def _new_rows(bins: Bins, changed: Mapping[int, np.ndarray]) -> np.ndarray:
    stride, n = bins.stride, bins.by_column.shape[1]
    most = max(1, _AT_ONCE // stride)
    with tempfile.TemporaryFile() as file:
        for start in range(0, n, most):
            stop = min(n, start + most)
            block = bins.by_row[start * stride : stop * stride].copy().reshape(-1, stride)
            for j, codes in changed.items():
                block[:, j] = codes[start:stop]
            file.write(block.data)
        file.flush()
        return map_open_file(file.fileno(), n * stride)


def _new_columns(bins: Bins, changed: Mapping[int, np.ndarray]) -> np.ndarray:
    f, n = bins.by_column.shape
    with tempfile.TemporaryFile() as file:
        for j in range(f):
            own = np.ascontiguousarray(changed.get(j, bins.by_column[j]))
            for start in range(0, n, _AT_ONCE):
                file.write(own[start : start + _AT_ONCE].data)
        file.flush()
        return map_open_file(file.fileno(), f * n).reshape(f, n)
