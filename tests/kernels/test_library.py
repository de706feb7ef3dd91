"""Kernels from the disk, in our own form."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stagewise.kernels.jit import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="Numba's own form")

KERNELS = """
import numpy as np
from stagewise.kernels.jit import kernel

@kernel(arrays=True)
def squares(values):
    out = np.empty(len(values))
    for k in range(len(values)):
        out[k] = values[k] ** 2
    return out

@kernel
def total(values):
    out = 0.0
    for k in range(len(values)):
        out += values[k]
    return out
"""


def run(folder: Path, program: str) -> list[str]:
    (folder / "some_kernels.py").write_text(KERNELS)
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    surroundings = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", "import numpy as np, sys\nfrom some_kernels import squares, total\n" + program],
        capture_output=True,
        text=True,
        timeout=120,
        env=surroundings,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


CALLS = """
for _ in range(3):
    made = squares(np.arange(4.0))
    before = sys.getrefcount(made)
    kept = squares(made)
    assert sys.getrefcount(made) == before
print(made.sum(), kept.sum(), total(kept), len(squares.stats.cache_hits), len(total.stats.cache_hits))
"""


def test_a_second_process_gets_the_same(tmp_path):
    assert run(tmp_path, CALLS) == ["14.0", "98.0", "98.0", "0", "0"]
    assert run(tmp_path, CALLS) == ["14.0", "98.0", "98.0", "1", "1"]


def test_nothing_is_registered_or_compiled_to_load_a_kernel(tmp_path):
    look = "from numba.core.runtime import rtsys\nprint(rtsys._init, 'numba.np.arrayobj' in sys.modules)"
    run(tmp_path, CALLS)
    assert run(tmp_path, CALLS + look)[-2:] == ["False", "False"]


def test_a_kernel_from_the_disk_becomes_part_of_another(tmp_path):
    run(tmp_path, CALLS)
    program = """
import numba
print(total(np.arange(3.0)), len(total.stats.cache_hits))

@numba.njit
def both(values):
    return total(values) + squares(values)[1]

print(both(np.arange(3.0)), squares(np.arange(3.0)).sum())
"""
    assert run(tmp_path, program) == ["3.0", "1", "4.0", "5.0"]


def test_numbas_own_functions_work_beside(tmp_path):
    run(tmp_path, CALLS)
    program = CALLS + "\nimport numba\nprint(numba.njit(lambda x: np.sort(x)[::-1].copy())(np.arange(3.0))[0])"
    assert run(tmp_path, program)[-1] == "2.0"


def test_two_signatures_have_two_files(tmp_path):
    program = "print(total(np.arange(3.0)), total(np.arange(3)), total(np.arange(3, dtype=np.float32)))"
    assert run(tmp_path, program) == run(tmp_path, program) == ["3.0", "3.0", "3.0"]
    assert len(list(tmp_path.rglob("*total*.nbc"))) == 3
