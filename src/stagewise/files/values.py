"""Plain values of parameters as JSON: what an estimator was set to, in a form that loads nothing but values.

JSON has no tuples, NumPy numbers, infinities, or dictionaries with keys other than text; such values are written as
{"type": ..., "value": ...}.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stagewise.errors import InputError

__all__ = ["read_value", "write_value"]

_MOST_DEPTH = 20
_NUMPY = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


def write_value(value: Any, name: str) -> Any:
    """`value` for JSON; InputError for what is no plain value. `name` says whose it is."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"type": "float", "value": repr(value)}
    if isinstance(value, np.generic) and value.dtype.name in _NUMPY:
        return {"type": value.dtype.name, "value": write_value(value.item(), name)}
    if isinstance(value, np.ndarray) and value.dtype.name in _NUMPY:
        return {"type": f"array {value.dtype.name}", "value": write_value(value.tolist(), name)}
    if isinstance(value, np.ndarray) and all(isinstance(cell, str) for cell in value.flat):
        kind = "object" if value.dtype == object else "str"
        return {"type": f"array {kind}", "value": write_value(value.tolist(), name)}
    if type(value) is list:
        return [write_value(one, name) for one in value]
    if type(value) is tuple:
        return {"type": "tuple", "value": [write_value(one, name) for one in value]}
    if isinstance(value, dict):
        pairs = [[write_value(key, name), write_value(own, name)] for key, own in value.items()]
        return {"type": "dict", "value": pairs}
    if isinstance(value, np.random.RandomState):
        kind, keys, *rest = value.get_state(legacy=True)
        return {
            "type": "RandomState",
            "value": [kind, np.asarray(keys).tolist(), *(write_value(r, name) for r in rest)],
        }
    raise InputError(
        f"{name}={value!r} cannot be saved: a file holds numbers, texts, lists, dictionaries and arrays, and no code. "
        "Set it to such a value, or to None, before saving."
    )


def read_value(value: Any, name: str, depth: int = 0) -> Any:
    """The value that `write_value` was given."""

    def again(one: Any) -> Any:
        return read_value(one, name, depth + 1)

    if depth > _MOST_DEPTH:
        raise InputError(f"{name} in the file is nested more than {_MOST_DEPTH} deep.")
    if value is None or isinstance(value, (bool, str, int, float)):
        return value
    if isinstance(value, list):
        return [again(one) for one in value]
    if not isinstance(value, dict) or set(value) != {"type", "value"} or not isinstance(value["type"], str):
        raise InputError(f"{name} in the file is not a value that stagewise writes.")
    kind, inner = value["type"], value["value"]
    try:
        if kind == "float" and inner in ("inf", "-inf", "nan"):
            return float(inner)
        if kind in _NUMPY:
            return _numpy(kind, again(inner))[()]
        if kind.startswith("array ") and kind[6:] in (*_NUMPY, "object", "str"):
            return _numpy(kind[6:], again(inner))
        if kind == "tuple" and isinstance(inner, list):
            return tuple(again(one) for one in inner)
        if kind == "dict" and isinstance(inner, list):
            return {again(key): again(own) for key, own in inner}
        if kind == "RandomState" and isinstance(inner, list):
            return _random_state(inner[0], inner[1], *map(again, inner[2:]))
    except (TypeError, ValueError, OverflowError, IndexError) as error:
        raise InputError(f"{name} in the file cannot be read as {kind[:40]}: {str(error)[:80]}.") from error
    raise InputError(f"{name} in the file is of the kind {kind[:40]!r}, which this version of stagewise does not know.")


def _numpy(kind: str, value: Any) -> np.ndarray:
    """An array whose cells are what they were in the file: nothing is cut, rounded or made text."""
    if kind in ("object", "str"):
        out = np.array(value, dtype=object)
        if not all(isinstance(cell, str) for cell in out.flat):
            raise ValueError("a cell is no text")
        return out if kind == "object" else out.astype(str)
    out = np.array(value, dtype=kind)
    if out.dtype.kind in "iub" and not np.array_equal(out, np.array(value, dtype=object)):
        raise ValueError("a cell is out of range")
    return out


def _random_state(kind: Any, keys: Any, position: Any, has_gauss: Any, gauss: Any) -> np.random.RandomState:
    """NumPy reads at `position` without looking; so it is looked at here."""
    if kind != "MT19937" or type(position) is not int or not 0 <= position <= 624 or len(keys) != 624:
        raise ValueError("no state of NumPy's generator")
    state = np.random.RandomState()
    state.set_state((kind, _numpy("uint32", keys), position, int(has_gauss), float(gauss)))
    return state
