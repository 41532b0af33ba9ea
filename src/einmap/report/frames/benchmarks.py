"""Tables of workloads that were run on the processor at hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from einmap.bench.result import Spread
from einmap.report.frames.frame import Row, Table

if TYPE_CHECKING:
    from einmap.bench.result import Benchmark

table = Table.written


def _runs(found: Benchmark) -> Iterable[Row]:
    ours = {"warm": found.runs[0].times.warm, "cold": found.runs[0].times.cold}
    for run in found.runs:
        for caches, seconds in (("warm", run.times.warm), ("cold", run.times.cold)):
            s = Spread.of(seconds)
            times = Spread.of(ours[caches]).median / s.median
            yield (
                run.name, caches, len(seconds), s.least, s.lower, s.median, s.upper, found.flops / s.median, times,
                run.differ,
            )  # fmt: skip


def _predicted(found: Benchmark) -> Iterable[Row]:
    for run in found.runs:
        median = Spread.of(run.times.warm).median
        ratio = median / found.waiting if found.waiting else None
        yield run.name, median, found.waiting, found.roofline, ratio, found.by_nest


def _moved(found: Benchmark) -> Iterable[Row]:
    return ((m.memory, m.tensor, m.action, m.bits) for m in found.moved)


TABLES: dict[str, tuple[Table, ...]] = {
    "Benchmark": (
        table(
            "runs",
            "text name | caches; integer runs; number least [s] | lower quartile [s] | median [s] | upper quartile [s] "
            "| rate [flop/s] | ratio; integer differing values",
            _runs,
        ),
        table(
            "predicted",
            "text name; number median [s] | waiting [s] | roofline [s] | ratio | by nest [s]",
            _predicted,
        ),
        table("moved", "text memory | tensor | action; number moved [bits]", _moved),
    ),
}
