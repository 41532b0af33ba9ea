"""Counts and steps while a mapping runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from einmap.execute.networks.routing import Wires
from einmap.execute.results.result import (
    ChildKey,
    CountKey,
    Event,
    ExchangeKey,
    ExchangeRow,
    TurnKey,
    VisitRow,
)
from einmap.execute.results.timeline import Timeline
from einmap.execute.tiles.visits import Visit
from einmap.execute.zeros.zeros import Zeros
from einmap.mapping.nodes import Address
from einmap.schedule.boxes import Box
from einmap.schedule.routes import Instance

type Values = Mapping[str, Mapping[Instance, Mapping[str, tuple[int, int]]]]
"""By Einsum and instance: first value and number of values of each rank variable."""


@dataclass
class Recorder:
    """Adds up what happens. `values` counts tensor elements (or operations) for each instance, or lines
    where a memory moves these.

    `timeline`: where it is noted in the order of time, None where nobody wants to know.
    """

    traced: frozenset[str]
    values: dict[CountKey, dict[Instance, float]] = field(default_factory=dict)
    wires: Wires = field(default_factory=Wires)
    step: int = 0
    events: list[Event] = field(default_factory=list)
    visits: list[VisitRow] = field(default_factory=list)
    exchanges: dict[ExchangeKey, ExchangeRow] = field(default_factory=dict)
    by_child: dict[ChildKey, dict[Instance, float]] = field(default_factory=dict)
    """The values of exchanges once more, by the component of the child."""
    transfers: dict[ChildKey, dict[Instance, int]] = field(default_factory=dict)
    """In how many fills and write-backs of a memory's tiles they come."""
    rounds: dict[CountKey, dict[Instance, float]] = field(default_factory=dict)
    """Of lines those that come one after another, as they lie in one bank."""
    rounds_by_child: dict[ChildKey, dict[Instance, float]] = field(default_factory=dict)
    """The rounds once more, by the component of the child."""
    zeros: Zeros | None = None
    """Counts of zeros, None where all tensors are dense."""
    timeline: Timeline | None = None
    turn: TurnKey | None = None
    """The tile of a Pipeline that a stage works on."""
    turns: dict[TurnKey, dict[CountKey, dict[Instance, float]]] = field(default_factory=dict)
    """The values once more, tile by tile."""

    first: dict[ChildKey, dict[Instance, float]] = field(default_factory=dict)
    """The values of the first fill and of the first write-back of each node."""
    first_transfers: dict[ChildKey, dict[Instance, float]] = field(default_factory=dict)
    """In how many transfers they come."""
    seen: set[object] = field(default_factory=set)
    """Einsum, tensor and address of nodes that have been filled (`in`) or have written back (`out`) once."""

    def transfer(self, key: ChildKey, instance: Instance) -> None:
        """A tile goes into a node or out."""
        counts = self.transfers.setdefault(key, {})
        counts[instance] = counts.get(instance, 0) + 1

    def first_time(self, key: ChildKey, instance: Instance, amount: float) -> None:
        """A tile of a node's first fill or first write-back."""
        for counts, more in ((self.first, amount), (self.first_transfers, 1)):
            of_key = counts.setdefault(key, {})
            of_key[instance] = of_key.get(instance, 0) + more

    def lines(self, key: CountKey, instance: Instance, amount: float, rounds: float, child: str) -> None:
        """Lines of one transfer; `rounds`: those in the bank that has most of them."""
        self.count(key, instance, amount, None, child)
        of_child = self.rounds_by_child.setdefault((*key, child), {})
        for counts in (self.rounds.setdefault(key, {}), of_child):
            counts[instance] = counts.get(instance, 0) + rounds

    def begin_visit(self) -> None:
        """The innermost loops of an Einsum are about to run once."""
        if self.timeline is not None:
            self.timeline.carried(self.hops())
            self.timeline.visit(self.step, self.turn)

    def hops(self) -> Iterator[tuple[CountKey, Mapping[Instance, float]]]:
        """Steps on networks, as counts of values."""
        for key, counts in self.wires.hops.items():
            if counts:
                yield (*key, "hop"), counts

    def exchange(self, key: ExchangeKey, down: int, up: int, skipped: int) -> None:
        """Values that pass a station between a child and its parent."""
        before = self.exchanges.get(key, ExchangeRow())
        self.exchanges[key] = ExchangeRow(before.down + down, before.up + up, before.skipped + skipped)

    def visit(self, address: Address, tensor: str, visit: Visit, values: Values) -> None:
        """A storage node is visited; `values`: what each Einsum uses of its rank variables, by instance."""
        parts = {einsum: _inclusive(boxes) for einsum, boxes in visit.boxes.items()}
        self.visits.append(VisitRow(self.step, address, tensor, parts, values, _inclusive(visit.kept)))

    def count(
        self, key: CountKey, instance: Instance, amount: float, box: Box | None = None, child: str | None = None
    ) -> None:
        """`amount` values of one action at one instance; `box` is the tile that they belong to.

        Where partial sums are wider than results, an amount counts a result as the part of one that its bits are.
        `child`: the component that is filled or writes back; None for operations and copies.
        """
        if not amount:
            return
        if child is not None:
            of_child = self.by_child.setdefault((*key, child), {})
            of_child[instance] = of_child.get(instance, 0) + amount
        counts = self.values.setdefault(key, {})
        counts[instance] = counts.get(instance, 0) + amount
        if self.turn is not None:
            of_turn = self.turns.setdefault(self.turn, {}).setdefault(key, {})
            of_turn[instance] = of_turn.get(instance, 0) + amount
        if self.timeline is not None:
            self.timeline.count(key, instance, amount, box, self.turn)
        if key[1] in self.traced and amount > 0:
            tile = () if box is None else tuple((low, high - 1) for low, high in box)
            self.events.append(Event(self.step, key[1], instance, key[2] or "", key[3], int(amount), tile))


def _inclusive(boxes: Mapping[Instance, Box]) -> dict[Instance, Box]:
    """First and last index of each rank."""
    return {lane: tuple((low, high - 1) for low, high in box) for lane, box in boxes.items()}
