"""A store: a folder of large files with a manifest that says which of them belong together, and their checksums.

    folder/manifest.stagewise      a container: what is in it, the files' sizes and SHA-256
    folder/0123456789abcdef/       the files themselves
    folder/lock                    while somebody builds

Files are written into a folder of a new name that ends in .tmp. When all are complete that is renamed, and then the
manifest is replaced: one step, before which there is the old store (or none) and after which there is the new one.
Whoever has mapped the old files keeps them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stagewise.errors import InputError
from stagewise.storage.container import Content, Section, pack, unpack
from stagewise.storage.disk import STALE, read_file, replace_file
from stagewise.storage.lock import only_one
from stagewise.storage.mapping import map_bytes

__all__ = ["Building", "MANIFEST", "Store", "StoreFile", "build_store", "locked", "open_store"]

MANIFEST = "manifest.stagewise"
_LOCK = "lock"
_FILES = "files"  # the section of the manifest that is the store's own
_OURS = re.compile(r"[0-9a-f]{16}(\.tmp)?")
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_AT_ONCE = 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """An open store: its content without the store's own section, and where its files are."""

    folder: Path
    content: Content

    def file(self, name: str) -> Path:
        return self.folder / name


class StoreFile:
    """A file of known size that is being written: blocks of equal length, each from its front to its end."""

    def __init__(self, path: Path, size: int, n_blocks: int) -> None:
        self.size, self._length = size, size // n_blocks
        self._at = [0] * n_blocks
        self._digests = [hashlib.sha256() for _ in range(n_blocks)]
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if hasattr(os, "posix_fallocate") and size:
            try:
                os.posix_fallocate(self._handle, 0, size)  # a disk that is too small says so now, not in an hour
            except OSError as error:
                if error.errno in _FULL:
                    raise

    def write(self, block: int, values: np.ndarray) -> None:
        """Append the bytes of a contiguous array to a block."""
        view = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        self._digests[block].update(view)
        while view:
            os.lseek(self._handle, block * self._length + self._at[block], os.SEEK_SET)
            done = os.write(self._handle, view)
            self._at[block] += done
            view = view[done:]

    def digests(self) -> np.ndarray:
        """SHA-256 of every block, uint8 (n_blocks, 32)."""
        return np.frombuffer(b"".join(own.digest() for own in self._digests), np.uint8).reshape(-1, 32)

    def finish(self) -> None:
        """Make it durable."""
        os.fsync(self._handle)
        self.close()

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1


class Building:
    """A store under construction."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder, self.token = folder, token
        self.scratch = folder / f"{token}{STALE}"
        self._files: dict[str, StoreFile] = {}
        self.scratch.mkdir()

    def create(self, name: str, size: int, n_blocks: int = 1) -> StoreFile:
        """A file of `size` bytes in n_blocks blocks."""
        self._files[name] = StoreFile(self.scratch / name, size, n_blocks)
        return self._files[name]

    def commit(self, content: Content) -> None:
        """All files are written: from now on the store is this one."""
        own = Section(
            {"generation": self.token, "sizes": {name: file.size for name, file in self._files.items()}},
            {name: file.digests() for name, file in self._files.items()},
        )
        for file in self._files.values():
            file.finish()
        manifest = pack(Content(content.kind, {**content.sections, _FILES: own}, content.library))
        self.scratch.rename(self.folder / self.token)
        replace_file(self.folder / MANIFEST, manifest)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process at a time builds in a folder, which is made when it is not there."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for the dataset.")
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with only_one(folder / _LOCK, f"building the dataset in {folder}"):
            yield
    finally:
        if fresh:
            with suppress(OSError):  # it stays if anything is in it
                folder.rmdir()


@contextmanager
def build_store(folder: Path) -> Iterator[Building]:
    """Build a store in a locked folder. Whatever happens, half-written files are removed; so are those that a killed
    process left, and after a commit the files of the store before."""
    _sweep(folder, _generation(folder))
    building = Building(folder, secrets.token_hex(8))
    try:
        yield building
    except OSError as error:
        if error.errno in _FULL:
            raise OSError(error.errno, _say_full(building)) from error
        raise
    finally:
        building.close()
        _sweep(folder, _generation(folder))


def open_store(folder: str | os.PathLike[str], kind: str, verify: bool = True) -> Store:
    """The store in a folder; InputError, saying what is wrong, when there is none or not a whole one.

    verify: read all files and compare their checksums; else only their sizes are looked at.
    """
    path, token = Path(folder), ""
    for attempt in (0, 1):
        try:
            data = read_file(path / MANIFEST)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(f"{path} holds no {kind}: there is no {MANIFEST} in it.") from error
        content = unpack(data, str(path / MANIFEST))
        own = content.sections.get(_FILES)
        sizes = None if own is None else own.values.get("sizes")
        token = "" if own is None else str(own.values.get("generation"))
        if own is None or content.kind != kind or not isinstance(sizes, dict):
            raise InputError(f"{path / MANIFEST} is the file of a {content.kind}, not of a {kind}.")
        try:
            _check_files(path / token, sizes, own.arrays, verify)
        except InputError:
            if attempt == 0 and read_file(path / MANIFEST) != data:
                continue  # another process replaced the store between our two looks
            raise
        break
    sections = {name: section for name, section in content.sections.items() if name != _FILES}
    return Store(path / token, Content(content.kind, sections, content.library))


def _check_files(folder: Path, sizes: Mapping[str, int], digests: Mapping[str, np.ndarray], verify: bool) -> None:
    """Raise InputError unless all files are there with their sizes, and their blocks have their checksums."""
    work: list[tuple[np.ndarray, int, bytes, str]] = []
    for name, size in sizes.items():
        path, own = folder / name, digests.get(name)
        if own is None or own.ndim != 2 or own.shape[1] != 32 or "/" in name:
            raise InputError(f"The manifest beside {folder} does not say what {name!r} should be.")
        found = path.stat().st_size if path.is_file() else -1
        if found != size:
            what = "is not there" if found < 0 else f"has {found:,} bytes instead of {size:,}: it was cut short"
            raise InputError(f"{path} {what}. Build the dataset anew.")
        if verify and size:
            pages, length = map_bytes(path, size), size // len(own)
            work += [(pages, k * length, own[k].tobytes(), str(path)) for k in range(len(own))]

    def sound(item: tuple[np.ndarray, int, bytes, str]) -> bool:
        pages, start, wanted, path = item
        length = len(pages) // len(digests[Path(path).name])
        digest = hashlib.sha256()
        for at in range(start, start + length, _AT_ONCE):
            digest.update(pages[at : min(at + _AT_ONCE, start + length)].data)
        return digest.digest() == wanted

    with ThreadPoolExecutor(2) as pool:
        for item, good in zip(work, pool.map(sound, work), strict=True):
            if not good:
                raise InputError(f"{item[3]} is damaged: its checksum is wrong. Build the dataset anew.")


def _generation(folder: Path) -> str | None:
    """The folder of files that the manifest names; None when there is no usable manifest."""
    try:
        own = unpack(read_file(folder / MANIFEST)).sections[_FILES]
        return str(own.values["generation"])
    except (OSError, InputError, KeyError):
        return None


def _sweep(folder: Path, keep: str | None) -> None:
    """Remove what builders left, but for the files in use. Nothing else that lies in the folder is touched."""
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path.name != keep and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith(f".{MANIFEST}.") and path.name.endswith(STALE):
            path.unlink(missing_ok=True)


def _say_full(building: Building) -> str:
    needed = sum(file.size for file in building._files.values())
    free = shutil.disk_usage(building.folder).free
    return (
        f"No room for the dataset in {building.folder}: its files so far need {needed / 2**20:,.0f} MiB, "
        f"{free / 2**20:,.0f} MiB are free or allowed. Nothing was left behind; free some space or name another folder"
    )
