"""A model and some data -> a dictionary of plain values and pictures, which `page.py` makes a page of."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stagewise._version import __version__
from stagewise.data.frame import open_frame
from stagewise.errors import InputError, StagewiseError
from stagewise.files.disk import replace_file
from stagewise.inspection.importance import feature_importance
from stagewise.inspection.interaction import h_statistic
from stagewise.inspection.subject import Subject
from stagewise.report.branches import trees_of
from stagewise.report.page import render
from stagewise.report.profile import profile, profile_target
from stagewise.report.scores import Predicted, predicted_of, scores_of
from stagewise.report.shapes import attributions, dependence, importance, learning, pair
from stagewise.report.verdict import verdict

__all__ = ["summarise", "write"]

_MOST_COLUMNS = 120  # columns in the profile; the others are counted


def summarise(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    target: str | None = None,
    title: str | None = None,
    held_out: bool | None = None,
    facts: Sequence[tuple[str, str]] = (),
    run: str = "",
) -> dict[str, Any]:
    """All that a report says, as a dictionary.

    model: a fitted estimator. X, y, sample_weight: rows to look at it on, best ones that were held out; without y there
    are no scores. target: the name of y. held_out: whether X was kept out of training, None when that is not known.
    facts: pairs of words on where model and data come from. run: the text that repeats the training.
    """
    subject = Subject.of(model)
    if subject.estimator is None:
        raise InputError("a report needs a fitted estimator, which knows what y means; a model_ does not.")
    n = _n_rows(X)
    own = None if y is None else predicted_of(model, X, y, sample_weight)
    gone: list[str] = []

    def part(make: Callable[[], Any], what: str) -> Any:
        """A part of the report; one that this model or these data do not allow is left out, and the page says so."""
        try:
            return make()
        except (StagewiseError, AttributeError) as error:
            gone.append(f"{what}: {' '.join(str(error).split())}")
            return None

    gain = part(lambda: feature_importance(model, scale="sum"), "Importance")
    order = list(range(len(subject.names))) if gain is None else [int(j) for j in gain.order]
    links = part(lambda: h_statistic(model, X), "Interactions") if len(subject.names) > 1 and n > 1 else None
    columns = part(lambda: profile(X, subject.names), "Columns")
    return {
        "title": title or (f"A model of {target}" if target else "A boosted model"),
        "target": target,
        "rows": n,
        "held_out": held_out,
        "facts": _facts(subject, X, n, target, held_out, facts),
        "scores": None if own is None else scores_of(own),
        "learning": part(lambda: learning(subject), "Learning curve"),
        "importance": None if gain is None else part(lambda: importance(gain), "Importance"),
        "dependence": part(lambda: dependence(subject, _used(gain, order)), "Dependence"),
        "pair": None if links is None else part(lambda: pair(subject, links), "Pair"),
        "attributions": part(lambda: attributions(subject, X), "SHAP values"),
        "verdict": None if own is None else part(lambda: verdict(subject, X, y, sample_weight, own), "Errors"),
        "trees": part(lambda: trees_of(subject), "Trees"),
        "target_profile": None if own is None else _target(y, own, subject, target),
        "columns": None if columns is None else [columns[j] for j in order[:_MOST_COLUMNS]],
        "columns_left": max(0, len(order) - _MOST_COLUMNS),
        "settings": _settings(model),
        "run": run,
        "left_out": gone,
        "version": __version__,
    }


def write(path: str | os.PathLike[str], model: Any, X: Any, y: Any = None, **options: Any) -> None:
    """Write a report: one HTML file that needs nothing else. Options as in `summarise`."""
    replace_file(path, render(summarise(model, X, y, **options)).encode())


def _n_rows(X: Any) -> int:
    frame = open_frame(X)
    return len(np.asarray(X)) if frame is None else int(frame.shape[0])


def _used(gain: Any, order: list[int]) -> list[int]:
    return order if gain is None else [j for j in order if gain.values[j] > 0.0]


def _target(y: Any, own: Predicted, subject: Subject, name: str | None) -> dict[str, Any]:
    classes = getattr(subject.estimator, "classes_", None)
    return profile_target(own.y if classes is None else classes[own.y], classes, name or "target")


def _facts(
    subject: Subject, X: Any, n: int, target: str | None, held_out: bool | None, given: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    model, estimator = subject.model, subject.estimator
    facts = [("Predicted", target)] if target else []
    facts += [(str(name), str(own)) for name, own in given]
    where = {True: "held out of training", False: "the rows it was trained on", None: "whether trained on is not known"}
    facts.append(("Rows of this report", f"{n:,}, {where[held_out]}"))
    facts.append(("Columns", f"{len(subject.names):,}"))
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        some = ", ".join(map(str, classes[:8])) + (", …" if len(classes) > 8 else "")
        facts.append(("Classes", f"{len(classes)}: {some}"))
    facts.append(("Model", f"{type(estimator).__name__}, loss {model.loss!r}"))
    history = model.history
    kept, tried = len(model.stages), len(history.train)
    chosen = f" of {tried:,} tried, the best on the validation rows" if len(history.validation) and tried > kept else ""
    facts.append(("Stages", f"{kept:,}{chosen}"))
    return [*facts, ("Written by", f"stagewise {__version__}, Python {platform.python_version()}")]


def _settings(model: Any) -> list[tuple[str, str, bool]]:
    """(name, value, whether it is not the default) of every parameter."""
    usual = type(model)().get_params(deep=False)
    own = model.get_params(deep=False)
    return [(name, str(value), repr(value) != repr(usual[name])) for name, value in own.items() if name != "callbacks"]
