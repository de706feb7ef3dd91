"""Pictures of models and of what inspection finds, drawn with matplotlib (the extra `plot`).

Every function takes `ax=` to draw into (a new figure is made otherwise) and returns the Axes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "calibration",
    "curves",
    "dependence_panels",
    "gain",
    "history",
    "importance",
    "interactions",
    "losses",
    "partial_dependence",
    "precision_recall",
    "residuals",
    "roc",
    "shap_bar",
    "shap_dependence",
    "shap_summary",
    "shap_waterfall",
    "surface",
    "tree",
]

# No module has the name of a function: Python would put the module in the function's place once it is imported.
_HOMES = {
    "calibration": "verdicts",
    "curves": "lines",
    "dependence_panels": "lines",
    "gain": "verdicts",
    "history": "progress",
    "importance": "bars",
    "interactions": "matrix",
    "losses": "gallery",
    "partial_dependence": "lines",
    "precision_recall": "verdicts",
    "residuals": "verdicts",
    "roc": "verdicts",
    "shap_bar": "attributions",
    "shap_dependence": "attributions",
    "shap_summary": "attributions",
    "shap_waterfall": "attributions",
    "surface": "maps",
    "tree": "diagram",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stagewise.plots' has no attribute {name!r}")
    return getattr(import_module(f"stagewise.plots.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
