"""Constraints of Timeloop, written in an architecture or beside it, and directives of mappings: one form for all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from einmap.errors import At, SpecError, did_you_mean
from einmap.expressions.scope import Scope
from einmap.frontends.foreign import Report, a_list, a_map, a_text, an_integer, named
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar

SECTIONS = ("architecture_constraints", "mapspace_constraints", "constraints", "mapspace", "extra_mapping_constraints")
MAX_FACTOR = 2**40
_FACTOR = re.compile(r"([A-Za-z_]\w*?)\s*(<=|>=|=|)\s*(-?\d{1,15})(?:\s*,\s*(\d{1,15})(?!\w))?")
_OPERATORS: Mapping[str, Literal["==", "<=", ">="]] = {"": "==", "=": "==", "<=": "<=", ">=": ">="}
_WORDS = {"datatype": "dataspace", "bypass": "dataspace", "bypassing": "dataspace"}
KINDS = ("dataspace", "spatial", "temporal")
DATASPACE = ("type", "target", "name", "keep", "bypass")
"""Fields that are read of a directive that says what a level keeps."""


@dataclass(frozen=True, slots=True)
class Directive:
    """One entry: what it is about (`kind`), for which level (`target`), and its fields."""

    kind: str
    target: str
    fields: RawMap


@dataclass(frozen=True, slots=True)
class Factor:
    """`P=4`, `P<=16` or `P>=2` by its `operator`; 0 means as many iterations as are left, and so does -1.

    `P=7,3` has 7 iterations, and 3 (`last`) in the last one of the loops over P further out; None where these are all.
    """

    dimension: str
    value: int
    operator: Literal["==", "<=", ">="] = "=="
    last: int | None = None

    @property
    def written(self) -> str:
        """The operator as files have it."""
        return "=" if self.operator == "==" else self.operator


def directives(raw: Raw, what: str, report: Report) -> Iterator[Directive]:
    """The entries of a list, such as a mapping. Raises SpecError with the place of an entry that is none."""
    for item in a_list(raw, what):
        entry = a_map(item, what)
        if not isinstance(entry.get("constraints"), RawList):
            key = "target" if entry.get("target") is not None or entry.get("name") is None else "name"
            yield _directive(entry, a_text(entry.get(key), f"{what}.target", entry.at), what)
            continue
        # those of a level together
        target = a_text(entry.get("name"), f"{what}.name", entry.at)
        report.leave_others(entry, ("name", "constraints"))
        for inner in a_list(entry.get("constraints"), f"{what}.constraints"):
            yield _directive(a_map(inner, f"{what}.constraints"), target, f"{what}.constraints")


def _directive(entry: RawMap, target: str, what: str) -> Directive:
    """An entry, whose fields may stand below `attributes`."""
    kind = a_text(entry.get("type"), f"{what}.type", entry.at)
    more = entry.get("attributes")
    if more is not None:
        inner = a_map(more, f"{what}.attributes")
        own = tuple((key, entry.place_of(key), value) for key, value in entry.items if key != "attributes")
        both = (*own, *((key, inner.place_of(key), value) for key, value in inner.items))
        entry = replace(
            entry, items=tuple((key, value) for key, _, value in both), key_at=tuple(at for _, at, _ in both)
        )
    return Directive(_WORDS.get(kind, kind), target, entry)


def constraint_lists(sections: Mapping[str, Sequence[Raw]], report: Report) -> Iterator[Directive]:
    """The constraints of all sections that may hold some."""
    for name in SECTIONS:
        for raw in sections.get(name, ()):
            if isinstance(raw, RawList):
                yield from directives(raw, name, report)
                continue
            section = a_map(raw, name)
            chosen = section.get("constraints")
            # a name says which list of several is meant
            one = f"constraints_{chosen.value}" if isinstance(chosen, RawScalar) else "constraints"
            report.leave_others(section, ("targets", "constraints", one, "version", "template"))
            for key in ("targets", one):
                value = section.get(key)
                if isinstance(value, RawList):
                    yield from directives(value, f"{name}.{key}", report)
                elif value is not None and value is not chosen:
                    report.leave(section.place_of(key), key, "it is not a list of constraints")


def inside(target: str, constraints: RawMap, report: Report) -> Iterator[Directive]:
    """Constraints that stand at a node of version 0.4: a dictionary with one entry for each kind."""
    for key, value in constraints.items:
        kind = _WORDS.get(key, key)
        if kind in KINDS and isinstance(value, RawMap):
            yield Directive(kind, target, value)
        elif not (isinstance(value, RawScalar) and value.value is None):
            report.leave(constraints.place_of(key), key, "this kind of constraint has no counterpart")


def factors(raw: Raw | None, what: str, dimensions: Collection[str], scope: Scope) -> tuple[Factor, ...]:
    """Factors in any spelling: `R3 P16`, `R=3,P=16`, `[R=3, P<=16]`, `{R: 3}`. Raises SpecError."""
    if raw is None:
        return ()
    if isinstance(raw, RawMap):
        found = [Factor(key, max(an_integer(value, f"{what}.{key}", scope, -1), 0)) for key, value in raw.items]
    else:
        items = raw.items if isinstance(raw, RawList) else (raw,)
        found = [factor for item in items for factor in _written(item, what)]
    for factor in found:
        if factor.dimension not in dimensions:
            hint = did_you_mean(factor.dimension, dimensions, listing="dimensions")
            raise SpecError(f"{factor.dimension!r} is not a dimension", at=named(raw.at, what), hint=hint)
        if factor.value > MAX_FACTOR:
            raise SpecError(f"the factor {factor.value} is too large", at=named(raw.at, what))
    names = [factor.dimension for factor in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SpecError(f"two factors of {twice}", at=named(raw.at, what))
    return tuple(found)


def _written(raw: Raw, what: str) -> Iterator[Factor]:
    if isinstance(raw, RawScalar) and raw.value is None:
        return
    text = a_text(raw, what)
    position = 0
    while rest := text[position:].lstrip(" ,\t\n"):
        match = _FACTOR.match(rest)
        after = rest[match.end() :][:1] if match else ""
        if match is None or after not in ("", " ", ",", "\t", "\n"):
            hint = 'write DIMENSION=N, as in R=3 P=16; remainders in a list need quotes, as in ["P=7,3", R=3]'
            raise SpecError(f"{rest[:40]!r} is not a factor", at=named(raw.at, what), hint=hint)
        if int(match[3]) < -1:
            raise SpecError(
                f"{match[0]!r} is not a number of iterations", at=named(raw.at, what), hint="write 1 or more"
            )
        value, last = max(int(match[3]), 0), None if match[4] is None else int(match[4])
        if last is not None and not 1 <= last <= value:
            text = f"{match[0]!r}: the last time there are 1 to {value} iterations, not {last}"
            raise SpecError(
                text, at=named(raw.at, what), hint="write the number of iterations, then that of the last time"
            )
        yield Factor(match[1], value, _OPERATORS[match[2]], last)
        position = len(text) - len(rest) + match.end()


def permutation(raw: Raw | None, what: str, dimensions: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Dimensions from the innermost loop out, as written: `PRKC`, `P,R,K`, `[P, R]`; and the outermost, behind `_`.

    Those that stand in neither may be in any order between. Raises SpecError.
    """
    if raw is None or (isinstance(raw, RawScalar) and raw.value is None):
        return (), ()
    if isinstance(raw, RawList):
        words = [a_text(item, what) for item in raw.items]
    else:
        text = a_text(raw, what)
        words = [word for word in re.split(r"[\s,]+", text) if word]
        if not all(word in dimensions for word in words):
            words = [letter for word in words for letter in word]
    between = words.index("_") if "_" in words and "_" not in dimensions else len(words)
    first, last = words[:between], words[between + 1 :]
    for word in (*first, *last):
        if word not in dimensions:
            hint = did_you_mean(word, dimensions, listing="dimensions")
            raise SpecError(f"{word!r} is not a dimension", at=named(raw.at, what), hint=hint)
        if words.count(word) > 1:
            raise SpecError(f"{word} stands twice in the permutation", at=named(raw.at, what))
    return tuple(first), tuple(last)


@dataclass(frozen=True, slots=True)
class Kept:
    """Which data spaces a level keeps, and which pass it by; others are free."""

    keep: frozenset[str]
    bypass: frozenset[str]


def kept(directive: Directive, spaces: Collection[str]) -> Kept:
    """The data spaces that a directive names. Raises SpecError for an unknown one, or one that is in both lists."""
    keep, bypass = (_spaces(directive, key, spaces) for key in ("keep", "bypass"))
    if both := sorted(keep & bypass):
        at = named(directive.fields.at, directive.target)
        raise SpecError(f"{both[0]} is kept and bypassed in {directive.target}", at=at)
    return Kept(keep, bypass)


def _spaces(directive: Directive, key: str, spaces: Collection[str]) -> frozenset[str]:
    raw = directive.fields.get(key)
    if raw is None or (isinstance(raw, RawScalar) and raw.value is None):
        return frozenset()
    what = f"{directive.target}.{key}"
    items = raw.items if isinstance(raw, RawList) else (raw,)
    names = frozenset(a_text(item, what) for item in items)
    for name in sorted(names):
        if name not in spaces:
            hint = did_you_mean(name, spaces, listing="data spaces")
            raise SpecError(f"{name!r} is not a data space of the problem", at=named(raw.at, what), hint=hint)
    return names


def place(directive: Directive, key: str) -> At:
    """Where a field of a directive is written."""
    return named(directive.fields.place_of(key), f"{directive.target}.{key}")
