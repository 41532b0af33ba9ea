"""Tables of what tokens cost, which terminal and page show alike: of one machine, and of several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from einmap.report.text.formatting import changed, hyphened, percent
from einmap.report.text.layout import Table
from einmap.serving.on_cluster import PartCost, Planned
from einmap.serving.tokens import TokenCosts, TokenPoint
from einmap.units import counted, format_bytes, format_count, format_si

NO = "-"
MOST_WAYS = 4
"""Plans of a point that are shown at once."""
MOST_NAMED = 2
"""Reasons of a dearer plan that a cell names."""


def title_of(costs: TokenCosts) -> str:
    """The model, and on how many devices it is."""
    devices = costs.points[0].devices
    on = f" on {devices:,} devices" if devices > 1 else ""
    return f"{costs.architecture} of {format_count(costs.n_parameters)} parameters{on}"


def times_table(costs: TokenCosts) -> Table:
    """Times, rates and energies of each point."""
    front = {*costs.front}
    known = any(point.energy is not None for point in costs.points)
    served = any(point.served is not None for point in costs.points)
    columns = ["batch", "context", "each token", *(["served"] if served else []), "first token"]
    columns += ["tokens/s of a device", "of a user"]
    columns += ["energy", "proven"] if known else []
    rows = []
    for point in costs.points:
        cells = [*_sizes(point), format_si(point.seconds, "s")]
        cells += [format_si(point.best.each_token, "s")] if served else []
        cells += [_first(point), format_count(point.rate), format_count(point.user_rate)]
        if known:
            cells += [NO if point.energy is None else format_si(point.energy, "J"), "yes" if point.proven else "no"]
        rows.append([*cells, "no room" if not point.held.fits else "front" if point in front else ""])
    return Table((*columns, ""), rows, left=())


def memory_title(costs: TokenCosts) -> str:
    """The title of the table of memory."""
    memory = costs.points[0].held.memory
    return f"What a device holds{f' of {format_bytes(memory)}' if isfinite(memory) else ''}"


def memory_table(costs: TokenCosts) -> Table:
    """Bytes of the fullest device, and how many sequences fit on all; how devices are divided."""
    divided = any(point.devices > 1 for point in costs.points)
    rows = [
        (
            *_sizes(point),
            *([str(point.plan)] if divided else []),
            format_bytes(point.held.weights),
            format_bytes(point.held.cache),
            format_bytes(point.held.activations),
            _most(point),
        )
        for point in costs.points
    ]
    columns = "weights", "cache", "activations", "most sequences"
    return Table(("batch", "context", *(["plan"] if divided else []), *columns), rows, left=(2,) if divided else ())


def has_ways(costs: TokenCosts) -> bool:
    """Whether there is a plan to compare the best one with."""
    return any(len(point.ways) > 1 for point in costs.points)


def ways_table(costs: TokenCosts, most: int | None = None) -> Table:
    """The best plan of each way to divide devices, at most so many of them for each point, the best one first."""
    rows = []
    for point in costs.points:
        for way in point.ways[:most]:
            times = format_si(way.each_token, "s"), _against(way, point.best)
            if not way.held.fits:
                why = f"does not fit: {format_bytes(way.held.total)} of {format_bytes(way.held.memory)}"
            else:
                why = "" if way is point.best else why_dearer(point.best, way)
            rows.append((*_sizes(point), str(way.plan), *times, format_si(way.collectives, "s"), why))
    columns = "batch", "context", "plan", "each token", "", "in collectives", "dearer in"
    return Table(columns, rows, left=(2, 6))


def _against(way: Planned, best: Planned) -> str:
    """How much longer a step takes, where both have room."""
    return "" if way is best or not way.held.fits else changed(way.each_token / best.each_token)


def why_dearer(best: Planned, other: Planned) -> str:
    """Parts of a step that take longest beside those of the best one, prompts among them: `memory +1.2 ms`."""
    ours, theirs = (dict(step.spent) for step in (best, other))
    if other.served is not None and best.served is not None:
        ours["prompts"], theirs["prompts"] = (step.each_token - step.seconds for step in (best, other))
    more = {what: theirs.get(what, 0.0) - ours.get(what, 0.0) for what in {**ours, **theirs}}
    dearer = sorted(((seconds, what) for what, seconds in more.items() if seconds > 0), reverse=True)[:MOST_NAMED]
    return ", ".join(f"{hyphened(what)} +{format_si(seconds, 's')}" for seconds, what in dearer)


def parts_table(costs: TokenCosts) -> Table:
    """Time of each part of a step, and what limits it."""
    rows = []
    for point in costs.points:
        for part in point.parts:
            time = f"{part.instances:,} x {format_si(part.seconds, 's')}"
            rows.append((*_sizes(point), part.name, time, part.limited_by))
    return Table(("batch", "context", "part", "of a token", "limited by"), rows, left=(2, 4))


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """A part of a step under a roof: `phase`: a token, or a prompt; operations for a byte, and for a second."""

    point: TokenPoint
    phase: str
    part: PartCost
    intensity: float
    rate: float

    @property
    def of(self) -> str:
        """The step that the part is of, in words."""
        return "prompt" if self.phase == "prompt" else f"batch {self.point.batch:,}"


def roof_points(costs: TokenCosts) -> Iterator[RoofPoint]:
    """Parts that compute, of tokens at each point and of the prompt of each context."""
    prompts = {point.context: point for point in reversed(costs.points) if point.first}
    phases = [(point, "token", point.parts) for point in costs.points]
    phases += [(point, "prompt", point.first) for point in reversed(prompts.values())]
    for point, phase, parts in phases:
        for part in parts:
            if part.operations and part.moved and part.seconds:
                yield RoofPoint(point, phase, part, part.operations / part.moved, part.operations / part.seconds)


def roof_table(costs: TokenCosts) -> Table | None:
    """Operations by bytes of each part, on which side of the ridge it is, and which part of the roof it reaches."""
    if not costs.peaks or not costs.bandwidths:
        return None
    peak = max(roof.rate for roof in costs.peaks)
    bandwidth = max(roof.rate for roof in costs.bandwidths)
    rows = []
    for one in roof_points(costs):
        roof = min(peak, one.intensity * bandwidth)
        rows.append(
            (
                one.part.name,
                one.of,
                f"{one.point.context:,}",
                format_count(one.part.operations),
                format_bytes(one.part.moved),
                f"{one.intensity:,.4g}",
                "memory" if one.intensity < peak / bandwidth else "operations",
                percent(one.rate / roof),
            )
        )
    columns = "part", "of", "context", "operations", "bytes", "operations/byte", "side", "of the roof"
    caption = f"The ridge is at {peak / bandwidth:,.4g} operations/byte."
    return Table(columns, rows, left=(0, 1, 6), caption=caption)


def side_by_side(several: Sequence[TokenCosts]) -> Iterator[tuple[str, Table]]:
    """Tables with a column for each machine: times, rates, sequences, plans; changes are against the first one."""
    names = names_of(several)
    for title, value, shown in _QUANTITIES:
        rows = []
        for points in zip(*(costs.points for costs in several), strict=True):
            values = [value(point) for point in points]
            if all(number is None for number in values):
                break
            cells = [NO if number is None else shown(number) for number in values]
            for place, number in enumerate(values[1:], start=1):
                if number is not None and values[0]:
                    cells[place] += f" ({changed(number / values[0])})"
            rows.append((*_sizes(points[0]), *cells))
        if rows:
            yield title, Table(("batch", "context", *names), rows, left=())
    yield (
        "Memory",
        Table(
            ("batch", "context", *names),
            [
                (*_sizes(points[0]), *(f"{_most(point)}{'' if point.held.fits else ': no room'}" for point in points))
                for points in zip(*(costs.points for costs in several), strict=True)
            ],
            left=(),
            caption="The most sequences that fit.",
        ),
    )
    if any(point.devices > 1 for costs in several for point in costs.points):
        rows = [
            (*_sizes(points[0]), *(str(point.plan) for point in points))
            for points in zip(*(costs.points for costs in several), strict=True)
        ]
        yield "Plan", Table(("batch", "context", *names), rows, left=range(2, 2 + len(names)))


def together(several: Sequence[TokenCosts]) -> str:
    """The model, and on how many devices it is where that is one number."""
    title = title_of(several[0])
    return title if len({costs.points[0].devices for costs in several}) == 1 else title.partition(" on ")[0]


def names_of(several: Sequence[TokenCosts]) -> list[str]:
    """Machines by name; with the number of their devices where these differ, with their place where names do not."""
    names = [costs.machine for costs in several]
    devices = [costs.points[0].devices for costs in several]
    if len({*devices}) > 1:
        names = [f"{name}, {counted(number, 'device')}" for name, number in zip(names, devices, strict=True)]
    if len({*names}) < len(names):
        names = [f"{place}: {name}" for place, name in enumerate(names, start=1)]
    return names


_QUANTITIES: tuple[tuple[str, Callable[[TokenPoint], float | None], Callable[[float], str]], ...] = (
    ("Each token", lambda point: point.best.each_token, lambda value: format_si(value, "s")),
    ("First token", lambda point: point.seconds_to_first, lambda value: format_si(value, "s")),
    ("Tokens/s of a device", lambda point: point.rate, format_count),
    ("Energy of a token", lambda point: point.energy, lambda value: format_si(value, "J")),
)


def _sizes(point: TokenPoint) -> tuple[str, str]:
    return f"{point.batch:,}", f"{point.context:,}"


def _first(point: TokenPoint) -> str:
    return NO if point.seconds_to_first is None else format_si(point.seconds_to_first, "s")


def _most(point: TokenPoint) -> str:
    return "any" if point.most_sequences is None else f"{point.most_sequences:,}"
