"""How complete a picture is: whether dependence on some columns and on all others explains the model together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.errors import ParameterError
from stagewise.inspection.dependence import expected_reach
from stagewise.inspection.leaves import paths_of
from stagewise.inspection.listing import Listed, Summary, frame_of, number
from stagewise.inspection.subject import Subject
from stagewise.kernels.dependence import add_reached
from stagewise.kernels.team import Team

__all__ = ["Completeness", "completeness"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Completeness(Listed):
    """Correlations of F with F_S + F_C and with F_S · F_C over some rows, C being all columns outside of S."""

    features: tuple[str, ...]
    additive: np.ndarray  # (n_outputs,): near 1 when S acts on its own
    multiplicative: np.ndarray  # (n_outputs,): near 1 when S scales what the others do
    outputs: tuple[str, ...]

    def to_frame(self, library: str | None = None) -> Any:
        """One row an output."""
        columns = {"output": list(self.outputs), "sum": self.additive, "product": self.multiplicative}
        return frame_of(columns, library)

    def _summary(self) -> Summary:
        rows = [
            [name or "prediction", number(a), number(b)]
            for name, a, b in zip(self.outputs, self.additive, self.multiplicative, strict=True)
        ]
        return Summary(
            f"Correlation with dependence on {', '.join(self.features)} and on the rest", ["", "sum", "product"], rows
        )


def completeness(model: Any, features: Any, X: Any, *, sample_weight: Any = None) -> Completeness:
    """Friedman (2001), section 8.2: correlate the model with the sum and with the product of the dependence on
    `features` and on all other columns, over the rows of X.

    If neither correlation is high, the plot of the dependence on `features` is not the whole story: they interact with
    other columns.
    """
    subject = Subject.of_trees(model)
    columns = subject.columns(features)
    if len(columns) == len(subject.names):
        raise ParameterError("features name all columns of the model; leave some for the rest.")
    matrix = subject.matrix(X)
    shares = subject.shares(sample_weight, len(matrix))
    chosen = np.zeros(len(subject.names), np.bool_)
    chosen[list(columns)] = True
    whole, own, rest = (_at_rows(subject, matrix, inside) for inside in (np.ones_like(chosen), chosen, ~chosen))
    unit = float(np.abs(whole).max()) or 1.0  # products must neither overflow nor vanish
    whole, own, rest = whole / unit, own / unit, rest / unit
    return Completeness(
        tuple(subject.names[j] for j in columns),
        _correlation(whole, own + rest, shares),
        _correlation(whole, own * rest, shares),
        subject.outputs,
    )


def _at_rows(subject: Subject, matrix: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """(n_outputs, n_rows): dependence on the columns inside, by traversal, at the rows."""
    paths = paths_of(subject.model)
    weight = paths.value * expected_reach(paths, inside)
    out = np.repeat(subject.model.initial[:, None], len(matrix), axis=1)
    columns = np.array(matrix.T, np.float64, order="C")
    with Team(max(1, min(subject.n_threads, len(matrix) // 1000))) as team:
        team.run(add_reached, columns, paths, inside.astype(np.uint8), weight, out)
    return out


def _correlation(a: np.ndarray, b: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Weighted correlation of the lines of two arrays; NaN where one of them is constant."""
    a, b = (values - (values @ shares)[:, None] for values in (a, b))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(((a * b) @ shares) / np.sqrt((a * a @ shares) * (b * b @ shares)))
