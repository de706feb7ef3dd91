"""Compiled kernels as they lie on disk: what a process needs to run them, ready at hand, and the rest unread.

Numba's own form holds the kernel a second time, for other kernels to link to, and the surroundings of every helper in
it; both are read whenever the kernel is. Nine kernels of a first fit took 0.2 s so, and take 0.03 s like this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import binding as llvm
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.runtime import _nrt_python, rtsys

__all__ = ["Kept", "KeptForm"]


class Kept(NamedTuple):
    """What is written. Only a kernel that makes or counts arrays needs Numba's runtime, and mostly its C part alone."""

    name: str
    code: bytes  # machine code, an object file
    bitcode: bytes  # the same for linking
    runtime: bool  # whether it calls what Numba's runtime compiles in every process
    fndesc: Any
    environment: Any
    signature: Any
    reload_init: Any
    surroundings: tuple[Any, ...]  # environments of helpers that hold constants: the others are never looked at


class KeptLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba is not typed
    """Code from the disk. It is taken apart only when another kernel that is being compiled calls this one."""

    bitcode = b""
    _shared_module: Any

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = llvm.parse_bitcode(self.bitcode)
        return self._shared_module


_IN_C = {name if name.startswith("_") else f"NRT_{name}": address for name, address in _nrt_python.c_helpers.items()}
"""The part of Numba's runtime that is there without compiling: symbols of code, and where they are."""


def _calls_runtime(module: Any) -> bool:
    outside = {function.name for function in module.functions if function.is_declaration}
    return any(name.lower().startswith("nrt_") for name in outside - _IN_C.keys())


class KeptForm(CompileResultCacheImpl):  # type: ignore[misc]
    """From a compiled kernel to what is kept of it, and back."""

    _ready = False

    def __init__(self, plain: CompileResultCacheImpl) -> None:
        self.__dict__.update(plain.__dict__)

    def reduce(self, compiled: Any) -> Kept:
        library, fndesc = compiled.library, compiled.fndesc
        fndesc.typemap = fndesc.calltypes = None  # large, and of no use any more
        module = library._get_module_for_linking()
        return Kept(
            library.name,
            library._get_compiled_object(),
            module.as_bitcode(),
            _calls_runtime(module),
            fndesc,
            compiled.environment,
            compiled.signature,
            compiled.reload_init,
            tuple(one for one in compiled._find_referenced_environments() if one.consts),
        )

    def rebuild(self, context: Any, kept: Kept) -> CompileResult:
        self._make_ready()
        if kept.runtime:
            rtsys.initialize(context)
        for function in kept.reload_init or ():
            function()
        codegen, fndesc = context.codegen(), kept.fndesc
        library = KeptLibrary(codegen, kept.name)
        library.bitcode = kept.bitcode
        library.enable_object_caching()
        library._set_compiled_object(kept.code)
        library._finalize_final_module()
        codegen._engine._defined_symbols.update((fndesc.llvm_func_name, fndesc.llvm_cpython_wrapper_name))
        entry = context.get_executable(library, fndesc, kept.environment)
        for one in kept.surroundings:
            codegen.set_env(one.env_name, one)
        fields = dict.fromkeys(CompileResult._fields)
        fields |= {"target_context": context, "typing_context": context.typing_context, "library": library}
        fields |= {"environment": kept.environment, "entry_point": entry, "fndesc": fndesc}
        fields |= {"signature": kept.signature, "objectmode": False, "lifted": (), "reload_init": kept.reload_init}
        fields |= {"referenced_envs": kept.surroundings, "type_annotation": ""}
        return CompileResult(**fields)

    @classmethod
    def _make_ready(cls) -> None:
        if not cls._ready:
            for name, address in _IN_C.items():
                llvm.add_symbol(name, address)
            KeptForm._ready = True
