"""The options of a search, checked: those of the specification, overridden by those of the call."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from pydantic import ValidationError

from einmap.arch.component import Component, Memory
from einmap.errors import At, NotSupportedError, SpecError, did_you_mean
from einmap.mapper.objective.metrics import ALIASES, DEFAULT, METRICS
from einmap.model.checks.outputs_at_sums import check_outputs
from einmap.model.checks.partial_sums import check_partial_sums
from einmap.model.counting.semantics import Semantics, semantics_named
from einmap.model.timing.stalls import check_stalls, stalling
from einmap.spec.schema.options import MapperInput
from einmap.spec.spec import Spec
from einmap.visible import short

_FLAGS = {metric.flag: name for name, metric in sorted(METRICS.items(), key=lambda item: item[1].flag)}
_LEAST = {
    "max_fused_loops": 0,
    "max_pipeline_stages": 1,
    "max_einsums_per_stage": 1,
    "max_fused_loops_per_rank_variable": 0,
    "time_limit": 0,
    "objective_tolerance": 0,
    "resource_usage_tolerance": 0,
    "tiling_coarseness": 1,
    "max_pmapping_templates_per_einsum": 1,
    "memory_limit": 1_000_000,
    "memory_limit_per_process": 1_000_000,
}
"""Numbers among the options, and the least that each may be.

Some options need nothing here. The best order of loops is found without trying the others (`explore_loop_orders`).
`resource_usage_tolerance` and `prioritize_reuse_of_unfused_tensors` allow to leave out mappings, and none is left out.
"""
_COUNTS = ("max_fused_loops", "max_pipeline_stages", "max_einsums_per_stage", "max_fused_loops_per_rank_variable")
"""Options that count something: whole numbers, or infinite."""
MOST_STAGES = 3
"""Stages that a Pipeline of the search may have."""
_KINDS = {bool: "true or false", float: "a number", int: "a whole number"}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a search. `time_limit` in seconds, may be inf; `max_evaluations` None: no limit.

    `memory`: bytes that it may use, `ceiling`: bytes that the process may have in memory. `waiting`: how long fused
    Einsums may wait once, inward and outward, and how long the first one waits in any case (s); `overlapping`:
    what works ahead of them counts for nothing. See `joint_latency`. `stalls`: some memory stalls tile by tile.
    `breaks_ties`: of mappings that are equally good by energy or latency the best by the other one is wanted;
    `proves_ties`: however long its proof takes.
    """

    goals: tuple[str, ...]
    rules: Semantics
    time_limit: float
    max_evaluations: int | None
    seed: int
    force_memory_hierarchy_order: bool
    objective_tolerance: float
    brute_force: bool
    uneven_loops: bool
    uneven_lanes: bool
    coarseness: float
    most_plans: float
    most_fused: float
    most_fused_per_variable: float
    share_inputs: bool
    breaks_ties: bool
    proves_ties: bool
    memory: float
    workers: int
    ceiling: float = math.inf
    most_stages: int = 1
    most_in_stage: int = 1
    waiting: tuple[float, float, float] = (math.inf, math.inf, 0.0)
    overlapping: bool = False
    stalls: bool = False


def read_options(
    spec: Spec,
    *,
    metrics: object = None,
    semantics: object = None,
    time_limit_s: object = None,
    max_evaluations: object = None,
    seed: object = 0,
    brute_force: bool = False,
    workers: object = None,
    **more: object,
) -> Options:
    """The options of a search: those of the specification, overridden by those of the call.

    `more`: options by their names under `mapper` in a specification. Raises SpecError for values that make no sense,
    NotSupportedError for options that are not implemented.
    """
    mapper_input = _mapper_input(spec, more)
    rules = _semantics(spec, semantics)
    check_partial_sums(spec, rules)
    check_outputs(spec, rules)
    limit = _number("time_limit_s", time_limit_s) if time_limit_s is not None else mapper_input.time_limit
    written = mapper_input.metrics is not None and metrics is None
    stalls = any(isinstance(unit, Memory) and bool(stalling((unit,))) for _, unit in units_of(spec))
    options = Options(
        goals=metrics_named(
            mapper_input.metrics if written else metrics, at=spec.provenance("mapper.metrics") if written else None
        ),
        rules=rules,
        time_limit=limit,
        # far above what any search gets through, and still a number of the machine
        max_evaluations=None
        if max_evaluations is None
        else min(_integer("max_evaluations", max_evaluations, 1), 2**62),
        seed=_integer("seed", seed, 0),
        force_memory_hierarchy_order=mapper_input.force_memory_hierarchy_order,
        objective_tolerance=mapper_input.objective_tolerance,
        brute_force=brute_force,
        uneven_loops=mapper_input.explore_imperfect_temporal_loops,
        uneven_lanes=mapper_input.explore_imperfect_spatial_loops,
        coarseness=mapper_input.tiling_coarseness,
        most_plans=mapper_input.max_pmapping_templates_per_einsum,
        # Einsums that share loops have no turns of their own
        most_fused=0 if stalls else mapper_input.max_fused_loops,
        most_fused_per_variable=mapper_input.max_fused_loops_per_rank_variable,
        share_inputs=mapper_input.share_inputs,
        breaks_ties=mapper_input.break_ties,
        proves_ties=mapper_input.prove_ties,
        memory=min(mapper_input.memory_limit, mapper_input.memory_limit_per_process),
        workers=_integer("workers", workers, 1) if workers is not None else os.cpu_count() or 1,
        most_stages=_stages(mapper_input),
        most_in_stage=_integer("max_einsums_per_stage", mapper_input.max_einsums_per_stage, 1),
        stalls=stalls,
    )
    if stalls:
        _check_stalls(spec, rules)
    _check_gathers(spec)
    return options


def _stages(mapper_input: MapperInput) -> int:
    """How many stages a Pipeline may have."""
    if mapper_input.max_pipeline_stages > MOST_STAGES:
        raise NotSupportedError(
            f"mapper option max_pipeline_stages: at most {MOST_STAGES} are searched, "
            f"found {mapper_input.max_pipeline_stages}"
        )
    return mapper_input.max_pipeline_stages


def _check_gathers(spec: Spec) -> None:
    """Raises NotSupportedError for lines of tensors of which rows are looked up: nobody knows which they touch."""
    for einsum in spec.workload.einsums:
        for access in einsum.gathers:
            for name, unit in spec.arch(einsum.name).components.items():
                if isinstance(unit, Memory) and access.tensor in unit.layouts:
                    raise NotSupportedError(
                        f"Einsum {einsum.name!r} looks up rows of {access.tensor!r}; lines of it in {name!r} are not "
                        "supported yet",
                        at=spec.provenance(f"arch.nodes.{name}.layout"),
                        hint=f"leave {access.tensor} out of the layout",
                    )


def units_of(spec: Spec) -> Iterator[tuple[str, Component]]:
    """The components by name, as each Einsum has them; Einsums that are alike have them once."""
    for einsum, bound in spec.bound.items():
        yield from bound.arch.components.items() if bound.like == einsum else ()


def _check_stalls(spec: Spec, rules: Semantics) -> None:
    """Raises NotSupportedError for what the model does not know of memories that stall tile by tile."""
    for name, bound in spec.bound.items():
        for unit in bound.arch.computes if bound.like == name else ():
            check_stalls(bound.arch.path(unit.name), rules)


def _mapper_input(spec: Spec, more: Mapping[str, Any]) -> MapperInput:
    """The key `mapper` with the options of the call; checked."""
    for name in more:
        if name not in MapperInput.model_fields:
            raise SpecError(f"unknown mapper option {name!r}", hint=did_you_mean(name, MapperInput.model_fields))
    asked = _checked(more)
    base = spec.mapper_options
    merged = base.model_copy(update={name: getattr(asked, name) for name in more})

    def at(name: str) -> At | None:
        return spec.provenance(f"mapper.{name}") if name in base.model_fields_set and name not in more else None

    for name, least in _LEAST.items():
        found = _number(name, getattr(merged, name), least, at=at(name))
        if name in _COUNTS and found != math.inf and found % 1:
            raise _wrong(name, getattr(merged, name), "a whole number", at(name))
    if merged.info_metrics is not None:
        metrics_named(merged.info_metrics, option="info_metrics", at=at("info_metrics"))
    return merged


def _checked(more: Mapping[str, Any]) -> MapperInput:
    """The options of a call by themselves. Strict: the text "3" is not a number in Python."""
    try:
        return MapperInput.model_validate(dict(more), strict=True)
    except ValidationError as failure:
        name = str(failure.errors()[0]["loc"][0])
        kind = MapperInput.model_fields[name].annotation
        expected = _KINDS.get(kind, str(kind)) if isinstance(kind, type) else str(kind)
        raise _wrong(name, more[name], expected) from None


def metrics_named(metrics: object, option: str = "metrics", at: At | None = None) -> tuple[str, ...]:
    """Names of the objectives: one, several joined by `|` or `,`, a list, or flags; the default for None.

    Raises SpecError.
    """
    if metrics is None:
        return (DEFAULT,)
    if isinstance(metrics, int) and not isinstance(metrics, bool):
        names = [name for flag, name in _FLAGS.items() if metrics > 0 and metrics & flag]
        if not names or metrics & ~sum(_FLAGS):
            text = f"{option} {metrics} holds flags that are not objectives here"
            raise SpecError(text, at=at, hint=f"flags: {_FLAGS}")
        return tuple(names)
    parts: list[Any] = []
    if isinstance(metrics, str):
        parts = metrics.replace("|", ",").split(",") if metrics.strip() else []
    elif isinstance(metrics, list | tuple):
        parts = list(metrics)
    else:
        raise _wrong(option, metrics, "names of metrics", at)
    if not parts:
        raise SpecError(f"{option} names no metric", at=at, hint=f"metrics: {', '.join((*METRICS, 'edp'))}")
    return tuple(dict.fromkeys(_metric(part, option, at) for part in parts))


def _metric(part: object, option: str, at: At | None) -> str:
    if not isinstance(part, str):
        raise _wrong(option, part, "the name of a metric", at)
    name = part.strip().lower()
    name = ALIASES.get(name, name)
    if name not in METRICS:
        hint = did_you_mean(name, (*METRICS, "edp"), listing="metrics")
        raise SpecError(f"unknown metric {part!r} in {option}", at=at, hint=hint)
    return name


def _semantics(spec: Spec, semantics: object) -> Semantics:
    if semantics is None:
        return semantics_named(spec.model_options.semantics)
    if not isinstance(semantics, str | Semantics):
        raise _wrong("semantics", semantics, "the name of a preset")
    return semantics_named(semantics)


def _number(name: str, value: object, least: float = 0, at: At | None = None) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise _wrong(name, value, "a number", at)
    number = float(value)
    if math.isnan(number) or number < 0:
        raise _wrong(name, value, "a number that is not negative", at)
    if number < least:
        raise _wrong(name, value, f"a number of at least {least}", at)
    return number


def _integer(name: str, value: object, least: int) -> int:
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or number < least:
        raise _wrong(name, value, f"an integer of at least {least}")
    return number


def _wrong(name: str, value: object, expected: str, at: At | None = None) -> SpecError:
    return SpecError(f"mapper option {name}: expected {expected}, found {short(value)}", at=at)
