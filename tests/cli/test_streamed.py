"""Tables that stay on disk give what they give in memory, byte for byte."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from stagewise.cli import source, stream

QUICK = ["--n-estimators", "8", "--min-samples-leaf", "5"]


def table(n: int = 700, seed: int = 0) -> pa.Table:
    """Numbers with gaps, whole numbers, texts and a dictionary, one level of which only few rows have."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    place = rng.choice(["north", "south", "east"], n).astype(object)
    place[::97] = "moon"
    raw = X[:, 0] + (place == "south") + rng.normal(scale=0.2, size=n)
    price = np.where(rng.random(n) < 0.05, np.nan, raw)
    return pa.table(
        {
            "a": X[:, 0],
            "b": pa.array(np.where(rng.random(n) < 0.1, np.nan, X[:, 1]), from_pandas=True),
            "size": rng.integers(0, 400, n),
            "place": pa.array(place),
            "level": pa.array(rng.choice(["low", "high", "top"], n)).dictionary_encode(),
            "price": pa.array(price, from_pandas=True),
            "bought": np.where(raw > 0, "yes", "no"),
            "kind": np.digitize(raw, [-0.5, 0.5]),
            "w": rng.uniform(0.5, 2.0, n),
        }
    )


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Many batches, also of a small file."""
    monkeypatch.setattr(stream, "_BLOCK", 4096)
    real = stream.Stream.batches

    def small(self, columns=None):
        for own in real(self, columns):
            for at in range(0, own.num_rows, 37):
                yield own.slice(at, 37)

    monkeypatch.setattr(stream.Stream, "batches", small)


@pytest.fixture
def files(tmp_path):
    """The same table as one file of CSV, one of Parquet, and three of each."""
    whole = table()
    pa.csv.write_csv(whole, tmp_path / "d.csv")
    pa.parquet.write_table(whole, tmp_path / "d.parquet", row_group_size=100)
    for k, (start, stop) in enumerate([(0, 50), (50, 400), (400, 700)]):
        pa.csv.write_csv(whole.slice(start, stop - start), tmp_path / f"part-{k}.csv")
        pa.parquet.write_table(whole.slice(start, stop - start), tmp_path / f"part-{k}.parquet")


def both(run, path, target, *args):
    """Train in memory and on disk: the bytes of both models, and what was told."""
    ignored = [part for own in ("price", "bought", "kind", "w") if own not in (target, *args) for part in ("--ignore", own)]
    told = []
    for where in ("--in-memory", "--on-disk"):
        result = run("train", path, "--target", target, *ignored, *QUICK, *args, where, "--out", f"m{where}", "--json",
                     "--force")  # fmt: skip
        assert result.exit_code == 0, result.output
        told.append({**json.loads(result.stdout), "seconds": None, "model": None})
    assert told[0] == told[1]
    one, other = Path("m--in-memory").read_bytes(), Path("m--on-disk").read_bytes()
    assert one == other
    return told[1]


@pytest.mark.parametrize("path", ["d.csv", "d.parquet", "part-*.csv", "part-*.parquet"])
@pytest.mark.parametrize("target", ["price", "bought", "kind"])
def test_the_same_model_and_scores(run, files, path, target):
    told = both(run, path, target, "--weight", "w")
    assert told["rows"]["held_out"] > 100


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--where", "a > -1", "--where", "w < 1.9"],
        ["--test-fraction", "0"],
        ["--no-early-stopping", "--seed", "5", "--subsample", "0.7"],
        ["--categorical", "size", "--categorical", "place", "--categorical", "level"],
        ["--set", "max_bins=20"],
    ],
)
def test_options(run, files, args):
    both(run, "d.parquet", "price", *args)


@pytest.mark.parametrize("weights", ["balanced", "{no = 1, yes = 3}"])
def test_class_weights(run, files, weights):
    both(run, "d.csv", "bought", "--set", f"class_weight={weights}", "--weight", "w")
    both(run, "d.csv", "bought", "--set", f"class_weight={weights}")
