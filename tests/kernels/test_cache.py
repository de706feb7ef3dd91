"""Compiled kernels on disk: stale, damaged or missing files cost time, never a fit; waiting is announced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stagewise.kernels import cache, jit
from stagewise.kernels.exact import hash_values

pytestmark = pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")

PROGRAM = """
import numpy as np
from stagewise.kernels.exact import hash_values
out = np.empty(3, np.uint64)
hash_values(np.uint64(5), 0, out)
print(*out, len(hash_values.stats.cache_hits))
"""


def run(folder: Path, program: str = PROGRAM, **settings: str) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **settings}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=surroundings
    )
    assert done.returncode == 0, done.stderr
    return done


def files(folder: Path, ending: str) -> list[Path]:
    return sorted(folder.rglob(f"*hash_values*{ending}"))


def test_a_kernel_uses_our_files():
    file = hash_values._cache._cache_file
    assert isinstance(file, cache.KernelFile)
    assert file._source_stamp.startswith(cache.STAMP)


def test_a_second_process_loads_what_the_first_compiled(tmp_path):
    first, second = run(tmp_path).stdout.split(), run(tmp_path).stdout.split()
    assert (first[-1], second[-1]) == ("0", "1")
    assert first[:-1] == second[:-1]


def test_what_was_compiled_in_numbas_own_way_is_not_taken_for_ours(tmp_path):
    expected = run(tmp_path).stdout.split()[:-1]
    for plain in ("1", "0"):
        assert run(tmp_path, STAGEWISE_PLAIN_NUMBA=plain).stdout.split()[:-1] == expected


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "flip", "folder"])
def test_damaged_files_are_compiled_anew(tmp_path, ending, damage):
    expected = run(tmp_path).stdout.split()[:-1]
    (path,) = files(tmp_path, ending)
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "garbage":
        path.write_bytes(bytes(range(256)) * 40)
    elif damage == "flip":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    else:
        path.unlink()
        path.mkdir()
    assert run(tmp_path).stdout.split()[:-1] == expected


def test_waiting_is_announced_once(tmp_path):
    program = "from stagewise.kernels.cache import announce\nannounce._left = 0.0\n" + PROGRAM
    first, second = run(tmp_path, program).stderr, run(tmp_path, program).stderr
    assert first.count("stagewise: compiling for this machine") == 1
    assert first.count("\n") == 1
    assert second == ""


def test_short_waits_are_not_announced(tmp_path):
    assert run(tmp_path, "from stagewise.kernels.cache import announce\nannounce._left = 90.0\n" + PROGRAM).stderr == ""


def test_other_peoples_kernels_are_not_announced(tmp_path):
    program = (
        "import stagewise.kernels.jit, numba\nfrom stagewise.kernels.cache import announce\nannounce._left = 0.0\n"
        "assert numba.njit(lambda x: x + 1)(1) == 2"
    )
    assert run(tmp_path, program).stderr == ""
