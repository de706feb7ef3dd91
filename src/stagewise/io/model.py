"""A fitted Model as sections of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.boosting.model import History, Model
from stagewise.data.table import Schema
from stagewise.errors import InputError
from stagewise.files.container import Section
from stagewise.files.terms import TERMS, read_stages, write_stages
from stagewise.files.trees import check_trees
from stagewise.io.losses import Losses, read_loss, write_loss

__all__ = ["EXTRAS", "Extra", "read_model", "write_model"]


@dataclass(frozen=True, slots=True)
class Extra:
    """A section that not every model has. write: None when this one has not; read: the model with it."""

    write: Callable[[Model], Section | None]
    read: Callable[[Section, Model], Model]


EXTRAS: dict[str, Extra] = {}
"""Sections beyond the model itself, by name: what a later version keeps with a model is entered here."""


def write_model(model: Model) -> dict[str, Section]:
    """The sections of a model. What could not be loaded again is not written: the loader's checks come first."""
    history = model.history
    sections = write_stages(model.stages)
    if "trees" in sections:
        check_trees(sections["trees"].arrays, model.schema.n_columns)
    names = None if model.schema.names is None else list(model.schema.names)
    sections["model"] = Section(
        {"best": history.best, "loss": write_loss(model.loss), "names": names},
        {
            "initial": model.initial,
            "cuts": np.concatenate([np.empty(0), *model.cuts]),
            "cut_counts": np.array([len(cuts) for cuts in model.cuts], np.int64),
            "history_train": history.train,
            "history_validation": history.validation,
            "history_rows": history.rows,
            "history_initial": np.array([history.initial]),
        },
    )
    for name, extra in EXTRAS.items():
        section = extra.write(model)
        if section is not None:
            sections[name] = section
    return sections


def read_model(sections: Mapping[str, Section], losses: Losses) -> Model:
    """The model of `write_model`; everything that code relies on is checked."""
    known = {"model", "stages", *TERMS, *EXTRAS}
    unknown = sorted(set(sections) - known)
    if unknown or "model" not in sections:
        what = f"a section {unknown[0][:40]!r}" if unknown else "no section 'model'"
        raise InputError(f"The file has {what}: it was written by another version of stagewise; install a newer one.")
    values, arrays = sections["model"].values, sections["model"].arrays
    cut_counts = _row(arrays, "cut_counts", np.int64)
    n_columns = len(cut_counts)
    initial = _row(arrays, "initial", np.float64)
    if not len(initial) or not np.isfinite(initial).all():
        raise InputError("The starting values of the model must be finite numbers, at least one.")
    loss = read_loss(values.get("loss"), losses)
    if loss.n_outputs != len(initial):
        raise InputError(f"The loss {loss!r} has {loss.n_outputs} outputs, but the model has {len(initial)}.")
    model = Model(
        loss=loss,
        initial=initial,
        stages=read_stages(sections, len(initial), n_columns),
        cuts=_cuts(_row(arrays, "cuts", np.float64), cut_counts),
        schema=Schema(n_columns, _names(values.get("names"), n_columns)),
        history=_history(values.get("best"), arrays),
    )
    if model.history.best != len(model.stages):
        raise InputError(f"The history keeps {model.history.best} stages, but the model has {len(model.stages)}.")
    for name, extra in EXTRAS.items():
        if name in sections:
            model = extra.read(sections[name], model)
    return model


def _row(arrays: Mapping[str, np.ndarray], name: str, kind: Any) -> np.ndarray:
    array = arrays.get(name)
    if array is None or array.ndim != 1 or array.dtype != kind:
        raise InputError(f"The model has no array {name!r} of one dimension and type {np.dtype(kind)}.")
    return array


def _names(names: Any, n_columns: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != n_columns or not all(isinstance(own, str) for own in names):
        raise InputError(f"The names of the columns must be {n_columns} texts.")
    return tuple(names)


def _cuts(joined: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, ...]:
    if (counts < 0).any() or (counts > len(joined)).any() or int(counts.sum()) != len(joined) or not len(counts):
        raise InputError("The numbers of cut points of the columns do not add up, or there is no column.")
    cuts = tuple(np.split(joined, np.cumsum(counts)[:-1]))
    if any(np.isnan(own).any() or (own[1:] <= own[:-1]).any() for own in cuts):
        raise InputError("The cut points of a column are not ascending numbers.")
    return cuts


def _history(best: Any, arrays: Mapping[str, np.ndarray]) -> History:
    train, validation = _row(arrays, "history_train", np.float64), _row(arrays, "history_validation", np.float64)
    rows, initial = _row(arrays, "history_rows", np.int64), _row(arrays, "history_initial", np.float64)
    if len(rows) != len(train) or len(validation) > len(train) or len(initial) != 1 or (rows < 0).any():
        raise InputError("The arrays of the history differ in length.")
    if type(best) is not int or not 0 <= best <= len(train):
        raise InputError("The history keeps a number of stages that it does not have.")
    return History(train, validation, rows, best, float(initial[0]))
