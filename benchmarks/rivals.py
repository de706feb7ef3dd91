"""The libraries, with settings made equal as far as each allows.

| ours | LightGBM | XGBoost | CatBoost | scikit-learn |
| --- | --- | --- | --- | --- |
| max_leaf_nodes 31 | num_leaves | max_leaves, or max_depth 5 (32) | max_leaves, or depth 5 (32) | max_leaf_nodes |
| learning_rate 0.1 | the same | the same | the same | the same |
| max_bins 255 | max_bin | max_bin | border_count 254 | max_bins |
| min_samples_leaf 20 | min_child_samples | none (1) | min_data_in_leaf (2) | min_samples_leaf |
| min_child_weight 1e-3 | the same | the same (1) | none | fixed at 1e-3 |
| l2_regularization 1 | reg_lambda | reg_lambda | l2_leaf_reg | l2_regularization |
| n_jobs | n_jobs | n_jobs | thread_count | OpenMP's number (3) |

(1) XGBoost limits the sum of second derivatives only. For squared error that is the number of rows, so 20 there.
    For other losses there is no such setting; l2 = 1 (its default) for all keeps its smallest leaves harmless.
(2) Without effect on symmetric trees.
(3) Set with threadpoolctl, outside of the time that is measured.

CatBoost draws rows, adds noise to its scores and takes several steps a leaf unless told otherwise; here it does what
the others do: all rows, no noise, one Newton step, and it need not evaluate the training loss at each stage.
It starts from the mean for squared error and two classes; counts get their mean as a baseline, K classes start from 0.
XGBoost and LightGBM shorten Poisson steps unless told otherwise (second derivatives times e^0.7, for safety), which the
others do not: here they take whole steps too.
For K classes second derivatives differ by constant factors: LightGBM and we K/(K-1), XGBoost 2, scikit-learn 1.
CatBoost's order of leaves is its own, and so is its min_data_in_leaf. parts/draws.py compares like with like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from benchmarks.settings import Settings

__all__ = ["OURS", "RIVALS", "Rival", "Stagewise", "chosen"]

OURS = "stagewise"


class Rival:
    """One library in one form. trees: leafwise, depthwise or symmetric."""

    name: str
    title: str
    trees: str = "leafwise"

    def estimator(self, settings: Settings) -> Any:
        """Its scikit-learn estimator, not fitted."""
        raise NotImplementedError

    def fit(self, settings: Settings, X: np.ndarray, y: np.ndarray) -> Any:
        """Everything that fit(X, y) does, the library's own dataset included."""
        return self.estimator(settings).fit(X, y)

    def predict(self, settings: Settings, model: Any, X: np.ndarray) -> np.ndarray:
        """Probabilities (rows, classes), or means (rows,)."""
        result = model.predict_proba(X) if settings.classes else model.predict(X)
        return np.asarray(result)

    def limited(self, threads: int) -> AbstractContextManager[Any]:
        """Entered before the clock starts, for a library whose estimators have no setting for threads."""
        return nullcontext()


class Stagewise(Rival):
    name, title = OURS, "stagewise"

    def __init__(self, growth: str = "leafwise") -> None:
        self.trees = growth
        if growth != "leafwise":
            self.name, self.title = f"{OURS}-{growth}", f"stagewise, {growth}"

    def estimator(self, settings: Settings) -> Any:
        from stagewise import GradientBoostingClassifier, GradientBoostingRegressor

        options: dict[str, Any] = {
            "growth": self.trees,
            "n_estimators": settings.stages,
            "learning_rate": settings.rate,
            "max_leaf_nodes": settings.leaves if self.trees == "leafwise" else 2**settings.depth,
            "max_depth": None if self.trees == "leafwise" else settings.depth,
            "max_bins": settings.bins,
            "min_samples_leaf": settings.min_rows,
            "min_child_weight": settings.min_hess,
            "l2_regularization": settings.l2,
            "early_stopping": False,
            "n_jobs": settings.threads,
        }
        if settings.classes:
            return GradientBoostingClassifier(**options)
        return GradientBoostingRegressor("poisson" if settings.task == "count" else "squared_error", **options)


class LightGBM(Rival):
    name, title = "lightgbm", "LightGBM"

    def estimator(self, settings: Settings) -> Any:
        from lightgbm import LGBMClassifier, LGBMRegressor

        options: dict[str, Any] = {
            "n_estimators": settings.stages,
            "learning_rate": settings.rate,
            "num_leaves": settings.leaves,
            "max_bin": settings.bins,
            "min_child_samples": settings.min_rows,
            "min_child_weight": settings.min_hess,
            "reg_lambda": settings.l2,
            "n_jobs": settings.threads,
            "verbose": -1,
        }
        if settings.classes:
            return LGBMClassifier(**options)
        options |= {"poisson_max_delta_step": 1e-9} if settings.task == "count" else {}  # 0 is refused
        return LGBMRegressor(objective="poisson" if settings.task == "count" else "regression", **options)


class XGBoost(Rival):
    def __init__(self, policy: str) -> None:
        self.policy = policy
        loss_guided = policy == "lossguide"
        self.trees = "leafwise" if loss_guided else "depthwise"
        self.name = "xgboost-lossguide" if loss_guided else "xgboost"
        self.title = "XGBoost, loss-guided" if loss_guided else "XGBoost, depth-wise"

    def estimator(self, settings: Settings) -> Any:
        from xgboost import XGBClassifier, XGBRegressor

        options: dict[str, Any] = {
            "tree_method": "hist",
            "grow_policy": self.policy,
            "n_estimators": settings.stages,
            "learning_rate": settings.rate,
            "max_bin": settings.bins,
            "min_child_weight": settings.min_rows if settings.task == "regression" else settings.min_hess,
            "reg_lambda": settings.l2,
            "n_jobs": settings.threads,
        }
        if self.policy == "lossguide":
            options |= {"max_leaves": settings.leaves, "max_depth": 0}
        else:
            options |= {"max_depth": settings.depth}
        if settings.classes:
            return XGBClassifier(**options)
        options |= {"max_delta_step": 0.0} if settings.task == "count" else {}
        return XGBRegressor(objective="count:poisson" if settings.task == "count" else "reg:squarederror", **options)


class CatBoost(Rival):
    def __init__(self, policy: str) -> None:
        self.policy = policy
        symmetric = policy == "SymmetricTree"
        self.trees = "symmetric" if symmetric else "leafwise"
        self.name = "catboost" if symmetric else "catboost-lossguide"
        self.title = "CatBoost, symmetric" if symmetric else "CatBoost, loss-guided"

    def estimator(self, settings: Settings) -> Any:
        from catboost import CatBoostClassifier, CatBoostRegressor

        losses = {"binary": "Logloss", "multiclass": "MultiClass", "regression": "RMSE", "count": "Poisson"}
        options: dict[str, Any] = {
            "loss_function": losses[settings.task],
            "grow_policy": self.policy,
            "iterations": settings.stages,
            "learning_rate": settings.rate,
            "border_count": settings.bins - 1,
            "l2_leaf_reg": settings.l2,
            "bootstrap_type": "No",
            "random_strength": 0.0,
            "leaf_estimation_method": "Newton",
            "leaf_estimation_iterations": 1,
            "boosting_type": "Plain",
            "metric_period": settings.stages,
            "allow_writing_files": False,
            "logging_level": "Silent",
            "thread_count": settings.threads,
        }
        if settings.task in ("binary", "regression"):  # the others always do it
            options["boost_from_average"] = True
        if self.trees == "symmetric":
            options["depth"] = settings.depth
        else:
            options |= {"max_leaves": settings.leaves, "depth": 16, "min_data_in_leaf": settings.min_rows}
        return CatBoostClassifier(**options) if settings.classes else CatBoostRegressor(**options)

    def fit(self, settings: Settings, X: np.ndarray, y: np.ndarray) -> Any:
        if settings.task != "count":
            return super().fit(settings, X, y)
        # it starts counts at e^0 = 1; from there the first step towards a mean of 190 overflows, and it never recovers
        start = math.log(float(y.mean()))
        return self.estimator(settings).fit(X, y, baseline=np.full(len(y), start)), start

    def predict(self, settings: Settings, model: Any, X: np.ndarray) -> np.ndarray:
        if settings.classes:
            return np.asarray(model.predict_proba(X, thread_count=settings.threads))
        if settings.task == "count":
            model, start = model
            raw = model.predict(X, prediction_type="RawFormulaVal", thread_count=settings.threads)
            return np.asarray(np.exp(start + np.asarray(raw)))
        return np.asarray(model.predict(X, thread_count=settings.threads))


class ScikitLearn(Rival):
    name, title = "scikit-learn", "scikit-learn"

    def estimator(self, settings: Settings) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        options: dict[str, Any] = {
            "max_iter": settings.stages,
            "learning_rate": settings.rate,
            "max_leaf_nodes": settings.leaves,
            "max_bins": settings.bins,
            "min_samples_leaf": settings.min_rows,
            "l2_regularization": settings.l2,
            "early_stopping": False,
        }
        if settings.classes:
            return HistGradientBoostingClassifier(**options)
        return HistGradientBoostingRegressor(loss="poisson" if settings.task == "count" else "squared_error", **options)

    def limited(self, threads: int) -> AbstractContextManager[Any]:
        import sklearn.ensemble  # noqa: F401  its OpenMP must be loaded to be found
        from threadpoolctl import threadpool_limits

        limits: AbstractContextManager[Any] = threadpool_limits(threads, user_api="openmp")
        return limits


RIVALS: dict[str, Rival] = {
    rival.name: rival
    for rival in (
        Stagewise(),
        LightGBM(),
        XGBoost("depthwise"),
        XGBoost("lossguide"),
        CatBoost("SymmetricTree"),
        CatBoost("Lossguide"),
        ScikitLearn(),
    )
}


def chosen(names: Sequence[str]) -> dict[str, Rival]:
    """The named ones, and always ours; all when none is named."""
    return {name: rival for name, rival in RIVALS.items() if not names or name in names or name == OURS}
