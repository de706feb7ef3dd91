"""Where a worker keeps bin codes: in memory while they fit comfortably, else in nameless files that it maps.

Dask ends a worker whose process takes 95 % of its memory limit, and gives it no more work at 80 %. Pages of mapped
files count as the process's own once they have been read, although the system can have them back at any time; so while
codes are mapped, a thread takes them off the account whenever the process comes near its limit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType

import numpy as np
from distributed import Worker, get_worker

from stagewise.data.arrow import rows_of
from stagewise.data.memory import free_bytes
from stagewise.errors import InputError
from stagewise.storage.mapping import is_mapped, release
from stagewise.storage.scratch import Scratch

__all__ = ["Keeper", "Room", "check_rows"]

COMFORT = 0.6
"""The share of a worker's memory limit that we use; beyond it Dask itself begins to write to disk."""

_LOOK = 0.05
"""Seconds between two looks at the process's memory. A fast disk brings some 100 MB in that time."""


class Room:
    """The memory and the disk of a worker: by default of the one whose task this is."""

    def __init__(self, worker: Worker | None = None) -> None:
        if worker is None:
            try:
                worker = get_worker()
            except ValueError:  # Dask reads back what it has spilled, outside of any task
                worker = next(iter(Worker._instances), None)
        self.worker = worker
        self.address = "here" if worker is None else worker.address
        self.folder: str | None = None if worker is None else worker.local_directory
        self.limit: int | None = None if worker is None else worker.memory_manager.memory_limit
        if self.limit is None:
            free = free_bytes()
            self.limit = None if free is None else free + self.taken()

    def taken(self) -> int:
        """Bytes of the process, as Dask counts them."""
        return 0 if self.worker is None else int(self.worker.monitor.get_process_memory())

    def fits(self, size: int) -> bool:
        """Whether there is room for so many bytes more."""
        return self.limit is None or self.taken() + size <= COMFORT * self.limit

    def batch_rows(self, width: int) -> int:
        """Rows of a batch of so many columns. It is in memory a few times, and so is what Arrow reads it from."""
        return rows_of(width) if self.limit is None else max(1 << 8, min(rows_of(width), self.limit // (512 * width)))

    def file(self, size: int) -> Scratch:
        """A file on this worker's disk."""
        return Scratch(self.folder, size)

    def on_disk(self, codes: Iterable[np.ndarray], n_columns: int, n_rows: int) -> np.ndarray:
        """Mapped codes (n_columns, n_rows), from those of batches of rows one after the other."""
        if n_columns * n_rows == 0:
            return np.empty((n_columns, n_rows), np.uint8)
        at = 0
        with self.file(n_columns * n_rows) as file:
            for own in codes:
                check_rows(at + own.shape[1], n_rows, last=False)
                for j in range(n_columns):
                    file.write(j * n_rows + at, own[j])
                at += own.shape[1]
                release(own)
            check_rows(at, n_rows)
            return file.mapped().reshape(n_columns, n_rows)


def check_rows(now: int, before: int, last: bool = True) -> None:
    """Raise InputError when a partition that is read again has other rows than before."""
    if now > before or (last and now < before):
        raise InputError(
            f"A partition had {before:,} rows when it was looked at, and has {now:,} when it is read again; train on "
            "data that do not change meanwhile."
        )


class Keeper:
    """While it is entered, pages of these arrays leave the process's account when that comes near the limit."""

    def __init__(self, room: Room, arrays: Iterable[np.ndarray]) -> None:
        self.room, self.arrays = room, [own for own in arrays if is_mapped(own)]
        self._over = threading.Event()

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            if not self.room.fits(0):
                for own in self.arrays:
                    release(own)

    def __enter__(self) -> Keeper:
        if self.arrays:
            threading.Thread(target=self._look, daemon=True, name="stagewise-keeper").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
