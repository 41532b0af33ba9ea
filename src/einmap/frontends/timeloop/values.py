"""Values of Timeloop's files, each checked with its place; and the list of what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from einmap.errors import At, Note, SpecError
from einmap.expressions.arithmetic import number
from einmap.expressions.scope import Scope
from einmap.frontends.translation import LeftOut
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar
from einmap.visible import short


@dataclass(frozen=True, slots=True)
class Report:
    """Collects what has no counterpart, and notes, while the sections are read."""

    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def leave(self, at: At | None, key: str, reason: str) -> None:
        """Say that `key` is left out, once for each place."""
        entry = LeftOut(at or At(), key, reason)
        if entry not in self.left_out:
            self.left_out.append(entry)

    def leave_others(self, fields: RawMap, known: Iterable[str], reason: str = "it has no counterpart") -> None:
        """Leave out all keys of `fields` beside the known ones."""
        names = frozenset(known)
        for key, _ in fields.items:
            if key not in names:
                self.leave(fields.place_of(key), key, reason)


def named(at: At | None, what: str) -> At:
    """The place `at`, called `what` in messages."""
    return replace(at or At(), path=what)


def a_map(raw: Raw | None, what: str, at: At | None = None) -> RawMap:
    """A dictionary. Raises SpecError with the place for anything else."""
    if isinstance(raw, RawMap):
        return raw
    raise _wrong(raw, what, "a dictionary", at)


def a_list(raw: Raw | None, what: str, at: At | None = None) -> tuple[Raw, ...]:
    """The items of a list. Raises SpecError for anything else."""
    if isinstance(raw, RawList):
        return raw.items
    raise _wrong(raw, what, "a list", at)


def a_text(raw: Raw | None, what: str, at: At | None = None) -> str:
    """A text. A number stands for what was written, so that a dimension may be called 0. Raises SpecError."""
    if isinstance(raw, RawScalar) and raw.value is not None and not isinstance(raw.value, bool):
        return raw.value if isinstance(raw.value, str) else raw.text
    raise _wrong(raw, what, "a text", at)


def a_flag(raw: Raw | None, what: str) -> bool:
    """True or false, also as the words of older YAML; absent means false. Raises SpecError."""
    if raw is None:
        return False
    if isinstance(raw, RawScalar):
        if isinstance(raw.value, bool):
            return raw.value
        if str(raw.value).lower() in _FLAGS:
            return _FLAGS[str(raw.value).lower()]
    raise _wrong(raw, what, "true or false", None)


_FLAGS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "1": True, "0": False}


def a_number(raw: Raw | None, what: str, scope: Scope, minimum: float = 0, at: At | None = None) -> float:
    """A number or an expression of the variables in `scope`. Raises SpecError."""
    if isinstance(raw, RawScalar) and raw.value is not None and not isinstance(raw.value, bool):
        place = named(raw.at, what)
        return number(raw.value, scope, at=place, what=what, minimum=minimum)
    raise _wrong(raw, what, "a number", at)


def an_integer(raw: Raw | None, what: str, scope: Scope, minimum: int = 1, at: At | None = None) -> int:
    """A whole number or an expression that gives one. Raises SpecError."""
    if isinstance(raw, RawScalar) and raw.value is not None and not isinstance(raw.value, bool):
        place = named(raw.at, what)
        return int(number(raw.value, scope, at=place, what=what, minimum=minimum, integer=True, allow_inf=False))
    raise _wrong(raw, what, "a whole number", at)


def _wrong(raw: Raw | None, what: str, expected: str, at: At | None) -> SpecError:
    if raw is None:
        return SpecError(f"{what} is missing, expected {expected}", at=at)
    if isinstance(raw, RawScalar):
        found = "nothing" if raw.value is None else short(raw.value)
    else:
        found = "a list" if isinstance(raw, RawList) else "a dictionary"
    return SpecError(f"expected {expected}, found {found}", at=named(raw.at, what))
