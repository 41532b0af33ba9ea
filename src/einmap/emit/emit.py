"""emit(): the loop nest of a mapping as code with explicit data movement."""

from __future__ import annotations

from typing import assert_never

from einmap.emit.build import program_of
from einmap.emit.language.identifiers import LANGUAGES, Language
from einmap.emit.printers.print_c import c_text
from einmap.emit.printers.print_pseudo import pseudo_text
from einmap.emit.printers.print_python import python_text
from einmap.errors import SpecError, did_you_mean
from einmap.spec.spec import Spec
from einmap.visible import visible


def emit(spec: Spec, lang: str = "c") -> str:
    """The loop nest of the mapping of `spec` as code: `pseudo` (text), `python` (NumPy) or `c` (C99).

    The code moves what the preset `exact` counts, value for value, and says how much that was.
    Raises SpecError for an unknown language, a missing mapping and operations that are not arithmetic, MappingError for
    a mapping that does not fit, NotSupportedError for what cannot be emitted.
    """
    language = language_of(lang)
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


def language_of(name: str) -> Language:
    """The language of that name. Raises SpecError."""
    for language in LANGUAGES:
        if name == language:
            return language
    hint = did_you_mean(str(name), LANGUAGES, listing="languages")
    raise SpecError(f"code cannot be emitted in {str(name)!r}", hint=hint)
