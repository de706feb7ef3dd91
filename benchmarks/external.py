"""A child process that trains on Parquet files in one way and reports seconds, bytes and a hash of the model.

python -m benchmarks.external FOLDER WAY STAGES THREADS LIMIT

WAY is disk, memory or xgboost; LIMIT is in MiB, 0 for none.

The limit is RLIMIT_DATA: heap, anonymous mappings and thread stacks. RLIMIT_AS would also count the mapped bins, which
the system drops whenever memory is short, and the address space that compilers reserve and never touch. The peak
that is reported is that of RssAnon: memory that only this process has, and that cannot be dropped.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TARGET = "target"


def anonymous() -> int:
    """Bytes of anonymous memory in use now."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    return 0


@contextmanager
def watched() -> Iterator[list[int]]:
    """The peak of anonymous memory while the block lasts, in a list of one."""
    peak, done = [anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], anonymous())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def _few() -> tuple[Any, Any]:
    """Rows for a fit before the clock starts: kernels are loaded then, as in the other measurements."""
    import numpy as np

    X = np.random.default_rng(0).normal(size=(500, 100)).astype(np.float32)
    return X, X[:, 0]


def from_disk(folder: Path, stages: int, threads: int) -> dict[str, Any]:
    import stagewise as sw
    from stagewise.io.format import dumps

    sw.GradientBoostingRegressor(n_estimators=2, n_jobs=threads).fit(*_few())
    began = time.perf_counter()
    data = sw.Dataset.from_parquet(f"{folder}/*.parquet", TARGET, cache=folder / "cache", n_jobs=threads)
    built = time.perf_counter()
    model = sw.GradientBoostingRegressor(n_estimators=stages, n_jobs=threads).fit(data)
    return _report(data.n_rows, began, built, hashlib.sha256(dumps(model)).hexdigest())


def in_memory(folder: Path, stages: int, threads: int) -> dict[str, Any]:
    from pyarrow import parquet

    import stagewise as sw
    from stagewise.io.format import dumps

    sw.GradientBoostingRegressor(n_estimators=2, n_jobs=threads).fit(*_few())
    began = time.perf_counter()
    table = parquet.read_table(sorted(folder.glob("*.parquet")))
    y = table[TARGET].to_numpy()
    data = sw.Dataset(table.drop_columns([TARGET]), y, n_jobs=threads)
    built = time.perf_counter()
    model = sw.GradientBoostingRegressor(n_estimators=stages, n_jobs=threads).fit(data)
    return _report(data.n_rows, began, built, hashlib.sha256(dumps(model)).hexdigest())


def xgboost(folder: Path, stages: int, threads: int) -> dict[str, Any]:
    """External memory as its documentation has it: an iterator over the files, pages of bins in a cache on disk, and
    trees grown level by level (32 leaves at most), because leaf by leaf it reads all pages for every node."""
    import xgboost as xgb
    from pyarrow import parquet

    class Files(xgb.DataIter):  # type: ignore[misc]
        def __init__(self, cache: str) -> None:
            self.files, self.at = sorted(folder.glob("*.parquet")), 0
            super().__init__(cache_prefix=cache)

        def next(self, input_data: Any) -> bool:
            if self.at == len(self.files):
                return False
            table = parquet.read_table(self.files[self.at])
            self.at += 1
            input_data(data=table.drop_columns([TARGET]), label=table[TARGET].to_numpy())
            return True

        def reset(self) -> None:
            self.at = 0

    xgb.XGBRegressor(n_estimators=2, n_jobs=threads, tree_method="hist").fit(*_few())
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        began = time.perf_counter()
        data = xgb.ExtMemQuantileDMatrix(Files(str(Path(cache, "pages"))), max_bin=255, nthread=threads)
        rows = data.num_row()
        built = time.perf_counter()
        settings = {
            "tree_method": "hist", "grow_policy": "depthwise", "max_depth": 5, "eta": 0.1,
            "max_bin": 255, "min_child_weight": 20, "lambda": 0.0, "nthread": threads,
        }  # fmt: skip
        xgb.train(settings, data, stages)
        return _report(rows, began, built, "")


def _report(rows: int, began: float, built: float, model: str) -> dict[str, Any]:
    return {"rows": rows, "prepare": built - began, "fit": time.perf_counter() - built, "model": model}


def main(folder: str, way: str, stages: str, threads: str, limit: str) -> None:
    if int(limit):
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit) << 20, int(limit) << 20))
    ways = {"disk": from_disk, "memory": in_memory, "xgboost": xgboost}
    with watched() as peak:
        report = ways[way](Path(folder), int(stages), int(threads))
    print(json.dumps({**report, "anonymous": peak[0]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
