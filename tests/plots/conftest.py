"""Headless drawing, and one small model of each kind."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import stagewise as sw


@pytest.fixture(autouse=True)
def headless():
    """A backend without windows; every figure is drawn in full, so that nothing fails only when it is shown."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()
    pyplot.close("all")


@pytest.fixture(scope="session")
def table():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X.copy()
    X.iloc[::7, 2] = np.nan
    return X.rename(columns={"s6": "blood sugar level measured in the morning before breakfast"}), y


@pytest.fixture(scope="session")
def regressor(table):
    return sw.GradientBoostingRegressor(n_estimators=30, max_leaf_nodes=6, early_stopping=True).fit(*table)


@pytest.fixture(scope="session")
def wide():
    """300 columns."""
    X = np.random.default_rng(0).normal(size=(200, 300))
    return sw.GradientBoostingRegressor(n_estimators=10).fit(X, X[:, :20].sum(axis=1)), X


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return sw.GradientBoostingClassifier(n_estimators=20).fit(X[::2], y[::2]), X[1::2], y[1::2]


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True)
    return sw.GradientBoostingClassifier(n_estimators=8).fit(X, y), X, y
