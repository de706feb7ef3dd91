"""A second process that compiles growth while the first one reads and bins the table, where nothing is compiled yet.

Of the 11 s that a first fit compiles, `grow` takes more than half, and Numba compiles one kernel at a time. So another
process compiles it into the cache, and who needs it meanwhile waits for that process instead of compiling too.
Nothing depends on it: where it cannot be started, dies or compiles something else, the fit compiles by itself.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from stagewise.kernels.cache import KernelCache, announce
from stagewise.kernels.grow import grow
from stagewise.kernels.jit import KNOWN
from stagewise.params import TreeParams

__all__ = ["compile_growth", "send_ahead"]

PATIENCE = 120.0
"""Seconds to wait for the process before compiling by oneself after all."""

_BOOT = (
    "import json, sys; path, extras = json.loads(sys.argv[1]); sys.path[:] = path; "
    "from stagewise.backends.forerunner import compile_growth; compile_growth(extras)"
)

_lock = threading.Lock()
_asked = False


def send_ahead(tree: TreeParams, in_sets: np.ndarray, cores: int) -> None:
    """Have growth compiled by another process, if that is missing and two cores may be used.

    in_sets: bool (n_columns), the columns of categories. Whether the table has bundles is not known yet (see
    `kernels.grow.extras_of`); a wrong guess costs nothing but that process's work. STAGEWISE_COMPILE_AHEAD=0 keeps
    everything in one process.
    """
    global _asked
    with _lock:
        if _asked or cores < 2 or tree.growth == "symmetric":
            return
        _asked = True
    extras = bool(in_sets.any()) or tree.split_columns < min(tree.tree_columns, len(in_sets))
    if not (_possible() and _missing(extras)):
        return
    job = json.dumps([[str(entry) for entry in sys.path], extras])
    with suppress(OSError, ValueError):  # no processes here: compile by oneself
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, job],
            stdin=subprocess.PIPE,  # its other end closes with this process, however that ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"STAGEWISE_COMPILE_AHEAD": "0"},
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        Forerunner(process, extras)


def _possible() -> bool:
    """Whether this is a plain Python that may start another one, and knows how to wait for it."""
    return (
        KNOWN
        and isinstance(grow._cache, KernelCache)  # type: ignore[attr-defined]  # a dispatcher; other: nothing is kept
        and os.environ.get("STAGEWISE_COMPILE_AHEAD", "1") != "0"
        and not getattr(sys, "frozen", False)
        and "python" in Path(sys.executable or "").name.lower()
        and multiprocessing.parent_process() is None  # workers are many already
    )


def _missing(extras: bool) -> bool:
    context = grow.targetctx  # type: ignore[attr-defined]
    machine = context.codegen().magic_tuple()
    kept = grow._cache._cache_file._load_index()  # type: ignore[attr-defined]
    return not any(_needs_extras(signature) == extras and by == machine for signature, by, _ in kept)


def _needs_extras(signature: Any) -> bool:
    return str(signature[-1]) != "none"


class Forerunner:
    """The process, as the kernel that it compiles knows it."""

    def __init__(self, process: subprocess.Popen[bytes], extras: bool) -> None:
        self.process, self.extras, self.owner = process, extras, os.getpid()
        atexit.register(self.end)
        grow._cache.elsewhere = self.wait  # type: ignore[attr-defined]

    def wait(self, signature: Any) -> None:
        """Until the kernel with this signature is in the cache, or will not be."""
        if _needs_extras(signature) != self.extras or os.getpid() != self.owner:
            return
        announce.begin()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            announce.end()
        self.end()

    def end(self) -> None:
        """Leave no process behind."""
        atexit.unregister(self.end)
        if os.getpid() != self.owner:  # a fork: not its process
            return
        grow._cache.elsewhere = None  # type: ignore[attr-defined]
        self.process.kill()
        self.process.wait()
        with suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]  # it was asked for


# --- in the other process ---------------------------------------------------------------------------------------------


def compile_growth(extras: bool) -> None:
    """Compile `grow` into the cache, and end the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, with which this one ends
    threading.Thread(target=_end_with_parent, daemon=True).start()
    announce.silent = True
    grow.compile(growth_types(extras))  # type: ignore[attr-defined]
    os._exit(0)


def _end_with_parent() -> None:
    os.read(0, 1)  # nothing is ever written: it returns when the other end is closed
    os._exit(1)


def growth_types(extras: bool) -> tuple[Any, ...]:
    """The types of the arguments with which a fit calls `grow`: those of a call on a small table, which is not made."""
    from stagewise.backends.cpu import CpuBackend
    from stagewise.kernels.exact import packing
    from stagewise.kernels.histogram import Bins

    seen: list[Any] = []

    def catch(function: Any, *args: Any) -> None:
        seen.extend(args)
        raise StopIteration

    bins = Bins(np.zeros(64 * 4, np.uint8), np.zeros((1, 64), np.uint8), np.ones(1, np.int64), 4)
    with CpuBackend(bins, 64, (np.zeros(1),), TreeParams(), 1) as backend:
        backend.team.run = catch  # type: ignore[assignment, method-assign]
        with suppress(StopIteration):
            backend.grow(packing(1.0, 1.0, 64), np.empty(0, np.uint32), None, np.uint64(0))
    seen[-1] = True if extras else None
    return tuple(grow.typeof_pyval(value) for value in (0, 1, *seen))  # type: ignore[attr-defined]
