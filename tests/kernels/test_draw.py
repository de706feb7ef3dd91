"""Drawing rows by score, and the pairs and codes of a sample, beside their slow twins."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from kernels.build import every_team, quantized, run
from stagewise.boosting.onesided import _SIZES
from stagewise.kernels.chances import SURE
from stagewise.kernels.draw import count_all, draw_pairs, draw_rows, gather_pairs, scatter_words, score_codes
from stagewise.kernels.exact import packing
from stagewise.kernels.lanes import COMPRESSES
from stagewise.kernels.pairs import Update
from stagewise.kernels.scores import ABSENT, CODES, NEAR, Scores
from stagewise.kernels.team import Team

KEY = np.uint64(12345678901234567)
NOBODY = np.empty(0, np.bool_)
NO_BITS = np.empty(0, np.uint16)


def codes_of(grad: np.ndarray, skip: np.ndarray, scale: float, n_threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    codes, counts = np.zeros(grad.shape[1], np.uint16), np.zeros((n_threads, CODES), np.int64)
    run(n_threads, score_codes, grad, Scores(scale, skip, codes, counts))
    return codes, counts.sum(axis=0)


@pytest.mark.nojit
@every_team
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_score_codes(n_threads, n_outputs):
    rng = np.random.default_rng(n_outputs)
    grad = rng.normal(size=(n_outputs, 2500)) * 10.0 ** rng.uniform(-12, 0, 2500)
    grad[:, :9] = 0.0
    skip = rng.random(2500) < 0.1
    scale = 2.0**-4
    codes, counts = codes_of(grad, skip, scale, n_threads)
    expected = naive.score_codes(grad, skip, scale)
    assert codes.tolist() == expected
    np.testing.assert_array_equal(counts, np.bincount(expected, minlength=CODES))


@pytest.mark.nojit
@every_team
@pytest.mark.parametrize("low", [2, 5000, 7900, CODES - 1 - NEAR])
def test_few_codes_are_told_apart(n_threads, low):
    rng = np.random.default_rng(low)
    codes = np.clip(rng.integers(low - 9, low + 2 * NEAR, 2500), 1, CODES - 1)
    grad, skip = _SIZES[codes][None], rng.random(2500) < 0.1
    found, counts = np.zeros(2500, np.uint16), np.zeros((n_threads, CODES), np.int64)
    run(n_threads, score_codes, grad, Scores(1.0, skip, found, counts, low))
    counts[:, ABSENT] = 0  # nobody asks
    np.testing.assert_array_equal(found, np.where(skip, ABSENT, codes))
    assert counts.sum(axis=0).tolist() == naive.count_codes(found[~skip], low, NEAR)


@pytest.mark.nojit
@every_team
def test_count_all(n_threads):
    codes = np.random.default_rng(0).integers(0, CODES, 3000).astype(np.uint16)
    counts = np.zeros((n_threads, CODES), np.int64)
    run(n_threads, count_all, codes, counts)
    assert counts.sum(axis=0).tolist() == naive.count_codes(codes)


@pytest.mark.nojit
def test_scores_at_the_ends():
    grad = np.array([[0.0, 1.0, np.nextafter(1.0, 0.0), 2.0**-33, 5e-324, 1e300, np.inf, np.nan]])
    codes, _ = codes_of(grad, NOBODY, 1.0)
    assert codes.tolist() == [1, CODES - 1, CODES - 2, 1, 1, CODES - 1, CODES - 1, CODES - 1]


@pytest.mark.nojit
@every_team
@pytest.mark.parametrize("n", [3000, 3008, 64, 1])
def test_draw_rows(n_threads, n):
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 6, n).astype(np.uint16)
    below, factor = np.zeros(CODES, np.uint32), np.zeros(CODES)
    below[1:6] = np.rint(np.array([0.0, 0.1, 0.5, 0.9, 1.0]) * SURE).astype(np.uint32)
    factor[1:6] = [1.0, 10.0, 2.0, 1.0 / 0.9, 1.0]
    chosen, weight = np.zeros(n, np.uint32), np.zeros(n)
    bits = np.full(-(-n // 64) if COMPRESSES else 0, 7, np.uint64)
    with Team(n_threads) as team:
        drawn, scratch = np.zeros((team.n_threads, 8), np.int64), np.zeros(n, np.uint32)
        given = team.gate, codes, KEY, below, factor, scratch, drawn
        found = team.run(draw_rows, *given, bits.view(np.uint16), chosen, weight)
        again = team.run(draw_rows, *given, NO_BITS, chosen, weight)
    rows, weights = naive.draw_rows(codes, int(KEY), below.tolist(), factor)
    assert chosen[:found].tolist() == rows
    assert again == found
    if COMPRESSES:
        assert np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist() == rows
    np.testing.assert_array_equal(weight[:found], weights)
    assert not (codes[rows] <= 1).any()  # ABSENT, and never
    assert ABSENT == 0
    assert set(np.flatnonzero(codes == 5)) <= set(rows)


@pytest.mark.nojit
@pytest.mark.parametrize("edge", [1, 2, 700, CODES - 2, CODES - 1])
@pytest.mark.parametrize(
    "shares", [(0.2, 0.6, 1.0), (0.3, 0.3, 0.3), (0.3, 0.3, 1.0), (0.2, 1.0, 1.0), (0.2, 0.5, 0.9)]
)
@pytest.mark.parametrize("other", [0, 1, 699, 701, CODES - 1])
def test_draw_rows_by_one_step(edge, shares, other):
    """One bound below a code and one above it, and perhaps a code that is not as it should be."""
    n, rng = 700, np.random.default_rng(8)
    near = np.array([0, 1, 2, 3, edge - 1, edge, edge + 1, 699, 700, 701, CODES - 2, CODES - 1])
    codes = rng.choice(near[near < CODES], n).astype(np.uint16)
    share = np.full(CODES, shares[0])
    share[edge], share[edge + 1 :], share[ABSENT] = shares[1], shares[2], 0.0
    share[other] = share[other] if other == 0 else 0.7
    below, factor = np.rint(share * SURE).astype(np.uint32), rng.random(CODES)
    chosen, weight = np.zeros(n, np.uint32), np.zeros(n)
    with Team(1) as team:
        drawn, scratch = np.zeros((1, 8), np.int64), np.zeros(n, np.uint32)
        found = team.run(draw_rows, team.gate, codes, KEY, below, factor, scratch, drawn, NO_BITS, chosen, weight)
    rows, weights = naive.draw_rows(codes, int(KEY), below.tolist(), factor)
    assert chosen[:found].tolist() == rows
    np.testing.assert_array_equal(weight[:found], weights)


def no_update(n_threads: int, words: int = 0) -> Update:
    """Packs pairs of up to 9 and 9 for 1,300 rows, if there is room for words."""
    room = np.zeros(words, np.int64), np.zeros((n_threads, 8), np.int64)
    return Update(np.empty(0, np.uint16), np.empty(0), packing(9.0, 9.0, 1300), False, *room)


@pytest.mark.nojit
@every_team
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_gather_pairs(n_threads, weighted, n_outputs):
    rng = np.random.default_rng(5)
    grad, hess = rng.uniform(-1, 1, size=(n_outputs, 2000)), rng.random((n_outputs, 2000))
    weight = rng.random(2000) if weighted else np.empty(0)
    index = np.sort(rng.permutation(2000)[:1300]).astype(np.uint32)
    times = rng.uniform(1, 9, 1300)
    out, peaks = np.zeros(1300 * (2 * n_outputs + 1) + 7), np.zeros((n_threads, 8))
    update = no_update(n_threads, 1300 if n_outputs == 1 else 0)
    run(n_threads, gather_pairs, index, times, grad, hess, weight, update, peaks, out)
    found = out[: 2600 * n_outputs].reshape(2, n_outputs, 1300)
    expected = naive.gather_pairs(index, times, grad, hess, weight)
    weights = out[2600 * n_outputs : -7] if weighted else times
    for got, twin in zip((*found, weights), expected, strict=True):
        np.testing.assert_array_equal(got, twin)
    assert peaks[:, 0].max() == np.abs(found[0]).max()
    assert peaks[:, 1].max() == found[1].max()
    assert peaks[:, 2].max() == expected[2].max()
    if n_outputs == 1:
        for by_weight in (False, True):
            update = update._replace(by_weight=by_weight)
            run(n_threads, gather_pairs, index, times, grad, hess, weight, update, peaks, out)
            packed = quantized(found[0, 0], weights if by_weight else found[1, 0], update.packing)
            np.testing.assert_array_equal(update.words, packed.words)


@pytest.mark.nojit
@every_team
@pytest.mark.parametrize("room", [3000, 5])
def test_draw_pairs(n_threads, room):
    """Both in one call; more rows than there is room for are drawn, but not gathered."""
    n = 3000
    rng = np.random.default_rng(4)
    codes, grad, hess = rng.integers(1, 4, n).astype(np.uint16), rng.normal(size=(1, n)), rng.random((1, n))
    below, factor = np.zeros(CODES, np.uint32), np.zeros(CODES)
    below[1:4] = np.rint(np.array([0.1, 0.5, 1.0]) * SURE).astype(np.uint32)
    factor[1:4] = [10.0, 2.0, 1.0]
    chosen, weight, out = np.zeros(n, np.uint32), np.zeros(n), np.full(3 * n, -7.0)
    with Team(n_threads) as team:
        drawn, peaks = np.zeros((team.n_threads, 8), np.int64), np.zeros((team.n_threads, 8))
        found = team.run(
            draw_pairs, team.gate, codes, KEY, below, factor, np.zeros(n, np.uint32), drawn, NO_BITS, chosen, weight,
            (grad, hess, np.empty(0), no_update(team.n_threads), peaks, out), room,
        )  # fmt: skip
    rows, weights, pairs = naive.draw_pairs(codes, int(KEY), below.tolist(), factor, grad, hess, np.empty(0))
    assert chosen[:found].tolist() == rows
    np.testing.assert_array_equal(weight[:found], weights)
    if room < found:
        assert (out == -7.0).all()
    else:
        np.testing.assert_array_equal(out[: 2 * found], np.concatenate([pairs[0][0], pairs[1][0]]))


@pytest.mark.nojit
@every_team
@pytest.mark.parametrize("narrow", [True, False])
def test_scatter_words(n_threads, narrow):
    rng = np.random.default_rng(6)
    n, m = 4000, 1500
    grad, hess = rng.normal(size=m), rng.random(m)
    index = rng.permutation(n)[:m].astype(np.uint32)
    chosen = packing(np.abs(grad).max(), hess.max(), m, narrow=narrow)
    words, more, lost = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros((n_threads, 8), np.int64)
    run(n_threads, scatter_words, index, grad, hess, chosen, words, more, lost)
    expected = quantized(grad, hess, chosen)
    for got, packed in ((words, expected.words), (more, np.zeros(m, np.int64) if narrow else expected.more_words)):
        np.testing.assert_array_equal(got, naive.scatter_words(packed, index, n))
    assert lost[:, 0].sum() == expected.lost
