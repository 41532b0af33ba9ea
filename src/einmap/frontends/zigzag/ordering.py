"""Temporal orderings of mappings, as a partly given mapping for each layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from einmap.errors import At
from einmap.frontends.foreign import Report, Value
from einmap.frontends.zigzag.layers import Layer

REST = "*"
MAX_LOOPS = 64
_EXAMPLE = 'write it as [K, 4], as [K, "*"] for any factor, or as ["*", "*"] for any loops'
_STORAGE_ONLY: dict[str, object] = {"type": "Any", "temporal": False}


@dataclass(frozen=True, slots=True)
class Entry:
    """One loop of an ordering: its dimension in capitals, its factor (None for any), and where it is written.

    The dimension `*` stands for all loops that no other entry names.
    """

    loop: str
    factor: int | None
    at: At


def read_ordering(value: Value | None) -> tuple[Entry, ...]:
    """The loops of an ordering, the innermost first. Raises SpecError with the place of what is wrong."""
    if value is None:
        return ()
    entries: list[Entry] = []
    if len(value.items()) > MAX_LOOPS:
        raise value.wrong(f"at most {MAX_LOOPS} loops")
    for item in value.items():
        parts = item.items()
        if len(parts) != 2:
            raise item.wrong("a loop dimension and its factor", hint=_EXAMPLE)
        loop, factor = parts
        name = loop.text().upper()
        size = None if factor.text() == REST else factor.integer(1, 2**40)
        if name == REST and (size is not None or any(entry.loop == REST for entry in entries)):
            raise item.wrong('["*", "*"], once', hint=_EXAMPLE)
        entries.append(Entry(name, size, item.at))
    return tuple(entries)


def given_nodes(
    layer: Layer, entries: Sequence[Entry], spread: Mapping[str, int] | None, report: Report
) -> list[dict[str, object]]:
    """The nodes of a partly given mapping of a layer; none where no entry is about one of its loops.

    `spread`: how often each loop dimension is spread over the array, None where the mapping does not say it. Between
    the given loops only storage nodes and lanes may come in, so that their order stays; other loops come in where the
    entries leave room. What a loop's tile shape cannot say is left out by name.
    """
    known = _of_layer(layer, entries, report)
    if not any(entry.loop != REST for entry in known):
        return []
    ordering = _Ordering(layer, known, spread, report)
    if not ordering.is_whole and not any(entry.loop == REST for entry in known):
        nodes: list[dict[str, object]] = [{"type": "Any"}, *ordering.remainders(known), _STORAGE_ONLY]
    else:
        nodes = [_STORAGE_ONLY]
    for number in range(len(known) - 1, -1, -1):
        if known[number].loop == REST:
            nodes[-1] = {"type": "Any"}
            nodes += ordering.remainders(known[:number])
        else:
            nodes.append(ordering.loop(number))
        nodes.append(_STORAGE_ONLY)
    return nodes


def _of_layer(layer: Layer, entries: Sequence[Entry], report: Report) -> tuple[Entry, ...]:
    found = []
    for entry in entries:
        if entry.loop == REST or entry.loop in layer.sizes:
            found.append(entry)
        else:
            report.leave(entry.at, f"temporal_ordering.{entry.loop}", "some layer of the mapping has no such loop")
    return tuple(found)


class _Ordering:
    """The loops of one layer: `entries` with the innermost first."""

    def __init__(
        self, layer: Layer, entries: Sequence[Entry], spread: Mapping[str, int] | None, report: Report
    ) -> None:
        self.layer, self.entries, self.report = layer, entries, report
        self.is_spread = spread is not None
        self.lanes = spread or {}
        self.iterations = {loop: -(-size // self.lanes.get(loop, 1)) for loop, size in layer.sizes.items()}
        self.shapes = {
            number: shape for loop in layer.sizes for number, shape in self._shapes(loop).items() if shape is not None
        }

    @property
    def is_whole(self) -> bool:
        """Whether all loops and factors are given."""
        if not self.is_spread or any(entry.factor is None for entry in self.entries):
            return False
        given = {
            loop: prod(entry.factor or 1 for entry in self.entries if entry.loop == loop) for loop in self.layer.sizes
        }
        return given == self.iterations

    def loop(self, number: int) -> dict[str, object]:
        """The loop of an entry, with its tile shape where that is known."""
        node: dict[str, object] = {"type": "Temporal", "rank_variable": self._variable(self.entries[number].loop)}
        return {**node, "tile_shape": self.shapes[number]} if number in self.shapes else node

    def remainders(self, inner: Sequence[Entry]) -> Iterable[dict[str, object]]:
        """Loops above some inner entries that bring a rank variable to what these iterate over, where all is known."""
        for loop in dict.fromkeys(entry.loop for entry in inner):
            factors = [entry.factor for entry in inner if entry.loop == loop]
            if None in factors or not self._divides(loop):
                continue
            shape = self.lanes.get(loop, 1) * prod(factor or 1 for factor in factors)
            yield {"type": "Temporal", "rank_variable": self._variable(loop), "tile_shape": shape}

    def _variable(self, loop: str) -> str:
        return self.layer.variables[loop.lower()]

    def _divides(self, loop: str) -> bool:
        """Whether tile shapes with the given factors exist, and are known."""
        if not self.is_spread:
            return False
        factors = prod(entry.factor or 1 for entry in self.entries if entry.loop == loop)
        return self.layer.sizes[loop] % (self.lanes.get(loop, 1) * factors) == 0

    def _shapes(self, loop: str) -> dict[int, int | None]:
        """Tile shapes below the loops over one dimension, by entry; None where only the order is known."""
        own = [number for number, entry in enumerate(self.entries) if entry.loop == loop]
        if not own:
            return {}
        if not self._divides(loop):
            return self._unknown(loop, own)
        shapes: dict[int, int | None] = dict.fromkeys(own)
        below: int | None = self.lanes.get(loop, 1)
        for number in own:
            shapes[number] = below
            factor = self.entries[number].factor
            below = None if below is None or factor is None else below * factor
        rest = next((number for number, entry in enumerate(self.entries) if entry.loop == REST), len(self.entries))
        above: int | None = self.layer.sizes[loop]
        for number in reversed([n for n in own if n > rest]):
            factor = self.entries[number].factor
            above = None if above is None or factor is None else above // factor
            # what stands outside of all other loops is known from the outside alone
            shapes[number] = above
        for number in own:
            if shapes[number] is None and (factor := self.entries[number].factor) is not None:
                reason = f"beside loops over {loop} of any factor, its place is kept, and its factor is searched"
                self.report.leave(self.entries[number].at, f"temporal_ordering.{loop}", reason)
        return shapes

    def _unknown(self, loop: str, own: Sequence[int]) -> dict[int, int | None]:
        factors = [self.entries[number].factor for number in own]
        at, key = self.entries[own[0]].at, f"temporal_ordering.{loop}"
        if factors == [None] or (self.is_spread and factors == [self.iterations[loop]]):
            return {}
        if not self.is_spread:
            reason = "its place is kept, and its factor is searched, as the mapping leaves open what is spread"
            self.report.leave(at, key, reason)
            return {}
        text = " * ".join("*" if factor is None else str(factor) for factor in factors)
        lanes = self.lanes.get(loop, 1)
        where = f", of which {lanes} are spread" if lanes > 1 else ""
        reason = (
            f"{text} does not divide the {self.layer.sizes[loop]} iterations{where}: its place is kept, and its factor "
            "is searched"
        )
        self.report.leave(at, key, reason)
        return {}
