"""GradientBoostingRegressor on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

import stagewise.estimators.regression as local
from stagewise.dask.base import ClusterBoosting

__all__ = ["GradientBoostingRegressor"]


class GradientBoostingRegressor(ClusterBoosting, local.GradientBoostingRegressor):  # type: ignore[misc]
    """`stagewise.GradientBoostingRegressor`, trained on the workers of a Dask cluster: parameters as there."""

    _local_class = local.GradientBoostingRegressor

    def predict(self, X: Any) -> Any:
        """As the local estimator's; of a Dask collection a lazy array or series."""
        return self._lazily("predict", X, None, np.float64)
