"""Layouts that a specification leaves open (`order: {A: best}`): what there is to choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from einmap.arch.component import Memory
from einmap.errors import SpecError, did_you_mean
from einmap.spec.binding.component.component_layout import BEST, filled, is_open
from einmap.spec.forms.chosen_layouts import Lies
from einmap.spec.raw import Path, Raw, RawMap, from_python, get_value, place, set_value, to_python
from einmap.spec.schema.arch import MemoryInput
from einmap.spec.spec import Spec
from einmap.visible import short

MOST_RANKS = 6
"""Ranks of a tensor all orders of which are tried."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The layouts among which one is to be chosen for a tensor in a memory.

    `adds_up`: whether a layout never moves less, or faster, than the values do that are asked for.
    """

    memory: str
    tensor: str
    alternatives: tuple[Lies, ...]
    adds_up: bool


def open_layouts(spec: Spec) -> list[Choice]:
    """Layouts that are open and not chosen. Raises SpecError for alternatives that are not layouts."""
    places = list(_open(spec))
    found: dict[tuple[str, str], Choice] = {}
    for given, path, key in places:
        assert given.layout is not None
        # lines that move one lane's values, one after another, move no less than these by themselves
        plain = given.layout.lanes == "apart" and (given.banks is None or given.banks.conflicts != "interleaved")
        written = given.layout.order[key]
        for name, bound in _probed(spec, places, path, key).bound.items():
            memory = bound.arch.components[given.name]
            assert isinstance(memory, Memory)
            for tensor, layout in memory.layout:
                if tensor in given.layout.chosen or (given.name, tensor) in found:
                    continue
                ranks = [rank for rank, _ in spec.workload.by_name[name].by_tensor[tensor].projection]
                sizes, room = spec.bindings.rank_sizes[tensor], int(layout.values)
                distinct: dict[str, Lies] = {}
                for lies in _alternatives(spec, (*path, "layout", "order", key), tensor, ranks, written):
                    along = filled(lies, sizes, room) if plain and isinstance(lies, list) else lies
                    distinct.setdefault(str(sorted(along.items()) if isinstance(along, dict) else along), lies)
                found[given.name, tensor] = Choice(given.name, tensor, tuple(distinct.values()), plain)
    return list(found.values())


def _open(spec: Spec) -> Iterator[tuple[MemoryInput, Path, str]]:
    """Memories as written, with their place, and the keys of their orders that are open."""
    for leaf in spec.arch_inputs.leaves:
        layout = leaf.given.layout if isinstance(leaf.given, MemoryInput) else None
        for key, order in layout.order.items() if layout is not None else ():
            if is_open(order):
                assert isinstance(leaf.given, MemoryInput)
                yield leaf.given, leaf.path, key


def _probed(spec: Spec, places: Sequence[tuple[MemoryInput, Path, str]], path: Path, key: str) -> Spec:
    """The specification in which the tensors of one open key, and no others of its memory, lie value by value.

    So it can be bound, and tells which tensors these are.
    """
    raw: Any = spec.raw
    keys = {**{where: other for _, where, other in places}, path: key}
    for where, own in keys.items():
        line = to_python(get_value(raw, (*where, "layout", "line")))
        raw = set_value(set_value(raw, (*where, "layout"), None), (*where, "banks"), None)
        raw = set_value(raw, where, _with(get_value(raw, where), "layout", {"line": line, "block": {own: {}}}))
    assert isinstance(raw, RawMap)
    return replace(spec, raw=raw)


def _with(raw: Raw, name: str, value: object) -> RawMap:
    assert isinstance(raw, RawMap)
    items = tuple((key, from_python(value) if key == name else old) for key, old in raw.items)
    return replace(raw, items=items)


def _alternatives(spec: Spec, path: Path, tensor: str, ranks: list[str], written: Any) -> list[Lies]:
    at = place(spec.raw, path)
    if written == BEST:
        if len(ranks) > MOST_RANKS:
            text = f"{tensor!r} has {len(ranks)} ranks; the best order is searched of at most {MOST_RANKS}"
            raise SpecError(text, at=at, hint="write the orders that may be chosen as a list")
        return [list(order) for order in permutations(ranks)]
    for lies in written:
        wrong = [rank for rank in lies if rank not in ranks] if isinstance(lies, list | dict) else []
        if wrong:
            hint = did_you_mean(str(wrong[0]), ranks, listing="ranks")
            raise SpecError(f"{tensor!r} has no rank {wrong[0]!r}", at=at, hint=hint)
        if isinstance(lies, dict) and lies:
            continue
        if not isinstance(lies, list) or sorted(lies) != sorted(ranks):
            raise SpecError(
                f"an alternative of {tensor!r} must name each of its ranks once, or be a block, found {short(lies)}",
                at=at,
                hint=f"its ranks are {', '.join(ranks)}",
            )
    return list(written)
