"""Rows divided among members give the same model, byte for byte: members are threads here, workers in tests/dask."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

import stagewise.backends.sharded as sharded
import stagewise.estimators.base as base
from estimators.fingerprint import difference
from estimators.test_exactness import LogCosh, make_table, make_weight, make_y
from stagewise import ClusterError, GradientBoostingClassifier, GradientBoostingRegressor
from stagewise.boosting.loop import boost
from stagewise.boosting.shards import Runs, boost_in_shards
from stagewise.data.shard import Shard
from stagewise.kernels.jit import JIT
from stagewise.kernels.reducer import Circle

pytestmark = pytest.mark.skipif(not JIT, reason="members meet at barriers, and 6,000 rows need compiled kernels")
N_ROWS = 6_000

CASES = {
    "squared error": ("real", {}),
    "absolute error": ("real", {"loss": "absolute_error"}),
    "huber": ("heavy", {"loss": "huber"}),
    "quantile": ("real", {"loss": "quantile", "alpha": 0.3}),
    "poisson": ("count", {"loss": "poisson"}),
    "gamma": ("positive", {"loss": "gamma"}),
    "one's own": ("real", {"loss": LogCosh()}),
    "very unequal": ("heavy", {}),
    "two classes": ("two", {}),
    "three classes": ("three", {}),
    "the diagonal": ("three", {"multiclass_curvature": "diagonal"}),
    "exponential": ("two", {"loss": "exponential"}),
    "subsample": ("real", {"subsample": 0.3}),
    "trimming": ("two", {"influence_trimming": 0.1, "subsample": 0.5}),
    "levelwise": ("real", {"growth": "levelwise"}),
    "symmetric": ("two", {"growth": "symmetric", "max_depth": 5}),
    "columns of a split": ("real", {"max_features": 0.5}),
    "columns of a tree": ("real", {"max_features_tree": 0.5}),
    "all leaves": ("real", {"max_leaf_nodes": None}),
    "penalties": ("two", {"l1_regularization": 1.0, "l2_regularization": 2.0}),
    "gradients alone": ("two", {"criterion": "friedman_mse"}),
    "early stopping": ("real", {"early_stopping": True, "n_iter_no_change": 2, "learning_rate": 1.0}),
    "one-sided": ("real", {"sampling": "goss", "learning_rate": 0.5}),
    "one-sided, classes": ("three", {"sampling": "goss", "learning_rate": 0.5}),
    "one-sided medians": ("heavy", {"loss": "huber", "sampling": "goss", "learning_rate": 1.0}),
    "least variance": ("two", {"sampling": "mvs", "subsample": 0.3}),
    "least variance, symmetric": ("two", {"sampling": "mvs", "subsample": 0.3, "growth": "symmetric"}),
    "strata": ("three", {"early_stopping": True}),
}


def estimator(kind: str, params: dict) -> object:
    made = GradientBoostingClassifier if kind in ("two", "three") else GradientBoostingRegressor
    return made(**{"n_estimators": 4, **params})


def pieces(n_rows: int, members: int, seed: int = 0) -> list[Runs]:
    """Uneven runs of rows, handed round; some may be empty."""
    ends = np.sort(np.random.default_rng(seed).integers(0, n_rows + 1, 3 * members - 1))
    ends = [0, *ends.tolist(), n_rows]
    runs = list(pairwise(ends))
    return [runs[k::members] for k in range(members)]


@pytest.fixture
def in_shards(monkeypatch) -> Iterator[object]:
    """in_shards(k): from now on fits are divided among k members."""

    def divide(members: int, n_threads: int = 1) -> None:
        def divided(problem, method, params, callbacks, threads, checkpoints=None):
            return boost_in_shards(problem, method, params, callbacks, n_threads, pieces(len(problem.y), members))

        monkeypatch.setattr(base, "boost", divided if members else boost)

    return divide


def fit_both(in_shards, est, X, y, weight, members, n_threads=1, **more) -> str:
    in_shards(0)
    whole = clone(est).fit(X, y, weight, **more)
    in_shards(members, n_threads)
    return difference(whole, clone(est).fit(X, y, weight, **more))


@pytest.mark.parametrize("weights", [None, "zeros"])
@pytest.mark.parametrize("name", CASES)
def test_the_model_does_not_depend_on_who_holds_the_rows(in_shards, name, weights):
    kind, params = CASES[name]
    X = make_table(N_ROWS, missing=True)
    est = estimator(kind, params)
    members = 2 if weights is None else 3
    assert fit_both(in_shards, est, X, make_y(X, kind), make_weight(N_ROWS, weights), members) == ""


@pytest.mark.parametrize("small", [0, 1 << 40])
@pytest.mark.parametrize("kind", ["real", "two"])
def test_members_divide_the_columns_or_all_search_all(in_shards, monkeypatch, kind, small):
    """More members than columns; room for few histograms, so that some are built again."""
    monkeypatch.setattr(sharded, "_SMALL", small)
    X = make_table(N_ROWS, missing=True)
    assert fit_both(in_shards, estimator(kind, {}), X, make_y(X, kind), make_weight(N_ROWS, "uneven"), 8) == ""
    monkeypatch.setattr(sharded, "_POOL_BYTES", 1)
    monkeypatch.setattr(sharded, "_BATCH_BYTES", 1 << 17)
    assert fit_both(in_shards, estimator(kind, {}), X, make_y(X, kind), None, 3, n_threads=2) == ""


def test_a_validation_sample_is_divided_too(in_shards):
    X = make_table(N_ROWS)
    y, est = make_y(X, "real"), estimator("real", {"early_stopping": True})
    more = {"eval_set": (X[:501], y[:501], make_weight(501, "even")), "init_score": X[:, 0]}
    assert fit_both(in_shards, est, X, y, None, 3, **more) == ""


def test_small_tables(in_shards):
    X = make_table(30)
    for params in ({}, {"sampling": "goss", "learning_rate": 1.0}, {"sampling": "mvs", "subsample": 0.1}):
        est = estimator("real", {"min_samples_leaf": 2, **params})
        assert fit_both(in_shards, est, X, make_y(X, "real"), None, 4) == ""


def test_an_error_of_one_member_ends_all():
    circle = Circle(2, seconds=20.0)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            circle.members[0].sum(np.ones(3, np.int64))
        except ClusterError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    circle.leave()
    thread.join(timeout=20.0)
    assert len(caught) == 1
    assert "has failed" in str(caught[0])


def test_sums_and_peaks_of_a_circle():
    circle = Circle(3, seconds=20.0)
    got: list[object] = [None] * 3

    def member(rank: int) -> None:
        own = circle.members[rank]
        sums, peaks = own.total(np.array([[rank, 1]], np.int64), np.array([-float(rank)]))
        got[rank] = sums.tolist(), peaks.tolist(), own.count(2), own.largest(float(rank)), len(own.gather(sums[0]))

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20.0)
    assert got == [([[3, 3]], [0.0], 6, 2.0, 3)] * 3


def test_hashes_follow_the_numbers_of_rows():
    from stagewise.kernels.exact import stream_key
    from stagewise.kernels.reducer import ALONE

    key = stream_key(3)
    whole = Shard(ALONE, np.array([0]), np.array([100])).hashes(key)
    some = Shard(ALONE, np.array([40, 7]), np.array([10, 3])).hashes(key)
    np.testing.assert_array_equal(some, np.concatenate([whole[40:50], whole[7:10]]))


@pytest.mark.parametrize("target", [1.0, 2.5, 6.0, 11.0, 12.0])
def test_the_first_value_beyond_a_sum(target):
    from stagewise.kernels.reducer import ALONE

    values, weights = np.array([3.0, 0.5, 1e-300, 3.0, 7.0]), np.array([4, 2, 0, 4, 1])
    order = np.argsort(values, kind="stable")
    running = 1 + np.cumsum(weights[order])
    beyond = values[order][running > target]
    got = Shard(ALONE, np.array([0]), np.array([5])).first_beyond(values, weights, 1, target)
    assert got == (float(beyond[0]) if len(beyond) else None)
