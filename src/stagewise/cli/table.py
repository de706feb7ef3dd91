"""From a file to X, y and weights: columns chosen, rows filtered, the target looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stagewise.cli.source import arrow, read_arrow
from stagewise.errors import InputError

__all__ = [
    "Choice", "Loaded", "check_columns", "chosen_rows", "column_of", "columns_of_model", "divided", "load_table",
    "notes_on", "take_rows", "target_values",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choice:
    """Which file, and what of it is what."""

    path: str
    target: str | None = None
    weight: str | None = None
    ignore: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    form: str | None = None
    delimiter: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """X: a frame (pyarrow.Table) of n rows; y, weight: arrays (n,) or None. notes: what was left out, for people."""

    X: Any
    y: np.ndarray | None
    weight: np.ndarray | None
    notes: tuple[str, ...] = field(default=())

    @property
    def n_rows(self) -> int:
        return int(self.X.num_rows) if hasattr(self.X, "num_rows") else len(self.X)

    @property
    def n_columns(self) -> int:
        return int(self.X.num_columns)

    def take(self, rows: np.ndarray) -> Loaded:
        """Some rows, in this order."""
        y = None if self.y is None else self.y[rows]
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=take_rows(self.X, rows), y=y, weight=weight)


def take_rows(X: Any, rows: np.ndarray) -> Any:
    return X.take(arrow().array(rows)) if hasattr(X, "column_names") else X[rows]


def load_table(choice: Choice, table: Any = None) -> Loaded:
    """The table of a choice, in memory; `stream_table` leaves it on disk.

    table: what `read_arrow` read already, to save reading it again.
    """
    table = read_arrow(choice.path, choice.form, choice.delimiter) if table is None else table
    check_columns(choice, table.column_names)
    chosen, met, missing = chosen_rows(table, choice)
    notes = notes_on(choice, table.num_rows, met, missing)
    return replace(divided(chosen, choice), notes=notes)


def check_columns(choice: Choice, columns: Sequence[str]) -> None:
    """Raise when a column that is named is not there, or none is left."""
    named = [name for name in (choice.target, choice.weight, *choice.ignore) if name is not None]
    for name in named:
        if name not in columns:
            raise InputError(_say_absent(choice, name, columns))
    if not set(columns) - set(named):
        raise InputError(f"{choice.path} has no column left to learn from.")


def chosen_rows(table: Any, choice: Choice) -> tuple[Any, int, int]:
    """The rows that meet every condition and have a target; how many meet the conditions; how many of them lack it."""
    for condition in choice.where:
        table = _filtered(table, condition, choice)
    met = table.num_rows
    if choice.target is not None:
        table = _with_target(table, choice.target)
    return table, met, met - table.num_rows


def notes_on(choice: Choice, n_read: int, met: int, missing: int) -> tuple[str, ...]:
    """What was left out, in words; raises when that is everything."""
    conditions = " and ".join(choice.where)
    if met == 0:
        raise InputError(f"no row of {choice.path} meets {conditions}; nothing is left.")
    if missing == met:
        raise InputError(f"every value of the target {choice.target!r} is missing.")
    notes = [f"{met:,} of {n_read:,} rows meet {conditions}."] if choice.where else []
    return (*notes, f"{missing:,} rows without a {choice.target} were left out.") if missing else tuple(notes)


def divided(table: Any, choice: Choice) -> Loaded:
    """Chosen rows as X, y and weights."""
    y = weight = None
    if choice.target is not None:
        y = target_values(table.column(choice.target), choice.target)
    if choice.weight is not None:
        weight = _weights(table.column(choice.weight), choice.weight)
    named = {choice.target, choice.weight, *choice.ignore}
    return Loaded(table.select([name for name in table.column_names if name not in named]), y, weight)


def columns_of_model(model: Any, loaded: Loaded, path: str) -> Loaded:
    """The columns that a model was trained on, in its order; others are left out."""
    fitted = getattr(model, "model_", model)
    names, have = fitted.schema.names, loaded.X.column_names
    if names is None:
        if len(have) != fitted.schema.n_columns:
            raise InputError(
                f"{path} has {len(have)} columns, the model was trained on {fitted.schema.n_columns} without names: "
                "leave the others out of the file."
            )
        return replace(loaded, X=np.column_stack([_floats(loaded.X.column(name), name) for name in have]))
    absent = [name for name in names if name not in have]
    if absent:
        some = ", ".join(repr(name) for name in absent[:5]) + (", ..." if len(absent) > 5 else "")
        raise InputError(f"{path} lacks columns that the model was trained on: {some}.")
    return replace(loaded, X=loaded.X.select(list(names)))


def _say_absent(choice: Choice, name: str, columns: Sequence[str]) -> str:
    message = f"{choice.path} has no column {name!r}"
    if len(columns) == 1 and (between := next((mark for mark in ";\t|" if mark in columns[0]), None)):
        shown = "\\t" if between == "\t" else between
        return f"{message}, only one named {columns[0]!r}: is it divided by '{shown}'? Then add --delimiter '{shown}'."
    some = ", ".join(repr(own) for own in columns[:8]) + (", ..." if len(columns) > 8 else "")
    return f"{message}; it has {some}."


_CONDITION = re.compile(r"^\s*(.+?)\s*(<=|>=|!=|==|=|<|>)\s*(.*?)\s*$")
_TESTS = {
    "=": "equal", "==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
    ">=": "greater_equal",
}  # fmt: skip


def _filtered(table: Any, condition: str, choice: Choice) -> Any:
    """The rows that meet "column OP value"; a missing value meets nothing."""
    pa = arrow("compute")
    name, test, value = _condition(condition)
    if name not in table.column_names:
        raise InputError(_say_absent(choice, name, table.column_names))
    column = _plain(table.column(name))
    try:
        wanted = pa.scalar(value).cast(column.type)
        met = getattr(pa.compute, _TESTS[test])(column, wanted)
    except pa.ArrowException as error:
        raise InputError(f"--where {condition!r}: {value!r} cannot be compared with {column.type} values.") from error
    return table.filter(met)


def column_of(condition: str) -> str:
    """The column that a condition looks at."""
    return _condition(condition)[0]


def _condition(condition: str) -> tuple[str, ...]:
    found = _CONDITION.match(condition)
    if found is None:
        raise InputError(
            f"--where {condition!r} must be a column, one of {' '.join(_TESTS)}, and a value: 'age >= 18'."
        )
    return found.groups()


def _with_target(table: Any, target: str) -> Any:
    """The rows whose target is known."""
    pa = arrow("compute")
    column = _plain(table.column(target))
    known = pa.compute.is_valid(column)
    if pa.types.is_floating(column.type):
        known = pa.compute.and_(known, pa.compute.invert(pa.compute.fill_null(pa.compute.is_nan(column), True)))
    return table if pa.compute.all(known).as_py() else table.filter(known)


def _plain(column: Any) -> Any:
    """A dictionary column as what it stands for."""
    types = arrow().types
    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def target_values(column: Any, name: str) -> np.ndarray:
    """A column without nulls as an array: numbers, truth values, or texts as objects."""
    pa = arrow()
    column, types = _plain(column), pa.types
    if types.is_decimal(column.type):
        column = column.cast(pa.float64())
    kind = column.type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not (text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise InputError(f"the target {name!r} has values of type {kind}; it must have numbers, texts or truth values.")
    return np.asarray(column.to_numpy())


def _weights(column: Any, name: str) -> np.ndarray:
    if column.null_count:
        raise InputError(
            f"the weight {name!r} is missing in {column.null_count:,} rows; fill them in or leave them out."
        )
    return _floats(column, name)


def _floats(column: Any, name: str) -> np.ndarray:
    """Numbers as float64, nulls as NaN."""
    pa = arrow()
    try:
        return np.asarray(_plain(column).cast(pa.float64()).to_numpy())
    except pa.ArrowException as error:
        raise InputError(f"column {name!r} must have numbers: {' '.join(str(error).split())}.") from error
