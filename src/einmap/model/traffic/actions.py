"""Actions that exchanges cost at each station: values into reads and writes, scales of the component not applied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from einmap.arch.component import Compute, Memory, Toll
from einmap.errors import NotSupportedError
from einmap.model.counting.path import Station
from einmap.model.counting.reuse import Takes
from einmap.model.counting.tiles import Count, larger
from einmap.model.traffic.tensor_traffic import Exchange, Fixed, Flow, TensorTraffic

type Way = Literal["down", "up"]
"""Fills go down, write-backs up."""


@dataclass(frozen=True, slots=True)
class Actions:
    """Actions of one tensor at one station: reads and writes, scales of the component not applied.

    `read_transfers`, `write_transfers`: in how many transfers they come, counted where these take time to begin.
    `read_rounds`, `write_rounds`: of a memory with interleaved banks, those that come one after another.
    """

    read: Count
    write: Count
    read_transfers: Count = 0
    write_transfers: Count = 0
    read_rounds: Count = 0
    write_rounds: Count = 0

    def __add__(self, other: Actions) -> Actions:
        return Actions(
            self.read + other.read,
            self.write + other.write,
            self.read_transfers + other.read_transfers,
            self.write_transfers + other.write_transfers,
            self.read_rounds + other.read_rounds,
            self.write_rounds + other.write_rounds,
        )

    def most(self, other: Actions) -> Actions:
        """The larger number of each action."""
        return Actions(
            larger(self.read, other.read),
            larger(self.write, other.write),
            larger(self.read_transfers, other.read_transfers),
            larger(self.write_transfers, other.write_transfers),
            larger(self.read_rounds, other.read_rounds),
            larger(self.write_rounds, other.write_rounds),
        )


def ways(tensor: TensorTraffic, exchange: Exchange, at: Station) -> tuple[tuple[str, Way], ...]:
    """The actions that a station of an exchange pays, each with the values that it pays for.

    The child reads what it writes back and writes what it is filled with; the parent the other way round.
    """
    component = at.component
    if isinstance(component, Toll):
        direction = component.directions[tensor.access.tensor]
        down: tuple[tuple[str, Way], ...] = (("read", "down"),) if direction != "up" else ()
        return (*down, ("read", "up")) if direction != "down" else down
    if at is exchange.child:
        return (("read", "up"), ("write", "down"))
    return (("read", "down"), ("write", "up"))


def skipped(tensor: TensorTraffic, exchange: Exchange, at: Station, flow: Flow) -> Count:
    """Fills that a station does not pay since they bring no result yet."""
    return 0 if tensor.pays_initial(exchange, at) else flow.initial


def charged(tensor: TensorTraffic, exchange: Exchange, at: Station, flow: Flow) -> Actions:
    """The actions that a station pays for the values of an exchange (definition 12), or for its lines."""
    assert not isinstance(at.component, Compute)
    paid = {"down": flow.live + flow.initial - skipped(tensor, exchange, at, flow), "up": flow.up}
    values: dict[str, Count] = {}
    for action, way in ways(tensor, exchange, at):
        values[action] = values.get(action, 0) + paid[way]
    name = tensor.access.tensor
    done = {action: n * at.component.action(action).actions_per_value[name] for action, n in values.items()}
    layout = at.component.layouts.get(name) if isinstance(at.component, Memory) else None
    if layout is not None:
        done = {action: n * layout.values for action, n in done.items()}
    if tensor.access.partial_bits is not None:
        for action, way in ways(tensor, exchange, at):
            if way == "up":
                done[action] -= flow.complete * at.component.action(action).saved_by_complete.get(name, 0)
    return Actions(done.get("read", 0), done.get("write", 0))


def of_all_units(tensor: TensorTraffic, exchange: Exchange, at: Station, actions: Actions) -> Actions:
    """The actions of a memory; where it is several units that have copies, of all of these."""
    copies = units_with_copies(tensor, exchange, at)
    if copies == 1:
        return actions
    if at is exchange.child:
        return replace(actions, write=actions.write * copies)
    return replace(actions, read=actions.read * copies)


def units_with_copies(tensor: TensorTraffic, exchange: Exchange, at: Station) -> int:
    """How many units of a memory pay for a value: each copy is written, and read for the lanes of its own unit."""
    spread = tensor.spread(at)
    if spread is None or spread.copies == 1:
        return 1
    return spread.copies if at is exchange.child else spread.readers


def of_busiest_unit(tensor: TensorTraffic, exchange: Exchange, at: Station, actions: Actions) -> Actions:
    """Of the actions of all units of a memory those of the unit that has most of them, the first one."""
    spread = tensor.spread(at)
    if spread is None:
        return actions
    part, whole = spread.fullest, spread.values * spread.copies
    if spread.copies > 1 and at is exchange.parent:
        # a copy is read by the lanes of its unit alone
        part = prod(loop.fullest for loop in spread.loops if loop.indexes or not loop.merges)
        whole = spread.readers * prod(loop.lanes for loop in spread.loops if loop.indexes or not loop.merges)
    return replace(actions, read=actions.read * part / whole, write=actions.write * part / whole)


def with_rounds(tensor: TensorTraffic, exchange: Exchange, at: Station, fixed: Fixed, actions: Actions) -> Actions:
    """The actions of one lane of a station, with those that come one after another where it has interleaved banks."""
    if not isinstance(at.component, Memory) or not at.component.interleaved:
        return actions
    one_by_one = charged(tensor, exchange, at, tensor.moving(exchange, at, rounds=True).flow(exchange, at, fixed))
    return replace(actions, read_rounds=one_by_one.read, write_rounds=one_by_one.write)


def of_one_visit(tensor: TensorTraffic, exchange: Exchange, at: Station, fixed: Fixed) -> Actions:
    """Actions of one visit of the child, the first one, at a station: its fill, and its write-back of a whole tile.

    Raises NotSupportedError as `flow_of_one_visit` does, and for lines that lanes share or that lie in banks.
    """
    layouts = at.component.layouts.values() if isinstance(at.component, Memory) else ()
    if any(layout.together or layout.banks for layout in layouts):
        raise NotSupportedError(
            f"wind_up beside lines of {at.component.name!r} that lanes share or that lie in banks is not supported yet",
            hint="leave out wind_up",
            about=at.component.name,
        )
    takes, flow = tensor.first_takes(exchange.child, at, fixed), flow_of_one_visit(tensor, exchange, at, fixed)
    return with_transfers(tensor, exchange, at, (fixed, takes), charged(tensor, exchange, at, flow))


def flow_of_one_visit(tensor: TensorTraffic, exchange: Exchange, at: Station, fixed: Fixed) -> Flow:
    """Flow past a station in the first visit of the child: its fill, and its write-back of a whole tile.

    An output has no results yet. Raises NotSupportedError where Einsums use different parts of the tensor in a buffer.
    """
    charge, child = tensor.charge(exchange), exchange.child
    if charge.hull is not None:
        raise NotSupportedError(
            f"wind_up, where Einsums use different parts of {tensor.access.tensor!r} in {child.component.name!r}, is "
            "not supported yet",
            hint="leave out wind_up, or give each Einsum a storage node of its own",
            about=child.component.name,
        )
    counts = tensor.moving(exchange, at).counts
    moved = counts.values(tensor.first_takes(child, at, fixed))
    if not tensor.access.output:
        return Flow(moved if charge.fills else 0, 0, 0)
    fills = charge.fills and tensor.fills_lane(exchange, at, fixed)
    return Flow(0, counts.values(tensor.first_takes(child, exchange.parent, fixed)) if fills else 0, moved)


def with_transfers(
    tensor: TensorTraffic, exchange: Exchange, at: Station, counted: tuple[Fixed, Takes], actions: Actions
) -> Actions:
    """The actions of one lane with the transfers in which they come, where these take time to begin.

    A visit of a memory's node is one transfer in, and for an output one out, at the memory and at its parent: `at`. An
    output comes in in every visit, whether it has results yet or not. Of lanes that reduce the first one alone is
    filled. `counted`: the lane, and which iterations count. Raises NotSupportedError where Einsums use different parts
    of the tensor in one buffer.
    """
    fixed, takes = counted
    child, station = exchange.child.component, at.component
    if not isinstance(child, Memory) or not isinstance(station, Memory) or not station.starts:
        return actions
    charge = tensor.charge(exchange)
    if charge.hull is not None:
        raise NotSupportedError(
            f"transfers that take time to begin, where Einsums use different parts of {tensor.access.tensor!r} in "
            f"{child.name!r}, are not supported yet",
            hint="leave out startup, or give each Einsum a storage node of its own",
            about=child.name,
        )
    visits = tensor.counts.tiles.visits(takes)
    inward = visits if charge.fills else 0
    if tensor.access.output and not tensor.fills_lane(exchange, at, fixed):
        inward = 0
    outward = visits if tensor.access.output else 0
    if at is exchange.child:
        return replace(actions, read_transfers=outward, write_transfers=inward)
    return replace(actions, read_transfers=inward, write_transfers=outward)
