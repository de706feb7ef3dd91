"""What every regressor here shares: numbers in, predictions on the scale of y out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from stagewise.boosting.model import Model
from stagewise.data.target import read_target
from stagewise.estimators.joining import MixinStandIn, inherits, join
from stagewise.estimators.table import scored_rows

if TYPE_CHECKING:
    from sklearn.base import RegressorMixin
else:
    RegressorMixin = MixinStandIn

__all__ = ["NumberRegressor"]


@inherits("RegressorMixin")
class NumberRegressor(RegressorMixin):
    """A regressor whose raw predictions become predictions by its loss; put before a TableEstimator."""

    model_: Model

    def _read_y(self, y: Any, n_rows: int) -> np.ndarray:
        return read_target(y, n_rows)

    _read_eval_y = _read_y

    def predict(self, X: Any) -> np.ndarray:
        """Predicted values (n_rows,) on the scale of y."""
        raw = self._raw(X)
        return self.model_.loss.predict(raw)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R² of `predict`; a Dataset brings its own y and weights."""
        join()
        return float(super().score(*scored_rows(X, y, sample_weight)))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predictions after stage 1, 2, ..., M."""
        return (self.model_.loss.predict(raw) for raw in self._staged_raw(X))
