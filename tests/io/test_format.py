"""save and load: everything comes back, the same bytes, and nothing that was tampered with is believed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import stagewise as sw
from io_models import KINDS, LogCosh, fitted, table
from stagewise.boosting.model import Model
from stagewise.errors import InputError
from stagewise.files.terms import TERMS, TermKind
from stagewise.io import model as model_file
from stagewise.io.format import dumps, loads
from stagewise.learners.columns import Line
from stagewise.storage.container import Section, pack, unpack

GOLDEN = Path(__file__).parent / "golden"


def same(one, other, X):
    """Two estimators that cannot be told apart."""
    assert type(one) is type(other)
    assert repr(clone(one)) == repr(clone(other))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_array_equal(one.feature_importances_, other.feature_importances_)
    assert one.n_estimators_ == other.n_estimators_
    assert one.n_features_in_ == other.n_features_in_
    np.testing.assert_array_equal(one.history_.train, other.history_.train)
    if hasattr(one, "classes_"):
        assert one.classes_.dtype == other.classes_.dtype
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.apply(X), other.apply(X))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("growth", ["leafwise", "symmetric"])
def test_every_estimator_comes_back(tmp_path, kind, growth):
    model, X, _ = fitted(kind, growth=growth)
    path = tmp_path / "m.stagewise"
    sw.save(model, path)
    again = sw.load(path)
    same(model, again, X)
    sw.save(again, tmp_path / "again.stagewise")
    assert path.read_bytes() == (tmp_path / "again.stagewise").read_bytes()


def test_names_labels_parameters_and_early_stopping_come_back():
    import pandas as pd

    X = pd.DataFrame(table(), columns=["a", "b c", "é", "d", "💡"])
    for labels in (["no", "yes"], np.array(["no", "yes"], object), [False, True], [-1, 2**40], [0.0, 2.0]):
        y = np.asarray(labels)[(np.nan_to_num(X["a"]) > 0).astype(int)]
        model = sw.GradientBoostingClassifier(
            n_estimators=30, early_stopping=True, validation_fraction=0.3, random_state=7, subsample=0.7,
            class_weight={labels[0]: 2.0, labels[1]: np.float64(1.0)}, misclassification_cost=[[0, 1], [2, 0]],
        ).fit(X, y)  # fmt: skip
        again = loads(dumps(model))
        same(model, again, X)
        assert again.feature_names_in_.tolist() == list(X.columns)
        assert again.classes_.tolist() == model.classes_.tolist()
        np.testing.assert_array_equal(again.history_.validation, model.history_.validation)
        assert again.n_estimators_ == again.history_.best


def test_a_loaded_model_trains_on():
    model, X, y = fitted("squared_error", warm_start=True)
    again = loads(dumps(model))
    again.set_params(n_estimators=20).fit(X, y)
    longer = sw.GradientBoostingRegressor(n_estimators=20, min_samples_leaf=5, max_leaf_nodes=8, warm_start=True)
    assert dumps(again) == dumps(longer.fit(X, y))


def test_a_bare_model_can_be_saved(tmp_path):
    model, X, _ = fitted("classes")
    sw.save(model.model_, tmp_path / "m")
    again = sw.load(tmp_path / "m")
    assert isinstance(again, Model)
    np.testing.assert_array_equal(again.raw(X), model.model_.raw(X))


def test_a_loss_of_ones_own_must_be_given_again():
    model, X, _ = fitted("custom")
    data = dumps(model)
    with pytest.raises(InputError, match=r"loss 'LogCosh'.*losses=\{'LogCosh': ...\}"):
        loads(data)
    same(model, loads(data, losses={"LogCosh": LogCosh}), X)
    with pytest.raises(TypeError, match="must be a class derived from"):
        loads(data, losses={"LogCosh": print})
    by_class = clone(model).set_params(loss=LogCosh).fit(X, model.predict(X))
    assert loads(dumps(by_class), losses={"LogCosh": LogCosh}).loss is LogCosh


def test_callbacks_are_left_out_and_other_code_is_refused():
    class Watches:
        def on_end(self, history):
            pass

    model, X, y = fitted("squared_error")
    watched = clone(model).set_params(callbacks=[Watches()]).fit(X, y)
    assert loads(dumps(watched)).callbacks is None
    with pytest.raises(InputError, match=r"n_jobs=.*cannot be saved"):
        dumps(clone(model).fit(X, y).set_params(n_jobs=print))


@pytest.mark.parametrize("thing", [object(), None, "text", np.zeros(3)])
def test_only_models_are_saved(thing):
    with pytest.raises(TypeError, match=r"cannot be saved; what can: AdaBoostClassifier, .*GradientBoosting"):
        dumps(thing)
    with pytest.raises(InputError, match="not fitted yet"):
        dumps(sw.GradientBoostingRegressor())


def test_subclasses_are_not_saved_under_their_parents_name():
    class GradientBoostingRegressor(sw.GradientBoostingRegressor):
        pass

    with pytest.raises(TypeError, match="cannot be saved"):
        dumps(GradientBoostingRegressor(n_estimators=1).fit(table(), np.arange(400)))


def test_files_of_other_programs_are_refused_by_name(tmp_path):
    for data in (b"", b"tree\nversion=v4\n", b"{}", b"\x80\x04", b"PK\x03\x04"):
        path = tmp_path / "other.txt"
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"other.txt is no usable stagewise file"):
            sw.load(path)


# ------------------------------------------------------------------------------------------ written for ever


def golden():
    return sorted(GOLDEN.glob("*.stagewise"))


def test_there_are_golden_files():
    assert len(golden()) >= 4


@pytest.mark.parametrize("path", golden(), ids=lambda path: path.stem)
def test_golden_files_predict_what_they_did_when_they_were_written(path):
    """Never write these files anew: they stand for all the files that are out there."""
    expected = json.loads(path.with_suffix(".json").read_text())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == expected["sha256"]
    model = sw.load(path, losses={"LogCosh": LogCosh})
    X = np.array([[float.fromhex(cell) for cell in row] for row in expected["X"]])
    got = model.model_.raw(X).T.tolist()
    assert got == [[float.fromhex(cell) for cell in row] for row in expected["raw"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one of them was fitted with names
        assert model.predict(X).tolist() == expected["predict"]


# --------------------------------------------------------------------------------------------------- tampering


def changed(model, section, **arrays):
    """The file of a model with other arrays or values in one section, and a fitting checksum."""
    content = unpack(dumps(model))
    own = content.sections[section]
    values = {**own.values, **{name: value for name, value in arrays.items() if not isinstance(value, np.ndarray)}}
    new = {**own.arrays, **{name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}}
    return pack(replace(content, sections={**content.sections, section: Section(values, new)}))


def tampered_trees():
    model, _, _ = fitted("classes")
    arrays = unpack(dumps(model)).sections["trees"].arrays
    inner, leaf = int(np.argmax(arrays["left"] >= 0)), int(np.argmax(arrays["left"] < 0))

    def put(name, at, value):
        array = arrays[name].copy()
        array[at] = value
        return {name: array}

    yield "a child before its parent", put("left", inner, 0)
    yield (
        "a node that is its own child",
        put("left", inner + 2, inner + 2) if arrays["left"][inner + 2] >= 0 else put("left", inner, inner),
    )
    yield "a child beyond the tree", put("left", inner, 10**6)
    yield "a child in the next tree", put("left", inner, int(arrays["size"][0]))
    yield "a leaf of a strange number", put("left", leaf, -7)
    yield "two parents", put("left", inner, int(arrays["left"][arrays["left"] > 0][1]))
    yield "a column that is not there", put("feature", inner, 5)
    yield "a negative column", put("feature", inner, -1)
    yield "a leaf with a column", put("feature", leaf, 0)
    yield "a threshold that is no number", put("threshold", inner, np.nan)
    yield "an infinite leaf", put("value", leaf, np.inf)
    yield "a leaf that is no number", put("value", leaf, np.nan)
    yield "a negative count", put("count", leaf, -1)
    yield "a negative weight", put("cover", leaf, -1.0)
    yield "a gain that is no number", put("gain", inner, np.nan)
    yield "a third side", put("missing_left", inner, 2)
    yield "a negative bin", put("cut", inner, -1)
    yield "sizes that do not add up", put("size", 0, 1)
    yield "a size beyond everything", put("size", 0, 2**62)
    yield "a size of nothing", {"size": np.concatenate([arrays["size"], [0]])}
    yield "sizes that wrap around", {"size": np.concatenate([arrays["size"], np.array([2**62] * 4, np.int64)])}
    yield "arrays of two lengths", {"value": arrays["value"][:-1]}
    yield "another type", {"value": arrays["value"].astype(np.float32)}
    yield "two dimensions", {"value": arrays["value"][:, None]}
    yield "an unknown array", {"colour": arrays["value"]}


def test_tampered_trees_are_refused():
    for what, arrays in tampered_trees():
        data = changed(fitted("classes")[0], "trees", **arrays)
        with pytest.raises(InputError, match="the file cannot be loaded"):
            pytest.fail(f"{what} was loaded: {loads(data)}")


@pytest.mark.parametrize(
    "section, change",
    [
        ("model", {"initial": np.array([np.nan] * 3)}),
        ("model", {"initial": np.zeros(2)}),
        ("model", {"initial": np.zeros(0)}),
        ("model", {"cut_counts": np.zeros(5, np.int64)}),
        ("model", {"cut_counts": np.array([2**62, 2**62, 2**62, 2**62, 0])}),
        ("model", {"cuts": np.full(100, np.nan)}),
        ("model", {"names": ["a"]}),
        ("model", {"names": [1, 2, 3, 4, 5]}),
        ("model", {"best": 10**9}),
        ("model", {"best": "all"}),
        ("model", {"best": 3}),
        ("model", {"history_rows": np.zeros(1, np.int64)}),
        ("model", {"loss": {"name": "SquaredError", "args": {}}}),
        ("model", {"loss": {"name": "MulticlassLogLoss", "args": {"n_classes": 10**9}}}),
        ("model", {"loss": {"name": "MulticlassLogLoss", "args": {"n_classes": "3"}}}),
        ("model", {"loss": {"name": "MulticlassLogLoss", "args": {}}}),
        ("model", {"loss": {"name": "MulticlassLogLoss", "args": {"n_classes": 3, "curvature": "none"}}}),
        ("model", {"loss": {"name": "MulticlassLogLoss", "args": {"n_classes": 3, "curvature": [1]}}}),
        ("model", {"loss": {"name": "os.system", "args": {}}}),
        ("model", {"loss": None}),
        ("stages", {"count": 10**9}),
        ("stages", {"count": -1}),
        ("stages", {"kinds": ["forests"]}),
        ("stages", {"kinds": []}),
        ("stages", {"kinds": [["trees"]]}),
        ("trees", {"terms": 1}),
        ("estimator", {"class": "Popen"}),
        ("estimator", {"class": "GradientBoostingRegressor"}),
        ("estimator", {"params": {"colour": 3}}),
        ("estimator", {"params": 3}),
        ("estimator", {"classes": None}),
        ("estimator", {"classes": {"type": "array int64", "value": [0, 2, 1]}}),
        ("estimator", {"classes": {"type": "array int64", "value": [0, 1]}}),
        ("estimator", {"classes": {"type": "array float64", "value": [0, 1, {"type": "float", "value": "nan"}]}}),
    ],
)
def test_tampered_models_are_refused(section, change):
    with pytest.raises(InputError, match="the file cannot be loaded"):
        loads(changed(fitted("classes")[0], section, **change))


def test_unknown_sections_and_kinds_name_themselves():
    content = unpack(dumps(fitted("binary")[0]))
    later = replace(content, sections={**content.sections, "hologram": Section({})})
    with pytest.raises(InputError, match=r"section 'hologram'.*newer one"):
        loads(pack(later))
    with pytest.raises(InputError, match="holds a 'dream', not a model"):
        loads(pack(replace(content, kind="dream")))


# ---------------------------------------------------------------------------------------------- room to grow


class Ramp:
    """A term that is not a tree."""

    def __init__(self, slope):
        self.slope = slope


def test_other_kinds_of_terms_and_sections_can_be_entered(monkeypatch):
    def read(arrays, n_columns):
        return [Ramp(slope) for slope in arrays["slope"].tolist()]

    monkeypatch.setitem(
        TERMS, "ramps", TermKind(Ramp, lambda terms: {"slope": np.array([term.slope for term in terms])}, read)
    )
    extra = model_file.Extra(lambda model: Section({}, {"grid": np.arange(3.0)}), lambda section, model: model)
    monkeypatch.setitem(model_file.EXTRAS, "grid", extra)
    model = fitted("squared_error")[0].model_
    stages = ((Line(1, 2.0, -0.0),), (Ramp(0.5),), (Line(-1, 0.0, 3.0),), (Ramp(-2.0),))
    mixed = replace(model, stages=stages, history=replace(model.history, best=4))
    again = loads(dumps(mixed))
    assert [type(stage[0]).__name__ for stage in again.stages] == ["Line", "Ramp", "Line", "Ramp"]
    assert again.stages[3][0].slope == -2.0
    assert dumps(again) == dumps(mixed)
    with pytest.raises(InputError, match="A model of trees has no other terms"):
        dumps(replace(mixed, stages=(*stages[:3], model.stages[0])))
    monkeypatch.undo()
    with pytest.raises(InputError, match="Ramp, which cannot be saved"):
        dumps(mixed)


# --------------------------------------------------------------------------------------------------- processes


def test_two_processes_saving_to_one_path_never_leave_a_broken_file(tmp_path):
    one, two = fitted("binary")[0], fitted("classes")[0]
    sw.save(one, tmp_path / "one")
    sw.save(two, tmp_path / "two")
    whole = {(tmp_path / name).read_bytes() for name in ("one", "two")}
    code = (
        "import sys, stagewise as sw\n"
        "model = sw.load(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True: sw.save(model, sys.argv[2])\n"
    )
    shared = tmp_path / "shared"
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / name), str(shared)], stdout=subprocess.PIPE)
        for name in ("one", "two")
    ]
    try:
        for writer in writers:
            assert writer.stdout.readline().strip() == b"ready"
        seen = set()
        for _ in range(300):
            if shared.exists():
                seen.add(shared.read_bytes())
    finally:
        for writer in writers:
            writer.kill()  # in the middle of a save, most likely
            writer.wait()
            writer.stdout.close()
    assert seen <= whole
    assert shared.read_bytes() in whole
    left = [file for file in tmp_path.iterdir() if file.name not in ("one", "two", "shared")]
    assert all(file.suffix == ".tmp" for file in left)
    assert len(left) <= 2


def test_a_file_with_a_hole_in_its_disk_is_noticed(tmp_path):
    path = tmp_path / "m"
    sw.save(fitted("binary")[0], path)
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(data)
    with pytest.raises(InputError, match="checksum"):
        sw.load(path)
