"""What is looked at: a fitted model with the names of its columns and outputs."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.boosting.model import Model
from stagewise.data.table import read_table
from stagewise.data.target import read_weights
from stagewise.errors import InputError, InputTypeError, ParameterError
from stagewise.inspection.levels import Names, level_names
from stagewise.kernels.team import available_cores
from stagewise.params import job_count

__all__ = ["Subject"]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A model, the estimator around it if there is one, and names for everything."""

    model: Model
    estimator: Any
    names: tuple[str, ...]
    outputs: tuple[str, ...]  # one name for each output of the model; of a single one: "" or the second class
    levels: tuple[Names, ...]  # by column: names of the codes of categories, None for numbers

    @classmethod
    def of(cls, model: Any) -> Subject:
        """From a fitted estimator or its `model_`."""
        estimator = None
        if not isinstance(model, Model):
            estimator, title = model, type(model).__name__
            if isinstance(model, type) or not hasattr(model, "fit"):
                raise InputTypeError(f"model must be a fitted stagewise estimator or its model_, not {title}.")
            model = getattr(estimator, "model_", None)
            if model is None and type(estimator).__module__.split(".")[0] == "stagewise":
                from sklearn.exceptions import NotFittedError

                raise NotFittedError(f"This {title} is not fitted yet; call fit first.")
            if not isinstance(model, Model):
                raise InputTypeError(
                    f"{title} is no estimator of stagewise. In a pipeline, pass its last step and transformed data."
                )
        names = model.schema.names or tuple(f"x{j}" for j in range(model.schema.n_columns))
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            outputs = tuple(str(k) for k in range(model.n_outputs)) if model.n_outputs > 1 else ("",)
        else:
            outputs = tuple(str(label) for label in (classes if model.n_outputs > 1 else classes[1:]))
        return cls(model, estimator, names, outputs, level_names(model))

    @classmethod
    def of_trees(cls, model: Any) -> Subject:
        """As `of`, for those who look at leaves; raises where the model has other terms than trees of our own."""
        subject = cls.of(model)
        if not subject.model.of_trees:
            title = "this model" if subject.estimator is None else f"this {type(subject.estimator).__name__}"
            raise InputTypeError(
                f"only trees of our own can be looked into, and {title} has terms of another kind; permutation "
                "importance takes any estimator."
            )
        return subject

    @property
    def coded(self) -> frozenset[int]:
        """Columns of categories whose level table the model has."""
        return frozenset(np.flatnonzero(self.model.schema.in_sets).tolist())

    @property
    def n_threads(self) -> int:
        return job_count(getattr(self.estimator, "n_jobs", None), available_cores())

    def column(self, feature: Any) -> int:
        """The number of a column, from its name or number."""
        if isinstance(feature, numbers.Integral) and not isinstance(feature, bool):
            if not 0 <= int(feature) < len(self.names):
                raise ParameterError(
                    f"column {feature} does not exist; the model has columns 0 to {len(self.names) - 1}."
                )
            return int(feature)
        if not isinstance(feature, str):
            raise ParameterError(f"feature={feature!r} must be the name or number of a column.")
        found = [j for j, name in enumerate(self.names) if name == feature]
        if len(found) != 1:
            some = ", ".join(repr(name) for name in self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            what = "is no column of the model" if not found else f"names {len(found)} columns; use their numbers"
            raise ParameterError(f"{feature!r} {what}; there are {some}.")
        return found[0]

    def columns(self, features: Any) -> tuple[int, ...]:
        """Numbers of columns, from one name or number or several; each at most once."""
        if isinstance(features, str) or not isinstance(features, Iterable):
            features = (features,)
        found = tuple(self.column(feature) for feature in features)
        if not found:
            raise ParameterError("features is empty; name at least one column.")
        if len(set(found)) < len(found):
            twice = next(j for j in found if found.count(j) > 1)
            raise ParameterError(f"features name column {self.names[twice]!r} twice; name each once.")
        return found

    def matrix(self, X: Any) -> np.ndarray:
        """A table that fits the model, as a row-major float matrix."""
        if X is None:
            raise InputError("X is needed here: a table with the columns of the model.")
        title = "the model" if self.estimator is None else type(self.estimator).__name__
        return read_table(X, like=self.model.schema, estimator_name=title).to_matrix()

    def shares(self, sample_weight: Any, n_rows: int) -> np.ndarray:
        """Weights of rows, of sum 1."""
        weight = read_weights(sample_weight, n_rows)
        if weight is None:
            return np.full(n_rows, 1.0 / n_rows)
        peak = float(weight.max())
        scaled = weight / peak
        return np.asarray(scaled / scaled.sum())
