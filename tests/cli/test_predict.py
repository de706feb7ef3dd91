"""`stagewise predict`, `explain`, `report`, `info` and `convert`: the numbers of Python, from every kind of file."""

from __future__ import annotations

import gzip
import json
import os
import threading

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet
import pytest

import stagewise as sw

COLUMNS = ["a", "b", "c"]


@pytest.fixture
def trained(run, data):
    """m.stagewise for a target, and the table it saw."""

    def make(target="price", *args):
        ignored = [part for own in ("price", "bought", "kind", "w") if own != target for part in ("--ignore", own)]
        quick = ["--n-estimators", "8", "--min-samples-leaf", "5", "--out", "m.stagewise", "--quiet"]
        assert run("train", "data.csv", "--target", target, *ignored, *quick, *args).exit_code == 0
        return sw.load("m.stagewise"), pa.csv.read_csv("data.csv")

    return make


def ok(result):
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.csv.gz", "p.csv.zst", "p.parquet", "p.feather", "p.jsonl"])
def test_every_format_gives_the_numbers_of_python(run, trained, name):
    """Out in one format, and in again as the next input: bits survive both ways."""
    model, table = trained()
    ok(run("predict", "m.stagewise", "data.csv", "--out", name, *[part for own in COLUMNS for part in ("--keep", own)]))
    expected = model.predict(table.select(COLUMNS))
    ok(run("predict", "m.stagewise", name, "--out", "again.parquet"))
    again = pa.parquet.read_table("again.parquet")["prediction"].to_numpy()
    np.testing.assert_array_equal(again, expected)


def test_classes_come_with_their_probabilities(run, trained):
    model, table = trained("kind")
    ok(run("predict", "m.stagewise", "data.csv", "--out", "p.csv"))
    got = pa.csv.read_csv("p.csv")
    X = table.select(COLUMNS)
    assert got.column_names == ["prediction", "probability_0", "probability_1", "probability_2"]
    np.testing.assert_array_equal(got["prediction"].to_numpy(), model.predict(X))
    shares = np.column_stack([got[f"probability_{k}"].to_numpy() for k in range(3)])
    np.testing.assert_array_equal(shares, model.predict_proba(X))
    ok(run("predict", "m.stagewise", "data.csv", "--out", "raw.csv", "--kind", "raw"))
    raw = pa.csv.read_csv("raw.csv")
    np.testing.assert_array_equal(
        np.column_stack([raw[f"raw_{k}"].to_numpy() for k in range(3)]), model.decision_function(X)
    )


def test_stdin_to_stdout(run, trained, tmp_path):
    model, table = trained("bought")
    plain = (tmp_path / "data.csv").read_bytes()
    result = ok(run("predict", "m.stagewise", "-", "--kind", "prediction", input=plain))
    assert result.stdout.split() == ["prediction", *model.predict(table.select(COLUMNS))]
    packed = ok(run("predict", "m.stagewise", "-", "--kind", "prediction", input=gzip.compress(plain)))
    assert packed.stdout == result.stdout
    lines = "".join(json.dumps(row) + "\n" for row in table.slice(0, 5).to_pylist())
    told = ok(run("predict", "m.stagewise", "-", "--kind", "prediction", input=lines.encode()))
    assert told.stdout.split() == result.stdout.split()[:6]


def test_from_a_pipe_with_a_name(run, trained, tmp_path):
    """What the shell makes of <(zcat new.csv.gz)."""
    model, table = trained()
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes((tmp_path / "data.csv").read_bytes()))
    writer.start()
    ok(run("predict", "m.stagewise", "pipe", "--out", "p.csv"))
    writer.join()
    np.testing.assert_array_equal(
        pa.csv.read_csv("p.csv")["prediction"].to_numpy(), model.predict(table.select(COLUMNS))
    )


def test_texts_that_need_quotes_get_them(run, trained, tmp_path):
    _, table = trained()
    odd = ['say "hi"', "a,b", "two\nlines", "plain", ""]
    pa.csv.write_csv(table.slice(0, 5).append_column("note", pa.array(odd)), "odd.csv")
    ok(run("predict", "m.stagewise", "odd.csv", "--keep", "note", "--out", "p.csv"))
    options = pa.csv.ParseOptions(newlines_in_values=True)
    assert pa.csv.read_csv("p.csv", parse_options=options)["note"].to_pylist()[:4] == odd[:4]


def test_columns_are_found_by_name(run, trained):
    """In another order, with others between, and with a column that has nothing but gaps."""
    model, table = trained()
    pa.csv.write_csv(table.select(["w", "c", "b", "price", "a"]), "other.csv")
    ok(run("predict", "m.stagewise", "other.csv", "--out", "p.csv"))
    np.testing.assert_array_equal(
        pa.csv.read_csv("p.csv")["prediction"].to_numpy(), model.predict(table.select(COLUMNS))
    )
    gone = table.set_column(1, "b", pa.nulls(300))
    pa.csv.write_csv(gone, "gone.csv")
    ok(run("predict", "m.stagewise", "gone.csv", "--out", "q.csv"))
    X = table.select(COLUMNS).set_column(1, "b", pa.nulls(300, pa.float64()))
    np.testing.assert_array_equal(pa.csv.read_csv("q.csv")["prediction"].to_numpy(), model.predict(X))


def test_a_model_without_names_takes_columns_in_order(run, data):
    table = pa.csv.read_csv("data.csv")
    X = np.column_stack([table[name].to_numpy() for name in COLUMNS])
    model = sw.GradientBoostingRegressor(n_estimators=3).fit(X, table["price"].to_numpy())
    sw.save(model, "plain.stagewise")
    pa.csv.write_csv(table.select(COLUMNS), "three.csv")
    ok(run("predict", "plain.stagewise", "three.csv", "--out", "p.csv"))
    np.testing.assert_array_equal(pa.csv.read_csv("p.csv")["prediction"].to_numpy(), model.predict(X))
    assert "3 without names" in run("predict", "plain.stagewise", "data.csv").stderr


def test_several_files_by_a_pattern(run, trained):
    model, table = trained()
    pa.csv.write_csv(table.slice(0, 100), "part-0.csv")
    pa.csv.write_csv(table.slice(100), "part-1.csv")
    told = json.loads(ok(run("predict", "m.stagewise", "part-*.csv", "--out", "p.csv", "--json")).stdout)
    assert told["rows"] == 300
    np.testing.assert_array_equal(
        pa.csv.read_csv("p.csv")["prediction"].to_numpy(), model.predict(table.select(COLUMNS))
    )


def test_explain(run, trained):
    model, table = trained()
    text = ok(run("explain", "m.stagewise", "data.csv", "--out", "shap.csv")).stdout
    assert "mean |SHAP|" in text
    assert "b × c" in text  # the pair that interacts
    got = pa.csv.read_csv("shap.csv")
    found = sw.inspection.shap_values(model, table.select(COLUMNS))
    np.testing.assert_array_equal(np.column_stack([got[name].to_numpy() for name in COLUMNS]), found.values)
    total = sum(got[name].to_numpy() for name in [*COLUMNS, "expected"])
    np.testing.assert_allclose(total, model.predict(table.select(COLUMNS)), rtol=1e-9)


def test_explain_one_row_and_json(run, trained):
    model, table = trained("kind")
    told = json.loads(ok(run("explain", "m.stagewise", "data.csv", "--row", "7", "--json")).stdout)
    raw = model.decision_function(table.select(COLUMNS))[7]
    assert [told["row"][name]["raw"] for name in "012"] == pytest.approx(raw.tolist())
    assert "Row 7: raw prediction for 2" in ok(run("explain", "m.stagewise", "data.csv", "--row", "7")).stdout
    told = json.loads(ok(run("explain", "m.stagewise", "data.csv", "--json")).stdout)
    assert list(told) == ["rows", "shap", "gain", "interactions"]


def test_explain_names_the_category_of_a_row(run):
    table = pa.table({"colour": ["red", "blue", None] * 30, "y": [1.0, 2.0, 3.0] * 30})
    pa.csv.write_csv(table, "d.csv")
    ok(run("train", "d.csv", "--target", "y", "--out", "m", "--n-estimators", "3", "--test-fraction", "0"))
    for row, told in (0, "red"), (1, "blue"), (2, "missing"):
        words = ok(run("explain", "m", "d.csv", "--row", str(row))).stdout.split()
        assert words[words.index("colour") + 1] == told


def test_explain_refuses_terms_that_are_no_trees(refused, run):
    pa.csv.write_csv(pa.table({"x": [1.0, 2.0, 3.0]}), "d.csv")
    model = sw.ComponentwiseRegressor(n_estimators=2).fit(pa.table({"x": [1.0, 2.0, 3.0]}), [1.0, 2.0, 4.0])
    sw.save(model, "m.stagewise")
    refused("explain", "m.stagewise", "d.csv", words=["only trees of our own", "ComponentwiseRegressor"])


def test_report_of_a_saved_model(run, trained, tmp_path):
    trained()
    ok(run("report", "m.stagewise", "data.csv", "--target", "price", "--title", "A <b> & c", "--out", "r.html"))
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h1>A &lt;b&gt; &amp; c</h1>" in page
    assert "whether trained on is not known" in page
    text = ok(run("info", "m.stagewise")).stdout
    for words in ("GradientBoostingRegressor", "SquaredError", "3: a, b, c", "Deviance by stage", "n_estimators", "8"):
        assert words in text
    told = json.loads(ok(run("info", "m.stagewise", "--json")).stdout)
    assert told["columns"] == COLUMNS
    assert told["settings"]["n_estimators"] == 8
    assert sum(told["importance"].values()) == pytest.approx(1.0)


def test_report_finds_the_one_column_that_is_not_used(run, trained, tmp_path):
    _, table = trained()
    pa.csv.write_csv(table.select([*COLUMNS, "price"]), "four.csv")
    result = ok(run("report", "m.stagewise", "four.csv", "--out", "r.html"))
    assert "Target: price" in result.stdout


@pytest.mark.parametrize("out", ["m.txt", "x.json", "m.c", "m.py", "m.onnx", "copy.stagewise"])
def test_convert_out(run, trained, out):
    trained("bought")
    told = json.loads(ok(run("convert", "m.stagewise", out, "--json")).stdout)
    assert told["out"].endswith(out)
    assert out == "copy.stagewise" or told["checked"]["rows"] > 0
    assert "exists already" in run("convert", "m.stagewise", out).stderr


@pytest.mark.parametrize("middle", ["m.txt", "x.json"])
def test_convert_there_and_back(run, trained, middle):
    model, table = trained()
    assert "Checked with" in ok(run("convert", "m.stagewise", middle)).stdout
    ok(run("convert", middle, "back.stagewise"))
    back = sw.load("back.stagewise")
    X = np.column_stack([table[name].to_numpy().astype(np.float32) for name in COLUMNS]).astype(float)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names on one side
        np.testing.assert_allclose(back.predict(X), model.predict(X), rtol=1e-5)
