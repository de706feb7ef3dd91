"""The exception family.

    StagewiseError
    ├── ParameterError (ValueError)    an option of an estimator or function is out of range
    ├── InputError (ValueError)        X, y, weights or a file hold something that cannot be used
    │   └── InputTypeError (TypeError) the kind of object is wrong, not its content
    ├── ClusterError (RuntimeError)    workers, scheduler or the connections between them are gone
    └── MissingExtraError (ImportError) an optional dependency is not installed

Every message says what came, what is allowed, and what to do. All of them are also the built-in exception that
a reader of scikit-learn code expects, so existing `except ValueError` clauses keep working.
"""

from __future__ import annotations

__all__ = [
    "ClusterError",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "ParameterError",
    "StagewiseError",
    "TrainingInterrupted",
]


class StagewiseError(Exception):
    """Anything that stagewise itself reports as wrong."""


class ParameterError(StagewiseError, ValueError):
    """An option is unknown or out of range."""


class InputError(StagewiseError, ValueError):
    """The data cannot be used as they are."""


class InputTypeError(InputError, TypeError):
    """The data are of a kind that cannot be used at all."""


class ClusterError(StagewiseError, RuntimeError):
    """Training on several machines cannot go on."""


class MissingExtraError(StagewiseError, ImportError):
    """An optional dependency is needed; the message names the extra to install."""


class TrainingInterrupted(UserWarning):
    """Training was stopped by Ctrl-C; the model holds the stages finished before it."""
