"""Why a plan of a training step wins: what other plans spend more, and what one change of it would cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from einmap.distribute.training.plan import RECOMPUTE, ZERO, TrainingPlan
from einmap.distribute.training.search import SCHEDULES, BestTraining
from einmap.distribute.training.step import TrainingStep
from einmap.errors import EinmapError
from einmap.units import format_bytes, format_si

MOST = 2
"""Parts of a step that a sentence names."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the best plan. `step`: with it, None where it does not go; `why`: in words."""

    what: str
    step: TrainingStep | None
    why: str


def why_dearer(best: TrainingStep, other: TrainingStep) -> str:
    """The parts of a step that take longest beside those of the best one."""
    ours = {part.what: part.seconds for part in best.parts}
    more = {part.what: part.seconds - ours.pop(part.what, 0.0) for part in other.parts}
    more |= {what: -seconds for what, seconds in ours.items()}
    dearer = sorted((seconds, what) for what, seconds in more.items() if seconds > 0)[::-1][:MOST]
    return ", ".join(f"{what} +{format_si(seconds, 's')}" for seconds, what in dearer)


def what_changes(best: BestTraining) -> tuple[Change, ...]:
    """Costs of single changes of the best plan: schedule, ZeRO, recomputation, micro-batch, sequence parallelism."""
    request, costs = best.request, best.costs
    memory = request.memory if request.memory is not None else costs.cluster.pe.memory
    made = []
    for what, changed in _changes(best.plan):
        try:
            step = costs.step(replace(best.plan, **changed), is_short=True)
        except EinmapError as error:
            made.append(Change(what, None, f"does not go: {error.message}"))
            continue
        if step.peak.total > memory:
            made.append(Change(what, None, f"needs {format_bytes(step.peak.total)} of {format_bytes(memory)}"))
        else:
            made.append(Change(what, step, why_dearer(best.step, step)))
    return tuple(made)


def _changes(plan: TrainingPlan) -> Iterator[tuple[str, dict[str, Any]]]:
    if plan.pp > 1:
        one_each = plan.stages if plan.chunks == 1 else None
        for name in SCHEDULES:
            if name != plan.schedule and name not in ("interleaved", "zb-v"):
                yield f"schedule {name}", {"schedule": name, "chunks": 1, "stages": one_each}
    if plan.dp * plan.cp * plan.ep > 1:
        yield from ((f"ZeRO {zero}", {"zero": zero}) for zero in ZERO if zero != plan.zero)
    for again in RECOMPUTE:
        if again != plan.recompute:
            yield f"{again} recomputation", {"recompute": again}
    for size in (plan.micro_batch // 2, plan.micro_batch * 2):
        if size:
            yield f"micro-batches of {size}", {"micro_batch": size}
    if plan.is_tensor_parallel:
        other = not plan.sequence_parallel
        yield f"{'' if other else 'not '}sequence parallel", {"sequence_parallel": other}
