"""Boosting on tables: one exact engine, from AdaBoost to second-order histogram trees.

Names are imported on first use: `import stagewise` itself loads neither scikit-learn nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stagewise._version import __version__
from stagewise.errors import (
    InputError,
    InputTypeError,
    MissingExtraError,
    ParameterError,
    StagewiseError,
    TrainingInterrupted,
)

if TYPE_CHECKING:
    from stagewise.data.dataset import Dataset
    from stagewise.estimators.classification import GradientBoostingClassifier
    from stagewise.estimators.regression import GradientBoostingRegressor
    from stagewise.io.format import load, save
    from stagewise.io.lightgbm import import_lightgbm
    from stagewise.io.lightgbm_text import export_lightgbm
    from stagewise.io.onnx import export_onnx
    from stagewise.io.scikit import import_sklearn
    from stagewise.io.sources import export_c, export_python
    from stagewise.io.xgboost import import_xgboost
    from stagewise.io.xgboost_json import export_xgboost
    from stagewise.losses.base import Loss

__all__ = [
    "Dataset",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "InputError",
    "InputTypeError",
    "Loss",
    "MissingExtraError",
    "ParameterError",
    "StagewiseError",
    "TrainingInterrupted",
    "__version__",
    "export_c",
    "export_lightgbm",
    "export_onnx",
    "export_python",
    "export_xgboost",
    "import_lightgbm",
    "import_sklearn",
    "import_xgboost",
    "load",
    "save",
]

_HOMES = {
    "Dataset": "stagewise.data.dataset",
    "GradientBoostingClassifier": "stagewise.estimators.classification",
    "GradientBoostingRegressor": "stagewise.estimators.regression",
    "Loss": "stagewise.losses.base",
    "export_c": "stagewise.io.sources",
    "export_lightgbm": "stagewise.io.lightgbm_text",
    "export_onnx": "stagewise.io.onnx",
    "export_python": "stagewise.io.sources",
    "export_xgboost": "stagewise.io.xgboost_json",
    "import_lightgbm": "stagewise.io.lightgbm",
    "import_sklearn": "stagewise.io.scikit",
    "import_xgboost": "stagewise.io.xgboost",
    "load": "stagewise.io.format",
    "save": "stagewise.io.format",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stagewise' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
