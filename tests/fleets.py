"""Clusters of worker processes on this machine, and estimators to compare on them; for tests/dask."""

from __future__ import annotations

import logging
import os
import random
import signal

import dask.array as da
import numpy as np
from distributed import LocalCluster

import stagewise as sw
import stagewise.dask as sd

N_ROWS = 6_000
CHUNKS = (2_500, 1, 1_499, 0, 2_000)  # uneven, one of a row, one empty


def cluster(n_workers: int, **more: object) -> LocalCluster:
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None,
        silence_logs=logging.CRITICAL, **more,
    )  # fmt: skip


def local(kind: str, **params: object) -> object:
    made = sw.GradientBoostingClassifier if kind in ("two", "three") else sw.GradientBoostingRegressor
    return made(**{"n_estimators": 4, **params})


def remote(est: object) -> object:
    return getattr(sd, type(est).__name__)(**est.get_params())


def lazy(values: np.ndarray | None) -> object:
    if values is None:
        return None
    return da.from_array(values, chunks=(CHUNKS, *((-1,) if values.ndim == 2 else ())))


def worker_processes(own: LocalCluster) -> list[int]:
    """The numbers of the worker processes that live."""
    alive = [w.process.process for w in list(own.workers.values()) if w.process is not None]
    return [process.pid for process in alive if process is not None and process.is_alive()]


def kill(own: LocalCluster, rng: random.Random) -> None:
    """One worker process, without a warning."""
    pids = worker_processes(own)
    if pids:
        os.kill(rng.choice(pids), signal.SIGKILL)
