"""Shapley values: what each column adds to a prediction, and each pair of columns beyond that."""

from __future__ import annotations

import numpy as np

from stagewise.boosting.model import Model
from stagewise.inspection.leaves import groups_of
from stagewise.kernels.paths import Groups
from stagewise.kernels.shap import ROWS, Game, Plan, Room, attribute, background_words
from stagewise.kernels.team import Team

_BITS = 8
_ENTRY_BITS = 10
_TABLE_NUMBERS = 1 << 22
_WORK = 400_000_000


def _rules(longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre rules on (0, 1) with 1, 2, ... points, up to what paths of `longest` columns need."""
    rules = [np.polynomial.legendre.leggauss(q) for q in range(1, max(2, (longest + 1) // 2 + 1))]
    points = np.concatenate([0.5 * (points + 1.0) for points, _ in rules])
    return points, np.concatenate([0.5 * weights for _, weights in rules])


def _betas(longest: int) -> np.ndarray:
    """p! q! / (p + q + 1)! for p, q up to `longest`."""
    beta = np.empty((longest + 1, longest + 1))
    beta[0] = 1.0 / np.arange(1.0, longest + 2.0)
    for p in range(1, longest + 1):  # B(p + 1, q + 1) = B(p, q + 2) · p / (q + 1)
        q = np.arange(longest + 1.0)
        beta[p] = beta[p - 1] * p / (p + q + 1.0)
    return beta


def _plan(groups: Groups, n_columns: int, pairs: bool) -> Plan:
    slots = np.diff(groups.slot)
    widths = slots * (slots - 1) // 2 if pairs else slots
    words = np.where(groups.worded != 0, 1 << np.minimum(np.diff(groups.test), _ENTRY_BITS), 0)
    size = n_columns * n_columns if pairs else n_columns
    offset = np.repeat(groups.output * size, widths)
    if not pairs:
        position = groups.slot_column + offset
    else:
        parts = [np.empty(0, np.int64)]
        for a, b in zip(groups.slot[:-1], groups.slot[1:], strict=True):
            columns = groups.slot_column[a:b].astype(np.int64)
            i, j = np.triu_indices(b - a, 1)
            parts.append(np.minimum(columns[i], columns[j]) * n_columns + np.maximum(columns[i], columns[j]))
        position = np.concatenate(parts) + offset

    def starts(sizes: np.ndarray) -> np.ndarray:
        return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)

    return Plan(starts(words * widths), starts(words), starts(widths), position.astype(np.int64), _ENTRY_BITS)


def contributions(model: Model, X: np.ndarray, background, shares, pairs: bool, n_threads: int) -> np.ndarray:
    groups = groups_of(model, _BITS)
    n_columns = model.schema.n_columns
    longest = int(np.diff(groups.held).max(initial=1))
    plan = _plan(groups, n_columns, pairs)
    game = _game(groups, longest, background, shares, pairs)
    size = n_columns * (n_columns if pairs else 1)
    out = np.zeros((len(X), model.n_outputs * size))
    batches = _batches(plan)
    rows = 1 << 16
    with Team(max(1, min(n_threads, len(X) // 64))) as team:
        for g0, g1 in batches:
            room = Room(
                np.empty((team.n_threads, n_columns, ROWS)),
                np.empty((team.n_threads, ROWS), np.int64),
                np.empty((team.n_threads, longest), np.uint8),
                np.empty((team.n_threads, longest, (longest + 1) // 2)),
                np.empty((team.n_threads, (longest + 1) // 2)),
                np.empty((team.n_threads, int(np.diff(plan.first).max(initial=1)))),
                np.empty((team.n_threads, int(plan.table[g1] - plan.table[g0]))),
                np.zeros((team.n_threads, int(plan.mark[g1] - plan.mark[g0])), np.int64),
            )
            for a in range(0, len(X), rows):
                team.run(attribute, np.array(X[a : a + rows], np.float64), groups, game, plan, g0, g1, room, out[a : a + rows])
    return out


def _batches(plan: Plan) -> list[tuple[int, int]]:
    """Runs of groups whose tables fit into the room."""
    cuts = [0]
    for g in range(1, len(plan.table) - 1):
        if plan.table[g + 1] - plan.table[cuts[-1]] > _TABLE_NUMBERS:
            cuts.append(g)
    cuts.append(len(plan.table) - 1)
    return list(zip(cuts[:-1], cuts[1:], strict=True))


def _game(groups, longest, background, shares, pairs) -> Game:
    n_leaves = len(groups.value)
    n = len(background)
    seen = np.zeros(n_leaves + 1, np.int64)
    held = np.diff(groups.held)
    room = int(np.minimum(1 << np.minimum(held, 40), n).sum())
    word, share = np.empty(room, np.int64), np.empty(room)
    if n:
        found = np.empty(1 << (2 * n - 1).bit_length(), np.int64)
        background_words(
            shares, groups, np.ascontiguousarray(background.T), np.empty(n, np.int64), found, seen, word, share
        )
    return Game(pairs, *_rules(longest), _betas(longest), background, shares, seen, word, share)
