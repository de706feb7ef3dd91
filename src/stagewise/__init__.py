"""Boosting on tables: one exact engine, from AdaBoost to second-order histogram trees.

Names are imported on first use: `import stagewise` itself loads neither scikit-learn nor pandas.
"""

from __future__ import annotations

import gc
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stagewise._version import __version__
from stagewise.errors import (
    ClusterError,
    InputError,
    InputTypeError,
    MissingExtraError,
    ParameterError,
    StagewiseError,
    TrainingInterrupted,
)

if TYPE_CHECKING:
    from stagewise import inspection, plots, report
    from stagewise.data.dataset import Dataset
    from stagewise.estimators.adaboost import AdaBoostClassifier
    from stagewise.estimators.anylearner import StagewiseClassifier, StagewiseRegressor
    from stagewise.estimators.classification import GradientBoostingClassifier
    from stagewise.estimators.componentwise import ComponentwiseClassifier, ComponentwiseRegressor
    from stagewise.estimators.logitboost import GentleBoostClassifier, LogitBoostClassifier
    from stagewise.estimators.regression import GradientBoostingRegressor
    from stagewise.io.batches import predict_batches
    from stagewise.io.export import export_input
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
    "AdaBoostClassifier",
    "ClusterError",
    "ComponentwiseClassifier",
    "ComponentwiseRegressor",
    "Dataset",
    "GentleBoostClassifier",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "InputError",
    "InputTypeError",
    "LogitBoostClassifier",
    "Loss",
    "MissingExtraError",
    "ParameterError",
    "StagewiseClassifier",
    "StagewiseError",
    "StagewiseRegressor",
    "TrainingInterrupted",
    "__version__",
    "export_c",
    "export_input",
    "export_lightgbm",
    "export_onnx",
    "export_python",
    "export_xgboost",
    "import_lightgbm",
    "import_sklearn",
    "import_xgboost",
    "inspection",
    "load",
    "plots",
    "predict_batches",
    "report",
    "save",
]

_HOMES = {
    "AdaBoostClassifier": "stagewise.estimators.adaboost",
    "ComponentwiseClassifier": "stagewise.estimators.componentwise",
    "ComponentwiseRegressor": "stagewise.estimators.componentwise",
    "Dataset": "stagewise.data.dataset",
    "GentleBoostClassifier": "stagewise.estimators.logitboost",
    "GradientBoostingClassifier": "stagewise.estimators.classification",
    "GradientBoostingRegressor": "stagewise.estimators.regression",
    "LogitBoostClassifier": "stagewise.estimators.logitboost",
    "Loss": "stagewise.losses.base",
    "StagewiseClassifier": "stagewise.estimators.anylearner",
    "StagewiseRegressor": "stagewise.estimators.anylearner",
    "export_c": "stagewise.io.sources",
    "export_input": "stagewise.io.export",
    "export_lightgbm": "stagewise.io.lightgbm_text",
    "export_onnx": "stagewise.io.onnx",
    "export_python": "stagewise.io.sources",
    "export_xgboost": "stagewise.io.xgboost_json",
    "import_lightgbm": "stagewise.io.lightgbm",
    "import_sklearn": "stagewise.io.scikit",
    "import_xgboost": "stagewise.io.xgboost",
    "load": "stagewise.io.format",
    "predict_batches": "stagewise.io.batches",
    "save": "stagewise.io.format",
}

_ROOMS = ("inspection", "plots", "report")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return _imported(f"stagewise.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'stagewise' has no attribute {name!r}")
    return getattr(_imported(_HOMES[name]), name)


def _imported(module: str) -> ModuleType:
    """Import with the garbage collector paused: it would go over the thousands of new functions and classes of Numba
    and scikit-learn again and again, a tenth of the import's time, and find nothing."""
    running = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if running:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)
