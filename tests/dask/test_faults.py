"""What can happen to a fit on a cluster from outside: clients that leave, workers that freeze or join."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import clone

import stagewise as sw
from estimators.fingerprint import difference
from estimators.test_exactness import make_table, make_y
from stagewise.kernels.jit import JIT

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.skipif(not JIT, reason="workers compile"),
    pytest.mark.filterwarnings("default"),  # Dask's own: ports, large graphs, tornado
]

from distributed import Client, Status  # noqa: E402

import stagewise.dask.fleet as fleets_own  # noqa: E402
from fleets import N_ROWS, cluster, lazy, local, remote, worker_processes  # noqa: E402

LONG = 100_000
"""Stages that nobody will wait for."""


class At:
    """A callback that does something at a stage, once."""

    def __init__(self, number: int, do: Callable[[], None]) -> None:
        self.number, self.do = number, do

    def on_stage(self, stage: object) -> None:
        if stage.number >= self.number:
            self.number = LONG + 1
            self.do()


def within(seconds: float, true: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def end(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # Dask's nanny may have been faster
            os.kill(pid, signal.SIGKILL)


def busy(client: Client) -> bool:
    """Whether a worker still trains."""

    def trains(dask_worker: object) -> bool:
        return any(
            str(own.key).startswith("stagewise-train") and own.state in ("executing", "long-running", "cancelled")
            for own in dask_worker.state.tasks.values()
        )

    return any(client.run(trains).values())


def table() -> tuple[np.ndarray, np.ndarray]:
    X = make_table(N_ROWS)
    return X, make_y(X, "real")


@pytest.fixture(scope="module")
def own():
    with cluster(2) as made:
        yield made


SCRIPT = textwrap.dedent("""
    import sys
    import warnings

    import dask.array as da
    import numpy as np
    from distributed import Client

    import stagewise.dask as sd

    class Watch:
        def on_stage(self, stage):
            if stage.number == 3:
                print("third", flush=True)

    if __name__ == "__main__":
        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).normal(size=(2000, 3))
        with Client(sys.argv[1]):
            model = sd.GradientBoostingRegressor(n_estimators=100_000, callbacks=[Watch()])
            model.fit(da.from_array(X, chunks=(700, 3)), da.from_array(X[:, 0].copy(), chunks=700))
        print(3 <= len(model.model_.stages) < 100_000, len(model.predict(X)), flush=True)
""")


@pytest.fixture
def other_client(own, tmp_path):
    """A client in a process of its own that has trained three stages of very many."""
    (tmp_path / "client.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "client.py"), own.scheduler_address], stdout=subprocess.PIPE, text=True
    )
    watchdog = threading.Timer(100.0, process.kill)
    watchdog.start()
    try:
        assert process.stdout.readline() == "third\n"
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate(timeout=20.0)


def test_ctrl_c_leaves_a_model_and_free_workers(own, other_client):
    other_client.send_signal(signal.SIGINT)
    said, _ = other_client.communicate(timeout=60.0)
    assert said == "True 2000\n"
    assert other_client.returncode == 0
    with Client(own) as client:
        assert within(20.0, lambda: not busy(client))


def test_a_client_that_is_killed_frees_the_workers(own, other_client):
    with Client(own) as client:
        assert busy(client)
        other_client.kill()
        assert within(30.0, lambda: not busy(client))
        X, y = table()
        assert difference(local("real").fit(X, y), remote(local("real")).fit(lazy(X), lazy(y), client=client)) == ""


def test_a_client_that_is_closed_meanwhile_is_an_error(own):
    X, y = table()
    mine = Client(own)
    began = time.monotonic()
    est = remote(local("real", n_estimators=LONG)).set_params(callbacks=[At(3, mine.close)])
    with pytest.raises(sw.ClusterError, match="connect a new Client"):
        est.fit(lazy(X), lazy(y), client=mine)
    assert time.monotonic() - began < 60.0
    with Client(own) as client:
        assert within(30.0, lambda: not busy(client))


@pytest.mark.slow
def test_a_worker_that_joins_takes_over():
    """The second worker joins at stage 5; the first one dies at stage 30, and does not come back."""
    X, y = table()
    est = local("real", n_estimators=60, subsample=0.7)
    with cluster(1) as own, Client(own) as client:
        (first,) = worker_processes(own)

        def leave() -> None:
            client.wait_for_workers(2, timeout=60)
            for nanny in own.workers.values():
                nanny.status = Status.closing_gracefully  # a nanny that lets its worker go
            os.kill(first, signal.SIGKILL)

        callbacks = [At(5, lambda: own.scale(2)), At(30, leave)]
        many = remote(est).set_params(callbacks=callbacks).fit(lazy(X), lazy(y))
        assert many.cluster_["generations"] >= 2
    assert difference(clone(est).fit(X, y), many) == ""


@pytest.mark.parametrize("moment", [pytest.param("binning", marks=pytest.mark.slow), "training"])
def test_a_frozen_worker_is_left_behind(monkeypatch, moment):
    """SIGSTOP: its connections stay, and it says nothing. Importing and compiling must not look like it."""
    monkeypatch.setattr(fleets_own, "_FROZEN", 10.0)
    monkeypatch.setattr(fleets_own, "_ASK", 0.5)
    X, y = table()
    est = local("real", n_estimators=60, subsample=0.7)
    with cluster(2) as own, Client(own):
        frozen = worker_processes(own)[0]

        def freeze() -> None:
            monkeypatch.setattr(fleets_own, "_FROZEN", 5.0)
            os.kill(frozen, signal.SIGSTOP)

        try:
            many = remote(est)
            if moment == "binning":
                os.kill(frozen, signal.SIGSTOP)
            else:
                many.set_params(callbacks=[At(20, freeze)])
            began = time.monotonic()
            many.fit(lazy(X), lazy(y))
            assert time.monotonic() - began < 60.0
            assert len(many.cluster_["frozen"]) == 1
            assert many.cluster_["generations"] == (1 if moment == "binning" else 2)
        finally:
            end(frozen)
    assert difference(clone(est).fit(X, y), many) == ""


@pytest.mark.slow
def test_when_all_workers_freeze_there_is_an_error_within_a_minute():
    X, y = table()
    with cluster(2) as own, Client(own):
        frozen = worker_processes(own)

        def freeze() -> None:
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)

        est = remote(local("real", n_estimators=LONG)).set_params(callbacks=[At(20, freeze)])
        began = time.monotonic()
        try:
            with pytest.raises(sw.ClusterError, match="No worker is left"):
                est.fit(lazy(X), lazy(y))
            assert time.monotonic() - began < 75.0
        finally:
            end(*frozen)
