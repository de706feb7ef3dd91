"""Squared error on integers: the same model in every way, and that of real numbers but for their rounding."""

from __future__ import annotations

import numpy as np
import pytest

import stagewise as sw
from stagewise.backends import pace, residuals
from stagewise.backends.cpu import CpuBackend
from stagewise.backends.residuals import ResidualWords
from stagewise.boosting import loop
from stagewise.boosting.residuals import Residuals


def table(n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X[rng.random((n, 6)) < 0.05] = np.nan
    filled = np.nan_to_num(X)
    return X, 3.0 * filled[:, 0] + np.sin(3.0 * filled[:, 1]) + rng.normal(size=n)


def same(a: sw.GradientBoostingRegressor, b: sw.GradientBoostingRegressor) -> None:
    assert len(a.model_.stages) == len(b.model_.stages)
    np.testing.assert_array_equal(a.model_.history.train, b.model_.history.train)
    for (one,), (other,) in zip(a.model_.stages, b.model_.stages, strict=True):
        for name in ("feature", "cut", "missing_left", "left", "value", "count", "gain"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.fixture
def used(monkeypatch):
    """Counts the stages that were taken on integers."""
    seen = []
    step = ResidualWords.step
    monkeypatch.setattr(ResidualWords, "step", lambda self, steps: seen.append(len(self.root)) or step(self, steps))
    return seen


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_leaf_nodes": 4},
        {"growth": "levelwise", "max_depth": 3},
        {"growth": "symmetric", "max_depth": 4},
        {"min_samples_leaf": 700},
        {"min_samples_leaf": 2000},  # no split at all
        {"early_stopping": True, "n_iter_no_change": 3},
        {"max_features": 0.5},
        {"l2_regularization": 5.0, "l1_regularization": 2.0},
        {"criterion": "friedman_mse"},
    ],
    ids=str,
)
def test_the_same_model_with_roots_built_or_derived_on_any_number_of_threads(settings, monkeypatch, used):
    X, y = table()
    monkeypatch.setattr(pace, "_WORK_A_THREAD", 1)
    known = sw.GradientBoostingRegressor().get_params()
    settings = {name: value for name, value in settings.items() if name in known}
    models = []
    for rows, threads in ((10**9, 1), (0, 1), (0, 2), (0, 3)):
        monkeypatch.setattr(residuals, "_ROWS_A_LEAF", rows)
        models.append(sw.GradientBoostingRegressor(n_estimators=12, n_jobs=threads, **settings).fit(X, y))
    assert used
    for other in models[1:]:
        same(models[0], other)


def test_it_is_the_model_of_real_numbers(monkeypatch, used):
    X, y = table()
    whole = sw.GradientBoostingRegressor(n_estimators=20).fit(X, y)
    assert len(used) == 20
    monkeypatch.setattr(loop, "_residuals", lambda *args: None)
    plain = sw.GradientBoostingRegressor(n_estimators=20).fit(X, y)
    assert len(used) == 20
    np.testing.assert_allclose(whole.predict(X), plain.predict(X), rtol=0, atol=1e-9)
    np.testing.assert_allclose(whole.model_.history.train, plain.model_.history.train, rtol=1e-10)
    assert whole.model_.history.train[-1] == pytest.approx(np.mean((whole.predict(X) - y) ** 2), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-100, 1e-9, 1e9, 1e100])
def test_the_unit_goes_with_the_targets(scale, used):
    """A power of two changes nothing but the scale; other factors only what rounding does."""
    X, y = table(500)
    one, other = (sw.GradientBoostingRegressor(n_estimators=5).fit(X, y * c) for c in (1.0, scale))
    assert len(used) == 10
    np.testing.assert_allclose(other.predict(X), one.predict(X) * scale, rtol=1e-7)


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda y: np.where(np.arange(len(y)) == 7, 1e12, y),  # one residual sets a unit too coarse for the others
        lambda y: y * 1e-6 + 1e9,  # the targets themselves have too many bits
        lambda y: y * 1e-250,
        lambda y: y * 1e250,
        lambda y: np.zeros_like(y),
    ],
)
def test_targets_that_are_no_good_as_integers_go_the_general_way(spoilt, used, monkeypatch):
    X, y = table(500)
    y = spoilt(y)
    left = []
    leave = CpuBackend.__exit__
    monkeypatch.setattr(CpuBackend, "__exit__", lambda self, *e: left.append(self.keeping) or leave(self, *e))
    monkeypatch.setattr(residuals, "_ROWS_A_LEAF", 0)
    model = sw.GradientBoostingRegressor(n_estimators=5).fit(X, y)
    assert left == [False]  # nor are histograms kept for it
    assert not used
    assert np.isfinite(model.predict(X)).all()


def test_weights_offsets_and_samples_go_the_general_way(used):
    X, y = table(500)
    sw.GradientBoostingRegressor(n_estimators=3).fit(X, y, sample_weight=np.linspace(1.0, 2.0, 500))
    sw.GradientBoostingRegressor(n_estimators=3, subsample=0.5).fit(X, y)
    sw.GradientBoostingRegressor(n_estimators=3, loss="absolute_error").fit(X, y)
    assert not used


def test_residuals_that_outgrow_the_integers(monkeypatch):
    """From there on it is the general way, with the predictions so far."""
    X, y = table()
    expected = sw.GradientBoostingRegressor(n_estimators=12).fit(X, y)
    calls = []
    step = ResidualWords.step

    def outgrown(self, steps):
        calls.append(0)
        peak = step(self, steps)
        return peak if len(calls) < 5 else np.inf

    monkeypatch.setattr(ResidualWords, "step", outgrown)
    model = sw.GradientBoostingRegressor(n_estimators=12).fit(X, y)
    assert len(calls) == 5
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.model_.history.train, expected.model_.history.train, rtol=1e-10)


def test_going_on_gives_the_same_model(used):
    X, y = table()
    at_once = sw.GradientBoostingRegressor(n_estimators=12).fit(X, y)
    model = sw.GradientBoostingRegressor(n_estimators=5, warm_start=True).fit(X, y)
    same(model.set_params(n_estimators=12).fit(X, y), at_once)
    assert len(used) == 24
    other = y * 1000.0  # other targets: predictions are no multiples of their unit
    model.set_params(n_estimators=15).fit(X, other)
    assert len(used) == 24
    assert len(model.model_.stages) == 15


def test_rows_of_a_table_that_others_share():
    X, y = table()
    data = sw.Dataset(X, y)
    rows = np.arange(0, len(y), 3)
    model = sw.GradientBoostingRegressor(n_estimators=8).fit(data.subset(rows))
    raw = model.predict(X[rows])
    assert model.model_.history.train[-1] == pytest.approx(np.mean((raw - y[rows]) ** 2), rel=1e-9)


def test_the_sum_of_squares_is_kept_exactly():
    X, y = table(800)
    found = []
    call = Residuals.__call__

    def watched(self, raw, option, *update):
        pairs = call(self, raw, option, *update)
        grad = np.rint(self._words.residuals() * self.packing.grad_scale).astype(np.int64)
        found.append(self._squares == sum(int(g) ** 2 for g in grad))
        return pairs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Residuals, "__call__", watched)
        sw.GradientBoostingRegressor(n_estimators=6).fit(X, y)
    assert len(found) >= 7
    assert all(found)
