"""What a target is taken for."""

from __future__ import annotations

import numpy as np
import pytest

from stagewise.cli.guess import guess_task
from stagewise.errors import InputError

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    "y, task, loss",
    [
        (rng.normal(size=100), "regression", "squared_error"),
        (np.array([0, 1] * 50), "classification", "log_loss"),
        (np.array([-1.0, 1.0] * 50), "classification", "log_loss"),
        (np.array([1, 2] * 50), "classification", "log_loss"),
        (np.array([True, False] * 50), "classification", "log_loss"),
        (np.array(["a", "b", "c"] * 30, object), "classification", "log_loss"),
        (np.arange(100) % 7, "classification", "log_loss"),
        (np.arange(100) % 7 + 3, "regression", "squared_error"),  # grades: 3 to 9
        (np.arange(200), "regression", "squared_error"),
        (rng.poisson(0.1, 5000), "regression", "poisson"),
        (np.repeat([0, 1, 2, 3], [500, 420, 60, 20]), "classification", "log_loss"),  # falling, but not mostly 0
        (np.repeat([0, 1, 2, 4], [900, 80, 15, 5]), "regression", "poisson"),  # counts with a gap
        (np.full(50, 2.5), "regression", "squared_error"),
    ],
)
def test_guesses(y, task, loss):
    found = guess_task(y, "y")
    assert (found.task, found.loss) == (task, loss)
    assert found.why


def test_asked_for():
    assert guess_task(np.arange(100) % 7, "y", "regression").loss == "squared_error"
    assert guess_task(np.arange(100) % 7 + 3, "y", "classification").task == "classification"
    assert guess_task(np.array([f"t{k}" for k in range(300)], object), "y", "classification").task == "classification"
    with pytest.raises(InputError, match="cannot be a regression"):
        guess_task(np.array(["a", "b"], object), "y", "regression")
