"""`stagewise demo` and `stagewise warmup`: the tour, its files, a plain terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import stagewise as sw
from stagewise.cli.demo import DEMO_FILE, DEMO_REPORT
from stagewise.cli.flats import explained, generate_flats
from stagewise.cli.terminal import sparkline
from stagewise.cli.warmup import cache_folders

SMALL = ["--rows", "600", "--stages", "12"]


def test_demo_shows_the_whole_tour(run, tmp_path):
    result = run("demo", *SMALL)
    assert result.exit_code == 0, result.output
    for words in (
        "Held-out score",
        "Deviance by stage",
        "training",
        "validation",
        "5 most important columns",
        "area_m2",
    ):
        assert words in result.stdout
    assert f"Model saved to {tmp_path / DEMO_FILE}" in result.stdout
    assert f"Report saved to {tmp_path / DEMO_REPORT}" in result.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == [DEMO_REPORT, DEMO_FILE]  # no temporary file is left

    model = sw.load(tmp_path / DEMO_FILE)
    flats = generate_flats(600, seed=1).part(0.8, 1)
    X = pa.table({name: flats.X[:, j] for j, name in enumerate(flats.columns)})
    score = explained(flats.price, model.predict(X))
    assert f"{score:.1%} of the variance" in result.stdout  # the saved model is the one that was scored
    assert model.n_estimators_ <= 12
    page = (tmp_path / DEMO_REPORT).read_text(encoding="utf-8")
    assert "Flat prices" in page
    assert "stagewise demo --rows 600 --stages 12 --seed 1" in page


@pytest.fixture
def quick(run, monkeypatch):
    """The demo without its report, which takes seconds."""
    monkeypatch.setattr("stagewise.cli.demo._report", lambda *args: None)
    return run


def test_demo_replaces_its_own_default_file(quick, tmp_path):
    (tmp_path / DEMO_FILE).write_bytes(b"from the last time")
    assert quick("demo", *SMALL).exit_code == 0
    assert sw.load(tmp_path / DEMO_FILE).n_estimators_ >= 1


def test_demo_replaces_another_file_only_by_force(quick, refused, tmp_path):
    mine = tmp_path / "mine.stagewise"
    mine.write_bytes(b"precious")
    refused("demo", *SMALL, "--out", "mine.stagewise", words=["mine.stagewise exists already", "--force"])
    refused("demo", *SMALL, "--report", "mine.stagewise", words=["mine.stagewise exists already", "--report"])
    assert quick("demo", *SMALL, "--out", "mine.stagewise", "--force").exit_code == 0
    assert mine.read_bytes() != b"precious"


def test_demo_wants_a_file_in_an_existing_folder(refused, tmp_path):
    refused("demo", "--out", "nowhere/m.stagewise", words=["no folder nowhere"])
    refused("demo", "--out", str(tmp_path), words=["is a folder"])


def test_warmup_tells_time_and_folder(run):
    result = run("warmup")
    assert result.exit_code == 0, result.output
    assert "kinds of fit ready in" in result.stdout
    folders = cache_folders()
    assert all(Path(folder).is_dir() for folder in folders)
    assert all(folder in result.stdout for folder in folders)
    assert folders or "Nothing was kept" in result.stdout


def test_console_script_on_a_plain_ascii_terminal(tmp_path):
    """The installed entry point, where block characters cannot be printed."""
    result = subprocess.run(
        [sys.executable, "-c", "from stagewise.cli import main; main()", "demo", *SMALL],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "Held-out score" in result.stdout
    assert result.stdout.isascii()


def test_sparkline():
    assert sparkline([]) == ""
    assert sparkline([3.0, 3.0]) == "▁▁"
    assert sparkline([100, 10, 1]) == "█▅▁"  # log scale
    assert sparkline([2, 1, 0, -1], ascii_only=True) == "#+-_"
    assert len(sparkline(np.geomspace(1, 1e-3, 1000), width=40)) == 40


def test_flats_are_reproducible_and_hold_missing_values():
    first, again, other = generate_flats(500, 1), generate_flats(500, 1), generate_flats(500, 2)
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.price, other.price)
    assert np.isnan(first.X).any(axis=0).sum() == 1
    assert 0.85 < explained(first.price, first.expected) < 1
