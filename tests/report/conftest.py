"""Three reports, made once: they take seconds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import stagewise as sw


def halves(load):
    data = load(as_frame=True)
    rows = np.arange(len(data.target))
    return data.data[rows % 2 == 0], data.target[rows % 2 == 0], data.data[rows % 2 == 1], data.target[rows % 2 == 1]


def _numbers():
    X, y, X_test, y_test = halves(load_diabetes)
    model = sw.GradientBoostingRegressor(n_estimators=12, early_stopping=True).fit(X, y)
    return model, X_test, y_test, {"target": "progress", "run": "[data]\npath = '<a & b>'"}


def _two():
    X, y, X_test, y_test = halves(load_breast_cancer)
    cost = [[0, 1], [5, 0]]
    model = sw.GradientBoostingClassifier(n_estimators=8, misclassification_cost=cost).fit(X, y)
    return model, X_test, y_test, {"target": "benign", "title": "<script>alert(1)</script>"}


def _three():
    X, y, X_test, y_test = halves(load_wine)
    model = sw.GradientBoostingClassifier(n_estimators=6, min_samples_leaf=5).fit(X, y)
    return model, X_test, y_test, {}


@pytest.fixture(scope="session")
def summaries():
    """Dictionaries by name."""
    made = {}
    for name, make in (("numbers", _numbers), ("two", _two), ("three", _three)):
        model, X, y, options = make()
        made[name] = sw.report.summarise(model, X, y, held_out=True, facts=[("Data", "half of a table")], **options)
    return made


@pytest.fixture(scope="session")
def pages(summaries):
    return {name: sw.report.render(own) for name, own in summaries.items()}
