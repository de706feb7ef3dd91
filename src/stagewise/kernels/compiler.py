"""How Numba is made to compile growth in seconds: helpers wait until the kernel that they belong to is complete.

Numba takes every function for one that Python calls: it is optimised, linked with the optimised copies of all that it
calls, optimised again and made into machine code, and so is every caller with it, link by link. Our helpers are called
from kernels alone. Here they stay as they were lowered; the kernel links all of them and is optimised once, as a whole.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba._dynfunc import make_function
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.entrypoints import init_all
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering

__all__ = ["DeviceCompiler", "KernelCompiler"]


class Waiting(JITCodeLibrary):  # type: ignore[misc]  # numba is not typed
    """The code of a helper: linked, neither optimised nor made into machine code."""

    def add_llvm_module(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        self._final_module.link_in(module)

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class Whole(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel. Where no references are counted, what Numba does to get rid of the counting is left out."""

    counting = True

    def add_llvm_module(self, module: Any) -> None:
        if self.counting:
            super().add_llvm_module(module)
        else:
            Waiting.add_llvm_module(self, module)

    def _optimize_final_module(self) -> None:
        if self.counting:
            super()._optimize_final_module()
        else:
            passes, builder = self._codegen._module_pass_manager()
            passes.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):  # type: ignore[misc]
    """Numba's last pass, into a library of ours."""

    _name = "stagewise_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = Whole(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.counting = state.flags.nrt
        state.library.enable_object_caching()
        return super().run_pass(state)


def _holds_arrays(kind: Any) -> bool:
    several = isinstance(kind, types.BaseTuple)  # type: ignore[attr-defined]
    return isinstance(kind, types.Array) or (several and any(map(_holds_arrays, kind)))


@register_pass(mutates_CFG=True, analysis_only=False)
class DeviceLowering(NativeLowering):  # type: ignore[misc]
    """The same for a helper, which callers find by an entry point that is none: Python must not call it."""

    _name = "stagewise_device_lowering"

    def run_pass(self, state: Any) -> bool:
        context, flags = state.targetctx, state.flags
        state.library = Waiting(context.codegen(), state.func_id.func_qualname)
        flags.no_compile = True
        try:
            super().run_pass(state)
        finally:
            flags.discard("no_compile")
        if not flags.nrt and _holds_arrays(state.return_type):
            raise TypeError(f"{state.func_id.func_qualname} returns an array that nobody counts: make it a `piece`.")
        lowered = state["cr"]
        name, library = lowered.fndesc, state.library
        library._ensure_finalized()
        entry = make_function(name.lookup_module(), name.qualname, "part of kernels", 0, lowered.env, (library,))
        context.insert_user_function(entry, name, [library])
        state["cr"] = _LowerResult(name, lowered.call_helper, cfunc=entry, env=lowered.env)
        return True


_known: dict[Any, Any] = {}
_ask = types.Function.get_call_type


def _recall(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """What `types.Function.get_call_type` says, from memory the second time.

    For every operation Numba asks some dozens of candidates in turn, from strings to dates, when it is typed and again
    when it is lowered; growth has some 5,000 operations of 500 kinds.
    """
    if kws:
        return _ask(function, context, args, kws)
    key = function, tuple(args), ConfigStack.top_or_none().nrt
    signature = _known.get(key)
    if signature is None:
        signature = _known[key] = _ask(function, context, args, kws)
    return signature


@contextmanager
def _in_haste() -> Iterator[None]:
    """Answers from memory, and no garbage collection, while a kernel is compiled. (Numba's objects are many and none of
    them is garbage.) The thread holds Numba's lock meanwhile, so nobody else's code is compiled like this."""
    ask, collecting = types.Function.get_call_type, gc.isenabled()
    types.Function.get_call_type = _recall  # type: ignore[assignment, method-assign]
    gc.disable()
    try:
        yield
    finally:
        types.Function.get_call_type = ask  # type: ignore[method-assign]
        if collecting:
            gc.enable()


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Compiles what Python calls."""

    lowering: type = KernelLowering

    def compile_extra(self, function: Any) -> Any:
        init_all()
        with _in_haste():
            return super().compile_extra(function)

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (self.lowering, about) if way is NativeLowering else (way, about) for way, about in passes.passes
        ]
        passes.finalize()
        return [passes]


class DeviceCompiler(KernelCompiler):
    """Compiles what kernels call."""

    lowering = DeviceLowering
