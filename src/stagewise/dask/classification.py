"""GradientBoostingClassifier on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

import stagewise.estimators.classification as local
from stagewise.dask.base import ClusterBoosting
from stagewise.dask.partitions import Look
from stagewise.data.target import read_labels
from stagewise.errors import InputError, ParameterError

__all__ = ["GradientBoostingClassifier"]


class GradientBoostingClassifier(ClusterBoosting, local.GradientBoostingClassifier):
    """`stagewise.GradientBoostingClassifier`, trained on the workers of a Dask cluster: parameters as there."""

    _local_class = local.GradientBoostingClassifier

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **more: Any) -> Any:
        """Fit on the workers of a cluster; the model is the one that a fit on one machine gives, byte for byte.

        X : Dask array, Dask frame, list of delayed frames, or a pattern of Parquet files, which the workers read.
        y, sample_weight : divided as X is; or the name of a column of X's frames or files.
        more : `eval_set`, `init_score` and `client`, as for the regressor.
        """
        return self._keeping_labels(lambda: ClusterBoosting.fit(self, X, y, sample_weight, **more))

    def _classes(self, looks: list[Look]) -> tuple[np.ndarray, np.ndarray | None]:
        tallies = [own.labels for own in looks if own.labels is not None]
        labels = np.concatenate([own[0] for own in tallies])
        classes, codes = read_labels(labels, len(labels))
        rows, heavy = np.zeros((2, len(classes)), np.int64)
        np.add.at(rows, codes, np.concatenate([own[1] for own in tallies]))
        np.add.at(heavy, codes, np.concatenate([own[2] for own in tallies]))
        self.classes_ = classes
        by_class = self._class_weights(classes, rows)
        absent = (heavy == 0) if by_class is None else (heavy == 0) | (by_class == 0.0)
        if absent.any():
            raise InputError(
                f"class {classes[absent].tolist()[0]!r} has weight 0 in all of its rows; a classifier needs every "
                "class, at least two. Leave its rows out or give them weight."
            )
        return classes, by_class

    def _class_weights(self, classes: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":  # n / (K · rows of the class)
            return rows.sum() / (len(classes) * rows.astype(np.float64))
        try:
            weights = compute_sample_weight(self.class_weight, classes)
        except ValueError as error:
            raise ParameterError(f"class_weight={self.class_weight!r} cannot be used: {error}") from error
        if not np.isfinite(weights).all() or (weights < 0.0).any():
            raise ParameterError(f"class_weight={self.class_weight!r} must give finite weights, none negative.")
        return np.asarray(weights, np.float64)

    def predict(self, X: Any) -> Any:
        """As the local estimator's; of a Dask collection a lazy array or series."""
        return self._lazily("predict", X, None, self.classes_.dtype)

    def predict_proba(self, X: Any) -> Any:
        """As the local estimator's; of a Dask collection a lazy array or frame."""
        return self._lazily("predict_proba", X, len(self.classes_), np.float64)

    def decision_function(self, X: Any) -> Any:
        """As the local estimator's; of a Dask collection a lazy array, series or frame."""
        k = len(self.classes_)
        return self._lazily("decision_function", X, k if k > 2 else None, np.float64)
