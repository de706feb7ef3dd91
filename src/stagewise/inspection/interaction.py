"""Interactions: which columns share a path, and Friedman's H-statistic (Friedman and Popescu 2008, section 8.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.data.binning import sample_rows
from stagewise.errors import ParameterError
from stagewise.inspection.leaves import OF_CONDITIONS, paths_of
from stagewise.inspection.listing import Listed, Summary, frame_of, number
from stagewise.inspection.subject import Subject
from stagewise.kernels.effects import row_effects
from stagewise.kernels.paths import Paths
from stagewise.kernels.team import Team
from stagewise.params import check_count

__all__ = ["Interactions", "h_statistic", "pairs_on_paths", "shared_paths"]

_NUMBERS_AT_ONCE = 20_000_000  # of interactions of pairs at rows
_STEPS_A_THREAD = 2_000_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Interactions(Listed):
    """H of pairs of columns, and of each column with all others together: 0 none, 1 nothing but interaction.

    H² is the share of the variance of the joint dependence that is not the sum of the single ones. `strength` is the
    standard deviation of the interaction itself, on the model's scale: where two columns hardly matter, H may be large
    and mean little.
    """

    names: tuple[str, ...]  # of the columns looked at
    pairwise: np.ndarray  # (n_outputs, n, n), symmetric, 0 on the diagonal
    total: np.ndarray  # (n_outputs, n)
    strength: np.ndarray  # (n_outputs, n, n)
    outputs: tuple[str, ...]
    n_rows: int  # rows that were averaged over

    def ranked(self, output: int = 0) -> list[tuple[str, str, float, float]]:
        """(column, column, H, strength) of the pairs that interact, the strongest first."""
        i, j = np.triu_indices(len(self.names), 1)
        strength = self.strength[output][i, j]
        order = [k for k in np.argsort(-strength, kind="stable") if strength[k] > 0.0]
        H = self.pairwise[output][i, j]
        return [(self.names[i[k]], self.names[j[k]], float(H[k]), float(strength[k])) for k in order]

    def to_frame(self, library: str | None = None) -> Any:
        """One row for each pair that interacts and each output."""
        rows = [(name, *row) for k, name in enumerate(self.outputs) for row in self.ranked(k)]
        output, one, other, H, strength = zip(*rows, strict=True) if rows else ((),) * 5
        columns = {"column": list(one), "with": list(other), "H": list(H), "strength": list(strength)}
        return frame_of(({"output": list(output)} if len(self.outputs) > 1 else {}) | columns, library)

    def _summary(self) -> Summary:
        ranked = self.ranked()
        rows = [[f"{a} × {b}", number(H), number(strength)] for a, b, H, strength in ranked[:10]]
        of = f" ({self.outputs[0]})" if len(self.outputs) > 1 else ""
        return Summary(f"Interactions{of} over {self.n_rows} rows", ["pair", "H", "strength"], rows, len(ranked), 2)


def pairs_on_paths(paths: Paths, n_columns: int) -> np.ndarray:
    """(n_columns, n_columns) int64: the number of leaves whose path tests both columns."""
    count = np.zeros((n_columns, n_columns), np.int64)
    leaf = np.repeat(np.arange(len(paths.value)), np.diff(paths.start))
    for gap in range(1, int(np.diff(paths.start).max(initial=0))):
        same = leaf[gap:] == leaf[:-gap]
        np.add.at(count, (paths.column[gap:][same], paths.column[:-gap][same]), 1)
    return count + count.T


def shared_paths(model: Any) -> np.ndarray:
    """(n_columns, n_columns): how many leaves lie on a path that tests both columns.

    Where this is 0 two columns do not interact: the model is a sum of a function without the one and a function without
    the other. The diagonal counts the leaves whose path tests the column.
    """
    subject = Subject.of_trees(model)
    paths, n = paths_of(subject.model), len(subject.names)
    return pairs_on_paths(paths, n) + np.diag(np.bincount(paths.column, minlength=n))


def h_statistic(
    model: Any, X: Any, features: Any = None, *, sample_weight: Any = None, max_rows: int | None = 1000
) -> Interactions:
    """Friedman's H-statistic of all pairs of columns (or of those of `features`), and of each column with all others.

    Dependence is computed by weighted traversal and looked at in the rows of X: in at most max_rows of them, which
    are drawn by the hashes of their numbers (None for all).
    """
    subject = Subject.of_trees(model)
    n_columns = len(subject.names)
    columns = tuple(range(n_columns)) if features is None else subject.columns(features)
    if features is not None and len(columns) < 2:
        raise ParameterError("features must name at least two columns to look for interactions between.")
    matrix = subject.matrix(X)
    shares = subject.shares(sample_weight, len(matrix))
    rows = None if max_rows is None else sample_rows(len(matrix), check_count("max_rows", max_rows, 2))
    if rows is not None:
        matrix, shares = matrix[rows], shares[rows] / shares[rows].sum()
    sample = np.array(matrix, np.float64)
    paths = paths_of(subject.model)
    parts = [_output(subject, paths, sample, shares, columns, k) for k in range(subject.model.n_outputs)]
    pairwise, total, strength = (np.array(part) for part in zip(*parts, strict=True))
    names = tuple(subject.names[j] for j in columns)
    return Interactions(names, pairwise, total, strength, subject.outputs, len(sample))


def _output(
    subject: Subject, paths: Paths, X: np.ndarray, shares: np.ndarray, columns: tuple[int, ...], output: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """H of pairs, total H and strengths of one output."""
    n, p = len(X), len(subject.names)
    mine = paths.output == output
    count = pairs_on_paths(_only(paths, mine), p)
    chosen = np.array(columns)
    i, j = np.triu_indices(len(chosen), 1)
    linked = count[chosen[i], chosen[j]] > 0
    i, j = i[linked], j[linked]
    main, rest = np.zeros((p, n)), np.zeros((p, n))
    H, strength = np.zeros((2, len(chosen), len(chosen)))
    at_once = max(1, _NUMBERS_AT_ONCE // n)
    threads = max(1, min(subject.n_threads, n * len(paths.value) // _STEPS_A_THREAD))
    raw = subject.model.raw(X)[output : output + 1]
    raw = raw - raw.mean()
    unit = float(np.abs(raw).max()) or 1.0  # squares must neither overflow nor vanish
    with Team(threads) as team:
        for a in range(0, max(1, len(i)), at_once):
            one, other = chosen[i[a : a + at_once]], chosen[j[a : a + at_once]]
            pair = np.full((p, p), -1, np.int64)
            pair[one, other] = pair[other, one] = np.arange(len(one))
            joint = np.zeros((len(one), n))
            main[:] = 0.0
            team.run(row_effects, X, paths, output, pair, main, joint, rest if a == 0 else np.zeros((0, n)))
            mains, joints = _centred(main / unit, shares), _centred(joint / unit, shares)
            over, under = joints**2 @ shares, (mains[one] + mains[other] + joints) ** 2 @ shares
            at = i[a : a + at_once], j[a : a + at_once]
            H[at], strength[at] = _root_ratio(over, under), unit * np.sqrt(over)
    whole = _centred(raw / unit, shares)[0]
    total = _root_ratio(_centred(rest / unit, shares) ** 2 @ shares, np.full(p, whole**2 @ shares))[chosen]
    return H + H.T, total, strength + strength.T


def _only(paths: Paths, mine: np.ndarray) -> Paths:
    """The paths of some leaves."""
    if mine.all():
        return paths
    lengths = np.diff(paths.start)
    keep = np.repeat(mine, lengths)
    start = np.concatenate(([0], np.cumsum(lengths[mine]))).astype(np.int64)
    of_conditions = {name: getattr(paths, name)[keep] for name in OF_CONDITIONS}
    of_leaves = {name: getattr(paths, name)[mine] for name in ("value", "output", "tree")}
    return paths._replace(start=start, **of_conditions, **of_leaves)


def _centred(lines: np.ndarray, shares: np.ndarray) -> np.ndarray:
    return lines - (lines @ shares)[:, None]


def _root_ratio(over: np.ndarray, under: np.ndarray) -> np.ndarray:
    """√(over / under), 0 where both are."""
    return np.sqrt(np.divide(over, under, out=np.zeros_like(over), where=(over > 0.0) & (under > 0.0)))
