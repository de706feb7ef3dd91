"""Sampling by gradients: who is drawn, how often, what for; the same rows on any number of threads."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import stagewise as sw
from stagewise.boosting.onesided import _SIZES, GossSampler, ScoreSampler, VarianceSampler
from stagewise.boosting.pairs import NO_UPDATE, Pairs
from stagewise.boosting.sampling import Rows
from stagewise.errors import ParameterError
from stagewise.kernels.draw import score_codes
from stagewise.kernels.scores import CODES, NEAR
from stagewise.kernels.team import Team

sys.path.insert(0, str(Path(__file__).parents[1] / "estimators"))
from fingerprint import difference

N = 4000


def pairs_of(grad: np.ndarray) -> Pairs:
    grad = np.atleast_2d(grad)
    return Pairs(grad, np.ones_like(grad), float(np.abs(grad).max()), 1.0, 0.0)


def goss(skip: np.ndarray, team: Team, top: float = 0.2, rest: float = 0.1, warm_up: int = 0) -> GossSampler:
    return GossSampler(len(skip), skip, team, 3, warm_up, top, rest)


def samples(sampler: ScoreSampler, stages: int) -> list[Rows]:
    """Copies: a sampler writes the next stage's rows over the last one's."""
    drawn = (sampler(stage, pairs_of(GRAD)) for stage in range(stages))
    return [Rows(rows.index.copy(), None, rows.weight.copy()) for rows in drawn]


NOBODY = np.zeros(N, np.bool_)
GRAD = np.random.default_rng(0).normal(size=N)


def test_the_largest_are_all_there_and_some_of_the_rest():
    with Team(1) as team:
        rows = goss(NOBODY, team)(0, pairs_of(GRAD))
    order = np.argsort(-np.abs(GRAD))
    edge = np.abs(GRAD[order[N // 5]])
    assert set(np.flatnonzero(np.abs(GRAD) > 1.01 * edge)) <= set(rows.index)
    assert (np.diff(rows.index.astype(int)) > 0).all()
    top = np.abs(GRAD[rows.index]) > 1.01 * edge
    rest = np.abs(GRAD[rows.index]) < 0.99 * edge
    assert (rows.weight[top] == 1.0).all()
    np.testing.assert_allclose(rows.weight[rest], 8.0, rtol=1e-15)
    assert rest.sum() == pytest.approx(0.1 * N, abs=5 * np.sqrt(0.1 * N))


@pytest.mark.parametrize("kind", ["goss", "mvs"])
def test_sums_are_right_on_average(kind):
    """Horvitz and Thompson: a row that is drawn with probability p counts 1/p times."""
    with Team(1) as team:
        sampler = goss(NOBODY, team) if kind == "goss" else VarianceSampler(N, NOBODY, team, 3, 0.3)
        drawn = samples(sampler, 400)
        sums = np.array([(GRAD[rows.index] * rows.weight).sum() for rows in drawn])
        assert sums.mean() == pytest.approx(GRAD.sum(), abs=5 * sums.std() / 20)
        assert np.mean([rows.weight.sum() for rows in drawn]) == pytest.approx(N, rel=0.01)
        assert np.mean([len(rows.index) for rows in drawn]) == pytest.approx(0.3 * N, rel=0.02)


def test_minimal_variance():
    """At the same number of rows, sums of gradients vary less than with a uniform sample and than with goss, which are
    about equal where gradients are normally distributed."""
    with Team(1) as team:
        deviations = []
        for sampler in (goss(NOBODY, team), VarianceSampler(N, NOBODY, team, 3, 0.3)):
            drawn = samples(sampler, 300)
            deviations.append(np.std([(GRAD[rows.index] * rows.weight).sum() for rows in drawn]))
    uniform = np.sqrt((GRAD**2).sum() * 0.7 / 0.3)
    assert deviations[1] < 0.9 * min(deviations[0], uniform)


def test_gradients_of_one_size_are_drawn_alike():
    grad = np.where(GRAD > 0.0, 1.0, -1.0)
    with Team(1) as team:
        for sampler in (goss(NOBODY, team), VarianceSampler(N, NOBODY, team, 3, 0.3)):
            rows = sampler(0, pairs_of(grad))
            np.testing.assert_allclose(rows.weight, 1.0 / 0.3, rtol=1e-12)
            assert len(rows.index) == pytest.approx(0.3 * N, rel=0.1)


@pytest.mark.parametrize("scale", [1e-280, 1e-20, 1.0, 1e20, 1e290])
def test_scale_does_not_matter(scale):
    with Team(1) as team:
        for sampler in (goss(NOBODY, team), VarianceSampler(N, NOBODY, team, 3, 0.3)):
            usual = sampler(5, pairs_of(GRAD)).index.copy()
            power = 2.0 ** np.round(np.log2(scale))
            rows = sampler(5, pairs_of(GRAD * power))
            assert len(rows.index) > 0.2 * N
            if 1e-260 < scale < 1e280:
                np.testing.assert_array_equal(rows.index, usual)


def test_rows_that_take_no_part():
    skip = np.arange(N) % 3 == 0
    grad = np.where(skip, 0.0, GRAD)
    with Team(2) as team:
        for sampler in (goss(skip, team), VarianceSampler(N, skip, team, 3, 0.3)):
            rows = sampler(0, pairs_of(grad))
            assert not skip[rows.index].any()
            assert len(rows.index) == pytest.approx(0.3 * (~skip).sum(), rel=0.1)


@pytest.mark.parametrize("grad", [np.zeros(5), np.ones(1), np.array([1.0, 0.0])])
def test_hardly_any_rows(grad):
    skip = np.zeros(len(grad), np.bool_)
    with Team(1) as team:
        for stage in range(30):
            for sampler in (goss(skip, team), VarianceSampler(len(grad), skip, team, 3, 0.3)):
                rows = sampler(stage, pairs_of(grad))
                assert len(rows.index) == len(rows.weight)
                assert np.isfinite(rows.weight).all()


def test_warm_up():
    with Team(1) as team:
        sampler = goss(NOBODY, team, warm_up=3)
        assert [len(sampler(stage, pairs_of(GRAD)).index) > 0 for stage in range(5)] == [False] * 3 + [True] * 2
    X, y = data()
    model = sw.GradientBoostingRegressor(n_estimators=8, learning_rate=0.05, sampling="goss").fit(X, y)
    assert (model.history_.rows[:4] == len(y)).all()
    assert (model.history_.rows[4:] < 0.5 * len(y)).all()


def test_scores_that_were_found_ahead():
    """The same rows whether they were scored while the loss was evaluated or not, and on the right scale or not."""
    with Team(1) as team:
        for factor in (1.0, 0.01, 300.0):
            sampler, plain = goss(NOBODY, team, warm_up=1), goss(NOBODY, team, warm_up=1)
            assert sampler.foresee(0, NO_UPDATE) is NO_UPDATE
            sampler(0, pairs_of(GRAD))
            update, grad = sampler.foresee(1, NO_UPDATE), factor * GRAD
            team.run(score_codes, grad[None], update.scores)  # what the kernel of the loss does
            rows, expected = sampler(1, pairs_of(grad)), plain(1, pairs_of(grad))
            np.testing.assert_array_equal(rows.index, expected.index)
            np.testing.assert_array_equal(rows.weight, expected.weight)
            sampler.foresee(2, NO_UPDATE)  # and nobody scores
            expected = plain(2, pairs_of(grad)).index.copy()
            np.testing.assert_array_equal(sampler(2, pairs_of(grad)).index, expected)
            update = sampler.foresee(3, NO_UPDATE)  # codes of another stage must not be taken for these
            team.run(score_codes, np.abs(GRAD)[::-1].copy()[None], update.scores)
            rows = sampler(3, pairs_of(8.0 * grad))
            np.testing.assert_array_equal(rows.index, plain(3, pairs_of(8.0 * grad)).index)


def test_an_edge_that_moves():
    """Codes are counted where the edge is expected; wherever it is, the rows are those that all codes would give."""
    rng = np.random.default_rng(7)
    with Team(2) as team:
        sampler, plain = goss(NOBODY, team), goss(NOBODY, team)
        missed = 0
        for stage, size in enumerate([1.0, 0.999, 0.998, 0.98, 0.6, 0.61, 0.61, 1.9, 1e-9, 1e-9, 0.0, 1.0, 1.0]):
            grad = np.abs(size * GRAD) + 1e-3 * rng.random(N)
            grad[0] = 8.0  # the scale stays
            update = sampler.foresee(stage, NO_UPDATE)
            if stage > 0:
                assert update.scores.low > 0
                team.run(score_codes, grad[None], update.scores)  # what the kernel of the loss does
            rows, expected = sampler(stage, pairs_of(grad)), plain(stage, pairs_of(grad))
            np.testing.assert_array_equal(rows.index, expected.index)
            np.testing.assert_array_equal(rows.weight, expected.weight)
            missed += not (update.scores.low <= sampler._edge < update.scores.low + NEAR)
            plain._edge = 0  # it counts all codes
            assert not sampler._counts.any()
        assert 3 <= missed <= 10


def test_sizes_belong_to_codes():
    assert _SIZES[CODES - 1] == 1.0
    assert _SIZES[CODES - 257] == 0.5
    assert (np.diff(_SIZES) > 0.0).all()


# --- whole fits ------------------------------------------------------------------------------------------------------


def data(n: int = 1500, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[rng.random(X.shape) < 0.03] = np.nan
    return X, np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + 0.3 * rng.normal(size=n)


LOSSES = ["squared_error", "absolute_error", "huber", "quantile", "poisson", "log_loss", "exponential", "three classes"]
SAMPLINGS = [{"sampling": "goss"}, {"sampling": "mvs", "subsample": 0.3}]
both = pytest.mark.parametrize("sampling", SAMPLINGS, ids=["goss", "mvs"])


def build(loss: str, sampling: dict[str, object]) -> tuple[object, np.ndarray, np.ndarray]:
    X, y = data()
    settings = {"n_estimators": 12, "learning_rate": 0.4, "min_samples_leaf": 5, **sampling}
    if loss in ("log_loss", "exponential", "three classes"):
        y = np.digitize(y, [0.0] if loss != "three classes" else [-0.5, 0.5])
        name = "log_loss" if loss == "three classes" else loss
        return sw.GradientBoostingClassifier(name, **settings), X, y
    return sw.GradientBoostingRegressor(loss, **settings), X, np.exp(0.3 * y) if loss == "poisson" else y


@both
@pytest.mark.parametrize("loss", LOSSES)
def test_the_same_model_on_any_number_of_threads(loss, sampling, monkeypatch):
    monkeypatch.setattr("stagewise.backends.pace._WORK_A_THREAD", 1)
    model, X, y = build(loss, sampling)
    weight = np.random.default_rng(2).integers(0, 4, len(y)).astype(float)
    one, *others = (
        type(model)(**{**model.get_params(), "n_jobs": jobs}).fit(X, y, weight) for jobs in (1, 2, 3)
    )  # fmt: skip
    assert [difference(one, other) for other in others] == ["", ""]


@both
@pytest.mark.parametrize("loss", LOSSES)
def test_learns_as_well_as_from_all_rows(loss, sampling):
    model, X, y = build(loss, sampling)
    full = type(model)(**{**model.get_params(), "sampling": "uniform", "subsample": 1.0}).fit(X, y)
    model.fit(X, y)
    start, end = model.history_.initial, model.history_.train[-1]
    assert end < start
    assert start - end > 0.6 * (full.history_.initial - full.history_.train[-1])


@both
@pytest.mark.parametrize("loss", ["squared_error", "huber", "log_loss", "three classes"])
def test_a_checkpoint_and_a_warm_start_end_with_the_same_bytes(loss, sampling, tmp_path):
    model, X, y = build(loss, sampling)
    model.fit(X, y)
    again, _, _ = build(loss, sampling)
    again.set_params(n_estimators=7).fit(X, y, checkpoint=tmp_path, every=3)
    again.set_params(n_estimators=12).fit(X, y, checkpoint=tmp_path, every=3)
    assert difference(model, again) == ""
    warm, _, _ = build(loss, sampling)
    warm.set_params(n_estimators=7, warm_start=True).fit(X, y)
    warm.set_params(n_estimators=12).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), warm.predict(X))


@both
def test_early_stopping(sampling):
    X, y = data()
    model = sw.GradientBoostingRegressor(
        n_estimators=300, learning_rate=0.5, early_stopping=True, n_iter_no_change=5, **sampling
    ).fit(X, y)
    assert model.n_estimators_ < 300
    assert (model.history_.rows[2:] < 0.5 * len(y)).all()


@both
def test_leaves_are_weighted_means_of_the_rows_drawn(sampling):
    """One stage of squared error: each leaf is Σ w·r / Σ w over the drawn rows in it, and its cover Σ w."""
    X, y = data()
    X = np.nan_to_num(X)
    settings = {"n_estimators": 2, "learning_rate": 1.0, "max_leaf_nodes": 6, **sampling}
    model = sw.GradientBoostingRegressor(**settings).fit(X, y)
    first = sw.GradientBoostingRegressor(**{**settings, "n_estimators": 1}).fit(X, y)
    residual = y - first.predict(X)
    skip = np.zeros(len(y), np.bool_)
    with Team(1) as team:
        sampler = (
            GossSampler(len(y), skip, team, 0, 1, 0.2, 0.1)
            if sampling["sampling"] == "goss"
            else VarianceSampler(len(y), skip, team, 0, 0.3)
        )
        rows = sampler(1, pairs_of(-residual))
    tree, leaf = model.model_.stages[1][0], model.apply(X)[rows.index, 1]
    for node in tree.leaves:
        own = leaf == node
        assert tree.count[node] == own.sum()
        mean = np.average(residual[rows.index][own], weights=rows.weight[own])
        assert tree.value[node] == pytest.approx(mean, rel=1e-9)
        assert tree.cover[node] == pytest.approx(rows.weight[own].sum())


@both
@pytest.mark.parametrize("kind", ["few leaves", "many leaves", "symmetric", "sets", "bundles"])
def test_all_rows_get_the_tree(kind, sampling, monkeypatch):
    """The deviance that training reports is that of the predictions: no row, drawn or not, has another leaf."""
    monkeypatch.setattr("stagewise.backends.pace._WORK_A_THREAD", 1)
    rng = np.random.default_rng(7)
    X, y = data(3000)
    settings = {"n_estimators": 6, "learning_rate": 0.5, "min_samples_leaf": 2, "n_jobs": 2, **sampling}
    if kind == "sets":
        X[:, 4] = rng.integers(0, 12, len(y))
        settings["categorical_features"] = [4]
        y = y + X[:, 4] % 3
    elif kind == "bundles":
        X = csr_array(np.hstack([np.eye(30)[rng.integers(0, 30, len(y))], np.nan_to_num(X[:, :1])]))
    elif kind == "symmetric":
        settings["growth"] = "symmetric"
    model = sw.GradientBoostingRegressor(max_leaf_nodes=400 if kind == "many leaves" else 20, **settings).fit(X, y)
    assert model.history_.train[-1] == pytest.approx(np.mean((y - model.predict(X)) ** 2), rel=1e-12)
    one = sw.GradientBoostingRegressor(**{**model.get_params(), "n_jobs": 1}).fit(X, y)
    assert difference(model, one) == ""
    if kind == "bundles":
        assert difference(sw.GradientBoostingRegressor(**model.get_params()).fit(X.toarray(), y), one) == ""


@both
def test_codes_on_disk(sampling, tmp_path):
    X, y = data()
    one = sw.GradientBoostingRegressor(n_estimators=6, learning_rate=0.5, **sampling).fit(sw.Dataset(X, y))
    sw.Dataset(X, y).save(tmp_path / "rows")
    other = sw.GradientBoostingRegressor(n_estimators=6, learning_rate=0.5, **sampling)
    assert difference(one, other.fit(sw.Dataset.load(tmp_path / "rows"))) == ""


def test_what_does_not_go_together():
    X, y = data(100)
    with pytest.raises(ParameterError, match="has no meaning with sampling='goss'"):
        sw.GradientBoostingRegressor(sampling="goss", subsample=0.5).fit(X, y)
    with pytest.raises(ParameterError, match="use one of them"):
        sw.GradientBoostingClassifier(sampling="goss", influence_trimming=0.1).fit(X, y > 0)
    with pytest.raises(ParameterError, match="cannot exceed 1"):
        sw.GradientBoostingRegressor(sampling="goss", goss_top=0.6, goss_rest=0.5).fit(X, y)


def test_mvs_of_all_rows_is_no_sampling():
    X, y = data(300)
    one = sw.GradientBoostingRegressor(n_estimators=3, sampling="mvs").fit(X, y)
    assert difference(one, sw.GradientBoostingRegressor(n_estimators=3).fit(X, y)) == ""
