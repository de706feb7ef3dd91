"""Batches from an iterator, which are kept in files meanwhile: the same as from a list of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import stagewise as sw
from data.tables import assert_same
from stagewise.errors import InputError, InputTypeError

N = 200


def cells():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=N), rng.integers(0, 5, N)])


def kinds():
    """Parts (X, y) and (X, y, weight) of every kind, and options for them."""
    X = cells()
    y, text = X[:, 0] + X[:, 1], np.array(["no", "yes"], object)[(X[:, 0] > 0.0).astype(int)]
    frame = pd.DataFrame(X, columns=["a", "b"])
    shuffled = frame.set_axis(np.random.default_rng(1).permutation(N), axis=0)
    objects = np.column_stack([text, X[:, 0].astype(object)])
    objects[3, 0] = None
    return {
        "index of pandas": ((shuffled, pd.Series(y, shuffled.index)), {}),
        "pandas without names": ((pd.DataFrame(X), pd.Series(y)), {}),
        "masked": ((np.ma.MaskedArray(X, X > 1.0), y), {}),
        "no weights": ((X, y, None), {}),
        "text": ((X, text), {}),
        "NumPy's strings": ((X, text.astype(np.dtypes.StringDType())), {}),
        "categories": ((objects, y), {"categorical_features": [0]}),
        "sparse": ((sp.coo_array(X), y), {}),
        "lil": ((sp.lil_array(X), y), {}),
    }


@pytest.mark.parametrize("kind", list(kinds()))
def test_an_iterator_is_what_a_list_is(kind):
    parts, options = kinds()[kind]

    def pieces():
        for rows in (slice(0, 80), slice(80, N)):
            own = [part.tocsr()[rows].asformat(part.format) if sp.issparse(part) else part for part in parts]
            yield tuple(part if part is None or sp.issparse(part) else part[rows] for part in own)

    one, other = sw.Dataset.from_batches(pieces(), **options), sw.Dataset.from_batches(list(pieces()), **options)
    assert_same(one, other)
    assert one.n_columns == 2
    assert np.array_equal(np.asarray(one.y), np.asarray(other.y))
    whole = sw.Dataset(parts[0], parts[1], **options)
    for a, b in zip(one.cuts, whole.cuts, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_cannot_be_kept():
    X = cells()
    objects = X.astype(object)
    objects[0, 0] = object()
    with pytest.raises(InputTypeError, match="batch 1: ndarray cannot be kept on disk: "):
        sw.Dataset.from_batches(iter([(objects, X[:, 0])]))
    twice = pd.DataFrame(X, columns=["a", "a"])
    with pytest.raises(InputError, match="batch 2: X has duplicate column names: 'a'"):
        sw.Dataset.from_batches(iter([pd.DataFrame(X, columns=["a", "b"]), twice]))


def test_batches_without_rows():
    X = cells()
    frame, y = pd.DataFrame(X, columns=["a", "b"]), X[:, 0]
    for table in (X, frame, sp.csr_array(X), X.tolist()):
        pieces = [(table[:0], y[:0]), (table[:80], y[:80]), (table[80:80], y[:0]), (table[80:], y[80:])]
        for source in (pieces, iter(pieces)):
            assert sw.Dataset.from_batches(source).n_rows == N
    with pytest.raises(InputError, match="no batch has any rows"):
        sw.Dataset.from_batches([(X[:0], y[:0])])


def test_one_table_is_no_batches():
    X = cells()
    for table in (X, pd.DataFrame(X), pd.DataFrame(X, columns=["a", "b"])):
        with pytest.raises(InputTypeError, match="is one table; give batches: a list"):
            sw.Dataset.from_batches(table)


@pytest.mark.parametrize("options", [{"columns": ["a"]}, {"ignore": ["a"]}])
def test_names_of_columns_need_names(options):
    X = cells()
    for piece in (X, (X, X[:, 0]), (pd.DataFrame(X), X[:, 0])):
        with pytest.raises(InputTypeError, match=f"without names of columns, which {next(iter(options))}"):
            sw.Dataset.from_batches([piece], **options)
