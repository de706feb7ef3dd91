"""Files are replaced in one step or not at all."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stagewise.errors import InputError
from stagewise.storage import disk
from stagewise.storage.disk import read_file, replace_file


def test_written_read_replaced(tmp_path):
    path = tmp_path / "m"
    replace_file(path, b"one")
    assert read_file(path) == b"one"
    replace_file(str(path), b"two")
    assert read_file(path) == b"two"
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_permissions_are_those_of_the_old_file_or_of_the_process(tmp_path):
    path = tmp_path / "m"
    before = os.umask(0o027)
    try:
        replace_file(path, b"one")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o604)
    replace_file(path, b"two")
    assert path.stat().st_mode & 0o777 == 0o604


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "m"
    target.write_bytes(b"one")
    link = tmp_path / "link"
    link.symlink_to(target)
    replace_file(link, b"two")
    assert link.is_symlink()
    assert target.read_bytes() == b"two"


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_whatever_fails_the_old_file_stays(tmp_path, monkeypatch, step):
    path = tmp_path / "m"
    path.write_bytes(b"old")

    def fails(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((disk.os, step) if step != "replace" else (Path, "replace")), fails)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    """A real limit of the system, reached in the middle of the file."""
    path = tmp_path / "m"
    path.write_bytes(b"old")
    code = (
        "import resource, signal, sys\n"
        "from stagewise.storage.disk import replace_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try: replace_file(sys.argv[1], bytes(1_000_000))\n"
        "except OSError as error: print(error.errno)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "27", done.stderr
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["m"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 10_000


def test_many_writers_and_a_reader_never_see_a_broken_file(tmp_path):
    path = tmp_path / "m"
    contents = [bytes([k]) * 200_000 for k in range(4)]
    replace_file(path, contents[0])
    done = threading.Event()
    threads = [
        threading.Thread(target=lambda data=data: [replace_file(path, data) for _ in range(20)]) for data in contents
    ]
    seen = set()

    def look():
        while not done.is_set():
            seen.add(read_file(path))

    reader = threading.Thread(target=look)
    reader.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    reader.join()
    assert seen <= set(contents)
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_folders_and_devices_are_no_models(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        replace_file(tmp_path, b"")
    with pytest.raises(InputError, match="not a regular file"):
        read_file("/dev/null")
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nothing")
