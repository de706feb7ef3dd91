"""Kill fits with signal 9 at random moments, resume each, and compare the final files with an uninterrupted one's.

    python killer.py FOLDER KILLS

Children are forks of this process, so that a kill costs milliseconds and not the start of Python.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import stagewise as sw
from io_models import signal as target
from io_models import table

X = table(3000)
f = target(X)
CLASSES = np.digitize(f, [-0.5, 1.0])
BASE = {"min_samples_leaf": 5, "random_state": 1, "n_jobs": 1}
FITS = [
    (sw.GradientBoostingRegressor(n_estimators=120, subsample=0.5, **BASE), f),
    (sw.GradientBoostingClassifier(n_estimators=40, subsample=0.7, max_features=0.5, **BASE), CLASSES),
    (
        sw.GradientBoostingClassifier(
            n_estimators=500, early_stopping=True, n_iter_no_change=5, learning_rate=0.3, **BASE
        ),
        CLASSES,
    ),
    (sw.GradientBoostingRegressor("huber", n_estimators=60, growth="symmetric", **BASE), f),
]


def run(which: int, folder: Path, out: Path) -> None:
    """Train with a checkpoint every second stage, and save."""
    estimator, y = FITS[which]
    sw.save(estimator.fit(X, y, checkpoint=folder, every=2), out)


def child(which: int, folder: Path, out: Path) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            run(which, folder, out)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return pid


def main(root: Path, kills: int) -> None:
    whole, seconds = [], []
    for which in range(len(FITS)):
        for _ in range(2):  # the first time compiles
            shutil.rmtree(root / "whole", ignore_errors=True)
            began = time.perf_counter()
            run(which, root / "whole", root / f"whole-{which}")
        seconds.append(time.perf_counter() - began)
        whole.append((root / f"whole-{which}").read_bytes())
    rng = random.Random(5)
    done = same = 0
    while done < kills:
        which = done % len(FITS)
        folder, out = root / f"run-{done}", root / f"out-{done}"
        pid = child(which, folder, out)
        time.sleep(rng.uniform(0, 1.0) * seconds[which])
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):  # it was over before
            shutil.rmtree(folder)
            continue
        done += 1
        left = len(list(folder.iterdir())) if folder.exists() else 0
        assert left <= 4, f"{left} files are left"  # two checkpoints, a new one, a half-written one
        _, status = os.waitpid(child(which, folder, out), 0)
        assert status == 0, "the resumed fit failed"
        same += out.read_bytes() == whole[which]
        shutil.rmtree(folder)
        out.unlink()
    sys.stdout.write(f"{done} kills, {same} identical files\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
