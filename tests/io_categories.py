"""Tables with categories, and models of other libraries on them."""

from __future__ import annotations

import functools

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from io_peers import quietly

LETTERS = [*"zyxwvutsrq", "", "new\nline", "with, comma"]


def frame(n=900, seed=0):
    """Text categories in an order of their own, integer ones, two levels, a wide one; some missing; and numbers."""
    rng = np.random.default_rng(seed)
    text = pd.Series(pd.Categorical(rng.choice(LETTERS, n), categories=LETTERS))
    text[rng.random(n) < 0.1] = None
    return pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "text": text,
            "int": pd.Categorical(rng.choice([50, 3, 7, -2], n), categories=[50, 3, 7, -2]),
            "two": pd.Categorical(rng.choice(["yes", "no"], n)),
            "wide": pd.Categorical([f"level {k:03d}" for k in rng.integers(0, 120, n)]),
            "other": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 5, n).astype(float)),
        }
    )


FRAME = frame()
CODES = np.column_stack(
    [own.cat.codes.where(own.cat.codes >= 0) if own.dtype == "category" else own for _, own in FRAME.items()]
).astype(float)
COLUMNS = [1, 2, 3, 4]
_CODE = np.nan_to_num(CODES, nan=4.0)
NUMBER = (
    FRAME["number"].to_numpy() + np.sin(3 * _CODE[:, 1]) + _CODE[:, 2] * _CODE[:, 3]
    + np.cos(_CODE[:, 4]) + 0.3 * _CODE[:, 5]
)  # fmt: skip
THREE = np.digitize(NUMBER, [0.0, 2.0])


def unseen(rows):
    """The frame with levels that no training row had, as another frame would bring them."""
    out = rows.copy()
    for name in ("text", "wide"):
        out[name] = out[name].astype(object)
        out.loc[::7, name] = "never seen"
        out[name] = out[name].astype("category")
    return out


@functools.cache
def lightgbm_model(of_frame, classes=False):
    kind = lgb.LGBMClassifier if classes else lgb.LGBMRegressor
    options = {"n_estimators": 15, "num_leaves": 12, "min_child_samples": 5, "verbose": -1, "min_data_per_group": 5}
    model = kind(**options, cat_smooth=1.0)
    if of_frame:
        return quietly(model.fit, FRAME, THREE if classes else NUMBER)
    return quietly(model.fit, CODES, THREE if classes else NUMBER, categorical_feature=COLUMNS)


@functools.cache
def xgboost_model(of_frame, onehot=1, **options):
    settings = {"max_depth": 4, "nthread": 1, "verbosity": 0, "max_cat_to_onehot": onehot, **options}
    y = THREE if "num_class" in options else NUMBER
    if of_frame:
        data = xgb.DMatrix(FRAME, y, enable_categorical=True)
    else:
        types = ["c" if j in COLUMNS else "q" for j in range(CODES.shape[1])]
        data = xgb.DMatrix(CODES, y, feature_types=types, enable_categorical=True)
    return xgb.train(settings, data, 12)


@functools.cache
def scikit_model(of_frame, classes=False, **options):
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    model = kind(max_iter=12, max_leaf_nodes=12, min_samples_leaf=5, **options)
    if of_frame:
        return model.fit(FRAME, THREE if classes else NUMBER)
    return model.set_params(categorical_features=COLUMNS).fit(CODES, THREE if classes else NUMBER)


def n_sets(model):
    return sum(len(tree.sets) for stage in model.model_.stages for tree in stage)


def codes_around(n=600, seed=3):
    """Rows of codes: seen, missing, negative, beyond all that there are, and halves."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([CODES[rng.integers(0, len(CODES), n)], CODES])
    for j in COLUMNS:
        odd = rng.random(len(rows)) < 0.15
        rows[odd, j] = rng.choice([np.nan, -1.0, 13.0, 63.0, 64.0, 127.0, 128.0, 1000.0, 2.5, 0.0], int(odd.sum()))
    return rows
