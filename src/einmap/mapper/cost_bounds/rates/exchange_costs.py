"""Cost of one exchange of a tensor for each value that moves, read off the model's traffic (`unit_fills`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from einmap.arch.component import Compute, Memory
from einmap.arrays import Floats
from einmap.mapper.cost_bounds.columns import Columns
from einmap.mapper.cost_bounds.rates.affine import Affine, Unknown, chosen
from einmap.mapper.cost_bounds.rates.unit_fills import busiest_lanes
from einmap.model.counting.path import Station
from einmap.model.traffic.actions import Actions, charged
from einmap.model.traffic.tensor_traffic import Exchange, Flow, TensorTraffic

ONE_VALUE = {
    "live": Flow(1, 0, 0),
    "initial": Flow(0, 1, 0),
    "up": Flow(0, 0, 1),
    "complete": Flow(0, 0, 0, 1),
}


class ExchangeCosts(NamedTuple):
    """Costs of an exchange, (uses, columns) each.

    `rates`: of each value that fills the child; `fixed`: whatever the tile shapes; `visits`: of each visit of the
    child; `tile`: of each value of one tile. `lines`: of each line, columns for each kind of `LineRates.weights`.
    """

    rates: Floats
    fixed: Floats
    visits: Floats
    tile: Floats
    lines: Floats


@dataclass
class Priced:
    """Sums of costs by what they are for; `size`: values of the tensor, in units of which constants are counted."""

    columns: Columns
    uses: int
    size: float = 1.0
    of: dict[Unknown, Floats] = field(default_factory=dict)

    def at(self, unknown: Unknown) -> Floats:
        """Costs of each of something that is not known yet, (uses, columns)."""
        return self.of.setdefault(unknown, np.zeros((self.uses, self.columns.n)))

    def add(self, station: Station, child: int, done: Actions, everywhere: Affine, busiest: Affine) -> None:
        """Add actions that are done so often in all, and so often in the busiest instance."""
        unit, energy = station.component, energy_of(station, done)
        for unknown, share in self._sized(everywhere):
            self.at(unknown)[:, 0] += share * energy * unit.actions_scale
        for column, form in self.columns.of(station.level, child):
            seconds = done.read * form.read + done.write * form.write
            for unknown, lane in self._sized(busiest):
                self.at(unknown)[:, column] += lane * seconds * unit.actions_scale

    def _sized(self, values: Affine) -> Iterator[tuple[Unknown, Floats | float]]:
        return ((u, term * self.size if u is None else term) for u, term in values.terms.items())

    def add_starts(self, station: Station, child: int, done: Actions, *, once: bool = False) -> None:
        """Add the time in which transfers begin."""
        for action in station.component.actions:
            if action.startup:
                transfers = done.read_transfers if action.name == "read" else done.write_transfers
                for column, _ in self.columns.of(station.level, child, once=once):
                    for unknown, lane in Affine.of(transfers).terms.items():
                        self.at(unknown)[:, column] += lane * action.startup

    def add_once(self, station: Station, child: int, done: Actions) -> None:
        """Add what one visit of the child takes."""
        self.add_starts(station, child, done, once=True)
        for column, form in self.columns.of(station.level, child, once=True):
            seconds = (done.read * form.read + done.write * form.write) * station.component.actions_scale
            for unknown, lane in Affine.of(seconds).terms.items():
                self.at(unknown)[:, column] += lane


def levels_of(exchange: Exchange) -> tuple[int, ...]:
    """Levels of the stations of an exchange, the parent first."""
    return tuple(at.level for at in reversed(exchange.chain))


def stations_of(exchange: Exchange) -> Iterator[Station]:
    """The stations that are charged for an exchange, the parent first."""
    return (at for at in reversed(exchange.chain) if not isinstance(at.component, Compute))


class Part(NamedTuple):
    """One part of a flow at a station: its name in `Flow`, actions of one value, and values.

    `everywhere`: values in all; `busiest`: in the lane that has most of them.
    """

    name: str
    done: Actions
    everywhere: Affine
    busiest: Affine


def each_flow(traffic: TensorTraffic, exchange: Exchange, at: Station) -> Iterator[tuple[Actions, Affine, Affine]]:
    """Actions of one value at a station, and how many values: in all, and in the lane that has most of them."""
    return ((part.done, part.everywhere, part.busiest) for part in each_part(traffic, exchange, at))


def each_part(traffic: TensorTraffic, exchange: Exchange, at: Station) -> Iterator[Part]:
    """The parts of a flow at a station for which something is done."""
    first, later, take_turns = busiest_lanes(traffic, at)
    everywhere, own = traffic.flow(exchange, at), traffic.flow(exchange, at, first)
    others = traffic.flow(exchange, at, later) if later != first else own
    for part, one in ONE_VALUE.items():
        values = getattr(everywhere, part)
        if isinstance(values, int) and not values:
            continue
        done = charged(traffic, exchange, at, one)
        if done.read or done.write:
            busiest = chosen(take_turns, getattr(others, part), getattr(own, part))
            yield Part(part, done, Affine.of(values), busiest)


def free_start(traffic: TensorTraffic, exchange: Exchange) -> float:
    """J that a value of an exchange costs less where it has no result yet."""
    saved = 0.0
    for at in stations_of(exchange):
        live, initial = (charged(traffic, exchange, at, ONE_VALUE[part]) for part in ("live", "initial"))
        saved += (energy_of(at, live) - energy_of(at, initial)) * at.component.actions_scale
    return saved


def energy_of(at: Station, done: Actions) -> float:
    """J of some actions of a station, its `actions_scale` not applied."""
    unit = at.component
    energy: float = done.read * unit.action("read").energy
    if isinstance(unit, Memory):
        energy += done.write * unit.action("write").energy
    return energy
