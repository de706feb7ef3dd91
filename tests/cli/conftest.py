"""The command in an empty folder, and small tables for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from stagewise import cli


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command in an empty folder, on a wide terminal; stdin by `input=`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *args, **options: CliRunner().invoke(cli.app, list(args), prog_name="stagewise", **options)


@pytest.fixture
def refused(run, tmp_path):
    """Run a command that must fail: one line on stderr with these words, nothing on stdout, nothing written."""

    def check(*args, code=2, words=(), **options):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        result = run(*args, **options)
        assert result.exit_code == code, result.output
        assert isinstance(result.exception, SystemExit)
        assert "Traceback" not in result.output
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1, result.stderr
        for word in words:
            assert word in result.stderr
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
        return result.stderr

    return check


def table(n: int = 300, seed: int = 0) -> pa.Table:
    """Numbers with gaps; three targets; a weight."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    raw = X[:, 0] + np.where(X[:, 1] > 0, X[:, 2], 0.0)
    gaps = np.where(rng.random(n) < 0.1, np.nan, X[:, 1])
    return pa.table(
        {
            "a": X[:, 0],
            "b": pa.array(gaps, from_pandas=True),
            "c": X[:, 2],
            "price": raw + rng.normal(scale=0.1, size=n),
            "bought": np.where(raw > 0, "yes", "no"),
            "kind": np.digitize(raw, [-0.5, 0.5]),
            "w": rng.uniform(0.5, 2.0, n),
        }
    )


@pytest.fixture
def data(tmp_path):
    """data.csv with the table above."""
    pa.csv.write_csv(table(), tmp_path / "data.csv")
    return "data.csv"
