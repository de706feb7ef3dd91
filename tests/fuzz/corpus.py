"""Small sound files of every format that is read, for the fuzzer to damage."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb

import stagewise as sw
from io_models import LogCosh, signal, table
from stagewise.io.format import dumps

FORMATS = ("own", "lightgbm", "json", "ubjson")


def corpus() -> dict[str, list[bytes]]:
    """Files by format: few trees, but classes, missing values, names, weights, zeros and categories among them."""
    X = table(200)
    f = signal(X)
    zeros = np.where(np.random.default_rng(0).random(X.shape) < 0.3, 0.0, X)
    three, two = np.digitize(f, [-0.5, 1.0]), (f > 0).astype(int)
    small = {"n_estimators": 2, "max_leaf_nodes": 4, "min_samples_leaf": 5}
    own = [
        sw.GradientBoostingRegressor(**small).fit(X, f),
        sw.GradientBoostingRegressor("huber", **{**small, "growth": "symmetric"}).fit(X, f),
        sw.GradientBoostingRegressor(LogCosh(), **small).fit(X, f),
        sw.GradientBoostingClassifier(**small, early_stopping=True).fit(X, three),
        sw.GradientBoostingClassifier(**small, class_weight={"a": 1, "b": 2}).fit(X, np.array(["a", "b"])[two]),
    ]
    full = np.nan_to_num(X)
    own += [
        sw.AdaBoostClassifier(n_estimators=2).fit(X, three),
        sw.ComponentwiseClassifier(base="spline", n_estimators=2).fit(full, three),
        sw.ComponentwiseRegressor(n_estimators=4, stopping="aic").fit(full, f),
    ]
    coded = np.column_stack([np.arange(200) % 7, X[:, 0], np.arange(200) % 3])
    coded[::11, 0] = np.nan
    own += [
        sw.GradientBoostingRegressor(**small, categorical_features=[0, 2], growth=growth).fit(coded, f)
        for growth in ("leafwise", "symmetric")
    ]
    own.append(own[0].model_)
    options = {"num_leaves": 4, "min_data_in_leaf": 5, "verbose": -1}
    kinds = np.column_stack([np.arange(200) % 7, X[:, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        light = [
            lgb.train({**options, **more}, lgb.Dataset(data, y, categorical_feature=columns), 2)
            for more, data, y, columns in (
                ({"objective": "regression"}, X, f, []),
                ({"objective": "binary", "sigmoid": 2.0}, X, two, []),
                ({"objective": "multiclass", "num_class": 3}, X, three, []),
                ({"objective": "regression", "zero_as_missing": True}, zeros, f, []),
                ({"objective": "regression"}, kinds, f, [0]),
            )
        ]
        boosters = [
            xgb.train({"max_depth": 2, "nthread": 1, **more}, xgb.DMatrix(X, y), 2)
            for more, y in (
                ({}, f),
                ({"objective": "binary:logistic"}, two),
                ({"objective": "multi:softprob", "num_class": 3, "booster": "dart"}, three),
                ({"objective": "reg:tweedie"}, np.exp(np.clip(f, -2, 2))),
            )
        ]
        named = pd.DataFrame({"a": pd.Categorical(list("abcdefg" * 28) + list("abcd")), "b": X[:, 0]})
        options = {"max_depth": 2, "nthread": 1, "max_cat_to_onehot": 1}
        data = xgb.DMatrix(named, np.arange(200) % 7 % 3 + f, enable_categorical=True)
        boosters.append(xgb.train(options, data, 2))
        named_light = lgb.Dataset(named, np.arange(200) % 7 % 3 + f)
        light.append(
            lgb.train({"num_leaves": 4, "min_data_in_leaf": 5, "min_data_per_group": 5, "verbose": -1}, named_light, 2)
        )
    return {
        "own": [dumps(model) for model in own],
        "lightgbm": [model.model_to_string().encode() for model in light],
        "json": [bytes(model.save_raw("json")) for model in boosters],
        "ubjson": [bytes(model.save_raw("ubj")) for model in boosters],
    }
