"""The end of a step on the PEs of a stage: gradients summed, their parts (ZeRO), the update, weights gathered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.placements.placement import REPLICATED, Placement
from einmap.distribute.plans.plan import Buffer, BufferName, Combine, Fill, Local, Move, Plan, PlanStep
from einmap.distribute.steps.naming import LETTER, Names
from einmap.distribute.training_run.shards import Shard, shard_of
from einmap.distribute.training_run.stages import Spread, SpreadProgram, joined, local_of
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.gradients.update import Update
from einmap.einsum.spaces.projection import RankVar


@dataclass
class StageWeight:
    """A weight of a stage. `home`: its whole buffer; `shard`: how ZeRO cuts it, None: not; `raw`: the buffer of its
    gradient as it comes out of its Einsum, `chain`: how the planner brings that to the weight, where it lies otherwise;
    `summed`: axes over which it is a sum; `total`: the buffer of the sum over micro-batches.
    """

    tensor: TensorName
    gradient: TensorName
    home: Buffer
    raw: Buffer
    chain: Sequence[Move]
    summed: tuple[AxisName, ...]
    shard: Shard | None
    total: BufferName = ""

    @property
    def lies(self) -> Placement:
        """How gradient and state, with ZeRO 3 the weight as well, lie at the end of a step."""
        return self.shard.placement if self.shard else self.home.placement


class Ending:
    """The end of a step while it is made.

    `fills`: sums that begin at 0; `after`: what follows the step that writes a gradient, or the loss; `reduce`,
    `update`: steps behind all micro-batches; `gathers`: by the whole buffer of a weight what gathers it, with ZeRO 3;
    `first`: tensors that are there from the begin on; `results`: what is there at the end; `handed`: parts of gradients
    for the update by another stage, with that stage; `added`: parts that come from others.
    """

    def __init__(self, spread: SpreadProgram, number: int) -> None:
        self.spread, self.program, self.number = spread, spread.program, number
        self.stage: Spread = spread.stages[number]
        self.plan: Plan = self.stage.plan
        self.zero = self.program.plan.zero
        self.groups = [axis for axis in self.plan.mesh.names if axis in self.stage.machine.axes["dp"]]
        parts = {buffer.tensor: buffer.sizes for stage in spread.stages for buffer in stage.plan.buffers}
        sizes = {**parts, **self.program.sizes[number], **{buffer.tensor: buffer.sizes for buffer in self.plan.buffers}}
        self.names = Names(sizes, self.plan.buffers)
        self.fills: list[Fill] = []
        self.after: dict[BufferName, list[PlanStep]] = {}
        self.reduce: list[PlanStep] = []
        self.update: list[PlanStep] = []
        self.gathers: dict[BufferName, Move] = {}
        self.first: dict[TensorName, BufferName] = {}
        self.results: dict[TensorName, BufferName] = {}
        self.handed: dict[TensorName, tuple[int, BufferName]] = {}
        self.added: dict[TensorName, BufferName] = {}
        self.einsums: list[Einsum] = []
        gradients = self.stage.layer.gradients
        self.weights = {gradient: self._weight(weight, gradient) for weight, gradient in gradients.items()}
        for weight in self.weights.values():
            self._sum(weight)
            self._end(weight)

    def _weight(self, tensor: TensorName, gradient: TensorName) -> StageWeight:
        mesh, by_name = self.plan.mesh, self.plan.by_name
        home = by_name[dict(self.plan.inputs)[tensor]]
        results = (pair for step in self.plan.steps if isinstance(step, Local) for pair in step.results)
        raw = by_name[next(name for written, name in results if written == gradient)]
        moves = (step for step in self.plan.steps if isinstance(step, Move))
        chain = [move for move in moves if by_name[move.source].tensor == gradient]
        partial = raw.placement.partial
        if raw.placement.splits != home.placement.splits:
            partial = ()
        else:
            chain = []
        real = [axis for axis in mesh.names if mesh.size(axis) > 1 and axis not in home.placement.used]
        summed = tuple(axis for axis in real if axis in self.groups or axis in partial)
        alike = tuple(axis for axis in real if axis not in summed)
        shard = shard_of(home, mesh, alike, summed) if self.zero and real else None
        return StageWeight(tensor, gradient, home, raw, chain, summed, shard)

    def add_up(self, made: Buffer, placement: Placement, before: Sequence[PlanStep], added: BufferName) -> BufferName:
        """A buffer to which another is added in each micro-batch: once `made` is written and `before` is done."""
        total = self.names.make(made.tensor, "A", placement)
        self.fills.append(Fill(total, "sum"))
        self.after[made.name] = [*before, Combine(total, added, total)]
        return total

    def over_groups(self, placement: Placement) -> Placement:
        """The placement of something that is still to be added over data parallel groups."""
        over = [axis for axis in self.groups if self.plan.mesh.size(axis) > 1]
        return replace(placement, partial=(*placement.partial, *over))

    def _sum(self, weight: StageWeight) -> None:
        """Add a gradient up over micro-batches: as it comes, with ZeRO 2 and 3 in its parts."""
        raw = weight.raw
        if self.zero < 2:
            total = self.add_up(raw, self.over_groups(raw.placement), (), raw.name)
            steps, weight.total = self._reduced(weight, total)
            self.reduce += steps
        else:
            steps, part = self._reduced(weight, raw.name)
            weight.total = self.add_up(raw, weight.lies, steps, part)

    def _reduced(self, weight: StageWeight, source: BufferName) -> tuple[list[PlanStep], BufferName]:
        """Steps from a gradient as it comes to what a PE keeps of it, and the buffer of that."""
        steps: list[PlanStep] = []
        for move in weight.chain:
            placement = self.over_groups(self.plan.by_name[move.target].placement)
            target = self.names.make(weight.gradient, LETTER[move.kind], placement)
            steps.append(replace(move, source=source, target=target))
            source = target
        shard = weight.shard
        if shard is None and weight.summed:
            target = self.names.make(weight.gradient, "R", weight.home.placement)
            steps.append(Move("all_reduce", source, target, weight.summed))
            source = target
        if shard is not None and shard.alike:
            target = self.names.make(weight.gradient, "S", self.over_groups(shard.before))
            steps.append(Move("slice", source, target, shard.alike, scatter=shard.rank))
            source = target
        if shard is not None and shard.summed:
            target = self.names.make(weight.gradient, "D", shard.placement)
            steps.append(Move("reduce_scatter", source, target, shard.summed, scatter=shard.rank))
            source = target
        return steps, source

    def _end(self, weight: StageWeight) -> None:
        """Hand the sum of a gradient to the stage that updates the weight, or update it here."""
        part = self.program.part
        gradients = [stage.layer.gradients.get(weight.tensor) for stage in self.spread.stages]
        owner = next(i for i, gradient in enumerate(gradients) if gradient)
        if weight.shard and self.zero == 3:
            shard = weight.shard
            self.first[weight.tensor] = name = self.names.make(weight.tensor, "D", weight.lies)
            self.gathers[weight.home.name] = Move("all_gather", name, weight.home.name, shard.axes, gather=shard.rank)
        else:
            self.first[weight.tensor] = weight.home.name
        if owner != self.number:
            self.handed[weight.gradient] = owner, weight.total
            return
        buffers = {weight.gradient: weight.total}
        whole = part.gradients[weight.tensor]
        others = [gradient for gradient in gradients[owner + 1 :] if gradient]
        if others:
            added = {tensor: self.names.make(tensor, "S", weight.lies) for tensor in others}
            self.added |= added
            buffers |= added
            total = joined(part.workload.by_name[part.workload.producers[whole]], [*buffers], whole)
            self._local(total, weight, buffers)
        self.results[whole] = buffers[whole]
        if part.update:
            self._updated(weight, buffers, part.update)

    def _updated(self, weight: StageWeight, buffers: dict[TensorName, BufferName], update: Update) -> None:
        following, shard = update.weights[weight.tensor], weight.shard
        for name in update.by_weight[weight.tensor]:
            einsum = self.program.part.workload.by_name[name]
            if weight.tensor in einsum.inputs:
                buffers[weight.tensor] = self.first[weight.tensor]
                if shard and self.zero < 3:
                    whole, buffers[weight.tensor] = weight.home.name, self.names.make(weight.tensor, "S", weight.lies)
                    self.update.append(Move("slice", whole, buffers[weight.tensor], shard.axes, scatter=shard.rank))
            self._local(einsum, weight, buffers)
        self.results[following] = buffers[following]
        if shard and self.zero < 3:
            self.results[following] = gathered = self.names.make(following, "G", weight.home.placement)
            self.update.append(Move("all_gather", buffers[following], gathered, shard.axes, gather=shard.rank))

    def _local(self, einsum: Einsum, weight: StageWeight, buffers: dict[TensorName, BufferName]) -> None:
        """An Einsum, element by element, on what a PE has of a weight; graph inputs are there from the begin on."""
        over: dict[RankVar, tuple[tuple[AxisName, ...], int]] = {}
        for access in einsum.accesses:
            is_number = not any(index.terms for _, index in access.projection)
            placement = REPLICATED if is_number else weight.lies
            for rank, index in access.projection:
                split = placement.of(rank)
                if split and index.terms:
                    over[index.terms[0][0]] = split.axes, split.block
            if access.tensor in buffers:
                continue
            if not access.output and access.tensor in self.first:
                buffers[access.tensor] = self.first[access.tensor]
            else:
                buffers[access.tensor] = self.names.make(access.tensor, "D" if placement.used else "", placement)
                if not access.output:
                    self.first[access.tensor] = buffers[access.tensor]
        self.einsums.append(einsum)
        self.update.append(local_of(einsum, buffers, over))
