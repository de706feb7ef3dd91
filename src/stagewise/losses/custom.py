"""Compiling a user's scalar loss functions into a kernel as fast as the built-in ones."""

from __future__ import annotations

import math
import types
import weakref
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from stagewise.errors import ParameterError
from stagewise.kernels.exact import exact_exp, exact_expm1, exact_log, exact_log1p, exact_tanh
from stagewise.kernels.jit import JIT
from stagewise.kernels.pairs import CHUNK, advance, pack, settle
from stagewise.kernels.team import share

__all__ = ["code_of", "compiled_pairs"]

_OURS = {"exp": exact_exp, "log": exact_log, "log1p": exact_log1p, "expm1": exact_expm1, "tanh": exact_tanh}
_compiled: weakref.WeakKeyDictionary[type, Callable[..., None]] = weakref.WeakKeyDictionary()


def _module_with_ours(module: types.ModuleType) -> types.ModuleType:
    """A copy of math or numpy whose exp, log, ... are the reproducible ones that the compiler can vectorise."""
    copy = types.ModuleType(module.__name__)
    copy.__dict__.update(module.__dict__)
    copy.__dict__.update(_OURS)
    return copy


def _reproducible(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, compiled, seeing our exp and log wherever it names those of math or numpy.

    That holds for what it names in its module, for variables of a function around it, and for plain functions that it
    calls: those are compiled with it.
    """
    swaps: dict[int, Any] = {id(math): _module_with_ours(math), id(np): _module_with_ours(np)}
    for name, ours in _OURS.items():
        swaps[id(getattr(math, name))] = ours
        swaps[id(getattr(np, name))] = ours

    def swapped(value: Any) -> Any:
        if isinstance(value, types.FunctionType) and value is not function:
            return _reproducible(value)
        return swaps.get(id(value), value)

    named = {name for name in function.__code__.co_names if name in function.__globals__}
    seen = {**function.__globals__, **{name: swapped(function.__globals__[name]) for name in named}}
    around = tuple(types.CellType(swapped(cell.cell_contents)) for cell in function.__closure__ or ())
    copy = types.FunctionType(function.__code__, seen, function.__name__, function.__defaults__, around)
    return numba.njit(error_model="numpy")(copy)


def _function(kind: type, name: str) -> Callable[..., Any]:
    function = getattr(kind, name, None)
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or function.__code__.co_argcount != 2:
        raise ParameterError(
            f"{kind.__name__} needs a function `{name}(y, f)` of two numbers (no self); see stagewise.Loss."
        )
    if not JIT:
        return function
    compiled = _reproducible(function)
    try:
        compiled.compile((numba.float64, numba.float64))  # type: ignore[attr-defined]
    except numba.core.errors.NumbaError as error:
        raise ParameterError(
            f"{kind.__name__}.{name} cannot be compiled: use numbers, if, math and NumPy's scalar functions only. "
            f"Numba says: {error}"
        ) from error
    return compiled


def compiled_pairs(kind: type) -> Callable[..., None]:
    """The pairs kernel of a Loss subclass; compiled once for each class and process."""
    if kind not in _compiled:
        value_of, grad_of, hess_of = (_function(kind, name) for name in ("loss", "gradient", "hessian"))

        def rows(y, f, grad, hess, value):  # type: ignore[no-untyped-def]
            for i in range(y.shape[0]):
                grad[i] = grad_of(y[i], f[i])
                hess[i] = hess_of(y[i], f[i])
                value[i] = value_of(y[i], f[i])

        rows_compiled = numba.njit(error_model="numpy")(rows) if JIT else rows

        def pairs(  # type: ignore[no-untyped-def]
            tid, n_threads, y, raw, weight, option, scale, bits, grad, hess, value, peaks, limbs, update
        ):
            k0, k1 = share(0, y.shape[0], tid, n_threads)
            for a in range(k0, k1, CHUNK):
                b = min(a + CHUNK, k1)
                advance(update, a, b, raw)
                rows_compiled(y[a:b], raw[a:b], grad[a:b], hess[a:b], value[tid])
                settle(weight[a:b], grad[a:b], hess[a:b], value[tid], scale, bits, peaks[tid], limbs[tid])
                pack(update, a, b, tid, weight, grad, hess)

        _compiled[kind] = numba.njit(nogil=True, error_model="numpy")(pairs) if JIT else pairs
    return _compiled[kind]


def code_of(loss: Any) -> list[str]:
    """What a loss of one's own does, as text: two of one name are the same loss only where this is the same.

    The instructions and constants of its functions and of functions of the same package that these name, the numbers
    and texts that they see around them, and those that the loss itself holds. It does not matter where in a file they
    stand, but the version of Python does.
    """
    told: list[str] = []
    seen: set[int] = set()
    package = type(loss).__module__.partition(".")[0]

    def tell(value: Any) -> None:
        value = getattr(value, "py_func", getattr(value, "__func__", value))  # inside of what is compiled, or static
        if isinstance(value, (bool, int, float, str, tuple, type(None), np.generic)):
            told.append(repr(value))
        elif isinstance(value, types.CodeType):
            told.extend((value.co_code.hex(), repr(value.co_names)))
            for own in value.co_consts:
                tell(own)
        elif isinstance(value, types.FunctionType) and id(value) not in seen:
            seen.add(id(value))
            if (value.__module__ or "").partition(".")[0] == package:
                named = (value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__)
                around = (cell.cell_contents for cell in value.__closure__ or ())
                for own in (value.__code__, *named, *around, *(value.__defaults__ or ())):
                    tell(own)

    own = [pair for kind in type(loss).__mro__[:-2] for pair in sorted(vars(kind).items())]  # not Loss, nor object
    for name, value in (*own, *sorted(vars(loss).items())):
        if name not in ("__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"):
            told.append(name)
            tell(value)
    return told
