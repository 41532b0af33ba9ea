"""Steps by which kernels are compiled: those of Numba that loops over numbers need.

Numba optimises each function that a kernel calls by itself and writes machine code of it, which nobody calls, and then
optimises the kernel with all of them in it. Here only the last is done. The kernel's code is as fast as Numba's own.
"""

from __future__ import annotations

from typing import Any

from numba.core import errors, types
from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_machinery import AnalysisPass, PassManager, register_pass


@register_pass(mutates_CFG=False, analysis_only=True)
class _KeepsCount(AnalysisPass):  # type: ignore[misc]
    """Refusal of functions that would lose count of who uses an array, see `compiled.inner`."""

    _name = "einmap_keeps_count"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        if state.flags.nrt:
            return False
        calls = [
            signature.return_type
            for call, signature in state.calltypes.items()
            if getattr(call, "op", "") == "call" and isinstance(state.typemap[call.func.name], types.Dispatcher)
        ]
        if any(map(_has_arrays, [state.return_type, *calls])):
            raise errors.TypingError(f"{state.func_id.func_name} makes or gives arrays: decorate it with `maker`")
        return False


def _has_arrays(kind: Any) -> bool:
    """Whether values of a type of Numba are arrays, or tuples with some."""
    return isinstance(kind, types.Array) or any(map(_has_arrays, getattr(kind, "types", ())))


STEPS = (
    untyped.TranslateByteCode,
    untyped.FixupArgs,
    untyped.IRProcessing,
    untyped.GenericRewrites,
    untyped.ReconstructSSA,
    typed.NopythonTypeInference,
    _KeepsCount,
    typed.PreLowerStripPhis,
    typed.IRLegalization,
    typed.AnnotateTypes,
    typed.NativeLowering,
    typed.NoPythonBackend,
)
"""Steps in their order. Left out are those for closures, `with`, unrolled loops, array expressions and constants."""


class _Flags(Flags):  # type: ignore[misc]
    """Flags of which there is one object for equal values, so that two of them are told apart at once.

    For each operation of a kernel Numba compares them some ten times, else value by value.
    """

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def copy(self) -> _Flags:
        """The object for these values, which nobody changes."""
        return _known_flags.setdefault(repr(sorted(self._values.items())), type(self)(self))


_known_flags: dict[str, _Flags] = {}


class _NoEnvironment:
    """Code generator of functions that have no machine code of their own."""

    def set_env(self, name: str, env: Any) -> None:
        """Nothing: the kernel has an environment."""


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """A function that kernels take in as it was written down: not optimised, and without machine code."""

    _finalized = False

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Nothing more is added; what it calls is linked into the kernel."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - as Numba calls it
        """No address: Python does not call it."""
        return 0

    @property
    def codegen(self) -> _NoEnvironment:
        """Who would be told the environment."""
        return _NoEnvironment()


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """A kernel with all functions that it calls, optimised once."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._own: set[str] = set()

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        self._own |= {value.name for value in ll_module.global_variables}

    def add_linking_library(self, library: Any) -> None:
        """Take in a function, and those that it calls."""
        if library in self._linking_libraries:
            return
        super().add_linking_library(library)
        if isinstance(library, _Part):
            for other in library._linking_libraries:
                self.add_linking_library(other)

    def _optimize_final_module(self) -> None:
        # environments of functions that it calls go where nothing reads them: to load one imports the module
        for value in self._of_others():
            value.linkage = "internal"
        made = self._codegen._module_pass_manager()  # with what it was built by since Numba 0.62
        passes, *builder = made if isinstance(made, tuple) else [made]
        passes.run(self._final_module, *builder)
        for value in self._of_others():
            value.linkage = "common"

    def _of_others(self) -> list[Any]:
        """Environments of other functions."""
        values = self._final_module.global_variables
        return [value for value in values if value.name.startswith("_ZN08NumbaEnv") and value.name not in self._own]


class Whole(CompilerBase):  # type: ignore[misc]
    """Compiler of kernels."""

    library: type[JITCodeLibrary] = _Whole

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.flags = _Flags(self.state.flags)

    def define_pipelines(self) -> list[Any]:
        """The one list of steps."""
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        steps = PassManager("kernel")
        for step in STEPS:
            steps.add_pass(step, step.__name__)
        steps.finalize()
        steps._ENFORCING = False  # checks of Numba for its own steps, a tenth of the time
        return [steps]


class Part(Whole):
    """Compiler of functions that kernels alone call."""

    library = _Part
