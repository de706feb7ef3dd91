"""Reading and writing whole files. A file is replaced in one step or not at all, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from stagewise.errors import InputError

__all__ = ["STALE", "read_file", "replace_file", "replacing"]

STALE = ".tmp"
"""Ending of a file that is being written. One that a killed process left can be removed."""


def read_file(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a regular file; a device or a pipe could be endless."""
    with open(path, "rb") as file:  # noqa: PTH123  the descriptor that is checked must be the one that is read
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{os.fspath(path)} is not a regular file; give the path of a saved model.")
        return file.read()


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` beside `path`, make it durable and move it there.

    Readers see the old file or the new one, never a part; so do two processes that write at once. When anything fails
    (a full disk, a quota) the old file is as it was and the new one is gone. A link is followed, not replaced.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError(f"{os.fspath(path)} is a folder; name a file in it.")
    beside = target.parent / f".{target.name}.{secrets.token_hex(8)}{STALE}"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            with contextlib.suppress(FileNotFoundError, PermissionError, NotImplementedError):
                os.chmod(beside, stat.S_IMODE(target.stat().st_mode))  # noqa: PTH101  keep the old one's permissions
            os.fsync(handle)
        finally:
            os.close(handle)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside `path` to write a file to, piece by piece; when the block ends without an error it is made durable
    and moved there, else it is removed and what was there stays."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError(f"{os.fspath(path)} is a folder; name a file in it.")
    beside = target.parent / f".{target.name}.{secrets.token_hex(8)}{STALE}"
    try:
        yield beside
        with open(beside, "rb") as file:  # noqa: PTH123
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable. Some systems cannot open a folder; there the name is as durable as they make it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
