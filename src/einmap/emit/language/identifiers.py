"""Identifiers of the target language for the names of a specification."""

from __future__ import annotations

import builtins
import keyword
import re
from dataclasses import dataclass, field
from typing import Literal

type Language = Literal["pseudo", "python", "c"]
LANGUAGES: tuple[Language, ...] = ("pseudo", "python", "c")

_C = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm linux unix i386
main printf fprintf stderr stdout stdin malloc calloc free exit abs labs fabs fmax fmin exp exp2 expm1 log log2 log10
log1p logb sqrt cbrt pow hypot fma sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc lgamma tgamma
gamma ceil floor round trunc rint modf ldexp frexp scalbn ilogb fdim fmod remainder nan isnan isinf isfinite isnormal
signbit INFINITY NAN NULL EOF RAND_MAX HUGE_VAL div ldiv random rand srand abort atexit system getenv qsort remove
rename puts gets getc putc index rindex time clock size_t FILE
"""
_C += """
BUFSIZ MB_CUR_MAX NFDBITS alloca WCONTINUED WEXITED WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WNOHANG
WNOWAIT WSTOPPED WSTOPSIG WTERMSIG WUNTRACED bool true false nullptr constexpr alignas alignof static_assert
thread_local typeof fpclassify isgreater isgreaterequal isless islessequal islessgreater isunordered
"""
_C_MACRO = re.compile(
    r"[bl]e\d+toh|hto[bl]e\d+|(?:M|FP|FD|SEEK|EXIT|MATH|HUGE|L|P)_\w+|\w+_(?:MAX|t|ENDIAN|errhandling)"
)
_C_FUNCTION = re.compile(r"[a-z][a-z0-9]+")
"""Any name of the C library and of POSIX, as far as the headers declare functions."""
_OWN_C = """
mvin mvin_part mvin_live take mvout mvout_sum mvout_max mvout_min clear mark tiles smaller larger nest new_values
i next_integer next_fraction next_index row_of is_close n_moved value wrong largest here there BIG
"""
_OWN_PYTHON = "np math nest mvin_part mvin_live row_of n_moved value"

RESERVED: dict[Language, frozenset[str]] = {
    "c": frozenset([*_C.split(), *_OWN_C.split()]),
    "python": frozenset([*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *_OWN_PYTHON.split()]),
    "pseudo": frozenset(["for", "parallel_for", "in", "if", "else", "mvin", "mvout", "buffer", "tensor"]),
}


@dataclass
class Names:
    """Hands out identifiers, and remembers which names could not be kept."""

    language: Language
    taken: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def identifier(self, name: str, *, what: str | None = None) -> str:
        """An identifier that nothing else has; `what`: name of the specification, where a change is to be told.

        Those are declared outside of functions, where C has no room for names of the library.
        """
        stem = as_identifier(name, self.language)
        if what is not None and self.language == "c" and _C_FUNCTION.fullmatch(stem):
            stem += "_"
        candidate, n = stem, 2
        while candidate in self.taken or candidate in RESERVED[self.language]:
            candidate, n = f"{stem}_{n}", n + 1
        self.taken[candidate] = name
        if what is not None and candidate != what:
            self.renamed[what] = candidate
        return candidate


def as_identifier(name: str, language: Language) -> str:
    """ASCII letters, digits and underscores, no reserved word, no name that C keeps for itself."""
    identifier = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not re.match(r"[A-Za-z]", identifier):
        identifier = "v" + identifier
    is_macro = language == "c" and _C_MACRO.fullmatch(identifier)
    return identifier + "_" if is_macro or identifier in RESERVED[language] else identifier
