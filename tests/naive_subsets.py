"""The slow twin of kernels/subsets.py: every set that the rules allow, with exact improvements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

MISSING = 255


class SetRule(NamedTuple):
    """What a set must satisfy beyond what a split must."""

    smooth: float
    l2: Fraction
    max_onehot: int
    max_group: int
    level_rows: int
    group_rows: int


class Subset(NamedTuple):
    gain: Fraction
    column: int
    codes: frozenset[int]  # on the left, of those with rows; missing is 255
    left: tuple[int, int, int]


def candidates(histogram: np.ndarray, n_bins: int, rule: Any, own: SetRule) -> Iterator[tuple[int, ...]]:
    """The sets of one column (256, 3) in the order in which ties are decided."""
    codes = [*range(n_bins), MISSING]
    rows = {b: int(histogram[b, 2]) for b in codes}
    total = sum(rows.values())

    def key(b: int) -> tuple[float, int]:  # in floats as the kernel has them: they decide the order
        g, h = float(histogram[b, 0]) * float(rule.grad_unit), float(histogram[b, 1]) * float(rule.hess_unit)
        return g / (h + own.smooth), b

    few = n_bins <= own.max_onehot
    order = sorted((b for b in codes if rows[b] >= (1 if few else own.level_rows)), key=key)
    if few:
        yield from ((b,) for b in order)
        return
    for direction in (order, order[::-1]):
        group = 0
        for size in range(1, min(own.max_group, (len(order) + 1) // 2) + 1):
            group += rows[direction[size - 1]]
            if group < own.group_rows or total - sum(rows[b] for b in direction[:size]) < own.group_rows:
                continue
            yield tuple(direction[:size])
            left = [int(histogram[list(direction[:size]), k].sum()) for k in range(3)]
            if gain_of(histogram, left, rule, own.l2) is not None:
                group = 0


def gain_of(histogram: np.ndarray, left: Sequence[int], rule: Any, more_l2: Fraction) -> Fraction | None:
    """The improvement, with more l2 in the children than in the parent; None where it is not allowed."""
    total = [int(t) for t in histogram.sum(axis=0)]
    right = [t - a for t, a in zip(total, left, strict=True)]
    if rule.gain(left, right) is None:
        return None
    children = rule._replace(l2=rule.l2 + more_l2)
    score: Fraction = children.score(left[0], left[1]) + children.score(right[0], right[1])
    return score - rule.score(total[0], total[1])


def best_subset(
    histograms: np.ndarray, n_bins: np.ndarray, columns: Sequence[int], rule: Any, own: SetRule
) -> Subset | None:
    """The best set of all columns, the first of equals; None when none improves."""
    best: Subset | None = None
    for j in columns:
        more = Fraction(0) if n_bins[j] <= own.max_onehot else own.l2
        for codes in candidates(histograms[j], int(n_bins[j]), rule, own):
            left = [int(histograms[j][list(codes), k].sum()) for k in range(3)]
            gain = gain_of(histograms[j], left, rule, more)
            if gain is not None and gain > (Fraction(0) if best is None else best.gain):
                best = Subset(gain, j, frozenset(codes), (left[0], left[1], left[2]))
    return best
