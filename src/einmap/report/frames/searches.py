"""Tables of what search strategies, a census of a mapspace and a ski slope found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from einmap.report.frames.frame import Row, Table

if TYPE_CHECKING:
    from einmap.search.census import Census
    from einmap.search.skislope import SkiSlope
    from einmap.search.summary import StrategySummary


def _mappings(census: Census) -> Iterable[Row]:
    return zip(census.sample.energy.tolist(), census.sample.latency.tolist(), strict=True)


def _shape(census: Census) -> Iterable[Row]:
    yield (
        census.problem.name, census.problem.objective, census.complete, census.sample.drawn, census.n_valid,
        census.valid.value, census.near_best.value, census.optimum.value,
    )  # fmt: skip


def _corners(curve: SkiSlope) -> Iterable[Row]:
    return ((corner.capacity, corner.traffic, curve.least(corner.capacity), corner.proven) for corner in curve.corners)


def _strategies(summaries: Sequence[StrategySummary]) -> Iterable[Row]:
    for summary in summaries:
        final, seconds = summary.final, summary.seconds.median
        yield summary.strategy, summary.seeds, final.low, final.median, final.high, seconds, summary.valid


def _reached(summaries: Sequence[StrategySummary]) -> Iterable[Row]:
    for summary in summaries:
        for reached in summary.reached:
            yield summary.strategy, reached.gap, reached.seeds, reached.evaluations.median, reached.seconds.median


table = Table.written
TABLES: dict[str, tuple[Table, ...]] = {
    "Census": (
        table("mappings", "number energy [J] | latency [s]", _mappings),
        table(
            "shape",
            "text einsum | objective; truth complete; integer drawn | valid; "
            "number valid [part] | within 1 % [part] | best [J, s or J*s]",
            _shape,
        ),
    ),
    "SkiSlope": (
        table(
            "corners", "integer capacity [bits]; number traffic [bits] | least traffic [bits]; truth proven", _corners
        ),
    ),
    "StrategySummary": (
        table(
            "strategies",
            "text strategy; integer seeds; number gap, lower quartile [part] | gap, median [part] | "
            "gap, upper quartile [part] | time, median [s] | valid [part]",
            _strategies,
        ),
        table(
            "reached",
            "text strategy; number gap; integer seeds; number evaluations, median [mappings] | time, median [s]",
            _reached,
        ),
    ),
}
