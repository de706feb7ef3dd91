"""Contributions of columns, and of pairs of columns, to raw predictions: what shap.py asks the kernels for."""

from __future__ import annotations

import numpy as np

from stagewise.boosting.model import Model
from stagewise.inspection.leaves import groups_of
from stagewise.kernels.paths import Groups
from stagewise.kernels.shap import Game, Plan, Room, attribute, background_words
from stagewise.kernels.team import Team

__all__ = ["contributions"]

_GROUP_BITS = 9
"""Tests of a group with several leaves. 100,000 rows of 28 columns, 100 trees of 31 leaves, two threads: 0.97 s with 7,
0.80 s with 9 and with 10, 0.89 s with 12. Fewer make more groups, more make tables that take longer to fill."""

_TABLE_BITS = 12
"""A table has at most 2**12 entries."""

_TABLE_NUMBERS = 1 << 22
"""Numbers of all tables at one time, a thread: 32 MB. Groups beyond it come in a second round."""

_ROWS, _BLOCK_NUMBERS = 256, 1 << 18
"""Rows handled at a time, and the most numbers of their results: they should stay in the second-level cache."""

_STEPS_A_CALL = 100_000_000
"""Additions in one call of the kernel, some tenths of a second: Ctrl-C is noticed between calls."""

_FEW_ROWS = 64
"""Rows that are worth a thread."""


def contributions(
    model: Model, X: np.ndarray, background: np.ndarray, shares: np.ndarray, pairs: bool, n_threads: int
) -> np.ndarray:
    """(n_rows, n_outputs, n_columns), or with pairs (..., n_columns, n_columns), filled above the diagonal.

    background: float64 (n, n_columns) with weights `shares` of sum 1; without rows: path-dependent.
    """
    n_columns = model.schema.n_columns
    shape = (n_columns, n_columns) if pairs else (n_columns,)
    out = np.zeros((len(X), model.n_outputs * int(np.prod(shape))))
    groups = groups_of(model, _GROUP_BITS)
    longest = int(np.diff(groups.held).max(initial=1))
    game = _game(groups, longest, background, shares, pairs)
    plan = _plan(groups, n_columns, pairs)
    rows = _rows_a_call(groups, plan, out.shape[1], len(background))
    with Team(max(1, min(n_threads, len(X) // _FEW_ROWS))) as team:
        for g0, g1 in _rounds(plan):
            room = _room(team.n_threads, n_columns, out.shape[1], longest, plan, g0, g1)
            for a in range(0, len(X), rows):
                some = np.array(X[a : a + rows], np.float64)  # always a copy: one type for the kernel
                team.run(attribute, some, groups, game, plan, g0, g1, room, out[a : a + rows])
    return out.reshape(len(X), model.n_outputs, *shape)


def _rules(longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights on (0, 1) of Gauss-Legendre rules with 1, 2, ... points, as `longest` conditions need."""
    rules = [np.polynomial.legendre.leggauss(q) for q in range(1, (longest + 1) // 2 + 1)]
    return np.concatenate([0.5 * (x + 1.0) for x, _ in rules]), np.concatenate([0.5 * w for _, w in rules])


def _betas(longest: int) -> np.ndarray:
    """p! q! / (p + q + 1)! for p, q up to `longest`."""
    q = np.arange(longest + 1.0)
    beta = np.empty((longest + 1, longest + 1))
    beta[0] = 1.0 / (q + 1.0)
    for p in range(1, longest + 1):
        beta[p] = beta[p - 1] * p / (p + q + 1.0)
    return beta


def _game(groups: Groups, longest: int, background: np.ndarray, shares: np.ndarray, pairs: bool) -> Game:
    n = len(background)
    seen = np.zeros(len(groups.value) + 1, np.int64)
    room = int(np.minimum(1 << np.minimum(np.diff(groups.held), 40), n).sum())
    word, share = np.empty(room, np.int64), np.empty(room)
    if n:
        found = np.empty(1 << (2 * n).bit_length(), np.int64)
        columns = np.array(background.T, order="C")
        background_words(shares, groups, columns, np.empty(n, np.int64), found, seen, word, share)
    return Game(pairs, *_rules(longest), _betas(longest), background, shares, seen, word, share)


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _plan(groups: Groups, n_columns: int, pairs: bool) -> Plan:
    """Room for the tables, and where their numbers belong in a row of the result."""
    slots = np.diff(groups.slot)
    widths = slots * (slots - 1) // 2 if pairs else slots
    words = np.where(groups.worded != 0, 1 << np.minimum(np.diff(groups.test), _TABLE_BITS), 0)
    position = groups.slot_column.astype(np.int64)
    if pairs:
        parts = [np.empty(0, np.int64)]
        for a, b in zip(groups.slot[:-1], groups.slot[1:], strict=True):
            i, j = np.triu_indices(b - a, 1)
            one, other = position[a:b][i], position[a:b][j]
            parts.append(np.minimum(one, other) * n_columns + np.maximum(one, other))
        position = np.concatenate(parts)
    position += np.repeat(groups.output * n_columns ** (2 if pairs else 1), widths)
    return Plan(_starts(words * widths), _starts(words), _starts(widths), position, _TABLE_BITS)


def _rounds(plan: Plan) -> list[tuple[int, int]]:
    """Runs of groups whose tables fit into the room."""
    n_groups = len(plan.table) - 1
    cuts = [0]
    for g in range(n_groups):
        if g > cuts[-1] and plan.table[g + 1] - plan.table[cuts[-1]] > _TABLE_NUMBERS:
            cuts.append(g)
    return list(zip(cuts, [*cuts[1:], n_groups], strict=True))


def _rows_a_call(groups: Groups, plan: Plan, n_numbers: int, n_background: int) -> int:
    tests, widths = np.diff(groups.test), np.diff(plan.first)
    deep = np.where(groups.worded != 0, 0, tests * (tests + widths) * max(1, n_background))
    return max(1, _STEPS_A_CALL // (n_numbers + int((tests + widths + deep).sum())))


def _room(threads: int, n_columns: int, n_numbers: int, longest: int, plan: Plan, g0: int, g1: int) -> Room:
    rows = max(1, min(_ROWS, _BLOCK_NUMBERS // n_numbers))
    points = (longest + 1) // 2
    return Room(
        columns=np.empty((threads, n_columns, rows)),
        total=np.empty((threads, n_numbers, rows)),
        words=np.empty((threads, rows), np.int64),
        places=np.empty((threads, rows), np.uint64),
        states=np.empty((threads, longest), np.uint8),
        e=np.empty((threads, longest, points)),
        r=np.empty((threads, points)),
        entry=np.empty((threads, int(np.diff(plan.first).max(initial=1)))),
        tables=np.empty((threads, int(plan.table[g1] - plan.table[g0]))),
        marks=np.zeros((threads, int(plan.mark[g1] - plan.mark[g0])), np.int64),
    )
