"""emit(): the loop nest of a mapping as code with explicit data movement."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never

from einmap.emit.build import program_of
from einmap.emit.fast.fast_c import fast_c
from einmap.emit.language.identifiers import LANGUAGES, Language
from einmap.emit.printers.print_c import c_text
from einmap.emit.printers.print_pseudo import pseudo_text
from einmap.emit.printers.print_python import python_text
from einmap.errors import SpecError, did_you_mean
from einmap.plugins import plugin, plugin_names
from einmap.spec.spec import Spec
from einmap.visible import short, visible


def emit(spec: Spec, lang: str = "c", *, fast: bool = False) -> str:
    """The loop nest of the mapping of `spec` as code: `pseudo` (text), `python` (NumPy), `c` (C99), or a plug-in's.

    The code moves what the preset `exact` counts, value for value, and says how much that was. With `fast`, C for one
    product or convolution, as fast as the mapping is: packed tiles, vectors in registers, threads; it counts nothing.
    Raises SpecError for an unknown language, a missing mapping and operations that are not arithmetic, MappingError for
    a mapping that does not fit, NotSupportedError for what cannot be emitted.
    """
    return printer_of(lang, fast=fast)(spec)


def printer_of(name: str, *, fast: bool = False) -> Callable[[Spec], str]:
    """The function that emits code in the language of that name, einmap's or that of a package. Raises SpecError."""
    if fast:
        if name != "c":
            raise SpecError(f"fast code is C, found the language {str(name)!r}", hint="--lang c --fast")
        return fast_c
    for language in LANGUAGES:
        if name == language:
            return partial(_emitted, language)
    if (added := plugin("emitters", str(name))) is not None:
        return partial(_added, str(name), added)
    hint = did_you_mean(str(name), (*LANGUAGES, *plugin_names("emitters")), listing="languages")
    raise SpecError(f"code cannot be emitted in {str(name)!r}", hint=hint)


def _added(name: str, printer: Callable[[Spec], object], spec: Spec) -> str:
    text = printer(spec)
    if not isinstance(text, str):
        raise SpecError(f"the plug-in {name} must give a text, found {short(text, 60)}")
    return text


def _emitted(language: Language, spec: Spec) -> str:
    program = program_of(spec, language)
    match language:
        case "pseudo":
            return visible(pseudo_text(program))
        case "python":
            return python_text(program)
        case "c":
            return c_text(program)
        case _:
            assert_never(language)
