"""`multiclass_curvature`: each choice grows the trees of the peer that made it, and goes wherever a loss goes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import stagewise as sw
from stagewise import GradientBoostingClassifier, ParameterError
from stagewise.io.format import dumps, loads
from stagewise.losses.classification import CURVATURES, MulticlassLogLoss

every_curvature = pytest.mark.parametrize("curvature", CURVATURES)
LIMITS = {"max_leaf_nodes": 8, "min_samples_leaf": 10, "l2_regularization": 2.0, "learning_rate": 0.3}


def make(classes: int, n_rows: int = 600, missing: bool = True) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(classes)
    X = rng.integers(0, 60, (n_rows, 5)).astype(float)
    signal = np.sin(X[:, 0] / 8) + (X[:, 1] > 20) * X[:, 2] / 30 + rng.logistic(size=n_rows)
    y = np.searchsorted(np.quantile(signal, np.arange(1, classes) / classes), signal)
    return np.where(rng.random(X.shape) < 0.1 * missing, np.nan, X), y


def leaf_values(model: GradientBoostingClassifier, X: np.ndarray, stage: int, k: int) -> np.ndarray:
    """What a tree adds to each row."""
    n = len(model.classes_)
    return model.model_.stages[stage][k].value[model.apply(X).reshape(len(X), -1)[:, stage * n + k]]


@pytest.mark.parametrize("classes", [3, 5])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_diagonal_is_hist_gradient_boosting_leaf_by_leaf(classes, weighted):
    X, y = make(classes)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    ours = GradientBoostingClassifier(n_estimators=5, multiclass_curvature="diagonal", **LIMITS).fit(X, y, weight)
    theirs = HistGradientBoostingClassifier(max_iter=5, early_stopping=False, **LIMITS).fit(X, y, weight)
    mapper = theirs._bin_mapper
    known, places = mapper.make_known_categories_bitsets()
    for stage, trees in enumerate(theirs._predictors):
        for k, tree in enumerate(trees):
            added = tree.predict(X, known, places, 1)
            np.testing.assert_allclose(leaf_values(ours, X, stage, k), added, rtol=2e-5, atol=2e-6)  # float32 pairs
            assert len(np.unique(added)) == (ours.model_.stages[stage][k].left < 0).sum()
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("classes", [3, 5])
def test_bound_is_xgboost(classes):
    xgboost = pytest.importorskip("xgboost")
    X, y = make(classes)
    settings = {
        "objective": "multi:softprob", "num_class": classes, "eta": 0.3, "tree_method": "hist", "nthread": 1,
        "grow_policy": "lossguide", "max_leaves": 8, "max_depth": 0, "lambda": 2.0, "min_child_weight": 3.0,
    }  # fmt: skip
    data = xgboost.DMatrix(X, y, base_margin=np.zeros((len(y), classes)))
    theirs = xgboost.train(settings, data, 4).predict(data, output_margin=True)
    ours = GradientBoostingClassifier(
        n_estimators=4, multiclass_curvature="bound", **{**LIMITS, "min_samples_leaf": 1}, min_child_weight=3.0
    ).fit(X, y, init_score=np.zeros((len(y), classes)))
    added = ours.decision_function(X) - ours.model_.initial  # the start is init_score's business
    np.testing.assert_allclose(added, theirs, rtol=1e-4, atol=1e-5)


def test_friedman_is_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = make(3, missing=False)
    settings = {
        "objective": "multiclass", "num_class": 3, "learning_rate": 0.3, "num_leaves": 8, "min_data_in_leaf": 1,
        "lambda_l2": 2.0, "min_sum_hessian_in_leaf": 3.1, "min_data_in_bin": 1, "verbose": -1, "num_threads": 1,
        "deterministic": True, "force_row_wise": True, "feature_pre_filter": False,
    }  # fmt: skip
    theirs = lightgbm.train(settings, lightgbm.Dataset(X, y), 2).predict(X)
    limits = {**LIMITS, "min_samples_leaf": 1}
    ours = GradientBoostingClassifier(n_estimators=2, **limits, min_child_weight=3.1).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs, rtol=1e-4, atol=1e-6)


def test_without_penalties_a_factor_is_a_rate():
    """The trees are those of a learning rate that is K/(K - 1) as high."""
    X, y = make(4)
    limits = {**LIMITS, "l2_regularization": 0.0, "min_child_weight": 0.0}
    diagonal = GradientBoostingClassifier(n_estimators=6, multiclass_curvature="diagonal", **limits).fit(X, y)
    faster = GradientBoostingClassifier(n_estimators=6, **{**limits, "learning_rate": 0.4}).fit(X, y)
    np.testing.assert_allclose(diagonal.decision_function(X), faster.decision_function(X), rtol=1e-9)


def test_two_classes_have_none_of_it():
    X, y = make(2)
    models = [GradientBoostingClassifier(n_estimators=4, multiclass_curvature=own).fit(X, y) for own in CURVATURES]
    for model in models[1:]:
        np.testing.assert_array_equal(model.decision_function(X), models[0].decision_function(X))


@every_curvature
def test_files_keep_it(curvature):
    X, y = make(3)
    model = GradientBoostingClassifier(n_estimators=4, multiclass_curvature=curvature).fit(X, y)
    again = loads(dumps(model))
    assert again.multiclass_curvature == again.model_.loss.curvature == curvature
    assert dumps(again) == dumps(model)
    assert repr(loads(dumps(model.model_)).loss) == repr(model.model_.loss)


def test_files_say_nothing_of_the_usual_one():
    """So an older version of the library reads such a model."""
    X, y = make(3)
    usual, bound = (
        GradientBoostingClassifier(n_estimators=2, multiclass_curvature=own) for own in ("friedman", "bound")
    )
    assert b"curvature" not in dumps(usual.fit(X, y).model_)
    assert b"curvature" in dumps(bound.fit(X, y).model_)


@every_curvature
def test_warm_starts_go_on(curvature):
    X, y = make(3)
    settings = {**LIMITS, "multiclass_curvature": curvature}
    whole = GradientBoostingClassifier(n_estimators=8, **settings).fit(X, y)
    part = GradientBoostingClassifier(n_estimators=3, warm_start=True, **settings).fit(X, y)
    part.set_params(n_estimators=8).fit(X, y)
    np.testing.assert_array_equal(part.decision_function(X), whole.decision_function(X))
    first = GradientBoostingClassifier(n_estimators=3, **settings).fit(X, y)
    more = GradientBoostingClassifier(n_estimators=5, **settings).fit(X, y, init_model=first)
    np.testing.assert_array_equal(more.decision_function(X), whole.decision_function(X))
    other = CURVATURES[CURVATURES.index(curvature) - 1]
    with pytest.raises(ParameterError, match="cannot go on from a model of another loss"):
        part.set_params(n_estimators=9, multiclass_curvature=other).fit(X, y)


def test_checkpoints_tell_them_apart(tmp_path):
    X, y = make(3)
    settings = {**LIMITS, "multiclass_curvature": "diagonal"}
    GradientBoostingClassifier(n_estimators=4, **settings).fit(X, y, checkpoint=tmp_path, every=2)
    resumed = GradientBoostingClassifier(n_estimators=8, **settings).fit(X, y, checkpoint=tmp_path, every=2)
    whole = GradientBoostingClassifier(n_estimators=8, **settings).fit(X, y)
    assert dumps(resumed) == dumps(whole)
    with pytest.raises(sw.StagewiseError):
        GradientBoostingClassifier(n_estimators=8, **LIMITS).fit(X, y, checkpoint=tmp_path, every=2)


def test_disk_is_memory(tmp_path):
    X, y = make(3)
    ds = sw.Dataset.from_batches([(X[:250], y[:250]), (X[250:], y[250:])], cache=tmp_path / "bins")
    model = GradientBoostingClassifier(n_estimators=4, multiclass_curvature="diagonal")
    assert dumps(model.fit(ds)) == dumps(model.fit(X, y))


def test_imported_models_go_on_as_they_began():
    X, y = make(3)
    theirs = HistGradientBoostingClassifier(max_iter=3, early_stopping=False, **LIMITS).fit(X, y)
    longer = HistGradientBoostingClassifier(max_iter=6, early_stopping=False, **LIMITS).fit(X, y)
    ours = sw.import_sklearn(theirs)
    assert ours.multiclass_curvature == "diagonal"
    more = GradientBoostingClassifier(n_estimators=3, multiclass_curvature="diagonal", **LIMITS)
    more.fit(X, y, init_model=ours)
    np.testing.assert_allclose(more.predict_proba(X), longer.predict_proba(X), rtol=1e-4, atol=1e-6)


def test_how_a_loss_shows_itself():
    assert repr(MulticlassLogLoss(3)) == "MulticlassLogLoss(n_classes=3)"
    assert repr(MulticlassLogLoss(3, "bound")) == "MulticlassLogLoss(n_classes=3, curvature='bound')"
