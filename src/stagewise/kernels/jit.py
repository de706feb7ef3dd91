"""How kernels are compiled, and the few machine operations that Numba does not offer by itself.

`@kernel` marks a function that Python calls: GIL-free, cached on disk. `@device` and `@piece` mark helpers that only
kernels call; they become part of the cached kernels.

With NUMBA_DISABLE_JIT=1 everything below runs as plain Python, one thread at a time.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar, overload

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config, event
from numba.extending import intrinsic

from stagewise.kernels.cache import KernelCache, KernelFile, announce

__all__ = [
    "JIT",
    "KNOWN",
    "add_four",
    "address_of",
    "atomic_add",
    "atomic_load",
    "bare",
    "count_below",
    "counting",
    "cycles",
    "device",
    "float_bits",
    "from_bits",
    "in_every_lane",
    "kernel",
    "loose_multiply_add",
    "merged",
    "multiply_add",
    "never_inline",
    "piece",
    "prefetch",
    "prefetch_near",
    "single_of_bits",
    "trailing_zeros",
    "yield_core",
]

F = TypeVar("F", bound=Callable[..., Any])

JIT = not config.DISABLE_JIT
"""False when NUMBA_DISABLE_JIT=1: kernels are then plain Python functions."""

KNOWN = JIT and numba.__version__.startswith("0.68.") and os.environ.get("STAGEWISE_PLAIN_NUMBA", "0") == "0"
"""Whether this is a Numba whose inner parts compiler.py was written for; others compile in their own way, which takes
three times as long and gives the same results. STAGEWISE_PLAIN_NUMBA=1 asks for that."""

if KNOWN:
    from stagewise.kernels.compiler import DeviceCompiler, KernelCompiler
    from stagewise.kernels.library import KeptForm

if JIT:
    event.register("numba:compile", announce)


def _no_extensions() -> None:
    """Numba looks through all installed packages for extensions of its own before it even asks what is on disk, which
    takes 20 ms; compiler.py has it do so before something is compiled."""


def _with_own_cache(dispatcher: Any) -> Any:
    """Keep the kernel's compiled code in files of ours, see cache.py."""
    if KNOWN:
        dispatcher._cache = KernelCache(dispatcher._cache, KeptForm)
        dispatcher._compilation_chain_init_hook = _no_extensions
    else:
        dispatcher._cache._cache_file = KernelFile(dispatcher._cache._cache_file, "Numba")
    return dispatcher


@overload
def kernel(function: F) -> F: ...


@overload
def kernel(*, arrays: bool) -> Callable[[F], F]: ...


def kernel(function: Any = None, *, arrays: bool = False) -> Any:
    """Compile a function that Python calls. Nothing inside may raise: division follows IEEE, not Python.

    arrays: whether it makes arrays of its own. Otherwise it counts no references to those it is given: see `bare`.
    """
    return functools.partial(_kernel, arrays) if function is None else _kernel(arrays, function)


def _kernel(arrays: bool, function: F) -> F:
    if not JIT:

        @functools.wraps(function)
        def plain(*args: Any) -> Any:
            with np.errstate(all="ignore"):  # wrap-around and division by zero are silent in compiled code too
                return function(*args)

        return plain  # type: ignore[return-value]
    options: dict[str, Any] = {"no_cfunc_wrapper": True}
    if KNOWN:
        options |= {"_nrt": arrays, "pipeline_class": KernelCompiler}
    try:
        return _with_own_cache(numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function))
    except RuntimeError:  # no folder can be written: compile in every process rather than fail
        return numba.njit(nogil=True, error_model="numpy", **options)(function)


def _device(function: F, forceinline: bool = False, **options: Any) -> F:
    if not JIT:
        return function
    # no wrappers for Python: a device function is never called from there
    options |= {"forceinline": forceinline, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if not KNOWN:
        return numba.njit(nogil=True, error_model="numpy", **options)(function)
    dispatcher = numba.njit(nogil=True, error_model="numpy", pipeline_class=DeviceCompiler, **options)(function)
    dispatcher.get_call_template = functools.partial(_of_any_value, dispatcher.get_call_template)
    return dispatcher


def _of_any_value(template: Callable[..., Any], args: Any, kws: Any) -> Any:
    """A constant argument is a number like any other: the helper is not compiled again for each."""
    return template(tuple(map(types.unliteral, args)), kws)


def device(function: F) -> F:
    """Compile a helper of kernels; it becomes part of the cached kernels that call it."""
    return _device(function)


def bare(function: F) -> F:
    """A device function that counts no references to arrays, nor does what it calls.

    It must not make or return arrays, and what it calls must not return any either (a `piece` may): that is compiled
    once for all callers, and one that counts would give back what was never taken. Counting is an indivisible operation
    for every view of an array: a sixth of the time of the search for a split.
    """
    return _device(function, _nrt=False)


def merged(function: F) -> F:
    """A device function that becomes part of its callers: what does not change there is worked out once.

    Unlike a `piece` it is typed and lowered once however many callers it has, and on its own: Numba copies the whole
    caller for every piece in it.
    """
    return _device(function, forceinline=True)


def counting(function: F) -> F:
    """A device function that makes arrays of its own, also when a bare one calls it."""
    return _device(function, _nrt=True)


def piece(function: F) -> F:
    """A part of kernels with a name of its own that may return arrays: merged into them before they are compiled."""
    return function if not JIT else numba.njit(nogil=True, error_model="numpy", inline="always")(function)


def address_of(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


def in_every_lane(builder: Any, value: Any, vector: Any) -> Any:
    """A vector with one value in every lane."""
    i32 = ir.IntType(32)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, i32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(i32, vector.count), [0] * vector.count))


if JIT:

    @intrinsic
    def atomic_add(typing, array, index, value):
        """Add to array[index] as one indivisible step; returns the value before."""

        def codegen(context, builder, sig, args):
            return builder.atomic_rmw("add", address_of(context, builder, sig.args[0], *args[:2]), args[2], "seq_cst")

        return types.int64(array, types.int64, types.int64), codegen

    @intrinsic
    def atomic_load(typing, array, index):
        """Read array[index] afresh, after everything that was written before it was set."""

        def codegen(context, builder, sig, args):
            return builder.load_atomic(address_of(context, builder, sig.args[0], *args), "acquire", 8)

        return types.int64(array, types.int64), codegen

    def _prefetch(level, context, builder, sig, args):
        i32, p8 = ir.IntType(32), ir.IntType(8).as_pointer()
        pointer = builder.bitcast(address_of(context, builder, sig.args[0], *args), p8)
        signature = ir.FunctionType(ir.VoidType(), [p8, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [p8], signature)
        builder.call(function, [pointer, i32(0), i32(level), i32(1)])
        return context.get_dummy_value()

    @intrinsic
    def prefetch(typing, array, index):
        """Ask for the cache line of array[index], into the second-level cache; never faults, returns nothing.

        The first level can wait for two dozen lines at a time; asking for more stalls: scattered rows of a histogram
        cost 35 ns each with prefetches into the first level alone, 20 ns into the second, 16 ns with both, the
        nearer one four rows ahead (28 columns, Zen 4).
        """
        return types.void(array, index), functools.partial(_prefetch, 2)

    @intrinsic
    def prefetch_near(typing, array, index):
        """Ask for the cache line of array[index], into the first-level cache."""
        return types.void(array, index), functools.partial(_prefetch, 3)

    @intrinsic
    def float_bits(typing, value):
        """The 64 bits of a float64, as int64."""

        def codegen(context, builder, sig, args):
            return builder.bitcast(args[0], ir.IntType(64))

        return types.int64(types.float64), codegen

    @intrinsic
    def from_bits(typing, bits):
        """The float64 with these 64 bits."""

        def codegen(context, builder, sig, args):
            return builder.bitcast(args[0], ir.DoubleType())

        return types.float64(types.int64), codegen

    @intrinsic
    def multiply_add(typing, a, b, c):
        """a·b + c, rounded once: one instruction where the plain form takes two, and the same bits on every machine."""

        def codegen(context, builder, sig, args):
            return builder.fma(*args)

        return types.float64(types.float64, types.float64, types.float64), codegen

    @intrinsic
    def loose_multiply_add(typing, a, b, c):
        """a·b + c, rounded once or twice as suits the machine: for bounds alone, never for what enters a model."""

        def codegen(context, builder, sig, args):
            double = ir.DoubleType()
            signature = ir.FunctionType(double, [double] * 3)
            function = builder.module.declare_intrinsic("llvm.fmuladd", [double], signature)
            return builder.call(function, args)

        return types.float64(types.float64, types.float64, types.float64), codegen

    @intrinsic
    def trailing_zeros(typing, word):
        """Number of the lowest set bit (64 when none is set)."""

        def codegen(context, builder, sig, args):
            return builder.cttz(args[0], ir.IntType(1)(0))

        return types.uint64(types.uint64), codegen

    @intrinsic
    def single_of_bits(typing, bits):
        """The float32 with these 32 bits, as float64."""

        def codegen(context, builder, sig, args):
            return builder.fpext(builder.bitcast(args[0], ir.FloatType()), ir.DoubleType())

        return types.float64(types.uint32), codegen

    @intrinsic
    def count_below(typing, array, index, value):
        """How many of the 16 entries array[index : index + 16] are below `value`: one or two vector comparisons.

        The loop that says the same is compiled into a sum of 16 lanes, which takes three times as long.
        """
        if not isinstance(array.dtype, types.Float):
            return None

        def codegen(context, builder, sig, args):
            pointer, lanes = address_of(context, builder, sig.args[0], *args[:2]), 16
            kind = pointer.type.pointee
            vector = ir.VectorType(kind, lanes)
            entries = builder.load(
                builder.bitcast(pointer, vector.as_pointer()), align=4 if kind == ir.FloatType() else 8
            )
            everywhere = in_every_lane(builder, args[2], vector)
            below = builder.bitcast(builder.fcmp_ordered("<", entries, everywhere), ir.IntType(lanes))
            return builder.zext(builder.ctpop(below), ir.IntType(64))

        return types.int64(array, types.int64, array.dtype), codegen

    @intrinsic
    def add_four(typing, out, index, words, place):
        """out[index : index + 4] += words[place : place + 4], int64: one vector of 256 bits, or two of 128.

        (A loop of four is only made into vectors where the compiler can prove that the arrays do not overlap.)
        """

        def codegen(context, builder, sig, args):
            vector = ir.VectorType(ir.IntType(64), 4).as_pointer()
            out, words = (
                builder.bitcast(address_of(context, builder, sig.args[k], *args[k : k + 2]), vector) for k in (0, 2)
            )
            builder.store(builder.add(builder.load(out, align=8), builder.load(words, align=8)), out, align=8)
            return context.get_dummy_value()

        return types.void(out, types.uint64, words, types.uint64), codegen

    def _bytes_at(width, context, builder, sig, args):
        word = ir.IntType(8 * width)
        address = builder.bitcast(address_of(context, builder, sig.args[0], *args), word.as_pointer())
        value = builder.load(address, align=1)
        return value if width == 8 else builder.zext(value, ir.IntType(64))

    @intrinsic
    def four_at(typing, array, index):
        """Four bytes from array[index] on as one number, the first of them lowest."""
        return types.uint64(array, types.uint64), functools.partial(_bytes_at, 4)

    @intrinsic
    def eight_at(typing, array, index):
        """Eight bytes from array[index] on as one number, the first of them lowest."""
        return types.uint64(array, types.uint64), functools.partial(_bytes_at, 8)

    @intrinsic
    def never_inline(typing):
        """Keep the function that says this out of its callers: a long helper with several callers is compiled once."""

        def codegen(context, builder, sig, args):
            builder.function.attributes.add("noinline")
            return context.get_dummy_value()

        return types.void(), codegen

    @intrinsic
    def cycles(typing):
        """The processor's cycle counter: for shares of time, some 10 ns a call."""

        def codegen(context, builder, sig, args):
            signature = ir.FunctionType(ir.IntType(64), [])
            function = builder.module.declare_intrinsic("llvm.readcyclecounter", (), signature)
            return builder.call(function, [])

        return types.int64(), codegen

    yield_core = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())
    """Give the core to another thread, if one waits for it. A plain symbol, so that kernels stay cacheable."""

else:

    def atomic_add(array, index, value):
        before = array[index]
        array[index] += value
        return before

    def atomic_load(array, index):
        return array[index]

    def prefetch(array, index):
        return None

    prefetch_near = prefetch

    def float_bits(value):
        return np.float64(value).view(np.int64)

    def from_bits(bits):
        return np.int64(bits).view(np.float64)

    def multiply_add(a, b, c):
        if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
            return np.float64(a * b + c)
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        return np.float64(exact) if exact else np.float64(a * b + c)  # the plain form knows the sign of zero

    def loose_multiply_add(a, b, c):
        return a * b + c

    def trailing_zeros(word):
        word = int(word)
        return np.uint64((word & -word).bit_length() - 1 if word else 64)

    def single_of_bits(bits):
        return np.float64(np.uint32(bits).view(np.float32))

    def count_below(array, index, value):
        return int((array[index : index + 16] < value).sum())

    def add_four(out, index, words, place):
        out[int(index) : int(index) + 4] += words[int(place) : int(place) + 4]

    def four_at(array, index):
        return np.uint64(int.from_bytes(array[index : index + np.uint64(4)].tobytes(), "little"))

    def eight_at(array, index):
        return np.uint64(int.from_bytes(array[index : index + np.uint64(8)].tobytes(), "little"))

    def never_inline():
        return None

    def cycles():
        return time.perf_counter_ns()

    def yield_core():
        return 0
