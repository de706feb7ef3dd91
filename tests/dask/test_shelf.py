"""Memory that members on one machine share: messages of any size, seen by another process, and by nobody else."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from estimators.fingerprint import difference
from estimators.test_exactness import make_table, make_y
from stagewise.kernels.jit import JIT

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="files in memory are Linux's"),
    pytest.mark.filterwarnings("default"),
]

import dask.array as da  # noqa: E402
from distributed import Client, wait  # noqa: E402

from fleets import N_ROWS, cluster, local, remote  # noqa: E402
from stagewise.dask.shelf import Shelf, place  # noqa: E402

NAME = "stagewise-test"


@pytest.fixture
def ends():
    to = Shelf(NAME)
    end = Shelf.of(os.getpid(), to.descriptor, NAME)
    yield to, end
    to.close()
    end.close()


def test_messages_of_growing_sizes_and_kinds(ends):
    to, end = ends
    rng = np.random.default_rng(0)
    last: tuple[np.ndarray, np.ndarray] | None = None
    for number in range(3, 40):  # the first exchanges went another way
        data = rng.integers(-9, 9, int(rng.integers(0, 400 * number))).astype(
            [np.int64, np.int32, np.uint8][number % 3]
        )
        if number % 2:  # written where it is to lie
            room = to.room(number, data.nbytes)
            room[:] = data.view(np.uint8)
            data, copied = room.view(data.dtype), data
        else:
            copied = data.copy()
        assert not end.waits(number, 2)
        assert to.send(number, number % 5 == 0, data), "the receiver has said that it sleeps"
        assert end.waits(number, 2)
        came, stop = end.take(number)
        np.testing.assert_array_equal(came, copied)
        assert came.dtype == copied.dtype
        assert stop == (number % 5 == 0)
        if last is not None:
            np.testing.assert_array_equal(*last)  # good until the next but one is written
        last = came, copied


def test_another_process_reads_and_dies(ends):
    to, _ = ends
    to.send(1, False, np.arange(5))
    script = (
        "import sys; from stagewise.dask.shelf import Shelf\n"
        f"end = Shelf.of({os.getpid()}, {to.descriptor}, {NAME!r})\n"
        "assert end.waits(1, 1); print(end.take(1)[0].sum(), flush=True); import os; os.kill(os.getpid(), 9)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stdout == "10\n", run.stderr
    to.send(2, False, np.arange(6))


def test_what_is_not_there_is_not_opened(ends, tmp_path):
    to, _ = ends
    assert place() > 0
    assert Shelf.of(os.getpid(), to.descriptor, NAME + "-other") is None
    assert Shelf.of(os.getpid(), 1 << 20, NAME) is None
    with (tmp_path / "file").open("w") as file:
        assert Shelf.of(os.getpid(), file.fileno(), NAME) is None


def _far_apart(dask_worker: object, far: bool) -> None:
    """Workers that do not see each other's memory."""
    import stagewise.dask.lines as lines

    lines.place = (lambda: 0) if far else place


def _on_each(client: Client, addresses: list[str], values: np.ndarray) -> da.Array:
    """An array with some rows on every worker: Dask alone may leave one without any, which is no member then."""
    parts = np.array_split(values, len(addresses))
    held = [
        client.persist(da.from_array(own, chunks=-1), workers=[at]) for own, at in zip(parts, addresses, strict=True)
    ]
    wait(held)
    return da.concatenate(held)


@pytest.mark.skipif(not JIT, reason="workers compile")
def test_members_near_and_far(tmp_path):
    X = make_table(N_ROWS)
    y, est = make_y(X, "real"), local("real")
    one = clone(est).fit(X, y)
    with cluster(3) as own, Client(own) as client:
        addresses = sorted(client.scheduler_info()["workers"])
        for far, lines in (([], "memory"), (addresses[:1], "direct"), (addresses, "direct")):
            client.run(_far_apart, far=False)
            if far:
                client.run(_far_apart, far=True, workers=far)
            many = remote(est).fit(_on_each(client, addresses, X), _on_each(client, addresses, y))
            assert difference(one, many) == ""
            assert many.cluster_["lines"] == lines
