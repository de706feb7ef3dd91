"""A process that compiles growth ahead: what it compiles is what a fit needs, and nothing is left of it."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import stagewise as sw
from stagewise.backends import forerunner
from stagewise.backends.forerunner import Forerunner, growth_types, send_ahead
from stagewise.kernels.cache import announce
from stagewise.kernels.grow import grow
from stagewise.kernels.jit import KNOWN
from stagewise.params import TreeParams

pytestmark = pytest.mark.skipif(not KNOWN, reason="one process compiles everything")


NO_SETS = np.zeros(3, np.bool_)


@pytest.fixture
def asked(monkeypatch):
    """Whether a process would be started, in a Python where nothing has been compiled."""
    started = []

    def start(command, **options):
        started.append(command)
        raise OSError("not really")

    monkeypatch.setattr(forerunner, "_asked", False)
    monkeypatch.setattr(forerunner, "_missing", lambda extras: True)
    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.delenv("STAGEWISE_COMPILE_AHEAD", raising=False)
    return started


@pytest.mark.parametrize("extras", [False, True])
def test_a_fit_asks_for_what_is_compiled_ahead(extras):
    X = np.random.default_rng(0).normal(size=(100, 4))
    sw.GradientBoostingRegressor(n_estimators=1, max_features=0.5 if extras else 1.0).fit(X, X[:, 0])
    assert growth_types(extras) in grow.signatures


def test_it_is_asked_for_once(asked):
    for _ in range(3):
        send_ahead(TreeParams(), NO_SETS, 2)
    assert len(asked) == 1
    assert asked[0][0] == sys.executable


@pytest.mark.parametrize(
    "estimator, extras",
    [
        (sw.GradientBoostingRegressor(n_estimators=1, n_jobs=2), False),
        (sw.GradientBoostingRegressor(n_estimators=1, n_jobs=2, max_features=0.5), True),
        (sw.GradientBoostingRegressor(n_estimators=1, n_jobs=2, categorical_features=[1]), True),
        (sw.AdaBoostClassifier(n_estimators=1, n_jobs=2), False),
    ],
)
def test_a_fit_asks(asked, estimator, extras):
    X = np.random.default_rng(0).integers(0, 4, size=(100, 4))
    estimator.fit(X, X[:, 0] > 1)
    assert len(asked) == 1
    assert json.loads(asked[0][3])[1] is extras


def test_waiting_for_it_is_announced(capsys, monkeypatch):
    monkeypatch.setattr(announce, "silent", False)
    monkeypatch.setattr(announce, "_left", 0.05)
    made = runner("import time; time.sleep(0.5)")
    made.wait(("int64", "none"))
    assert "compiling for this machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    "case", ["one core", "off", "frozen", "nobody", "embedded", "worker", "compiled", "not kept", "symmetric"]
)
def test_it_is_not_started_where_it_does_not_help(asked, monkeypatch, case):
    cores, tree = 2, TreeParams(growth="symmetric" if case == "symmetric" else "leafwise")
    if case == "one core":
        cores = 1
    elif case == "off":
        monkeypatch.setenv("STAGEWISE_COMPILE_AHEAD", "0")
    elif case == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    elif case == "nobody":
        monkeypatch.setattr(sys, "executable", None)
    elif case == "embedded":
        monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    elif case == "worker":
        monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    elif case == "compiled":
        monkeypatch.setattr(forerunner, "_missing", lambda extras: False)
    elif case == "not kept":
        monkeypatch.setattr(grow, "_cache", object())
    send_ahead(tree, NO_SETS, cores)
    assert asked == []


def test_what_is_kept_is_not_missing():
    X = np.random.default_rng(0).normal(size=(100, 4))
    sw.GradientBoostingRegressor(n_estimators=1).fit(X, X[:, 0])
    assert not forerunner._missing(False)


def runner(program: str) -> Forerunner:
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    return Forerunner(process, extras=False)


def ended(runner: Forerunner) -> bool:
    return runner.process.returncode is not None and runner.process.stdin.closed and grow._cache.elsewhere is None


def test_waiting_ends_with_the_process():
    made = runner("raise SystemExit(3)")
    made.wait(("int64", "none"))
    assert ended(made)


def test_patience_has_an_end(monkeypatch):
    monkeypatch.setattr(forerunner, "PATIENCE", 0.1)
    made = runner("import time; time.sleep(60)")
    made.wait(("int64", "none"))
    assert ended(made)


def test_other_signatures_do_not_wait():
    made = runner("import time; time.sleep(60)")
    began = time.monotonic()
    made.wait(("int64", "boolean"))
    assert time.monotonic() - began < 1.0
    assert made.process.poll() is None
    made.end()
    assert ended(made)


def test_a_fork_leaves_it_alone(monkeypatch):
    made = runner("import time; time.sleep(60)")
    with monkeypatch.context() as other:
        other.setattr(made, "owner", -1)
        made.wait(("int64", "none"))
        made.end()
    assert made.process.poll() is None
    made.end()
    assert ended(made)


FIT = """
import sys
import numpy as np, stagewise as sw
from stagewise.backends import forerunner
from stagewise.kernels.grow import grow
X = np.random.default_rng(0).normal(size=(700, 4))
model = sw.GradientBoostingClassifier(n_estimators=4, n_jobs=2).fit(X, X[:, 0] > 0.1)
sw.save(model, sys.argv[1])
print(len(grow.stats.cache_hits), grow._cache.elsewhere)
"""


def fit(folder: Path, name: str, program: str = FIT, **settings: str) -> tuple[bytes, str]:
    file = folder / f"{name}.stagewise"
    env = os.environ | {"NUMBA_CACHE_DIR": str(folder / name)} | settings
    done = subprocess.run(
        [sys.executable, "-", str(file)], input=program, env=env, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    return file.read_bytes(), done.stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_growth_comes_from_the_other_process(tmp_path):
    ahead, came = fit(tmp_path, "ahead", STAGEWISE_COMPILE_AHEAD="1")
    alone, compiled = fit(tmp_path, "alone", STAGEWISE_COMPILE_AHEAD="0")
    broken, again = fit(tmp_path, "broken", FIT.replace("X = ", "forerunner._BOOT = 'raise SystemExit(1)'\nX = ", 1))
    assert (came, compiled, again) == ("1 None", "0 None", "0 None")
    assert ahead == alone == broken


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes there")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_its_parent(tmp_path, how):
    program = (
        "import numpy as np, stagewise as sw\n"
        "from stagewise.backends import forerunner\n"
        "class Seen(forerunner.Forerunner):\n"
        "    def __init__(self, process, extras):\n"
        "        super().__init__(process, extras)\n"
        "        print(process.pid, flush=True)\n"
        "forerunner.Forerunner = Seen\n"
        "X = np.random.default_rng(0).normal(size=(700, 4))\n"
        "sw.GradientBoostingClassifier(n_jobs=2).fit(X, X[:, 0] > 0.1)\n"
    )
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "STAGEWISE_COMPILE_AHEAD": "1"}
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    child = int(parent.stdout.readline())
    time.sleep(1.5)
    assert Path(f"/proc/{child}").exists()
    parent.send_signal(how)
    assert parent.wait(60) != 0
    parent.stdout.close()
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "State:\tZ" in Path(f"/proc/{child}/status").read_text():
            break
        time.sleep(0.1)
    else:
        pytest.fail("the process goes on")
