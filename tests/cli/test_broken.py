"""Broken input of every kind: one clear line, exit code 2, nothing written (the fixture `refused` checks all three)."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

GOOD = "a,b,y\n" + "".join(f"{k},{k % 7},{k * 0.5}\n" for k in range(80))
OUT = ["--target", "y", "--out", "m.stagewise", "--report", "r.html", "--write-config", "run.toml"]
NOISE = np.random.default_rng(0).bytes(5000)


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("d.csv", GOOD.replace("y\n", "z\n", 1), ["no column 'y'", "'a', 'b', 'z'"]),
        ("d.csv", "", ["d.csv is empty"]),
        ("d.csv", "\n\n  \n", ["d.csv is empty"]),
        ("d.csv", "a,b,y\n", ["d.csv has no rows"]),
        ("d.csv", GOOD + "1,2\n", ["d.csv cannot be read as CSV", "Expected 3 columns, got 2"]),
        ("d.csv", GOOD + "1,2,3,4\n", ["Expected 3 columns, got 4"]),
        ("d.csv", GOOD.replace(",", ";"), ["no column 'y'", "divided by ';'", "--delimiter ';'"]),
        ("d.csv", GOOD.replace(",", "\t"), ["divided by '\\t'"]),
        ("d.csv", NOISE, ["d.csv is no text"]),
        ("d.csv", bytes(b | 0x80 for b in NOISE), ["d.csv"]),
        ("d.csv", (GOOD + "1,Größe,3\n").encode("latin1"), ["not UTF-8 (b)", "iconv"]),
        ("d.csv", GOOD.replace("b", "Größe", 1).encode("latin1"), ["not UTF-8 (the names", "iconv"]),
        ("d.parquet", NOISE, ["d.parquet cannot be read as Parquet"]),
        ("d.parquet", b"PAR1" + NOISE + b"PAR1", ["d.parquet cannot be read as Parquet"]),
        ("d.feather", NOISE, ["d.feather cannot be read as an Arrow file"]),
        ("d.jsonl", NOISE, ["d.jsonl is no text"]),
        ("d.jsonl", "[1, 2, 3]\n", ["d.jsonl cannot be read as JSON lines"]),
        ("d.jsonl", '{"a": 1, "y": 2}\n{"a": 1, "y"', ["d.jsonl cannot be read as JSON lines"]),
        ("d.csv.gz", gzip.compress(GOOD.encode())[:-30], ["d.csv.gz cannot be read"]),
        ("d.csv.gz", b"\x1f\x8b" + NOISE, ["d.csv.gz cannot be read"]),
        ("d.csv.zst", b"\x28\xb5\x2f\xfd" + NOISE, ["d.csv.zst cannot be read"]),
        ("d.csv", "a,a,y\n1,2,3\n", ["more than one column named 'a'"]),
        ("d.csv", "a,y\n" + "1,\n" * 50, ["every value of the target 'y' is missing"]),
        ("d.csv", "a,y\n" + "1,nan\n" * 50, ["every value of the target 'y' is missing"]),
        ("d.csv", "y\n1\n2\n", ["no column left to learn from"]),
        ("d.csv", "a,y\n" + "1,same\n" * 50, ["'y' has one value only ('same')"]),
        ("d.csv", "a,y\n" + "".join(f"1,t{k}\n" for k in range(300)), ["300 different texts", "--task classification"]),
        ("d.csv", "a,y\n" + "1,2020-01-01\n" * 50, ["type date32"]),
        ("d.csv", "a,y\n" + "".join(f"{k},inf\n" for k in range(80)), ["infinity"]),
    ],
)
def test_broken_files(refused, tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    refused("train", name, *OUT, words=words)


@pytest.mark.parametrize(
    "args, words",
    [
        (["nowhere.csv", *OUT], ["No such file or directory: 'nowhere.csv'"]),
        ([".", *OUT], [". is a folder", "./*.parquet"]),
        (["part-*.csv", *OUT], ["no file matches 'part-*.csv'"]),
        (["d.csv", "--out", "m"], ["name the column to be predicted with --target"]),
        (["--target", "y"], ["name the data to train on"]),
        (["d.csv", *OUT, "--where", "a > 1000"], ["no row of d.csv meets a > 1000"]),
        (["d.csv", *OUT, "--where", "q = 1"], ["no column 'q'"]),
        (["d.csv", *OUT, "--where", "a"], ["--where 'a' must be a column"]),
        (["d.csv", *OUT, "--where", "a > much"], ["'much' cannot be compared"]),
        (["d.csv", *OUT, "--ignore", "q"], ["no column 'q'"]),
        (["d.csv", *OUT, "--weight", "q"], ["no column 'q'"]),
        (["d.csv", *OUT, "--weight", "y"], ["target and weight at once"]),
        (["d.csv", *OUT, "--delimiter", ";;"], ["must be one character"]),
        (["d.csv", *OUT, "--delimiter", ";"], ["no column 'y'"]),
        (["d.csv", *OUT, "--format", "parquet"], ["cannot be read as Parquet"]),
        (["d.csv", *OUT, "--format", "xls"], ["--format", "csv"]),
        (["d.csv", *OUT, "--task", "ranking"], ["--task='ranking' is not known"]),
        (["d.csv", *OUT, "--loss", "hinge"], ["loss='hinge' is not known"]),
        (["d.csv", *OUT, "--learning-rate", "7"], ["learning_rate=7.0 must be in (0, 1]"]),
        (["d.csv", *OUT, "--test-fraction", "0.999"], ["rows leaves none to train on"]),
        (["d.csv", *OUT, "--test-fraction", "1"], ["--test-fraction=1.0 must be in [0, 1)"]),
        (["d.csv", *OUT, "--seed", "-1"], ["--seed=-1"]),
        (["d.csv", *OUT, "--threads", "0"], ["n_jobs=0"]),
        (["d.csv", *OUT, "--set", "depth"], ["must be NAME=VALUE"]),
        (["d.csv", *OUT, "--set", "max_dept=3"], ["no parameter 'max_dept'", "'max_depth'?"]),
        (["d.csv", *OUT, "--set", "n_jobs=3"], ["no parameter 'n_jobs'"]),
        (["d.csv", *OUT, "--set", "class_weight={no = 1}", "--task", "classification"], ["class 'no'"]),
        (["d.csv", "--target", "y", "--out", "no/m"], ["there is no folder no"]),
        (["d.csv", "--target", "y", "--out", "."], [". is a folder; --out must name a file"]),
        (["d.csv", "--target", "y", "--report", "-"], ["only --out may be -"]),
        (["d.csv", "--target", "y", "--out", "-", "--json"], ["--json and --out - both want stdout"]),
        (["--config", "nowhere.toml"], ["nowhere.toml"]),
        (["--config", "d.csv"], ["d.csv cannot be read as TOML"]),
    ],
)
def test_broken_commands(refused, tmp_path, args, words):
    (tmp_path / "d.csv").write_text(GOOD)
    refused("train", *args, words=words)


@pytest.mark.parametrize(
    "text, words",
    [
        ("data = 3", ["data must be a part"]),
        ("[other]\nx = 1", ["[other]"]),
        ("[data]\ntarget = 'y'", ["path in [data]"]),
        ("[data]\npath = 'd.csv'\ncolour = 'red'", ["'colour' in [data]"]),
        ("[data]\npath = 'd.csv'\ntarget = 3", ["target = 3 must be a text"]),
        ("[data]\npath = 'd.csv'\ntarget = 'y'\nignore = 'a'", ["ignore must be a list"]),
        ("[data]\npath = 'd.csv'\ntarget = 'y'\n[run]\nstages = 3", ["'stages' in [run]"]),
        ("[data]\npath = 'd.csv'\ntarget = 'y'\n[run]\nseed = 'x'", ["--seed='x'"]),
        ("[data]\npath = 'd.csv'\ntarget = 'y'\n[parameters]\nstages = 3", ["no parameter 'stages'"]),
    ],
)
def test_broken_configs(refused, tmp_path, text, words):
    (tmp_path / "d.csv").write_text(GOOD)
    (tmp_path / "c.toml").write_text(text)
    refused("train", "--config", "c.toml", "--out", "m", words=words)


def test_no_permission_to_read(refused, tmp_path, monkeypatch):
    """Made, because root may read everything."""
    (tmp_path / "d.csv").write_text(GOOD)

    def refuse(path, *args, **options):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("stagewise.cli.source.open", refuse, raising=False)
    refused("train", "d.csv", *OUT, words=["Permission denied: 'd.csv'"])


def test_devices_have_no_end(refused):
    refused("train", "/dev/zero", *OUT, words=["neither a file nor a pipe"])


def test_more_than_memory_holds(refused, tmp_path, monkeypatch):
    (tmp_path / "d.csv").write_text(GOOD)
    pa.parquet.write_table(pa.table({"a": np.zeros(1000), "y": np.zeros(1000)}), tmp_path / "d.parquet")
    monkeypatch.setattr("stagewise.cli.source.memory_free", lambda: 1000)
    (tmp_path / "d.jsonl").write_text('{"a": 1, "y": 2}\n' * 100)
    for name in ("d.csv", "d.parquet"):  # unless they may stay on disk
        refused("train", name, *OUT, "--in-memory", words=["GB are free"])
    refused("train", "d.jsonl", *OUT, words=["GB are free", "CSV and Parquet of any size"])


def test_no_permission_to_write(refused, tmp_path, monkeypatch):
    (tmp_path / "d.csv").write_text(GOOD)
    monkeypatch.setattr("stagewise.cli.destination.os.access", lambda path, mode: False)
    refused("train", "d.csv", *OUT, words=["m.stagewise cannot be written", "does not allow it"])


def test_missing_weights(refused, tmp_path):
    pa.parquet.write_table(
        pa.table({"a": [1, 2, 3], "w": [1.0, None, 1.0], "y": [1.5, 2.5, 3.5]}), tmp_path / "d.parquet"
    )
    refused("train", "d.parquet", *OUT, "--weight", "w", words=["'w' is missing in 1 rows"])


@pytest.mark.parametrize(
    "args, words",
    [
        (["predict", "m", "d.csv"], ["lacks columns", "'c'"]),
        (["predict", "d.csv", "d.csv"], ["d.csv"]),
        (["predict", "nowhere", "d.csv"], ["nowhere"]),
        (["predict", "m", "nowhere.csv"], ["nowhere.csv"]),
        (["predict", "m", "data.csv", "--kind", "odds"], ["--kind='odds'"]),
        (["predict", "m", "data.csv", "--kind", "probabilities"], ["is for classifiers"]),
        (["predict", "m", "data.csv", "--keep", "q"], ["--keep 'q'"]),
        (["predict", "m", "p.csv", "--keep", "prediction"], ["--keep 'prediction'", "of that name"]),
        (["predict", "m", "data.csv", "--out", "data.csv", "--force"], ["also what is read"]),
        (["predict", "m", "data.csv", "--json"], ["--json and --out -"]),
        (["explain", "m", "d.csv"], ["lacks columns"]),
        (["explain", "m", "data.csv", "--row", "300"], ["--row 300 does not exist"]),
        (["explain", "m", "data.csv", "--top", "0"], ["--top=0"]),
        (["report", "m", "data.csv", "--out", "r.html"], ["name the target with --target", "bought"]),
        (["report", "m", "d.csv", "--target", "y"], ["lacks columns"]),
        (["report", "m", "data.csv", "--target", "bought"], ["y"]),
        (["info", "data.csv"], ["data.csv"]),
        (["info", "nowhere"], ["nowhere"]),
        (["convert", "m", "x.onnx"], ["does not say the format", "--from"]),
        (["convert", "m", "x.doc", "--from", "stagewise"], ["--to"]),
        (["convert", "m", "x.py", "--from", "pickle"], ["--from 'pickle'"]),
        (["convert", "data.csv", "x.py", "--from", "lightgbm"], ["LightGBM"]),
        (["convert", "data.csv", "x.py", "--from", "xgboost"], ["XGBoost"]),
        (["convert", "-", "x.py", "--from", "stagewise"], ["not stdin"]),
    ],
)
def test_other_commands(refused, run, data, tmp_path, args, words):
    (tmp_path / "d.csv").write_text(GOOD)
    columns = [part for name in ("bought", "kind", "w") for part in ("--ignore", name)]
    quick = ["--n-estimators", "2", "--out", "m"]
    assert run("train", "data.csv", "--target", "price", *columns, *quick).exit_code == 0
    keep = [part for name in "abc" for part in ("--keep", name)]
    assert run("predict", "m", "data.csv", "--out", "p.csv", *keep).exit_code == 0
    refused(*args, words=words)
