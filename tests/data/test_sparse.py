"""Sparse matrices as they come, and the bundles made of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import stagewise as sw
from stagewise.data import bundling, memory, sparse
from stagewise.data.table import read_table
from stagewise.errors import InputError, InputTypeError, ParameterError

FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
DENSE = np.array([[0.0, 2.0, 0.0, -1.0], [3.0, 0.0, 0.0, np.nan], [0.0, 0.0, 0.0, 5.0]])


def one_hot(n_rows: int, levels: list[int], seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    first = np.append(0, np.cumsum(levels))
    columns = np.column_stack([a + rng.integers(0, n, n_rows) for a, n in zip(first, levels, strict=False)]).ravel()
    start = np.arange(0, len(columns) + 1, len(levels))
    return sp.csr_array((np.ones(len(columns)), columns, start), shape=(n_rows, first[-1]))


@pytest.mark.parametrize("kind", ["matrix", "array"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_read(form, kind):
    X = getattr(sp, f"{form}_{kind}")(np.nan_to_num(DENSE))
    table = read_table(X)
    assert (table.n_rows, table.n_columns, table.names) == (3, 4, None)
    np.testing.assert_array_equal(table.to_matrix(), np.nan_to_num(DENSE))
    for entries, shape in ((table.entries.by_row(), (3, 4)), (table.entries.by_column(), (4, 3))):
        assert (entries.start.dtype, entries.place.dtype) == (np.int64, np.int32)
        assert len(entries.start) == shape[0] + 1
        assert not any(own.flags.writeable for own in entries)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int32, np.int64, np.float32, np.float64, np.longdouble])
def test_numbers_are_kept_as_dense_ones_are(dtype):
    X = np.array([[0, 1], [1, 0]], dtype)
    assert read_table(sp.csr_array(X)).to_matrix().dtype == read_table(X).to_matrix().dtype
    np.testing.assert_array_equal(read_table(sp.csr_array(X)).to_matrix(), read_table(X).to_matrix())


def test_duplicates_are_summed_in_a_copy_and_unsorted_places_sorted():
    data, places, start = np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])
    for own in (data, places, start):
        own.flags.writeable = False
    X = sp.csr_matrix((data, places, start), shape=(2, 3))
    table = read_table(X)
    np.testing.assert_array_equal(table.to_matrix(), [[2.0, 0.0, 5.0], [0.0, 8.0, 0.0]])
    np.testing.assert_array_equal(X.data, [1.0, 2.0, 4.0, 8.0])
    np.testing.assert_array_equal(X.indices, [2, 0, 2, 1])


def test_a_canonical_matrix_is_not_copied_and_never_written_to():
    X = one_hot(50, [4, 3])
    before = (X.data.copy(), X.indices.copy(), X.indptr.copy())
    assert np.shares_memory(read_table(X).entries.by_row().values, X.data)
    assert np.shares_memory(read_table(X.tocsc()).entries.matrix.data, X.tocsc().data) is False  # another copy of X
    model = sw.GradientBoostingRegressor(n_estimators=2, min_samples_leaf=2).fit(X, np.arange(50.0))
    model.predict(X)
    for own, kept in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(own, kept)
        assert own.flags.writeable


def test_indices_of_64_bits():
    X = one_hot(30, [5])
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    np.testing.assert_array_equal(read_table(X).to_matrix(), X.toarray())


def test_stored_zeros_are_zeros():
    X = sp.csr_array(DENSE)
    with_zeros = X.copy()
    with_zeros.data[0] = 0.0
    y = [1.0, 2.0, 3.0]
    other = sw.Dataset(with_zeros, y)
    plain = sw.Dataset(sp.csr_array(with_zeros.toarray()), y)
    assert [own.tolist() for own in other.cuts] == [own.tolist() for own in plain.cuts]
    np.testing.assert_array_equal(bundling.unbundled(other.bins).by_column, bundling.unbundled(plain.bins).by_column)


def test_broken_matrices_are_refused():
    X = one_hot(20, [5])
    X.indices[3] = 99
    with pytest.raises(InputError, match="broken sparse matrix"):
        read_table(X)
    X = one_hot(20, [5])
    X.indptr[4] = 19
    with pytest.raises(InputError, match="broken sparse matrix"):
        read_table(X)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing_to_read(shape):
    with pytest.raises(InputError, match="minimum of 1 is required"):
        read_table(sp.csr_array(shape))


def test_other_kinds_of_cells():
    with pytest.raises(InputError, match="Complex data not supported"):
        read_table(sp.csr_array(np.array([[1j, 0.0]])))
    with pytest.raises(InputError, match="2D"):
        read_table(sp.coo_array(np.array([1.0, 0.0])))
    with pytest.raises(InputTypeError, match="numbers only"):
        sw.GradientBoostingRegressor(categorical_features=[1]).fit(sp.csr_array(DENSE), [1.0, 2.0, 3.0])


def test_a_matrix_of_zeros():
    X = sp.csr_array((40, 6))
    model = sw.GradientBoostingRegressor(n_estimators=3, min_samples_leaf=1).fit(X, np.arange(40.0))
    np.testing.assert_allclose(model.predict(X), 19.5)


# --- bundles ---------------------------------------------------------------------------------------------------------


def test_the_columns_of_one_variable_share_a_column():
    data = sw.Dataset(one_hot(3000, [40, 300, 7]))
    assert len(data.bins.n_bins) == 4  # 40 and 7 levels, and 300 in 254 and 46
    assert repr(data) == "Dataset(3,000 rows × 347 columns in 4 bundles, 694 bins)"
    assert data.bins.by_column.shape == (4, 3000)


def test_bundling_does_not_need_neighbours():
    X = one_hot(2000, [30, 30, 30]).tocsc()[:, np.random.default_rng(0).permutation(90)]
    assert len(sw.Dataset(X).bins.n_bins) <= 9


def test_dense_one_hot_tables_become_narrow_and_others_stay():
    X = one_hot(1000, [12, 20]).toarray()
    assert len(sw.Dataset(X).bins.n_bins) == 2
    numbers = np.random.default_rng(0).normal(size=(1000, 8))
    data = sw.Dataset(np.hstack([X, numbers]))
    assert len(data.bins.n_bins) == 10
    np.testing.assert_array_equal(bundling.unbundled(data.bins).by_column[32:], sw.Dataset(numbers).bins.by_column)
    assert len(sw.Dataset(numbers).bins.bundles.kind) == 0
    assert repr(sw.Dataset(numbers)).startswith("Dataset(1,000 rows × 8 columns, ")


def test_conflicts_are_allowed_on_demand_and_only_where_they_save_a_column():
    X = one_hot(1000, [10, 10]).tolil()
    for row in range(0, 1000, 100):
        X[row, :10] = 1.0  # now and then a row has all levels of the first variable
    X = X.tocsr()
    exact, loose = sw.Dataset(X), sw.Dataset(X, max_conflict_rate=0.1)
    assert len(loose.bins.n_bins) == 2 < len(exact.bins.n_bins)
    np.testing.assert_array_equal(bundling.unbundled(exact.bins).by_column, X.toarray().T)
    codes = bundling.unbundled(loose.bins).by_column
    differ = np.flatnonzero((codes != X.toarray().T).any(axis=0))
    np.testing.assert_array_equal(differ, np.arange(0, 1000, 100))
    assert (codes[:10, differ].argmax(axis=0) == 0).all()  # the lowest number stands
    assert repr(sw.Dataset(one_hot(100, [5]), max_conflict_rate=0.5)) == repr(sw.Dataset(one_hot(100, [5])))


@pytest.mark.parametrize("rate", [-0.1, 1.0, "much"])
def test_bad_conflict_rates(rate):
    with pytest.raises(ParameterError, match="max_conflict_rate"):
        sw.Dataset(DENSE, max_conflict_rate=rate)


def test_bad_zeros():
    with pytest.raises(ParameterError, match="'values', 'missing'"):
        sw.Dataset(DENSE, zeros="none")


# --- room ------------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(memory, "_SMALL", 1)
    monkeypatch.setattr(memory, "free_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"The bin codes of X, 3,000 rows in 2 bundles, would take 0.0 GiB"):
        sw.Dataset(one_hot(3000, [40, 30]))
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    sw.Dataset(one_hot(3000, [40, 30]))


def test_free_memory_is_known_or_not():
    free = memory.free_bytes()
    assert free is None or free > 0


def test_a_dense_copy_is_made_only_of_what_is_small(monkeypatch):
    X, y = one_hot(200, [5, 5]), np.arange(200.0)
    model = sw.GradientBoostingRegressor(n_estimators=3).fit(X, y)
    wanted = sw.inspection.shap_values(model, X.toarray()).values
    np.testing.assert_array_equal(sw.inspection.shap_values(model, X).values, wanted)
    monkeypatch.setattr(sparse, "_DENSE_BYTES", 1000)
    with pytest.raises(InputError, match=r"200 × 10 cells; pass fewer rows of the sparse matrix \(up to 12\)"):
        sw.inspection.shap_values(model, X)
    model.predict(X)


def test_sparse_columns_of_a_frame_are_told_what_to_do():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_array(np.nan_to_num(DENSE)))
    with pytest.raises(InputError, match=r"to_coo\(\).tocsr\(\)"):
        read_table(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(read_table(frame.sparse.to_coo().tocsr()).to_matrix(), np.nan_to_num(DENSE))
