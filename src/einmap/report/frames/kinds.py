"""Every kind of result with its tables: the one place that all the others ask."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from einmap.errors import SpecError, did_you_mean
from einmap.report.frames.frame import Frame, Table

_ONE_A_ROW = (".StrategySummary", ".CostSource", ".Traffic", ".Match", ".PointResult", ".Timeline", ".TokenCosts")
ROOMS = {
    "einmap.model.cost.Cost": "costs",
    "einmap.mapper.result.result.MapResult": "costs",
    "einmap.mapper.fusion_saving.Saving": "costs",
    "einmap.model.fusion.Fusion": "costs",
    "einmap.model.cost_difference.Difference": "costs",
    "einmap.spec.cost_sources.CostSource": "costs",
    "einmap.execute.results.result.Execution": "executions",
    "einmap.report.executions.comparison.Comparison": "executions",
    "einmap.model.explanation.values.Explanation": "explanations",
    "einmap.model.explanation.energy_terms.EnergyExplanation": "explanations",
    "einmap.search.census.Census": "searches",
    "einmap.search.skislope.SkiSlope": "searches",
    "einmap.search.summary.StrategySummary": "searches",
    "einmap.distribute.plans.plan.Plan": "plans",
    "einmap.distribute.costs.cost.PlanCost": "plans",
    "einmap.distribute.plans.collectives.Traffic": "plans",
    "einmap.distribute.backends.compare.Match": "plans",
    "einmap.report.mesh.distribution.PlanRun": "plans",
    "einmap.distribute.pipelines.timeline.Timeline": "pipelines",
    "einmap.distribute.training_run.run.TrainingRun": "pipelines",
    "einmap.distribute.training.search.BestTraining": "training",
    "einmap.frontends.huggingface.model.LanguageModel": "models",
    "einmap.matmul.result.MatmulPlan": "products",
    "einmap.matmul.measured.measure.Measured": "products",
    "einmap.bench.result.Benchmark": "benchmarks",
    "einmap.serving.tokens.TokenCosts": "models",
    "einmap.sweep.result.PointResult": "sweeps",
}
"""The module of this room that has the tables of a kind, in `TABLES` by the name of the class. All kinds there are."""


LISTS = frozenset(kind for kind in ROOMS if kind.endswith(_ONE_A_ROW))
"""Kinds of which functions give several: one stands for one row."""


def tables_of_kind(kind: str) -> tuple[Table, ...]:
    """The tables of a kind of result, by the full name of its class; first the one that is asked for most."""
    module = import_module(f"einmap.report.frames.{ROOMS[kind]}")
    tables: Mapping[str, tuple[Table, ...]] = module.TABLES
    return tables[kind.rpartition(".")[2]]


def frames_of(result: Any) -> tuple[Frame, ...]:
    """All tables of a result, or of a sequence of results of one kind; the one that is asked for most first.

    Raises SpecError for what has no tables.
    """
    kind, value = _kind_and_value(result)
    return tuple(table.of(value) for table in tables_of_kind(kind))


def frame_of(result: Any, table: str | None = None) -> Frame:
    """One table of a result, by its name; without a name the one that is asked for most.

    Raises SpecError for what has no tables, and for another name.
    """
    kind, value = _kind_and_value(result)
    return table_named(kind, table).of(value)


def table_named(kind: str, name: str | None) -> Table:
    """One table of a kind of result, the first one without a name. Raises SpecError for another name."""
    tables = {table.name: table for table in tables_of_kind(kind)}
    if name is None:
        return next(iter(tables.values()))
    if name not in tables:
        hint = did_you_mean(name, tables, listing="tables")
        raise SpecError(f"a {kind.rpartition('.')[2]} has no table {name!r}", hint=hint)
    return tables[name]


def _kind_and_value(result: Any) -> tuple[str, Any]:
    """The full name of the class, and what its tables are made of: kinds that stand for one row are taken as lists."""
    several = isinstance(result, tuple | list)
    if several and not result:
        raise SpecError("there is no table of an empty list: nothing tells its columns")
    kinds = {type(item) for item in result} if several else {type(result)}
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    kind = names.pop()
    if names or kind not in ROOMS or (several and kind not in LISTS):
        results = sorted(name.rpartition(".")[2] for name in ROOMS)
        what = f"a list of {kind.rpartition('.')[2]}" if several else f"a {kind.rpartition('.')[2]}"
        raise SpecError(f"{what} is not a result with a table", hint=f"results: {', '.join(results)}")
    return kind, [result] if kind in LISTS and not several else result
