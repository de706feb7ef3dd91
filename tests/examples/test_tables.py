"""The examples run from start to end on the data that everyone has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name, said, pictures", [("housing", "held-out R²", 7), ("spam", "held-out errors", 6)])
def test_examples_run(tmp_path, name, said, pictures):
    pytest.importorskip("matplotlib")
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py")]
    options = ["--data", str(tmp_path / "absent"), "--out", str(tmp_path), "--stages", "30"]
    paths = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert len(list(tmp_path.glob("*.png"))) == pictures
