"""Progress bars: on a terminal, and in a notebook without any package for widgets."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import stagewise as sw
from stagewise.boosting.progress import NotebookBar, TerminalBar, in_notebook, progress_bar

X = np.random.default_rng(0).normal(size=(200, 3))


@pytest.fixture
def notebook(monkeypatch):
    """What a kernel's IPython offers; the list holds everything that was shown."""
    shown = []
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())

    def show(what, display_id=False):
        shown.append(what)
        return types.SimpleNamespace(update=shown.append)

    display.display = show
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_a_terminal_is_no_notebook(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    terminal = types.ModuleType("IPython")
    terminal.get_ipython = lambda: types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert isinstance(progress_bar(), TerminalBar)


def test_notebooks_have_a_bar_of_their_own(notebook, capsys):
    assert isinstance(progress_bar(), NotebookBar)
    sw.GradientBoostingRegressor(n_estimators=5, verbose=1).fit(X, X[:, 0], eval_set=(X, X[:, 0]))
    assert repr(notebook[0]) == "stage 0/5"
    assert repr(notebook[-1]).startswith("stage 5/5  train ")
    assert "validation" in repr(notebook[-1])
    assert "left" not in repr(notebook[-1])
    assert 'value="5" max="5"' in notebook[-1]._repr_html_()
    assert capsys.readouterr().out == ""


def test_a_fit_that_stops_early_says_so(notebook):
    model = sw.GradientBoostingRegressor(n_estimators=500, verbose=1, early_stopping=True, learning_rate=1.0)
    model.fit(X, X[:, 0] + np.random.default_rng(1).normal(size=200))
    stages = len(model.history_.train)
    assert stages < 500
    assert repr(notebook[-1]) == f"stage {stages}/500  {model.n_estimators_} stages kept"


def test_a_warm_start_goes_on(notebook):
    model = sw.GradientBoostingRegressor(n_estimators=2, warm_start=True).fit(X, X[:, 0])
    model.set_params(n_estimators=4, verbose=1).fit(X, X[:, 0])
    assert repr(notebook[0]) == "stage 2/4"
    assert repr(notebook[-1]).startswith("stage 4/4")


def test_the_terminal(capsys):
    sw.GradientBoostingRegressor(n_estimators=3, verbose=1).fit(X, X[:, 0])
    assert "3/3" in capsys.readouterr().out
