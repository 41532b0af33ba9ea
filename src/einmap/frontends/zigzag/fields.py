"""Values of ZigZag's files, each checked with its place; what is not read is left out by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from einmap.errors import At, Note, SpecError, did_you_mean
from einmap.frontends.files import read_text_file
from einmap.frontends.translation import LeftOut
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar
from einmap.visible import short

MAX_INTEGER = 2**62
MAX_TEXT = 10_000
"""Characters of one text, and items of one list."""
LONGEST_KEY = 60


@dataclass(slots=True)
class Report:
    """What has no counterpart, and what was assumed, collected while files are read."""

    notes: list[Note] = field(default_factory=list)
    _places: dict[tuple[str, str], list[At]] = field(default_factory=dict)

    def leave(self, at: At, key: str, reason: str) -> None:
        """Leave out `key` for a reason. What is left out again for the same reason is counted with the first."""
        self._places.setdefault((key, reason), []).append(at)

    def left_out(self) -> tuple[LeftOut, ...]:
        """What was left out, in the order of the files that were read."""
        return tuple(
            LeftOut(places[0], key, reason + (f" ({len(places)} times)" if len(places) > 1 else ""))
            for (key, reason), places in self._places.items()
        )


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


def read_document(file: Path, report: Report) -> Value:
    """The document in a file. A key that is given twice has its last value, as in ZigZag, and is noted."""
    repeated: list[RawScalar] = []
    raw = parse_yaml(read_text_file(file), str(file), repeated=repeated)
    for key in repeated:
        report.leave(key.at or At(str(file)), str(key.text)[:LONGEST_KEY], "it is given again below, which counts")
    return Value(raw, "")


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
