"""Models of other libraries, and rows that stand on their thresholds."""

from __future__ import annotations

import functools
import warnings

import lightgbm as lgb
import numpy as np
import xgboost as xgb

from io_models import signal, table
from stagewise.io.proof import probe_rows

X = table(800)
F = np.clip(signal(X), -3.0, 3.0)
WITH_ZEROS = np.where(np.random.default_rng(0).random(X.shape) < 0.3, 0.0, X)

TARGETS = {
    "number": F, "amount": np.exp(F), "share": 1 / (1 + np.exp(-F)), "two": (F > 0).astype(int),
    "three": np.digitize(F, [-0.5, 1.0]), "grades": np.digitize(F, [-1.0, 0.0, 1.0]),
}  # fmt: skip

LIGHTGBM = {
    "regression": ("number", {}),
    "sqrt": ("amount", {"reg_sqrt": True}),
    "l1": ("number", {"objective": "l1"}),
    "huber": ("number", {"objective": "huber", "alpha": 0.7}),
    "fair": ("number", {"objective": "fair"}),
    "quantile": ("number", {"objective": "quantile", "alpha": 0.3}),
    "mape": ("number", {"objective": "mape"}),
    "poisson": ("amount", {"objective": "poisson"}),
    "gamma": ("amount", {"objective": "gamma"}),
    "tweedie": ("amount", {"objective": "tweedie", "tweedie_variance_power": 1.3}),
    "cross_entropy": ("share", {"objective": "cross_entropy"}),
    "cross_entropy_lambda": ("share", {"objective": "cross_entropy_lambda"}),
    "binary": ("two", {}),
    "binary sigmoid": ("two", {"sigmoid": 2.5}),
    "multiclass": ("three", {}),
    "one against all": ("three", {"objective": "multiclassova", "sigmoid": 1.5}),
    "dart": ("number", {"boosting_type": "dart", "drop_seed": 1}),
    "random forest": ("number", {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}),
    "random forest, classes": ("three", {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}),
    "zeros are missing": ("number", {"zero_as_missing": True}),
    "zeros are missing, classes": ("three", {"zero_as_missing": True}),
    "nothing is missing": ("number", {"use_missing": False}),
    "one leaf": ("number", {"min_child_samples": 1000}),
}

XGBOOST = {
    "squared error": ("number", {}),
    "absolute error": ("number", {"objective": "reg:absoluteerror"}),
    "pseudo-huber": ("number", {"objective": "reg:pseudohubererror"}),
    "squared log": ("amount", {"objective": "reg:squaredlogerror"}),
    "quantile": ("number", {"objective": "reg:quantileerror", "quantile_alpha": 0.3}),
    "logistic regression": ("share", {"objective": "reg:logistic"}),
    "poisson": ("amount", {"objective": "count:poisson"}),
    "gamma": ("amount", {"objective": "reg:gamma"}),
    "tweedie": ("amount", {"objective": "reg:tweedie", "tweedie_variance_power": 1.2}),
    "cox": ("amount", {"objective": "survival:cox"}),
    "binary": ("two", {"objective": "binary:logistic"}),
    "raw logits": ("two", {"objective": "binary:logitraw"}),
    "hinge": ("two", {"objective": "binary:hinge"}),
    "softprob": ("three", {"objective": "multi:softprob", "num_class": 3}),
    "softmax": ("three", {"objective": "multi:softmax", "num_class": 3}),
    "dart": ("number", {"booster": "dart", "rate_drop": 0.3}),
    "dart, classes": ("three", {"booster": "dart", "rate_drop": 0.3, "objective": "multi:softprob", "num_class": 3}),
    "forests": ("three", {"num_parallel_tree": 3, "subsample": 0.5, "objective": "multi:softprob", "num_class": 3}),
    "pruned": ("number", {"tree_method": "exact", "gamma": 1.0}),
    "two quantiles": ("number", {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}),
    "stumps": ("number", {"max_depth": 1, "base_score": 0.25}),
}


@functools.cache
def lightgbm_model(name):
    target, options = LIGHTGBM[name]
    kind = lgb.LGBMClassifier if target in ("two", "three") else lgb.LGBMRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = WITH_ZEROS if "zeros" in name else X
        settings = {"n_estimators": 12, "num_leaves": 12, "min_child_samples": 5, "verbose": -1, **options}
        return kind(**settings).fit(given, TARGETS[target])


@functools.cache
def xgboost_model(name):
    target, options = XGBOOST[name]
    settings = {"max_depth": 4, "nthread": 1, "verbosity": 0, **options}
    return xgb.train(settings, xgb.DMatrix(X, TARGETS[target]), 12)


def trees(estimator):
    return [tree for stage in estimator.model_.stages for tree in stage]


def probes(estimator, infinite=True):
    """Rows on and around the thresholds, as float64; and ordinary ones."""
    rows = probe_rows(trees(estimator), X.shape[1], infinite=infinite)
    single = probe_rows(trees(estimator), X.shape[1], np.float32, infinite=infinite).astype(np.float64)
    out = np.concatenate([rows, single, X, WITH_ZEROS])
    with np.errstate(over="ignore"):
        return out if infinite else out[~np.isinf(out.astype(np.float32)).any(axis=1)]


def quietly(call, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **options)
