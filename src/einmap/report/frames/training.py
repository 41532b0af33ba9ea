"""Tables of the best plan of a training step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from einmap.report.frames.frame import Row, Table

if TYPE_CHECKING:
    from einmap.distribute.training.search import BestTraining


def _parts(best: BestTraining) -> Iterable[Row]:
    return ((part.what, part.seconds, part.hidden, part.sent) for part in best.step.parts)


def _devices(best: BestTraining) -> Iterable[Row]:
    for device, held in enumerate(best.step.held):
        kinds = held.weights, held.gradients, held.state, held.activations, held.working
        yield device, *kinds, held.total


def _kinds(best: BestTraining) -> Iterable[Row]:
    for kind in best.kinds:
        step = kind.best
        if step is None:
            yield kind.name, None, kind.least, *(None,) * 11
            continue
        plan = step.plan
        own = (None,) * 2 if plan.meshes else (plan.dp, plan.tp)
        micro_batch = None if plan.meshes else plan.micro_batch
        sizes = *own, plan.cp, plan.ep, plan.pp, micro_batch, plan.chunks
        seconds = step.seconds, step.peak.total
        yield kind.name, *seconds, *sizes, plan.schedule, plan.zero, plan.recompute, plan.shown_meshes


TABLES: dict[str, tuple[Table, ...]] = {
    "BestTraining": (
        Table.written("parts", "text what; number of the step [s] | hidden [s] | sent [bytes]", _parts),
        Table.written(
            "devices",
            "integer device; number weights [bytes] | gradients [bytes] | state [bytes] | activations [bytes] | "
            "working [bytes] | held [bytes]",
            _devices,
        ),
        Table.written(
            "kinds",
            "text parallel; number step [s] | held [bytes]; integer dp | tp | cp | ep | pp | micro-batch | chunks; "
            "text schedule; integer ZeRO; text recompute | sub-meshes",
            _kinds,
        ),
    )
}
