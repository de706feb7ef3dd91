"""Compiled kernels on disk, and a word to whoever waits while they are made.

Numba keeps compiled functions beside the sources, or in the user's cache folder where the package is read-only. Here
its files are made safe: they carry a stamp over all kernel sources, so nothing stale is even opened; a checksum, so a
file that was cut short or damaged is compiled anew instead of being run; and a disk that is full or read-only costs
time, never a fit.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

__all__ = ["KernelCache", "KernelFile", "Notice", "STAMP", "announce"]


def _sources_stamp() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


STAMP = _sources_stamp()
"""Of every file of this package: Numba itself looks at the file of the kernel alone, not at what it calls."""


class KernelFile(IndexDataCacheFile):  # type: ignore[misc]  # numba is not typed
    """The cache files of one kernel."""

    def __init__(self, plain: IndexDataCacheFile, form: str) -> None:
        """form: how kernels are kept in them; whoever keeps them in another way finds nothing here."""
        self.__dict__.update(plain.__dict__)
        self._source_stamp = f"{STAMP} {form}"
        self._version = f"{numba.__version__} {self._source_stamp}"  # looked at before anything else in the file is

    def load(self, key: Any) -> Any:
        try:
            return super().load(key)
        except Exception:  # whatever a damaged file makes of unpickling: compile anew
            return None

    def save(self, key: Any, data: Any) -> None:
        """Numba counts the files of a kernel, and two processes may count the same. Here a signature has its own."""
        signature, machine, _ = key
        name = self._data_name(int.from_bytes(hashlib.sha256(repr((signature, machine)).encode()).digest()[:6]))
        try:
            self._save_data(name, data)
            self._save_index(self._load_index() | {key: name})
        except OSError:  # no room, no permission: the next process compiles again
            pass

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:
            return {}

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        digest, data = content[:32], content[32:]
        if self._checksum(data) != digest:
            raise OSError(f"{name} is damaged, or of other sources")
        return numba.core.caching.pickle.loads(data)

    def _save_data(self, name: str, data: Any) -> None:
        packed = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(self._checksum(packed))
            file.write(packed)

    def _checksum(self, data: bytes) -> bytes:
        return hashlib.sha256(data + self._source_stamp.encode()).digest()


class KernelCache(FunctionCache):  # type: ignore[misc]  # numba is not typed
    """The cache of one kernel. Loads compiled code without Numba's library of typing rules and implementations, which
    only compiling needs: half a second of imports and registration."""

    def __init__(self, plain: FunctionCache, form: type[CompileResultCacheImpl]) -> None:
        """form: how a kernel is kept, see library.py."""
        self.__dict__.update(plain.__dict__)
        self._impl = form(plain._impl)
        self._cache_file = KernelFile(plain._cache_file, form.__name__)

    elsewhere: Callable[[Any], None] | None = None
    """Waits for another process that may be compiling the kernel with a signature, see backends/forerunner.py."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
            if found is None and self.elsewhere is not None:
                self.elsewhere(sig)
                found = self._load_overload(sig, target_context)
            return found


class Notice(event.Listener):  # type: ignore[misc]  # numba is not typed
    """Says once, on stderr, that kernels are being compiled, when that takes over two seconds in all."""

    PATIENCE = 2.0

    def __init__(self) -> None:
        self.silent = False
        self._left, self._depth, self._began = self.PATIENCE, 0, 0.0
        self._timer: threading.Timer | None = None

    def _ours(self, happened: Any) -> bool:
        return str(happened.data["dispatcher"].py_func.__module__).startswith("stagewise.")

    def on_start(self, happened: Any) -> None:
        if self._ours(happened):
            self.begin()

    def on_end(self, happened: Any) -> None:
        if self._ours(happened):
            self.end()

    def begin(self) -> None:
        """From here on somebody waits."""
        if self.silent:
            return
        self._depth += 1
        if self._depth == 1:
            self._began = time.monotonic()
            self._timer = threading.Timer(max(self._left, 0.0), self._say)
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """The waiting is over."""
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._left -= time.monotonic() - self._began

    def _say(self) -> None:
        if not self.silent and sys.stderr is not None:
            self.silent = True
            sys.stderr.write(
                "stagewise: compiling for this machine; this happens once and takes some seconds "
                "(`stagewise warmup` does it ahead).\n"
            )
            sys.stderr.flush()


announce = Notice()
"""The one listener; `announce.silent = True` keeps it quiet."""
