"""The best split beside a look at all of them in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from kernels.build import Case, backend_of, columns_of, integers, pack, quick, random_case, rule_of, split_of

LIMITS: dict[str, dict[str, Any]] = {
    "plain": {},
    "l2": {"l2": 1.5},
    "l1": {"l1": 0.7},
    "l1 and l2": {"l1": 0.3, "l2": 0.01},
    "many rows": {"min_samples_leaf": 5},
    "much weight": {"min_child_weight": 1.2},
    "much gain": {"min_split_gain": 2.0},
}
every_limit = pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)


def check(case: Case, rows: np.ndarray, wide: bool, key: int = 0, node: int = 0, **params: Any) -> None:
    """The kernel's split is the best one; and of several that divide the rows in the same way, the first."""
    params = {"min_samples_leaf": 1, "min_child_weight": 0.0} | params
    with backend_of(case, **params) as backend:
        chosen = pack(backend, case)
        g, h = integers(case.grad, case.hess, chosen)
        rows = rows.astype(np.int64)
        histograms = naive.histogram_of_rows(case.codes, g, h, rows)
        totals = [int(g[rows].sum()), int(h[rows].sum()), len(rows)]
        rule = rule_of(backend.params, chosen)
        columns = columns_of(backend.params, len(case.n_bins), key)(node)
        found = split_of(backend, chosen, rows.astype(np.uint32), totals, wide, key, node)
    splits = naive.all_splits(histograms, np.array(case.n_bins), columns, rule)
    best = naive.best_split(histograms, np.array(case.n_bins), columns, rule)
    # the scores, of which the gain is a difference, are floats in the kernel
    tolerance = sum((abs(rule.score(*t[:2])) for t in [totals] if t[1] > 0), Fraction(1)) / 10**12
    if found.gain <= max(rule.min_gain, 0):
        assert best is None or best.gain <= rule.min_gain + tolerance
        return
    same = [s for s in splits if (s.column, s.bin, s.missing) == (found.column, found.bin, found.missing)]
    assert len(same) == 1, "an allowed split"
    assert found.left == same[0].left
    assert abs(Fraction(found.gain) - same[0].gain) <= tolerance + same[0].gain / 10**12
    assert best is not None
    if (found.column, found.bin, found.missing) != (best.column, best.bin, best.missing):
        assert abs(best.gain - same[0].gain) <= tolerance, "as good, but for rounding"
        mirrored = tuple(t - a for t, a in zip(totals, best.left, strict=True))
        assert found.left not in (best.left, mirrored), "of the same divisions the first is taken"


@pytest.mark.nojit
@every_limit
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_random_nodes(limits, wide, constant):
    for seed in range(3):
        case = random_case(np.random.default_rng(seed), 40, [7, 2, 1, 30], 0.2, constant)
        check(case, np.arange(40), wide, **limits)
        check(case, np.arange(0, 40, 3), wide, **limits)
        check(case, np.array([4, 20]), wide, **limits)


@every_limit
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_larger_nodes(limits, missing):
    for seed, constant, wide_words in [(0, False, False), (1, True, False), (2, False, True), (3, True, True)]:
        case = random_case(np.random.default_rng(seed), 900, [255, 40, 3], missing, constant, wide_words)
        for wide in (True,) if wide_words else (False, True):
            check(case, np.arange(900), wide, **limits)


@pytest.mark.nojit
@quick
@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.integers(1, 3), st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=12
    ),
    st.sampled_from(list(LIMITS.values())),
    st.booleans(),
)
def test_few_distinct_values(rows, limits, wide):
    """Small integers and few bins: many splits are equally good. Bin 3 of the first column stands for missing."""
    first = np.array([row[2] for row in rows], np.uint8)
    codes = np.column_stack([np.where(first == 3, 255, first), [row[3] for row in rows]]).astype(np.uint8)
    grad, hess = np.array([row[0] for row in rows], float), np.array([row[1] for row in rows], float)
    case = Case(codes, [3, 3], grad, hess)
    check(case, np.arange(len(rows)), wide, **limits)


def one_split(codes: list[list[int]], n_bins: list[int], grad: list[float]) -> tuple[int, int, int]:
    case = Case(np.array(codes, np.uint8).T, n_bins, np.array(grad), np.ones(len(grad)), True)
    rows = np.arange(len(grad))
    with backend_of(case, min_samples_leaf=1) as backend:
        chosen = pack(backend, case)
        g, h = integers(case.grad, case.hess, chosen)
        found = split_of(backend, chosen, rows.astype(np.uint32), [int(g.sum()), int(h.sum()), len(grad)], True)
    return found.column, found.bin, found.missing


@pytest.mark.nojit
def test_ties():
    """The lowest column, then missing values on the right, then the lowest bin."""
    grad = [1.0, 1.0, -1.0, -1.0]
    assert one_split([[0, 0, 1, 1], [0, 0, 1, 1]], [2, 2], grad) == (0, 0, naive.NOT_SEEN)
    assert one_split([[0, 1, 0, 1], [1, 1, 0, 0]], [2, 2], grad) == (1, 0, naive.NOT_SEEN), "the better column"
    assert one_split([[1, 1, 0, 0], [0, 0, 1, 1]], [2, 2], grad) == (0, 0, naive.NOT_SEEN), "mirrored columns"
    assert one_split([[0, 0, 5, 5]], [9], grad) == (0, 0, naive.NOT_SEEN), "empty bins between"
    # present against missing: values left of bin 3's upper edge, not missing ones left of everything
    assert one_split([[3, 3, 255, 255]], [9], grad) == (0, 3, naive.RIGHT)
    assert one_split([[8, 8, 255, 255]], [9], grad) == (0, 8, naive.RIGHT), "the last bin"


@pytest.mark.nojit
def test_nothing_to_gain():
    for codes, grad in [
        ([[0, 0, 0]], [1.0, 2.0, 3.0]),  # one bin
        ([[0, 1, 2]], [1.0, 1.0, 1.0]),  # all gradients the same
        ([[0, 1, 2]], [0.0, 0.0, 0.0]),
        ([[255, 255, 255]], [1.0, 2.0, 3.0]),  # all missing
    ]:
        case = Case(np.array(codes, np.uint8).T, [3], np.array(grad), np.ones(3), True)
        with backend_of(case, min_samples_leaf=1) as backend:
            chosen = pack(backend, case)
            g, _ = integers(case.grad, case.hess, chosen)
            found = split_of(backend, chosen, np.arange(3, dtype=np.uint32), [int(g.sum()), 3, 3], True)
        assert found.gain <= 0.0


@pytest.mark.nojit
@pytest.mark.parametrize("least, cut", [(1.0, 0), (2.0, 1), (2.0000001, 2), (3.0, 2)])
def test_a_side_may_have_just_the_least_weight(least, cut):
    """The best split is the first; limits push it further to the middle."""
    grad = np.array([9.0, 2.0, 1.0, 0.0, 0.0, 0.0])
    case = Case(np.arange(6, dtype=np.uint8)[:, None], [6], grad, np.ones(6), True)
    for params in ({"min_child_weight": least}, {"min_samples_leaf": int(np.ceil(least)), "min_child_weight": 0.0}):
        check(case, np.arange(6), True, **params)
        with backend_of(case, **{"min_samples_leaf": 1} | params) as backend:
            chosen = pack(backend, case)
            g, _ = integers(grad, case.hess, chosen)
            found = split_of(backend, chosen, np.arange(6, dtype=np.uint32), [int(g.sum()), 6, 6], True)
        assert found.bin == cut


@pytest.mark.nojit
def test_weight_zero_is_no_side():
    """Rows whose second derivative rounds to 0 cannot be a leaf of their own, whatever the limits."""
    case = Case(np.array([[0], [0], [1]], np.uint8), [2], np.array([1.0, -1.0, 1.0]), np.array([1.0, 1.0, 0.0]))
    check(case, np.arange(3), True, l2=1.0)


@pytest.mark.nojit
@pytest.mark.parametrize("tree_columns, split_columns", [(9, 3), (4, 2**31 - 1), (5, 2), (1, 1), (9, 1)])
def test_columns_are_drawn(tree_columns, split_columns):
    case = random_case(np.random.default_rng(7), 30, [4] * 9)
    for key in (0, 12345, (1 << 64) - 2):
        for node in (0, 1, 5):
            check(
                case, np.arange(30), True, key, node, tree_columns=tree_columns, split_columns=split_columns
            )  # fmt: skip
