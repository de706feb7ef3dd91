"""Checkpoints: whatever happened on the way, the same bytes at the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import stagewise as sw
from io_models import LogCosh, signal, table
from stagewise.errors import InputError, ParameterError
from stagewise.io.format import dumps

BASE = {"n_estimators": 25, "min_samples_leaf": 5, "max_leaf_nodes": 6, "random_state": 3}


def case(name):
    """(estimator, X, y, options of fit) of one kind of fit."""
    X = table(600)
    f = signal(X)
    classes, positive = np.digitize(f, [-0.5, 1.0]), np.exp(f)
    Regressor, Classifier = sw.GradientBoostingRegressor, sw.GradientBoostingClassifier
    return {
        "plain": (Regressor(**BASE), X, f, {}),
        "subsample": (Regressor(**BASE, subsample=0.5, max_features=0.6), X, f, {}),
        "weights": (Regressor("poisson", **BASE), X, positive, {"sample_weight": np.arange(600) % 5 / 2}),
        "huber": (Regressor("huber", **BASE, subsample=0.7), X, f, {}),
        "symmetric": (Regressor(**BASE, growth="symmetric"), X, f, {"init_score": np.sin(f)}),
        "classes": (Classifier(**BASE, subsample=0.8), X, classes, {}),
        "stopping": (
            Classifier(**{**BASE, "n_estimators": 300}, early_stopping=True, n_iter_no_change=4, learning_rate=0.6),
            X, classes, {},
        ),
        "eval_set": (
            Regressor(**BASE, n_iter_no_change=3, tol=0.0), X[:400], f[:400], {"eval_set": (X[400:], f[400:])}
        ),
        "custom": (Regressor(LogCosh(), **BASE), X, f, {}),
        "spread": (Regressor(**BASE, learning_rate=1.0), X, np.where(f > 2.5, 1e9, f), {}),
    }[name]  # fmt: skip


CASES = ("plain", "subsample", "weights", "huber", "symmetric", "classes", "stopping", "eval_set", "custom", "spread")


class KilledError(Exception):
    pass


class Bomb:
    """A callback that ends the fit in the middle of a stage's bookkeeping."""

    def __init__(self, at):
        self.at = at

    def on_stage(self, stage):
        if stage.number == self.at:
            raise KilledError


def files(folder):
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.parametrize("name", CASES)
def test_a_fit_that_was_cut_off_ends_the_same(tmp_path, name):
    estimator, X, y, options = case(name)
    whole = dumps(clone(estimator).fit(X, y, **options))
    for at in (7, 13, 16):
        bombed = clone(estimator).set_params(callbacks=[Bomb(at)])
        with pytest.raises(KilledError):
            bombed.fit(X, y, **options, checkpoint=tmp_path / "run", every=3)
        assert len(files(tmp_path / "run")) == 2
    seen = []

    class Count:
        def on_start(self, total, done):
            seen.append(done)

    again = clone(estimator).set_params(callbacks=[Count()]).fit(X, y, **options, checkpoint=tmp_path / "run", every=3)
    assert dumps(again) == whole
    assert seen == [15]
    assert len(files(tmp_path / "run")) == 2
    # a run that is over stays over: the same result at once
    last = clone(estimator).set_params(callbacks=[Bomb(at) for at in range(1, 400)])
    assert dumps(last.fit(X, y, **options, checkpoint=tmp_path / "run", every=3)) == whole


def test_a_longer_run_goes_on_from_a_shorter_one(tmp_path):
    estimator, X, y, _ = case("subsample")
    clone(estimator).fit(X, y, checkpoint=tmp_path)
    longer = clone(estimator).set_params(n_estimators=40)
    assert dumps(clone(longer).fit(X, y, checkpoint=tmp_path)) == dumps(longer.fit(X, y))
    with pytest.raises(InputError, match="has 40 stages, but n_estimators asks for 25"):
        estimator.fit(X, y, checkpoint=tmp_path)


@pytest.mark.parametrize("how", ["empty", "half", "flip", "text"])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path, how):
    estimator, X, y, _ = case("subsample")
    whole = dumps(clone(estimator).fit(X, y))
    with pytest.raises(KilledError):
        clone(estimator).set_params(callbacks=[Bomb(20)]).fit(X, y, checkpoint=tmp_path, every=4)
    assert files(tmp_path) == ["stage-00000012.checkpoint", "stage-00000016.checkpoint"]
    newest = tmp_path / "stage-00000016.checkpoint"
    data = newest.read_bytes()
    flipped = data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]
    newest.write_bytes({"empty": b"", "half": data[: len(data) // 2], "flip": flipped, "text": b"hello"}[how])
    with pytest.warns(UserWarning, match=r"damaged checkpoint.*stage-00000016"):
        again = clone(estimator).fit(X, y, checkpoint=tmp_path, every=4)
    assert dumps(again) == whole
    for path in tmp_path.iterdir():
        path.write_bytes(b"all of them")
    with pytest.warns(UserWarning, match="damaged"):
        assert dumps(clone(estimator).fit(X, y, checkpoint=tmp_path, every=4)) == whole


def test_leftovers_of_a_killed_write_are_removed(tmp_path):
    estimator, X, y, _ = case("plain")
    stale = tmp_path / ".stage-00000010.checkpoint.00aa.tmp"
    stale.write_bytes(b"half")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    estimator.fit(X, y, checkpoint=tmp_path)
    assert files(tmp_path) == ["notes.txt", "stage-00000020.checkpoint", "stage-00000025.checkpoint"]


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda e, X, y: (e, X + 1.0 * (X > 0), y), None),
        (lambda e, X, y: (e, X[:, ::-1].copy(), y), "the columns of X differ"),
        (lambda e, X, y: (e, X, y + 1), "y, sample_weight"),
        (lambda e, X, y: (clone(e).set_params(learning_rate=0.2), X, y), "the settings of the estimator differ"),
        (lambda e, X, y: (clone(e).set_params(random_state=4), X, y), "the settings of the estimator differ"),
        (lambda e, X, y: (clone(e).set_params(loss="huber"), X, y), "the settings of the estimator differ"),
    ],
)
def test_a_checkpoint_of_another_fit_is_never_used(tmp_path, change, words):
    estimator, X, y, _ = case("subsample")
    clone(estimator).fit(X, y, checkpoint=tmp_path)
    other, X, y = change(estimator, X, y)
    if words is None:  # the same ranks of all values are the same bins, but not the same cut points
        words = "belongs to another fit"
    with pytest.raises(InputError, match=words):
        clone(other).fit(X, y, checkpoint=tmp_path)
    fresh = clone(other).fit(X, y, checkpoint=tmp_path, resume=False)
    assert dumps(fresh) == dumps(clone(other).fit(X, y))


def test_a_loss_of_the_same_name_that_does_something_else(tmp_path):
    def squares(factor, told=0.0):
        class Squares(sw.Loss):
            @staticmethod
            def loss(y, f):
                return factor * (y - f) ** 2

            @staticmethod
            def gradient(y, f):
                return 2.0 * factor * (f - y)

            @staticmethod
            def hessian(y, f):
                return 2.0

            def from_mean(self, mean):  # the same start, so predictions do not tell
                return mean

        made = Squares()
        made.told = told
        return made

    X = table(200)
    fit = {"X": X, "y": signal(X), "checkpoint": tmp_path}
    first = sw.GradientBoostingRegressor(squares(1.0), n_estimators=3).fit(**fit)
    again = sw.GradientBoostingRegressor(squares(1.0), n_estimators=3).fit(**fit)
    np.testing.assert_array_equal(again.predict(X), first.predict(X))
    for other in squares(0.5), squares(1.0, told=1.0):
        with pytest.raises(InputError, match="belongs to another fit: the code or the settings of your loss differ"):
            sw.GradientBoostingRegressor(other, n_estimators=6).fit(**fit)


def test_a_checkpoint_of_another_version_is_not_used(tmp_path, monkeypatch):
    estimator, X, y, _ = case("plain")
    clone(estimator).fit(X, y, checkpoint=tmp_path)
    monkeypatch.setattr("stagewise.boosting.checkpoint.__version__", "99.0")
    with pytest.raises(InputError, match=r"written by stagewise .*, and this is 99.0"):
        clone(estimator).fit(X, y, checkpoint=tmp_path)


def test_warm_starts_and_init_models_can_be_cut_off_too(tmp_path):
    estimator, X, y, _ = case("subsample")
    first = clone(estimator).fit(X, y)
    options = {"init_model": first, "checkpoint": tmp_path, "every": 2}
    whole = dumps(clone(estimator).fit(X[::2], y[::2], init_model=first))
    with pytest.raises(KilledError):
        clone(estimator).set_params(callbacks=[Bomb(33)]).fit(X[::2], y[::2], **options)
    assert files(tmp_path) == ["stage-00000030.checkpoint", "stage-00000032.checkpoint"]
    assert dumps(clone(estimator).fit(X[::2], y[::2], **options)) == whole
    second = clone(estimator).set_params(random_state=9).fit(X, y)
    with pytest.raises(InputError, match="the model that training goes on from"):
        clone(estimator).fit(X[::2], y[::2], init_model=second, checkpoint=tmp_path)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"checkpoint": 3}, "checkpoint=3 must be the path of a folder"),
        ({"checkpoint": __file__}, "is a file"),
        ({"every": 0}, "every=0"),
        ({"every": 2.5}, "every=2.5"),
        ({"resume": "yes"}, "resume='yes' must be True or False"),
    ],
)
def test_options_are_checked(options, words):
    estimator, X, y, _ = case("plain")
    with pytest.raises(ParameterError, match=words):
        estimator.fit(X, y, **options)


KILLER = Path(__file__).parent / "killer.py"


def killed(folder, kills):
    """Let killer.py kill fits with -9; what it says."""
    done = subprocess.run(
        [sys.executable, str(KILLER), str(folder), str(kills)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_killed_with_9_and_resumed(tmp_path):
    assert killed(tmp_path, 12) == "12 kills, 12 identical files"


@pytest.mark.slow
def test_200_kills(tmp_path):
    assert killed(tmp_path, 200) == "200 kills, 200 identical files"
