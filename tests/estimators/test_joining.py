"""Estimators before scikit-learn is imported, and after: the same classes in the end."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import sys
import numpy as np, stagewise as sw
X = np.random.default_rng(0).normal(size=(60, 2))
y = X[:, 0] + 0.1 * X[:, 1]
few = dict(n_estimators=2, min_samples_leaf=5)
regressor, classifier = sw.GradientBoostingRegressor(**few), sw.GradientBoostingClassifier(**few)
"""

pytestmark = pytest.mark.nojit


def run(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", START + program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_a_fit_and_a_prediction_do_without_scikit_learn():
    loaded = run(
        "regressor.fit(X, y).predict(X)\n"
        "classifier.fit(X, y > 0).predict_proba(X)\n"
        "heavy = ('sklearn', 'scipy.stats', 'scipy.sparse', 'pandas', 'joblib', 'rich')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert loaded == ["[]"]


NAMES = ("AdaBoostClassifier", "ComponentwiseClassifier", "ComponentwiseRegressor", "GentleBoostClassifier",
         "GradientBoostingClassifier", "GradientBoostingRegressor", "LogitBoostClassifier", "StagewiseClassifier",
         "StagewiseRegressor")  # fmt: skip

SHOW = f"""
for name in {NAMES}:
    own = getattr(sw, name)
    print(name, [one.__qualname__ for one in own.__mro__], sorted(dir(own)))
    print([(one.__name__, sorted(vars(one))) for one in own.__mro__ if one.__module__.startswith("stagewise")])
"""


def test_the_same_classes_whoever_comes_first():
    ours_first = run(f"for name in {NAMES}: getattr(sw, name)\nimport sklearn.base\n" + SHOW)
    assert run("import sklearn.base\n" + SHOW) == ours_first
    some_later = run("import sklearn.pipeline\n" + SHOW)  # the others are made when they are asked for
    assert some_later == ours_first
    assert all(f"'{name}'" in ours_first[0] for name in ("BaseEstimator", "ClassifierMixin", "set_fit_request"))


def test_estimators_that_are_there_already_become_scikit_learns():
    assert run(
        "regressor.fit(X, y)\n"
        "class Own(sw.GradientBoostingClassifier):\n"
        "    def fit(self, X, y, sample_weight=None, extra=None): return super().fit(X, y)\n"
        "own = Own()\n"
        "from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_regressor\n"
        "print(isinstance(regressor, BaseEstimator), isinstance(regressor, RegressorMixin), is_regressor(regressor))\n"
        "print(isinstance(own, ClassifierMixin), issubclass(Own, BaseEstimator), hasattr(Own, 'set_fit_request'))\n"
        "from sklearn.model_selection import GridSearchCV, cross_val_score\n"
        "print(len(cross_val_score(regressor, X, y, cv=3)), clone(own).get_params() == own.get_params())\n"
        "print(GridSearchCV(regressor, {'max_leaf_nodes': [2, 3]}, cv=2).fit(X, y).best_params_['max_leaf_nodes'] > 1)"
    ) == ["True True True", "True True True", "3 True", "True"]


@pytest.mark.parametrize(
    "ask, answer",
    [
        ("regressor.get_params()['n_estimators']", "2"),
        ("sw.GradientBoostingRegressor.get_params(regressor)['n_estimators']", "2"),
        ("regressor.set_params(n_estimators=3).n_estimators", "3"),
        ("regressor", "GradientBoostingRegressor(min_samples_leaf=5, n_estimators=2)"),
        ("regressor.__sklearn_tags__().estimator_type", "regressor"),
        ("classifier.__sklearn_tags__().input_tags.allow_nan", "True"),
        ("regressor.fit(X, y).score(X, y) > 0", "True"),
        ("classifier.fit(X, y > 0).score(X, y > 0) > 0.5", "True"),
        ("'sk-top-container' in regressor._repr_html_()", "True"),
        ("'sk-top-container' in regressor._repr_mimebundle_()['text/html']", "True"),
        ("callable(regressor.set_fit_request)", "True"),
        ("hasattr(regressor, 'predict_proba'), hasattr(regressor, 'classes_'), 'sklearn' in sys.modules",
         "False False False"),
    ],
)  # fmt: skip
def test_what_is_inherited_is_there_at_once(ask, answer):
    assert run(f"print({ask})") == [answer]


def test_a_model_is_needed():
    assert run(
        "try: regressor.predict(X)\nexcept ValueError as error: print(type(error).__name__)\n"
        "regressor.fit(X, y)\nprint(len(regressor.predict(X)))"
    ) == ["NotFittedError", "60"]


def test_copies_and_pickles_of_either_kind():
    assert run(
        "import copy, pickle\n"
        "before = pickle.dumps(regressor.fit(X, y))\n"
        "print('sklearn' in sys.modules, len(pickle.loads(before).predict(X)), copy.copy(regressor).n_estimators)\n"
        "import sklearn.base\n"
        "after = pickle.dumps(regressor)\n"
        "print(pickle.loads(before).get_params() == pickle.loads(after).get_params(), before == after)"
    ) == ["False 60 2", "True True"]


def test_nothing_stays_behind():
    assert run(
        "import importlib.util\n"
        "importlib.util.find_spec('sklearn.base')  # looks, without importing it in the end\n"
        "import sklearn.base\n"
        "from stagewise.estimators.joining import Watch\n"
        "print([finder for finder in sys.meta_path if isinstance(finder, Watch)])\n"
        "print(type(sklearn.base.__loader__).__name__, type(sklearn.base.__spec__.loader).__name__)\n"
        "import inspect\n"
        "print('class BaseEstimator' in inspect.getsource(sklearn.base))\n"
        "print(isinstance(regressor, sklearn.base.BaseEstimator))"
    ) == ["[]", "SourceFileLoader SourceFileLoader", "True", "True"]


def test_two_threads_at_once():
    assert run(
        "import threading\n"
        "answers = []\n"
        "def one(): answers.append(regressor.get_params() == regressor.get_params())\n"
        "def two():\n"
        "    import sklearn.base\n"
        "    answers.append(isinstance(regressor, sklearn.base.BaseEstimator))\n"
        "threads = [threading.Thread(target=work) for work in (one, two, one, two)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join(60)\n"
        "print(answers)"
    ) == ["[True, True, True, True]"]
