"""Deviance stage by stage, of one model or of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stagewise.boosting.model import History
from stagewise.errors import ParameterError
from stagewise.inspection.subject import Subject
from stagewise.plots.style import BLUE, COLOURS, DASHES, ORANGE, new_axes

__all__ = ["history"]


def _history(model: Any) -> History:
    return model if isinstance(model, History) else Subject.of(model).model.history


def history(models: Any, *, log: bool = False, ax: Any = None) -> Any:
    """Training and validation deviance; a dot marks the least validation deviance, which early stopping chooses.

    models: a fitted model (or its history_): both curves. A mapping from names to models compares them: validation
    curves where all have one, training curves otherwise. log: a logarithmic vertical axis.
    """
    ax = new_axes(ax, 5.6, 3.8)
    if isinstance(models, Mapping):
        _several(ax, {str(name): _history(model) for name, model in models.items()})
    else:
        _one(ax, _history(models))
    ax.set_xlabel("stages")
    ax.margins(x=0.02)
    if log:
        ax.set_yscale("log")
    ax.legend(frameon=False, fontsize=8)
    return ax


def _curve(ax: Any, own: History, values: np.ndarray, **style: Any) -> np.ndarray:
    """Draw a curve; the stages that its values belong to, the last ones when a warm start began to validate later."""
    stages = np.arange(len(own.train) - len(values), len(own.train)) + 1
    ax.plot(stages, values, **style)
    return stages


def _one(ax: Any, own: History) -> None:
    _curve(ax, own, own.train, color=BLUE, linestyle="--", linewidth=1.6, label="training")
    if len(own.validation):
        stages = _curve(ax, own, own.validation, color=ORANGE, linewidth=1.8, label="validation")
        least = int(np.argmin(own.validation))
        ax.plot(
            stages[least], own.validation[least], "o", color=ORANGE, markersize=7, label=f"least: M = {stages[least]}"
        )
        ax.axvline(stages[least], color="#888888", linewidth=0.8, linestyle=":")
    ax.set_ylabel("deviance")


def _several(ax: Any, named: dict[str, History]) -> None:
    if not named:
        raise ParameterError("there is no model to draw: the mapping is empty.")
    held_out = all(len(own.validation) for own in named.values())
    for k, (name, own) in enumerate(named.items()):
        values = own.validation if held_out else own.train
        style = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}
        stages = _curve(ax, own, values, linewidth=1.7, label=name, **style)
        if held_out:
            least = int(np.argmin(values))
            ax.plot(stages[least], values[least], "o", color=style["color"], markersize=6)
    ax.set_ylabel("validation deviance" if held_out else "training deviance")
