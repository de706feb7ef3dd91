"""Our way of compiling beside Numba's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stagewise.kernels import jit
from stagewise.kernels.jit import KNOWN

FIT = """
import sys
import numpy as np, stagewise as sw
from stagewise.kernels.jit import KNOWN
X = np.random.default_rng(0).normal(size=(700, 4))
X[::7, 1] = np.nan
model = sw.GradientBoostingClassifier(n_estimators=4, max_leaf_nodes=7).fit(X, X[:, 0] > 0.1)
sw.save(model, sys.argv[1])
print(KNOWN)
"""


def run(folder: Path, name: str, plain: str) -> tuple[bytes, str]:
    cache, file = folder / f"cache-{name}", folder / f"{name}.stagewise"
    env = os.environ | {"STAGEWISE_PLAIN_NUMBA": plain, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(file)], env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    return file.read_bytes(), done.stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(not KNOWN, reason="compiles in Numba's own way in any case")
def test_the_same_model_in_numbas_own_way(tmp_path):
    ours, ours_known = run(tmp_path, "ours", "0")
    plain, plain_known = run(tmp_path, "plain", "1")
    assert (ours_known, plain_known) == ("True", "False")
    assert ours == plain


@jit.bare
def itself(values):
    return values


@jit.kernel
def first(values):
    return itself(values)[0]


@pytest.mark.skipif(not KNOWN, reason="compiles in Numba's own way")
def test_a_helper_that_returns_an_array_nobody_counts_is_refused():
    with pytest.raises(Exception, match="nobody counts: make it a `piece`"):
        first(np.zeros(4))


@jit.device
def scaled(value, factor):
    return value * factor


@jit.kernel
def scaled_twice(value):
    return scaled(value, 2) + scaled(value, 3)


@pytest.mark.skipif(not KNOWN, reason="compiles in Numba's own way")
def test_constants_make_no_second_copy_of_a_helper():
    assert scaled_twice(5) == 25
    assert len(scaled.overloads) <= 1  # none when the kernel came from the disk
