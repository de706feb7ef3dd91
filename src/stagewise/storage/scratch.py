"""Files without a name: written once, in any order, then mapped; gone with the last array that is made of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

import numpy as np

from stagewise.storage.mapping import map_open_file

__all__ = ["Scratch"]


class Scratch:
    """A file of `size` bytes (at least one) in a folder, by default that of the system for temporary files.

    A context manager: it is closed with it, and lives on in what was mapped. Nothing stays behind, even when the
    process is killed.
    """

    def __init__(self, folder: str | None, size: int) -> None:
        self.folder, self.size = folder or tempfile.gettempdir(), size
        self._file: Any = tempfile.TemporaryFile(prefix="stagewise-", dir=self.folder, buffering=0)  # noqa: SIM115  closed by __exit__
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, size)  # a disk that is too small says so now
            else:
                self._file.truncate(size)
        except OSError as error:
            self._file.close()
            free = shutil.disk_usage(self.folder).free
            raise OSError(
                error.errno,
                f"{size / 2**20:,.0f} MiB are needed in {self.folder}, and {free / 2**20:,.0f} MiB are free",
            ) from error

    def write(self, at: int, values: np.ndarray) -> None:
        """The bytes of an array, from byte `at` on."""
        view = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        self._file.seek(at)
        while view:
            view = view[self._file.write(view) :]

    def mapped(self) -> np.ndarray:
        """What was written, uint8, for kernels that only read it."""
        return map_open_file(self._file.fileno(), self.size)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
