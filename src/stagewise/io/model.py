"""A fitted Model as sections of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stagewise.boosting.model import History, Model
from stagewise.data.binning import Marginal
from stagewise.data.leveltables import level_arrays, read_levels
from stagewise.data.table import Schema
from stagewise.errors import InputError
from stagewise.files.terms import TERMS, read_stages, write_stages
from stagewise.io.losses import Losses, read_loss, write_loss
from stagewise.storage.container import Section

__all__ = ["EXTRAS", "Extra", "read_model", "write_model"]


@dataclass(frozen=True, slots=True)
class Extra:
    """A section that not every model has. write: None when this one has not; read: the model with it."""

    write: Callable[[Model], Section | None]
    read: Callable[[Section, Model], Model]


def write_model(model: Model) -> dict[str, Section]:
    """The sections of a model. What could not be loaded again is not written: the loader's checks come first."""
    history = model.history
    if any(len(stage) != model.n_outputs for stage in model.stages):  # votes of other libraries' classifiers alone do
        raise InputError("A stage has another number of terms than the model has outputs; such a model is not saved.")
    sections = write_stages(model.stages)
    for name in sections.keys() & TERMS.keys():
        TERMS[name].read(sections[name].arrays, model.schema.n_columns)
    names = None if model.schema.names is None else list(model.schema.names)
    values = {"best": history.best, "loss": write_loss(model.loss), "names": names}
    if model.schema.zeros_missing:
        values["zeros"] = "missing"
    binned = len(model.cuts) > 0
    sections["model"] = Section(
        values if binned else {**values, "binned": False},
        {
            "initial": model.initial,
            "cuts": np.concatenate([np.empty(0), *model.cuts]),
            "cut_counts": np.array([len(cuts) for cuts in model.cuts or [()] * model.schema.n_columns], np.int64),
            "history_train": history.train,
            "history_validation": history.validation,
            "history_rows": history.rows,
            "history_initial": np.array([history.initial]),
            "history_kept": history.kept,
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
        cuts=_cuts(_row(arrays, "cuts", np.float64), cut_counts, values.get("binned", True)),
        schema=Schema(n_columns, _names(values.get("names"), n_columns), zeros_missing=_zeros_missing(values)),
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


def _zeros_missing(values: Mapping[str, Any]) -> bool:
    zeros = values.get("zeros", "values")
    if zeros not in ("values", "missing"):
        raise InputError("The model does not say whether zeros are values or missing.")
    return bool(zeros == "missing")


def _cuts(joined: np.ndarray, counts: np.ndarray, binned: Any) -> tuple[np.ndarray, ...]:
    if (counts < 0).any() or (counts > len(joined)).any() or int(counts.sum()) != len(joined) or not len(counts):
        raise InputError("The numbers of cut points of the columns do not add up, or there is no column.")
    cuts = tuple(np.split(joined, np.cumsum(counts)[:-1]))
    if any(np.isnan(own).any() or (own[1:] <= own[:-1]).any() for own in cuts):
        raise InputError("The cut points of a column are not ascending numbers.")
    if not isinstance(binned, bool) or (len(joined) and not binned):
        raise InputError("The file has cut points but says that there are none, or does not say.")
    return cuts if binned else ()


def _history(best: Any, arrays: Mapping[str, np.ndarray]) -> History:
    train, validation = _row(arrays, "history_train", np.float64), _row(arrays, "history_validation", np.float64)
    rows, initial = _row(arrays, "history_rows", np.int64), _row(arrays, "history_initial", np.float64)
    if len(rows) != len(train) or len(validation) > len(train) or len(initial) != 1 or (rows < 0).any():
        raise InputError("The arrays of the history differ in length.")
    if type(best) is not int or not 0 <= best <= len(train):
        raise InputError("The history keeps a number of stages that it does not have.")
    kept = _row(arrays, "history_kept", np.float64) if "history_kept" in arrays else np.empty(0)
    if len(kept) > len(train) or not ((kept >= 0.0) & (kept <= 1.0)).all():
        raise InputError("The history has a share of rows for a stage that it does not have, or one outside of [0, 1].")
    return History(train, validation, rows, best, float(initial[0]), kept)


# --- what not every model has ----------------------------------------------------------------------------------------


def _write_marginals(model: Model) -> Section | None:
    own = model.marginals
    if not own:
        return None
    arrays = {
        "size": np.array([len(one.points) for one in own], np.int64),
        "points": np.concatenate([np.empty(0), *(one.points for one in own)]),
        "shares": np.concatenate([np.empty(0), *(one.shares for one in own)]),
        "missing": np.array([one.missing for one in own]),
    }
    return Section({}, arrays)


def _read_marginals(section: Section, model: Model) -> Model:
    arrays, n_columns = section.arrays, model.schema.n_columns
    size, missing = _row(arrays, "size", np.int64), _row(arrays, "missing", np.float64)
    points, shares = _row(arrays, "points", np.float64), _row(arrays, "shares", np.float64)
    if len(size) != n_columns or len(missing) != n_columns or len(points) != len(shares):
        raise InputError(f"The distributions of the columns must be {n_columns}, with a share for each point.")
    if (size < 0).any() or (size > len(points)).any() or int(size.sum()) != len(points):
        raise InputError("The numbers of points of the columns do not add up to the points that are there.")
    ends = np.cumsum(size)[:-1]
    made = tuple(map(Marginal, np.split(points, ends), np.split(shares, ends), missing.tolist()))
    for own in made:
        if np.isnan(own.points).any() or (own.points[1:] <= own.points[:-1]).any():
            raise InputError("The points of a column's distribution are not ascending numbers.")
        parts = np.append(own.shares, own.missing)
        if not ((parts >= 0.0) & (parts <= 1.0)).all() or abs(parts.sum() - 1.0) > _NEARLY:
            raise InputError("The shares of a column's distribution must be in [0, 1] and sum to 1.")
    return replace(model, marginals=made)


def _write_notes(model: Model) -> Section | None:
    return Section({}, model.history.notes) if model.history.notes else None


def _read_notes(section: Section, model: Model) -> Model:
    notes = {name: _row(section.arrays, name, np.float64) for name in section.arrays}
    if any(len(own) > len(model.history.train) for own in notes.values()):
        raise InputError("The notes on the stages are more than there are stages.")
    return replace(model, history=replace(model.history, notes=notes))


def _write_levels(model: Model) -> Section | None:
    return Section({}, level_arrays(model.schema.levels)) if model.schema.coded else None


def _read_levels(section: Section, model: Model) -> Model:
    levels = read_levels(section.arrays, model.schema.n_columns)
    return replace(model, schema=replace(model.schema, levels=levels))


EXTRAS = {
    "levels": Extra(_write_levels, _read_levels),
    "marginals": Extra(_write_marginals, _read_marginals),
    "notes": Extra(_write_notes, _read_notes),
}
"""Sections beyond the model itself, by name: what a later version keeps with a model is entered here."""

_NEARLY = 1e-6
"""How far a sum of shares may be from 1: a share is rounded in its last bit."""
