"""The stages of a training step on the PEs of a device of the pipeline: Einsums spread as `train-plan` would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

from einmap.distribute.costs.cluster import default_cluster
from einmap.distribute.derive import tensor_sizes
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import REPLICATED
from einmap.distribute.plans.plan import Buffer, Local, LocalLoop, Plan
from einmap.distribute.training.backward import Backward
from einmap.distribute.training.layer import LayerCost
from einmap.distribute.training.machine import Machine
from einmap.distribute.training.model import Layer, Ranks, TrainingModel, variables_of
from einmap.distribute.training.plan import Dim
from einmap.distribute.training.step import TrainingCosts
from einmap.distribute.training_run.program import TrainingProgram
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.operation import Apply, MapExpression, Operand, Operation
from einmap.einsum.spaces.projection import Rank, RankVar
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, NotSupportedError
from einmap.visible import brief

BITS = 64
"""Bits of a value: steps are run in float64."""


@dataclass(frozen=True)
class StageLayer(Layer):
    """A stage as a layer that is planned. `joints`: its Einsums of a micro-batch, forward and backward, by the samples
    that devices of all of `ep` have of it, its own first; `gradients`: by
    its weights, or its part of them; `sent`: what later stages read; `crossing`: what passes between stages, either
    way, with its ranks of samples and of positions; `variables`: of samples, positions and experts.
    """

    __repr__ = brief

    joints: Mapping[int, Workload] = field(default_factory=dict, compare=False)
    gradients: Mapping[TensorName, TensorName] = field(default_factory=dict, compare=False)
    sent: tuple[TensorName, ...] = ()
    crossing: Mapping[TensorName, tuple[Rank | None, Rank | None]] = field(default_factory=dict, compare=False)
    variables: tuple[frozenset[RankVar], ...] = (frozenset(),) * 3

    @cached_property
    def batch(self) -> frozenset[RankVar]:
        """See `Layer.batch`."""
        return self.variables[0]

    @cached_property
    def sequence(self) -> frozenset[RankVar]:
        """See `Layer.sequence`."""
        return self.variables[1]

    @cached_property
    def experts(self) -> frozenset[RankVar]:
        """See `Layer.experts`."""
        return self.variables[2]

    @cached_property
    def results(self) -> tuple[TensorName, ...]:
        """Activations for later stages; of the last stage what nobody reads."""
        return self.sent or tuple(t for t in self.workload.tensors if not self.workload.consumers[t])

    @property
    def joint(self) -> Workload:
        """Einsums of a micro-batch on one of the groups of the stage."""
        return next(iter(self.joints.values()))

    def step(self, samples: int) -> Backward:
        """See `Layer.step`: its own backward pass, of the samples that some stage has."""
        return Backward(self.joints[samples], self.gradients)

    def placements(self, axes: Mapping[Dim, tuple[AxisName, ...]], sequence_parallel: bool) -> dict[TensorName, Any]:
        """How what passes lies in all stages: samples over `ep`, positions over `cp` and, if so asked, `tp`."""
        along = (*axes["cp"], *(axes["tp"] if sequence_parallel else ()))
        return {
            tensor: {rank: list(over) for rank, over in ((samples, axes["ep"]), (positions, along)) if rank and over}
            for tensor, (samples, positions) in self.crossing.items()
        }


@dataclass(frozen=True)
class Spread:
    """A stage on its PEs. `plan`: of its joint cascade for one micro-batch, data parallel groups beside one another
    along the first axes of its mesh; `cost`: what the planner says of it, None: a group is one PE, nothing is spread;
    `machine`: its PEs.
    """

    __repr__ = brief

    layer: StageLayer
    plan: Plan
    cost: LayerCost | None
    machine: Machine


@dataclass(frozen=True)
class SpreadProgram:
    """A training step on PEs with equal links, each stage spread as `train-plan` would do. `costs`: of stages as layers
    of a model, in values of float64.
    """

    __repr__ = brief

    program: TrainingProgram
    costs: TrainingCosts
    stages: tuple[Spread, ...]

    @cached_property
    def predicted(self) -> tuple[Mapping[str, float], ...] | None:
        """Bytes that a PE of each device of the pipeline sends by the model of `train-plan`, by what and how; None
        where that has no plan of such Einsums.
        """
        try:
            return self.costs.sent(replace(self.program.plan, stages=(1,) * len(self.stages), recompute="none"))
        except EinmapError:
            return None


def spread_program(program: TrainingProgram) -> SpreadProgram:
    """A training step on PEs. Raises SpecError where a stage has no way over its PEs, NotSupportedError for Einsums
    that cannot be distributed.
    """
    cluster = default_cluster(Mesh((("x", program.plan.devices),)))
    layers = tuple(_layer(program, number) for number in range(len(program.stages)))
    costs = TrainingCosts(TrainingModel(layers, program.samples, gradient_bytes=BITS / 8), cluster)
    return SpreadProgram(program, costs, tuple(_spread(layer, i, program, costs) for i, layer in enumerate(layers)))


def _layer(program: TrainingProgram, stage: int) -> StageLayer:
    part = program.parts[stage].workload
    ranks = program.ranks
    variables = tuple(variables_of(part, rank) for rank in (ranks.batch, ranks.sequence, ranks.expert))
    forward = program.work[stage, "F"]
    gradients, totals = _gradients(program, stage)
    names = {name for kind in ("F", "I", "W") for name in program.work[stage, kind]}
    joints = {
        program.together(one): Workload(
            tuple(map(_wide, [*(e for e in program.parts[one].workload.einsums if e.name in names), *totals]))
        )
        for one in (stage, *range(len(program.stages)))
    }
    joint = joints[program.together(stage)].einsums
    first = {access.tensor: access for einsum in part.einsums for access in reversed(einsum.accesses)}

    def rank_over(tensor: TensorName, own: frozenset[RankVar]) -> Rank | None:
        return next((rank for rank, index in first[tensor].projection if set(dict(index.terms)) & own), None)

    crossing = {t for kind in ("F", "I", "W") for t in program.sends((stage, kind))}
    crossing |= {t for e in joint for t in e.inputs if program.stage_of.get(t, stage) != stage}
    return StageLayer(
        f"stage {stage}",
        Workload(tuple(einsum for einsum in joint if einsum.name in forward)),
        Ranks(ranks.batch, None),
        joints=joints,
        gradients=gradients,
        sent=program.sends((stage, "F")),
        crossing={t: (rank_over(t, variables[0]), rank_over(t, variables[1])) for t in sorted(crossing)},
        variables=variables,
    )


def _gradients(program: TrainingProgram, stage: int) -> tuple[dict[TensorName, TensorName], list[Einsum]]:
    """The gradient of each weight of a stage, or the stage's part of it, and Einsums that add what it has of it."""
    part, gradients, totals = program.part.workload, dict[TensorName, TensorName](), list[Einsum]()
    for weight, found in program.part.gradients.items():
        whole = part.by_name[part.producers[found]]
        parts = sorted(whole.inputs) if whole.name in program.totals else [found]
        own = [tensor for tensor in parts if program.stage_of.get(tensor) == stage]
        if len(own) > 1:
            gradients[weight] = found if len(own) == len(parts) else f"{found}_stage_{stage}"
            totals.append(joined(whole, own, gradients[weight]))
        elif own:
            gradients[weight] = own[0]
    return gradients, totals


def joined(like: Einsum, tensors: Sequence[TensorName], result: TensorName) -> Einsum:
    """The sum of tensors, element by element, of the ranks that an Einsum writes."""
    access = next(access for access in like.accesses if access.output)
    read = [replace(access, tensor=tensor, output=False) for tensor in tensors]
    operands: list[MapExpression] = [Operand(tensor) for tensor in tensors]
    total = Operation(reduce(lambda one, other: Apply("add", (one, other)), operands))
    return replace(like, name=result, accesses=(*read, replace(access, tensor=result)), operation=total, part="weight")


def _wide(einsum: Einsum) -> Einsum:
    return replace(einsum, accesses=tuple(replace(access, bits_per_value=float(BITS)) for access in einsum.accesses))


def _spread(layer: StageLayer, stage: int, program: TrainingProgram, costs: TrainingCosts) -> Spread:
    plan, known = program.plan_of(stage), program.sizes[stage]
    machine = costs.machine(plan)
    inner = machine.inner
    mesh = Mesh((*((axis, machine.mesh.size(axis)) for axis in machine.axes["dp"]), *inner.axes))
    sizes = {tensor: known[tensor] for tensor in layer.joint.tensors if tensor in known}
    if inner.n_devices == 1:
        sizes |= {t: own for t, own in tensor_sizes(layer.joint).items() if t not in sizes}
        return Spread(layer, _unspread(layer.joint, mesh, sizes), None, machine)
    for tensor, own in tensor_sizes(layer.joint).items():
        if tensor in sizes and dict(own) != dict(sizes[tensor]):
            raise NotSupportedError(
                f"{layer.name} uses a part of {tensor!r}, which is not spread over devices", hint="cut stages elsewhere"
            )
    cost = costs.layer(layer, plan)
    return Spread(layer, replace(cost.chosen.plan, mesh=mesh, dtype="float64"), cost, machine)


def _unspread(joint: Workload, mesh: Mesh, sizes: Mapping[TensorName, tuple[tuple[Rank, int], ...]]) -> Plan:
    """Every Einsum as a whole on every PE."""
    buffers = tuple(Buffer(tensor, tensor, sizes[tensor], REPLICATED) for tensor in joint.tensors)
    inputs = tuple((tensor, tensor) for tensor in joint.tensors if tensor not in joint.producers)
    outputs = tuple((t, t) for t in joint.producers if not joint.consumers[t])
    steps = tuple(local_of(einsum, {t: t for t in joint.tensors}, {}) for einsum in joint.einsums)
    return Plan(mesh, joint, buffers, inputs, steps, outputs)


def local_of(
    einsum: Einsum, buffers: Mapping[TensorName, str], over: Mapping[RankVar, tuple[Sequence[AxisName], int]]
) -> Local:
    """An Einsum on buffers. `over`: rank variables that are split over axes, with their block."""
    cut = {v: over.get(v, ((), n)) for v, n in einsum.bounds}
    loops = tuple(LocalLoop(v, tuple(cut[v][0]), n, cut[v][1]) for v, n in einsum.bounds)
    pairs = [
        tuple((a.tensor, buffers[a.tensor]) for a in einsum.accesses if a.output == output) for output in (False, True)
    ]
    return Local(einsum.name, pairs[0], pairs[1], loops)
