"""Base of printers of code that runs: statements, counters, operations, in the words of a language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from einmap.einsum.operation import Reduction
from einmap.emit.language.linear import Linear
from einmap.emit.language.program import (
    ALWAYS,
    Charge,
    Clear,
    Condition,
    Copy,
    Definition,
    Extreme,
    Gather,
    Let,
    Loop,
    Move,
    Operate,
    Region,
    Row,
    Statement,
    TakeLive,
    When,
)
from einmap.emit.printers.text import (
    Words,
    amount_text,
    by_condition,
    condition_text,
    indented,
    looked_up,
    map_text,
    neutral_text,
)


@dataclass(frozen=True)
class Syntax:
    """A language. `functions`: templates of map functions; `opens`: of a branch, `otherwise` and `closes` its other
    lines (empty: none); `nothing`: a statement where nothing is done; `ends`: what ends a statement.

    `integer`, `real`: what comes before names that are defined; `smaller`: template of the smaller of two; `first`: of
    {0} in the first iteration of {2}, else {1}; `choice`: of {0} where {1} holds, else zero; `reduces`: a value {1}
    into {0}; `one_value`: whether what is reduced with a function has a name; `quoted` makes a text a literal.
    """

    words: Words
    functions: Mapping[str, str]
    infinity: str
    opens: str
    otherwise: str
    closes: str
    nothing: str
    ends: str
    integer: str
    real: str
    smaller: str
    first: str
    choice: str
    reduces: Mapping[str, str]
    one_value: bool
    quoted: Callable[[str], str]


class Printer(ABC):
    """Lines of statements; what differs in more than words is left to each language."""

    syntax: Syntax

    @abstractmethod
    def loop(self, loop: Loop) -> Iterator[str]:
        """A loop with its body."""

    @abstractmethod
    def move(self, move: Move) -> Iterator[str]:
        """A move of a box, and its counters."""

    @abstractmethod
    def scope(self, body: tuple[Statement, ...]) -> Iterator[str]:
        """Statements whose names nobody else sees."""

    @abstractmethod
    def extreme(self, statement: Extreme) -> str:
        """The largest or smallest of options that count under conditions."""

    @abstractmethod
    def filled(self, region: Region, sizes: tuple[Linear, ...], value: str, *, flags: bool = False) -> str:
        """A statement that sets all elements of a box, or all their flags."""

    @abstractmethod
    def boxes(self, take: TakeLive) -> str:
        """The arguments of `mvin_live` that say what is moved."""

    @abstractmethod
    def element(self, region: Region, *, flags: bool = False) -> str:
        """The first element of a region, or its flag."""

    def value(self, region: Region) -> str:
        """The value of an element, 0 in a row of zeros."""
        return looked_up(self.element(region), region.rows, self.syntax.choice, self.syntax.words.both)

    def neutral(self, reduction: Reduction) -> str:
        """The neutral value of a reduction."""
        return neutral_text(reduction, self.syntax.infinity)

    def statements(self, statements: tuple[Statement, ...]) -> Iterator[str]:
        """The lines of statements in order."""
        for statement in statements:
            yield from self.statement(statement)

    def statement(self, statement: Statement) -> Iterator[str]:
        """The lines of a statement."""
        match statement:
            case Loop():
                yield from self.loop(statement)
            case Let() | Extreme() | Row():
                yield f"{self.syntax.integer}{statement.name} = {self._defined(statement)}{self.syntax.ends}"
            case When(condition=condition, body=body, otherwise=otherwise):
                yield from self.branch(self.truth(condition), self.statements(body), self.statements(otherwise))
            case Move():
                yield from self.move(statement)
            case TakeLive():
                yield from self._take_live(statement)
            case Gather(body=body, sizes=sizes, charges=charges):
                yield from self.scope(body)
                yield from self.count_up(charges, amount_text(sizes))
            case Clear(region=region, sizes=sizes, reduction=reduction):
                yield self.filled(region, sizes, self.neutral(reduction))
                if region.buffer.flags:
                    yield self.filled(region, sizes, self.syntax.words.false, flags=True)
            case Operate():
                yield from self._operate(statement)
            case Copy(source=source, targets=targets, charges=charges, where=where):
                value = f"{self.value(source)}{self.syntax.ends}"
                yield from self.within(where, [f"{self.element(target)} = {value}" for target in targets])
                yield from self.count_up(charges, "1")
            case _:
                assert_never(statement)

    def truth(self, condition: Condition) -> str:
        """A condition as a truth value."""
        return condition_text(condition, self.syntax.words)

    def branch(self, truth: str, body: Iterable[str], otherwise: Iterable[str] = ()) -> Iterator[str]:
        """Lines done where something is true, and others where not."""
        closing = [self.syntax.closes] if self.syntax.closes else []
        yield self.syntax.opens.format(truth)
        yield from indented(list(body) or [self.syntax.nothing] * bool(self.syntax.nothing))
        yield from closing
        if others := list(otherwise):
            yield from (self.syntax.otherwise, *indented(others), *closing)

    def within(self, where: Condition, lines: list[str]) -> Iterator[str]:
        """Lines done for a point, under the condition that it is in the iteration space."""
        yield from lines if where == ALWAYS else self.branch(self.truth(where), lines)

    def count_up(self, charges: tuple[Charge, ...], amount: str) -> Iterator[str]:
        """Add an amount to counters, each under its condition."""
        for where, counters in by_condition(charges).items():
            yield from self.within(where, [f"{name} += {amount}{self.syntax.ends}" for name in counters])

    def _defined(self, definition: Definition) -> str:
        match definition:
            case Let(value=value, other=other, index=index):
                template = self.syntax.smaller if index is None else self.syntax.first
                return template.format(value, other, index)
            case Extreme():
                return self.extreme(definition)
            case Row(element=region, size=size):
                return f"row_of({self.element(region)}, {size}, {self.syntax.quoted(region.buffer.tensor)})"
            case _:
                assert_never(definition)

    def _take_live(self, take: TakeLive) -> Iterator[str]:
        moved = "" if take.charge_all else "n_moved = "
        yield f"{moved}mvin_live({self.boxes(take)}, {self.neutral(take.reduction)}){self.syntax.ends}"
        yield from self.count_up(take.charges, amount_text(take.sizes) if take.charge_all else "n_moved")

    def _operate(self, operation: Operate) -> Iterator[str]:
        ends, lines = self.syntax.ends, list[str]()
        operands = {tensor: self.value(region) for tensor, region in operation.operands}
        value = map_text(operation.map, operands, self.syntax.functions, "{0}")
        if len(operation.results) > 1 or (self.syntax.one_value and operation.reduction != "sum"):
            lines.append(f"{self.syntax.real}value = {value}{ends}")
            value = "value"
        for result in operation.results:
            if result.at.buffer.flags:
                flag = self.element(result.at, flags=True)
                live, fresh = (list(self.count_up(some, "1")) for some in (result.live, result.fresh))
                if live:
                    yield from self.branch(flag, live, fresh)
                elif fresh:
                    yield from self.branch(self.syntax.words.negated.format(flag), fresh)
                yield f"{flag} = {self.syntax.words.true}{ends}"
            at = self.element(result.at)
            assignment = "{0} = {1}" if operation.once else self.syntax.reduces[operation.reduction]
            lines.append(assignment.format(at, value) + ends)
        yield from self.within(operation.where, lines)
        yield from self.count_up(operation.charges, "1")
