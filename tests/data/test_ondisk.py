"""Datasets of files and batches: the same models as in memory, and clear words about what is wrong."""

from __future__ import annotations

import errno
import os
import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import stagewise as sw
from data.tables import assert_same, mixed, write
from stagewise.errors import InputError, InputTypeError, ParameterError
from stagewise.io.format import dumps

N = 3_000
SMALL = {"n_estimators": 4, "max_leaf_nodes": 8}


@pytest.fixture(scope="module")
def table():
    return mixed(N)


@pytest.fixture
def files(table, tmp_path):
    return write(table, tmp_path, [0, 1_000, 1_000, 2_500, N])


def in_memory(table, weighted=True):
    X = table.drop_columns(["y", "w"])
    return sw.Dataset(X, table["y"].to_numpy(), table["w"].to_numpy() if weighted else None)


def model(ds, **options):
    return dumps(sw.GradientBoostingRegressor(**{**SMALL, **options}).fit(ds))


def inside(folder):
    return sorted(path.name for path in Path(folder).iterdir())


# --- the same as in memory -------------------------------------------------------------------------------------------


def test_parquet_with_and_without_a_cache(table, files, tmp_path):
    whole = in_memory(table)
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        ds = sw.Dataset.from_parquet(files, "y", sample_weight="w", cache=cache)
        assert_same(ds, whole)
        assert model(ds) == model(whole)
        assert "3,000 rows × 8 columns" in repr(ds)


def test_csv(tmp_path):
    rng = np.random.default_rng(1)
    n = 1_000
    whole = pd.DataFrame(
        {"a": np.arange(n), "b": rng.normal(size=n), "c": rng.integers(0, 5, n), "y": rng.normal(size=n)}
    )
    whole.loc[whole.index < 600, "c"] = np.nan  # nothing but missing cells in the first file
    whole.loc[10, "b"] = np.nan
    whole.iloc[:500].to_csv(tmp_path / "1.csv", index=False)
    whole.iloc[500:].assign(a=lambda own: own.a.astype(float)).to_csv(tmp_path / "2.csv", index=False)
    ds = sw.Dataset.from_csv(tmp_path / "*.csv", "y", cache=tmp_path / "cache")
    assert model(ds) == model(sw.Dataset(whole[["a", "b", "c"]], whole.y))


def pairs(parts):
    return [(part.drop_columns(["y", "w"]), part["y"], part["w"]) for part in parts]


NAMED = {"target": "y", "sample_weight": "w"}


@pytest.mark.parametrize(
    "make, roles",
    [
        (list, NAMED),
        (lambda parts: lambda: iter(parts), NAMED),
        (iter, NAMED),
        (lambda parts: (part.to_batches()[0] for part in parts), NAMED),
        (lambda parts: [part.to_pandas() for part in parts], NAMED),
        (lambda parts: iter([pl.from_arrow(part) for part in parts]), NAMED),
        (pairs, {}),
        (lambda parts: iter(pairs(parts)), {}),
    ],
    ids=["list", "callable", "iterator", "record batches", "pandas", "polars", "tuples", "iterator of tuples"],
)
def test_batches_of_every_kind(table, make, roles):
    parts = [table.slice(start, 700) for start in range(0, N, 700)]
    ds = sw.Dataset.from_batches(make(parts), **roles)
    assert_same(ds, in_memory(table))
    assert model(ds) == model(in_memory(table))


def test_arrays_without_names():
    X, y = np.random.default_rng(2).normal(size=(500, 3)), np.arange(500.0)
    pieces = [(X[:200], y[:200]), (X[200:], y[200:])]
    for source in (pieces, iter(pieces)):
        ds = sw.Dataset.from_batches(source)
        assert ds.names is None
        assert model(ds) == model(sw.Dataset(X, y))


@pytest.mark.parametrize("labels", [["no", "yes", "maybe"], [0, 1, 2], [False, True]])
def test_labels(labels):
    rng = np.random.default_rng(3)
    X, classes = rng.normal(size=(600, 3)), np.array(labels, object if isinstance(labels[0], str) else None)
    y = classes[rng.integers(0, len(labels), 600)]
    whole = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    fitted = dumps(sw.GradientBoostingClassifier(**SMALL).fit(whole[["a", "b", "c"]], whole.y))
    ds = sw.Dataset.from_batches([whole.iloc[:100], whole.iloc[100:]], "y")
    assert dumps(sw.GradientBoostingClassifier(**SMALL).fit(ds)) == fitted
    stopping = {"early_stopping": True, "n_iter_no_change": 2}
    on_disk = sw.GradientBoostingClassifier(**SMALL, **stopping).fit(ds)
    assert dumps(on_disk) == dumps(
        sw.GradientBoostingClassifier(**SMALL, **stopping).fit(sw.Dataset(whole[["a", "b", "c"]], whole.y))
    )


def test_numbers_as_objects(tmp_path):
    X = pd.DataFrame({"a": np.random.default_rng(4).normal(size=300)})
    price = pd.Series([Decimal(round(100.0 * own)) / 100 for own in X.a + 5.0])
    X.assign(price=price).to_parquet(tmp_path / "prices.parquet")
    wanted = model(sw.Dataset(X, price.astype(float), price.astype(float)))
    for y in (price, price.astype(float).astype(object)):
        sw.Dataset(X, y, price).save(tmp_path / "saved")
        assert model(sw.Dataset.load(tmp_path / "saved")) == wanted
    ds = sw.Dataset.from_parquet(tmp_path / "prices.parquet", "price")
    assert ds.y.tolist() == price.astype(float).tolist()
    assert sw.Dataset.from_batches([X.assign(w=price)], sample_weight="w").sample_weight.tolist() == ds.y.tolist()
    for labels in (price > 5, (price > 5).astype(int)):  # booleans stay booleans, integers stay integers
        ds = sw.Dataset.from_batches([(X, labels.astype(object))])
        assert ds.y.dtype == labels.dtype
    with pytest.raises(InputError, match="Input y contains NaN"):
        sw.Dataset.from_batches([(X, np.array([*price[:-1], None], object))])


def test_a_validation_sample_on_disk(table, files, tmp_path):
    train = sw.Dataset.from_parquet(files, "y", ignore=["w"])
    held_out = sw.Dataset.from_parquet(f"{tmp_path}/part-002.parquet", "y", ignore=["w"], like=train)
    some = table.slice(1_000, 1_500)
    X, y = some.drop_columns(["y", "w"]), some["y"].to_numpy()
    options = {**SMALL, "n_estimators": 40, "n_iter_no_change": 3, "learning_rate": 0.5}
    first = sw.GradientBoostingRegressor(**options).fit(train, eval_set=held_out)
    assert dumps(first) == dumps(sw.GradientBoostingRegressor(**options).fit(in_memory(table, False), eval_set=(X, y)))
    with pytest.raises(InputError, match="other cut points"):
        sw.GradientBoostingRegressor().fit(train, eval_set=sw.Dataset(X, y))


def test_columns_in_an_order_of_ones_own(table, files):
    ds = sw.Dataset.from_parquet(files, "y", columns=["c6", "c0", "c1"])
    assert model(ds) == model(sw.Dataset(table.select(["c6", "c0", "c1"]), table["y"].to_numpy()))


def test_fit_takes_y_and_weights_beside(table, files):
    ds = sw.Dataset.from_parquet(files, ignore=["y", "w"])
    assert ds.y is None
    y = table["y"].to_numpy()
    assert dumps(sw.GradientBoostingRegressor(**SMALL).fit(ds, y)) == model(in_memory(table, False))


# --- categories ------------------------------------------------------------------------------------------------------


def people(n=4_000):
    rng = np.random.default_rng(5)
    many = np.array([f"level {k}" for k in range(700)], object)
    return pd.DataFrame({
        "a": rng.normal(size=n),
        "city": rng.choice(np.array(["Bonn", "Köln", "", None, "x\ny"], object), n),
        "user": many[np.minimum((rng.exponential(size=n) * 80).astype(int), 699)],
        "k": rng.integers(0, 12, n).astype(float),
        "w": rng.integers(0, 3, n) / 2.0,
    }).assign(y=lambda own: own.a + (own.city == "Bonn") + own.user.str.len() + rng.normal(size=n))  # fmt: skip


def own_tables(part):
    """Category tables that differ between batches, in another order than the levels."""
    return part.assign(
        city=part.city.astype("category"),
        user=part.user.astype(pd.CategoricalDtype(sorted(part.user.unique(), reverse=True))),
    )


@pytest.mark.parametrize("encoding", ["auto", "sets", "target"])
def test_categories(encoding, tmp_path):
    whole = people()
    named = {"categorical_features": ["city", "user", "k"]}
    memory = sw.Dataset(whole[["a", "city", "user", "k"]], whole.y, whole.w, **named)
    expected = model(memory, category_encoding=encoding)
    parts = [whole.iloc[start : start + 900] for start in range(0, len(whole), 900)]
    coded = [own_tables(part) for part in parts]
    roles = {"target": "y", "sample_weight": "w", **named}
    for source in (parts, coded, [pl.from_pandas(part) for part in parts], iter(map(pa.Table.from_pandas, coded))):
        ds = sw.Dataset.from_batches(source, **roles)
        assert_same(ds, memory)
        assert model(ds, category_encoding=encoding) == expected
    for k, part in enumerate(coded):
        part.to_parquet(tmp_path / f"{k}.parquet")
    for _ in range(2):
        ds = sw.Dataset.from_parquet(tmp_path / "*.parquet", cache=tmp_path / "cache", **roles)
        assert model(ds, category_encoding=encoding) == expected
    memory.save(tmp_path / "saved")
    assert model(sw.Dataset.load(tmp_path / "saved"), category_encoding=encoding) == expected


def test_text_and_numbers_as_categories_do_not_mix():
    pieces = [pd.DataFrame({"a": ["x", "y"], "y": [1.0, 2.0]}), pd.DataFrame({"a": [1, 2], "y": [1.0, 2.0]})]
    with pytest.raises(InputError, match="'a' holds numbers in batch 2, but text in batch 1"):
        sw.Dataset.from_batches(pieces, "y", categorical_features=["a"])


# --- kept on disk ----------------------------------------------------------------------------------------------------


def test_save_and_load(table, tmp_path):
    whole = in_memory(table)
    whole.save(tmp_path / "ds")
    whole.save(tmp_path / "ds")  # replaces it
    back = sw.Dataset.load(tmp_path / "ds")
    assert_same(back, whole)
    assert model(back) == model(whole)
    assert len(inside(tmp_path / "ds")) == 2
    back.save(tmp_path / "ds")  # itself, mapped
    assert model(sw.Dataset.load(tmp_path / "ds")) == model(back) == model(whole)


def test_rows_that_are_longer_in_memory_than_on_disk(tmp_path):
    """28 columns take 32 bytes a row in memory: see `kernels.binning.row_bytes`."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(70_000, 28)).astype(np.float32)
    y = X[:, 0] * X[:, 27] + rng.normal(size=70_000)
    ds = sw.Dataset(X, y)
    ds.save(tmp_path / "saved")
    back = sw.Dataset.load(tmp_path / "saved")
    assert (ds.bins.stride, back.bins.stride) == (32, 28)
    np.testing.assert_array_equal(back.bins.by_row.reshape(-1, 28), ds.bins.by_row.reshape(-1, 32)[:, :28])
    assert not ds.bins.by_row.reshape(-1, 32)[:, 28:].any()
    for options in ({}, {"growth": "symmetric"}, {"sampling": "goss", "learning_rate": 1.0}):
        for n_jobs in (1, 2):
            assert model(ds, n_jobs=n_jobs, **options) == model(back, n_jobs=n_jobs, **options)


def test_a_range_of_rows(table, tmp_path):
    whole = in_memory(table)
    whole.save(tmp_path / "ds")
    part = sw.Dataset.load(tmp_path / "ds", rows=(100, 900))
    rows = slice(100, 900)
    np.testing.assert_array_equal(part.bins.by_column, whole.bins.by_column[:, rows])
    np.testing.assert_array_equal(part.bins.by_row.reshape(800, -1), whole.bins.by_row.reshape(N, -1)[rows])
    np.testing.assert_array_equal(part.y, whole.y[rows])
    assert part.n_rows == 800
    assert sw.GradientBoostingRegressor(**SMALL).fit(part).n_estimators_ == 4
    with pytest.raises(InputError, match="rows="):
        sw.Dataset.load(tmp_path / "ds", rows=(5, N + 1))
    for rows in (5, (1, 2, 3), (1.5, 3), "ab"):
        with pytest.raises(InputError, match=r"must be \(first, stop\)"):
            sw.Dataset.load(tmp_path / "ds", rows=rows)


def test_a_pickled_dataset_is_the_same(files):
    ds = sw.Dataset.from_parquet(files, "y", ignore=["w"])
    assert model(pickle.loads(pickle.dumps(ds))) == model(ds)


def test_the_cache_is_used_again_and_noticed_when_stale(table, files, tmp_path, monkeypatch):
    cache = tmp_path / "cache"

    def made(**options):
        return sw.Dataset.from_parquet(files, "y", ignore=["w"], cache=cache, **options)

    made()
    before = inside(cache)
    made()
    assert inside(cache) == before
    with pytest.warns(UserWarning, match="other settings"):
        made(max_bins=16)
    assert len(inside(cache)) == 2
    with pytest.warns(UserWarning, match="other settings"):
        made()
    os.utime(tmp_path / "part-002.parquet", (1, 1))
    with pytest.warns(UserWarning, match=r"part-002.parquet has changed"):
        made()
    parquet.write_table(table.slice(0, 10), tmp_path / "part-999.parquet")
    with pytest.warns(UserWarning, match=r"part-999.parquet is new"):
        made()
    (tmp_path / "part-999.parquet").unlink()
    with pytest.warns(UserWarning, match=r"part-999.parquet is no longer"):
        assert made().n_rows == N
    monkeypatch.setattr("stagewise.data.cache.__version__", "99")
    with pytest.raises(InputError, match="Build the dataset anew"):
        sw.Dataset.load(cache)
    with pytest.warns(UserWarning, match="this is 99"):
        made()
    sw.Dataset.load(cache)


@pytest.mark.parametrize("name", ["rows", "columns", "target", "weight", "manifest.stagewise"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_damage_is_found(table, files, tmp_path, name, damage):
    cache = tmp_path / "cache"
    expected = model(sw.Dataset.from_parquet(files, "y", sample_weight="w", cache=cache))
    (path,) = cache.rglob(name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(data if damage == "flip" else data[:-5])
    with pytest.raises(InputError, match=r"(?i)checksum|cut short|not there|holds no dataset"):
        sw.Dataset.load(cache)
    if name == "manifest.stagewise" and damage == "remove":
        ds = sw.Dataset.from_parquet(files, "y", sample_weight="w", cache=cache)
    else:
        with pytest.warns(UserWarning, match="is built anew"):
            ds = sw.Dataset.from_parquet(files, "y", sample_weight="w", cache=cache)
    assert model(ds) == expected
    assert len(inside(cache)) == 2


def test_files_that_change_while_they_are_read(files, tmp_path, monkeypatch):
    from stagewise.data import builder

    write_codes = builder._write

    def touched(*args):
        os.utime(tmp_path / "part-000.parquet", (1, 1))
        return write_codes(*args)

    monkeypatch.setattr(builder, "_write", touched)
    with pytest.raises(InputError, match="changed while they were read"):
        sw.Dataset.from_parquet(files, "y", cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [0, 3, 20])
def test_a_full_disk_and_ctrl_c_leave_nothing(files, tmp_path, monkeypatch, error, at):
    calls = iter(range(10_000))
    write_bytes = os.write

    def fails(handle, data):
        if len(data) > 100 and next(calls) == at:
            raise error
        return write_bytes(handle, data)

    monkeypatch.setattr(os, "write", fails)
    before = inside(tmp_path)
    with pytest.raises(type(error), match="No room for the dataset" if isinstance(error, OSError) else None):
        sw.Dataset.from_parquet(files, "y", cache=tmp_path / "cache")
    assert inside(tmp_path) == before
    monkeypatch.undo()
    sw.Dataset.from_parquet(files, "y", cache=tmp_path / "cache")
    monkeypatch.setattr(os, "write", fails)  # now there is one before it, which stays
    calls = iter(range(10_000))
    with pytest.raises(type(error)), pytest.warns(UserWarning, match="other settings"):
        sw.Dataset.from_parquet(files, "y", cache=tmp_path / "cache", max_bins=7)
    assert sw.Dataset.load(tmp_path / "cache").max_bins == 255
    assert len(inside(tmp_path / "cache")) == 2


# --- what can be wrong -----------------------------------------------------------------------------------------------


def frames(*parts):
    return [pa.table(part) for part in parts]


@pytest.mark.parametrize(
    "parts, options, message",
    [
        ([{"a": [1.0], "y": [1.0]}], {"target": "z"}, r"target='z' is not a column of batch 1, which has 'a', 'y'"),
        ([{"a": [1.0], "y": [1.0]}], {"sample_weight": "z"}, "sample_weight='z' is not a column"),
        ([{"a": [1.0], "y": [1.0]}], {"columns": ["b"]}, "batch 1 has no column 'b'"),
        ([{"a": [1.0], "y": [1.0]}, {"y": [1.0]}], {}, "batch 2 has no column 'a'"),
        ([{"a": [1.0], "y": [1.0]}, {"a": [1.0], "b": [2.0], "y": [1.0]}], {}, "batch 2 has a column 'b'"),
        ([{"a": [1.0], "y": [1.0]}, {"a": ["x"], "y": [1.0]}], {}, "'a' holds text in batch 2, but numbers in batch 1"),
        ([{"a": [1.0, 2.0], "y": [1.0, None]}], {}, "Input y contains NaN. The first is in row 1"),
        ([{"a": [1.0], "y": [1.0]}, {"a": [1.0], "y": [float("nan")]}], {}, "y contains NaN. The first is in row 1"),
        ([{"a": [1.0], "y": [1.0]}, {"a": [1.0], "y": [None]}], {}, "NaN"),
        ([{"a": [1.0], "y": [float("inf")]}], {}, "Input y contains infinity"),
        ([{"a": [1.0], "w": [0.0], "y": [1.0]}], {"sample_weight": "w"}, "all weights are zero"),
        ([{"a": [1.0], "w": [-1.0], "y": [1.0]}], {"sample_weight": "w"}, "Negative values"),
        ([{"a": [1.0], "y": ["x"]}, {"a": [1.0], "y": [1.0]}], {}, "'y' holds numbers in batch 2, but text in batch 1"),
        ([{"a": [None], "y": ["x"]}, {"a": [1.0], "y": [None]}], {}, "NaN"),
        ([{"a": [], "y": []}], {}, "0 sample"),
        ([], {}, "0 sample"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(parts, options, message):
    with pytest.raises(InputError, match=message):
        sw.Dataset.from_batches(frames(*parts), **{"target": "y", **options})


def test_wrong_options(files, tmp_path):
    with pytest.raises(ParameterError, match="columns="):
        sw.Dataset.from_parquet(files, "y", columns="a")
    with pytest.raises(ParameterError, match="twice"):
        sw.Dataset.from_parquet(files, "y", columns=["c0", "y"])
    with pytest.raises(ParameterError, match="both 'y'"):
        sw.Dataset.from_parquet(files, "y", sample_weight="y")
    with pytest.raises(ParameterError, match="target="):
        sw.Dataset.from_parquet(files, 3)
    with pytest.raises(ParameterError, match="max_bins"):
        sw.Dataset.from_parquet(files, "y", max_bins=1)
    with pytest.raises(InputTypeError, match="like="):
        sw.Dataset.from_parquet(files, "y", like=3)
    with pytest.raises(InputError, match="No file matches"):
        sw.Dataset.from_parquet(tmp_path / "none-*.parquet", "y")
    with pytest.raises(InputTypeError, match="names no files"):
        sw.Dataset.from_parquet(3, "y")
    with pytest.raises(InputError, match="is a file"):
        sw.Dataset.from_parquet(files, "y", cache=tmp_path / "part-000.parquet")
    with pytest.raises(InputError, match="must be a callable"):
        sw.Dataset.from_batches(3)
    with pytest.raises(InputError, match="holds no dataset"):
        sw.Dataset.load(tmp_path)


def test_files_that_differ_are_named(tmp_path):
    parquet.write_table(pa.table({"a": [1.0], "y": [1.0]}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"a": ["x"], "y": [1.0]}), tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"'a' holds text in .*2.parquet, but numbers in .*1.parquet"):
        sw.Dataset.from_parquet(tmp_path, "y")
    (tmp_path / "2.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match=r"2.parquet cannot be read"):
        sw.Dataset.from_parquet(tmp_path, "y")
    csv.write_csv(pa.table({"a": [1.0], "y": [1.0]}), tmp_path / "1.csv")
    (tmp_path / "2.csv").write_text("a,y\n?,3\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"'a' holds double at first, but in .*2.csv there is"):
        sw.Dataset.from_csv(tmp_path, "y")
    (tmp_path / "2.csv").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"2.csv cannot be read"):
        sw.Dataset.from_csv(tmp_path, "y")


def test_a_source_that_gives_other_rows_the_second_time():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="other rows when it was read a second time"):
        sw.Dataset.from_batches(lambda: [(rng.normal(size=(50, 2)), np.arange(50.0))])
    sizes = iter([50, 40, 50, 60])
    for message in ("40 rows instead of 50", "60 rows instead of 50"):
        with pytest.raises(InputError, match=message):
            sw.Dataset.from_batches(lambda: [(np.ones((n := next(sizes), 2)), np.arange(float(n)))])


def test_a_progress_bar(files, capsys):
    sw.Dataset.from_parquet(files, "y", verbose=1)
    assert "3,000 rows" in capsys.readouterr().out


def test_text_after_nulls_of_no_type(tmp_path):
    rng = np.random.default_rng(8)
    whole = pd.DataFrame({"t": rng.choice(["u", "v", "w"], 300), "a": rng.normal(size=300), "y": rng.normal(size=300)})
    whole.loc[whole.index < 100, "t"] = None
    parts = [pa.Table.from_pandas(whole.iloc[rows], preserve_index=False) for rows in (slice(0, 100), slice(100, 300))]
    parts[0] = parts[0].set_column(0, "t", pa.nulls(100))
    for k, part in enumerate(parts):
        parquet.write_table(part, tmp_path / f"{k}.parquet")
    wanted = sw.Dataset(whole[["t", "a"]], whole.y)
    for ds in (
        sw.Dataset.from_parquet(tmp_path / "*.parquet", "y"),
        sw.Dataset.from_batches(parts, "y"),
        sw.Dataset.from_batches(iter(parts), "y"),
    ):
        assert_same(ds, wanted)
        assert model(ds) == model(wanted)
    wide = [pd.DataFrame({0: [1.0]}), pd.DataFrame({0: [1.0], 1: ["a"]})]
    with pytest.raises(InputError, match="batch 2: X has "):
        sw.Dataset.from_batches(wide)


def test_csv_like_a_dataset_whose_text_looks_like_numbers(tmp_path):
    train = pd.DataFrame({"zip": ["01", "1", "x", "2"] * 50, "y": np.arange(200.0)})
    train.to_csv(tmp_path / "train.csv", index=False)
    (tmp_path / "test.csv").write_text("zip,y\n01,1\n1,2\n")
    ds = sw.Dataset.from_csv(tmp_path / "train.csv", "y", categorical_features=["zip"])
    held_out = sw.Dataset.from_csv(tmp_path / "test.csv", "y", like=ds)
    assert_same(held_out, sw.Dataset(train[["zip"]].iloc[:2], like=ds))


def test_y_and_weights_that_come_late():
    X, one = np.ones((5, 2)), np.ones(5)
    for pieces, name in (([(X, None), (X, one)], "y"), ([(X, one), (X, one, one)], "sample_weight")):
        with pytest.raises(InputError, match=f"batch 2: {name} comes with these rows, but did not with the 5 before"):
            sw.Dataset.from_batches(pieces)


def test_damaged_files(tmp_path):
    frame = pd.DataFrame({"a": np.arange(3_000.0), "y": 1.0})
    frame.to_parquet(tmp_path / "a.parquet", compression=None)
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[4:40] = b"\xff" * 36  # the header of the first page
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet cannot be read: "):
        sw.Dataset.from_parquet(tmp_path / "a.parquet", "y")
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    (tmp_path / "a.csv.gz").write_bytes((tmp_path / "a.csv.gz").read_bytes()[:-500])
    with pytest.raises(InputError, match=r"a\.csv\.gz cannot be read: "):
        sw.Dataset.from_csv(tmp_path / "a.csv.gz", "y")


def test_packed_csv_and_other_encodings(tmp_path):
    whole = pd.DataFrame({"a": [1.0, 2.0, 3.5, 4.0] * 50, "y": np.arange(200.0)})
    whole.iloc[:2].astype(int).to_csv(tmp_path / "1.csv.gz", index=False)
    whole.iloc[2:].to_csv(tmp_path / "2.csv.gz", index=False)  # where a type must be widened
    assert_same(sw.Dataset.from_csv(tmp_path / "*.csv.gz", "y"), sw.Dataset(whole[["a"]], whole.y))
    (tmp_path / "latin.csv").write_bytes("a,y\nZ\xfcrich,1\n".encode("latin1"))
    with pytest.raises(InputError, match="column 'a' holds text that is not UTF-8; convert"):
        sw.Dataset.from_csv(tmp_path / "latin.csv", "y")
    assert sw.Dataset.from_csv(tmp_path / "latin.csv", ignore=["a"]).n_rows == 1


def test_the_index_of_a_pandas_frame_in_a_file_is_no_column(tmp_path):
    frame = pd.DataFrame({"a": np.arange(50.0), "y": np.arange(50.0) % 7}).sample(frac=0.8, random_state=0)
    frame.to_parquet(tmp_path / "part.parquet")
    assert sw.Dataset.from_parquet(tmp_path / "part.parquet", target="y").names == ("a",)
    with pytest.raises(ParameterError, match="'__index_level_0__', which is the index of a pandas frame"):
        sw.Dataset.from_parquet(tmp_path / "part.parquet", target="y", columns=["a", "__index_level_0__"])
