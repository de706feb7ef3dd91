"""The model file: `save` and `load`. docs/model-file.md describes it byte by byte."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from stagewise.boosting.model import Model
from stagewise.errors import InputError, InputTypeError
from stagewise.files.values import read_value, write_value
from stagewise.io.losses import Losses, read_loss, write_loss
from stagewise.io.model import read_model, write_model
from stagewise.learners.columns import Line, Spline
from stagewise.losses.base import Loss
from stagewise.storage.container import Content, Section, pack, unpack
from stagewise.storage.disk import read_file, replace_file
from stagewise.tree.tree import Tree

__all__ = ["ESTIMATORS", "dumps", "load", "loads", "save"]

ESTIMATORS = {
    "AdaBoostClassifier": "stagewise.estimators.adaboost",
    "ComponentwiseClassifier": "stagewise.estimators.componentwise",
    "ComponentwiseRegressor": "stagewise.estimators.componentwise",
    "GentleBoostClassifier": "stagewise.estimators.logitboost",
    "GradientBoostingClassifier": "stagewise.estimators.classification",
    "GradientBoostingRegressor": "stagewise.estimators.regression",
    "LogitBoostClassifier": "stagewise.estimators.logitboost",
    "StagewiseClassifier": "stagewise.estimators.anylearner",
    "StagewiseRegressor": "stagewise.estimators.anylearner",
}
"""The estimators that a file may name, and their modules: nothing else is ever imported."""

_NOT_KEPT = ("callbacks",)
"""Parameters that are code, and about a fit rather than its result; a loaded estimator has their default."""

_BASES: dict[Any, tuple[type, ...]] = {"linear": (Line,), "spline": (Line, Spline), "stump": (Tree,)}
"""The terms of a Componentwise*, by its base; a column that cannot be told from a constant is a Line. All other
estimators have trees."""

_NOTES = {"AdaBoostClassifier": ("error", "alpha", "weight")}
"""Notes on every stage that an estimator takes attributes from."""

_CRITERION = "criterion_path_"
"""The one attribute that follows neither from the model nor from the parameters: a Componentwise* may have it."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or a bare Model, to a file; the usual ending is `.stagewise`.

    The file holds no code, and the same model gives the same bytes. It is replaced in one step: after a crash or on a
    full disk the old file is still there. `callbacks` are not kept; a loss of your own is, by the name of its class.
    """
    replace_file(path, dumps(model))


def load(path: str | os.PathLike[str], *, losses: Mapping[str, type[Loss]] | None = None) -> Any:
    """The estimator, or Model, of a file. Safe on files from anyone: a file is read as numbers, checked, never run.

    losses: classes of your own losses by name, for models that were trained with one.
    """
    return loads(read_file(path), losses=losses, name=os.fspath(path))


def dumps(model: Any) -> bytes:
    """The bytes that `save` writes."""
    if isinstance(model, Model):
        return pack(Content("model", write_model(model)))
    model = model.to_local() if hasattr(model, "to_local") else model  # trained on a cluster
    kind = type(model).__name__
    if kind not in ESTIMATORS or type(model) is not getattr(import_module(ESTIMATORS[kind]), kind):
        raise InputTypeError(f"{type(model).__qualname__} cannot be saved; what can: {', '.join(ESTIMATORS)}.")
    if not hasattr(model, "model_"):
        raise InputError(f"This {kind} is not fitted yet; call fit before save.")
    _check_fit(model, model.model_)
    params = {
        name: _write_loss_param(value) if name == "loss" else write_value(value, name)
        for name, value in model.get_params(deep=False).items()
        if name not in _NOT_KEPT
    }
    classes = getattr(model, "classes_", None)
    values = {"class": kind, "classes": None if classes is None else write_value(_labels(classes), "classes_")}
    arrays = {_CRITERION: getattr(model, _CRITERION)} if hasattr(model, _CRITERION) else {}
    estimator = Section({**values, "params": params}, arrays)
    return pack(Content("estimator", {**write_model(model.model_), "estimator": estimator}))


def loads(data: bytes, *, losses: Losses | None = None, name: str = "the file") -> Any:
    """The estimator, or Model, in the bytes of a file."""
    content = unpack(data, name)
    given = _given(losses)
    sections = dict(content.sections)
    try:
        if content.kind == "model":
            return read_model(sections, given)
        if content.kind != "estimator":
            raise InputError(f"It holds a {content.kind[:40]!r}, not a model.")
        estimator = sections.pop("estimator", Section({}))
        return _read_estimator(estimator, read_model(sections, given), given)
    except InputError as error:
        raise InputError(
            f"{name} cannot be loaded. {error} (It was written by stagewise {content.library}.)"
        ) from error


def _given(losses: Mapping[str, Any] | None) -> Losses:
    given = {} if losses is None else dict(losses)
    for own, kind in given.items():
        if not isinstance(kind, type) or not issubclass(kind, Loss):
            raise InputTypeError(f"losses[{own!r}] must be a class derived from stagewise.Loss, not {kind!r}.")
    return given


def _labels(classes: np.ndarray) -> np.ndarray:
    """Class labels as an array that files know; long doubles only when nothing is lost."""
    if classes.dtype.kind == "f" and classes.dtype.itemsize not in (4, 8):
        classes = classes.astype(np.float64)
    return classes


def _write_loss_param(loss: Any) -> Any:
    """The parameter `loss`: a name, a Loss, or a class of losses."""
    if isinstance(loss, Loss):
        return {"type": "loss", "value": write_loss(loss)}
    if isinstance(loss, type) and issubclass(loss, Loss):
        return {"type": "loss class", "value": loss.__name__}
    return write_value(loss, "loss")


def _read_loss_param(stored: Any, losses: Losses) -> Any:
    if isinstance(stored, dict) and stored.get("type") == "loss":
        return read_loss(stored.get("value"), losses)
    if isinstance(stored, dict) and stored.get("type") == "loss class":
        return type(read_loss({"name": stored.get("value"), "state": {}}, losses))
    return read_value(stored, "loss")


def _read_estimator(section: Section, model: Model, losses: Losses) -> Any:
    values = section.values
    kind, params = values.get("class"), values.get("params")
    if not isinstance(kind, str) or kind not in ESTIMATORS:
        raise InputError(f"It holds an estimator {str(kind)[:60]!r}, which this version of stagewise does not know.")
    made = getattr(import_module(ESTIMATORS[kind]), kind)()
    known = set(made.get_params(deep=False)) - set(_NOT_KEPT)
    if not isinstance(params, dict) or not set(params) <= known:
        extra = sorted(set(params) - known)[0] if isinstance(params, dict) else "params"
        raise InputError(f"{kind} has no parameter {extra[:60]!r} in this version of stagewise; install a newer one.")
    made.set_params(
        **{
            name: _read_loss_param(own, losses) if name == "loss" else read_value(own, name)
            for name, own in params.items()
        }
    )
    _check_fit(made, model)
    made._keep(model)
    _read_criterion(made, section.arrays)
    classes = read_value(values.get("classes"), "classes")
    if kind.endswith("Classifier"):
        made.classes_ = _checked_classes(classes, model)
    elif classes is not None or model.n_outputs != 1:
        raise InputError(f"A {kind} has one output and no classes.")
    return made


def _check_fit(estimator: Any, model: Model) -> None:
    """Raise InputError unless the model is one that this estimator, with its parameters, makes: before it is saved, and
    when it was loaded."""
    kind, own = type(estimator).__name__, getattr(estimator, "estimator", None)
    if own is not None:
        raise InputError(
            f"A {kind} with estimator={repr(own)[:100]} holds models of another library, which a file of stagewise "
            "cannot: it holds no code. Keep it with pickle, or use our own trees (estimator=None)."
        )
    of_columns = hasattr(estimator, "base")
    base = estimator.base if of_columns else "stump"
    allowed = _BASES.get(base) if isinstance(base, str) else None
    if allowed is None or not all(isinstance(term, allowed) for stage in model.stages for term in stage):
        what = f"A {kind} of base={repr(base)[:40]}" if of_columns else f"A {kind}"
        raise InputError(f"{what} does not make the terms that the model has.")
    if of_columns and not model.stages:
        raise InputError(f"A {kind} has at least one stage.")
    for name in _NOTES.get(kind, ()):
        if len(model.history.notes.get(name, ())) != len(model.history.train):
            raise InputError(f"A {kind} needs the {name!r} of every stage, which the history lacks.")


def _read_criterion(made: Any, arrays: Mapping[str, np.ndarray]) -> None:
    if not arrays:
        return
    path = arrays.get(_CRITERION)
    if path is None or len(arrays) > 1 or not hasattr(made, "base"):
        raise InputError(f"The estimator has the arrays {sorted(arrays)[:3]}, not all of which it can have.")
    if path.ndim != 1 or path.dtype != np.float64 or len(path) < len(made.model_.stages):
        raise InputError(f"{_CRITERION} must be a row of numbers, one for each stage at least.")
    setattr(made, _CRITERION, path)


def _checked_classes(classes: Any, model: Model) -> np.ndarray:
    """Labels (K,), ascending, as many as the model tells apart."""
    count = 2 if model.n_outputs == 1 else model.n_outputs
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) != count:
        raise InputError(f"The classes must be {count} labels.")
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise InputError("A class label is not finite.")
    ordered = classes.tolist()
    if any(not one < other for one, other in pairwise(ordered)):
        raise InputError("The class labels are not in ascending order.")
    return classes
