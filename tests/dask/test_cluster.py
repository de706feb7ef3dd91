"""Real worker processes on this machine: the saved model is that of one process, byte for byte."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

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
    pytest.mark.filterwarnings("default"),  # Dask's own: ports, large graphs, tornado
]

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
from distributed import Client, Security, Status  # noqa: E402

from fleets import N_ROWS, cluster, kill, lazy, local, remote  # noqa: E402
from stagewise.dask.partitions import merged, sample_edge  # noqa: E402


@pytest.fixture(scope="module")
def client():
    with cluster(2) as own, Client(own) as client:
        yield client


CASES = {
    "squared error": ("real", {}),
    "absolute error": ("real", {"loss": "absolute_error"}),
    "huber": ("heavy", {"loss": "huber"}),
    "two classes": ("two", {"subsample": 0.5, "influence_trimming": 0.1}),
    "one-sided": ("three", {"sampling": "goss", "learning_rate": 0.5}),
    "least variance": ("heavy", {"sampling": "mvs", "subsample": 0.3, "loss": "huber"}),
    "three classes": ("three", {"class_weight": "balanced", "early_stopping": True}),
    "the diagonal": ("three", {"multiclass_curvature": "diagonal"}),
}


@pytest.mark.parametrize("weights", [None, "zeros"])
@pytest.mark.parametrize("name", CASES)
def test_the_saved_model_is_that_of_one_machine(client, tmp_path, name, weights):
    kind, params = CASES[name]
    X = make_table(N_ROWS, missing=True)
    y, weight = make_y(X, kind), make_weight(N_ROWS, weights)
    one = local(kind, **params).fit(X, y, weight)
    many = remote(local(kind, **params)).fit(lazy(X), lazy(y), lazy(weight))
    assert difference(one, many) == ""
    sw.save(one, tmp_path / "one")
    sw.save(many, tmp_path / "many")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()


def test_frames_with_names_and_lazy_predictions(client):
    import pandas as pd

    X = pd.DataFrame(make_table(N_ROWS, missing=True), columns=list("abcdef"))
    X["y"] = np.where(make_y(X.to_numpy(), "two"), "yes", "no")
    frame = dd.from_pandas(X, npartitions=3)
    est = local("two")
    one = clone(est).fit(X.drop(columns="y"), X["y"])
    many = remote(est).fit(frame, "y")
    assert difference(one, many) == ""
    assert many.classes_.tolist() == ["no", "yes"]
    features = frame.drop(columns="y")
    assert (many.predict(features).compute().to_numpy() == one.predict(X.drop(columns="y"))).all()
    np.testing.assert_array_equal(many.predict_proba(features).compute(), one.predict_proba(X.drop(columns="y")))
    pieces = [frame.partitions[k].to_delayed()[0] for k in range(3)]
    assert difference(one, remote(est).fit(pieces, "y")) == ""
    block = many.predict_proba(da.from_array(X.drop(columns="y").to_numpy(), chunks=(1000, 3)))
    assert block.shape == (N_ROWS, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an array has no names
        np.testing.assert_array_equal(block.compute(), one.predict_proba(X.drop(columns="y")))


def test_parquet_that_workers_read(client, tmp_path):
    import pandas as pd

    X = pd.DataFrame(make_table(N_ROWS), columns=list("abcdef"))
    X["y"], X["w"] = make_y(X.to_numpy(), "real"), make_weight(N_ROWS, "even")
    for k, part in enumerate((X[:1000], X[1000:1000], X[1000:])):
        part.to_parquet(tmp_path / f"part-{k}.parquet", row_group_size=700)
    many = remote(local("real")).fit(str(tmp_path / "*.parquet"), "y", "w")
    assert difference(local("real").fit(X.drop(columns=["y", "w"]), X["y"], X["w"]), many) == ""
    with pytest.raises(sw.InputError, match="no column 'z'"):
        remote(local("real")).fit(str(tmp_path / "*.parquet"), "z")
    with pytest.raises(sw.InputError, match="No file matches"):
        remote(local("real")).fit(str(tmp_path / "*.nothing"), "y")


def test_a_validation_set_scores_and_callbacks(client):
    X = make_table(N_ROWS)
    y, seen = make_y(X, "real"), []

    class Watch:
        def on_stage(self, stage):
            seen.append((stage.number, stage.train))

    est = local("real", early_stopping=True)
    more = {"eval_set": (X[:500], y[:500])}
    one = clone(est).fit(X, y, init_score=X[:, 0], **more)
    many = remote(est).set_params(callbacks=[Watch()])
    many.fit(lazy(X), lazy(y), init_score=lazy(X[:, 0].copy()), **more)
    assert difference(one, many) == ""
    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][1] == one.history_.train[len(seen) - 1]


def test_a_sample_decides_the_cuts(client, monkeypatch):
    """More rows than the sample has: the same rows are in it, and rare values of a column with few keep their bins."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(210_000, 2)).astype(np.float32)
    X[:, 1] = np.where(np.arange(len(X)) % 50_000 == 7, 9.0, np.round(X[:, 1]))
    y = X[:, 0] + X[:, 1] + rng.normal(size=len(X))
    est = local("real", n_estimators=2)
    chunks = (100_000, 70_000, 40_000)
    many = remote(est).fit(da.from_array(X, chunks=(chunks, 2)), da.from_array(y, chunks=(chunks,)))
    assert difference(clone(est).fit(X, y), many) == ""


def test_a_fleet_of_one_and_what_is_refused(client):
    X = make_table(500)
    y = make_y(X, "real")
    est = local("real")
    assert difference(clone(est).fit(X, y), remote(est).fit(da.from_array(X, chunks=(500, 6)), da.from_array(y))) == ""
    with pytest.raises(sw.ParameterError, match="warm_start"):
        remote(est).set_params(warm_start=True).fit(da.from_array(X), da.from_array(y))
    with pytest.raises(sw.InputError, match="inconsistent numbers of samples"):
        remote(est).fit(da.from_array(X), da.from_array(y[:-1]))
    with pytest.raises(sw.InputError, match="contains NaN"):
        remote(est).fit(da.from_array(X), da.from_array(np.where(np.arange(500) == 3, np.nan, y)))
    with pytest.raises(sw.InputError, match="one class only"):
        remote(local("two")).fit(da.from_array(X), da.zeros(500, dtype=int))
    with pytest.raises(sw.InputError, match="all weights are zero"):
        remote(est).fit(da.from_array(X), da.from_array(y), da.zeros(500))


def test_a_killed_worker_does_not_change_the_model():
    X = make_table(N_ROWS)
    y, est = make_y(X, "real"), local("real", n_estimators=60, subsample=0.7)
    one = clone(est).fit(X, y)

    class Killer:
        def on_stage(self, stage):
            if stage.number == 20:
                kill(own, random.Random(0))

    with cluster(2) as own, Client(own):
        many = remote(est).set_params(callbacks=[Killer()]).fit(lazy(X), lazy(y))
        assert many.cluster_["generations"] >= 2
    assert difference(one, many) == ""


def test_samples_do_not_depend_on_partitions():
    assert sample_edge(200_000) is None
    values, sums = merged(np.array([1.0, np.nan, -0.0, 0.0, np.nan]), np.array([1, 2, 3, 4, 5]))
    assert values[:2].tolist() == [0.0, 1.0]
    assert sums.tolist() == [7, 1, 7]


# --- slow ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [3, 4])
def test_more_workers(n_workers):
    X = make_table(N_ROWS, missing=True)
    with cluster(n_workers) as own, Client(own):
        for name in CASES:
            kind, params = CASES[name]
            y, weight = make_y(X, kind), make_weight(N_ROWS, "uneven")
            one = local(kind, **params).fit(X, y, weight)
            assert difference(one, remote(local(kind, **params)).fit(lazy(X), lazy(y), lazy(weight))) == "", name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("STAGEWISE_CHAOS", "12"))))  # 50 runs take seven minutes
def test_chaos(seed):
    """Workers are killed at random moments, restarted or not: the same bytes, or a clear error when none is left."""
    rng = random.Random(seed)
    restart = seed % 2 == 0
    X = make_table(N_ROWS, missing=True)
    y, est = make_y(X, "real"), local("real", n_estimators=60, early_stopping=True, n_iter_no_change=99, subsample=0.7)
    one = clone(est).fit(X, y)
    moments = sorted(rng.uniform(0.0, 4.0) for _ in range(rng.choice((1, 2) if restart else (1, 2, 3))))
    over = threading.Event()
    with cluster(3) as own, Client(own):
        if not restart:
            for nanny in own.workers.values():
                nanny.status = Status.closing_gracefully  # a nanny that lets its worker go

        def killer() -> None:
            began = time.monotonic()
            for moment in moments:
                if over.wait(max(0.0, began + moment - time.monotonic())):
                    return
                kill(own, rng)

        thread = threading.Thread(target=killer, daemon=True)
        thread.start()
        began = time.monotonic()
        try:
            assert difference(one, remote(est).fit(lazy(X), lazy(y))) == ""
        except sw.ClusterError as error:
            if restart or len(moments) < 3:
                raise AssertionError("a worker was left") from error
        finally:
            assert time.monotonic() - began < 120.0
            over.set()
            thread.join()


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_an_error(tmp_path):
    file = str(tmp_path / "scheduler.json")
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    join = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    scheduler = subprocess.Popen([*start, "--scheduler-file", file], stderr=subprocess.DEVNULL)
    worker = subprocess.Popen([*join, "--scheduler-file", file], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30.0
        while not Path(file).exists() and time.monotonic() < until:
            time.sleep(0.1)
        with Client(scheduler_file=file, timeout=30) as client:
            client.wait_for_workers(1, timeout=30)
            X = make_table(N_ROWS)

            class Killer:
                def on_stage(self, stage):
                    if stage.number == 5:
                        scheduler.kill()

            began = time.monotonic()
            est = remote(local("real", n_estimators=5_000)).set_params(callbacks=[Killer()])
            with pytest.raises(sw.ClusterError, match="scheduler"):
                est.fit(lazy(X), lazy(make_y(X, "real")))
            assert time.monotonic() - began < 100.0
    finally:
        scheduler.kill()
        worker.kill()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate")
def test_lines_are_encrypted_where_the_cluster_is(tmp_path):
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "1",
         "-subj", "/CN=localhost"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    files = {f"tls_{role}_{what}": own for role in ("scheduler", "worker", "client") for what, own in
             (("cert", cert), ("key", key))}  # fmt: skip
    security = Security(require_encryption=True, tls_ca_file=cert, **files)
    X = make_table(N_ROWS)
    y, est = make_y(X, "real"), local("real")
    with cluster(2, security=security, protocol="tls://") as own, Client(own, security=security):
        many = remote(est).fit(lazy(X), lazy(y))
    assert difference(clone(est).fit(X, y), many) == ""
    assert many.cluster_["lines"] == "direct"


@pytest.mark.parametrize("growth", ["leafwise", "symmetric"])
@pytest.mark.parametrize("kind", ["real", "three"])
def test_categories_are_those_of_all_partitions(client, tmp_path, kind, growth):
    """Levels that some partitions lack, a column of more levels than codes, missing ones, weights of zero."""
    import pandas as pd

    rng = np.random.default_rng(3)
    X = pd.DataFrame(make_table(N_ROWS, missing=True), columns=list("abcdef"))
    y, weight = make_y(X.to_numpy(), kind), make_weight(N_ROWS, "zeros")
    X["town"] = np.where(
        rng.random(N_ROWS) < 0.1, None, [f"t{k}" for k in rng.integers(0, 12, N_ROWS) + X.index // 500]
    )
    X["crowd"] = [f"c{k}" for k in rng.integers(0, 400, N_ROWS)]
    if kind == "real":
        y = y + 10.0 * np.array([ord(str(town)[-1]) % 3 == 0 for town in X["town"]])
    est = local(kind, growth=growth, category_encoding="sets", max_bins=8)
    one = clone(est).fit(X, y, weight)
    frame = dd.from_pandas(X.assign(y=y, w=weight), npartitions=3)
    many = remote(est).fit(frame, "y", "w")
    sw.save(one, tmp_path / "one")
    sw.save(many, tmp_path / "many")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()
    assert any(len(tree.sets) for stage in many.model_.stages for tree in stage)
    if kind == "real":  # target statistics: see test_crowds.py
        est = est.set_params(category_encoding="auto")
        assert difference(clone(est).fit(X, y, weight), remote(est).fit(frame, "y", "w")) == ""
