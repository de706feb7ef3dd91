"""A store is complete or not there, whoever dies when; and only one process builds at a time."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from stagewise.errors import InputError
from stagewise.storage.container import Content, Section
from stagewise.storage.lock import only_one
from stagewise.storage.mapping import is_mapped, map_bytes, map_values
from stagewise.storage.store import build_store, locked, open_store


def build(folder, value, size=100_000):
    with locked(folder), build_store(folder) as building:
        file = building.create("numbers", size, 4)
        for start in range(0, size // 4, 10_000):
            for block in range(4):
                file.write(block, np.full(min(10_000, size // 4 - start), value, np.uint8))
        building.commit(Content("thing", {"own": Section({"value": value})}))


def value_of(folder):
    store = open_store(folder, "thing")
    values = map_bytes(store.file("numbers"), 100_000)
    assert (values == store.content.sections["own"].values["value"]).all()
    return int(values[0])


def test_built_opened_replaced(tmp_path):
    folder = tmp_path / "a" / "b"
    build(folder, 1)
    old = map_bytes(open_store(folder, "thing").file("numbers"), 100_000)
    build(folder, 2)
    assert value_of(folder) == 2
    assert (old == 1).all()  # whoever has mapped it keeps it
    assert len(list(folder.iterdir())) == 2
    with pytest.raises(InputError, match="is the file of a thing, not of a dataset"):
        open_store(folder, "dataset")


def test_nothing_of_others_is_touched(tmp_path):
    (tmp_path / "mine.txt").write_text("kept", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / ("0" * 16 + ".tmp")).mkdir()  # what a killed builder leaves
    build(tmp_path, 1)
    assert (tmp_path / "mine.txt").exists()
    assert (tmp_path / "folder").exists()
    assert not (tmp_path / ("0" * 16 + ".tmp")).exists()


def test_mapped_arrays_are_what_kernels_know(tmp_path):
    from numba import typeof

    path = tmp_path / "x"
    path.write_bytes(bytes(range(100)))
    mapped = map_bytes(path, 100)
    assert typeof(mapped) == typeof(np.empty(100, np.uint8))
    assert typeof(mapped.reshape(4, 25)) == typeof(np.empty((4, 25), np.uint8))
    assert is_mapped(mapped[3:].reshape(-1))
    assert not is_mapped(mapped.copy())
    path.unlink()
    assert mapped[99] == 99
    np.asarray([1.5, 2.5]).tofile(path)
    assert map_values(path, np.dtype(np.float64), 2).tolist() == [1.5, 2.5]


KILLED = """
import os, pathlib, signal, sys
from stagewise.storage import store
sys.path.insert(0, sys.argv[2])
from test_store import build, value_of

folder = pathlib.Path(sys.argv[1])
names = ("write", "lseek", "fsync", "mkdir", "open", "close", "rename", "replace", "unlink", "ftruncate")
deaths = 0
for at in range(0, 200, 3):
    child = os.fork()
    if child == 0:
        calls = iter(range(10_000))
        for name in names:
            def counted(*args, own=getattr(os, name), **options):
                if next(calls) == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return own(*args, **options)
            setattr(os, name, counted)
        build(folder, at % 200 + 1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    died = os.WIFSIGNALED(status)
    deaths += died
    try:
        found = value_of(folder)
    except store.InputError as error:
        assert "holds no thing" in str(error), error
        found = None
    last = at % 200 + 1 if not died else last if at else None
    assert found in (last, at + 1), (at, found, last)
    last = found
    if at % 30 == 0:
        build(folder, 250)
        last = 250
        assert value_of(folder) == 250
        names_left = sorted(path.name for path in folder.iterdir())
        assert len(names_left) == 2, names_left
    if not died:
        break
print(deaths)
"""


def test_killed_at_any_moment(tmp_path):
    """Dies at every third call of the system that building makes, one after the other, in the same folder."""
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "store"), here], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_a_real_limit_of_the_system(tmp_path):
    code = (
        "import pathlib, resource, sys\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_store import build\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "try: build(pathlib.Path(sys.argv[1]), 1)\n"
        "except OSError as error: print(error)\n"
    )
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store"), here], capture_output=True, text=True, timeout=60
    )
    assert "No room for the dataset" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


# --- the lock --------------------------------------------------------------------------------------------------------


def test_one_after_the_other(tmp_path):
    path, inside, most = tmp_path / "lock", [0], [0]

    def work():
        for _ in range(5):
            with only_one(path, "counting"):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.002)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not path.exists()


HOLDER = (
    "import pathlib, sys, time\n"
    "from stagewise.storage.lock import only_one\n"
    "with only_one(pathlib.Path(sys.argv[1]), 'waiting'):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(float(sys.argv[2]))\n"
)


def test_a_dead_holder_does_not_block(tmp_path):
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path), "60"], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert path.exists()
    with only_one(path, "x") as waited:
        assert waited is False


def test_waiting_is_said(tmp_path):
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path), "1.5"], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    words = f"Waiting for process {holder.pid}, which is building"
    with pytest.warns(UserWarning, match=words), only_one(path, "building"):
        pass
    holder.wait()
    holder.stdout.close()
