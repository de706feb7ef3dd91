"""Files mapped into memory: the system reads pages when they are looked at, and drops them when memory is short."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["is_mapped", "map_bytes", "map_open_file", "map_values", "release"]


class _Pages:
    """Mapped pages as NumPy sees them. It keeps the mapping alive as long as an array is made of it."""

    def __init__(self, pages: mmap.mmap, length: int) -> None:
        self.pages = pages
        address = np.frombuffer(pages, np.uint8).ctypes.data
        # False: "not read-only". Numba compiles a kernel anew for read-only arrays, and kernels shall not be able to
        # tell where bins are. The pages themselves are protected: a write to them ends the process.
        self.__array_interface__ = {"data": (address, False), "shape": (length,), "typestr": "|u1", "version": 3}


def map_bytes(path: str | os.PathLike[str], length: int) -> np.ndarray:
    """The first `length` bytes (at least one) of a file as uint8, for kernels that only read them.

    They count neither as this process's data nor as its anonymous memory. The file may be unlinked meanwhile.
    """
    with open(path, "rb") as file:  # noqa: PTH123
        return map_open_file(file.fileno(), length)


def map_open_file(handle: int, length: int) -> np.ndarray:
    """The same for a file that is open; it may be closed meanwhile."""
    return np.asarray(_Pages(mmap.mmap(handle, length, access=mmap.ACCESS_READ), length))


def _origin(values: np.ndarray) -> _Pages | None:
    base: Any = values
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, _Pages) else None


def is_mapped(values: np.ndarray) -> bool:
    """Whether an array, or what it is a view of, was made by `map_bytes`."""
    return _origin(values) is not None


def release(values: np.ndarray) -> None:
    """Take the pages of a mapped array off this process's account. The system keeps them while it has room, and whoever
    reads on, also at this moment, gets them back: only who counts the memory of processes sees a difference."""
    origin = _origin(values)
    if origin is not None and hasattr(mmap, "MADV_DONTNEED"):
        origin.pages.madvise(mmap.MADV_DONTNEED)


def map_values(path: str | os.PathLike[str], dtype: np.dtype[Any], length: int) -> np.ndarray:
    """A file of `length` numbers as a read-only array."""
    values = np.memmap(Path(path), dtype, "r", shape=(length,))
    return values.view(np.ndarray)
