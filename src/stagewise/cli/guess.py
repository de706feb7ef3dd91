"""What kind of target is it? Task and loss, from the values alone; the command says what it took, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stagewise.errors import InputError

__all__ = ["Guess", "guess_task"]

TASKS = ("auto", "regression", "classification")

_MOST_CLASSES = 50  # integers 0..K-1 beyond this are numbers
_MOST_TEXTS = 200  # different texts beyond this are names rather than classes
_COUNT_ZEROS = 0.75  # share of zeros from which falling whole numbers are counts


@dataclass(frozen=True, slots=True)
class Guess:
    """task: "regression" or "classification"; loss: its name; why: half a sentence for people."""

    task: str
    loss: str
    why: str


def guess_task(y: np.ndarray, name: str, task: str = "auto") -> Guess:
    """The task (guessed unless it is given) and the loss that goes with it. y: (n,), none missing.

    Truth values, texts and whole numbers 0..K-1 are classes; other numbers are numbers. Whole numbers that are mostly 0
    and ever rarer from there are counts, whose loss is Poisson's.
    """
    values = np.unique(y) if y.dtype.kind != "O" else np.array(sorted(set(y.tolist())), object)
    k = len(values)
    if k < 2 and (task == "classification" or y.dtype.kind not in "iuf"):
        raise InputError(f"the target {name!r} has one value only ({values[0]!r}); there is nothing to learn.")
    if y.dtype.kind in "Ob":
        if task == "regression":
            raise InputError(f"the target {name!r} has no numbers but {values[0]!r}, ...: it cannot be a regression.")
        if k > _MOST_TEXTS and task == "auto":
            raise InputError(
                f"the target {name!r} has {k:,} different texts, too many for classes; with --task classification they "
                "are taken as such."
            )
        return Guess("classification", "log_loss", f"{k} different {'texts' if y.dtype.kind == 'O' else 'answers'}")
    if task == "classification":
        return Guess(task, "log_loss", "as asked for")
    whole = bool(np.isfinite(values).all() and np.array_equal(values, np.rint(values)))
    counts = whole and _counts(y, values)
    if task == "auto" and whole and not counts:
        if k == 2:
            return Guess("classification", "log_loss", f"only {values[0]:g} and {values[1]:g} occur")
        if 2 < k <= _MOST_CLASSES and values[0] == 0 and values[-1] == k - 1:
            return Guess("classification", "log_loss", f"whole numbers from 0 to {k - 1}")
    if counts:
        return Guess("regression", "poisson", "counts: mostly 0, larger ones ever rarer")
    return Guess("regression", "squared_error", "as asked for" if task == "regression" else f"{k:,} different numbers")


def _counts(y: np.ndarray, values: np.ndarray) -> bool:
    """Whole numbers from 0 on that are mostly 0, with 1 and 2 rarer in this order. Two values alone are two classes."""
    if len(values) < 3 or values[0] != 0 or values[1] != 1 or values[2] != 2:
        return False
    share = [float(np.mean(y == value)) for value in (0, 1, 2)]
    return share[0] > _COUNT_ZEROS and share[0] > share[1] > share[2]
