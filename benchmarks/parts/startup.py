"""A new process: import, and a fit of 1,000 rows. With the compiled kernels on disk, and with an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.contest import hold
from benchmarks.options import Options, Outcome
from benchmarks.timing import Plan, say, stopwatch

__all__ = ["run"]

_DATA = """
import numpy as np
X = np.random.default_rng(0).standard_normal((1_000, 20), dtype=np.float32)
y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(np.int64)
"""

_FITS = {
    "stagewise": "from stagewise import GradientBoostingClassifier as M\nM(n_jobs={threads}).fit(X, y)",
    "lightgbm": "from lightgbm import LGBMClassifier as M\nM(n_jobs={threads}, verbose=-1).fit(X, y)",
    "xgboost": "from xgboost import XGBClassifier as M\nM(max_depth=5, learning_rate=0.1, n_jobs={threads}).fit(X, y)",
    "catboost": "from catboost import CatBoostClassifier as M\n"
    "M(iterations=100, depth=5, learning_rate=0.1, thread_count={threads}, silent=True, allow_writing_files=False)"
    ".fit(X, y)",
    "scikit-learn": "from sklearn.ensemble import HistGradientBoostingClassifier as M\n"
    "M(early_stopping=False).fit(X, y)",
    "python and numpy alone": "",
}


def _process(name: str, threads: int, **environment: str) -> Callable[[], float]:
    code = _DATA + _FITS[name].format(threads=threads)
    # for scikit-learn, whose estimators have no setting for threads
    variables = {**os.environ, "OMP_NUM_THREADS": str(threads), **environment}
    # byte code is there for every package that pip installed; that of a source tree is made by the warm-up
    variables.pop("PYTHONDONTWRITEBYTECODE", None)

    def once() -> float:
        command = [sys.executable, "-c", code]
        # not in the repository's folder: nothing is to be imported from there by chance
        call = stopwatch(lambda: subprocess.run(command, env=variables, cwd=tempfile.gettempdir(), check=True))
        return call[0]

    return once


def run(options: Options) -> Outcome:
    threads = options.threads
    contestants = {name: _process(name, threads) for name in _FITS}
    for name, once in contestants.items():  # fills our cache, and the operating system's
        say(f"  startup: warm-up of {name} {once():.2f} s")
    outcome = hold(
        f"startup: new process, import + fit of 1,000 rows, {threads} threads", contestants, Plan.of(options)
    )
    with tempfile.TemporaryDirectory(prefix="stagewise-bench-") as folder:
        cold = _process("stagewise", threads, NUMBA_CACHE_DIR=folder)()
        files = sum(1 for _ in Path(folder).rglob("*.nbc"))
    outcome.data["empty_cache"] = {"seconds": cold, "kernels": files}
    text = f"{outcome.text}\n  empty cache, import + first fit: {cold:.2f} s ({files} kernels compiled)"
    return Outcome(text, outcome.data)
