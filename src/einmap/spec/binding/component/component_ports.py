"""Ports and banks of a memory, bound from its fields."""

from __future__ import annotations

from einmap.arch.ports import Banks, Conflicts, Ports
from einmap.errors import SpecError, attempt_all
from einmap.expressions.arithmetic import number
from einmap.spec.binding.component.component_context import ComponentContext
from einmap.spec.schema.arch import MemoryInput
from einmap.spec.schema.documented import word_in
from einmap.spec.schema.latency import BanksInput

MOST = 1_000_000
"""Ports or banks of one memory, at most: far more than any has, and powers of them stay numbers."""


def ports_of(context: ComponentContext, given: MemoryInput) -> Ports | None:
    """The ports of a memory, None where nothing is said of them.

    Raises SpecError for ports that leave reads or writes unserved, for ports or banks beside a `total_latency`, which
    says how long accesses take too, and for numbers that are no numbers of ports or banks.
    """
    fields = [name for name in ("ports", "separate_read_write_ports", "banks") if getattr(given, name)]
    if not fields:
        return None
    if given.total_latency is not None:
        text = f"{fields[0]} and total_latency both say how long accesses of {given.name!r} take"
        raise SpecError(text, at=context.at(fields[0]), hint="leave out one of them")
    if given.banks is not None and given.banks.conflicts == "interleaved":
        if len(fields) > 1:
            text = f"interleaved banks of {given.name!r} have a port each, which serves reads and writes"
            raise SpecError(text, at=context.at(fields[0]), hint=f"leave out {fields[0]}")
        return None
    if given.banks is not None and given.banks.interleave:
        text = f"interleave says where lines lie, and conflicts of {given.name!r} are {given.banks.conflicts!r}"
        raise SpecError(text, at=context.at("banks", "interleave"), hint="write conflicts: interleaved")
    if given.ports is not None and given.separate_read_write_ports:
        text = f"ports and separate_read_write_ports both say which ports {given.name!r} has"
        raise SpecError(text, at=context.at("separate_read_write_ports"), hint="leave out one of them")
    found = attempt_all(
        counts=lambda: _counts(context, given),
        banks=lambda: None if given.banks is None else _banks(context, given.banks),
    )
    read, write, either = found["counts"]
    return Ports(read, write, either, found["banks"])


def _counts(context: ComponentContext, given: MemoryInput) -> tuple[int, int, int]:
    """Ports that read, that write, and that do either."""
    if given.separate_read_write_ports:
        return 1, 1, 0
    if given.ports is None:
        return 0, 0, 1
    read, write, either = (
        _whole(context, value, 0, "ports", name)
        for name, value in (
            ("read", given.ports.read),
            ("write", given.ports.write),
            ("read_write", given.ports.read_write),
        )
    )
    for amount, action in ((read, "reads"), (write, "writes")):
        if amount + either < 1:
            text = f"no port of {given.name!r} serves {action}"
            raise SpecError(text, at=context.at("ports"), hint="for example ports: {read: 1, write: 1}")
    return read, write, either


def _banks(context: ComponentContext, given: BanksInput) -> Banks:
    rule: Conflicts = word_in(given, "conflicts", context.at("banks", "conflicts"), "rule of conflicts", "rules")
    return Banks(_whole(context, given.number, 1, "banks", "number"), rule)


def _whole(context: ComponentContext, value: object, least: int, *path: str) -> int:
    """A whole number of at least `least`."""
    what = ".".join(path)
    at = context.at(*path)
    found = number(value, context.scope, at=at, what=what, minimum=least, integer=True, allow_inf=False)
    if found > MOST:
        raise SpecError(f"{what} must be at most {MOST:,}, found {found:g}", at=at)
    return int(found)
