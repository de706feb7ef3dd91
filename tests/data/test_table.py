"""Reading X: what is kept without a copy, what is converted to what, and what each unusable input is told."""

from __future__ import annotations

import datetime
import subprocess
import sys
import time
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stagewise.data.table import Schema, Table, read_table
from stagewise.errors import InputError, InputTypeError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "batch": lambda data: pa.RecordBatch.from_pydict(data) if data else pa.RecordBatch.from_arrays([], names=[]),
}
every_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


def cells(table: Table) -> np.ndarray:
    """All cells as float64 (n_rows, n_columns), after a check of what every table promises."""
    assert (table.matrix is None) != (table.columns is None)
    if table.matrix is not None:
        assert table.matrix.shape == (table.n_rows, table.n_columns)
        assert table.matrix.flags.c_contiguous
    arrays = table.columns if table.matrix is None else (table.matrix,)
    for array in arrays:
        assert type(array) is np.ndarray
        assert array.dtype in (np.float32, np.float64)
        assert array.dtype.isnative
        assert array.flags.aligned
        assert not array.flags.writeable
    if table.columns is not None:
        assert len(table.columns) == table.n_columns
        assert all(column.shape == (table.n_rows,) and column.flags.c_contiguous for column in table.columns)
    assert table.names is None or len(table.names) == table.n_columns
    assert table.schema == Schema(table.n_columns, table.names)
    return np.column_stack([table.column(j) for j in range(table.n_columns)]).astype(np.float64)


def dtypes(table: Table) -> list[str]:
    return [str(table.column(j).dtype) for j in range(table.n_columns)]


# ------------------------------------------------------------------------------------------------- arrays: no copy


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_c_contiguous_floats_are_taken_as_they_are(dtype):
    X = np.arange(12, dtype=dtype).reshape(4, 3)
    table = read_table(X)
    assert table.matrix is not None
    assert np.shares_memory(table.matrix, X)
    assert table.matrix.dtype == dtype
    assert table.names is None
    np.testing.assert_array_equal(cells(table), X)
    assert table.to_matrix() is table.matrix
    assert X.flags.writeable, "only the table's view is read-only"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fortran_ordered_floats_become_column_views(dtype):
    X = np.asfortranarray(np.arange(12, dtype=dtype).reshape(4, 3))
    table = read_table(X)
    assert table.columns is not None
    assert all(np.shares_memory(column, X) for column in table.columns)
    assert dtypes(table) == [np.dtype(dtype).name] * 3
    np.testing.assert_array_equal(cells(table), X)


def test_a_large_matrix_costs_microseconds():
    X = np.zeros((1_000_000, 28), np.float32)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        read_table(X)
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3, "a copy takes 10 ms, a look at every cell 5 ms"


def test_memory_maps_and_matrices_are_plain_arrays_inside(tmp_path):
    X = np.memmap(tmp_path / "x.bin", dtype=np.float64, mode="w+", shape=(5, 2))
    X[:] = 3.0
    readonly = np.memmap(tmp_path / "x.bin", dtype=np.float64, mode="r", shape=(5, 2))
    for mapped in (X, readonly):
        table = read_table(mapped)
        assert np.shares_memory(table.matrix, mapped)
        np.testing.assert_array_equal(cells(table), np.full((5, 2), 3.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix([[1.0, 2.0]])
    np.testing.assert_array_equal(cells(read_table(matrix)), [[1.0, 2.0]])


@pytest.mark.parametrize(
    "view",
    [
        lambda X: X[::2],
        lambda X: X[:, ::2],
        lambda X: X[::-1],
        lambda X: X[:, ::-1],
        lambda X: np.asfortranarray(X)[::2],
        lambda X: np.asfortranarray(X)[:, ::2],
        lambda X: X.T,
        lambda X: X[:1],
        lambda X: X[:, :1],
        lambda X: X[:, 1:2],
        lambda X: np.broadcast_to(X[0], (6, X.shape[1])),
        lambda X: np.broadcast_to(X[:, :1], X.shape),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", ">f8", "int64"])
def test_views_of_any_stride(view, dtype):
    X = view(np.arange(40).reshape(8, 5).astype(dtype))
    before = X.copy()
    table = read_table(X)
    np.testing.assert_array_equal(cells(table), before)
    np.testing.assert_array_equal(table.to_matrix(), before)
    np.testing.assert_array_equal(X, before)


def test_unaligned_memory_is_aligned():
    raw = np.zeros(1 + 8 * 6, np.uint8)
    X = raw[1:].view(np.float64).reshape(2, 3)
    X[:] = [[1, 2, 3], [4, 5, 6]]
    np.testing.assert_array_equal(cells(read_table(X)), X)
    np.testing.assert_array_equal(cells(read_table(X.T)), X.T)


# --------------------------------------------------------------------------------------------- arrays: conversions


@pytest.mark.parametrize(
    "dtype, kept",
    [
        ("bool", "float32"),
        ("int8", "float32"),
        ("uint8", "float32"),
        ("int16", "float32"),
        ("uint16", "float32"),
        ("float16", "float32"),
        (">f4", "float32"),
        (">i2", "float32"),
        ("int32", "float64"),
        ("uint32", "float64"),
        ("int64", "float64"),
        ("uint64", "float64"),
        ("longdouble", "float64"),
        (">f8", "float64"),
        (">i8", "float64"),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_dtypes_of_arrays(dtype, kept, order):
    X = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype, order=order)
    table = read_table(X)
    assert dtypes(table) == [kept] * 3
    assert (table.matrix is not None) == (order == "C")
    np.testing.assert_array_equal(cells(table), [[0, 1, 1], [1, 0, 1]])


def test_every_16_bit_integer_survives():
    for dtype in (np.int16, np.uint16):
        X = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype).reshape(-1, 1)
        np.testing.assert_array_equal(cells(read_table(X)), X)


def test_extreme_numbers():
    X = np.array([[1e300, -1e300, np.inf, -np.inf, np.nan, 5e-324]])
    np.testing.assert_array_equal(cells(read_table(X)), X)
    huge = np.array([[2**64 - 1, 0]], dtype=np.uint64)
    assert cells(read_table(huge))[0, 0] == 2.0**64
    assert cells(read_table([[2**70, None]]))[0, 0] == 2.0**70
    with pytest.raises(InputError, match=r"beyond float64's range"):
        read_table([[10**400, 1]])
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        assert cells(read_table(np.array([["1e400"]]).astype(np.longdouble)))[0, 0] == np.inf


def test_objects_that_are_numbers():
    X = np.array(
        [
            [1, 2.5, None, True],
            [np.float32(0.5), np.int8(3), pd.NA, np.bool_(False)],
            [Decimal("1.5"), Fraction(1, 4), float("nan"), 2**80],
        ],
        dtype=object,
    )
    before = X.copy()
    table = read_table(X)
    assert table.matrix.dtype == np.float64
    expected = [[1, 2.5, np.nan, 1], [0.5, 3, np.nan, 0], [1.5, 0.25, np.nan, 2.0**80]]
    np.testing.assert_array_equal(cells(table), expected)
    assert all(a is b for a, b in zip(X.flat, before.flat, strict=True)), "the input is left alone"
    np.testing.assert_array_equal(cells(read_table(np.asfortranarray(X))), expected)


def test_masked_cells_are_missing():
    mask = [[True, False], [False, True]]
    for dtype, kept in (("float64", "float64"), ("float32", "float32"), ("int64", "float64"), ("int8", "float32")):
        X = np.ma.array(np.array([[1, 2], [3, 4]], dtype), mask=mask)
        table = read_table(X)
        assert dtypes(table) == [kept] * 2
        np.testing.assert_array_equal(cells(table), [[np.nan, 2], [3, np.nan]])
        np.testing.assert_array_equal(X.data, [[1, 2], [3, 4]])
    objects = np.ma.array(np.array([["?", 2], [3, 4]], object), mask=mask)
    np.testing.assert_array_equal(cells(read_table(objects)), [[np.nan, 2], [3, np.nan]])
    plain = np.ma.array(np.ones((2, 2)))
    assert np.shares_memory(read_table(plain).matrix, plain.data)


@pytest.mark.parametrize(
    "X", [[[1, 2], [3, 4]], ((1, 2), (3, 4)), [np.array([1, 2]), np.array([3, 4])], [(1, 2), [3, 4]]]
)
def test_lists_of_rows(X):
    np.testing.assert_array_equal(cells(read_table(X)), [[1, 2], [3, 4]])


def test_lists_with_missing_cells():
    np.testing.assert_array_equal(cells(read_table([[1, None], [np.nan, 4.5]])), [[1, np.nan], [np.nan, 4.5]])


def test_duck_arrays():
    from sklearn.utils.estimator_checks import _NotAnArray

    X = np.arange(6.0).reshape(3, 2)
    table = read_table(_NotAnArray(X))
    assert np.shares_memory(table.matrix, X)


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(
        dtype=hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64))
        | hnp.integer_dtypes(endianness="?")
        | hnp.unsigned_integer_dtypes(endianness="?")
        | hnp.boolean_dtypes(),
        shape=hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    ),
    st.sampled_from("CF"),
    st.booleans(),
)
def test_any_numeric_array_equals_its_cast(X, order, backwards):
    X = X.copy(order=order)[:: -1 if backwards else 1]
    before = X.copy()
    table = read_table(X)
    np.testing.assert_array_equal(cells(table), X.astype(np.float64))
    np.testing.assert_array_equal(table.to_matrix(), X.astype(np.float64))
    np.testing.assert_array_equal(X, before)


# --------------------------------------------------------------------------------------------------- arrays: errors


def test_strings_are_named():
    for X in (
        np.array([[1, 2], [3, "blue"]], dtype=object),
        [[1, 2], [3, "blue"]],
        [(1.5, 2.5), (3.5, "blue")],
    ):
        with pytest.raises(InputError, match=r"row 1, column 1 of X is 'blue'.*OrdinalEncoder"):
            read_table(X)
    with pytest.raises(InputError, match=r"row 0, column 0 of X is 'a'"):
        read_table(np.array([["a", "b"]]))
    with pytest.raises(InputError, match=r"row 0, column 0 of X is b'a'"):
        read_table(np.array([[b"a", b"b"]]))
    with pytest.raises(InputError, match=r"row 0, column 0 of X is 'a'"):
        read_table(np.array([["a", "b"]], dtype=np.dtypes.StringDType()))
    with pytest.raises(InputError, match=r"is '1.5'.*astype\(float\)"):
        read_table(np.array([["1.5"]], dtype=object))
    with pytest.raises(InputError) as caught:
        read_table(np.array([["x" * 10_000]]))
    assert len(str(caught.value)) < 500


def test_other_cells_are_named():
    X = np.ones((3, 2), object)
    X[1, 0] = {"foo": "bar"}
    with pytest.raises(TypeError, match=r"argument must be .* string.* number.*row 1, column 0 of X"):
        read_table(X)
    for value in (datetime.date(2020, 1, 1), datetime.timedelta(1), np.datetime64("2020-01-01"), pd.Timestamp(0)):
        X[1, 0] = value
        with pytest.raises(InputTypeError, match=r"row 1, column 0 of X is a date or time .* days since"):
            read_table(X)
    X[1, 0] = [1, 2]
    with pytest.raises(InputTypeError, match=r"not 'list'"):
        read_table(X)
    X[1, 0] = np.zeros(2)
    with pytest.raises(InputTypeError, match=r"not 'ndarray'"):
        read_table(X)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]"])
def test_dates(dtype):
    with pytest.raises(InputTypeError, match=r"date or time .* days since"):
        read_table(np.zeros((2, 2), dtype))


def test_complex():
    with pytest.raises(ValueError, match="Complex data not supported"):
        read_table(np.ones((2, 2)) + 1j)
    with pytest.raises(ValueError, match="Complex data not supported"):
        read_table(np.array([[1, 1j]], dtype=object))
    with pytest.raises(ValueError, match="Complex data not supported"):
        read_table(np.array([[1, np.complex64(1j)]], dtype=object))


@pytest.mark.parametrize("X", [np.zeros(3), [1, 2, 3], np.array(["a", "b"])])
def test_one_dimension(X):
    with pytest.raises(InputError, match=r"(?s)Expected 2D array, got 1D array instead.*Reshape your data"):
        read_table(X)


@pytest.mark.parametrize("X", [1.0, np.array(1.0), np.float64(3)])
def test_no_dimension(X):
    with pytest.raises(InputError, match=r"(?s)Expected 2D array, got scalar array instead.*Reshape your data"):
        read_table(X)


@pytest.mark.parametrize("X", [None, {"a": [1, 2]}, {1, 2}, object(), (i for i in range(3))])
def test_not_a_table_at_all(X):
    with pytest.raises(InputTypeError, match=rf"got {type(X).__name__} instead"):
        read_table(X)


def test_a_string_is_no_table():
    with pytest.raises(InputError, match="Expected 2D array, got scalar array instead"):
        read_table("train.csv")


def test_three_dimensions():
    with pytest.raises(InputError, match=r"dim 3 \(shape=\(2, 2, 2\)\), while dim <= 2 is required"):
        read_table(np.zeros((2, 2, 2)))


def test_ragged_rows():
    with pytest.raises(InputTypeError, match="rows that all have the same length"):
        read_table([[1, 2], [3]])


def test_structured_arrays():
    with pytest.raises(InputTypeError, match=r"structured array.*DataFrame"):
        read_table(np.zeros(3, dtype=[("a", "f8"), ("b", "i4")]))


def test_empty():
    with pytest.raises(InputError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1"):
        read_table(np.empty((0, 3)))
    with pytest.raises(InputError, match=r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required."):
        read_table(np.empty((12, 0)))
    with pytest.raises(InputError, match=r"0 feature\(s\)"):
        read_table([[], []])
    with pytest.raises(InputError, match="Expected 2D array"):
        read_table([])


# ------------------------------------------------------------------------------------------------- frames: reading


@every_frame
def test_frames_keep_names_and_values(frame):
    table = read_table(frame({"b": [1.0, 2.0], "a": [3.5, 4.5]}))
    assert table.names == ("b", "a")
    np.testing.assert_array_equal(cells(table), [[1, 3.5], [2, 4.5]])


@every_frame
@pytest.mark.parametrize(
    "dtype, kept",
    [
        ("bool", "float32"),
        ("int8", "float32"),
        ("uint8", "float32"),
        ("int16", "float32"),
        ("uint16", "float32"),
        ("float32", "float32"),
        ("int32", "float64"),
        ("uint32", "float64"),
        ("int64", "float64"),
        ("uint64", "float64"),
        ("float64", "float64"),
    ],
)
def test_dtypes_of_frames(frame, dtype, kept):
    values = np.array([0, 1, 1]).astype(dtype)
    table = read_table(frame({"a": values, "b": np.array([0.5, 1.5, np.nan])}))
    assert dtypes(table) == [kept, "float64"]
    np.testing.assert_array_equal(cells(table), [[0, 0.5], [1, 1.5], [1, np.nan]])


@pytest.mark.parametrize(
    "arrow, kept",
    [
        ("bool_", "float32"),
        ("int8", "float32"),
        ("uint16", "float32"),
        ("float16", "float32"),
        ("float32", "float32"),
        ("int32", "float64"),
        ("uint64", "float64"),
        ("float64", "float64"),
    ],
)
@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas-arrow"])
def test_nulls_are_missing(arrow, kept, library):
    if library == "polars" and arrow == "float16" and not hasattr(pl, "Float16"):
        pytest.skip("this polars has no Float16")
    values = pa.array([True, None, False]).cast(pa.int8()).cast(getattr(pa, arrow)())
    data = pa.table({"a": values, "b": [1.5, None, np.nan]})
    X = {
        "pyarrow": lambda: data,
        "polars": lambda: pl.from_arrow(data),
        "pandas-arrow": lambda: data.to_pandas(types_mapper=pd.ArrowDtype),
    }[library]()
    table = read_table(X)
    assert dtypes(table) == [kept, "float64"]
    np.testing.assert_array_equal(cells(table), [[1, 1.5], [np.nan, np.nan], [0, np.nan]])


@pytest.mark.parametrize(
    "dtype, kept",
    [
        ("boolean", "float32"),
        ("Int8", "float32"),
        ("UInt16", "float32"),
        ("Float32", "float32"),
        ("Int32", "float64"),
        ("Int64", "float64"),
        ("UInt64", "float64"),
        ("Float64", "float64"),
    ],
)
def test_pandas_nullable_dtypes(dtype, kept):
    X = pd.DataFrame({"a": pd.array([1, None, 0], dtype), "b": pd.array([1, 0, 1], dtype)})
    before = X.copy(deep=True)
    table = read_table(X)
    assert dtypes(table) == [kept, kept]
    np.testing.assert_array_equal(cells(table), [[1, 1], [np.nan, 0], [0, 1]])
    pd.testing.assert_frame_equal(X, before)


@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas-arrow", "pandas"])
def test_decimals(library):
    data = pa.table({"a": [Decimal("1.25"), None, Decimal("-3.50")]})
    X = {
        "pyarrow": lambda: data,
        "polars": lambda: pl.from_arrow(data),
        "pandas-arrow": lambda: data.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas": lambda: data.to_pandas(),  # an object column
    }[library]()
    table = read_table(X)
    assert dtypes(table) == ["float64"]
    np.testing.assert_array_equal(cells(table), [[1.25], [np.nan], [-3.5]])


def test_decimals_are_the_nearest_floats():
    cells = [Decimal(k) / 100 for k in range(-500, 500)]
    data = pa.table({"a": pa.array(cells, pa.decimal128(20, 2))})
    for frame in (data, pl.from_arrow(data), data.to_pandas(types_mapper=pd.ArrowDtype), data.to_pandas()):
        assert read_table(frame).column(0).tolist() == [float(own) for own in cells]


def test_wide_decimals_and_integers():
    table = read_table(pa.table({"a": pa.array([Decimal("1.5"), None], pa.decimal256(60, 2))}))
    np.testing.assert_array_equal(cells(table), [[1.5], [np.nan]])
    X = pl.DataFrame({"a": pl.Series([2**100, None], dtype=pl.Int128)})
    np.testing.assert_array_equal(cells(read_table(X)), [[2.0**100], [np.nan]])


@every_frame
def test_huge_integers(frame):
    # pyarrow's own cast to float64 refuses integers beyond 2**53.
    X = frame({"a": np.array([2**63 - 1, 1]), "b": np.array([2**64 - 1, 0], np.uint64), "c": np.array([1e300, -1e300])})
    np.testing.assert_array_equal(cells(read_table(X)), [[2.0**63, 2.0**64, 1e300], [1, 0, -1e300]])
    nulls = pa.table({"a": pa.array([2**62 + 1, None])})
    np.testing.assert_array_equal(cells(read_table(nulls)), [[2.0**62], [np.nan]])


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": [None, None], "b": [1.0, 2.0]}),
        pd.DataFrame({"a": [np.nan, np.nan], "b": [1.0, 2.0]}),
        pd.DataFrame({"a": pd.array([None, None], "Int64"), "b": [1.0, 2.0]}),
        pd.DataFrame({"a": pd.array([None, None], pd.ArrowDtype(pa.null())), "b": [1.0, 2.0]}),
        pl.DataFrame({"a": [None, None], "b": [1.0, 2.0]}),
        pl.DataFrame({"a": pl.Series([None, None], dtype=pl.Int16), "b": [1.0, 2.0]}),
        pl.DataFrame({"a": pl.Series([None, None], dtype=pl.String), "b": [1.0, 2.0]}),
        pa.table({"a": pa.nulls(2), "b": [1.0, 2.0]}),
        pa.table({"a": pa.nulls(2, pa.bool_()), "b": [1.0, 2.0]}),
    ],
)
def test_columns_of_nulls_only(X):
    np.testing.assert_array_equal(cells(read_table(X)), [[np.nan, 1], [np.nan, 2]])


@every_frame
def test_one_row_and_one_column(frame):
    np.testing.assert_array_equal(cells(read_table(frame({"a": [1.5]}))), [[1.5]])
    np.testing.assert_array_equal(cells(read_table(frame({"a": [1.5], "b": [2]}))), [[1.5, 2]])


def test_object_columns_of_numbers():
    X = pd.DataFrame({"a": np.array([1, None, True], object), "b": np.array([0.5, pd.NA, 2], object)})
    before = X.copy(deep=True)
    np.testing.assert_array_equal(cells(read_table(X)), [[1, 0.5], [np.nan, np.nan], [1, 2]])
    pd.testing.assert_frame_equal(X, before)


def test_pandas_names_that_are_no_strings():
    X = pd.DataFrame(np.eye(3), columns=[2, 0, 1])
    table = read_table(X)
    assert table.names is None
    np.testing.assert_array_equal(cells(table), np.eye(3))
    with pytest.raises(TypeError, match=r"only supported if all input features have string names.*\['int', 'str'\]"):
        read_table(pd.DataFrame(np.eye(2), columns=["a", 1]))


def test_narwhals_frames():
    nw = pytest.importorskip("narwhals")
    X = nw.from_native(pl.DataFrame({"a": [1.0, 2.0]}))
    assert read_table(X).names == ("a",)


def test_chunked_columns():
    X = pa.table({"a": pa.chunked_array([[1.0, 2.0], [3.0]])})
    np.testing.assert_array_equal(cells(read_table(X)), [[1], [2], [3]])
    X = pl.concat([pl.DataFrame({"a": [1.0, 2.0]}), pl.DataFrame({"a": [3.0]})], rechunk=False)
    np.testing.assert_array_equal(cells(read_table(X)), [[1], [2], [3]])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(width=32), st.integers(-(2**31), 2**31)), min_size=1, max_size=20))
def test_libraries_agree(values):
    numbers = [None if value is None else float(value) for value in values]
    expected = np.array([np.nan if value is None else value for value in numbers]).reshape(-1, 1)
    for X in (
        pd.DataFrame({"a": pd.array(numbers, "Float64")}),
        pd.DataFrame({"a": np.array(values, object)}),
        pl.DataFrame({"a": pl.Series(numbers, dtype=pl.Float64)}),
        pa.table({"a": pa.array(numbers, pa.float64())}),
        np.array(values, object).reshape(-1, 1),
    ):
        np.testing.assert_array_equal(cells(read_table(X)), expected)


# ------------------------------------------------------------------------------------------------- frames: no copy


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pandas_blocks_are_not_copied(dtype):
    X = np.arange(12).reshape(4, 3).astype(dtype)
    table = read_table(pd.DataFrame(X, columns=list("abc"), copy=False))
    assert table.matrix is not None
    assert np.shares_memory(table.matrix, X)
    assert table.names == ("a", "b", "c")
    np.testing.assert_array_equal(cells(table), X)

    F = np.asfortranarray(X)
    table = read_table(pd.DataFrame(F, columns=list("abc"), copy=False))
    assert all(np.shares_memory(column, F) for column in table.columns)
    np.testing.assert_array_equal(cells(table), X)


def test_pandas_frames_cut_from_a_matrix():
    X = np.arange(24.0).reshape(6, 4)
    frame = pd.DataFrame(X, columns=list("abcd"), copy=False)
    mixed = frame.assign(e=np.arange(6, dtype=np.int8))
    for part, expected in (
        (frame.iloc[::2], X[::2]),
        (frame.iloc[1:3], X[1:3]),
        (frame[["d", "a"]], X[:, [3, 0]]),
        (frame.iloc[:, 1:3], X[:, 1:3]),
        (frame.iloc[:1], X[:1]),
        (frame[["b"]], X[:, [1]]),
        (mixed, np.column_stack([X, np.arange(6)])),
    ):
        table = read_table(part)
        np.testing.assert_array_equal(cells(table), expected)
        np.testing.assert_array_equal(table.to_matrix(), expected)
    assert dtypes(read_table(mixed)) == ["float64"] * 4 + ["float32"]


def test_pandas_frames_of_several_blocks():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    frame["b"] = [4.0, 5.0, 6.0]
    frame["c"] = np.arange(3, dtype=np.float32)
    table = read_table(frame)
    assert dtypes(table) == ["float64", "float64", "float32"]
    assert all(np.shares_memory(table.column(j), frame.iloc[:, j].to_numpy()) for j in range(3))
    two = read_table(frame[["a", "b"]])
    np.testing.assert_array_equal(cells(two), [[1, 4], [2, 5], [3, 6]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_polars_and_arrow_columns_are_not_copied(dtype):
    values = np.arange(5).astype(dtype)
    X = pl.DataFrame({"a": values, "b": values + 1})
    assert np.shares_memory(read_table(X).columns[0], X["a"].to_numpy(allow_copy=False))
    buffer = pa.array(values)
    assert np.shares_memory(read_table(pa.table({"a": buffer})).columns[0], values)


# -------------------------------------------------------------------------------------------------- frames: errors


def other_columns(frame):
    day = datetime.date(2020, 1, 1)
    return frame({"n": [1.0, 2.0], "city": ["Bern", "Oslo"], "day": [day, day]})


@every_frame
def test_columns_that_are_no_numbers_are_named(frame):
    with pytest.raises(InputError, match=r"not numeric: 'city' \(.*\), 'day' \(.*\)\. ") as caught:
        read_table(other_columns(frame))
    message = str(caught.value)
    assert "OrdinalEncoder" in message
    assert "categorical_features" in message
    assert "'n'" not in message
    if frame is not pd.DataFrame:  # which keeps dates as objects
        assert "Turn dates and times into numbers" in message


@pytest.mark.parametrize(
    "column, dtype, hint",
    [
        (pd.Series(["a", "b"], dtype="category"), "category", "Encode"),
        (pd.Series(["a", "b"], dtype="string"), "string", "Encode"),
        (pd.Series(["a", 1], dtype=object), "object", "Encode"),
        (pd.Series([[1], [2]]), "object", "Encode"),
        (pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])), "datetime64", "Turn dates"),
        (pd.Series(pd.to_timedelta([1, 2], "s")), "timedelta64", "Turn dates"),
        (pd.Series([1, 0], dtype=pd.SparseDtype("float64", 0.0)), "Sparse", "to_dense"),
        (pd.Series([1, 0], dtype=pd.SparseDtype("int64", 0)), "Sparse", "to_dense"),
        (pd.Series([1 + 1j, 0]), "complex128", "Complex data not supported"),
        (pd.Series(pd.period_range("2020", periods=2)), "period", ""),
    ],
)
def test_pandas_columns_that_are_no_numbers(column, dtype, hint):
    with pytest.raises(InputError, match=rf"'a' \(.*{dtype}.*\).*{hint}"):
        read_table(pd.DataFrame({"a": column, "b": [1, 2]}))


@pytest.mark.parametrize(
    "column, dtype, hint",
    [
        (pl.Series(["a", "b"], dtype=pl.Categorical), "Categorical", "Encode"),
        (pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])), "Enum", "Encode"),
        (pl.Series(["a", "b"]), "String", "Encode"),
        (pl.Series([[1], [2]]), "List", "Take lists"),
        (pl.Series([{"x": 1}, {"x": 2}]), "Struct", "Take lists"),
        (pl.Series([b"a", b"b"]), "Binary", "Take lists"),
        (pl.Series([datetime.time(1), datetime.time(2)]), "Time", "Turn dates"),
        (pl.Series([datetime.timedelta(1)] * 2), "Duration", "Turn dates"),
        (pl.Series([object(), object()], dtype=pl.Object), "Object", "Encode"),
    ],
)
def test_polars_columns_that_are_no_numbers(column, dtype, hint):
    with pytest.raises(InputError, match=rf"'a' \({dtype}.*\).*{hint}"):
        read_table(pl.DataFrame({"a": column, "b": [1, 2]}))


def test_arrow_dictionaries_are_categorical():
    with pytest.raises(InputError, match=r"'a' \(dictionary.*\).*Encode"):
        read_table(pa.table({"a": pa.array(["x", None]).dictionary_encode()}))


def test_at_most_five_columns_are_named():
    with pytest.raises(InputError, match=r"'c4' \(.*\) and 3 more\.") as caught:
        read_table(pd.DataFrame({f"c{j}": ["x"] for j in range(8)}))
    assert "'c5'" not in str(caught.value)


def test_duplicate_names():
    with pytest.raises(InputError, match=r"X has duplicate column names: 'a'.*Rename"):
        read_table(pd.DataFrame(np.eye(3), columns=["a", "b", "a"]))
    with pytest.raises(InputError, match="X has duplicate column names: 'a'"):
        read_table(pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]))
    with pytest.raises(InputError, match=r"X has duplicate column names: 0\."):
        read_table(pd.DataFrame(np.eye(2), columns=[0, 0]))
    with pytest.raises(InputError, match="'c4' and 3 more"):
        read_table(pd.DataFrame(np.zeros((1, 16)), columns=[f"c{j % 8}" for j in range(16)]))


def test_lazy_frames():
    with pytest.raises(InputTypeError, match=r"lazy frame .*X.collect\(\)"):
        read_table(pl.LazyFrame({"a": [1.0]}))


def test_multi_index():
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    with pytest.raises(InputError, match=r"MultiIndex.*Flatten"):
        read_table(pd.DataFrame(np.eye(2), columns=columns))


@pytest.mark.parametrize("X", [pd.Series([1.0, 2.0]), pl.Series([1.0, 2.0]), pa.chunked_array([[1.0, 2.0]])])
def test_series(X):
    with pytest.raises(InputError, match=r"2-dimensional container.*X.to_frame\(\)"):
        read_table(X)


def test_one_dimensional_relatives_of_series():
    for X in (pd.Index([1.0, 2.0]), pd.array([1.0, 2.0]), pa.array([1.0, 2.0])):
        with pytest.raises(InputError, match="Expected 2D array, got 1D array"):
            read_table(X)


@every_frame
def test_empty_frames(frame):
    with pytest.raises(InputError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 2\)\)"):
        read_table(frame({"a": np.array([], float), "b": np.array([], float)}))
    with pytest.raises(InputError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 0\)\)"):
        read_table(frame({}))


def test_frames_without_columns():
    with pytest.raises(InputError, match=r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required."):
        read_table(pd.DataFrame(index=range(12)))


# ----------------------------------------------------------------------------------------------- tables and schemas


TABLES = {
    "matrix": lambda X: read_table(np.ascontiguousarray(X)),
    "columns": lambda X: read_table(np.asfortranarray(X)),
    "frame": lambda X: read_table(pl.DataFrame(X, schema=[f"c{j}" for j in range(X.shape[1])])),
}
every_table = pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)


@every_table
def test_take(make):
    X = np.arange(20.0).reshape(5, 4)
    table = make(X)
    for rows in (np.array([3, 0, 3]), np.array([-1], np.int32), np.array([2], np.uint16), np.array([], int)):
        part = table.take(rows)
        assert part.n_rows == len(rows)
        assert part.names == table.names
        np.testing.assert_array_equal(cells(part), X[rows])
    with pytest.raises(IndexError):
        table.take(np.array([5]))
    for rows in (np.ones(5, bool), np.array([[1]]), np.array([1.0])):
        with pytest.raises(InputTypeError, match="1-D array of integers"):
            table.take(rows)


@every_table
def test_to_matrix(make):
    X = np.random.default_rng(0).normal(size=(10_000, 3))
    for dtype in (np.float32, np.float64):
        matrix = make(X.astype(dtype)).to_matrix()
        assert matrix.dtype == dtype
        assert matrix.flags.c_contiguous
        np.testing.assert_array_equal(matrix, X.astype(dtype))


def test_mixed_columns_make_a_float64_matrix():
    X = pl.DataFrame({"a": pl.Series([1.5, 2.5], dtype=pl.Float32), "b": [0.1, 0.2]})
    table = read_table(X)
    assert dtypes(table) == ["float32", "float64"]
    np.testing.assert_array_equal(table.to_matrix(), [[1.5, 0.1], [2.5, 0.2]])


def test_tables_are_frozen():
    table = read_table(np.eye(2))
    with pytest.raises(AttributeError):
        table.n_rows = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        table.column(0)[0] = 5.0
    with pytest.raises(AttributeError):
        table.schema.n_columns = 3  # type: ignore[misc]


def frame_of(names, n_rows=2):
    return pd.DataFrame(np.zeros((n_rows, len(names))), columns=list(names))


def test_schema_of_names():
    schema = read_table(frame_of("abcd")).schema
    assert schema == Schema(4, ("a", "b", "c", "d"))
    read_table(frame_of("abcd"), like=schema)
    head = r"^The feature names should match those that were passed during fit\.\n"
    with pytest.raises(InputError, match=head + r"Feature names must be in the same order as they were in fit\.\n$"):
        read_table(frame_of("abdc"), like=schema)
    with pytest.raises(InputError, match=head + r"Feature names unseen at fit time:\n- e\n$"):
        read_table(frame_of("abcde"), like=schema)
    with pytest.raises(InputError, match=head + r"Feature names seen at fit time, yet now missing:\n- c\n- d\n$"):
        read_table(frame_of("ab"), like=schema)
    with pytest.raises(InputError, match=r"unseen at fit time:\n- x\nFeature names seen at fit time.*missing:\n- d\n$"):
        read_table(frame_of("abcx"), like=schema)
    with pytest.raises(InputError, match=r"unseen at fit time:\n- p\n- q\n- r\n- s\n- t\n- \.\.\.\n"):
        read_table(frame_of("utsrqp"), like=schema)


def test_wrong_names_are_reported_before_unreadable_columns():
    with pytest.raises(InputError, match="The feature names should match"):
        read_table(pd.DataFrame({"b": ["text"]}), like=Schema(1, ("a",)))


@pytest.mark.parametrize("schema", [Schema(4, None), Schema(4, ("a", "b", "c", "d"))])
def test_schema_of_counts(schema):
    with pytest.raises(InputError, match=r"^X has 1 features, but Boost is expecting 4 features as input\.$"):
        read_table(np.zeros((2, 1)), like=schema, estimator_name="Boost")
    table = read_table(np.zeros((2, 5)))
    with pytest.raises(InputError, match=r"^X has 5 features, but Boost is expecting 4 features as input\.$"):
        schema.check(table, "Boost")


def test_frame_without_string_names_against_counts():
    with pytest.raises(InputError, match="X has 2 features"):
        read_table(frame_of("ab"), like=Schema(3, None))


def test_names_on_one_side_only_are_a_warning():
    with pytest.warns(
        UserWarning, match="^X does not have valid feature names, but Boost was fitted with feature names$"
    ):
        read_table(np.zeros((2, 2)), like=Schema(2, ("a", "b")), estimator_name="Boost")
    with pytest.warns(UserWarning, match="^X has feature names, but Boost was fitted without feature names$"):
        read_table(frame_of("ab"), like=Schema(2, None), estimator_name="Boost")
    read_table(np.zeros((2, 2)), like=Schema(2, None))


@every_frame
def test_libraries_can_be_mixed_between_fit_and_predict(frame):
    data = {"a": [1.0], "b": [2.0]}
    read_table(frame(data), like=read_table(pl.DataFrame(data)).schema)


def test_reading_arrays_loads_no_frame_library():
    code = (
        "import sys; import numpy as np; from stagewise.data.table import read_table; read_table(np.eye(3));"
        "read_table([[1, None]]); import stagewise.data.target;"
        "print(*(m for m in ('pandas', 'polars', 'pyarrow', 'scipy', 'narwhals', 'sklearn') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("kind", ["Arrow", "polars"])
def test_the_index_of_a_pandas_frame_is_no_column(kind):
    """pandas makes a column of it when some rows were taken and the frame becomes an Arrow table or a Parquet file."""
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}).iloc[[2, 0, 1]]
    table = pa.Table.from_pandas(frame)
    assert table.column_names == ["a", "b", "__index_level_0__"]
    given = table if kind == "Arrow" else pl.from_arrow(table)
    read = read_table(given)
    assert read.names == ("a", "b")
    np.testing.assert_array_equal(read.to_matrix(), frame.to_numpy())
    np.testing.assert_array_equal(read_table(given, like=read.schema).to_matrix(), frame.to_numpy())
    trained_on_it = Schema(3, ("a", "b", "__index_level_0__"))
    np.testing.assert_array_equal(read_table(given, like=trained_on_it).to_matrix()[:, 2], [2.0, 0.0, 1.0])
