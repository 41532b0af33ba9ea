"""Tables of the points of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from einmap.report.frames.frame import Column, Frame, Kind, Row, Table, columns
from einmap.sweep.result import PointResult, front_of


@dataclass(frozen=True, slots=True)
class PointTable(Table):
    """The table of points: a column for each axis comes after the number of the point."""

    def of(self, result: Sequence[PointResult]) -> Frame:
        """The table of points; the axes are those of the first one."""
        axes = tuple(Column(name, _kind(result, name)) for name in result[0].values)
        rows = tuple(
            (row[0], *(_cell(point, axis) for axis in axes), *row[1:])
            for point, row in zip(result, self.rows(result), strict=True)
        )
        return Frame(self.name, (self.columns[0], *axes, *self.columns[1:]), rows)


def _kind(points: Sequence[PointResult], axis: str) -> Kind:
    kinds = {type(point.values[axis]) for point in points}
    if kinds == {bool}:
        return "truth"
    if kinds == {int}:
        return "integer"
    return "number" if kinds <= {int, float} else "text"


def _cell(point: PointResult, axis: Column) -> str | int | float | bool:
    value = point.values[axis.name]
    return str(value) if axis.kind == "text" else value


def _points(points: Sequence[PointResult]) -> Iterable[Row]:
    front = {point.number for point in front_of(points)}
    for p in points:
        values = (p.energy, p.latency, p.energy_delay_product, p.area, p.leak_energy)
        of_plans = (p.sent_bytes, p.peak_memory, p.processing_elements)
        yield (p.number, p.status, p.reason, *values, *of_plans, p.optimal, p.number in front)


def _outcomes(points: Sequence[PointResult]) -> Iterable[Row]:
    for p in points:
        for name, o in p.outcomes.items():
            values = (o.energy, o.latency, o.area, o.leak_energy, o.sent_bytes, o.peak_memory, o.processing_elements)
            yield (p.number, name, o.status, o.reason, *values, o.optimal)


def _components(points: Sequence[PointResult]) -> Iterable[Row]:
    for p in points:
        for name, outcome in p.outcomes.items():
            for component, energy in outcome.energy_by_component.items():
                yield (p.number, name, component, energy)


_OF_PLANS = "sent [B] | peak memory [B]; integer PEs"
TABLES: dict[str, tuple[Table, ...]] = {
    "PointResult": (
        PointTable(
            "points",
            columns(
                "integer point; text status | reason; number energy [J] | latency [s] | EDP [J*s] | area [m^2] | "
                f"leak energy [J] | {_OF_PLANS}; truth optimal | on front"
            ),
            _points,
        ),
        Table.written(
            "outcomes",
            "integer point; text workload | status | reason; number energy [J] | latency [s] | area [m^2] | "
            f"leak energy [J] | {_OF_PLANS}; truth optimal",
            _outcomes,
        ),
        Table.written("components", "integer point; text workload | component; number energy [J]", _components),
    )
}
