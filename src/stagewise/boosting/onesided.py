"""Stages on rows that are drawn by the size of their gradients, with weights that make up for it.

Every row has a score and every score (up to 1/256 of it: kernels/scores.py) a probability p with which its rows are
drawn, each on its own, by the hash of stage and row number; a row that is drawn counts 1/p times. So whatever the
probabilities are, sums over the rows drawn estimate those over all rows without bias, and what is left to choose is
their variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from stagewise.backends.samples import Drawn
from stagewise.boosting.pairs import NO_UPDATE, Pairs
from stagewise.boosting.sampling import Rows, Sampler
from stagewise.data.shard import Shard
from stagewise.kernels.chances import goss_chances, variance_chances
from stagewise.kernels.draw import count_all, draw_pairs, draw_rows, gather_pairs, score_codes
from stagewise.kernels.exact import power_above, stream_key
from stagewise.kernels.pairs import Update
from stagewise.kernels.scores import CODES, NEAR, Scores
from stagewise.kernels.team import Team

__all__ = ["Gather", "GossSampler", "ScoreSampler", "VarianceSampler"]

_PURPOSE = 0x73636F72  # "scor"
_SIZES = np.ldexp(1.0 + (np.arange(CODES) + 1) % 256 / 256.0, (np.arange(CODES) + 1) // 256 - CODES // 256)
"""The least score of each code, as a share of the largest one possible."""
_SQUARES = _SIZES**2
_NO_BITS = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Gather:
    """What a sample needs beside the pairs of all rows: the weights of all rows (empty: 1 each), how pairs of one
    output are to be packed on the way, and where to leave word of which rows were drawn."""

    weight: np.ndarray = field(default_factory=lambda: np.empty(0))
    foresee: Callable[[], Update] = lambda: NO_UPDATE
    drawn: Drawn = field(default_factory=lambda: Drawn(_NO_BITS))


class ScoreSampler(Sampler):
    """Draws rows with probabilities that depend on their scores. The next call overwrites the arrays of the last."""

    def __init__(
        self, n_rows: int, skip: np.ndarray, team: Team, seed: int, warm_up: int = 0, shard: Shard | None = None,
        gather: Gather | None = None,
    ) -> None:  # fmt: skip
        super().__init__(n_rows, skip, shard)
        self.team, self.seed, self.warm_up, self.gather = team, seed, warm_up, gather or Gather()
        self._skip = skip if skip.any() else np.empty(0, np.bool_)
        self._codes = np.empty(n_rows, np.uint16)
        self._counts = np.zeros((team.n_threads, CODES), np.int64)  # who reads them clears them
        self._sums, self._below, self._times = np.empty(CODES, np.int64), np.zeros(CODES, np.uint32), np.ones(CODES)
        self._scratch, self._chosen = np.empty((2, n_rows), np.uint32)
        self._weight = np.empty(n_rows)
        self._portion = np.empty(0)
        self._scale = 0.0  # of the last scores
        self._ahead: Scores | None = None  # scores that were found while the loss was evaluated

    def chances(self, lines: np.ndarray) -> float:
        """From the number of rows of each code, in lines that are added up and cleared, `_below` and `_times` as
        `draw_rows` takes them. How many rows are drawn on average; 0 if none was counted."""
        raise AssertionError("a sampler says how likely rows are drawn")

    def foresee(self, stage: int, update: Update) -> Update:
        """The scale changes rarely between stages; when it does, rows are scored anew, so the result is the same."""
        self._ahead = None
        if stage >= self.warm_up and self._scale > 0.0:
            self._ahead = self._scores()
            update = update._replace(scores=self._ahead)
        return update

    def __call__(self, stage: int, pairs: Pairs | None = None) -> Rows:
        assert pairs is not None
        self._scale = 1.0 / power_above(pairs.grad_peak * len(pairs.grad))
        ahead, self._ahead = self._ahead, None
        if stage < self.warm_up:
            return self.all
        expected = self._expected() if ahead is not None and ahead.scale == self._scale else 0.0
        if expected == 0.0:  # nothing was foreseen, or by a loss whose kernel does not score rows
            self._counts[:] = 0
            self.team.run(score_codes, pairs.grad, self._scores())
            expected = self._expected()
        index, times, seen = self._drawn(stage, pairs, expected)
        if self.reducer.count(len(index)) == 0:  # a handful of rows, and none of them drawn
            return self.all
        return Rows(index, None, times, seen)

    def _expected(self) -> float:
        """How many rows will be drawn, on average, now that chances follow from the counts."""
        lines = self._counts
        if self.reducer.size > 1:
            lines = self.reducer.sum(lines.sum(axis=0))[None]
            self._counts[:] = 0
        return self.chances(lines)

    def _drawn(self, stage: int, pairs: Pairs, expected: float) -> tuple[np.ndarray, np.ndarray, Pairs]:
        """The rows, how many times each counts, and their pairs times that."""
        key, k, threads = stream_key(self.seed, _PURPOSE, stage), len(pairs.grad), self.team.n_threads
        peaks, weight = np.zeros((threads, 8)), self.gather.weight
        update = self.gather.foresee() if k == 1 else NO_UPDATE
        n = gathered = 0
        if self.shard is None:
            gathered = min(self.n_rows, int(expected + 8.0 * math.sqrt(expected)) + 64)
            draw = self._draw_arguments(0, self.n_rows, key, 0, self.gather.drawn.bits)
            rest = (pairs.grad, pairs.hess, weight, update, peaks, self._room(k, gathered))
            n = self.team.run(draw_pairs, *draw, rest, gathered)
        else:
            for start, stop, own in self.shard.runs(key):  # whose rows have neighbouring numbers
                here = self.team.run(draw_rows, *self._draw_arguments(start, stop, own, n))
                self._chosen[n : n + here] += np.uint32(start)
                n += here
        index, factor, room = self._chosen[:n], self._weight[:n], self._room(k, n)
        self.gather.drawn.rows = index if self.shard is None else None
        if n > gathered:  # of a shard; or against all odds
            self.team.run(gather_pairs, index, factor, pairs.grad, pairs.hess, weight, update, peaks, room)
        grad, hess = room[: 2 * k * n].reshape(2, k, n)
        of_grad, of_hess, of_weight = self.reducer.max(peaks[:, :3].max(axis=0)).tolist()
        weights = room[2 * k * n : (2 * k + 1) * n] if len(weight) else factor
        return index, factor, Pairs(grad, hess, of_grad, of_hess, pairs.deviance, weights, of_weight)

    def _draw_arguments(
        self, start: int, stop: int, key: np.uint64, n: int, bits: np.ndarray = _NO_BITS
    ) -> tuple[object, ...]:
        """Of `draw_rows`, for rows start..stop, when n rows have been drawn already."""
        return (
            self.team.gate, self._codes[start:stop], key, self._below, self._times, self._scratch[start:stop],
            np.zeros((self.team.n_threads, 8), np.int64), bits.view(np.uint16), self._chosen[n:], self._weight[n:],
        )  # fmt: skip

    def _room(self, k: int, n: int) -> np.ndarray:
        """For the pairs and weights of n rows; grows without keeping what is in it."""
        size = (2 * k + 1) * n
        if len(self._portion) < size:
            self._portion = np.empty(size + size // 16)
        return self._portion

    def _scores(self) -> Scores:
        return Scores(self._scale, self._skip, self._codes, self._counts)


class GossSampler(ScoreSampler):
    """Gradient-based one-side sampling (Ke et al. 2017, Algorithm 2): the share `top` of rows with the largest
    gradients, and of the others as many as make the share `rest` of all, with weight (1 - top)/rest.

    The rows on the edge, whose scores have the code that the last of the top has, are all drawn with the same
    probability. So where gradients are of one size (absolute error) all rows are drawn alike.
    """

    def __init__(
        self,
        n_rows: int,
        skip: np.ndarray,
        team: Team,
        seed: int,
        warm_up: int,
        top: float,
        rest: float,
        shard: Shard | None = None,
        gather: Gather | None = None,
    ) -> None:
        super().__init__(n_rows, skip, team, seed, warm_up, shard, gather)
        self.top, self.rest = top, rest
        self._edge = self._before = 0  # the code of the last row of the top, and that of the stage before
        self._low = 0  # the first of the codes that are told apart; 0: all are

    def chances(self, lines: np.ndarray) -> float:
        self._before = self._edge
        expected, self._edge = goss_chances(lines, self.top, self.rest, self._sums, self._below, self._times)
        return float(expected)

    def _scores(self) -> Scores:
        """All that matters is which code the last row of the top has. It is about as far from that of the stage before
        as that was from the one before it; so rows are counted by few codes."""
        scores, self._low = super()._scores(), 0
        if self._edge > 0 and self.shard is None:
            drift = self._edge - self._before
            drift = drift if abs(drift) < CODES // 200 else 0  # not a jump
            self._low = min(max(self._edge + drift - NEAR // 2, 2), CODES - 1 - NEAR)
        return scores._replace(low=self._low)

    def _expected(self) -> float:
        last, expected = (self._before, self._edge), super()._expected()
        if self._low == 0 or expected == 0.0 or self._low <= self._edge < self._low + NEAR or self._edge == CODES - 1:
            return expected
        self._before, self._edge = last
        self.team.run(count_all, self._codes, self._counts)  # it was none of these
        return super()._expected()


class VarianceSampler(ScoreSampler):
    """Minimal-variance sampling (Ibragimov & Gusev 2019): probabilities min(1, s/μ) with s = √(grad² + λ·hess²) and μ
    such that the share `share` of the rows is drawn on average.

    Here λ·hess² is a tenth of the mean of grad² over the rows, for all of them: nothing with a unit is left to choose
    (λ has that of a squared step), and no row counts much more than 1/share times.
    """

    _RIDGE = 0.1
    """Of 0.1 to 4, what lost least on most of four generated tables, two seeds each; docs/sampling.md has others."""

    def __init__(
        self, n_rows: int, skip: np.ndarray, team: Team, seed: int, share: float, shard: Shard | None = None,
        gather: Gather | None = None,
    ) -> None:  # fmt: skip
        super().__init__(n_rows, skip, team, seed, shard=shard, gather=gather)
        self.share, self._sizes = share, np.empty(CODES)

    def chances(self, lines: np.ndarray) -> float:
        squares = _SQUARES, self._RIDGE, self.share
        return float(variance_chances(lines, *squares, self._sums, self._sizes, self._below, self._times))
