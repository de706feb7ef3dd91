"""The exactness contract (DESIGN section 2): the same model, byte for byte, wherever and however it is trained."""

# ruff: noqa: N805  the functions of a Loss take (y, f) and no self

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import stagewise.backends.cpu
import stagewise.boosting.pairs
from estimators.fingerprint import difference, fingerprint
from stagewise import Dataset, GradientBoostingClassifier, GradientBoostingRegressor, Loss
from stagewise.kernels.jit import JIT
from stagewise.kernels.team import Team

N_ROWS = 20_000  # more than 16,383 and 4,095: both the packed and the wide form of histograms occur, for every loss
N_COLUMNS = 6

compiled = pytest.mark.skipif(not JIT, reason="threads and 20,000 rows need compiled kernels")


def make_table(n_rows: int = N_ROWS, *, missing: bool = False, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_COLUMNS))
    X[:, 1] = np.round(X[:, 1], 1)  # few distinct values
    X[:, 2] = np.where(X[:, 2] < 0.3, 0.0, X[:, 2])  # one heavy value
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X


def make_signal(X: np.ndarray) -> np.ndarray:
    filled = np.nan_to_num(X)
    return np.sin(2 * filled[:, 0]) + filled[:, 1] * (filled[:, 2] > 0) + 0.5 * filled[:, 3]


def make_y(X: np.ndarray, kind: str, seed: int = 1) -> np.ndarray:
    """Targets of one kind: "real", "positive", "count", "heavy", "two" or "three" classes."""
    rng = np.random.default_rng(seed)
    signal = make_signal(X)
    if kind == "real":
        return signal + rng.normal(size=len(X))
    if kind == "heavy":
        return signal + rng.standard_cauchy(size=len(X)) + 1e9 * (np.arange(len(X)) == 17)
    if kind == "positive":
        return np.exp(signal + 0.3 * rng.normal(size=len(X)))
    if kind == "count":
        return rng.poisson(np.exp(0.5 * signal)).astype(float)
    if kind == "two":
        return (signal + rng.logistic(size=len(X)) > 0).astype(int)
    return np.digitize(signal + rng.logistic(size=len(X)), [-1.0, 1.0])


def make_weight(n_rows: int, kind: str | None) -> np.ndarray | None:
    """Row weights: "even" within a factor of ten, "uneven" over six orders of magnitude, "zeros" with many of them."""
    rng = np.random.default_rng(2)
    if kind is None:
        return None
    if kind == "uneven":
        return 10.0 ** rng.uniform(-3, 3, n_rows)
    weight = rng.uniform(0.1, 1.0, n_rows)
    return np.where(rng.random(n_rows) < 0.3, 0.0, weight) if kind == "zeros" else weight


class LogCosh(Loss):
    """The example of the API page."""

    def loss(y, f):
        return np.log(np.exp(f - y) + np.exp(y - f))

    def gradient(y, f):
        return np.tanh(f - y)

    def hessian(y, f):
        return 1.0 - np.tanh(f - y) ** 2


R, C = GradientBoostingRegressor, GradientBoostingClassifier
CASES = {
    "squared error": (R(), "real", {}),
    "absolute error": (R(loss="absolute_error"), "real", {}),
    "huber": (R(loss="huber"), "real", {}),
    "quantile": (R(loss="quantile", alpha=0.8), "real", {}),
    "poisson": (R(loss="poisson"), "count", {}),
    "gamma": (R(loss="gamma"), "positive", {}),
    "tweedie": (R(loss="tweedie"), "count", {}),
    "custom": (R(loss=LogCosh()), "real", {}),
    "log-loss": (C(), "two", {}),
    "exponential": (C(loss="exponential"), "two", {}),
    "three classes": (C(), "three", {}),
    "gradient trees": (C(criterion="friedman_mse"), "two", {}),
    "levelwise": (C(growth="levelwise", max_depth=4), "two", {}),
    "symmetric": (C(growth="symmetric", max_depth=4), "two", {}),
    "symmetric, real": (R(growth="symmetric", max_depth=4), "real", {"missing": True}),
    "large trees": (R(max_leaf_nodes=200, min_samples_leaf=5), "real", {}),
    "no limit": (R(max_leaf_nodes=None, max_depth=6), "real", {}),
    "penalties": (C(l1_regularization=3.0, l2_regularization=5.0, min_split_gain=1.0, min_child_weight=5.0), "two", {}),
    "missing": (C(), "two", {"missing": True}),
    "missing, real": (R(), "real", {"missing": True}),
    "weights": (R(), "real", {"weight": "even"}),
    "weights of medians": (R(loss="absolute_error"), "real", {"weight": "even"}),
    "weights of huber": (R(loss="huber"), "real", {"weight": "even"}),
    "uneven weights": (C(), "two", {"weight": "uneven"}),
    "zero weights": (C(), "three", {"weight": "zeros"}),
    "heavy tails": (R(), "heavy", {}),
    "subsample": (R(subsample=0.6), "real", {}),
    "subsample of classes": (C(subsample=0.5, random_state=3), "three", {"weight": "zeros"}),
    "columns of a split": (R(max_features=0.5), "real", {}),
    "columns of a tree": (C(max_features_tree=3, max_features="sqrt"), "two", {}),
    "symmetric, sampled": (C(growth="symmetric", max_depth=3, max_features=2, subsample=0.7), "two", {}),
    "early stopping": (C(early_stopping=True, n_iter_no_change=2), "two", {"missing": True}),
    "everything": (
        C(subsample=0.7, max_features=0.5, early_stopping=True, growth="levelwise", l2_regularization=1.0),
        "three",
        {"missing": True, "weight": "even"},
    ),
}
every_case = pytest.mark.parametrize("case", CASES, ids=[name.replace(" ", "-") for name in CASES])


def fit(case: str, n_jobs: int | None = 1, n_rows: int = N_ROWS):
    """The model of a case: a few stages on the case's data."""
    estimator, kind, options = CASES[case]
    X = make_table(n_rows, missing=options.get("missing", False))
    model = clone(estimator).set_params(n_jobs=n_jobs, n_estimators=4 if estimator.early_stopping is True else 3)
    if estimator.max_leaf_nodes == 31:
        model.set_params(max_leaf_nodes=12)
    return model.fit(X, make_y(X, kind), make_weight(n_rows, options.get("weight")))


@pytest.fixture
def threads(monkeypatch):
    """As many threads as are asked for, however small the table; yields the sizes of the teams that ran."""
    sizes: list[int] = []

    class Counted(Team):
        def __init__(self, n_threads):
            super().__init__(n_threads)
            sizes.append(self.n_threads)

    monkeypatch.setattr("stagewise.backends.pace._WORK_A_THREAD", 1)
    monkeypatch.setattr(stagewise.backends.cpu, "Team", Counted)
    return sizes


# ------------------------------------------------------------------------------------------------------------ threads


@compiled
@every_case
def test_any_number_of_threads(case, threads):
    alone = fit(case, 1)
    for n_jobs in (2, 3, 8):
        assert difference(fit(case, n_jobs), alone) == "", f"{n_jobs} threads"
    assert threads == [1, 2, 3, 8]


@compiled
def test_both_forms_of_histograms_occur():
    """The cases above prove something about wide and packed histograms only if their nodes are large and small."""
    for case in ("squared error", "log-loss", "weights"):
        counts = np.concatenate([tree.count[tree.left >= 0] for stage in fit(case).model_.stages for tree in stage])
        block = 16_383 if case == "squared error" else 4_095
        assert counts.max() > block > counts.min()


@compiled
@pytest.mark.parametrize("case", ["log-loss", "missing", "uneven weights", "three classes"])
def test_predictions_for_any_number_of_threads(case, monkeypatch):
    monkeypatch.setattr("stagewise.tree.forest._ROWS_A_THREAD", 1)
    model = fit(case)
    X = make_table(3_000, missing=True, seed=5)
    raw, leaves = model.decision_function(X), model.apply(X)
    for n_jobs in (2, 3, 8):
        model.n_jobs = n_jobs
        np.testing.assert_array_equal(model.decision_function(X), raw)
        np.testing.assert_array_equal(model.apply(X), leaves)


# -------------------------------------------------------------------------------------------------- memory and blocks


@compiled
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("case", ["large trees", "log-loss", "uneven weights", "missing, real", "levelwise"])
def test_histograms_dropped_and_built_again(case, n_jobs, threads, monkeypatch):
    roomy = fit(case, n_jobs)
    for room in (0, 5 * 8 * 256 * 8):  # the least there is, and some five histograms
        monkeypatch.setattr(stagewise.backends.cpu, "_POOL_BYTES", room)
        assert difference(fit(case, n_jobs), roomy) == "", f"{room} bytes"


SMALL_CASES = [case for case in CASES if case not in ("custom", "large trees")]

IN_PLAIN_PYTHON = """
import json, sys
import numpy as np
import stagewise.boosting.pairs, stagewise.data.table
import stagewise.kernels.binning, stagewise.kernels.grow, stagewise.kernels.pairs, stagewise.kernels.predict
import stagewise.tree.forest
from estimators import test_exactness as tests
from estimators.fingerprint import fingerprint

assert not stagewise.kernels.jit.JIT
chunk, alone, block = json.loads(sys.argv[1])
for module in (stagewise.kernels.pairs, stagewise.boosting.pairs):
    module.CHUNK = chunk
stagewise.kernels.grow._ALONE = alone
for module, name in (
    (stagewise.kernels.binning, "_BLOCK"), (stagewise.kernels.predict, "BLOCK"), (stagewise.tree.forest, "BLOCK"),
    (stagewise.data.table, "_BLOCK"),
):
    assert hasattr(module, name)
    setattr(module, name, block)
found = {}
for case in json.loads(sys.argv[2]):
    model = tests.fit(case, n_rows=90)
    found[case] = fingerprint(model), np.sum(model.predict(tests.make_table(90, missing=True, seed=5))).item()
print(json.dumps(found))
"""


@compiled
@pytest.mark.parametrize("blocks", [(1024, 2048, 128), (7, 10, 16)], ids=["blocks-as-they-are", "small-blocks"])
def test_plain_python_and_other_blocks(blocks):
    """The kernels as plain Python, with the row blocks of the sources and with tiny ones: the compiler changes no bit,
    and neither does the size of a block."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IN_PLAIN_PYTHON, json.dumps(blocks), json.dumps(SMALL_CASES)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    X = make_table(90, missing=True, seed=5)
    for case in SMALL_CASES:
        model = fit(case, n_rows=90)
        assert plain[case] == [fingerprint(model), np.sum(model.predict(X)).item()], case


# ------------------------------------------------------------------------------------- several fits, forks, processes


@compiled
def test_two_fits_at_once(threads):
    cases = ("log-loss", "missing, real", "three classes", "huber")
    expected = {case: fingerprint(fit(case, 2)) for case in cases}
    found: dict[str, str] = {}
    start = threading.Barrier(len(cases))

    def work(case):
        start.wait()
        found[case] = fingerprint(fit(case, 2))

    workers = [threading.Thread(target=work, args=(case,)) for case in cases]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert found == expected


def predictions(model, X, out, k):
    out[k] = model.predict_proba(X)


@compiled
def test_one_model_predicts_in_two_threads(monkeypatch):
    monkeypatch.setattr("stagewise.tree.forest._ROWS_A_THREAD", 1)
    model, X = fit("three classes").set_params(n_jobs=2), make_table(2_000)
    expected = fit("three classes").predict_proba(X)
    out = [None] * 4
    workers = [threading.Thread(target=predictions, args=(model, X, out, k)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    for found in out:
        np.testing.assert_array_equal(found, expected)


def in_forked_child(function, timeout: float = 60.0):
    """The result of a function, run in a child that is forked off now."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(function()))
    with warnings.catch_warnings():
        # Python 3.12 and newer warn of forks while other threads run (pytest's workers have some)
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    child.join(timeout)
    if child.is_alive():
        child.kill()
        pytest.fail("the forked child hangs")
    assert child.exitcode == 0
    return answers.get()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@compiled
@needs_fork
def test_fit_and_predict_in_a_forked_child(threads):
    """After a fit with threads in the parent: what kills OpenMP."""
    here = fit("missing", 2)
    X = make_table(1_000, missing=True, seed=5)
    there = in_forked_child(lambda: (fingerprint(fit("missing", 2)), here.predict_proba(X).tobytes()))
    assert there == (fingerprint(here), here.predict_proba(X).tobytes())
    assert fingerprint(fit("missing", 2)) == fingerprint(here)  # and the parent goes on


@compiled
@needs_fork
def test_fork_while_a_fit_runs(threads):
    """A fork from within a fit (a callback that starts a process, say) finds a working library."""
    expected = fingerprint(fit("log-loss", 2))
    found = []

    class Forks:
        def on_stage(self, stage):
            if stage.number == 2:
                found.append(in_forked_child(lambda: fingerprint(fit("log-loss", 2))))

    X = make_table()
    GradientBoostingRegressor(n_estimators=3, n_jobs=2, callbacks=[Forks()]).fit(X, make_y(X, "real"))
    assert found == [expected]


@compiled
def test_two_fresh_processes():
    code = (
        "import sys; from estimators import test_exactness as tests; from estimators.fingerprint import fingerprint\n"
        "print(*(fingerprint(tests.fit(case, int(sys.argv[1]))) for case in ('everything', 'log-loss', 'huber')))"
    )
    found = []
    for n_jobs, seed in (("1", "1"), ("2", "2")):
        done = subprocess.run(
            [sys.executable, "-c", code, n_jobs],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    here = [fingerprint(fit(case)) for case in ("everything", "log-loss", "huber")]
    assert found == [here, here]


# ----------------------------------------------------------------------------------------------- the form of the data


NO_DRAWS = [
    case
    for case, (estimator, _, _) in CASES.items()
    if estimator.subsample == 1.0 and estimator.early_stopping is not True
]


@compiled
@pytest.mark.parametrize("case", NO_DRAWS, ids=[case.replace(" ", "-") for case in NO_DRAWS])
def test_the_order_of_rows_means_nothing(case):
    """Row numbers matter for draws of rows only."""
    estimator, kind, options = CASES[case]
    X = make_table(6_000, missing=options.get("missing", False))
    y, weight = make_y(X, kind), make_weight(len(X), options.get("weight"))
    model = clone(estimator).set_params(n_estimators=3, max_leaf_nodes=12)
    one = clone(model).fit(X, y, weight)
    order = np.random.default_rng(7).permutation(len(X))
    other = clone(model).fit(X[order], y[order], None if weight is None else weight[order])
    assert difference(one, other) == ""


@pytest.fixture(scope="module")
def eighths():
    """Values that float32 holds exactly, and targets."""
    X = np.round(make_table(500) * 8) / 8
    return X, make_y(X, "two")


def as_pandas(X):
    return pytest.importorskip("pandas").DataFrame(X)


def as_polars(X):
    return pytest.importorskip("polars").DataFrame(X)


def as_arrow(X):
    return pytest.importorskip("pyarrow").table({str(j): X[:, j] for j in range(X.shape[1])})


FORMS = {
    "float32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "fortran32": lambda X: np.asfortranarray(X.astype(np.float32)),
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "reversed": lambda X: X[::-1][::-1],
    "byte-swapped": lambda X: X.astype(">f8"),
    "lists": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "pandas": as_pandas,
    "pandas32": lambda X: as_pandas(X.astype(np.float32)),
    "polars": as_polars,
    "arrow": as_arrow,
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_table_means_nothing(form, eighths):
    X, y = eighths
    model = GradientBoostingClassifier(n_estimators=3)
    plain = clone(model).fit(X, y)
    other = clone(model).fit(FORMS[form](X), y)
    assert difference(other, plain) == ""
    np.testing.assert_array_equal(plain.predict_proba(X), other.predict_proba(FORMS[form](X)))
    np.testing.assert_array_equal(plain.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.uint8, np.float16, np.float32])
def test_the_type_of_the_numbers_means_nothing(dtype, eighths):
    X, y = np.clip(np.abs(np.round(eighths[0] * 8)), 0, 100), eighths[1]
    model = GradientBoostingRegressor(n_estimators=3)
    plain = clone(model).fit(X, y)
    other = clone(model).fit(X.astype(dtype), y.astype(dtype))
    assert difference(other, plain) == ""
    np.testing.assert_array_equal(plain.predict(X), other.predict(X.astype(dtype)))


@pytest.mark.parametrize("weight", [None, "even"])
def test_a_dataset_is_its_table(eighths, weight):
    X, y = eighths
    w = make_weight(len(X), weight)
    model = GradientBoostingClassifier(n_estimators=3)
    assert difference(clone(model).fit(Dataset(X, y, w)), clone(model).fit(X, y, w)) == ""


def test_the_users_arrays_stay_as_they_are(eighths):
    X, y = eighths
    w, score = make_weight(len(X), "even"), np.full(len(X), 0.25)
    copies = [array.copy() for array in (X, y, w, score)]
    GradientBoostingClassifier(n_estimators=2, early_stopping=True).fit(X, y, w, init_score=score).predict(X)
    for array, copy in zip((X, y, w, score), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# --------------------------------------------------------------------------------------------- more threads than rows


@compiled
@pytest.mark.parametrize("n_rows", [1, 2, 5, 40])
def test_more_threads_than_rows(n_rows, threads):
    X = make_table(n_rows)
    y = np.arange(n_rows, dtype=float)
    model = GradientBoostingRegressor(n_estimators=3, min_samples_leaf=1)
    alone = clone(model).set_params(n_jobs=1).fit(X, y)
    assert difference(clone(model).set_params(n_jobs=8).fit(X, y), alone) == ""


@compiled
@pytest.mark.slow
def test_threads_again_and_again(threads):
    """A race shows up sometimes only."""
    expected = {case: fingerprint(fit(case, 1)) for case in CASES}
    for round_ in range(20):
        for case in CASES:
            assert fingerprint(fit(case, 2 + round_ % 3)) == expected[case], (case, round_)
