"""Room in memory, asked for before a large array is made: a process that takes too much is killed without a word."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from stagewise.errors import InputError

__all__ = ["check_room", "free_bytes", "give_back"]

_SMALL = 1 << 28
"""Below this nobody asks."""


def free_bytes() -> int | None:
    """Memory that this process can still have, by the system's own account; None where it does not say."""
    found: list[int] = []
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024 * int(line.split()[1]))
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        if limit != "max":
            used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
            found.append(max(0, int(limit) - used))
    except (OSError, ValueError, IndexError):
        pass
    return min(found) if found else None


def check_room(size: int, what: str) -> None:
    """Raise InputError when `size` bytes are more than there are. what: who needs them, to begin the message with."""
    if size < _SMALL:
        return
    free = free_bytes()
    if free is not None and size > free:
        raise InputError(
            f"{what} would take {size / 2**30:,.1f} GiB, but {free / 2**30:,.1f} GiB of memory are free; use fewer "
            "rows or columns (drop those with few non-zero values), or a machine with more memory."
        )


def give_back() -> None:
    """Batches leave many free pieces of the heap, which glibc keeps until it is asked: a fit needs the room."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
