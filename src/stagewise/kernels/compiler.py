"""How Numba is made to compile growth in seconds: helpers wait until the kernel that they belong to is complete.

Numba takes every function for one that Python calls: it is optimised, linked with the optimised copies of all that it
calls, optimised again and made into machine code, and so is every caller with it, link by link. Our helpers are called
from kernels alone. Here they stay as they were lowered; the kernel links all of them and is optimised once, as a whole.
"""

from __future__ import annotations

from typing import Any

from numba.core import compiler, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering
from numba._dynfunc import make_function

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


@register_pass(mutates_CFG=True, analysis_only=False)
class DeviceLowering(NativeLowering):  # type: ignore[misc]
    _name = "stagewise_device_lowering"

    def run_pass(self, state: Any) -> bool:
        context, flags = state.targetctx, state.flags
        state.library = Waiting(context.codegen(), state.func_id.func_qualname)
        flags.no_compile = True
        try:
            super().run_pass(state)
        finally:
            flags.discard("no_compile")
        lowered = state["cr"]
        name, library = lowered.fndesc, state.library
        library._ensure_finalized()
        entry = make_function(name.lookup_module(), name.qualname, "part of kernels", 0, lowered.env, (library,))
        context.insert_user_function(entry, name, [library])
        state["cr"] = _LowerResult(name, lowered.call_helper, cfunc=entry, env=lowered.env)
        return True


class Typing:
    """Numba's typing context, which remembers what operators on numbers give.

    For every operation in every function Numba asks some dozens of candidates in turn, from strings to dates.
    """

    _known: dict[Any, Any] = {}

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        if kws or type(function) is not types.Function:
            return self._context.resolve_function_type(function, args, kws)
        key = function, tuple(args), ConfigStack.top_or_none().nrt
        if key not in self._known:
            self._known[key] = self._context.resolve_function_type(function, args, kws)
        return self._known[key]


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's own way."""

    def __init__(self, typing: Any, *rest: Any) -> None:
        super().__init__(Typing(typing), *rest)

    def define_pipelines(self) -> list[Any]:
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class DeviceCompiler(KernelCompiler):
    """The same for helpers."""

    def define_pipelines(self) -> list[Any]:
        (passes,) = super().define_pipelines()
        passes.passes = [
            (DeviceLowering, about) if way is NativeLowering else (way, about) for way, about in passes.passes
        ]
        passes.finalize()
        return [passes]
