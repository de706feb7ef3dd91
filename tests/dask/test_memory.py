"""Workers whose memory does not hold their data: codes go to their disks, and the model is the same."""

from __future__ import annotations

import pickle
import sys
import threading
import time
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

from distributed import Client  # noqa: E402

import stagewise.dask.room as rooms  # noqa: E402
from fleets import N_ROWS, cluster, lazy, local, remote  # noqa: E402
from stagewise.dask.member import Job, assembled, problem_of  # noqa: E402
from stagewise.dask.partitions import BinnedPart, Piece  # noqa: E402
from stagewise.dask.room import Keeper, Room  # noqa: E402
from stagewise.storage.mapping import is_mapped  # noqa: E402


def comfort(share: float) -> None:
    """How much of their memory limit workers take to be theirs."""
    import stagewise.dask.room as here

    here.COMFORT = share


def test_codes_on_disk_give_the_same_model(tmp_path):
    """Nothing fits: every partition and every table is mapped; with a validation set, weights and missing values."""
    import pandas as pd

    X = pd.DataFrame(make_table(N_ROWS, missing=True), columns=list("abcdef"))
    y, weight = make_y(X.fillna(0.0).to_numpy(), "two"), make_weight(N_ROWS, "zeros")
    rows = X.assign(y=y, w=weight)
    for k, part in enumerate((rows[:1000], rows[1000:1001], rows[1001:])):
        part.to_parquet(tmp_path / f"part-{k}.parquet", row_group_size=2_300)
    est = local("two", early_stopping=True, subsample=0.7)
    one = clone(est).fit(X, y, weight, eval_set=(X[:500], y[:500]))
    with cluster(2) as own, Client(own) as client:
        client.run(comfort, 0.0)
        many = remote(est).fit(str(tmp_path / "*.parquet"), "y", "w", eval_set=(X[:500], y[:500]))
        assert many.cluster_["on_disk"] == 2
        assert difference(one, many) == ""
        real = make_y(X.fillna(0.0).to_numpy(), "real")
        frame = remote(local("real", loss="absolute_error")).fit(lazy(X.to_numpy()), lazy(real), lazy(weight))
        assert frame.cluster_["on_disk"] == 2
        client.run(comfort, 0.6)
        again = remote(local("real", loss="absolute_error")).fit(lazy(X.to_numpy()), lazy(real), lazy(weight))
        assert again.cluster_["on_disk"] == 0
        assert difference(frame, again) == ""


def part(n_rows: int, n_columns: int, seed: int = 0) -> BinnedPart:
    rng = np.random.default_rng(seed)
    return BinnedPart(rng.integers(0, 9, (n_columns, n_rows)).astype(np.uint8), rng.normal(size=n_rows), None, None)


def test_tables_on_disk_are_those_in_memory(monkeypatch):
    monkeypatch.setattr("stagewise.dask.member._BLOCK", 64)
    parts, cuts, room = [part(100, 5, 1), part(1, 5, 2), part(130, 5, 3)], (np.arange(8.0),) * 5, Room()
    inside = assembled(parts, cuts, 1, room, 0)
    assert not is_mapped(inside.by_row)
    room.limit = 1
    outside = assembled(parts, cuts, 2, room, 0)
    assert is_mapped(outside.by_row)
    assert is_mapped(outside.by_column)
    np.testing.assert_array_equal(inside.by_row, outside.by_row)
    np.testing.assert_array_equal(inside.by_column, outside.by_column)
    assert assembled([], cuts, 1, room, 0).by_column.shape == (5, 0)


def test_a_part_on_disk_stays_on_disk():
    """Dask counts what is in memory, and what it writes and reads back is mapped again."""
    inside = part(1_000, 3)
    outside = BinnedPart(Room().on_disk([inside.codes[:, :10], inside.codes[:, 10:]], 3, 1_000), inside.y, None, None)
    assert sys.getsizeof(inside) - sys.getsizeof(outside) == 3_000
    for own in (inside, outside):
        back = pickle.loads(pickle.dumps(own))
        assert is_mapped(back.codes) == is_mapped(own.codes)
        np.testing.assert_array_equal(back.codes, inside.codes)
        np.testing.assert_array_equal(back.y, inside.y)


def test_rows_that_change_between_two_reads_are_an_error():
    with pytest.raises(sw.InputError, match=r"had 20 rows .* has 10"):
        Room().on_disk([part(10, 3).codes], 3, 20)
    with pytest.raises(sw.InputError, match=r"had 5 rows .* has 10"):
        Room().on_disk([part(10, 3).codes], 3, 5)


def test_a_keeper_lets_pages_go(monkeypatch):
    monkeypatch.setattr(rooms, "_LOOK", 0.001)
    seen = threading.Event()
    monkeypatch.setattr(rooms, "release", lambda own: seen.set())
    codes = Room().on_disk([part(10, 3).codes], 3, 10)
    room = Room()
    room.limit = 0
    with Keeper(room, [codes, part(10, 3).codes]) as keeper:
        assert len(keeper.arrays) == 1
        assert seen.wait(10.0)


def test_too_little_memory_for_the_rows_is_said():
    own, cuts = part(100_000, 3), (np.arange(8.0),) * 3
    loss = sw.GradientBoostingRegressor()._loss()
    tree, params = sw.GradientBoostingRegressor()._tree_params(100, 3), sw.GradientBoostingRegressor()._boost_params()
    job = Job("run", cuts, (), None, loss, tree, params, 100_000, 0, None, 0, 1)
    room = Room()
    room.limit = 1 << 20
    with pytest.raises(sw.InputError, match="Use more workers"):
        problem_of(job, [own], [0], [], None, 1, None, room)


def test_row_groups_come_in_batches(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": np.arange(1000.0), "b": np.arange(1000.0)}), tmp_path / "x.parquet")
    monkeypatch.setattr(Room, "batch_rows", lambda self, width: 300)
    batches = list(Piece(str(tmp_path / "x.parquet"), (0,)).batches())
    assert [own.num_rows for own in batches] == [300, 300, 300, 100]


# --- slow ------------------------------------------------------------------------------------------------------------


def write_wide(folder: Path, n_files: int, n_rows: int, n_columns: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for k in range(n_files):
        X = rng.integers(0, 1000, size=(n_rows, n_columns), dtype=np.int16)
        columns = {f"c{j}": X[:, j].astype(np.float64) for j in range(n_columns)}
        table = pa.table({**columns, "y": X[:, 0] + 0.5 * X[:, 1]})
        pq.write_table(table, folder / f"part-{k}.parquet", row_group_size=100_000)


@pytest.mark.slow
def test_data_that_no_worker_could_hold(tmp_path):
    """1.5 GiB of numbers, two workers that Dask ends at 768 MiB; each takes 0.3 GiB before it has any data."""
    write_wide(tmp_path, 3, 666_667, 100)
    est = local("real", n_estimators=3, max_leaf_nodes=15)
    began = time.monotonic()
    with cluster(2, memory_limit="768MiB") as own, Client(own):
        many = remote(est).fit(str(tmp_path / "*.parquet"), "y")
    assert time.monotonic() - began < 200.0
    assert many.cluster_["generations"] == 1
    assert many.cluster_["on_disk"] == 2
    one = clone(est).fit(sw.Dataset.from_parquet(tmp_path / "*.parquet", target="y"))
    sw.save(one, tmp_path / "one")
    sw.save(many, tmp_path / "many")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()
