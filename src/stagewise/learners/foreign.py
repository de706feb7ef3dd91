"""Any scikit-learn regressor or classifier as base learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.errors import InputError, ParameterError
from stagewise.learners.base import Working

__all__ = ["ClassifierLearner", "ForeignTerm", "RegressorLearner", "VoteTerm", "check_foreign", "takes_missing"]


def takes_missing(estimator: Any) -> bool:
    """Whether the estimator says that it can handle NaN."""
    from sklearn.utils import get_tags

    return bool(get_tags(estimator).input_tags.allow_nan)


def check_foreign(estimator: Any, classifier: bool) -> None:
    """Raise ParameterError unless `estimator` is an unfitted scikit-learn regressor (or classifier)."""
    from sklearn.base import is_classifier, is_regressor

    kind = "classifier" if classifier else "regressor"
    usable = not isinstance(estimator, type) and hasattr(estimator, "fit") and hasattr(estimator, "get_params")
    if not usable or not (is_classifier if classifier else is_regressor)(estimator):
        raise ParameterError(
            f"estimator={estimator!r} must be a scikit-learn {kind} (an instance, not a class), or None for our own "
            "trees."
        )


class _ForeignLearner:
    """Clones, seeds and fits one estimator a stage."""

    def __init__(self, estimator: Any, X: np.ndarray, seed: Any, n_outputs: int = 1) -> None:
        """seed: an integer or RandomState from which every clone gets a random_state of its own, as in scikit-learn."""
        from sklearn.utils import check_random_state
        from sklearn.utils.validation import has_fit_parameter

        self.estimator, self.X, self.outputs = estimator, X, range(n_outputs)
        self._random = check_random_state(seed)
        self._name = type(estimator).__name__
        self._weighted = has_fit_parameter(estimator, "sample_weight")
        if np.isnan(X).any() and not takes_missing(estimator):
            raise InputError(
                f"Input X contains NaN, which {self._name} does not accept natively; use our own trees "
                "(estimator=None), an estimator that takes missing values, or fill them in first."
            )

    def needs_weights(self) -> None:
        """Raise unless the estimator takes sample weights."""
        if not self._weighted:
            raise ParameterError(
                f"{self._name} does not support sample_weight, which this method needs; use an estimator whose fit "
                "takes sample_weight, or None for our own trees."
            )

    def _fit(self, target: np.ndarray, weight: np.ndarray | None, index: np.ndarray) -> Any:
        """A fresh clone fitted to the rows of `index` (all when empty)."""
        from sklearn.base import clone

        made = clone(self.estimator)
        seeds = {
            name: self._random.randint(np.iinfo(np.int32).max)
            for name in sorted(made.get_params(deep=True))
            if name == "random_state" or name.endswith("__random_state")
        }
        if seeds:
            made.set_params(**seeds)
        if weight is not None:
            self.needs_weights()
        X = self.X if len(index) == 0 else self.X[index]
        try:
            return made.fit(X, target) if weight is None else made.fit(X, target, sample_weight=weight)
        except ValueError as error:
            raise InputError(f"{self._name} could not be fitted: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class ForeignTerm:
    """step · estimator.predict(x)."""

    estimator: Any
    step: float

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.step * np.asarray(self.estimator.predict(X), dtype=np.float64).reshape(len(X))


class ForeignFit:
    """A fitted regressor and its predictions on the training table."""

    def __init__(self, estimator: Any, X: np.ndarray) -> None:
        self.estimator = estimator
        self._values = ForeignTerm(estimator, 1.0).predict(X)
        if not np.isfinite(self._values).all():
            raise InputError(f"{type(estimator).__name__} predicts values that are not finite; boosting cannot go on.")

    def values(self) -> np.ndarray:
        return self._values

    def scaled(self, step: float) -> ForeignTerm:
        return ForeignTerm(self.estimator, step)

    def add(self, terms: Sequence[ForeignTerm], raw: np.ndarray, output: int) -> None:
        for term in terms:
            raw[output] += term.step * self._values


class RegressorLearner(_ForeignLearner):
    """Fits a regressor to -grad/hess with weights hess; without weights where they are all 1."""

    def fit(self, working: Working, index: np.ndarray, rest: np.ndarray, stage: int, output: int) -> ForeignFit:
        target, weight = working.response(index)
        return ForeignFit(self._fit(target, weight, index), self.X)


@dataclass(frozen=True, slots=True, eq=False)
class VoteTerm:
    """A classifier's vote: `step` for the class that it predicts, -step/(K-1) for the others.

    With two classes there is one output: +step for the second class, -step for the first.
    """

    estimator: Any
    step: float
    n_classes: int

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.votes(np.asarray(self.estimator.predict(X)).astype(np.int64))

    def votes(self, codes: np.ndarray) -> np.ndarray:
        """What predicted class numbers (n_rows,) add to the raw predictions."""
        if self.n_classes == 2:
            return np.where(codes == 1, self.step, -self.step)
        chosen = codes[None, :] == np.arange(self.n_classes)[:, None]
        return np.where(chosen, self.step, -self.step / (self.n_classes - 1.0))


class VoteFit:
    """A fitted classifier and the class numbers that it predicts on the training table."""

    def __init__(self, estimator: Any, X: np.ndarray, n_classes: int) -> None:
        self.estimator, self.n_classes = estimator, n_classes
        self.codes = np.asarray(estimator.predict(X)).astype(np.int64)

    def voting(self, step: float) -> VoteTerm:
        return VoteTerm(self.estimator, step, self.n_classes)

    def add(self, terms: Sequence[VoteTerm], raw: np.ndarray, output: int) -> None:
        for term in terms:
            raw += term.votes(self.codes)


class ClassifierLearner(_ForeignLearner):
    """Fits a classifier to the classes themselves, with the working pairs' hess as weights."""

    def __init__(self, estimator: Any, X: np.ndarray, y: np.ndarray, n_classes: int, seed: Any) -> None:
        super().__init__(estimator, X, seed)
        self.codes, self.n_classes = y.astype(np.int64), n_classes
        self.needs_weights()

    def fit(self, working: Working, index: np.ndarray, rest: np.ndarray, stage: int, output: int) -> VoteFit:
        rows = slice(None) if len(index) == 0 else index
        made = self._fit(self.codes[rows], working.hess[rows], index)
        return VoteFit(made, self.X, self.n_classes)
