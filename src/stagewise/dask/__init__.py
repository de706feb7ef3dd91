"""Training on a Dask cluster: the model of one machine, byte for byte; workers may die meanwhile.

    from stagewise.dask import GradientBoostingRegressor
    model = GradientBoostingRegressor().fit(X, y)          # Dask arrays, frames, delayed frames, or a Parquet glob

See docs/cluster.md.
"""

from __future__ import annotations

from stagewise.errors import MissingExtraError

try:
    import distributed  # noqa: F401
except ImportError as error:
    raise MissingExtraError("stagewise.dask needs Dask: pip install 'stagewise[dask]'.") from error

from stagewise.dask.classification import GradientBoostingClassifier
from stagewise.dask.regression import GradientBoostingRegressor

__all__ = ["GradientBoostingClassifier", "GradientBoostingRegressor"]
