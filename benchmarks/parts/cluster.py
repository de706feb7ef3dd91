"""A cluster on this machine: workers of one thread each against one process, and the Dask training of others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.options import Options, Outcome
from benchmarks.table import plain
from benchmarks.timing import Plan, interleaved, medians, say, stopwatch, summary
from benchmarks.workloads import WORKLOADS
from stagewise import GradientBoostingClassifier
from stagewise.kernels.team import available_cores

__all__ = ["run"]


class Pace:
    """Seconds of a tree, the median, without what comes before the first: a callback."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def on_stage(self, stage: Any) -> None:
        self.at.append(stage.seconds)  # by the clock of a worker: the client hears of several at once

    @property
    def seconds(self) -> float:
        return float(np.median(np.diff(self.at)))


def predicted(data: Any, workers: int, sent: float, cores: int) -> float:
    """The cost model of docs/cluster.md: seconds of a tree when `cores` cores are shared by workers of one thread."""
    n_rows, n_columns = data.X.shape
    work = n_rows * n_columns * 2.2 * 0.45e-9 * 2.0 / workers
    exchanges = 0.0 if workers == 1 else 28 * 0.15e-3 + sent * 1.5e-9
    return float((work + exchanges) * max(1.0, workers / cores))


def traffic(model: Any, workers: int, stages: int) -> dict[str, float]:
    """Bytes that one worker sent for a tree, and what the formula of docs/cluster.md says."""
    entries = sum(len(own) + 2 for own in model.model_.cuts)  # bins, and one for missing values
    histograms = model.cluster_["histograms"] / stages
    share = (workers - 1) / workers  # of the columns; small histograms go to everyone whole
    copies = share if 12 * entries * (workers - 1) * share > 10_000 else workers - 1
    return {
        "measured": model.cluster_["bytes_sent"] / stages,
        "formula": histograms * copies * entries * 12.0,
        "histograms": histograms,
    }


def contestants(client: Any, data: Any, workers: int, stages: int, leaves: int) -> dict[str, Callable[[], Any]]:
    """Fits of data that lie on the workers already."""
    import dask.array as da
    import lightgbm
    import xgboost.dask
    from distributed import wait

    from stagewise import dask as clustered

    rows = -(-len(data.X) // workers)
    X = client.persist(da.from_array(data.X, chunks=(rows, -1)))
    y = client.persist(da.from_array(data.y, chunks=(rows,)))
    wait([X, y])
    ours = clustered.GradientBoostingClassifier(n_estimators=stages, max_leaf_nodes=leaves)
    xgb = xgboost.dask.DaskXGBClassifier(
        n_estimators=stages, max_leaves=leaves, grow_policy="lossguide", max_depth=0, tree_method="hist", n_jobs=1
    )
    lgb = lightgbm.DaskLGBMClassifier(n_estimators=stages, num_leaves=leaves, n_jobs=1, verbose=-1, client=client)

    def fit_xgb() -> None:
        xgb.client = client
        xgb.fit(X, y)

    return {"stagewise.dask": lambda: ours.fit(X, y), "xgboost.dask": fit_xgb, "lightgbm.dask": lambda: lgb.fit(X, y)}


def run(options: Options) -> Outcome:
    from distributed import Client, LocalCluster

    workload = WORKLOADS["A"].sized(options.quick)
    data, lines, result = workload.data(), [], {"title": workload.title}
    params = {"n_estimators": workload.stages, "max_leaf_nodes": workload.leaves}
    alone = GradientBoostingClassifier(**params, n_jobs=2)
    for workers in (2,) if options.quick else (2, 1, 4):
        say(f"cluster: {workload.title}, {workers} workers")
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR
            ) as cluster,
            Client(cluster) as client,
        ):
            runs = contestants(client, data, workers, workload.stages, workload.leaves)
            if workers != 2:
                runs = {"stagewise.dask": runs["stagewise.dask"]}
            runs = {"one process, 2 threads": lambda: alone.fit(data.X, data.y), **runs}
            model = runs["stagewise.dask"]()  # compiles
            same = np.array_equal(
                model.model_.stages[-1][0].value, alone.fit(data.X, data.y).model_.stages[-1][0].value
            )
            timed = {name: lambda own=own: stopwatch(own)[0] for name, own in runs.items()}
            times = interleaved(timed, Plan(options.repeats, 0.0), f"{workers} workers,")
            seconds, pace = medians(times), Pace()
            model.set_params(callbacks=[pace])
            runs["stagewise.dask"]()
        rows = [[name, f"{own:.2f}", f"{seconds['one process, 2 threads'] / own:.2f}"] for name, own in seconds.items()]
        sent = traffic(model, workers, workload.stages)
        cost = predicted(data, workers, sent["measured"], available_cores())
        lines += [
            f"cluster: {workload.title}, {workers} workers of one thread",
            plain(["", "s", "speed"], rows),
            f"  the same trees: {same}; bytes a tree and worker: {sent['measured']:,.0f} "
            f"(formula {sent['formula']:,.0f}, {sent['histograms']:.1f} histograms); "
            f"ms a tree: {1e3 * pace.seconds:.1f} (cost model {1e3 * cost:.1f})",
        ]
        result[str(workers)] = {
            "seconds": {name: summary(own) for name, own in times.items()},
            "traffic": sent,
            "tree": {"measured": pace.seconds, "model": cost},
        }
    return Outcome("\n".join(lines), result)
