"""Gradient, second derivative and value of each loss beside the textbook, and gradients as integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from kernels.build import NOTHING, Evaluated, evaluate, every_team, integers, quantized, quick, unpack, unpack_wide
from stagewise.kernels import pairs
from stagewise.kernels.exact import packing
from stagewise.kernels.pairs import CHUNK, Update
from stagewise.kernels.scores import CODES, Scores

# name of the kernel, option, kind of target
LOSSES = [
    ("squared_error", 0.0, "real"),
    ("absolute_error", 0.0, "real"),
    ("huber", 0.7, "real"),
    ("huber", 0.0, "real"),
    ("quantile", 0.9, "real"),
    ("quantile", 0.25, "real"),
    ("tweedie", 1.0, "count"),
    ("tweedie", 1.5, "count"),
    ("tweedie", 1.9, "count"),
    ("tweedie", 2.0, "positive"),
    ("log_loss", 0.0, "two"),
    ("exponential", 0.0, "two"),
]
every_loss = pytest.mark.parametrize("name, option, target", LOSSES)


def targets(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    if kind == "real":
        return rng.normal(size=n)
    if kind == "count":
        return rng.poisson(1.0, n).astype(float)
    return rng.integers(0, 2, n).astype(float) if kind == "two" else rng.exponential(size=n) + 1e-3


def beside(got: Evaluated, twin: naive.Losses, rel: float = 4e-15) -> None:
    """Both agree; what cancels may do so relative to the size of its parts."""
    np.testing.assert_allclose(got.grad, twin.grad, rtol=rel, atol=rel * np.abs(twin.grad).max(initial=1e-300))
    np.testing.assert_allclose(got.hess, twin.hess, rtol=rel, atol=rel * np.abs(twin.hess).max(initial=1e-300))
    peaks = [np.abs(twin.grad).max(initial=0), twin.hess.max(initial=0), np.abs(twin.value).max(initial=0)]
    np.testing.assert_allclose(got.peaks, peaks, rtol=1e-13)
    assert got.peaks[0] == np.abs(got.grad).max(initial=0)
    assert got.peaks[1] == got.hess.max(initial=0)
    assert got.total == pytest.approx(math.fsum(twin.value), rel=1e-13, abs=1e-14 * math.fsum(np.abs(twin.value)))


@pytest.mark.nojit
@every_loss
@pytest.mark.parametrize("weighted", [False, True])
def test_a_loss_and_its_derivatives(name, option, target, weighted):
    rng = np.random.default_rng(0)
    n = 50
    y, f = targets(rng, n, target), rng.normal(size=n)
    weight = rng.exponential(size=n) if weighted else NOTHING
    if weighted:
        weight[::7] = 0.0
    if target == "real":
        f[:5] = y[:5]  # the kink
    got = evaluate(getattr(pairs, f"{name}_pairs"), y, f, weight, option)
    beside(got, naive.TWINS[f"pairs.{name}_pairs"](y, f, weight, option))


@pytest.mark.nojit
@every_loss
@pytest.mark.parametrize("by_weight", [False, True])
@pytest.mark.parametrize("labels_of", [np.uint16, np.uint32])
def test_a_tree_is_added_and_pairs_are_packed_on_the_way(name, option, target, by_weight, labels_of):
    """The same bits as adding first, evaluating, and packing afterwards."""
    rng = np.random.default_rng(len(name))
    n, kernel = 70, getattr(pairs, f"{name}_pairs")
    y, f, weight = targets(rng, n, target), rng.normal(size=n), rng.exponential(size=n)
    labels, leaves = rng.integers(0, 5, n).astype(labels_of), rng.normal(size=5)
    unit = 2.0**20
    apart = evaluate(kernel, y, f + leaves[labels], weight, option, unit=unit)
    chosen = packing(*apart.peaks[:2], n)
    lost = np.zeros((1, 8), np.int64)
    scores = Scores(0.125, rng.random(n) < 0.2, np.empty(n, np.uint16), np.zeros((1, CODES), np.int64))
    update = Update(labels, leaves, chosen, by_weight, np.empty(n, np.int64), lost, scores)
    raw = f.copy()
    together = evaluate(kernel, y, raw, weight, option, unit=unit, update=update)
    np.testing.assert_array_equal(raw, f + leaves[labels])
    np.testing.assert_array_equal(together.grad, apart.grad)
    np.testing.assert_array_equal(together.hess, apart.hess)
    assert together.total == apart.total
    expected = quantized(apart.grad, weight if by_weight else apart.hess, chosen)
    np.testing.assert_array_equal(update.words, expected.words)
    assert lost[0, 0] == expected.lost
    assert scores.codes.tolist() == naive.score_codes(apart.grad[None], scores.skip, scores.scale)
    np.testing.assert_array_equal(scores.counts[0], np.bincount(scores.codes, minlength=CODES))


@pytest.mark.nojit
def test_peaks_leave_out_nan():
    y, f = np.array([0.0, 1.0, 2.0]), np.array([np.nan, 4.0, -np.inf])
    assert evaluate(pairs.squared_error_pairs, y[:2], f[:2], unit=1.0).peaks[0] == 3.0
    assert evaluate(pairs.squared_error_pairs, y, f, unit=1.0).peaks[0] == np.inf


@pytest.mark.nojit
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_classes(classes, weighted):
    rng = np.random.default_rng(classes)
    n = 40
    y, f = rng.integers(0, classes, n).astype(float), rng.normal(size=(classes, n)) * 3
    weight = rng.exponential(size=n) if weighted else NOTHING
    for factor in (classes / (classes - 1), 1.0, 2.0):
        got = evaluate(pairs.multiclass_pairs, y, f, weight, factor)
        beside(got, naive.multiclass_pairs(y, f, weight, factor))


@pytest.mark.nojit
def test_two_of_many_classes_are_two_classes():
    """With f = (0, log-odds) the second class's gradient is that of log-loss; hess has Friedman's K/(K - 1) = 2."""
    rng = np.random.default_rng(3)
    y, f = rng.integers(0, 2, 30).astype(float), rng.normal(size=30) * 2
    two = evaluate(pairs.log_loss_pairs, y, f)
    many = evaluate(pairs.multiclass_pairs, y, np.vstack([np.zeros(30), f]), option=2.0)
    np.testing.assert_allclose(many.grad[1], two.grad, rtol=1e-13)
    np.testing.assert_allclose(many.hess[1], 2 * two.hess, rtol=1e-13)
    assert many.total == pytest.approx(two.total, rel=1e-13)


@pytest.mark.nojit
@every_loss
def test_far_from_the_target_everything_stays_finite(name, option, target):
    f = np.array([-600.0, -300.0, -40.0, 40.0, 300.0, 600.0])
    y = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]) + (target == "positive")
    got = evaluate(getattr(pairs, f"{name}_pairs"), y, f, option=option)
    with np.errstate(under="ignore"):
        twin = naive.TWINS[f"pairs.{name}_pairs"](y, f, NOTHING, option)
    # e^-600 is as good as 0; what is large is right to an ulp or two of exp
    np.testing.assert_allclose(got.grad, twin.grad, rtol=1e-13, atol=1e-250)
    np.testing.assert_allclose(got.hess, twin.hess, rtol=1e-13, atol=1e-250)
    assert got.total == pytest.approx(math.fsum(twin.value), rel=1e-13)


@pytest.mark.nojit
def test_sure_classes_do_not_overflow():
    f = np.array([[800.0, 0.0, -800.0], [0.0, 800.0, 0.0], [-800.0, 0.0, 800.0]])
    got = evaluate(pairs.multiclass_pairs, np.array([0.0, 1.0, 0.0]), f, option=1.5)
    np.testing.assert_allclose(got.grad, [[0, 0, -1], [0, 0, 0], [0, 0, 1]], atol=1e-300)
    np.testing.assert_allclose(got.hess, 0.0, atol=1e-300)
    assert got.total == pytest.approx(1600.0, rel=1e-13)


@pytest.mark.nojit
def test_a_value_beyond_the_unit_counts_as_the_unit():
    """A deviance that explodes reads as very large, never as NaN."""
    y, f = np.zeros(3), np.array([1.0, 1e200, 1.0])
    assert evaluate(pairs.squared_error_pairs, y, f, unit=2.0**30).total == 2.0**30 + 2.0
    f[1] = 1e155  # its square is infinite
    got = evaluate(pairs.squared_error_pairs, y, np.array([1.0, 1e155, 1.0]), unit=2.0**30)
    assert got.total == 2.0**30 + 2.0


@every_team
@every_loss
def test_threads_do_not_matter(name, option, target, n_threads):
    rng = np.random.default_rng(1)
    kernel = getattr(pairs, f"{name}_pairs")
    for n in [1, 5, 2 * CHUNK + 17]:
        y, f, weight = targets(rng, n, target), rng.normal(size=n), rng.exponential(size=n)
        alone, team = (evaluate(kernel, y, f, weight, option, threads) for threads in (1, n_threads))
        for a, b in zip(alone, team, strict=True):
            np.testing.assert_array_equal(a, b)
        beside(team, naive.TWINS[f"pairs.{name}_pairs"](y, f, weight, option), rel=1e-13)


@every_team
def test_threads_do_not_matter_for_many_classes(n_threads):
    rng = np.random.default_rng(1)
    n = 2 * CHUNK + 17
    y, f, weight = rng.integers(0, 4, n).astype(float), rng.normal(size=(4, n)), rng.exponential(size=n)
    alone, team = (evaluate(pairs.multiclass_pairs, y, f, weight, 4 / 3, threads) for threads in (1, n_threads))
    for a, b in zip(alone, team, strict=True):
        np.testing.assert_array_equal(a, b)
    beside(team, naive.multiclass_pairs(y, f, weight, 4 / 3), rel=1e-13)


@pytest.mark.nojit
@every_loss
def test_the_gradient_is_the_slope_of_the_value(name, option, target):
    """Central differences of the value itself: the twins' formulas and the kernels' could share a mistake."""
    if name == "huber" and option == 0.0:
        pytest.skip("flat")
    rng = np.random.default_rng(8)
    kernel = getattr(pairs, f"{name}_pairs")
    step = 1e-5
    for _ in range(8):
        y, f = targets(rng, 1, target), rng.normal(size=1)
        low, here, high = (evaluate(kernel, y, f + d, option=option) for d in (-step, 0.0, step))
        slope = (high.total - low.total) / (2 * step) / (2 if name == "squared_error" else 1)
        assert here.grad[0] == pytest.approx(slope, rel=1e-6, abs=1e-8)
        if name not in ("huber", "quantile", "absolute_error"):
            assert here.hess[0] == pytest.approx((high.grad[0] - low.grad[0]) / (2 * step), rel=1e-6, abs=1e-8)


# ----------------------------------------------------------------------------------------------------------- integers

floats = st.floats(-1.0, 1.0)


@pytest.mark.nojit
@quick
@given(st.lists(st.tuples(floats, st.floats(0.0, 1.0)), min_size=1, max_size=30), st.booleans(), st.booleans())
def test_quantize(rows, narrow, constant):
    grad = np.array([g for g, _ in rows])
    hess = np.ones(len(rows)) if constant else np.array([h for _, h in rows])
    peaks = float(np.abs(grad).max()), float(hess.max())
    chosen = packing(*peaks, len(rows), narrow=narrow, constant_hess=constant)
    got = quantized(grad, hess, chosen)
    g, h = integers(grad, hess, chosen)
    for i in range(len(rows)):
        if narrow:
            assert unpack(int(got.words[i]), chosen) == (g[i], h[i], 1)
        else:
            assert unpack_wide(int(got.words[i]), int(got.more_words[i]), chosen) == (g[i], h[i], 1)
    assert got.lost == (np.count_nonzero((np.abs(g) < 8) & (grad != 0.0)) if narrow else 0)


@pytest.mark.nojit
@pytest.mark.parametrize("narrow", [True, False])
def test_halves_go_to_the_even_neighbour(narrow):
    chosen = packing(1.0, 1.0, 9, narrow=narrow)
    steps = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 7.49, 7.5, 8.5, 2.0**20])
    got = quantized(steps / chosen.grad_scale, np.abs(steps) / chosen.hess_scale, chosen)
    words = zip(got.words.tolist(), got.more_words.tolist() if got.more_words.size > 1 else [0] * 9, strict=True)
    decoded = [unpack(word, chosen) if narrow else unpack_wide(word, more, chosen) for word, more in words]
    assert [grad for grad, _, _ in decoded] == [0, 2, 2, 0, -2, 7, 8, 8, 2**20]
    assert [hess for _, hess, _ in decoded[:-1]] == [0, 2, 2, 0, 2, 7, 8, 8]
    assert got.lost == (6 if narrow else 0), "gradients under 8 steps"


@every_team
@pytest.mark.parametrize("narrow", [True, False])
def test_quantize_on_threads(n_threads, narrow):
    rng = np.random.default_rng(4)
    grad, hess = rng.standard_cauchy(1003), rng.random(1003)
    chosen = packing(float(np.abs(grad).max()), float(hess.max()), len(grad), narrow=narrow)
    alone, team = quantized(grad, hess, chosen), quantized(grad, hess, chosen, n_threads)
    np.testing.assert_array_equal(alone.words, team.words)
    np.testing.assert_array_equal(alone.more_words, team.more_words)
    assert alone.lost == team.lost
    g, _ = integers(grad, hess, chosen)
    assert team.lost == (np.count_nonzero((np.abs(g) < 8) & (grad != 0.0)) if narrow else 0)


@every_team
@pytest.mark.nojit
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_sigmoid(factor, n_threads):
    """Probabilities of two classes; they add up to 1 and neither is lost when the other is nearly certain."""
    raw = np.concatenate([np.random.default_rng(5).normal(size=40) * 8.0, [0.0, -0.0, 300.0, -300.0]])
    out = np.empty((len(raw), 2))
    for tid in range(n_threads):
        pairs.sigmoid(tid, n_threads, raw, factor, out)
    np.testing.assert_allclose(out, naive.sigmoid(raw, factor), rtol=1e-14)
    np.testing.assert_allclose(out.sum(axis=1), 1.0, rtol=1e-15)
