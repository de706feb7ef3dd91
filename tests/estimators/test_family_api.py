"""What scikit-learn expects of the estimators beside GradientBoosting*, with learners of our own and with others."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import stagewise as sw
from stagewise import (
    AdaBoostClassifier,
    ComponentwiseClassifier,
    ComponentwiseRegressor,
    GentleBoostClassifier,
    LogitBoostClassifier,
    StagewiseClassifier,
    StagewiseRegressor,
)

DEFAULTS = [
    AdaBoostClassifier(),
    LogitBoostClassifier(),
    GentleBoostClassifier(),
    StagewiseRegressor(),
    StagewiseClassifier(),
    ComponentwiseRegressor(),
    ComponentwiseClassifier(),
]
VARIANTS = [
    AdaBoostClassifier(LogisticRegression(), n_estimators=5),
    AdaBoostClassifier(max_depth=3, n_estimators=5),
    LogitBoostClassifier(Ridge(), n_estimators=5),
    GentleBoostClassifier(Ridge(), n_estimators=5),
    StagewiseRegressor("absolute_error", Ridge(), n_estimators=20),
    StagewiseClassifier(estimator=Ridge(), n_estimators=5),
    ComponentwiseRegressor(base="spline", n_estimators=20),
    ComponentwiseRegressor(base="stump", n_estimators=20),
    ComponentwiseClassifier(base="spline", n_estimators=5),
    ComponentwiseClassifier(base="stump", n_estimators=5),
]
CLASSIFIERS = [estimator for estimator in DEFAULTS if hasattr(estimator, "misclassification_cost")]
named = {"ids": lambda estimator: type(estimator).__name__}


@parametrize_with_checks([*DEFAULTS, *VARIANTS], expected_failed_checks=lambda _: {})
def test_scikit_learn_finds_no_fault(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # some checks provoke warnings on purpose and do not catch them
        check(estimator)
