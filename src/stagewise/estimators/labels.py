"""What every classifier here shares: labels, class weights, probabilities, and decisions by probability or cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stagewise.boosting.model import Model
from stagewise.data.target import class_numbers, encode_labels, read_labels
from stagewise.errors import InputError, ParameterError
from stagewise.estimators.joining import MixinStandIn, inherits, join
from stagewise.estimators.table import scored_rows

if TYPE_CHECKING:
    from sklearn.base import ClassifierMixin
else:
    ClassifierMixin = MixinStandIn

__all__ = ["LabelClassifier"]


@inherits("ClassifierMixin")
class LabelClassifier(ClassifierMixin):
    """A classifier whose raw predictions become probabilities by its loss; put before a TableEstimator. It has the
    parameter misclassification_cost and may have class_weight."""

    model_: Model
    classes_: np.ndarray

    def _read_y(self, y: Any, n_rows: int) -> np.ndarray:
        self.classes_, codes = read_labels(y, n_rows)
        return class_numbers(codes, len(self.classes_))

    def _read_eval_y(self, y: Any, n_rows: int) -> np.ndarray:
        return class_numbers(encode_labels(y, self.classes_, n_rows), len(self.classes_))

    def _strata(self, y: np.ndarray) -> list[np.ndarray]:
        return [y == k for k in range(len(self.classes_))]

    def _adjust_weights(self, weight: np.ndarray | None, y: np.ndarray) -> np.ndarray | None:
        class_weight = getattr(self, "class_weight", None)  # AdaBoost and its likes have none, as in scikit-learn
        if class_weight is not None:
            from sklearn.utils.class_weight import compute_sample_weight

            try:
                by_class = compute_sample_weight(class_weight, self.classes_[y.astype(np.int64)])
            except ValueError as error:
                raise ParameterError(f"class_weight={class_weight!r} cannot be used: {error}") from error
            with np.errstate(over="ignore"):
                weight = by_class if weight is None else weight * by_class
            if not np.isfinite(weight).all() or (by_class < 0.0).any():
                raise ParameterError(
                    f"class_weight={class_weight!r} must give finite weights, none negative; also multiplied with "
                    "sample_weight."
                )
        if weight is not None:
            present = np.bincount(y[weight > 0.0].astype(np.int64), minlength=len(self.classes_)) > 0
            if not present.all():
                gone = self.classes_[~present].tolist()
                raise InputError(
                    f"class {gone[0]!r} has weight 0 in all of its rows; a classifier needs every class, at least two. "
                    "Leave its rows out or give them weight."
                )
        return weight

    def _cost(self) -> np.ndarray | None:
        if self.misclassification_cost is None:
            return None
        try:
            cost = np.asarray(self.misclassification_cost, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError("misclassification_cost must be a square array of numbers.") from error
        k = len(self.classes_)
        if cost.shape != (k, k) or not np.isfinite(cost).all():
            raise ParameterError(
                f"misclassification_cost of shape {cost.shape} must be a finite array of shape ({k}, {k}): "
                "cost[predicted, true], in the order of classes_."
            )
        return cost

    def _keeping_labels(self, fit: Callable[[], Self]) -> Self:
        """Fit; when that fails, a model that was there keeps its labels."""
        before = getattr(self, "classes_", None)
        try:
            return fit()
        except BaseException:
            if before is not None:
                self.classes_ = before
            elif hasattr(self, "classes_"):
                del self.classes_
            raise

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        return self.model_.loss.probabilities(raw)

    def _decide(self, raw: np.ndarray) -> np.ndarray:
        cost = self._cost()
        if cost is not None:
            return self.classes_[(self._probabilities(raw) @ cost.T).argmin(axis=1)]
        chosen = raw.argmax(axis=0) if len(raw) > 1 else (self._probabilities(raw)[:, 1] > 0.5).astype(np.int64)
        return self.classes_[chosen]

    @staticmethod
    def _decision(raw: np.ndarray) -> np.ndarray:
        return raw[0] if len(raw) == 1 else np.ascontiguousarray(raw.T)

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions: (n_rows,) for two classes, (n_rows, K) otherwise."""
        return self._decision(self._raw(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_rows, K), columns in the order of `classes_`."""
        return self._probabilities(self._raw(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each row, or with misclassification_cost the one of least expected cost."""
        return self._decide(self._raw(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of `predict`; a Dataset brings its own y and weights."""
        join()
        return float(super().score(*scored_rows(X, y, sample_weight)))

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """decision_function after stage 1, 2, ..., M."""
        return (self._decision(raw) for raw in self._staged_raw(X))

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """predict_proba after stage 1, 2, ..., M."""
        return (self._probabilities(raw) for raw in self._staged_raw(X))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """predict after stage 1, 2, ..., M."""
        return (self._decide(raw) for raw in self._staged_raw(X))
