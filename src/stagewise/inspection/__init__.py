"""Looking inside a fitted model: importance, dependence, interactions, attributions. Numbers out; plots draws them.

Every function takes a fitted estimator or its `model_`, and returns a small frozen record that prints itself and has
`to_frame()`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "completeness",
    "feature_importance",
    "functional_anova",
    "h_statistic",
    "individual_curves",
    "partial_dependence",
    "shap_interactions",
    "shap_values",
    "shared_paths",
    "tree_text",
]

_HOMES = {
    "completeness": "correlation",
    "feature_importance": "importance",
    "functional_anova": "anova",
    "h_statistic": "interaction",
    "individual_curves": "curves",
    "partial_dependence": "dependence",
    "shap_interactions": "shap",
    "shap_values": "shap",
    "shared_paths": "interaction",
    "tree_text": "outline",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stagewise.inspection' has no attribute {name!r}")
    return getattr(import_module(f"stagewise.inspection.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
