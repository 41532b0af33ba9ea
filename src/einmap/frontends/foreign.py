"""Files of other tools: their values, each checked with its place; what is left out; the texts that files become."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from einmap.errors import At, Note, SpecError, did_you_mean
from einmap.expressions.arithmetic import number
from einmap.expressions.scope import Scope
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar
from einmap.visible import short

GIVEN_FILE = "given.yaml"
"""A partly given mapping: not a part of the specification, but what `einmap map --given` takes."""
MAX_INTEGER = 2**62
MAX_TEXT = 10_000
"""Characters of one text, and items of one list."""
LONGEST_KEY = 60
_FLAGS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that the other format cannot say: its place in the file that was read, its key, and why."""

    at: At
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Translation:
    """`files`: texts by the names of their files; `left_out`: what has no counterpart; `notes`: what was assumed."""

    files: Mapping[str, str]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(slots=True)
class Report:
    """Fields without counterpart, and assumptions, collected while files are read or written."""

    notes: list[Note] = field(default_factory=list)
    _times: dict[LeftOut, int] = field(default_factory=dict)

    def leave(self, at: At | None, key: str, reason: str) -> None:
        """Say that `key` is left out, once for each place."""
        entry = LeftOut(at or At(), key, reason)
        self._times[entry] = self._times.get(entry, 0) + 1

    def leave_key(self, raw: RawMap, path: str, key: str, reason: str) -> None:
        """Leave out a key of the dictionary at a path."""
        self.leave(replace(raw.place_of(key) or At(), path=f"{path}.{key}"), key, reason)

    def leave_others(self, fields: RawMap, known: Iterable[str], reason: str = "it has no counterpart") -> None:
        """Leave out all keys of `fields` beside the known ones."""
        names = frozenset(known)
        for key, _ in fields.items:
            if key not in names:
                self.leave(fields.place_of(key), key, reason)

    def translation(self, files: Mapping[str, str]) -> Translation:
        """The texts, and all that was left out and noted."""
        return Translation(files, tuple(self._times), tuple(self.notes))

    def counted(self, files: Mapping[str, str]) -> Translation:
        """As `translation`; what is left out in several places for one reason is said at the first, with how often."""
        first: dict[tuple[str, str], LeftOut] = {}
        total: dict[tuple[str, str], int] = {}
        for entry, times in self._times.items():
            key = entry.key, entry.reason
            first.setdefault(key, entry)
            total[key] = total.get(key, 0) + times
        told = [
            replace(entry, reason=f"{entry.reason} ({total[key]} times)") if total[key] > 1 else entry
            for key, entry in first.items()
        ]
        return Translation(files, tuple(told), tuple(self.notes))


# values that may be expressions


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


def _given(raw: Raw | None, what: str, expected: str, at: At | None) -> RawScalar:
    """A scalar that is a number or a text. Raises SpecError for anything else."""
    if isinstance(raw, RawScalar) and raw.value is not None and not isinstance(raw.value, bool):
        return raw
    raise _wrong(raw, what, expected, at)


def a_text(raw: Raw | None, what: str, at: At | None = None) -> str:
    """A text. A number stands for what was written, so that a dimension may be called 0. Raises SpecError."""
    found = _given(raw, what, "a text", at)
    return found.value if isinstance(found.value, str) else found.text


def a_flag(raw: Raw | None, what: str) -> bool:
    """True or false, also as the words of older YAML; absent means false. Raises SpecError."""
    if raw is None:
        return False
    word = str(raw.value).lower() if isinstance(raw, RawScalar) else ""
    if word not in _FLAGS:
        raise _wrong(raw, what, "true or false", None)
    return _FLAGS[word]


def a_number(raw: Raw | None, what: str, scope: Scope, minimum: float = 0, at: At | None = None) -> float:
    """A number or an expression of the variables in `scope`. Raises SpecError."""
    found = _given(raw, what, "a number", at)
    return number(found.value, scope, at=named(found.at, what), what=what, minimum=minimum)


def an_integer(raw: Raw | None, what: str, scope: Scope, minimum: int = 1, at: At | None = None) -> int:
    """A whole number or an expression that gives one. Raises SpecError."""
    found = _given(raw, what, "a whole number", at)
    limits = {"minimum": minimum, "integer": True, "allow_inf": False}
    return int(number(found.value, scope, at=named(found.at, what), what=what, **limits))  # type: ignore[arg-type]


def _wrong(raw: Raw | None, what: str, expected: str, at: At | None) -> SpecError:
    if raw is None:
        return SpecError(f"{what} is missing, expected {expected}", at=at)
    return SpecError(f"expected {expected}, found {_shown(raw)}", at=named(raw.at, what))


def _shown(raw: Raw) -> str:
    match raw:
        case RawScalar(value=None):
            return "nothing"
        case RawScalar(value=float(value)) if not math.isfinite(value):
            return str(value)
        case RawScalar():
            return short(raw.value)
        case RawList():
            return f"a list of {len(raw.items)}"
        case RawMap():
            return "a dictionary"


# plain values, and dictionaries whose keys are all asked for or left out


@dataclass(frozen=True, slots=True)
class Value:
    """A value and where it stands. Each method raises SpecError with the place where the value is of another kind."""

    raw: Raw
    path: str

    @property
    def at(self) -> At:
        """The place of the value, with the path of its field."""
        return replace(self.raw.at or At(), path=self.path)

    def wrong(self, expected: str, hint: str | None = None) -> SpecError:
        """The error for a value that is not what is expected."""
        return SpecError(f"expected {expected}, found {_shown(self.raw)}", at=self.at, hint=hint)

    def integer(self, least: int = 0, most: int = MAX_INTEGER) -> int:
        """An integer from `least` to `most`; 8.0 is one."""
        number = self.raw.value if isinstance(self.raw, RawScalar) else None
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise self.wrong(f"an integer of at least {least}" + (f", at most {most:,}" if most < MAX_INTEGER else ""))
        return number

    def number(self) -> float:
        """A finite number that is not negative."""
        number = self.raw.value if isinstance(self.raw, RawScalar) else None
        if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number < MAX_INTEGER:
            raise self.wrong("a number of at least 0")
        return float(number)

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.raw, RawScalar) or not isinstance(self.raw.value, bool):
            raise self.wrong("true or false")
        return self.raw.value

    def text(self) -> str:
        """A text; what YAML takes for a number is the text that was written."""
        if not isinstance(self.raw, RawScalar) or self.raw.value is None or len(self.raw.text) > MAX_TEXT:
            raise self.wrong("a text")
        return self.raw.text.strip()

    def items(self) -> tuple[Value, ...]:
        """The items of a list."""
        if not isinstance(self.raw, RawList) or len(self.raw.items) > MAX_TEXT:
            raise self.wrong(f"a list of at most {MAX_TEXT:,} items")
        return tuple(Value(item, f"{self.path}[{number}]") for number, item in enumerate(self.raw.items))

    def texts(self) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(item.text() for item in self.items())


class Fields:
    """A dictionary of a file. Keys that nothing asked for are left out by name when it is closed."""

    def __init__(self, value: Value, report: Report) -> None:
        if not isinstance(value.raw, RawMap):
            raise value.wrong("a dictionary")
        self._raw = value.raw
        self._asked: set[str] = set()
        self.value = value
        self.report = report

    @property
    def at(self) -> At:
        """The place of the dictionary."""
        return self.value.at

    @property
    def path(self) -> str:
        """The path of the dictionary."""
        return self.value.path

    @property
    def names(self) -> tuple[str, ...]:
        """All keys, in written order."""
        return self._raw.keys()

    def get(self, key: str) -> Value | None:
        """The value of a key; None where it is missing or null."""
        self._asked.add(key)
        raw = self._raw.get(key)
        if raw is None or (isinstance(raw, RawScalar) and raw.value is None):
            return None
        return Value(raw, f"{self.path}.{key}" if self.path else key)

    def need(self, key: str) -> Value:
        """The value of a key that must be there."""
        found = self.get(key)
        if found is None:
            others = [other for other in self.names if other not in self._asked]
            hint = did_you_mean(key, others, listing="keys there") if others else None
            raise SpecError(f"the key {key!r} is missing", at=self.at, hint=hint)
        return found

    def integer(self, key: str, without: int, least: int = 0) -> int:
        """An integer, `without` where it is missing."""
        found = self.get(key)
        return without if found is None else found.integer(least)

    def flag(self, key: str) -> bool:
        """True or false; false where it is missing."""
        found = self.get(key)
        return found is not None and found.flag()

    def leave(self, key: str, reason: str) -> None:
        """Leave out a key for a reason, where it is there."""
        found = self.get(key)
        if found is not None:
            self.report.leave(found.at, key, reason)

    def close(self, reasons: Mapping[str, str]) -> None:
        """Leave out what nothing asked for, for the reasons by key, or as unknown."""
        for key in self.names:
            if key not in self._asked and not key.startswith(("_", "x-")):
                at = replace(self._raw.place_of(key) or self.at, path=f"{self.path}.{key}" if self.path else key)
                self.report.leave(at, key[:LONGEST_KEY], reasons.get(key, "it is not a key that is known"))
