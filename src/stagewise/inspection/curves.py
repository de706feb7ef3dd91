"""Individual conditional expectation: one dependence curve for each row (Goldstein et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stagewise.errors import ParameterError
from stagewise.inspection.grid import Grid, make_grid
from stagewise.inspection.leaves import paths_of
from stagewise.inspection.levels import Names
from stagewise.inspection.listing import Listed, Summary, frame_of, unlike
from stagewise.inspection.subject import Subject
from stagewise.kernels.dependence import add_curves
from stagewise.kernels.paths import Paths
from stagewise.kernels.team import Team
from stagewise.params import check_choice

__all__ = ["Curves", "curve_values", "individual_curves", "on_scale"]

_STEPS_A_THREAD = 10_000_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Curves(Listed):
    """What the model would predict for each row if one column had other values."""

    feature: str
    grid: np.ndarray  # (n_points,); NaN stands for missing
    values: np.ndarray  # (n_outputs, n_rows, n_points)
    at: np.ndarray  # (n_rows,): the column's own value in each row
    outputs: tuple[str, ...]
    response: str
    deciles: np.ndarray
    is_centred: bool = False
    labels: Names = None  # of a column of categories the name of each grid point

    @property
    def average(self) -> np.ndarray:
        """(n_outputs, n_points): the partial dependence over these rows."""
        return self.values.mean(axis=1)

    def centred(self, point: int = 0) -> Curves:
        """All curves shifted to pass through 0 at one grid point: differences in shape stand out."""
        return replace(self, values=self.values - self.values[:, :, point : point + 1 or None], is_centred=True)

    def to_frame(self, library: str | None = None) -> Any:
        """One row for each output, row and grid point."""
        k, n, g = self.values.shape
        output, row, prediction = (unlike(name, [self.feature]) for name in ("output", "row", "prediction"))
        columns: dict[str, Any] = {} if k == 1 else {output: np.repeat(np.array(self.outputs, object), n * g)}
        columns |= {
            row: np.tile(np.repeat(np.arange(n), g), k),
            self.feature: np.tile(self.grid if self.labels is None else np.array(self.labels, object), k * n),
            prediction: self.values.ravel(),
        }
        return frame_of(columns, library)

    def _summary(self) -> Summary:
        k, n, g = self.values.shape
        kind = "Centred curves" if self.is_centred else "Curves"
        rows = [["rows", str(n)], ["grid points", str(g)], ["response", self.response]]
        return Summary(f"{kind} of {self.feature}", ["", ""], rows + ([["outputs", str(k)]] if k > 1 else []))


def individual_curves(
    model: Any,
    feature: Any,
    X: Any,
    grid: Any = None,
    *,
    centred: bool = False,
    response: str = "raw",
    resolution: int | None = None,
    percentiles: tuple[float, float] = (0.05, 0.95),
) -> Curves:
    """One curve for each row of X: predictions with the column set to the values of the grid.

    Other arguments as in `partial_dependence`, which is the average of these curves. centred=True shifts every curve
    to 0 at the first grid point.
    """
    subject = Subject.of_trees(model)
    response = check_choice("response", response, ("raw", "prediction"))
    columns = subject.columns(feature)
    if len(columns) > 1:
        raise ParameterError(f"feature names {len(columns)} columns; curves are drawn for one.")
    points = make_grid(subject, columns, grid, resolution, percentiles)
    matrix = subject.matrix(X)
    raw = curve_values(subject, paths_of(subject.model), points, matrix)
    values = on_scale(subject, raw, response)
    own = matrix[:, points.columns[0]].astype(np.float64)
    name = subject.names[points.columns[0]]
    deciles, labels = points.deciles[0], points.labels[0]
    curves = Curves(name, points.axes[0], values, own, subject.outputs, response, deciles, labels=labels)
    return curves.centred() if centred else curves


def curve_values(subject: Subject, paths: Paths, points: Grid, matrix: np.ndarray) -> np.ndarray:
    """(n_outputs, n_rows, cells): raw predictions of the rows at all cells of a grid."""
    model = subject.model
    axis = points.axis_of(model.schema.n_columns)
    out = np.empty((model.n_outputs, len(matrix), int(np.prod(points.shape))))
    out[:] = model.initial[:, None, None]
    columns = np.array(matrix.T, np.float64, order="C")
    inside = (axis < 0).astype(np.uint8)
    threads = max(1, min(subject.n_threads, len(matrix) // 64, len(matrix) * len(paths.value) // _STEPS_A_THREAD))
    with Team(threads) as team:
        team.run(add_curves, columns, paths, inside, axis, points.padded, points.size, out)
    return out


def on_scale(subject: Subject, raw: np.ndarray, response: str) -> np.ndarray:
    """Raw predictions (n_outputs, ...) on the scale asked for; "prediction" is that of predict or predict_proba."""
    if response == "raw":
        return raw
    loss = subject.model.loss
    flat = raw.reshape(len(raw), -1)
    if hasattr(subject.estimator, "classes_") and len(raw) == 1:
        return loss.probabilities(flat)[:, 1].reshape(raw.shape)
    predicted = loss.predict(flat)
    return np.asarray(predicted.T if predicted.ndim == 2 else predicted).reshape(raw.shape)
