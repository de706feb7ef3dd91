"""Which rows a stage's trees are grown on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stagewise.boosting.pairs import Pairs
from stagewise.data.shard import Shard
from stagewise.kernels.exact import hash_threshold_counts, mix_rows, power_above, stream_key
from stagewise.kernels.influence import BUCKETS, influence_edge, influence_rows, influence_sums
from stagewise.kernels.pairs import Update
from stagewise.kernels.reducer import ALONE, Reducer

__all__ = ["Rows", "Sampler", "TrimmingSampler", "UniformSampler", "smallest_hashes"]

_PURPOSE = 0x726F7773  # "rows"
_NO_ROWS = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Row numbers in use, ascending uint32; `index` is empty when all rows are. `rest` are the others.

    rest is None where nobody made a list of them. weight: how many times each row of `index` counts; empty: once.
    pairs: the pairs of these rows alone, times that; None where the rows count once.
    In a shard `index` is also empty when none of its rows is in use: then `rest` holds all of them.
    """

    index: np.ndarray
    rest: np.ndarray | None
    weight: np.ndarray = field(default_factory=lambda: np.empty(0))
    pairs: Pairs | None = None


def smallest_hashes(key: np.uint64, skip: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """The `wanted` rows with the smallest hashes among those not skipped, and all other rows, both ascending.

    Exact in number and independent of order: counts by the top 16 bits find the bucket in which the last one lies;
    only that bucket is sorted.
    """
    n = len(skip)
    counts = np.zeros(1 << 16, np.int64)
    hash_threshold_counts(key, skip, counts)
    running = np.cumsum(counts)
    bucket = int(np.searchsorted(running, wanted))
    inside = wanted - (int(running[bucket - 1]) if bucket else 0)
    chosen, rest, edge = (
        np.empty(wanted, np.uint32),
        np.empty(n - wanted, np.uint32),
        np.empty(counts[bucket], np.uint64),
    )
    mix_rows(key, skip, bucket, np.uint64(0), chosen[:0], rest[:0], edge)
    threshold = np.sort(edge)[inside - 1]
    mix_rows(key, skip, bucket, threshold, chosen, rest, edge[:0])
    return chosen, rest


class Sampler:
    """All rows that are in training, at every stage."""

    def __init__(self, n_rows: int, skip: np.ndarray, shard: Shard | None = None) -> None:
        """shard: the rows are some of many, and choices are made among all of them."""
        self.n_rows, self.skip, self.shard = n_rows, skip, shard
        self.reducer: Reducer = ALONE if shard is None else shard.reducer
        out = np.flatnonzero(skip).astype(np.uint32)
        self.all = Rows(np.flatnonzero(~skip).astype(np.uint32) if len(out) else _NO_ROWS, out)

    def __call__(self, stage: int, pairs: Pairs | None = None) -> Rows:
        return self.all

    def foresee(self, stage: int, update: Update) -> Update:
        """What the sample of a stage will need to know of its pairs, asked for before they are made."""
        return update

    def narrow(self, rows: Rows, pairs: Pairs, output: int) -> Rows:
        """Those of the stage's rows that the learner of one output sees."""
        return rows


class UniformSampler(Sampler):
    """A fresh share of the training rows at every stage, without replacement (Friedman 2002, stochastic boosting)."""

    def __init__(self, n_rows: int, skip: np.ndarray, share: float, seed: int, shard: Shard | None = None) -> None:
        super().__init__(n_rows, skip, shard)
        in_training = self.reducer.count(n_rows - int(skip.sum()))
        self.wanted, self.seed = max(1, round(share * in_training)), seed

    def __call__(self, stage: int, pairs: Pairs | None = None) -> Rows:
        choose = smallest_hashes if self.shard is None else self.shard.smallest_hashes
        return Rows(*choose(stream_key(self.seed, _PURPOSE, stage), self.skip, self.wanted))


class TrimmingSampler(Sampler):
    """Influence trimming (Friedman 2001, section 4.5.1): rows that hardly matter sit this stage out.

    The influence of a row is the second derivative of its loss, times its weight: for two classes p(1 - p), which is
    the paper's |ỹ|(2 - |ỹ|) up to a factor; for K classes p_k(1 - p_k) = |ỹ_k|(1 - |ỹ_k|), each class on its own. The
    rows of least influence that together have less than α of the total are left out, those of equal influence kept or
    left out together.
    """

    def __init__(self, inner: Sampler, alpha: float) -> None:
        self.inner, self.alpha = inner, alpha
        self.all, self.n_rows, self.shard, self.reducer = inner.all, inner.n_rows, inner.shard, inner.reducer
        self._everyone = self.reducer.count(self.n_rows)
        self._bits = min(30, 61 - max(1, self._everyone).bit_length())

    def __call__(self, stage: int, pairs: Pairs | None = None) -> Rows:
        return self.inner(stage, pairs)

    def narrow(self, rows: Rows, pairs: Pairs, output: int) -> Rows:
        influence, out = pairs.hess[output], np.empty(0, np.bool_)
        assert rows.rest is not None
        if len(rows.rest):
            out = np.zeros(self.n_rows, np.bool_)
            out[rows.rest] = True
        least = self._threshold(influence, out, 2.0**self._bits / power_above(pairs.hess_peak))
        chosen, rest = np.empty(self.n_rows + 1, np.uint32), np.empty(self.n_rows + 1, np.uint32)
        n = influence_rows(influence, out, least, chosen, rest)
        if self.reducer.count(int(n)) in (0, self._everyone):  # 0: no row has any influence left
            return rows
        return Rows(chosen[:n].copy(), rest[: self.n_rows - n].copy())

    def _threshold(self, influence: np.ndarray, out: np.ndarray, scale: float) -> float:
        """The least influence that stays. Sums are of integers, so they do not depend on the order of the rows."""
        sums = np.zeros((2, BUCKETS), np.int64)
        influence_sums(influence, out, scale, sums)
        sums = self.reducer.sum(sums)
        running = np.cumsum(sums[0])
        target = self.alpha * float(running[-1])
        bucket = int(np.searchsorted(running, target))
        edge = np.empty(sums[1, bucket] if self.shard is None else len(influence))
        if self.shard is not None:
            edge = edge[: influence_edge(influence, out, bucket, edge)]
            weights, before = np.rint(edge * scale).astype(np.int64), int(running[bucket] - sums[0, bucket])
            beyond = self.shard.first_beyond(edge, weights, before, target)
            largest = self.reducer.largest(float(edge.max()) if len(edge) else 0.0)
            return beyond if beyond is not None else float(np.nextafter(largest, np.inf))
        influence_edge(influence, out, bucket, edge)
        edge.sort()
        reached = running[bucket] - sums[0, bucket] + np.cumsum(np.rint(edge * scale).astype(np.int64))
        # the largest whole group of equal influences that stays below α of the total is left out
        outside = edge[: int(np.searchsorted(reached, target, side="right"))]
        inside = edge[len(outside) :]
        if len(inside) == 0:
            return float(np.nextafter(edge[-1], np.inf))
        return float(inside[0])
