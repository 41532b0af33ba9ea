"""Names allowed for tensors, Einsums, renames, ranks, rank variables, components and dimensions."""

from __future__ import annotations

import keyword

from einmap.errors import At, SpecError
from einmap.expressions.sets import SET_NAMES

RESERVED = SET_NAMES
"""Set names that renames and components must not take."""


def is_name(text: str) -> bool:
    """Whether expressions can speak of it: letters, digits and `_`, no digit first, no word of the language."""
    return text.isidentifier() and not keyword.iskeyword(text)


def check_name(name: str, kind: str, at: At | None, *, reserved: bool = False) -> None:
    """Raise SpecError for a name that expressions cannot use; `reserved`: also for the name of a set."""
    if not is_name(name):
        hint = "use letters, digits and _, no digit first"
        if keyword.iskeyword(name):
            hint = f"{name} is a word of expressions: choose another name"
        raise SpecError(f"{kind} name {name!r} must be an identifier", at=at, hint=hint)
    if reserved and name in RESERVED:
        raise SpecError(
            f"{name!r} is a reserved name and cannot be a {kind}", at=at, hint=f"reserved: {', '.join(RESERVED)}"
        )


def wrong_case(name: str, kind: str, at: At) -> SpecError:
    """A rank that is not written like one (`M`), or a rank variable (`m`)."""
    if not is_name(name):
        return SpecError(f"{name!r} must be a {kind}, which is an identifier", at=at)
    case, meant = ("lower-case", name.lower()) if kind == "rank variable" else ("upper-case", name.upper())
    return SpecError(f"{name!r} must be a {kind}, which is {case}", at=at, hint=f"did you mean {meant!r}?")
