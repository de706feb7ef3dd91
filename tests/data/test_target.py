"""Reading y, weights and starting scores; and scikit-learn's own checks of how an estimator treats its input."""

from __future__ import annotations

import datetime
import time
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import _NotAnArray, check_estimator
from sklearn.utils.validation import check_is_fitted

from stagewise.data.table import read_table
from stagewise.data.target import encode_labels, read_init_score, read_labels, read_target, read_weights
from stagewise.errors import InputError, InputTypeError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

VECTORS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "object": lambda values: np.array(values, dtype=object),
    "duck": lambda values: _NotAnArray(values),
    "masked": np.ma.array,
    "pandas": pd.Series,
    "index": pd.Index,
    "polars": pl.Series,
    "chunked": lambda values: pa.chunked_array([values]),
    "arrow": pa.array,
}
every_vector = pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)


def assert_plain(out: np.ndarray, dtype: type) -> None:
    assert type(out) is np.ndarray
    assert out.dtype == dtype
    assert out.flags.c_contiguous
    assert out.flags.writeable


def assert_fresh(out: np.ndarray, given: object, dtype: type) -> None:
    assert_plain(out, dtype)
    if isinstance(given, np.ndarray):
        assert not np.shares_memory(out, given)


# --------------------------------------------------------------------------------------------------------- targets


@every_vector
@pytest.mark.parametrize("values", [[1.5, -2.0, 1e300], [1, 2, 3], [True, False, True]])
def test_targets_from_anything(vector, values):
    y = vector(values)
    out = read_target(y, 3)
    assert_plain(out, np.float64)
    np.testing.assert_array_equal(out, np.array(values, float))


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", ">f8", "g", "i1", "u1", ">i4", "i8", "u8", "?", "O"], ids=lambda dtype: f"dtype {dtype}"
)
def test_targets_of_any_number(dtype):
    y = np.array([0, 1, 1], dtype)
    out = read_target(y, 3)
    assert_plain(out, np.float64)
    np.testing.assert_array_equal(out, [0, 1, 1])


@pytest.mark.parametrize(
    "y",
    [
        pd.Series([1, 2], dtype="Int64"),
        pd.Series([1, 2], dtype="Float32"),
        pd.Series([1, 2], dtype=pd.ArrowDtype(pa.int32())),
        pd.Series([1, 2], dtype="category"),
        pd.Series([Decimal(1), Fraction(2)], dtype=object),
        pd.Series([1, 2], index=[7, 7]),
        pl.Series([1, 2], dtype=pl.Int128),
        pl.Series([1, 2], dtype=pl.Decimal(10, 2)),
        pa.chunked_array([[1], [2]]),
        np.array([1, 9, 2, 9])[::2],
        range(1, 3),
    ],
)
def test_targets_of_special_kinds(y):
    out = read_target(y, 2)
    assert_plain(out, np.float64)
    np.testing.assert_array_equal(out, [1, 2])


def test_targets_are_not_copied_without_need():
    y = np.arange(6.0)
    assert np.shares_memory(read_target(y, 6), y)
    locked, mapped = y.copy(), np.zeros(3, ">f8")
    locked.flags.writeable = False
    for other in (locked, y[::2], mapped, y.astype(np.float32)):
        assert_fresh(read_target(other, len(other)), other, np.float64)


def test_huge_integers_round():
    np.testing.assert_array_equal(read_target(np.array([2**63 - 1, 2**62 + 1]), 2), [2.0**63, 2.0**62])
    np.testing.assert_array_equal(read_target([2**70, 1], 2), [2.0**70, 1])


def test_one_row():
    np.testing.assert_array_equal(read_target([3], 1), [3.0])


@pytest.mark.parametrize("read", [read_target, read_labels])
@pytest.mark.parametrize(
    "y",
    [
        np.array([[1], [0]]),
        [[1], [0]],
        pd.DataFrame({"y": [1, 0]}),
        pl.DataFrame({"y": [1, 0]}),
        pa.table({"y": [1, 0]}),
    ],
)
def test_column_vectors_warn(read, y):
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
        out = read(y, 2)
    np.testing.assert_array_equal(out[1] if isinstance(out, tuple) else out, [1, 0])


@pytest.mark.parametrize("read", [read_target, read_labels])
class TestAnyY:
    def test_none(self, read):
        with pytest.raises(InputError, match="requires y to be passed, but the target y is None"):
            read(None, 3)

    @every_vector
    def test_length(self, read, vector):
        with pytest.raises(InputError, match=r"Found input variables with inconsistent numbers of samples: \[3, 2\]"):
            read(vector([1, 0]), 3)

    @pytest.mark.parametrize(
        "y", [np.ones((2, 2)), [[1, 2], [3, 4]], pd.DataFrame({"a": [1, 2], "b": [1, 2]}), np.ones((2, 0))]
    )
    def test_several_columns(self, read, y):
        with pytest.raises(InputError, match=r"y should be a 1d array, got an array of shape .*not supported"):
            read(y, 2)

    @pytest.mark.parametrize("y", [5, np.array(5), {"a": 1}, np.ones((2, 2, 2)), "text", pd.DataFrame(index=[0, 1])])
    def test_other_shapes(self, read, y):
        with pytest.raises(InputError, match="y should be a 1d array, got an array of shape"):
            read(y, 2)

    def test_sparse(self, read):
        sparse = pytest.importorskip("scipy.sparse")
        with pytest.raises(InputTypeError, match=r"Sparse data was passed for y"):
            read(sparse.csr_array(np.eye(2)), 2)

    def test_ragged(self, read):
        with pytest.raises(InputTypeError, match=r"y \(list\) cannot be read as an array"):
            read([[1], [1, 2]], 2)

    def test_lazy(self, read):
        with pytest.raises(InputTypeError, match=r"y is a lazy frame .*y.collect\(\)"):
            read(pl.LazyFrame({"y": [1, 2]}), 2)

    @pytest.mark.parametrize(
        "y",
        [
            np.array([1, np.nan]),
            np.array([np.inf, np.nan]),
            [1, np.nan],
            [1, None],
            [1, float("nan")],
            np.array([1, None], object),
            np.array([1, pd.NA], object),
            np.ma.array([1, 2], mask=[0, 1]),
            pd.Series([1, None]),
            pd.Series([1, None], dtype="Int64"),
            pd.Series([True, None], dtype="boolean"),
            pl.Series([1, None]),
            pl.Series([1.0, float("nan")]),
            pl.Series([True, None]),
            pa.array([1, None]),
            pa.chunked_array([[1, None]]),
            pa.table({"y": [1, None]}),
        ],
    )
    def test_missing(self, read, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataConversionWarning)
            with pytest.raises(InputError, match=r"^Input y contains NaN\."):
                read(y, 2)

    @pytest.mark.parametrize("y", [[1, np.inf], np.array([1, -np.inf], np.float32), np.array([1, np.inf], object)])
    def test_infinite(self, read, y):
        with pytest.raises(InputError, match=r"^Input y contains infinity or a value too large for dtype"):
            read(y, 2)

    def test_complex(self, read):
        for y in (np.array([1, 1j]), [1, 1j], np.array([1, 1j], np.complex64)):
            with pytest.raises(InputError, match="Complex data not supported"):
                read(y, 2)

    def test_input_is_left_alone(self, read):
        for y in (np.array([1.0, 0.0, 1.0]), np.array([1, 0, None], object)[:2].repeat(2), pd.Series([1, 0, 1])):
            before = y.copy()
            found = read(y, len(y))
            if isinstance(found, tuple):  # codes are the reader's own; a target may be y itself
                found[1][:] = 7
            assert all(a == b for a, b in zip(y, before, strict=True))


def test_the_row_is_named():
    with pytest.raises(InputError, match=r"contains NaN\. The first is in row 2"):
        read_target([1, 2, np.nan, np.nan], 4)
    with pytest.raises(InputError, match=r"contains NaN\. The first is in row 2"):
        read_labels(pl.Series(["a", "b", None]), 3)


@every_vector
def test_text_is_no_regression_target(vector):
    with pytest.raises(InputError, match=r"row 0 of y is 'a'.*use a classifier"):
        read_target(vector(["a", "b"]), 2)


def test_text_among_numbers():
    for y in ([1, "b"], np.array([1, "b"], object), pd.Series([1, "b"], dtype=object)):
        with pytest.raises(InputError, match=r"row 1 of y is 'b'"):
            read_target(y, 2)


@pytest.mark.parametrize(
    "y", [np.zeros(2, "M8[s]"), pd.Series(pd.to_datetime(["2020", "2021"])), [datetime.date.today()] * 2]
)
def test_dates_are_no_target(y):
    with pytest.raises(InputTypeError, match="date or time"):
        read_target(y, 2)
    with pytest.raises(InputTypeError, match="Unknown label type: "):
        read_labels(y, 2)


# ---------------------------------------------------------------------------------------------------------- labels


@every_vector
@pytest.mark.parametrize(
    "values",
    [["b", "a", "b"], [3, -1, 3], [True, False, True], [2.0, -1.0, 2.0], ["é", "日本", "é"], ["10", "9", "10"]],
)
def test_labels_from_anything(vector, values):
    y = vector(values)
    classes, codes = read_labels(y, 3)
    assert_fresh(codes, y, np.int64)
    assert classes.tolist() == sorted(set(values))
    assert classes[codes].tolist() == values
    assert classes.dtype.kind in {"str": "UO", "int": "i", "bool": "b", "float": "f"}[type(values[0]).__name__]
    np.testing.assert_array_equal(encode_labels(y, classes, 3), codes)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", ">i2", "i8", "u8", "f2", "f4", ">f8", "g", "U3", "O"])
def test_classes_are_those_of_np_unique(dtype):
    y = np.array([1, 0, 1, 1]).astype(dtype)
    classes, codes = read_labels(y, 4)
    expected, inverse = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, inverse)
    assert classes.dtype.isnative
    if dtype != "O":
        assert classes.dtype == expected.dtype.newbyteorder("=")


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(["b", "a"], dtype="category"),
        pd.Categorical(["b", "a"], categories=["b", "a", "unused"], ordered=True),
        pd.Series(["b", "a"], dtype="string"),
        pd.Series(["b", "a"], dtype=object),
        pd.Series(["b", "a"], dtype=pd.ArrowDtype(pa.string())),
        pl.Series(["b", "a"], dtype=pl.Categorical),
        pl.Series(["b", "a"], dtype=pl.Enum(["b", "a", "unused"])),
        pa.array(["b", "a"]).dictionary_encode(),
        pa.chunked_array([["b"], ["a"]]).dictionary_encode(),
        pa.array(["b", "a"], pa.large_string()),
        np.array(["b", "a"], np.dtypes.StringDType()),
        [np.str_("b"), "a"],
    ],
)
def test_labels_of_special_kinds(y):
    classes, codes = read_labels(y, 2)
    assert classes.tolist() == ["a", "b"]
    np.testing.assert_array_equal(codes, [1, 0])


@pytest.mark.parametrize(
    "y",
    [
        ["a", None, "b"],
        ["a", np.nan, "b"],
        np.array(["a", None, "b"], object),
        np.array(["a", np.nan, "b"], object),
        np.ma.array(["a", "?", "b"], mask=[0, 1, 0]),
        pd.Series(["a", None, "b"]),
        pd.Series(["a", None, "b"], dtype="category"),
        pd.Series(["a", None, "b"], dtype="string"),
        pl.Series(["a", None, "b"]),
        pl.Series(["a", None, "b"], dtype=pl.Categorical),
        pa.array(["a", None, "b"]),
        pa.array(["a", None, "b"]).dictionary_encode(),
        pa.chunked_array([["a", None, "b"]]).dictionary_encode(),
    ],
)
def test_missing_labels(y):
    with pytest.raises(InputError, match=r"^Input y contains NaN\."):
        read_labels(y, 3)
    with pytest.raises(InputError, match=r"^Input y contains NaN\."):
        encode_labels(y, np.array(["a", "b"]), 3)


def test_objects_of_one_kind_become_that_kind():
    for values, kind in (([1, 0, 2], "i"), ([True, False, True], "b"), ([1.0, 0.0, 2.0], "f"), ([1, 2.0, 3], "f")):
        classes, _ = read_labels(np.array(values, object), 3)
        assert classes.dtype.kind == kind
    classes, _ = read_labels(np.array([np.int8(1), 5], object), 2)
    assert classes.tolist() == [1, 5]


@pytest.mark.parametrize("y", [[1, "a"], np.array([1, "a"], object), np.array([True, "a"], object), [1.5, "a"]])
def test_mixed_labels(y):
    with pytest.raises(InputTypeError, match=r"y mixes labels of different types \(.*str\)"):
        read_labels(y, 2)


@pytest.mark.parametrize(
    "y",
    [
        [b"a", b"b"],
        np.array([b"a", b"b"]),
        np.array([{"a": 1}, {"b": 1}], object),
        np.array([Decimal(1), Decimal(2)], object),
        [2**70, 1],
        np.array([2**64 - 1, -1], object),
        np.zeros(2, "m8[s]"),
        np.zeros(2, [("a", "f8")]),
    ],
)
def test_unknown_labels_types(y):
    with pytest.raises(InputTypeError, match="Unknown label type: "):
        read_labels(y, 2)


@pytest.mark.parametrize("y", [[0.5, 1.0, 2.0], np.array([0.1, 0.2, 0.1], np.float32), pl.Series([0.5, 1.0, 2.0])])
def test_continuous_labels(y):
    with pytest.raises(InputError, match="Unknown label type: continuous"):
        read_labels(y, 3)


@pytest.mark.parametrize("y, label", [(["a", "a"], "'a'"), ([1.0, 1.0], "1.0"), ([True, True], "True"), ([7, 7], "7")])
def test_one_class(y, label):
    with pytest.raises(InputError, match=rf"one class only \({label}\); a classifier needs at least two classes"):
        read_labels(y, 2)
    with pytest.raises(InputError, match="one class"):
        read_labels(y[:1], 1)


def test_unknown_labels_are_named():
    with pytest.raises(InputError, match=r"not seen during fit: 'd', 'c'\. The known classes are 'a', 'b'\."):
        encode_labels(["a", "d", "c", "d"], np.array(["a", "b"]), 4)
    with pytest.raises(InputError, match=r"not seen during fit: 2, 7\. .* 0, 1"):
        encode_labels([0, 2, 7], np.array([0, 1]), 3)
    with pytest.raises(InputError, match=r"not seen during fit: 5, 6, 7, 8, 9 and 5 more\."):
        encode_labels(np.arange(15), np.arange(5), 15)
    with pytest.raises(InputError, match=r"not seen during fit: 0.5\."):
        encode_labels([0.5, 1.0], np.array([0, 1]), 2)
    with pytest.raises(InputError, match=r"not seen during fit: '0', '1'\."):
        encode_labels(["0", "1"], np.array([0, 1]), 2)
    with pytest.raises(InputError, match=r"not seen during fit: 0, 1\."):
        encode_labels([0, 1], np.array(["0", "1"], object), 2)
    with pytest.raises(InputError, match="inconsistent numbers of samples"):
        encode_labels([0, 1], np.array([0, 1]), 3)
    with pytest.raises(InputError, match="y is None"):
        encode_labels(None, np.array([0, 1]), 3)


def test_encoding_across_kinds():
    for y, classes in (
        ([0.0, 1.0], np.array([0, 1])),
        ([0, 1], np.array([0.0, 1.0])),
        (np.array([0, 1], np.uint8), np.array([0, 1])),
        ([False, True], np.array([0, 1])),
        (pd.Series(["a", "b"]), np.array(["a", "b"])),
        (np.array(["a", "b"]), np.array(["a", "b"], object)),
        (np.array(["a", "b"]), np.array(["a", "b", "longer"])),
    ):
        codes = encode_labels(y, classes, 2)
        assert codes.dtype == np.int64
        np.testing.assert_array_equal(codes, [0, 1])
    np.testing.assert_array_equal(encode_labels(["b"], np.array(["a", "b"]), 1), [1])  # one class is fine here


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3), min_size=2),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2),
        st.lists(st.integers(-3, 3).map(float), min_size=2),
        st.lists(st.booleans(), min_size=2),
    ).filter(lambda values: len(set(values)) > 1)
)
def test_labels_agree_with_np_unique(values):
    expected, inverse = np.unique(np.array(values), return_inverse=True)
    for y in (values, np.array(values), np.array(values, object), pd.Series(values), pl.Series(values)):
        classes, codes = read_labels(y, len(values))
        np.testing.assert_array_equal(classes, expected)
        np.testing.assert_array_equal(codes, inverse)
        np.testing.assert_array_equal(encode_labels(y, classes, len(values)), codes)


def test_text_labels_are_quick():
    y = np.array(["cat", "dog", "mouse"])[np.arange(200_000) % 3].astype(object)
    start = time.perf_counter()
    read_labels(y, len(y))
    assert time.perf_counter() - start < 1.0  # about 20 ms


# --------------------------------------------------------------------------------------------------------- weights


@every_vector
@pytest.mark.parametrize("values", [[1.5, 0.0, 1e300], [3, 0, 1], [1.0, 1.0, 1.0]])
def test_weights_from_anything(vector, values):
    weights = vector(values)
    out = read_weights(weights, 3)
    assert out is not None
    assert_fresh(out, weights, np.float64)
    np.testing.assert_array_equal(out, np.array(values, float))


def test_no_weights():
    assert read_weights(None, 3) is None


@pytest.mark.parametrize("weight", [2, 2.0, np.float32(2), np.array(2), Fraction(2)])
def test_one_weight_for_all(weight):
    np.testing.assert_array_equal(read_weights(weight, 3), [2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1, np.nan], r"^Input sample_weight contains NaN\. The first is in row 1"),
        ([1, None], r"^Input sample_weight contains NaN\."),
        (pd.Series([1, None], dtype="Int64"), r"^Input sample_weight contains NaN\."),
        (pl.Series([1, None]), r"^Input sample_weight contains NaN\."),
        ([1, np.inf], r"^Input sample_weight contains infinity"),
        ([1, -0.5], r"Negative values in data passed to `sample_weight`: the first is -0.5 in row 1"),
        (-1, r"Negative values in data"),
        (np.nan, r"contains NaN"),
        ([0, 0], r"(.*weight.*zero.*)|(.*zero.*weight.*)"),
        (0.0, r"(.*weight.*zero.*)|(.*zero.*weight.*)"),
        ([1, 1, 1], r"sample_weight.shape == \(3,\), expected \(2,\)"),
        ([], r"sample_weight.shape == \(0,\), expected \(2,\)"),
        (np.ones((2, 2)), r"must be 1D array or scalar, got 2D array"),
        (np.ones((2, 1)), r"must be 1D array or scalar, got 2D array"),
        (pd.DataFrame({"w": [1, 1]}), r"must be 1D array or scalar, got 2D array"),
        (["1", "2"], r"row 0 of sample_weight is '1'"),
        ("balanced", r"is 'balanced'"),
        ([1, 1j], r"Complex data not supported"),
        ({"a": 1}, r"must be .* number"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(InputError, match=message):
        read_weights(weights, 2)


# -------------------------------------------------------------------------------------------------- starting scores


def test_no_starting_score():
    assert read_init_score(None, 3, 2) is None


@every_vector
def test_starting_scores_of_one_output(vector):
    scores = vector([0.5, -1.0, 2.0])
    out = read_init_score(scores, 3, 1)
    assert_fresh(out, scores, np.float64)
    np.testing.assert_array_equal(out, [[0.5, -1.0, 2.0]])


@pytest.mark.parametrize(
    "scores",
    [
        np.array([[0.5, 1], [-1, 2], [2, 3]]),
        [[0.5, 1], [-1, 2], [2, 3]],
        pd.DataFrame({"a": [0.5, -1, 2], "b": [1, 2, 3]}),
        pl.DataFrame({"a": [0.5, -1.0, 2.0], "b": [1, 2, 3]}),
        pa.table({"a": [0.5, -1, 2], "b": [1, 2, 3]}),
    ],
)
def test_starting_scores_of_several_outputs(scores):
    out = read_init_score(scores, 3, 2)
    assert_fresh(out, scores, np.float64)
    np.testing.assert_array_equal(out, [[0.5, -1, 2], [1, 2, 3]])


def test_starting_scores_of_other_shapes():
    np.testing.assert_array_equal(read_init_score(np.array([[1], [2]]), 2, 1), [[1, 2]])
    np.testing.assert_array_equal(read_init_score(0.25, 2, 3), np.full((3, 2), 0.25))


@pytest.mark.parametrize(
    "scores, n_outputs, message",
    [
        ([1, 2, 3], 1, r"init_score has shape \(3,\)|init_score has shape \(3, 1\), expected \(2,\)"),
        ([1, 2], 2, r"init_score has shape \(2,\), expected \(2, 2\)"),
        (np.ones((2, 3)), 2, r"init_score has shape \(2, 3\), expected \(2, 2\)"),
        (np.ones((2, 2)), 1, r"init_score has shape \(2, 2\), expected \(2,\)"),
        (np.ones((2, 2, 2)), 2, r"init_score has shape"),
        ([1, np.nan], 1, r"Input init_score contains NaN. The first is in row 1"),
        ([[1, 2], [np.inf, 0]], 2, r"Input init_score contains infinity.* in row 1"),
        (["a", "b"], 1, r"init_score is 'a'"),
        ({"a": 1}, 1, r"must be .* number"),
    ],
)
def test_bad_starting_scores(scores, n_outputs, message):
    with pytest.raises(InputError, match=message):
        read_init_score(scores, 2, n_outputs)


# ----------------------------------------------------------------------------------------------- scikit-learn checks


class Reader(BaseEstimator):
    """A tree of scikit-learn behind our readers: any complaint of check_estimator about input is about them."""

    def _read(self, X, fitted=True):
        if fitted:
            check_is_fitted(self)
        like = self.schema_ if fitted else None
        return read_table(X, like=like, estimator_name=type(self).__name__)

    def _remember(self, table):
        self.schema_ = table.schema
        self.n_features_in_ = table.n_columns
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


class ReaderRegressor(RegressorMixin, Reader):
    def fit(self, X, y, sample_weight=None):
        table = self._read(X, fitted=False)
        y = read_target(y, table.n_rows)
        weights = read_weights(sample_weight, table.n_rows)
        self.tree_ = DecisionTreeRegressor(random_state=0).fit(table.to_matrix(), y, weights)
        self._remember(table)
        return self

    def predict(self, X):
        table = self._read(X)
        return self.tree_.predict(table.to_matrix())


class ReaderClassifier(ClassifierMixin, Reader):
    def fit(self, X, y, sample_weight=None):
        table = self._read(X, fitted=False)
        classes, codes = read_labels(y, table.n_rows)
        weights = read_weights(sample_weight, table.n_rows)
        self.tree_ = DecisionTreeClassifier(random_state=0).fit(table.to_matrix(), codes, weights)
        self.classes_ = classes
        self._remember(table)
        return self

    def predict(self, X):
        codes = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[codes]

    def predict_proba(self, X):
        table = self._read(X)
        return self.tree_.predict_proba(table.to_matrix())


@pytest.mark.parametrize("estimator", [ReaderRegressor(), ReaderClassifier()], ids=lambda e: type(e).__name__)
def test_scikit_learn_finds_no_fault(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # check_estimator itself provokes many on purpose
        results = check_estimator(estimator, on_fail=None)
    failed = {result["check_name"]: repr(result["exception"]) for result in results if result["status"] == "failed"}
    assert failed == {}


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 0, 0, 1]),
        np.array([3, -2, 7, -2]),
        np.array([-128, 127, 0, -128], np.int8),
        np.array([255, 0, 7], np.uint8),
        np.array([2**64 - 1, 2**64 - 3, 2**64 - 2], np.uint64),
        np.array([0, 2**64 - 1], np.uint64),
        np.array([-(2**63), 2**63 - 1, 5]),
        np.array([2**63 - 1, 2**63 - 2]),
        np.array([10, 11, 12, 11], np.int32),
        np.array([0, 70_000]),
    ],
    ids=str,
)
def test_whole_numbers_as_labels(values):
    """Counted or looked up, as np.unique has it; extreme ones too, where differences wrap around."""
    expected, inverse = np.unique(values, return_inverse=True)
    classes, codes = read_labels(values, len(values))
    assert classes.dtype == values.dtype
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, inverse)
    np.testing.assert_array_equal(encode_labels(values, classes, len(values)), inverse)
    for strange in (np.iinfo(values.dtype).min, np.iinfo(values.dtype).max, 1):
        if strange not in expected:
            with pytest.raises(InputError, match="not seen during fit"):
                encode_labels(np.append(values, np.array(strange, values.dtype)), classes, len(values) + 1)
