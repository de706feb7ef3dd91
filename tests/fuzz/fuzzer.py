"""Damage model files in many thousand ways and load them: make fuzz, or

    python tests/fuzz/fuzzer.py [--cases 200000] [--seed 0] [--formats own,lightgbm,json,ubjson]

Every damaged file must be refused with an error of stagewise, or give a model that predicts. Loading runs in child
processes, so that a crash or a hang is seen and named, with limits: one second of CPU time a file, and 256 MiB of
memory beyond what the process needs to start. A failure prints its format and seed; --show FORMAT SEED repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import stagewise as sw
from fuzz.corpus import FORMATS, LogCosh, corpus
from fuzz.mutations import mutated
from stagewise.boosting.model import Model
from stagewise.inspection.attribution import contributions
from stagewise.inspection.outline import tree_text
from stagewise.io.format import dumps, loads

SECONDS = 1.0
STUCK = 20.0  # of the clock: other programs may hold the cores
COMPILING = 200.0  # before the first case, on a machine that has not compiled anything yet
MEMORY = 256 << 20
CHUNK = 2500


def read(kind: str, data: bytes) -> Any:
    if kind == "own":
        return loads(data, losses={"LogCosh": LogCosh})
    return sw.import_lightgbm(data) if kind == "lightgbm" else sw.import_xgboost(data)


def use(model: Any) -> None:
    """Everything that walks down trees: one row and a block of rows, float32 and float64, leaves, files."""
    inner = model if isinstance(model, Model) else model.model_
    n_columns = inner.schema.n_columns
    if n_columns > 10_000:
        return
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, n_columns))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[0], X[1], X[2] = np.inf, -np.inf, 0.0
    X[3:10] = np.arange(7.0)[:, None]  # codes of categories
    for rows in (X, X[:1], X.astype(np.float32)):
        raw = inner.raw(np.ascontiguousarray(rows))
        assert raw.shape == (inner.n_outputs, len(rows))
    if inner.of_trees:
        inner.forest.leaves(X)
        inner.importance()
        explain(inner, X[:12])
    repr(inner.history)
    if model is not inner:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if not any(own is not None and own.is_text for own in inner.schema.levels):
                model.predict(X if inner.of_trees else np.nan_to_num(X, posinf=9.0, neginf=-9.0))
            for name in ("alphas_", "coef_path_", "selected_"):
                getattr(model, name, None)
    assert dumps(loads(dumps(model), losses={"LogCosh": LogCosh})) == dumps(model)


def explain(model: Model, X: np.ndarray) -> None:
    """What climbs paths: conditions of leaves, and sets of categories met along them."""
    if sum(tree.n_nodes for stage in model.stages for tree in stage) > 1000:
        return
    with np.errstate(all="ignore"):
        contributions(model, X, np.empty((0, X.shape[1])), np.empty(0), False, 1)
        if model.stages:
            tree_text(model)


def attempt(kind: str, data: bytes) -> str:
    """ "refused" or "loaded"; anything that must not happen is raised."""
    try:
        model = read(kind, data)
    except sw.StagewiseError as error:
        if len(str(error)) < 15:
            raise AssertionError("the message says nothing") from error
        return "refused"
    try:
        use(model)
    except sw.StagewiseError:  # a parameter out of range says so when it is used
        return "loaded"
    return "loaded"


def size_of_process() -> int:
    """Bytes of address space."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def work(
    kind: str, first: int, last: int, seed: int, files: dict[str, list[bytes]], board: mmap.mmap, out: int
) -> None:
    """A child: cases first .. last. The board says which case is under way; failures are written to `out`."""
    for data in files[kind]:
        with contextlib.suppress(sw.StagewiseError):
            use(read(kind, data))  # compiles and imports whatever is needed, before the limit
    limit = size_of_process() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    counts: Counter[str] = Counter()
    for case in range(first, last):
        data = mutated(kind, seed + case, files)
        board[:8] = struct.pack("<q", case)
        began = time.process_time()
        try:
            counts[attempt(kind, data)] += 1
        except BaseException as error:
            lines = "".join(traceback.format_exception(error)[-3:])
            os.write(
                out, f"FAILURE {kind} {seed + case}: {type(error).__name__}: {str(error)[:200]}\n{lines}\n".encode()
            )
        spent = time.process_time() - began
        if spent > SECONDS:
            os.write(out, f"FAILURE {kind} {seed + case}: took {spent:.1f} s\n".encode())
    os.write(out, f"COUNTS {counts['refused']} {counts['loaded']}\n".encode())


def run_chunk(
    kind: str, first: int, last: int, seed: int, files: dict[str, list[bytes]]
) -> tuple[Counter[str], list[str]]:
    """A chunk in a child; after a crash or a hang the rest of it in another child."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    while first < last:
        board = mmap.mmap(-1, 8)
        board[:8] = struct.pack("<q", first)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            faulthandler.disable()
            try:
                work(kind, first, last, seed, files, board, writing)
            except BaseException as error:
                os.write(writing, f"FAILURE {kind}: the fuzzer itself: {error!r}\n".encode())
            os._exit(0)
        os.close(writing)
        said, status, stuck = _wait(pid, reading, board)
        case = struct.unpack("<q", board[:8])[0]
        for line in said.splitlines():
            if line.startswith("COUNTS"):
                counts["refused"] += int(line.split()[1])
                counts["loaded"] += int(line.split()[2])
        failures += said.split("FAILURE ")[1:]
        if stuck:
            failures.append(f"{kind} {seed + case}: hangs")
        elif os.WIFSIGNALED(status):
            failures.append(f"{kind} {seed + case}: crashes with signal {os.WTERMSIG(status)}")
        else:
            break
        first = case + 1
    return counts, failures


def _wait(pid: int, reading: int, board: mmap.mmap) -> tuple[str, int, bool]:
    """What a child says, its status, and whether it had to be killed."""
    os.set_blocking(reading, False)
    said, last, since, stuck, first = b"", b"", time.monotonic(), False, board[:8]
    while True:
        with contextlib.suppress(BlockingIOError):
            said += os.read(reading, 65536)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if board[:8] != last:
            last, since = board[:8], time.monotonic()
        elif time.monotonic() - since > (STUCK if board[:8] != first else COMPILING):
            os.kill(pid, signal.SIGKILL)
            stuck = True
        time.sleep(0.01)
    os.set_blocking(reading, True)
    while more := os.read(reading, 65536):
        said += more
    os.close(reading)
    return said.decode("utf-8", "replace"), status, stuck


def fuzz(cases: int, seed: int, formats: tuple[str, ...]) -> int:
    """`cases` files in all, divided among the formats; the number of failures."""
    files = corpus()
    total: Counter[str] = Counter()
    bad = 0
    for kind in formats:
        counts: Counter[str] = Counter()
        each = -(-cases // len(formats))
        began = time.monotonic()
        for first in range(0, each, CHUNK):
            own, failures = run_chunk(kind, first, min(first + CHUNK, each), seed, files)
            counts += own
            bad += len(failures)
            for failure in failures:
                sys.stdout.write(f"FAILURE {failure}\n")
        total += counts
        sys.stdout.write(
            f"{kind:9} {each:8,} files: {counts['refused']:8,} refused, {counts['loaded']:7,} loaded and used, "
            f"{time.monotonic() - began:.0f} s\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"{sum(total.values()):,} files, {bad} failures\n")
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--show", nargs=2, metavar=("FORMAT", "SEED"), help="repeat one case, here and now")
    asked = parser.parse_args()
    if asked.show:
        data = mutated(asked.show[0], int(asked.show[1]), corpus())
        sys.stdout.write(f"{len(data)} bytes: {attempt(asked.show[0], data)}\n")
        return
    sys.exit(1 if fuzz(asked.cases, asked.seed, tuple(asked.formats.split(","))) else 0)


if __name__ == "__main__":
    main()
