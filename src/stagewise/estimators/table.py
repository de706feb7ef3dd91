"""What every estimator here shares: reading tables, seeds and callbacks, and the predictions of its fitted model."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from stagewise.boosting.binned import binned_raw, binned_stages
from stagewise.boosting.model import Model
from stagewise.boosting.progress import progress_bar
from stagewise.data.dataset import Dataset
from stagewise.data.sparse import Sparse
from stagewise.data.table import Table, read_table
from stagewise.errors import InputError, ParameterError
from stagewise.estimators.joining import StandIn, check_fitted, inherits, join
from stagewise.kernels.team import available_cores
from stagewise.params import check_count, job_count

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
else:
    BaseEstimator = StandIn

__all__ = ["TableEstimator", "scored_rows"]


def scored_rows(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """What `score` compares: X, y and weights as given, or those that a Dataset holds."""
    if isinstance(X, Dataset):
        y = X.y if y is None else y
        sample_weight = X.sample_weight if sample_weight is None else sample_weight
    if y is None:
        raise InputError("score needs y to compare with, as an argument or in the Dataset.")
    return X, y, sample_weight


@inherits("BaseEstimator")
class TableEstimator(BaseEstimator):
    """An estimator whose `fit` makes `model_` from a table; it has the parameters random_state, n_jobs, verbose and
    callbacks."""

    model_: Model

    # --- what comes in -----------------------------------------------------------------------------------------------

    def _read_new(self, X: Any) -> Table:
        """The table to fit, with the columns of categories that this estimator takes."""
        return read_table(X, categorical=getattr(self, "categorical_features", None))

    def _read_table(self, X: Any, y: Any, sample_weight: Any) -> tuple[Table | None, Dataset | None, Any, Any]:
        if not isinstance(X, Dataset):
            return self._read_new(X), None, y, sample_weight
        if y is not None and X.y is not None:
            raise InputError("y came twice, in the Dataset and as an argument of fit; give it once.")
        if sample_weight is not None and X.sample_weight is not None:
            raise InputError("sample_weight came twice, in the Dataset and as an argument of fit; give it once.")
        weight = X.sample_weight if sample_weight is None else sample_weight
        return None, X, X.y if y is None else y, weight

    def _seed(self) -> int:
        """random_state as a number: None is 0, a RandomState gives its next one."""
        seed = self.random_state
        if seed is None:
            return 0
        if isinstance(seed, bool) or not isinstance(seed, numbers.Integral):
            try:
                if isinstance(seed, (bool, np.bool_)):
                    raise ValueError("a truth value is no seed")
                from sklearn.utils import check_random_state

                seed = check_random_state(seed).randint(2**31 - 1)
            except ValueError as error:
                raise ParameterError(
                    f"random_state={self.random_state!r} must be None, a whole number or a RandomState."
                ) from error
        return int(seed)

    def _check_watchers(self) -> None:
        check_count("verbose", int(self.verbose) if isinstance(self.verbose, bool | np.bool_) else self.verbose, 0)
        if self.callbacks is not None and not isinstance(self.callbacks, (list, tuple)):
            raise ParameterError("callbacks must be a list of objects with on_start, on_stage or on_end; or None.")
        for callback in self.callbacks or ():
            if not any(hasattr(callback, name) for name in ("on_start", "on_stage", "on_end")):
                raise ParameterError(
                    f"callbacks must be objects with on_start, on_stage or on_end; {callback!r} has none of them."
                )

    def _callbacks(self) -> list[Any]:
        own = [] if self.callbacks is None else list(self.callbacks)
        return [progress_bar(), *own] if self.verbose else own

    # --- results -----------------------------------------------------------------------------------------------------

    def _keep(self, model: Model) -> None:
        self.model_ = model
        self.n_estimators_ = len(model.stages)
        self.history_ = model.history
        self.n_features_in_ = model.schema.n_columns
        if model.schema.names is not None:
            self.feature_names_in_ = np.array(model.schema.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @property
    def feature_importances_(self) -> np.ndarray:
        """Relative importance of the columns: squared improvement, averaged over trees, scaled to sum 1."""
        check_fitted(self)
        self._need_trees("feature_importances_")
        total = self.model_.importance()
        return total / total.sum() if total.sum() > 0.0 else total

    def _rows(self, X: Any) -> np.ndarray | Sparse:
        check_fitted(self)
        return read_table(X, like=self.model_.schema, estimator_name=type(self).__name__).rows()

    def _raw(self, X: Any) -> np.ndarray:
        if isinstance(X, Dataset):
            check_fitted(self)
            return binned_raw(self.model_, X, job_count(self.n_jobs, available_cores()))
        rows = self._rows(X)
        return self.model_.raw(rows, job_count(self.n_jobs, available_cores()))

    def _staged_raw(self, X: Any) -> Iterator[np.ndarray]:
        if isinstance(X, Dataset):
            check_fitted(self)
            stages = binned_stages(self.model_, X, job_count(self.n_jobs, available_cores()))
            return (raw.copy() for raw in islice(stages, 1, None))
        rows = self._rows(X)
        return self.model_.staged_raw(rows, job_count(self.n_jobs, available_cores()))

    def _need_trees(self, what: str) -> None:
        if not self.model_.of_trees:
            raise AttributeError(f"{type(self).__name__} has {what} only where its learner is a tree of our own.")

    def apply(self, X: Any) -> np.ndarray:
        """The node number of the leaf that each row reaches: (n_rows, n_stages), with K > 2 classes (..., K)."""
        rows = self._rows(X)
        self._need_trees("apply")
        leaves = self.model_.leaves(rows, job_count(self.n_jobs, available_cores()))
        k = self.model_.n_outputs
        return leaves if k == 1 else leaves.reshape(len(leaves), -1, k)

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram, and below it what was fitted."""
        from sklearn.utils import estimator_html_repr

        fitted = self.model_._repr_html_() if hasattr(self, "model_") else ""
        return f"<div>{estimator_html_repr(self)}{fitted}</div>"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        join()
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:  # not with sklearn.set_config(display="text")
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def __sklearn_tags__(self) -> Any:
        if join():  # what this method goes on to has changed
            return self.__sklearn_tags__()
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags
