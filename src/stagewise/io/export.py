"""What every export shares: the model as it is to be written, and the proof that what was written predicts the same."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stagewise.boosting.model import Model
from stagewise.data.table import read_table
from stagewise.errors import InputError, InputTypeError
from stagewise.inspection.levels import level_names
from stagewise.io.proof import probe_rows
from stagewise.losses.base import Loss
from stagewise.losses.linked import link_of
from stagewise.params import check_choice
from stagewise.storage.disk import replace_file
from stagewise.tree.tree import Tree

__all__ = ["Export", "Proof", "export_input", "export_of", "finish", "unchecked"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What an export was checked with: the reader, how many rows, how many of them differ, and by how much at most."""

    reader: str
    rows: int
    differences: int
    largest: float


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """A model to be written: plain trees, a link, labels."""

    model: Model
    trees: tuple[Tree, ...]  # stage after stage, output after output
    link: str  # one of losses.linked.LINKS, or "softmax"
    factor: float
    classes: np.ndarray | None  # None for numbers
    names: tuple[str, ...] | None
    cost: np.ndarray | None  # misclassification cost (K, K)

    @property
    def n_outputs(self) -> int:
        return self.model.n_outputs

    @property
    def n_columns(self) -> int:
        return self.model.schema.n_columns

    @property
    def loss(self) -> Loss:
        return self.model.loss

    def refuse(self, what: str) -> InputError:
        """The error for a link that a format lacks."""
        return InputError(f"{what} cannot represent a model of the loss {self.loss!r} (its link is {self.link}).")

    def with_start(self) -> list[Tree]:
        """The trees with the constant in the leaves of each output's first tree: for formats without a constant.

        constant + leaf is the first sum of our predictions too, so all further sums have the same bits.
        """
        k, trees = self.n_outputs, list(self.trees) or [Tree.stump(0) for _ in range(self.n_outputs)]
        for output in range(k):
            tree = trees[output]
            leaf = tree.left < 0
            value = np.where(leaf, tree.value + self.model.initial[output], 0.0)
            trees[output] = replace(tree, value=value)
        return trees

    @property
    def codes(self) -> dict[int, np.ndarray]:
        """By column that is split by sets: its codes, or those that sets have when its levels are not known."""
        names = enumerate(level_names(self.model))
        return {j: np.arange(len(own)) for j, own in names if own is not None}

    @property
    def possible(self) -> dict[int, np.ndarray]:
        """`codes`, and one that no set has where any may occur."""
        coded = self.model.schema.coded
        return {j: own if j in coded else np.append(own, len(own)) for j, own in self.codes.items()}

    def predictions(self, rows: np.ndarray) -> np.ndarray:
        """What users of an export see: numbers (n,), or probabilities (n, K)."""
        raw = self.model.raw(rows)
        return self.loss.probabilities(raw) if self.classes is not None else self.loss.predict(raw)


def export_of(model: Any, what: str) -> Export:
    """The Export of a fitted estimator; `what` names the format in messages."""
    fitted = getattr(model, "model_", None)
    if not isinstance(fitted, Model):
        raise InputTypeError(f"{what} export needs a fitted estimator of stagewise, not {type(model).__name__}.")
    trees = tuple(term for stage in fitted.stages for term in stage)
    if not all(isinstance(term, Tree) for term in trees):
        raise InputError(f"{what} export is for models of trees; this one has other terms.")
    classes = getattr(model, "classes_", None)
    if classes is None and fitted.n_outputs > 1:
        raise InputError(f"{what} export is for models of one target; this one has {fitted.n_outputs}.")
    link = link_of(fitted.loss)
    if link is None:
        raise InputError(
            f"{what} cannot represent a loss with a link of its own ({fitted.loss!r}): predictions would be raw."
        )
    if classes is not None and link[0] == "identity":  # a loss of one's own for two classes: f is taken as log-odds
        link = ("sigmoid", 1.0)
    if fitted.schema.zeros_missing:
        warnings.warn(
            f"zeros are missing values for this model, but not for {what}: pass NaN for them, as export_input does.",
            stacklevel=3,
        )
    cost = model._cost() if classes is not None and hasattr(model, "_cost") else None
    return Export(fitted, trees, *link, classes, fitted.schema.names, cost)


def export_input(model: Any, X: Any) -> np.ndarray:
    """The rows of X as exported models take them: a float matrix (n_rows, n_columns).

    Missing values are NaN, and categories are the codes of the model's level tables, NaN for levels that it does not
    know (or, where a model has them, target statistics).
    """
    fitted = getattr(model, "model_", None)
    if not isinstance(fitted, Model):
        raise InputTypeError(f"export_input needs a fitted estimator of stagewise, not {type(model).__name__}.")
    return np.array(read_table(X, like=fitted.schema, estimator_name=type(model).__name__).to_matrix(), np.float64)


def finish(
    path: str | os.PathLike[str],
    data: bytes,
    export: Export,
    reader: str,
    predict: Callable[[np.ndarray], np.ndarray],
    *,
    on_difference: str,
    dtype: Any = np.float64,
    infinite: bool = True,
    relative: float = 0.0,
    absolute: float = 0.0,
    prepare: Callable[[np.ndarray], np.ndarray] | None = None,
    expected: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Proof:
    """Check an export and write it. Nothing is written when it differs, unless on_difference="warn".

    `predict` is the written model: rows (n, n_columns) -> what `expected` gives (by default `export.predictions`). They
    must agree to within absolute + relative · |expected|, which is the format's own precision; 0 means the same bits.
    """
    check_choice("on_difference", on_difference, ("refuse", "warn"))
    rows = probe_rows(export.trees, export.n_columns, dtype, infinite=infinite, codes=export.possible)
    if prepare is not None:
        rows = prepare(rows)
    wanted = (expected or export.predictions)(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the reader: what counts is what it predicts
        got = np.asarray(predict(rows), np.float64).reshape(wanted.shape)
    with np.errstate(invalid="ignore"):
        gap = np.where(got == wanted, 0.0, np.abs(got - wanted))
        wrong = ~(gap <= absolute + relative * np.abs(wanted))
    differ = int(wrong.reshape(len(rows), -1).any(axis=1).sum())
    largest = float(np.nan_to_num(gap, nan=np.inf).max(initial=0.0))
    proof = Proof(reader, len(rows), differ, largest)
    if differ:
        message = (
            f"{differ:,} of {len(rows):,} rows on and around the thresholds are predicted differently by {reader}, by "
            f"up to {largest:.3g}."
        )
        if on_difference == "refuse":
            raise InputError(f"{message} Nothing was written; on_difference='warn' writes it all the same.")
        warnings.warn(message, stacklevel=3)
    replace_file(path, data)
    return proof


def unchecked(path: str | os.PathLike[str], data: bytes, reader: str, extra: str) -> Proof:
    """Write an export that cannot be checked here, and say so."""
    warnings.warn(f"{os.fspath(path)} was written but not checked: {reader} is not installed{extra}.", stacklevel=3)
    replace_file(path, data)
    return Proof("nothing", 0, 0, 0.0)
