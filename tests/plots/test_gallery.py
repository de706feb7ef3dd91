"""The gallery of losses: the curves are what they say, and both figures are drawn."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import stagewise as sw
from stagewise.kernels import pairs
from stagewise.plots.gallery import classification_curves, regression_curves

matplotlib = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def no_windows():
    matplotlib.use("Agg")
    yield
    plt.close("all")


def test_curves_pass_through_zero_and_one():
    at_zero = {name: values[0] for name, values in classification_curves(np.array([0.0])).items()}
    assert at_zero.pop("misclassification") == 0.0  # it jumps there, from 1
    assert classification_curves(np.array([-1e-9]))["misclassification"][0] == 1.0
    assert at_zero == pytest.approx(dict.fromkeys(at_zero, 1.0))


def test_curves_are_the_losses_that_are_fitted():
    margin = np.linspace(-3.0, 3.0, 31)
    curves = classification_curves(margin)
    value = values_of(pairs.exponential_pairs, np.ones(31), margin)
    np.testing.assert_allclose(curves["exponential"], value, rtol=1e-12)
    deviance = values_of(pairs.log_loss_pairs, np.ones(31), 2.0 * margin)  # f is the log-odds there
    np.testing.assert_allclose(curves["binomial deviance"] * np.log(2.0), deviance, rtol=1e-12)
    numbers = regression_curves(margin, 1.0)
    np.testing.assert_allclose(numbers["squared error"], values_of(pairs.squared_error_pairs, margin, 0 * margin))
    np.testing.assert_allclose(numbers["absolute error"], values_of(pairs.absolute_error_pairs, margin, 0 * margin))
    ours = values_of(pairs.huber_pairs, margin, 0 * margin, 1.0)
    np.testing.assert_allclose(numbers["Huber"], 2.0 * ours, rtol=1e-12)


def values_of(kernel, y, f, option=0.0):
    """A loss row by row: the exact sum of single rows."""
    from kernels.build import evaluate

    return np.array([evaluate(kernel, y[i : i + 1], f[i : i + 1], option=option).total for i in range(len(y))])


def test_two_figures():
    left, right = sw.plots.losses()
    assert left.figure is not right.figure
    names = [text.get_text() for text in left.get_legend().get_texts()]
    assert names == ["misclassification", "exponential", "binomial deviance", "squared error", "hinge"]
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["squared error", "absolute error", "Huber"]


def test_axes_of_ones_own():
    figure, axes = plt.subplots(1, 2)
    assert sw.plots.losses(axes, delta=0.5) == tuple(axes)
    assert "δ = 0.5" in axes[1].get_title()
    assert len(figure.axes) == 2


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys\n"
        "class NotInstalled:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'matplotlib': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, NotInstalled())\n"
        "import stagewise as sw\n"
        "try: sw.plots.losses()\n"
        "except sw.MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "plots need matplotlib: pip install 'stagewise[plot]'", done.stderr


def test_unknown_names():
    with pytest.raises(AttributeError, match=r"'stagewise.plots' has no attribute 'nothing'"):
        _ = sw.plots.nothing
    assert "losses" in dir(sw.plots)


def test_every_name_stays_callable():
    """A file of the same name would hide the function from the second use on."""
    for name in sw.plots.__all__:
        assert callable(getattr(sw.plots, name))
        assert callable(getattr(sw.plots, name))
