"""How tensors lie in a memory, bound from its field `layout`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from einmap.arch.layout import Layout
from einmap.errors import At, EinmapError, SpecError, attempt, did_you_mean, raise_all
from einmap.expressions.arithmetic import number
from einmap.spec.binding.component.component_context import ComponentContext
from einmap.spec.schema.arch import MemoryInput
from einmap.spec.schema.documented import word_in
from einmap.spec.schema.layout import LayoutInput

MOST_BANKS = 4096
"""Banks among which lines are dealt out, at most."""


def layouts_of(
    context: ComponentContext, given: MemoryInput, bits: Mapping[str, float]
) -> tuple[tuple[str, Layout], ...]:
    """The layout of each tensor that has one, by name; `bits`: of one value in this memory.

    Raises SpecError for ranks that a tensor does not have, has twice or lacks, and for lines that are too short.
    """
    layout = given.layout
    if layout is None:
        _refuse_banks_without_lines(context, given)
        return ()
    word_in(layout, "lanes", context.at("layout", "lanes"), "way to serve lanes", "ways")
    line = number(layout.line, context.scope, at=context.at("layout", "line"), what="line", minimum=1, allow_inf=False)
    orders = context.table(layout.order, context.scope, "layout", "order")
    blocks = context.table(layout.block, context.scope, "layout", "block")
    if not layout.order and not layout.block:
        text = f"the layout of {given.name!r} says of no tensor how it lies there"
        raise SpecError(text, at=context.at("layout"), hint="for example order: {A: [M, K]}")
    problems: list[EinmapError] = []
    found: dict[str, Layout] = {}
    _choose(context, given.name, orders, blocks, context.table(layout.chosen, context.scope, "layout", "chosen"))
    for tensor in sorted({*orders, *blocks}):
        lies = _Lies(context, layout, tensor, line, bits[tensor])
        block = attempt(problems, partial(lies.block, orders.get(tensor), blocks.get(tensor)))
        if block is not None:
            along = dict(zip(context.sizes_of(tensor), block, strict=True))
            order = orders[tensor][0] if tensor in orders else tuple(along)
            steps = attempt(problems, partial(_steps, context, given, tensor, along, order))
            values = _whole(line / bits[tensor])
            found[tensor] = Layout(block, values, layout.lanes == "together", _banks(context, given), steps or ())
    raise_all(problems)
    return tuple(found.items())


BEST = "best"
"""The order of a tensor of which the mapper chooses the best one."""


def is_open(order: object) -> bool:
    """Whether what stands as an order leaves it to the mapper: `best`, or a list of alternatives."""
    return order == BEST or (isinstance(order, list) and any(not isinstance(rank, str) for rank in order))


def _choose(
    context: ComponentContext,
    memory: str,
    orders: dict[str, tuple[Any, At]],
    blocks: dict[str, tuple[Any, At]],
    chosen: Mapping[str, tuple[Any, At]],
) -> None:
    """Put what is chosen for each tensor into the place of what is open. Raises SpecError where nothing is."""
    for tensor, (order, at) in list(orders.items()):
        if not is_open(order):
            if isinstance(order, str):
                text = f"expected ranks of {tensor!r}, alternatives, or {BEST!r}, found {order!r}"
                raise SpecError(text, at=at, hint=f"for example [{', '.join(context.sizes_of(tensor))}]")
            continue
        if tensor in blocks:
            raise SpecError(
                f"{tensor!r} has a block in {memory!r}, so that its order cannot be open",
                at=at,
                hint="write the block among the alternatives",
            )
        if tensor not in chosen:
            raise SpecError(
                f"how {tensor!r} lies in {memory!r} is left open, and only the mapper chooses that",
                at=at,
                hint="map it (einmap map), or write one order of its ranks here",
            )
        del orders[tensor]
        if chosen[tensor][0]:
            (blocks if isinstance(chosen[tensor][0], Mapping) else orders)[tensor] = chosen[tensor]
    for tensor in sorted(chosen.keys() & (orders.keys() | blocks.keys())):
        if orders.get(tensor, blocks.get(tensor)) is not chosen[tensor]:
            raise SpecError(f"the layout of {tensor!r} in {memory!r} is not left open", at=chosen[tensor][1])


def _refuse_banks_without_lines(context: ComponentContext, given: MemoryInput) -> None:
    if given.banks is not None and given.banks.conflicts == "interleaved":
        text = f"interleaved banks of {given.name!r} need a layout: lines are what is dealt out to them"
        raise SpecError(text, at=context.at("banks", "conflicts"), hint="for example layout: {line: 512, order: ...}")


def _banks(context: ComponentContext, given: MemoryInput) -> int:
    """The number of interleaved banks, 0 without. Raises SpecError for too many."""
    banks = given.banks
    if banks is None or banks.conflicts != "interleaved":
        return 0
    at = context.at("banks", "number")
    found = number(banks.number, context.scope, at=at, what="banks.number", minimum=1, integer=True, allow_inf=False)
    if found > MOST_BANKS:
        raise SpecError(
            f"banks.number must be at most {MOST_BANKS:,} where lines are interleaved, found {found}", at=at
        )
    return int(found)


def _steps(
    context: ComponentContext, given: MemoryInput, tensor: str, along: Mapping[str, int], order: Sequence[str]
) -> tuple[int, ...]:
    """Banks from one line to the next along each rank, in the order of the Einsum's indices; () without interleaving.

    Raises SpecError for ranks that the tensor does not have.
    """
    banks = _banks(context, given)
    if not banks or given.banks is None:
        return ()
    written = context.table(given.banks.interleave, context.scope, "banks", "interleave").get(tensor)
    steps = dict.fromkeys(along, 0)
    if written is None:
        step = 1
        for rank in reversed(order):
            steps[rank] = step % banks
            step *= -(-context.sizes_of(tensor)[rank] // along[rank])
        return tuple(steps.values())
    ranks, at = written
    for rank, value in ranks.items():
        if rank not in steps:
            hint = did_you_mean(rank, list(steps), listing="ranks")
            raise SpecError(f"{tensor!r} has no rank {rank!r}", at=at, hint=hint)
        what = f"banks from line to line along {rank}"
        steps[rank] = (
            int(number(value, context.scope, at=at, what=what, minimum=0, integer=True, allow_inf=False)) % banks
        )
    return tuple(steps.values())


def _whole(values: float) -> float:
    """An int where it is one, so that counts stay whole."""
    return int(values) if values == int(values) else values


def filled(ranks: Sequence[str], sizes: Mapping[str, int], room: int) -> dict[str, int]:
    """Values along each rank of a line with room for so many, which is filled along the fastest rank, the last one.

    Where it holds that rank whole it goes on along the next slower one.
    """
    along = dict.fromkeys(ranks, 1)
    for rank in reversed(ranks):
        along[rank] = min(room, sizes[rank])
        room //= along[rank]
        if along[rank] < sizes[rank]:
            break
    return along


class _Lies:
    """One tensor in a memory whose lines have `line` bits, where a value takes `bits`."""

    def __init__(self, context: ComponentContext, layout: LayoutInput, tensor: str, line: float, bits: float) -> None:
        self.context, self.layout, self.tensor = context, layout, tensor
        self.sizes = context.sizes_of(tensor)
        self.line, self.bits = line, bits

    def block(
        self, order: tuple[Sequence[str], At] | None, block: tuple[Mapping[str, object], At] | None
    ) -> tuple[int, ...]:
        """Values of a line along each rank, in the order of the Einsum's indices."""
        if not self.bits:
            raise SpecError(
                f"a value of {self.tensor!r} takes 0 bits in this memory, so that it lies in no line",
                at=self.context.at("layout") if (given := block or order) is None else given[1],
                hint=f"leave {self.tensor!r} out of the layout",
            )
        if self.line < self.bits:
            raise SpecError(
                f"a line of {self.line:g} bits has no room for a value of {self.tensor!r}, which takes {self.bits:g}",
                at=self.context.at("layout", "line"),
            )
        ranks = tuple(self.sizes) if order is None else self.ordered(*order)
        along = self.filled(ranks) if block is None else self.written(*block)
        return tuple(along[rank] for rank in self.sizes)

    def ordered(self, order: Sequence[str], at: At) -> tuple[str, ...]:
        """The ranks in their order."""
        for rank in order:
            self.check_rank(rank, at)
        if sorted(order) != sorted(self.sizes):
            raise SpecError(
                f"the order of {self.tensor!r} must name each of its ranks once, found [{', '.join(order)}]",
                at=at,
                hint=f"its ranks are {', '.join(self.sizes)}",
            )
        return tuple(order)

    def check_rank(self, rank: str, at: At) -> None:
        """Raise SpecError for a rank that the tensor does not have."""
        if rank not in self.sizes:
            hint = did_you_mean(rank, list(self.sizes), listing="ranks")
            raise SpecError(f"{self.tensor!r} has no rank {rank!r}", at=at, hint=hint)

    def filled(self, ranks: tuple[str, ...]) -> dict[str, int]:
        """Lines that are filled along the fastest rank, and on along slower ones while they hold a rank whole."""
        return filled(ranks, self.sizes, int(self.line // self.bits))

    def written(self, block: Mapping[str, object], at: At) -> dict[str, int]:
        """Lines as they are given. Raises SpecError where they hold more than they have room for."""
        along = dict.fromkeys(self.sizes, 1)
        for rank, value in block.items():
            self.check_rank(rank, at)
            what = f"values of a line along {rank}"
            along[rank] = int(
                number(value, self.context.scope, at=at, what=what, minimum=1, integer=True, allow_inf=False)
            )
        if prod(along.values()) * self.bits > self.line:
            raise SpecError(
                f"a line of {self.tensor!r} holds {prod(along.values())} values of {self.bits:g} bits, which is more "
                f"than its {self.line:g} bits",
                at=at,
                hint="make the block smaller, or the line longer",
            )
        return along
