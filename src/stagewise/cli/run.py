"""A training run: all that decides its model, as a record that can be written to a TOML file and repeated exactly."""

from __future__ import annotations

import json
import time
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import stagewise as sw
from stagewise._version import __version__
from stagewise.cli.guess import TASKS, Guess, guess_task
from stagewise.cli.source import arrow
from stagewise.cli.streamed import ANYWHERE, Place, Streamed, fit_streamed, stream_table
from stagewise.cli.table import Choice, Loaded, load_table
from stagewise.errors import InputError, ParameterError, TrainingInterrupted
from stagewise.params import check_choice, check_count, check_number

__all__ = ["DEFAULTS", "Run", "Trained", "estimator_of", "read_setting"]

DEFAULTS: dict[str, Any] = {"n_estimators": 500, "early_stopping": True, "n_iter_no_change": 20}
"""What the command sets and the estimators do not: it chooses the number of stages itself."""

_TEST = 0x74657374  # "test": the hash stream of the rows that are held out
_TEST_SHARE = 0.2
_FEW_ROWS = 60
"""With fewer rows nothing is held out and nothing stopped early, unless asked for: two small samples of few rows say
nothing."""

_NOT_SETTINGS = ("callbacks", "n_jobs", "random_state", "verbose", "warm_start")
"""Parameters that are no part of a run: they do not change the model, or have a place of their own."""


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that decides a model. test_fraction None: a fifth of the rows, of few rows none."""

    choice: Choice
    task: str = "auto"
    categorical: tuple[str, ...] = ()
    test_fraction: float | None = None
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise for options that no data could make right."""
        if self.choice.target is None:
            raise InputError("name the column to be predicted with --target.")
        check_choice("--task", self.task, TASKS)
        check_count("--seed", self.seed, 0)
        if self.test_fraction is not None:
            check_number("--test-fraction", self.test_fraction, 0.0, 1.0, high_open=True)
        if self.choice.weight == self.choice.target:
            raise InputError(f"{self.choice.target!r} cannot be target and weight at once.")

    # --- as a file ---------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path) -> Run:
        """The run of a TOML file that `toml` wrote, or somebody by hand: only [data] path and target are needed."""
        try:
            text = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read as TOML: {error}") from error
        data, run, parameters = (_section(text, name, str(path)) for name in ("data", "run", "parameters"))
        unknown = sorted(set(text) - {"data", "run", "parameters"})
        if unknown:
            raise InputError(f"{path} has a part [{unknown[0]}]; known are [data], [run] and [parameters].")
        choice = {_NAMES.get(key, key): value for key, value in data.items()}
        _known(choice, {own.name for own in fields(Choice)} | {"categorical"}, "data", str(path))
        _known(run, {"task", "test_fraction", "seed"}, "run", str(path))
        if "path" not in choice:
            raise InputError(f"{path} must name the data: path in [data].")
        lists = {key: tuple(map(str, value)) for key, value in choice.items() if isinstance(value, list)}
        choice = {**choice, **lists}
        categorical = choice.pop("categorical", ())
        return cls(Choice(**choice), categorical=categorical, parameters=_nones(parameters), **run)

    def toml(self) -> str:
        """The file that repeats this run; what is not set is not written."""
        choice = self.choice
        data = {
            "path": choice.path, "format": choice.form, "delimiter": choice.delimiter, "target": choice.target,
            "weight": choice.weight, "ignore": list(choice.ignore), "where": list(choice.where),
            "categorical": list(self.categorical),
        }  # fmt: skip
        run = {"task": self.task, "test_fraction": self.test_fraction, "seed": self.seed}
        parts = [f"# stagewise {__version__}: `stagewise train --config FILE --out MODEL` repeats this run exactly."]
        for name, own in (("data", data), ("run", run)):
            parts.append(f"\n[{name}]")
            parts += [f"{key} = {_toml(value)}" for key, value in own.items() if value not in (None, [])]
        parts.append("\n[parameters]")
        parts += [f"{key} = {_toml(value)}" for key, value in self.parameters.items()]
        return "\n".join(parts) + "\n"

    # --- done --------------------------------------------------------------------------------------------------------

    def train(
        self,
        callbacks: Sequence[Any] = (),
        threads: int | None = None,
        loaded: Loaded | Streamed | None = None,
        *,
        place: Place = ANYWHERE,
    ) -> Trained:
        """Read the data, hold rows out, fit. The same run gives the same model, byte for byte, for any threads, and
        whether the table is read into memory or not."""
        self.check()
        if loaded is None:
            loaded = stream_table(self.choice, place) if place.on_disk(self.choice) else load_table(self.choice)
        y = loaded.y
        assert y is not None
        guess = guess_task(y, str(self.choice.target), self.task)
        few = len(y) < _FEW_ROWS
        if few and self.test_fraction is None:
            loaded = replace(loaded, notes=(*loaded.notes, f"Only {len(y)} rows: none are held out."))
        share = self.test_fraction if self.test_fraction is not None else 0.0 if few else _TEST_SHARE
        defaults = {} if few else DEFAULTS
        given = {"loss": guess.loss, **defaults, **self.parameters}
        if self.categorical:
            given["categorical_features"] = _with_texts(self.categorical, loaded)
        if isinstance(given.get("class_weight"), dict):
            given["class_weight"] = _by_label(given["class_weight"], y)
        model = estimator_of(guess.task, given).set_params(random_state=self.seed, n_jobs=threads)
        test = _held_out(y, share, self.seed, guess)
        train = np.setdiff1d(np.arange(len(y)), test) if len(test) else np.arange(0)
        if len(test) == len(y):
            raise InputError(f"--test-fraction {share:g} of {len(y):,} rows leaves none to train on.")
        learning, testing = (loaded.take(train), loaded.take(test)) if len(test) else (loaded, None)
        model.set_params(callbacks=list(callbacks))
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TrainingInterrupted)
            if isinstance(learning, Streamed):
                fit_streamed(model, learning, place)
            else:
                model.fit(learning.X, learning.y, sample_weight=learning.weight)
        interrupted = any(issubclass(own.category, TrainingInterrupted) for own in caught)
        seconds = time.perf_counter() - began
        model.set_params(callbacks=None, n_jobs=None)  # the file must not depend on them
        every = {name: own for name, own in model.get_params(deep=False).items() if name not in _NOT_SETTINGS}
        if self.categorical:
            del every["categorical_features"]
        done = replace(self, task=guess.task, test_fraction=share, parameters=every)
        return Trained(model, done, guess, learning, testing, seconds, interrupted)


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A finished run: run has everything spelled out that was guessed or a default."""

    model: Any
    run: Run
    guess: Guess
    learning: Loaded | Streamed  # rows that were trained on, those for early stopping among them
    testing: Loaded | Streamed | None  # rows that were held out
    seconds: float
    interrupted: bool


def estimator_of(task: str, parameters: Mapping[str, Any]) -> Any:
    """An unfitted estimator; a parameter it does not have is an error that names the nearest."""
    made = sw.GradientBoostingClassifier() if task == "classification" else sw.GradientBoostingRegressor()
    known = made.get_params(deep=False)
    for name in parameters:
        if name not in known or name in _NOT_SETTINGS:
            import difflib

            near = difflib.get_close_matches(name, [own for own in known if own not in _NOT_SETTINGS], 1)
            hint = f"; do you mean {near[0]!r}?" if near else "."
            raise ParameterError(f"a model for {task} has no parameter {name!r}{hint}")
    return made.set_params(**parameters)


def read_setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE; the value as in TOML (5, 0.1, true, [[0, 5], [1, 0]]), none, or else a plain word."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ParameterError(f"--set {text!r} must be NAME=VALUE, as in --set l2_regularization=1.")
    try:
        read: Any = tomllib.loads(f"x = {value.strip()}")["x"]
    except tomllib.TOMLDecodeError:
        read = value.strip()
    return name.strip().replace("-", "_"), _none(read)


def _held_out(y: np.ndarray, share: float, seed: int, guess: Guess) -> np.ndarray:
    """Row numbers, ascending: `share` of the rows (of each class), by hashes of row numbers."""
    from stagewise.boosting.sampling import smallest_hashes
    from stagewise.kernels.exact import stream_key

    if guess.task == "classification":
        _, codes = np.unique(y, return_inverse=True) if y.dtype.kind != "O" else (None, _codes(y))
        strata = [codes == k for k in range(int(codes.max()) + 1)]
    else:
        strata = [np.ones(len(y), np.bool_)]
    parts = []
    for own in strata:
        wanted = round(share * int(own.sum()))
        if wanted:
            parts.append(smallest_hashes(stream_key(seed, _TEST), ~own, wanted)[0])
    return np.sort(np.concatenate(parts)).astype(np.int64) if parts else np.arange(0)


def _codes(y: np.ndarray) -> np.ndarray:
    order = {label: k for k, label in enumerate(sorted(set(y.tolist())))}
    return np.fromiter(map(order.__getitem__, y.tolist()), np.int64, len(y))


def _with_texts(named: Sequence[str], own: Loaded | Streamed) -> list[str]:
    """Columns of categories: those that are named, and the texts, which are taken as such anyway."""
    types = arrow().types
    schema = own.stream.schema if isinstance(own, Streamed) else own.X.schema
    texts = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    found = [name for name, kind in zip(schema.names, schema.types, strict=True) if any(is_a(kind) for is_a in texts)]
    apart = {own.choice.target, own.choice.weight, *own.choice.ignore} if isinstance(own, Streamed) else set()
    return [*named, *(name for name in found if name not in apart and name not in named)]


def _by_label(weights: Mapping[str, Any], y: np.ndarray) -> dict[Any, Any]:
    """Class weights by the labels themselves; keys of TOML are texts."""
    labels = {str(label): label for label in set(y.tolist())}
    if y.dtype.kind == "b":  # as TOML and most files have them
        labels |= {name.lower(): label for name, label in labels.items()}
    unknown = [name for name in weights if str(name) not in labels]
    if unknown:
        raise ParameterError(f"class_weight names a class {unknown[0]!r}, which the target does not have.")
    return {labels[str(name)]: weight for name, weight in weights.items()}


_NAMES = {"format": "form"}


def _section(text: Mapping[str, Any], name: str, path: str) -> dict[str, Any]:
    own = text.get(name, {})
    if not isinstance(own, dict):
        raise InputError(f"{path}: {name} must be a part, [{name}], not a value.")
    return own


def _known(given: Mapping[str, Any], known: set[str], part: str, path: str) -> None:
    for name, value in given.items():
        if name not in known:
            raise InputError(f"{path} has {name!r} in [{part}]; known are {', '.join(sorted(known))}.")
        if name in ("ignore", "where", "categorical") and not isinstance(value, list):
            raise InputError(f"{path}: {name} must be a list, as in {name} = [{_toml(value)}].")
        if name in ("path", "target", "weight", "form", "delimiter", "task") and not isinstance(value, str):
            raise InputError(f"{path}: {name} = {value!r} must be a text in quotes.")


def _none(value: Any) -> Any:
    """TOML has no None; the word stands for it."""
    return None if isinstance(value, str) and value.lower() == "none" else value


def _nones(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _none(value) for name, value in parameters.items()}


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # a basic string of TOML; it escapes what TOML does
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(own) for own in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(own)}" for key, own in value.items()) + "}"
    raise InputError(f"{value!r} cannot be written to a TOML file.")
