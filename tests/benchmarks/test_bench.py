"""The benchmark runs, and what it writes is complete. (Its figures are looked at by people.)"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NEEDED = ("catboost", "lightgbm", "matplotlib", "psutil", "xgboost")  # of the extra "bench"; the tests need less
ABSENT = [name for name in NEEDED if find_spec(name) is None]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {ABSENT}")]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)


def test_a_quick_workload_writes_everything(tmp_path):
    done = bench("C", "--quick", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    part = kept["parts"]["C"]
    assert set(part["rivals"]) == {
        "stagewise", "lightgbm", "xgboost", "xgboost-lossguide", "catboost", "catboost-lossguide", "scikit-learn",
    }  # fmt: skip
    for facts in part["rivals"].values():
        assert facts["fit"]["median"] > 0.0
        assert facts["predict"]["median"] > 0.0
        assert facts["loss"] < math.log(2.0)  # better than a coin
    assert part["rivals"]["stagewise"]["memory"] >= 0
    assert part["rivals"]["stagewise"]["process_memory"] > 0
    peers = [facts["fit"]["median"] for name, facts in part["rivals"].items() if name != "stagewise"]
    assert part["fit"]["ratio"] == pytest.approx(min(peers) / part["rivals"]["stagewise"]["fit"]["median"])
    assert {"date", "cpu", "versions", "commit", "threads", "repeats"} <= set(part["run"])
    assert part["run"]["quick"]
    assert (tmp_path / "workloads.png").stat().st_size > 1_000
    assert "geometric mean" in done.stdout


def test_the_readme_table_comes_from_the_file(tmp_path):
    assert "No figures yet" in bench("--readme", "--out", str(tmp_path)).stdout


def test_unknown_names_are_refused():
    done = bench("Z")
    assert done.returncode != 0
    assert "'Z' is not known" in done.stderr
