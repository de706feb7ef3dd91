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

from stagewise.cli import source, stream, streamed
from stagewise.cli.table import Choice
from stagewise.errors import InputError

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
    ignored = [
        part for own in ("price", "bought", "kind", "w") if own not in (target, *args) for part in ("--ignore", own)
    ]
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
        ["--categorical", "size"],
        ["--set", "max_bins=20"],
    ],
)
def test_options(run, files, args):
    both(run, "d.parquet", "price", *args)


@pytest.mark.parametrize("weights", ["balanced", "{no = 1, yes = 3}"])
def test_class_weights(run, files, weights):
    both(run, "d.csv", "bought", "--set", f"class_weight={weights}", "--weight", "w")
    both(run, "d.csv", "bought", "--set", f"class_weight={weights}")


def test_memory_decides(run, files, refused, monkeypatch):
    monkeypatch.setattr(source, "memory_free", lambda: 1000)
    opened = []
    real = stream.Stream.open
    monkeypatch.setattr(stream.Stream, "open", lambda *args: opened.append(args) or real(*args))
    result = run("train", "d.parquet", "--target", "price", *QUICK, "--out", "m", "--report", "r.html")
    assert result.exit_code == 0, result.output
    assert len(opened) == 1
    assert run("predict", "m", "d.csv", "--out", "p.csv").exit_code == 0
    assert len(opened) == 2
    refused("train", "d.csv", "--target", "price", "--in-memory", words=["GB are free"])
    refused("explain", "m", "d.csv", words=["GB are free", "train and predict"])


def test_only_csv_and_parquet(refused, tmp_path):
    (tmp_path / "d.jsonl").write_text('{"a": 1, "y": 2}\n')
    refused("train", "d.jsonl", "--target", "y", "--on-disk", words=["--on-disk takes", "d.jsonl is none"])
    refused("train", "-", "--target", "y", "--on-disk", input=b"a,y\n1,2\n", words=["--on-disk takes"])
    refused("train", "no-*.csv", "--target", "y", "--on-disk", words=["no file matches"])


def test_a_cache_is_used_again(run, files, tmp_path):
    args = ["train", "d.parquet", "--target", "price", "--on-disk", "--cache", "bins", *QUICK]
    assert run(*args, "--out", "1").exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "bins").rglob("*") if path.is_file()}
    assert run(*args, "--out", "2").exit_code == 0
    assert run(*args, "--out", "3", "--learning-rate", "0.2").exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "bins").rglob("*") if path.is_file()} == before
    assert Path("1").read_bytes() == Path("2").read_bytes() != Path("3").read_bytes()
    assert run(*args, "--out", "4", "--seed", "3").exit_code == 0  # other rows are held out: built anew
    assert run(*args[:4], *QUICK, "--out", "5", "--seed", "3").exit_code == 0
    assert Path("4").read_bytes() == Path("5").read_bytes()


def test_a_cache_that_cannot_be(refused, files):
    args = ["train", "d.parquet", "--target", "price", "--cache"]
    refused(*args, "bins", "--in-memory", words=["--cache is for tables that stay on disk"])
    refused(*args, "d.csv", words=["--cache d.csv must be a folder"])


@pytest.mark.parametrize("change", [50, -50])
def test_a_file_that_changes_meanwhile(run, files, change):
    own = streamed.stream_table(Choice("d.parquet", target="price"))
    pa.parquet.write_table(pa.concat_tables([table(), table()]).slice(0, 700 + change), "d.parquet")
    with pytest.raises(InputError, match=r"d.parquet changed while it was read"):
        list(own.batches())


def test_the_report_is_on_a_sample(run, files, monkeypatch):
    monkeypatch.setattr("stagewise.cli.streamed._SHOWN_ROWS", 50)
    args = ["train", "d.csv", "--target", "bought", "--on-disk", *QUICK]
    result = run(*args, "--report", "r.html")
    assert result.exit_code == 0, result.output
    assert "50 of 140 rows, drawn at random" in Path("r.html").read_text(encoding="utf-8")


def test_types_that_change_late(run, tmp_path):
    """Whole numbers, then numbers; gaps, then dates or texts; numbers, then texts: as when the file is read whole."""
    lines = []
    for k in range(2000):
        late = k > 1500
        cells = [
            k % 7 + (0.5 if late else 0),
            "" if not late else "x" * (k % 3 + 1),
            k % 5 if not late else f"t{k % 5}",
        ]
        cells += ["2024-01-01" if not late else f"2024-01-01 10:00:0{k % 10}", "true" if k % 2 and late else k % 2]
        lines.append(",".join(map(str, [*cells, k % 11 * 0.25])))
    text = "a,b,c,d,e,y\n" + "\n".join(lines) + "\n"
    (tmp_path / "late.csv").write_text(text)
    (tmp_path / "late.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("late.csv", "late.csv.gz"):
        whole, opened = source.read_arrow(name), stream.Stream.open(name)
        assert opened.schema == whole.schema
        assert pa.concat_tables(opened.batches()).combine_chunks() == whole.combine_chunks()


def test_files_with_other_types_and_columns(run, tmp_path):
    (tmp_path / "n-1.csv").write_text("a,b,y\n" + "".join(f"{k},{k % 3},{k}.5\n" for k in range(100)))
    (tmp_path / "n-2.csv").write_text("b,a,c,y\n" + "".join(f"{k % 4}.5,{k},{k % 5},{k}\n" for k in range(100)))
    whole, opened = source.read_arrow("n-*.csv"), stream.Stream.open("n-*.csv")
    assert opened.schema == whole.schema
    assert pa.concat_tables(opened.batches()).combine_chunks() == whole.combine_chunks()
    some = pa.concat_tables(opened.batches(["c", "y"]))
    assert some.column_names == ["y", "c"]


@pytest.mark.parametrize("name", ["p.csv", "p.tsv.gz", "p.parquet", "p.feather", "p.jsonl", "-"])
@pytest.mark.parametrize("target", ["price", "bought"])
def test_predictions(run, files, name, target):
    ignored = [part for own in ("price", "bought", "kind", "w") if own != target for part in ("--ignore", own)]
    assert run("train", "d.csv", "--target", target, *ignored, *QUICK, "--out", "m").exit_code == 0
    got = []
    for where in ("--in-memory", "--on-disk"):
        args = ["--keep", "place", "--keep", "w", "--where", "a > 0", where, "--force"]
        result = run("predict", "m", "part-*.parquet", *args, "--out", name)
        assert result.exit_code == 0, result.output
        got.append(result.stdout if name == "-" else source.read_arrow(name))
    assert got[0] == got[1]


def test_predictions_refused(run, files, refused):
    assert run("train", "d.csv", "--target", "price", *QUICK, "--out", "m").exit_code == 0
    for args, words in [
        (["--keep", "nobody"], ["--keep 'nobody'", "no such column"]),
        (["--where", "a > 1e9"], ["nothing is left"]),
        (["--where", "nobody > 1"], ["no column 'nobody'"]),
        (["--kind", "probabilities"], ["for classifiers"]),
    ]:
        for out in ("p.csv", "p.parquet", "-"):
            refused("predict", "m", "d.csv", "--on-disk", *args, "--out", out, words=words)


@pytest.mark.parametrize(
    "text, words",
    [
        ("a,y\n", ["has no rows"]),
        ("", ["is empty"]),
        ("a,a,y\n1,2,3\n", ["more than one column named 'a'"]),
        ("a,y\n1,\n2,\n", ["every value of the target 'y' is missing"]),
        ("a,z\n1,2\n", ["no column 'y'"]),
        ("y\n1\n", ["no column left"]),
        ("a,y\n" + "1,2\n" * 3000 + "1,2,3\n", ["cannot be read as CSV", "Expected 2 columns, got 3"]),
    ],
)
def test_broken(refused, tmp_path, text, words):
    (tmp_path / "d.csv").write_text(text)
    for where in ("--on-disk", "--in-memory"):
        refused("train", "d.csv", "--target", "y", where, "--out", "m", words=words)


def test_damaged_or_foreign_bytes(refused, tmp_path):
    good = "a,b,y\n" + "".join(f"{k},x{k % 3},{k}.5\n" for k in range(2000))
    (tmp_path / "d.csv").write_bytes((good + "1,Größe,2\n").encode("latin1"))
    refused("train", "d.csv", "--target", "y", "--on-disk", words=["d.csv", "UTF"])
    pa.parquet.write_table(table(), tmp_path / "d.parquet")
    whole = (tmp_path / "d.parquet").read_bytes()
    (tmp_path / "d.parquet").write_bytes(whole[:3000] + whole[5000:])
    refused("train", "d.parquet", "--target", "price", "--on-disk", words=["d.parquet cannot be read"])


def test_the_index_of_a_pandas_frame_is_no_column(run, files):
    with_index = table().append_column("__index_level_0__", [np.random.default_rng(1).permutation(700)])
    pa.parquet.write_table(with_index, "indexed.parquet")
    told = both(run, "indexed.parquet", "price", "--report", "r.html")
    assert told["columns"] == 5
