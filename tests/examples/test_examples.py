"""Every example runs, prints its table and writes its picture. (Its figures are for people to look at.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SHARED = {"canvas", "problems"}
ON_DATA = {"housing", "spam"}  # tested in test_tables.py
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in SHARED | ON_DATA)


def test_none_is_forgotten():
    shown = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert not [name for name in (*NAMES, *ON_DATA) if f"examples/{name}.py" not in shown]


@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name, tmp_path):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--small", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "MPLBACKEND": "Agg"})
    assert done.returncode == 0, done.stderr
    assert f"{name}.png" in done.stdout
    assert len(done.stdout.splitlines()) >= 4
    picture = (tmp_path / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_the_book_within_reach(monkeypatch):
    """ESL 10.1 at full size, but two samples: a stump at 45.8 %, a tree of 244 leaves at 24.7 %, boosted stumps with
    leaves of their own at 5.8 %; with votes (Algorithm 10.1) where scikit-learn's are."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import nested_spheres

    runs = [nested_spheres.one_run(seed, 2000, 10_000, 400) for seed in range(2)]
    mean = {name: np.mean([np.atleast_1d(run[name])[-1] for run in runs]) for name in runs[0]}
    assert mean["stump"] == pytest.approx(0.458, abs=0.015)
    assert mean["tree"] == pytest.approx(0.247, abs=0.025)
    assert mean["leaves"] == pytest.approx(0.058, abs=0.015)
    assert mean["gentle"] == pytest.approx(0.058, abs=0.015)
    assert mean["test"] == pytest.approx(mean["theirs"], abs=0.015)
