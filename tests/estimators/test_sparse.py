"""Sparse input: the same models as from the dense matrix, byte for byte, and the same predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import stagewise as sw
from stagewise.data import binning, bundling
from stagewise.errors import InputError, ParameterError
from stagewise.io.format import dumps

GROWTH = ("leafwise", "levelwise", "symmetric")


def table(seed: int, n_rows: int = 300, missing: float = 0.03) -> sp.csr_array:
    """One-hot variables, counts, sparse numbers of both signs, a dense column; some values missing."""
    rng = np.random.default_rng(seed)
    hot = [
        sp.csr_array((np.ones(n_rows), (np.arange(n_rows), rng.integers(0, k, n_rows))), shape=(n_rows, k))
        for k in (3, 17, 40)
    ]
    counts = sp.random_array((n_rows, 8), density=0.1, rng=rng, data_sampler=lambda size: rng.poisson(1.0, size) + 1.0)
    signed = sp.random_array((n_rows, 6), density=0.2, rng=rng, data_sampler=lambda size: rng.normal(size=size))
    X = sp.hstack([*hot, counts, signed, sp.csr_array(rng.normal(size=(n_rows, 1)))]).tocsr()
    X.data[rng.random(X.nnz) < missing] = np.nan
    return sp.csr_array(X[:, rng.permutation(X.shape[1])])


def target(X: sp.csr_array, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.nan_to_num(X.toarray()) @ rng.normal(size=X.shape[1]) + 0.3 * rng.normal(size=X.shape[0])


def file_of(model: Any, path: Any) -> bytes:
    model.set_params(n_jobs=1)
    sw.save(model, path)
    return path.read_bytes()


@pytest.fixture
def many_threads(monkeypatch):
    """Threads for small tables too."""
    monkeypatch.setattr("stagewise.backends.pace._WORK_A_THREAD", 1)


def unbundled_file(monkeypatch: Any, fit: Any, path: Any) -> bytes:
    """The model of a dense table of which nothing is bundled."""
    with monkeypatch.context() as patched:
        patched.setattr(bundling, "_USUAL", 2.0)
        return file_of(fit(), path)


@pytest.mark.parametrize("growth", GROWTH)
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_the_model_file_is_that_of_the_dense_matrix(growth, n_jobs, many_threads, monkeypatch, tmp_path):
    path = tmp_path / "model.stagewise"
    options: list[dict[str, Any]] = [
        {},
        {"max_features": 0.5, "max_features_tree": 0.6, "subsample": 0.6},
        {"l1_regularization": 0.5, "l2_regularization": 1.0, "max_bins": 5, "min_samples_leaf": 1},
    ]
    for seed, option in enumerate(options):
        X = table(seed) if seed != 1 else table(seed).astype(np.float32)
        D, y = X.toarray(), target(X, seed)
        weight = np.random.default_rng(seed).integers(0, 3, len(y)) * 1.0 if seed == 2 else None
        model = sw.GradientBoostingRegressor(
            n_estimators=4, growth=growth, n_jobs=n_jobs, **{"min_samples_leaf": 5, **option}
        )
        wanted = unbundled_file(monkeypatch, lambda m=model, D=D, y=y, w=weight: m.fit(D, y, w), path)
        assert len(sw.Dataset(D).bins.n_bins) < X.shape[1]
        for own in (X, X.tocsc(), D):
            model.set_params(n_jobs=n_jobs)
            assert file_of(model.fit(own, y, weight), path) == wanted


def test_cut_points_of_a_sample_of_the_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(binning.sample_rows, "__defaults__", (100,))
    X = table(3)
    y, weight = target(X, 3), np.random.default_rng(3).integers(0, 3, 300) * 1.0
    for own_weight in (None, weight):
        files = [
            file_of(sw.GradientBoostingRegressor(n_estimators=3).fit(own, y, own_weight), tmp_path / "m")
            for own in (X, X.toarray())
        ]
        assert files[0] == files[1]


def fitted(kind: str, X: Any, y: np.ndarray, **more: Any) -> Any:
    if kind == "regressor":
        return sw.GradientBoostingRegressor(n_estimators=8, min_samples_leaf=5).fit(X, y, **more)
    labels = np.digitize(y, np.quantile(y, [0.5] if kind == "binary" else [0.3, 0.7]))
    if "eval_set" in more:
        more["eval_set"] = (more["eval_set"][0], labels[:100])
    return sw.GradientBoostingClassifier(n_estimators=8, min_samples_leaf=5).fit(X, labels, **more)


@pytest.mark.parametrize("kind", ["regressor", "binary", "classes"])
def test_everything_that_takes_a_table_takes_a_sparse_one(kind):
    X = table(4)
    D, y = X.toarray(), target(X, 4)
    a, b = fitted(kind, X, y, eval_set=(X[:100], y[:100])), fitted(kind, D, y, eval_set=(D[:100], y[:100]))
    assert a.history_.validation.tolist() == b.history_.validation.tolist()
    for own in (X, X.tocsc(), X.tocoo(), sp.csr_matrix(X), D):
        np.testing.assert_array_equal(a.predict(own), b.predict(D))
    np.testing.assert_array_equal(a.apply(X), b.apply(D))
    for got, wanted in zip(a.staged_predict(X), b.staged_predict(D), strict=True):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(a.predict(X[:1]), b.predict(D[:1]))
    if kind != "regressor":
        np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(D))
        return
    np.testing.assert_array_equal(a.refit(X[:200], y[:200]).predict(X), b.refit(D[:200], y[:200]).predict(D))
    more = [own.set_params(warm_start=True, n_estimators=12).fit(data, y) for own, data in ((a, X), (b, D))]
    np.testing.assert_array_equal(more[0].predict(X), more[1].predict(D))
    early = [
        sw.GradientBoostingRegressor(early_stopping=True, n_estimators=60, min_samples_leaf=2).fit(own, y).n_estimators_
        for own in (X, D)
    ]
    assert early[0] == early[1]


def test_rows_of_a_validation_set_may_meet_where_those_of_training_do_not():
    """Two exclusive columns, both set in the validation set: its bundles are its own."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, 200)
    X = sp.csr_array(np.eye(3)[level])
    y = np.array([0.0, 5.0, 9.0])[level]
    both = sp.csr_array(np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]] * 10))
    model = sw.GradientBoostingRegressor(n_estimators=5).fit(X, y, eval_set=(both, np.zeros(30)))
    assert model.history_.validation[-1] == pytest.approx(np.mean(model.predict(both.toarray()) ** 2))


@pytest.mark.parametrize("estimator", [sw.AdaBoostClassifier, sw.LogitBoostClassifier, sw.GentleBoostClassifier])
def test_the_family(estimator):
    X = table(5)
    labels = (target(X, 5) > 0.0).astype(int)
    a, b = (estimator(n_estimators=5).fit(own, labels) for own in (X, X.toarray()))
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X.toarray()))


def test_learners_that_work_on_values():
    X = table(6, missing=0.0)
    y = target(X, 6)
    a, b = (sw.ComponentwiseRegressor(n_estimators=5).fit(own, y) for own in (X, X.toarray()))
    np.testing.assert_array_equal(a.predict(X), b.predict(X.toarray()))


# --- zeros that are missing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("growth", GROWTH)
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_zeros_as_missing_values(growth, n_jobs, many_threads, tmp_path):
    X = table(7)
    D, y = X.toarray(), target(X, 7)
    X.data[:5] = 0.0  # stored zeros are missing too
    D = X.toarray()
    holes = np.where(D == 0.0, np.nan, D)
    model = sw.GradientBoostingRegressor(n_estimators=5, growth=growth, n_jobs=n_jobs, min_samples_leaf=5)
    plain = model.fit(sw.Dataset(holes, y)).predict(holes)
    for own in (X, D):
        data = sw.Dataset(own, y, zeros="missing")
        model.fit(data)
        for rows in (X, X.tocsc(), D, holes):
            np.testing.assert_array_equal(model.predict(rows), plain)
        sw.save(model, tmp_path / "m")
        np.testing.assert_array_equal(sw.load(tmp_path / "m").predict(X), plain)
    assert len(sw.Dataset(X, zeros="missing").bins.n_bins) < X.shape[1]


def test_a_bundled_dataset_on_disk(tmp_path):
    X = table(8)
    y = target(X, 8)
    data = sw.Dataset(X, y, zeros="missing")
    data.save(tmp_path / "d")
    again = sw.Dataset.load(tmp_path / "d")
    models = [sw.GradientBoostingRegressor(n_estimators=4).fit(own) for own in (data, again)]
    assert file_of(models[0], tmp_path / "a") == file_of(models[1], tmp_path / "b")
    np.testing.assert_array_equal(models[1].predict(again), models[0].predict(X))


def test_sparse_batches(tmp_path):
    X = table(10)
    y = target(X, 10)
    data = sw.Dataset.from_batches([(X[:100], y[:100]), (X[100:], y[100:])])
    models = [sw.GradientBoostingRegressor(n_estimators=4).fit(own) for own in (data, sw.Dataset(X, y))]
    assert file_of(models[0], tmp_path / "a") == file_of(models[1], tmp_path / "b")


def test_rows_of_a_bundled_dataset(tmp_path):
    X = table(11)
    y, rows = target(X, 11), np.random.default_rng(11).permutation(300)[:200]
    models = [
        sw.GradientBoostingRegressor(n_estimators=4).fit(sw.Dataset(own, y).subset(rows)) for own in (X, X.toarray())
    ]
    assert file_of(models[0], tmp_path / "a") == file_of(models[1], tmp_path / "b")
    np.testing.assert_array_equal(models[0].predict(sw.Dataset(X, y)), models[0].predict(X))


def test_the_width_must_fit():
    X = table(9)
    model = sw.GradientBoostingRegressor(n_estimators=2).fit(X, target(X, 9))
    with pytest.raises(InputError, match=r"74 features.*expecting 75 features"):
        model.predict(X[:, :-1])


def test_zeros_mean_the_same_wherever_a_model_goes():
    rng = np.random.default_rng(6)
    X = rng.integers(0, 4, (300, 3)).astype(float)
    y = np.where(X[:, 0] == 0.0, 5.0, X[:, 0]) + 0.1 * rng.normal(size=300)
    data, values = sw.Dataset(X, y, zeros="missing"), sw.Dataset(X, y)
    first = sw.GradientBoostingRegressor(n_estimators=3).fit(data)
    both = dumps(sw.GradientBoostingRegressor(n_estimators=3).fit(data, init_model=first))
    for own in (X, sp.csr_array(X)):
        assert dumps(sw.GradientBoostingRegressor(n_estimators=3).fit(own, y, init_model=first)) == both
    with pytest.raises(InputError, match='zeros are missing for the model, but the Dataset was made with zeros="val'):
        first.predict(values)
    with pytest.raises(InputError, match="zeros are missing for the model"):
        sw.GradientBoostingRegressor().fit(values, init_model=first)
    with pytest.raises(ParameterError, match="contradicts like"):
        sw.Dataset(X, like=values, zeros="missing")
    with pytest.raises(InputError, match="zeros are values for the training data"):
        sw.GradientBoostingRegressor().fit(values, eval_set=data)
