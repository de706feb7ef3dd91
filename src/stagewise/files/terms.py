"""The terms of a model in sections: one section for each kind of term that occurs.

A new kind of term is one entry of TERMS: how a list of them becomes arrays, and how checked arrays become the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.errors import InputError
from stagewise.files.columns import line_arrays, read_lines, read_splines, spline_arrays
from stagewise.files.trees import read_trees, tree_arrays
from stagewise.learners.columns import Line, Spline
from stagewise.storage.container import Section
from stagewise.tree.tree import Tree

__all__ = ["TERMS", "TermKind", "read_stages", "write_stages"]

Stages = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class TermKind:
    """write: terms -> arrays; read: arrays and the number of columns -> terms, or InputError. Both must be exact."""

    kind: type
    write: Callable[[Sequence[Any]], dict[str, np.ndarray]]
    read: Callable[[Mapping[str, np.ndarray], int], Sequence[Any]]


TERMS: dict[str, TermKind] = {
    "lines": TermKind(Line, line_arrays, read_lines),
    "splines": TermKind(Spline, spline_arrays, read_splines),
    "trees": TermKind(Tree, tree_arrays, read_trees),
}
"""By the name of the section that holds them."""


def write_stages(stages: Stages) -> dict[str, Section]:
    """Sections of all terms, stage after stage, output after output; and "stages", which says whose turn it is."""
    terms = [term for stage in stages for term in stage]
    kinds = [next((name for name, own in TERMS.items() if type(term) is own.kind), "") for term in terms]
    if "" in kinds:
        what = type(terms[kinds.index("")])
        raise InputError(
            f"The model has terms of the type {what.__module__}.{what.__qualname__}, which cannot be saved: a file "
            "holds no code. Models of this library's own base learners can (estimator=None); pickle keeps the others."
        )
    present = sorted(set(kinds)) or ["trees"]
    _check_mixture(present)
    sections = {
        name: Section(
            {"terms": kinds.count(name)},
            TERMS[name].write([term for term, kind in zip(terms, kinds, strict=True) if kind == name]),
        )
        for name in present
    }
    arrays = {} if len(present) == 1 else {"kind": np.array([present.index(kind) for kind in kinds], np.uint8)}
    sections["stages"] = Section({"count": len(stages), "kinds": present}, arrays)
    return sections


def read_stages(sections: Mapping[str, Section], n_outputs: int, n_columns: int) -> Stages:
    """The stages of `write_stages`, each of n_outputs terms."""
    table = sections.get("stages", Section({}))
    count, kinds = table.values.get("count"), table.values.get("kinds")
    if type(count) is not int or not isinstance(kinds, list) or not kinds or len(set(map(repr, kinds))) != len(kinds):
        raise InputError("The file does not say how many stages the model has, or of which kinds its terms are.")
    for name in kinds:
        if not isinstance(name, str) or name not in TERMS or name not in sections:
            raise InputError(
                f"The model has terms of the kind {str(name)[:40]!r}, which this version of stagewise does not know."
            )
    _check_mixture(kinds)
    queues = {name: list(TERMS[name].read(sections[name].arrays, n_columns)) for name in kinds}
    total = sum(map(len, queues.values()))
    if count < 0 or count * n_outputs != total:
        raise InputError(f"The file has {total} terms, which are not {count} stages of {n_outputs}.")
    if any(sections[name].values.get("terms") != len(own) for name, own in queues.items()):
        raise InputError("A kind of terms has another number of them than the file says.")
    if len(kinds) == 1:
        terms = queues[kinds[0]]
    else:
        order = table.arrays.get("kind", np.empty(0))
        counts = [len(queues[name]) for name in kinds]
        if order.dtype != np.uint8 or order.ndim != 1 or np.bincount(order, minlength=len(kinds)).tolist() != counts:
            raise InputError("The order of the kinds of terms does not fit the terms.")
        ranks = [iter(queues[name]) for name in kinds]
        terms = [next(ranks[k]) for k in order]
    return tuple(tuple(terms[m * n_outputs : (m + 1) * n_outputs]) for m in range(count))


def _check_mixture(kinds: Sequence[str]) -> None:
    """Trees are laid out for prediction all together, so a model is all of them or has none."""
    if len(kinds) > 1 and "trees" in kinds:
        raise InputError(f"A model of trees has no other terms; this one has {', '.join(kinds)}.")
