"""Categories of any container: the same level tables and codes, and a documented answer to everything else."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stagewise import Dataset
from stagewise.data.categories import MOST_CODES, Levels, choose_columns, learn, pooled
from stagewise.data.dataset import pool_table
from stagewise.data.table import Table, read_table
from stagewise.errors import InputError, ParameterError

TEXTS = ["b", "a", None, "", "b", "é\n", "a", "\x00x"]
NUMBERS = [1.0, 2.0, 3.0, np.nan, 5.0, 6.0, 7.0, 8.0]
TABLE = ["zz", "b", "", "a", "é\n", "\x00x"]  # in no order, with an entry that no row has


def frames() -> dict[str, Any]:
    dictionary = pa.chunked_array([pa.array(TEXTS[:3]).dictionary_encode(), pa.array(TEXTS[3:]).dictionary_encode()])
    cells: dict[str, Any] = {
        "pandas category": pd.DataFrame({"c": pd.Categorical(TEXTS, categories=TABLE)}),
        "pandas ordered": pd.DataFrame({"c": pd.Categorical(TEXTS, categories=TABLE[::-1], ordered=True)}),
        "pandas object": pd.DataFrame({"c": pd.array(TEXTS, dtype=object)}),
        "pandas mixed missing": pd.DataFrame({"c": pd.Series([t if t else pd.NA if t is None else t for t in TEXTS])}),
        "pandas string": pd.DataFrame({"c": pd.Series(TEXTS, dtype="string")}),
        "pandas arrow": pd.DataFrame({"c": pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string()))}),
        "polars string": pl.DataFrame({"c": TEXTS}),
        "polars categorical": pl.DataFrame({"c": pl.Series(TEXTS, dtype=pl.Categorical)}),
        "polars enum": pl.DataFrame({"c": pl.Series(TEXTS, dtype=pl.Enum(TABLE))}),
        "arrow string": pa.table({"c": TEXTS}),
        "arrow large string": pa.table({"c": pa.array(TEXTS, pa.large_string())}),
        "arrow dictionary": pa.table({"c": dictionary}),
    }
    out = {}
    for name, frame in cells.items():
        if isinstance(frame, pa.Table):
            out[name] = frame.append_column("x", pa.array(NUMBERS))
        elif isinstance(frame, pl.DataFrame):
            out[name] = frame.with_columns(x=pl.Series(NUMBERS))
        else:
            out[name] = frame.assign(x=NUMBERS)
    return out


every_frame = pytest.mark.parametrize("name", frames())


def read(X: Any, categorical: Any = "from_dtype") -> Table:
    return read_table(X, categorical=categorical)


@every_frame
def test_the_same_table_from_every_container(name):
    table = read(frames()[name])
    levels = table.levels[0]
    assert levels is not None
    assert levels.values.tolist() == ["", "\x00x", "a", "b", "é\n"]
    assert table.levels[1] is None
    np.testing.assert_array_equal(table.column(0), [3, 2, np.nan, 0, 3, 4, 2, 1])
    np.testing.assert_array_equal(table.column(1), NUMBERS)


@every_frame
def test_codes_do_not_shift_at_prediction(name):
    schema = read(pd.DataFrame({"c": ["a", "b", "z"], "x": 1.0})).schema
    table = read_table(frames()[name], like=schema)
    # "" and "é\n" were not seen in training: missing
    np.testing.assert_array_equal(table.column(0), [1, 0, np.nan, np.nan, 1, np.nan, 0, np.nan])


def test_numbers_as_categories():
    schema = read(np.array([[3.0, 1.0], [1.0, 2.0], [np.nan, 3.0], [-0.0, 4.0]]), [0]).schema
    levels = schema.levels[0]
    assert levels is not None
    assert levels.values.tolist() == [0.0, 1.0, 3.0]
    assert levels.names(2) == ["3"]
    for X in (
        np.array([[3, 1], [2, 1], [0, 1]]),
        np.array([[3, 1], [2, 1], [0, 1]], object),
        [[3, 1], [2, 1], [0, 1]],
    ):
        np.testing.assert_array_equal(read_table(X, like=schema).column(0), [2, np.nan, 0])


@pytest.mark.parametrize("values", [[True, False, True], [1, 0, 1], [1.0, 0.0, 1.0], np.array([1, 0, 1], np.uint8)])
def test_truth_values_are_the_numbers_0_and_1(values):
    table = read(pd.DataFrame({"c": values, "x": 1.0}), ["c"])
    assert table.levels[0] is not None
    assert table.levels[0].values.tolist() == [0.0, 1.0]
    assert read(pd.DataFrame({"c": [True, False], "x": 1.0})).levels == (), "by type alone they stay numbers"


def test_a_category_table_of_other_things():
    cut = pd.DataFrame({"c": pd.cut([1, 4, 9, 4], [0, 2, 5, 10]), "d": pd.Categorical([3, 1, 1, 3]), "x": 1.0})
    table = read(cut)
    assert [own and own.values.tolist() for own in table.levels] == [["(0, 2]", "(2, 5]", "(5, 10]"], [1.0, 3.0], None]


def test_decimals_are_numbers():
    arrow = pa.table({"c": pa.array([Decimal("1.5"), Decimal("2.0"), None])})
    objects = pd.DataFrame({"c": [Decimal("1.5"), Decimal("2.0"), None]})
    for frame in (arrow, objects, pd.DataFrame({"c": [1.5, 2.0, np.nan]})):
        table = read_table(frame, categorical=["c"])
        assert table.levels[0] is not None
        assert table.levels[0].values.tolist() == [1.5, 2.0]


def test_chunks_whose_dictionaries_hold_a_null():
    entries = pa.array(["b", None, "a"])
    chunks = [pa.DictionaryArray.from_arrays(pa.array(own), entries[k:]) for k, own in ((0, [0, 1, 2]), (1, [1, 0]))]
    table = read_table(pa.table({"c": pa.chunked_array(chunks)}), categorical="from_dtype")
    np.testing.assert_array_equal(table.column(0), [1.0, np.nan, 0.0, 0.0, np.nan])


def test_text_where_training_had_numbers_and_the_other_way_round():
    words = read(pd.DataFrame({"c": ["1", "2"], "x": 1.0})).schema
    digits = read(pd.DataFrame({"c": [1, 2], "x": 1.0}), ["c"]).schema
    with pytest.raises(InputError, match=r"column 'c' of X held text .* numbers now, such as 1; .*astype\(str\)"):
        read_table(pd.DataFrame({"c": [1, 2], "x": 1.0}), like=words)
    with pytest.raises(InputError, match=r"held numbers .* text now, such as '2'; .*astype\(float\)"):
        read_table(pd.DataFrame({"c": ["1", "2"], "x": 1.0}), like=digits)
    for schema in (words, digits):  # nothing but missing values fits any column
        for missing in (np.nan, None):
            nothing = pd.DataFrame({"c": [missing, missing], "x": 1.0})
            assert np.isnan(read_table(nothing, like=schema).column(0)).all()


@pytest.mark.parametrize(
    "values",
    [["a", 1, None], [1.5, "a"], pd.Categorical(["a", 1])],
    ids=["object", "numbers first", "category"],
)
def test_mixed_cells_are_an_error(values):
    with pytest.raises(InputError, match=r"mixes numbers .* and text|mixes text and numbers"):
        read(pd.DataFrame({"c": values, "x": 1.0}), ["c"])
    with pytest.raises(InputError, match=r"mixes"):
        read(pd.DataFrame({"c": values, "x": 1.0}))


def test_what_cannot_be_a_category():
    with pytest.raises(InputError, match="cannot be a category"):
        read(pd.DataFrame({"c": pd.to_datetime(["2020-01-01", "2020-01-02"]), "x": 1.0}), ["c"])
    with pytest.raises(InputError, match="cannot be a category"):
        read(np.array([[[1], 2.0], [{}, 3.0]], object), [0])
    with pytest.raises(InputError, match=r"9007199254740993 .* from 2\*\*53 on"):
        read(pd.DataFrame({"c": [2**53 + 1, 1], "x": 1.0}), ["c"])
    for frame in (
        pd.DataFrame({"c": pd.array([2**53 + 1, 2**53 + 2, None], dtype="Int64")}),
        pl.DataFrame({"c": [2**53 + 1, 2**53 + 2, None]}),
        pa.table({"c": [-(2**53) - 1, 2, None]}),
    ):
        with pytest.raises(InputError, match="not told apart"):
            read(frame, ["c"])


@pytest.mark.parametrize("text", [None, "", "x" * 1_000_000, "a\nb", "\ud800", "nan", "None"])
def test_odd_levels(text):
    table = read(np.array([[text, 1.0], ["k", 1.0], [text, 1.0]], object), [0])
    levels = table.levels[0]
    assert levels is not None
    assert levels.values.tolist() == sorted({"k"} | ({text} if text is not None else set()))


@pytest.mark.parametrize("dtype", ["category", object, "string"])
def test_nothing_but_missing_values_and_one_level(dtype):
    empty = read(pd.DataFrame({"c": pd.Series([None, None], dtype=dtype), "x": 1.0}))
    one = read(pd.DataFrame({"c": pd.Series(["a", "a"], dtype=dtype), "x": 1.0}))
    assert empty.levels[0] is not None
    assert len(empty.levels[0].values) == 0
    assert np.isnan(empty.column(0)).all()
    np.testing.assert_array_equal(one.column(0), [0, 0])
    for table in (empty, one):
        data = Dataset(table)
        assert data.bins.n_bins[0] == 1
        assert len(data.cuts[0]) == 0


# --- many levels -----------------------------------------------------------------------------------------------------


def test_missing_values_of_any_type_and_columns_without_levels():
    schema = read_table(pd.DataFrame({"c": ["a", "b"]}), categorical="from_dtype").schema
    for missing in (pd.to_datetime([None]), pd.array([None], "timedelta64[s]"), [np.nan], pd.array([None], "Int64")):
        assert np.isnan(read_table(pd.DataFrame({"c": missing}), like=schema).column(0)).all()
    schema = read_table(pd.DataFrame({"c": pd.array([None], "string")}), categorical="from_dtype").schema
    for new in (["a"], [1.0]):  # nothing was seen in training: neither text nor numbers
        assert np.isnan(read_table(pd.DataFrame({"c": new}), like=schema).column(0)).all()


def test_the_rarest_levels_share_a_code():
    counts = np.r_[np.full(200, 5), np.full(100, 1), np.full(53, 7), np.full(3, 1)]
    levels = Levels(np.arange(len(counts), dtype=float), np.arange(len(counts), dtype=float))
    own = pooled(levels, counts)
    shared = own.codes == MOST_CODES - 1
    assert own.n_codes == MOST_CODES
    assert len(set(own.codes[~shared])) == MOST_CODES - 1
    assert not shared[:200].any()
    assert not shared[300:353].any()
    np.testing.assert_array_equal(np.flatnonzero(~shared)[200:], [200, *range(300, 353)])  # ties: the first in order
    assert len(own.names(MOST_CODES - 1)) == len(counts) - MOST_CODES + 1


@pytest.mark.parametrize("n_levels", [254, 255, 256, 1000])
def test_a_bin_for_each_code(n_levels):
    cells = np.r_[np.arange(n_levels), np.arange(0, n_levels, 2)].astype(float)
    data = Dataset(cells[:, None], categorical_features=[0], max_bins=16)
    assert data.bins.n_bins[0] == min(n_levels, MOST_CODES)
    levels = data.schema.levels[0]
    assert levels is not None
    np.testing.assert_array_equal(data.bins.by_column[0], levels.encode(cells, "c"))
    marginal = data.marginals[0]
    assert len(marginal.points) == len(marginal.shares) == data.bins.n_bins[0]
    assert marginal.shares.sum() + marginal.missing == pytest.approx(1.0)


def test_no_weight_no_share():
    data = Dataset(pd.DataFrame({"c": ["a", "b", "c", None]}), None, [1.0, 0.0, 2.0, 1.0])
    np.testing.assert_array_equal(data.marginals[0].shares, [0.25, 0.0, 0.5])
    assert data.marginals[0].missing == 0.25


@pytest.mark.parametrize("n", [20_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_very_many_levels(n):
    names = np.array([f"level {k}" for k in range(n)])
    frame = pl.DataFrame({"c": pl.Series(names, dtype=pl.Categorical), "x": np.arange(n) % 7})
    table = read(frame)
    levels = table.levels[0]
    assert levels is not None
    assert len(levels.values) == n
    assert pool_table(table).levels[0].n_codes == MOST_CODES  # type: ignore[union-attr]
    np.testing.assert_array_equal(levels.values[table.column(0).astype(int)], names)


# --- which columns ---------------------------------------------------------------------------------------------------


def test_columns_are_named_numbered_or_masked():
    names = ("a", "b", "c")
    assert choose_columns(["b", "c"], names, 3) == {1, 2}
    assert choose_columns([0, 2], names, 3) == {0, 2}
    assert choose_columns(np.array([True, False, True]), names, 3) == {0, 2}
    assert choose_columns(np.array([1]), None, 3) == {1}
    assert choose_columns(None, names, 3) == choose_columns([], names, 3) == frozenset()


@pytest.mark.parametrize(
    "given, message",
    [
        ("auto", "from_dtype"),
        (["d"], "'d', which is no column"),
        ([3], "numbered 0 to 2"),
        ([-1], "numbered 0 to 2"),
        ([True, False], "mask of 2 for 3"),
        ([1.5], "1.5"),
        (7, "from_dtype"),
    ],
)
def test_columns_that_are_not_there(given, message):
    with pytest.raises(ParameterError, match=message):
        choose_columns(given, ("a", "b", "c"), 3)


def test_names_need_names():
    with pytest.raises(ParameterError, match="X has no names"):
        read(np.ones((2, 2)), ["a"])


def test_levels_learn_text_and_numbers_alike():
    for cells in (np.array([2.0, np.nan, 1.0]), np.array([np.nan, np.nan])):
        levels, codes = learn(cells)
        np.testing.assert_array_equal(np.isnan(codes), np.isnan(cells))
        assert len(levels.values) == len(set(cells[~np.isnan(cells)]))
