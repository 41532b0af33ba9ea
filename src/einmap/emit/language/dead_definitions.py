"""Define each size once in a block, and leave out those that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from einmap.emit.language.linear import Linear
from einmap.emit.language.program import (
    All,
    Any,
    Charge,
    Clear,
    Condition,
    Copy,
    Extreme,
    Found,
    Gather,
    Is,
    Let,
    Loop,
    Move,
    Operate,
    Region,
    Row,
    Statement,
    TakeLive,
    When,
    Within,
)

type NameSet = frozenset[str]


def tidied(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements without definitions that are there already, or whose names are not used after them."""
    return _tidied(_once(statements, frozenset()), frozenset())[0]


def _once(statements: tuple[Statement, ...], defined: NameSet) -> tuple[Statement, ...]:
    """Drop a second definition inside the first one's block: a name stands for one expression."""
    kept: list[Statement] = []
    for statement in statements:
        match statement:
            case Let(name=name) | Extreme(name=name) | Row(name=name):
                if name in defined:
                    continue
                defined |= {name}
                kept.append(statement)
            case Loop() | Gather():
                kept.append(replace(statement, body=_once(statement.body, defined)))
            case When():
                body, otherwise = _once(statement.body, defined), _once(statement.otherwise, defined)
                kept.append(replace(statement, body=body, otherwise=otherwise))
            case _:
                kept.append(statement)
    return tuple(kept)


def _tidied(statements: tuple[Statement, ...], used: NameSet) -> tuple[tuple[Statement, ...], NameSet]:
    kept: list[Statement] = []
    for statement in reversed(statements):
        match statement:
            case Let(name=name) | Extreme(name=name) | Row(name=name) if name not in used:
                continue
            case Loop():
                body, inside = _tidied(statement.body, frozenset())
                kept.append(replace(statement, body=body))
                used |= inside | statement.tiles.extent.names
            case Gather():
                body, inside = _tidied(statement.body, frozenset())
                kept.append(replace(statement, body=body))
                ranges = (r for part in statement.box for r in (part.ranges if isinstance(part, Found) else (part,)))
                used |= (
                    inside | _all(statement.sizes) | _charges(statement.charges) | _all(x for r in ranges for x in r)
                )
            case When():
                body, inside = _tidied(statement.body, frozenset())
                otherwise, other = _tidied(statement.otherwise, frozenset())
                kept.append(replace(statement, body=body, otherwise=otherwise))
                used |= inside | other | names_in(statement.condition)
            case _:
                kept.append(statement)
                used |= uses(statement)
    return tuple(reversed(kept)), used


def names_in(condition: Condition) -> NameSet:
    """NameSet that a condition speaks of."""
    match condition:
        case Is(value=value):
            return value.names
        case All(parts=parts) | Any(parts=parts):
            return frozenset().union(*(names_in(part) for part in parts))
        case Within(values=values):
            return _all(value for _, value in values)
        case _:
            assert_never(condition)


def uses(statement: Statement) -> NameSet:
    """NameSet that a statement without statements in it reads."""
    match statement:
        case Let(value=value, other=other, index=index):
            return value.names | other.names | ({index} if index else frozenset())
        case Extreme(options=options):
            return frozenset().union(*(value.names | names_in(c) for value, c in options))
        case Row(element=element):
            return _region(element)
        case Move() | TakeLive():
            hole = (statement.hole or ()) if isinstance(statement, Move) else ()
            ends = _region(statement.inner) | _region(statement.outer)
            return ends | _all(statement.sizes) | _charges(statement.charges) | _all(x for r in hole for x in r)
        case Clear(region=region, sizes=sizes):
            return _region(region) | _all(sizes)
        case Operate(operands=operands, results=results, charges=charges, where=where):
            names = names_in(where) | _charges(charges) | frozenset().union(*(_region(r) for _, r in operands))
            for result in results:
                names |= _region(result.at) | _charges((*result.live, *result.fresh))
            return names
        case Copy(source=source, targets=targets, charges=charges, where=where):
            return (
                names_in(where)
                | _region(source)
                | _charges(charges)
                | frozenset().union(*(_region(t) for t in targets))
            )
        case Loop() | When() | Gather():
            raise AssertionError("statements with a body are walked")
        case _:
            assert_never(statement)


def _region(region: Region) -> NameSet:
    return _all((*region.lane, *region.start)) | frozenset(region.rows)


def _all(values: object) -> NameSet:
    names: NameSet = frozenset()
    for value in values:  # type: ignore[attr-defined]
        assert isinstance(value, Linear)
        names |= value.names
    return names


def _charges(charges: tuple[Charge, ...]) -> NameSet:
    return frozenset().union(*(names_in(charge.where) for charge in charges))


def counters_in(statements: tuple[Statement, ...]) -> Iterator[str]:
    """Variables of the counters that statements count up, in order."""
    for statement in statements:
        match statement:
            case Loop(body=body):
                yield from counters_in(body)
            case When(body=body, otherwise=otherwise):
                yield from counters_in((*body, *otherwise))
            case Gather(charges=charges) | Move(charges=charges) | TakeLive(charges=charges) | Copy(charges=charges):
                yield from (charge.counter.name for charge in charges)
            case Operate():
                dynamic = (c for result in statement.results for c in (*result.live, *result.fresh))
                yield from (charge.counter.name for charge in (*statement.charges, *dynamic))
            case Let() | Extreme() | Row() | Clear():
                pass
            case _:
                assert_never(statement)
