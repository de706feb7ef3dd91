"""Data larger than the memory that a process may have, and processes that are killed: the same bytes in the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from data.tables import mixed, write

pytestmark = pytest.mark.slow

COLUMNS, ROWS, AT_ONCE = 100, 4_080_000, 170_000  # 1.5 GiB as float32
ABOVE = 500  # MiB above what a process has after its imports

LIMITED = """
import hashlib, json, resource, sys, threading, time
from pathlib import Path
import pyarrow.parquet as parquet
import stagewise as sw
from stagewise.io.format import dumps

def status(name):
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])

folder, way, above = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) << 20
model = sw.GradientBoostingRegressor(n_estimators=4, n_jobs=2)
before = peak = status("RssAnon")
if above:
    limit = status("VmData") + above
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
done = threading.Event()

def watch():
    global peak
    while not done.wait(0.01):
        peak = max(peak, status("RssAnon"))

threading.Thread(target=watch, daemon=True).start()
if way == "disk":
    data = sw.Dataset.from_parquet(f"{folder}/*.parquet", "y", cache=folder / "cache", n_jobs=2)
else:
    table = parquet.read_table(sorted(folder.glob("*.parquet")))
    data = sw.Dataset(table.drop_columns(["y"]), table["y"].to_numpy(), n_jobs=2)
model.fit(data)
done.set()
print(json.dumps({"model": hashlib.sha256(dumps(model)).hexdigest(), "above": (peak - before) >> 20}))
"""


def child(folder, way, above):
    # RLIMIT_DATA counts addresses, in use or not: Arrow's own pool reserves a GiB of them, and glibc keeps those of
    # every thread that ever allocated (290 MiB after a cache is built, of which 24 are in use; 170 with one arena)
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder), way, str(above)],
        capture_output=True, text=True, timeout=280, env=environment,
    )  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="RLIMIT_DATA counts as needed on Linux")
def test_three_times_the_memory(tmp_path):
    few = tmp_path / "few"
    few.mkdir()
    cells = {f"x{j:03d}": np.arange(60_000, dtype=np.float32) % (j + 7) for j in range(COLUMNS)}
    parquet.write_table(pa.table({**cells, "y": cells["x003"]}), few / "0.parquet")
    warm = child(few, "disk", 0)  # compiling takes more memory than training: it is done before, without the limit
    assert warm.returncode == 0, warm.stderr
    for start in range(0, ROWS, AT_ONCE):
        rng = np.random.default_rng(start)
        X = rng.standard_normal((AT_ONCE, COLUMNS), np.float32)
        X[:, 1] = np.round(3.0 * X[:, 1])
        cells = {f"x{j:03d}": np.ascontiguousarray(X[:, j]) for j in range(COLUMNS)}
        table = pa.table({**cells, "y": X[:, 0] + np.abs(X[:, 1]) + X[:, 2]})
        parquet.write_table(table, tmp_path / f"{start:09d}.parquet", row_group_size=50_000, use_dictionary=False)
    del X, cells, table
    limited = child(tmp_path, "disk", ABOVE)
    assert limited.returncode == 0, limited.stderr
    found = json.loads(limited.stdout)
    assert found["above"] < ABOVE
    short = child(tmp_path, "memory", ABOVE)
    assert short.returncode != 0  # the limit is one
    assert "Memory" in short.stderr or "malloc" in short.stderr, short.stderr
    whole = child(tmp_path, "memory", 0)
    assert whole.returncode == 0, whole.stderr
    assert json.loads(whole.stdout)["model"] == found["model"]


KILLED = """
import hashlib, os, signal, sys
import stagewise as sw
from stagewise.io.format import dumps

files, folder, at, stage = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
calls, write = iter(range(10**9)), os.write

def counted(handle, data):
    if len(data) > 1000 and next(calls) == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(handle, data)

os.write = counted

class Bomb:
    def on_stage(self, done):
        if done.number == stage:
            os.kill(os.getpid(), signal.SIGKILL)

data = sw.Dataset.from_parquet(files, "y", sample_weight="w", cache=f"{folder}/cache")
os.write = write
model = sw.GradientBoostingRegressor(n_estimators=20, subsample=0.7, callbacks=[Bomb()])
model.fit(data, checkpoint=f"{folder}/run", every=4)
model.callbacks = None
print(hashlib.sha256(dumps(model)).hexdigest())
"""


def test_killed_while_building_and_while_training(tmp_path):
    files = write(mixed(30_000), tmp_path, [0, 9_000, 20_000, 30_000])

    def run(folder, at=-1, stage=-1):
        return subprocess.run(
            [sys.executable, "-c", KILLED, files, str(tmp_path / folder), str(at), str(stage)],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    whole = run("whole")
    assert whole.returncode == 0, whole.stderr
    for at in (0, 5, 22):
        assert run("killed", at=at).returncode == -9
    for stage in (6, 15):
        assert run("killed", stage=stage).returncode == -9
    last = run("killed")
    assert last.returncode == 0, last.stderr
    assert last.stdout == whole.stdout
    assert len(list((tmp_path / "killed" / "cache").iterdir())) == 2
