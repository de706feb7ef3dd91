"""Exports predict what the model predicts, and the check that says so can be trusted."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import sys
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import onnxruntime
import pytest
import xgboost as xgb
from sklearn.base import clone

import stagewise as sw
from io_models import KINDS, fitted, signal, table
from io_peers import LIGHTGBM, XGBOOST, lightgbm_model, trees, xgboost_model
from stagewise.errors import InputError, MissingExtraError, ParameterError
from stagewise.io import lightgbm_text, onnx, sources, xgboost_json
from stagewise.io.proof import probe_rows

EXPORTS = {
    "lightgbm": sw.export_lightgbm, "xgboost": sw.export_xgboost, "onnx": sw.export_onnx, "python": sw.export_python,
    "c": sw.export_c,
}  # fmt: skip

ENDING = {"lightgbm": "txt", "xgboost": "json", "onnx": "onnx", "python": "py", "c": "c"}


def raw(model, rows):
    return model.model_.raw(rows).T


def outputs(model, rows):
    return model.predict_proba(rows) if hasattr(model, "classes_") else model.predict(rows)


def of_lightgbm(path, rows):
    return lgb.Booster(model_file=path).predict(rows, raw_score=True).reshape(len(rows), -1)


def of_xgboost(path, rows):
    booster = xgb.Booster(model_file=path)
    return booster.predict(xgb.DMatrix(rows), output_margin=True).reshape(len(rows), -1)


def of_onnx(path, rows, name):
    return onnxruntime.InferenceSession(path).run([name], {"X": rows})[0]


def module(path):
    spec = importlib.util.spec_from_file_location("exported", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("kind", [*KINDS, "custom"])
@pytest.mark.parametrize("missing", [True, False])
def test_what_is_in_the_file_predicts_the_same(tmp_path, kind, missing):
    model, X, _ = fitted(kind, missing=missing)
    rows = probe_rows(trees(model), X.shape[1])
    for name, export in EXPORTS.items():
        proof = export(model, tmp_path / f"m.{ENDING[name]}")
        assert proof.differences == 0
        assert proof.rows > 500
    plain = rows[~np.isinf(rows).any(axis=1)]
    plain = np.where(np.abs(plain) < 1e-30, 0.0, plain)
    np.testing.assert_array_equal(of_lightgbm(tmp_path / "m.txt", plain), raw(model, plain))
    single = plain.astype(np.float32)
    factor = 2.0 if kind == "exponential" else 1.0
    margin = factor * raw(model, single)
    np.testing.assert_allclose(of_xgboost(tmp_path / "m.json", single), margin, rtol=2e-5, atol=1e-5)
    name = "probabilities" if hasattr(model, "classes_") else "prediction"
    got = of_onnx(tmp_path / "m.onnx", rows, name)
    np.testing.assert_allclose(got, outputs(model, rows), rtol=1e-12, atol=1e-14)
    made = module(tmp_path / "m.py")
    np.testing.assert_array_equal([made.raw(row) for row in rows.tolist()], raw(model, rows))
    assert [made.predict(row) for row in X[:50].tolist()] == pytest.approx(model.predict(X[:50]).tolist())


@pytest.mark.parametrize("growth, leaves", [("leafwise", 100), ("symmetric", 64), ("levelwise", 2)])
def test_large_symmetric_and_tiny_trees(tmp_path, growth, leaves):
    model, _, _ = fitted("binary", growth=growth, max_leaf_nodes=leaves, min_samples_leaf=1, n_estimators=5)
    for name, export in EXPORTS.items():
        assert export(model, tmp_path / name).differences == 0


def awkward():
    """Infinities, huge and tiny values, splits on missingness alone, trees of one leaf."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 0] = np.where(rng.random(300) < 0.3, -np.inf, np.where(rng.random(300) < 0.3, np.inf, X[:, 0]))
    X[:, 1] *= 1e300
    X[:, 2] = np.where(rng.random(300) < 0.5, np.nan, 1.0)
    X[:, 3] *= 1e-40
    y = np.isneginf(X[:, 0]) + 2.0 * np.isnan(X[:, 2]) + (X[:, 1] > 1e299) + (X[:, 3] > 0)
    return X, y


def test_awkward_thresholds(tmp_path):
    X, y = awkward()
    model = sw.GradientBoostingRegressor(n_estimators=8, min_samples_leaf=3).fit(X, y)
    at = np.concatenate([tree.threshold[tree.left >= 0] for tree in trees(model)])
    assert np.isinf(at).any()  # missing values against all others
    for name in ("onnx", "python", "c"):
        assert EXPORTS[name](model, tmp_path / name).differences == 0
    # LightGBM takes everything below 1e-35 for 0, XGBoost has no such values: both are checked on what they can hold
    assert sw.export_lightgbm(model, tmp_path / "m").differences == 0
    assert sw.export_xgboost(model, tmp_path / "m").differences == 0


def test_a_model_without_any_split(tmp_path):
    model = sw.GradientBoostingRegressor(n_estimators=3).fit(np.ones((30, 2)), np.arange(30.0))
    for name, export in EXPORTS.items():
        assert export(model, tmp_path / name).differences == 0
    np.testing.assert_array_equal(of_lightgbm(tmp_path / "lightgbm", np.zeros((2, 2))), 14.5)


@pytest.mark.parametrize(
    "labels", [["no", "yes", "é"], [3, 5, 9], [False, True], [0.5 * 4, 3.0, 8.0], np.array(["a", "b"], object)]
)
@pytest.mark.parametrize("costs", [True, False])
def test_labels_and_costs_in_onnx_and_python(tmp_path, labels, costs):
    X = table()
    y = np.asarray(labels)[np.digitize(signal(X), [-0.5, 1.0][: len(labels) - 1])]
    k = len(labels)
    cost = (np.arange(k * k).reshape(k, k) % 5 * (1 - np.eye(k))).tolist() if costs else None
    model = sw.GradientBoostingClassifier(n_estimators=5, misclassification_cost=cost).fit(X, y)
    sw.export_onnx(model, tmp_path / "m.onnx")
    got = of_onnx(tmp_path / "m.onnx", X, "label")
    assert got.tolist() == model.predict(X).tolist()
    sw.export_python(model, tmp_path / "m.py")
    made = module(tmp_path / "m.py")
    assert [made.predict(row) for row in X.tolist()] == model.predict(X).tolist()


def test_names(tmp_path):
    import pandas as pd

    for names in (["a", "b", "c", "d", "e"], ["a b", "a_b", "c[0]", '"""', "\\*/ é\n"], ["a b", "c", "d", "e", "f,g"]):
        X = pd.DataFrame(table(), columns=names)
        model = sw.GradientBoostingRegressor(n_estimators=2).fit(X, signal(table()))
        for name, export in EXPORTS.items():
            assert export(model, tmp_path / f"m.{ENDING[name]}").differences == 0
        booster = lgb.Booster(model_file=tmp_path / "m.txt")
        if names[0] == "a":
            assert booster.feature_name() == names
            assert xgb.Booster(model_file=tmp_path / "m.json").feature_names == names


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_file_compiles_without_a_warning(tmp_path):
    for kind in ("classes", "binary", "poisson"):
        model, X, _ = fitted(kind)
        sw.export_c(model, tmp_path / "m.c", name="price")
        command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-shared", "-fPIC", "-o"]
        subprocess.run([*command, str(tmp_path / f"{kind}.so"), str(tmp_path / "m.c"), "-lm"], check=True, timeout=60)
        library = ctypes.CDLL(str(tmp_path / f"{kind}.so"))
        out = (ctypes.c_double * 3)()
        library.price_raw((ctypes.c_double * X.shape[1])(*X[7]), out)
        assert list(out)[: model.model_.n_outputs] == raw(model, X[7:8])[0].tolist()


# ------------------------------------------------------------------------------------------- can it be trusted?


def nudge(tree, name, change):
    """A tree with one number changed in its first split or leaf."""
    at = int(np.argmax(tree.left >= 0)) if name != "value" else int(np.argmax(tree.left < 0))
    values = getattr(tree, name).copy()
    values[at] = change(values[at])
    return replace(tree, **{name: values})


def lower(value):
    return np.nextafter(value, np.float32(-np.inf))


WRONG = {
    "a threshold two steps lower": ("threshold", lambda t: lower(lower(np.float32(t)))),
    "a threshold a step higher": ("threshold", lambda t: np.nextafter(np.float32(t), np.float32(np.inf))),
    "the other side for missing values": ("missing_left", lambda m: 1 - m),
    "a leaf that is a little off": ("value", lambda v: v + 1e-3),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("name", EXPORTS)
def test_a_wrong_export_is_refused(tmp_path, monkeypatch, what, name):
    X = table(dtype=np.float32)
    X[:, 0] = np.round(X[:, 0], 1)
    model = sw.GradientBoostingRegressor(n_estimators=4, min_samples_leaf=5).fit(X, signal(X))
    modules = {"lightgbm": lightgbm_text, "xgboost": xgboost_json, "onnx": onnx, "python": sources, "c": sources}
    honest = modules[name].export_of

    class Wrong:
        """Writes a tree that the model does not have."""

        def __init__(self, export):
            self.honest = export
            field, change = WRONG[what]
            self.trees = (*export.trees[:1], nudge(export.trees[1], field, change), *export.trees[2:])

        def __getattr__(self, name):
            return getattr(self.honest, name)

        def with_start(self):
            return [self.honest.with_start()[0], *self.trees[1:]]

    monkeypatch.setattr(modules[name], "export_of", lambda model, what: Wrong(honest(model, what)))
    path = tmp_path / "m"
    with pytest.raises(InputError, match=r"rows on and around the thresholds are predicted differently.*Nothing was"):
        EXPORTS[name](model, path)
    assert not path.exists()
    with pytest.warns(UserWarning, match="predicted differently"):
        proof = EXPORTS[name](model, path, on_difference="warn")
    assert proof.differences > 0
    assert proof.largest > 1e-6
    assert path.exists()


def above_of(tree, node):
    """The columns of the splits above a node."""
    columns = set()
    while node > 0:
        node = int(np.flatnonzero((tree.left == node) | (tree.left == node - 1) & (tree.left >= 0))[-1])
        columns.add(int(tree.feature[node]))
    return columns


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_probes_stand_on_and_around_every_threshold(dtype):
    model, X, _ = fitted("binary")
    rows = probe_rows(trees(model), X.shape[1], dtype)
    assert rows.dtype == dtype
    for tree in trees(model):
        at = np.zeros(len(rows), np.int64)
        for _ in range(int(tree.depth.max())):
            node = tree.left[at] >= 0
            value = rows[np.arange(len(rows)), np.maximum(tree.feature[at], 0)].astype(np.float64)
            here = at[node]
            for k in np.unique(here):  # every split is reached by a value on each side of its threshold, and by none
                own = value[at == k]
                with np.errstate(over="ignore"):
                    below = dtype(tree.threshold[k])
                if float(below) > tree.threshold[k]:
                    below = np.nextafter(below, dtype(-np.inf))
                above = np.nextafter(below, dtype(np.inf))
                assert (own == below).any()
                assert (own == above).any()
                assert np.isnan(own).any() or tree.feature[k] in above_of(tree, k)
            right = np.where(np.isnan(value), tree.missing_left[at] == 0, value > tree.threshold[at])
            at = np.where(node, tree.left[at] + right, at)


# ------------------------------------------------------------------------------------------------ what may lack


def test_without_the_other_library_our_own_reader_checks(tmp_path, monkeypatch):
    model, _, _ = fitted("classes")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    for export in (sw.export_lightgbm, sw.export_xgboost):
        proof = export(model, tmp_path / "m")
        assert proof.reader == "stagewise's own reader"
        assert proof.differences == 0


def test_without_onnx_without_a_compiler(tmp_path, monkeypatch):
    model, _, _ = fitted("binary")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.warns(UserWarning, match="not checked: a C compiler"):
        sw.export_c(model, tmp_path / "m.c")
    assert (tmp_path / "m.c").exists()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.warns(UserWarning, match=r"not checked: onnxruntime is not installed; pip install 'stagewise\[onnx\]'"):
        sw.export_onnx(model, tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'stagewise\[onnx\]'"):
        sw.export_onnx(model, tmp_path / "m.onnx")


def test_options_are_checked(tmp_path):
    model, _, _ = fitted("binary")
    for export in EXPORTS.values():
        with pytest.raises(ParameterError, match="on_difference='shrug'"):
            export(model, tmp_path / "m", on_difference="shrug")
        with pytest.raises(TypeError, match="export needs a fitted estimator"):
            export(object(), tmp_path / "m")
        with pytest.raises(TypeError, match="export needs a fitted estimator"):
            export(clone(model), tmp_path / "m")
    with pytest.raises(ParameterError, match="dtype='float16'"):
        sw.export_onnx(model, tmp_path / "m", dtype="float16")
    for name in ("a b", "1a", "", "é", None):
        with pytest.raises(ParameterError, match="name="):
            sw.export_c(model, tmp_path / "m", name=name)


class Doubled(sw.Loss):
    """A link of its own, which is code."""

    def loss(y, f):  # noqa: N805
        return 0.5 * (y - f) ** 2

    def gradient(y, f):  # noqa: N805
        return f - y

    def hessian(y, f):  # noqa: N805
        return 1.0

    def predict(self, raw):
        return 2.0 * raw[0]


def test_links_that_a_format_lacks_are_refused(tmp_path):
    model = sw.GradientBoostingRegressor(Doubled(), n_estimators=2).fit(table(), signal(table()))
    for export in EXPORTS.values():
        with pytest.raises(InputError, match="link of its own"):
            export(model, tmp_path / "m")
    one_vs_all = sw.import_lightgbm(lightgbm_model("one against all"))
    with pytest.raises(InputError, match="XGBoost cannot represent"):
        sw.export_xgboost(one_vs_all, tmp_path / "m")
    hinge = sw.import_xgboost(xgboost_model("hinge"))
    with pytest.raises(InputError, match="LightGBM cannot represent"):
        sw.export_lightgbm(hinge, tmp_path / "m")


# --------------------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("name", LIGHTGBM)
def test_lightgbm_there_and_back(tmp_path, name):
    ours = sw.import_lightgbm(lightgbm_model(name))
    sw.export_lightgbm(ours, tmp_path / "m.txt")
    again = sw.import_lightgbm(tmp_path / "m.txt")
    rows = probe_rows(trees(ours), 5)
    rows = np.where(np.abs(rows) < 1e-30, 0.0, rows)
    np.testing.assert_array_equal(again.model_.raw(rows), ours.model_.raw(rows))
    assert type(again.model_.loss) is type(ours.model_.loss) or "identity" in repr(ours.model_.loss)
    assert sw.export_onnx(ours, tmp_path / "m.onnx").differences == 0
    assert sw.export_python(ours, tmp_path / "m.py").differences == 0


@pytest.mark.parametrize("name", [name for name in XGBOOST if name not in ("two quantiles", "hinge")])
def test_xgboost_there_and_back(tmp_path, name):
    ours = sw.import_xgboost(xgboost_model(name))
    if "log" in repr(ours.model_.loss) and "squared" in name:
        return
    sw.export_xgboost(ours, tmp_path / "m.json")
    again = sw.import_xgboost(tmp_path / "m.json")
    rows = probe_rows(trees(ours), 5, np.float32, infinite=False)
    np.testing.assert_array_equal(again.apply(rows), ours.apply(rows))
    np.testing.assert_allclose(again.model_.raw(rows), ours.model_.raw(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", EXPORTS)
def test_zeros_that_are_missing_are_warned_of(kind, tmp_path):
    X = np.random.default_rng(0).integers(0, 4, (300, 2)).astype(float)
    y = np.where(X[:, 0] == 0.0, 9.0, X[:, 0])
    model = sw.GradientBoostingRegressor(n_estimators=3).fit(sw.Dataset(X, y, zeros="missing"))
    with pytest.warns(UserWarning, match="zeros are missing values for this model, but not for .*: pass NaN"):
        EXPORTS[kind](model, tmp_path / f"m.{ENDING[kind]}")
    assert np.isnan(sw.export_input(model, X)[X == 0.0]).all()
