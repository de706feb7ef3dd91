"""Predictions for tables in batches are those of the whole table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import stagewise as sw
from stagewise.errors import InputError, InputTypeError, ParameterError

SMALL = {"n_estimators": 3, "max_leaf_nodes": 6}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "id": np.arange(900), "a": rng.normal(size=900), "city": rng.choice(["x", "y", "z"], 900),
        "y": rng.normal(size=900), "label": rng.choice(["no", "yes", "so"], 900),
    })  # fmt: skip


@pytest.fixture(scope="module")
def model(frame):
    return sw.GradientBoostingClassifier(**SMALL).fit(frame[["city", "a"]], frame.label)


@pytest.fixture
def files(frame, tmp_path):
    for k in range(3):
        part = frame.iloc[k * 300 : (k + 1) * 300]
        part.to_parquet(tmp_path / f"{k}.parquet")
        part.to_csv(tmp_path / f"{k}.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_to_a_file(frame, model, files, ending):
    X = frame[["city", "a"]]
    out = files / "out" / f"p.{ending}"
    out.parent.mkdir()
    source = f"{files}/?.{ending}"
    assert sw.predict_batches(model, source, out, keep=["id"], method="predict_proba") == 900
    table = parquet.read_table(out) if ending == "parquet" else csv.read_csv(out)
    names = ["id", "probability_no", "probability_so", "probability_yes"]
    assert table.column_names == names
    np.testing.assert_array_equal(np.column_stack([table[name] for name in names[1:]]), model.predict_proba(X))
    sw.predict_batches(model, source, out)  # replaces it
    table = parquet.read_table(out) if ending == "parquet" else csv.read_csv(out)
    assert table["prediction"].to_pylist() == model.predict(X).tolist()
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_an_iterator_of_arrays(frame, model, files):
    X = frame[["city", "a"]]
    parts = [frame.iloc[:500], frame.iloc[500:]]
    for source in (
        parts,
        iter(parts),
        lambda: parts,
        [f"{files}/{k}.parquet" for k in range(3)],
    ):
        found = sw.predict_batches(model, source, method="decision_function")
        np.testing.assert_array_equal(np.concatenate(list(found)), model.decision_function(X))


def test_a_model_without_names(frame):
    X, y = frame[["a", "id"]].to_numpy(), frame.y.to_numpy()
    model = sw.GradientBoostingRegressor(**SMALL).fit(X, y)
    np.testing.assert_array_equal(np.concatenate(list(sw.predict_batches(model, [X[:10], X[10:]]))), model.predict(X))


def test_an_error_leaves_the_old_file(model, frame, files):
    out = files / "p.parquet"
    sw.predict_batches(model, f"{files}/0.parquet", out)
    before = out.read_bytes()
    bad = frame.iloc[:5].assign(a="text")
    with pytest.raises(InputError, match="'a' holds text in batch 2"):
        sw.predict_batches(model, [frame, bad], out)
    assert out.read_bytes() == before
    assert not [path for path in files.iterdir() if path.name.endswith(".tmp")]


def test_what_is_wrong_is_said(model, frame, files):
    source = f"{files}/0.parquet"
    with pytest.raises(ParameterError, match=r"must end in .parquet or .csv"):
        sw.predict_batches(model, source, files / "p.txt")
    with pytest.raises(ParameterError, match="method="):
        sw.predict_batches(model, source, method="staged_predict")
    regressor = sw.GradientBoostingRegressor(**SMALL).fit(frame[["a"]], frame.y)
    with pytest.raises(ParameterError, match="one of classifiers"):
        sw.predict_batches(regressor, source, method="predict_proba")
    with pytest.raises(InputTypeError, match="fitted estimator"):
        sw.predict_batches(sw.GradientBoostingRegressor(), source)
    with pytest.raises(InputError, match="no column 'none'"):
        sw.predict_batches(model, source, files / "p.csv", keep=["none"])
    with pytest.raises(ParameterError, match="keep="):
        sw.predict_batches(model, source, keep="id")
    with pytest.raises(InputError, match="no column 'city'"):
        list(sw.predict_batches(model, [pa.table({"a": [1.0]})]))
    with pytest.raises(InputError, match="cannot be mixed"):
        sw.predict_batches(model, [source, f"{files}/0.csv"])
    with pytest.raises(InputError, match="0 sample"):
        sw.predict_batches(model, [frame.iloc[:0]], files / "p.csv")
    renamed = pa.table({"a": [1.0], "city": ["x"], "prediction": [1.0]})
    with pytest.raises(ParameterError, match="rename it"):
        sw.predict_batches(model, [renamed], files / "p.csv", keep=["prediction"])


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_index_of_pandas_is_no_column(frame, model, tmp_path, ending):
    shuffled = frame.sample(frac=1.0, random_state=0)
    out = tmp_path / f"p.{ending}"
    sw.predict_batches(model, [shuffled.iloc[:500], shuffled.iloc[500:]], out, keep=["id"])
    table = parquet.read_table(out) if ending == "parquet" else csv.read_csv(out)
    assert table.column_names == ["id", "prediction"]
    assert table["id"].to_pylist() == shuffled.id.tolist()
    assert table["prediction"].to_pylist() == model.predict(shuffled[["city", "a"]]).tolist()


def test_batches_without_names_or_rows(frame):
    X = frame[["a", "id"]].to_numpy()
    model = sw.GradientBoostingRegressor(**SMALL).fit(X, frame.y)
    batches = [pd.DataFrame(X[:500]), X[:0], pd.DataFrame(X[500:])]
    np.testing.assert_array_equal(np.concatenate(list(sw.predict_batches(model, batches))), model.predict(X))
    with pytest.raises(InputError, match="batch 1 has no names, so keep"):
        list(sw.predict_batches(model, batches, keep=["id"]))
    with pytest.raises(InputTypeError, match="DataFrame is one table; give batches"):
        list(sw.predict_batches(model, batches[0]))


def test_names_of_csv_files(frame, model, tmp_path):
    (tmp_path / "folder").mkdir()
    wanted = model.predict(frame[["city", "a"]])
    for name in ("a.csv.gz", "a.CSV", "folder/a.csv"):
        frame.to_csv(tmp_path / name, index=False)
        path = tmp_path / "folder" if name.startswith("folder") else tmp_path / name
        assert np.concatenate(list(sw.predict_batches(model, path))).tolist() == wanted.tolist()


def test_columns_that_cannot_be_kept(frame, model, tmp_path):
    first, second = frame.iloc[:500], frame.iloc[500:]
    with pytest.raises(InputError, match=r"batch 2: the columns to keep cannot be written to p\.parquet"):
        sw.predict_batches(model, [first, second.assign(id=0.5)], tmp_path / "p.parquet", keep=["id"])
    listed = pa.Table.from_pandas(frame).append_column("list", pa.array([[1]] * len(frame)))
    with pytest.raises(InputError, match=r"batch 1: the columns to keep cannot be written to p\.csv"):
        sw.predict_batches(model, [listed], tmp_path / "p.csv", keep=["list"])
    with pytest.raises(ParameterError, match="names a column twice"):
        sw.predict_batches(model, [first], tmp_path / "p.csv", keep=["id", "id"])
    assert list(tmp_path.iterdir()) == []


def test_text_that_looks_like_numbers(frame, tmp_path):
    X = frame[["city", "a"]].assign(city=frame.city.map({"x": "01", "y": "1", "z": "2"}))
    model = sw.GradientBoostingRegressor(**SMALL).fit(X, frame.y)
    X.assign(id=1).to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_array_equal(
        np.concatenate(list(sw.predict_batches(model, tmp_path / "new.csv", keep=["id"]))), model.predict(X)
    )
