"""Actions that exchanges cost at each station: values into reads and writes, scales of the component not applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from einmap.arch.component import Compute, Toll
from einmap.model.counting.path import Station
from einmap.model.counting.tiles import Count, larger
from einmap.model.traffic.tensor_traffic import Exchange, Flow, TensorTraffic

type Way = Literal["down", "up"]
"""Fills go down, write-backs up."""


@dataclass(frozen=True, slots=True)
class Actions:
    """Actions of one tensor at one station: reads and writes, scales of the component not applied."""

    read: Count
    write: Count

    def __add__(self, other: Actions) -> Actions:
        return Actions(self.read + other.read, self.write + other.write)

    def most(self, other: Actions) -> Actions:
        """The larger number of each action."""
        return Actions(larger(self.read, other.read), larger(self.write, other.write))


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
    """The actions that a station pays for the values of an exchange (definition 12)."""
    assert not isinstance(at.component, Compute)
    paid = {"down": flow.live + flow.initial - skipped(tensor, exchange, at, flow), "up": flow.up}
    values: dict[str, Count] = {}
    for action, way in ways(tensor, exchange, at):
        values[action] = values.get(action, 0) + paid[way]
    name = tensor.access.tensor
    done = {action: n * at.component.action(action).actions_per_value[name] for action, n in values.items()}
    return Actions(done.get("read", 0), done.get("write", 0))
