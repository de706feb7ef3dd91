"""A lock that several processes respect, and that ends with the process that holds it, however that ends."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

__all__ = ["only_one"]

_EVERY = 0.1
_PATIENCE = 1.0
"""Seconds between two attempts, and before a waiting process says for whom it waits."""


def _take(handle: int) -> bool:
    """Whether this handle has the lock now. The system releases it when the handle is closed or the process dies."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether the path still names this file: the holder before may have removed it."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False


@contextlib.contextmanager
def only_one(path: Path, doing: str) -> Iterator[bool]:
    """Hold the lock file `path`; waits, and says so, while another process holds it. Gives whether it had to wait.

    doing: what the holder does, for the message. The file is gone afterwards.
    """
    began, told, waited = time.monotonic(), False, False
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if _take(handle):
            if _is_at(handle, path):
                break
            os.close(handle)
            continue
        waited = True
        holder = os.read(handle, 100).decode("ascii", "replace").strip() or "another process"
        os.close(handle)
        if not told and time.monotonic() - began > _PATIENCE:
            warnings.warn(f"Waiting for {holder}, which is {doing}.", stacklevel=3)
            told = True
        time.sleep(_EVERY)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()}".encode("ascii"))
        yield waited
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
