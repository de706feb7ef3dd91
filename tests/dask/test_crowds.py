"""Ordered target statistics of tables in partitions: the numbers of one machine, whoever holds the rows."""

from __future__ import annotations

import random
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

import stagewise as sw
from estimators.fingerprint import difference
from estimators.test_exactness import make_table, make_weight, make_y
from stagewise.kernels.jit import JIT

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.skipif(not JIT, reason="workers compile"),
    pytest.mark.filterwarnings("default"),
]

from distributed import Client  # noqa: E402

import dask  # noqa: E402
from fleets import CHUNKS, N_ROWS, cluster, kill, local, remote  # noqa: E402


def crowded(kind: str, weights: str | None) -> tuple[object, np.ndarray, np.ndarray | None]:
    """A frame with few levels, with many, with numbers as levels; some are missing."""
    import pandas as pd

    rng = np.random.default_rng(3)
    X = pd.DataFrame(make_table(N_ROWS, missing=True), columns=list("abcdef"))
    y = make_y(X.to_numpy(), kind)
    X["a"] = X["a"].astype(np.float32)
    X["town"] = np.where(rng.random(N_ROWS) < 0.1, None, [f"t{k % 17}" for k in rng.integers(0, 40, N_ROWS)])
    X["street"] = [f"s{k}" for k in rng.integers(0, 700, N_ROWS)]
    X["post"] = pd.Categorical(np.where(rng.random(N_ROWS) < 0.3, np.nan, rng.integers(0, 300, N_ROWS)))
    if kind == "real":
        y = y + 3.0 * np.array([int(street[1:]) % 5 for street in X["street"]])
    return X, y, make_weight(N_ROWS, weights)


def pieces(own: object, chunks: tuple[int, ...] = CHUNKS) -> list[object]:
    """Uneven partitions, one of them empty."""
    if own is None:
        return None
    ends = np.cumsum((0, *chunks)).tolist()
    return [dask.delayed(own[a:b], pure=False) for a, b in pairwise(ends)]


def same_file(one: object, many: object, folder: object) -> None:
    assert difference(one, many) == ""
    sw.save(one, folder / "one")
    sw.save(many, folder / "many")
    assert (folder / "one").read_bytes() == (folder / "many").read_bytes()


@pytest.fixture(scope="module")
def client():
    with cluster(2) as own, Client(own) as client:
        yield client


CASES = {
    "auto": ("real", None, {}),
    "all by target": ("real", "zeros", {"category_encoding": "target"}),
    "held out": ("real", "uneven", {"early_stopping": True, "max_bins": 16}),
    "held out in classes": ("two", "zeros", {"early_stopping": True, "class_weight": "balanced"}),
    "two classes": ("two", None, {"category_encoding": "target", "subsample": 0.5}),
    "medians": ("heavy", "even", {"loss": "huber"}),
    "three classes have sets": ("three", None, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_model_is_that_of_one_machine(client, tmp_path, name):
    kind, weights, params = CASES[name]
    X, y, weight = crowded(kind, weights)
    est = local(kind, **params)
    one = clone(est).fit(X, y, weight)
    many = remote(est).fit(pieces(X), pieces(y), pieces(weight))
    same_file(one, many, tmp_path)
    assert any(own is not None and own.by_target for own in many.model_.schema.levels) == (kind != "three")


@pytest.mark.parametrize("workers", [3, 4])
def test_more_workers(workers, tmp_path):
    X, y, weight = crowded("real", "uneven")
    est = local("real", early_stopping=True)
    with cluster(workers) as own, Client(own):
        many = remote(est).fit(pieces(X), pieces(y), pieces(weight))
    same_file(clone(est).fit(X, y, weight), many, tmp_path)


def test_a_validation_set_with_levels_that_were_not_seen_and_files(client, tmp_path):
    X, y, weight = crowded("real", "even")
    other = X[:500].assign(street=[f"s{k}" for k in range(400, 900)])
    est = local("real", early_stopping=True)
    one = clone(est).fit(X, y, weight, eval_set=(other, y[:500]))
    X["post"] = X["post"].astype(object)
    for k, (a, b) in enumerate(((0, 1_000), (1_000, 1_000), (1_000, N_ROWS))):
        X.assign(y=y, w=weight)[a:b].to_parquet(tmp_path / f"part-{k}.parquet", row_group_size=700)
    est = est.set_params(categorical_features=["town", "street", "post"])
    many = remote(est).fit(str(tmp_path / "*.parquet"), "y", "w", eval_set=(other, y[:500]))
    assert one.model_.schema.levels[7].values.tolist() == many.model_.schema.levels[7].values.tolist()
    np.testing.assert_array_equal(one.predict(other), many.predict(other))
    np.testing.assert_array_equal(one.history_.validation, many.history_.validation)


def test_what_is_refused(client):
    X, y, _ = crowded("three", None)
    with pytest.raises(sw.ParameterError, match="needs one output"):
        remote(local("three", category_encoding="target")).fit(pieces(X), pieces(y))
    few = {"early_stopping": True, "validation_fraction": 0.999}
    with pytest.raises(sw.InputError, match=r"row is left|empty training"):
        remote(local("real", **few)).fit(pieces(X[:300], (150, 150)), pieces(y[:300].astype(float), (150, 150)))


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 8))])
def test_a_worker_that_dies_on_the_way(seed, tmp_path):
    rng = random.Random(seed)
    X, y, weight = crowded("real", "uneven")
    est = local("real", early_stopping=True)
    with cluster(3) as own, Client(own):
        for _ in range(2):  # the first time workers import what they need
            began = time.monotonic()
            remote(est).fit(pieces(X), pieces(y), pieces(weight))
        timer = threading.Timer(rng.uniform(0.0, 0.8) * (time.monotonic() - began), kill, (own, rng))
        timer.start()
        many = remote(est).fit(pieces(X), pieces(y), pieces(weight))
        timer.join()
    same_file(clone(est).fit(X, y, weight), many, tmp_path)
