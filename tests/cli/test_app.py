"""The frame of the command: help, versions, exit codes, what happens when something goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import stagewise as sw
from stagewise.cli import demo as demo_module
from stagewise.errors import InputError

COMMANDS = ("demo", "train", "predict", "explain", "report", "info", "convert", "warmup")


def test_version(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.strip() == f"stagewise {sw.__version__}"


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=lambda own: " ".join(own) or "all")
def test_help_documents_exit_codes(run, command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for words in ("0 done", "1 the machine failed", "2 the command, a file or the data cannot be used", "130 stopped"):
        assert words in text


def test_help_lists_every_command(run):
    text = run("--help").stdout
    assert all(f" {name} " in text for name in COMMANDS)
    assert run().exit_code in (0, 2)  # typer's habit for no arguments
    assert "Usage" in run().output


@pytest.mark.parametrize(
    "args, word",
    [
        (["demo", "--rows", "3"], "--rows"),
        (["demo", "--stages", "many"], "--stages"),
        (["demo", "--colour"], "--colour"),
        (["train", "data.csv", "--n-estimators", "1.5"], "--n-estimators"),
        (["tarin"], "tarin"),
        (["predict"], "MODEL"),
    ],
)
def test_wrong_usage_ends_with_2(run, args, word):
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert word in result.stderr
    assert "Traceback" not in result.stderr


def test_errors_of_the_library_are_one_line(refused, monkeypatch):
    def refuse(rows, seed):
        raise InputError("y[3] is [nan];\nremove that row.")

    monkeypatch.setattr(demo_module, "generate_flats", refuse)
    assert refused("demo") == "error: y[3] is [nan]; remove that row.\n"  # brackets are text, not markup


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
def test_failures_of_the_machine_end_with_1(refused, monkeypatch, error):
    def fail(rows, seed):
        raise error

    monkeypatch.setattr(demo_module, "generate_flats", fail)
    refused("demo", code=1, words=["No space left" if isinstance(error, OSError) else "not enough memory"])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_debug_shows_where_an_error_comes_from(run, place):
    args = ["info", "nowhere.stagewise"]
    args.insert(place, "--debug")
    result = run(*args)
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "error: [Errno 2] No such file or directory: 'nowhere.stagewise'" in result.stderr


def test_ctrl_c_outside_a_fit_ends_with_130(run, monkeypatch):
    def interrupt(rows, seed):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_module, "generate_flats", interrupt)
    assert run("demo").exit_code == 130


def test_bugs_are_not_hidden(run, monkeypatch):
    def broken(rows, seed):
        raise ZeroDivisionError

    monkeypatch.setattr(demo_module, "generate_flats", broken)
    assert isinstance(run("demo").exception, ZeroDivisionError)


def test_help_is_quick():
    """Nothing heavy is loaded before a command runs."""
    heavy = ("numba", "sklearn", "scipy", "pandas", "pyarrow", "matplotlib")
    code = f"import stagewise.cli, sys; print(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "", done.stdout + done.stderr


def test_without_the_extra_one_line_names_it(tmp_path):
    """A plain `pip install stagewise`: no pyarrow, no matplotlib."""
    (tmp_path / "data.csv").write_text("a,y\n1,2\n3,4\n")
    code = (
        "import sys\n"
        "class NotInstalled:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('pyarrow', 'matplotlib', 'pandas', 'polars'):\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, NotInstalled())\n"
        "from stagewise.cli import main\n"
        "main()\n"
    )

    def plain(*args):
        return subprocess.run(
            [sys.executable, "-c", code, *args],
            cwd=tmp_path, capture_output=True, text=True, timeout=300, env=os.environ | {"COLUMNS": "160"},
        )  # fmt: skip

    refused = plain("train", "data.csv", "--target", "y")
    assert refused.returncode == 2
    assert refused.stderr == "error: reading and writing tables needs pyarrow: pip install 'stagewise[cli]'\n"
    done = plain("demo", "--rows", "400", "--stages", "3")
    assert done.returncode == 0, done.stderr
    assert "There is no report without matplotlib: pip install 'stagewise[cli]'" in done.stdout
    assert (tmp_path / "stagewise-demo.stagewise").exists()
