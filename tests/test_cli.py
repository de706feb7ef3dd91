"""The command: what it prints, what it leaves behind, how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import stagewise as sw
from stagewise import cli
from stagewise.errors import InputError

SMALL = ["--rows", "600", "--stages", "12"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command in an empty folder, on a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *args: CliRunner().invoke(cli.app, list(args), prog_name="stagewise")


def assert_user_error(result, code, *words):
    """The exit code, one clear message, and no traceback (an unhandled exception would be kept in the result)."""
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert result.stdout == ""
    for word in words:
        assert word in result.stderr.replace("\n", " ")


def test_version(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.strip() == f"stagewise {sw.__version__}"


@pytest.mark.parametrize("command", [[], ["demo"], ["warmup"]])
def test_help_documents_exit_codes(run, command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for words in ("0 done", "1 it could not be done", "2 the command was written wrongly", "130 stopped by Ctrl-C"):
        assert words in text


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
    path = tmp_path / cli.DEMO_FILE
    assert f"Model saved to {path}" in result.stdout
    assert [p.name for p in tmp_path.iterdir()] == [path.name]  # no temporary file is left

    model = sw.load(path)
    flats = cli.generate_flats(600, seed=1).part(0.8, 1)
    score = cli.explained(flats.price, model.predict(flats.X))
    assert f"{score:.1%} of the variance" in result.stdout  # the saved model is the one that was scored
    assert model.n_estimators_ <= 12


def test_demo_replaces_its_own_default_file(run, tmp_path):
    (tmp_path / cli.DEMO_FILE).write_bytes(b"from the last time")
    assert run("demo", *SMALL).exit_code == 0
    assert sw.load(tmp_path / cli.DEMO_FILE).n_estimators_ >= 1


def test_demo_replaces_another_file_only_by_force(run, tmp_path):
    mine = tmp_path / "mine.stagewise"
    mine.write_bytes(b"precious")
    assert_user_error(run("demo", *SMALL, "--out", "mine.stagewise"), 1, "mine.stagewise exists already", "--force")
    assert mine.read_bytes() == b"precious"
    assert run("demo", *SMALL, "--out", "mine.stagewise", "--force").exit_code == 0
    assert mine.read_bytes() != b"precious"


def test_demo_wants_a_file_in_an_existing_folder(run, tmp_path):
    assert_user_error(run("demo", "--out", "nowhere/m.stagewise"), 1, "no folder nowhere")
    assert_user_error(run("demo", "--out", str(tmp_path)), 1, "is a folder")


@pytest.mark.parametrize(
    "args, word",
    [
        (["demo", "--rows", "3"], "--rows"),
        (["demo", "--stages", "many"], "--stages"),
        (["demo", "--colour"], "--colour"),
        (["tarin"], "tarin"),
    ],
)
def test_wrong_usage_ends_with_2(run, args, word):
    assert_user_error(run(*args), 2, word)


def test_errors_of_the_library_and_the_system_are_one_line(run, monkeypatch):
    def refuse(rows, seed):
        raise InputError("y[3] is [nan]; remove that row.")

    monkeypatch.setattr(cli, "generate_flats", refuse)
    assert_user_error(run("demo"), 1, "error: y[3] is [nan]; remove that row.")  # brackets are text, not markup

    def full(rows, seed):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cli, "generate_flats", full)
    assert_user_error(run("demo"), 1, "No space left on device")


def test_ctrl_c_outside_a_fit_ends_with_130(run, monkeypatch):
    def interrupt(rows, seed):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "generate_flats", interrupt)
    assert_user_error(run("demo"), 130)


def test_bugs_are_not_hidden(run, monkeypatch):
    def broken(rows, seed):
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "generate_flats", broken)
    assert isinstance(run("demo").exception, ZeroDivisionError)


def test_warmup_tells_time_and_folder(run):
    result = run("warmup")
    assert result.exit_code == 0, result.output
    assert "kinds of fit ready in" in result.stdout
    folders = cli.cache_folders()
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
    assert cli.sparkline([]) == ""
    assert cli.sparkline([3.0, 3.0]) == "▁▁"
    assert cli.sparkline([100, 10, 1]) == "█▅▁"  # log scale
    assert cli.sparkline([2, 1, 0, -1], ascii_only=True) == "#+-_"
    assert len(cli.sparkline(np.geomspace(1, 1e-3, 1000), width=40)) == 40


def test_flats_are_reproducible_and_hold_missing_values():
    first, again, other = cli.generate_flats(500, 1), cli.generate_flats(500, 1), cli.generate_flats(500, 2)
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.price, other.price)
    assert np.isnan(first.X).any(axis=0).sum() == 1
    assert 0.85 < cli.explained(first.price, first.expected) < 1
