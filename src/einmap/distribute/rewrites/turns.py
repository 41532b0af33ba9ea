"""Einsums that run in turns, block by block, while blocks of what they read travel from PE to PE.

    AG[m, k] = AD[x', m0, k]; ZD[x, m, n0] = AG[m, k] * BD[x, k, n0]
        -- in turns over m: x -->
    AH = AD
    G-1 times: the block AH * BD goes to its place in ZD; meanwhile AH is sent to the next PE
    the last block AH * BD goes to its place in ZD

In turn t PE i has block i - t (modulo G). The blocks of a summed rank variable are added up instead. Either way G-1
blocks are sent, as many bytes as an all-gather sends, and a PE holds two blocks of the operand rather than all (Wang et
al., "Overlap communication with dependent computation via decomposition in large deep learning models", ASPLOS 2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from einmap.distribute.placements.placement import Placement, Split
from einmap.distribute.placements.request import Turns
from einmap.distribute.plans.plan import (
    BufferName,
    Combine,
    Fill,
    Local,
    LocalLoop,
    Move,
    Plan,
    PlanStep,
    Put,
    Repeat,
    Turn,
)
from einmap.distribute.rewrites.group import Gathered, Group, Member, gathers, group_of
from einmap.distribute.rewrites.pace import Pace, pace_of
from einmap.distribute.rewrites.rescale import Total, completed, part_einsum, rescaled, total_of
from einmap.distribute.rewrites.running import Part, Parts, parts_of
from einmap.distribute.steps.naming import Names
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.operation import Operand
from einmap.einsum.spaces.projection import Rank
from einmap.errors import At, SpecError


def in_turns(plan: Plan, asked: Turns, at: At | None = None) -> Plan:
    """The plan with the Einsums of `asked` in turns, and without the all-gathers that this saves.

    Raises SpecError, with the reason, where nothing is gathered for them over these axes, or where they cannot be
    computed block by block.
    """
    group = group_of(plan, asked, at)
    gathered = gathers(plan, group, asked.axes)
    pace = pace_of(plan, group, gathered, asked, at)
    saved = {one.move.target for one in gathered.values()}
    builder = _Builder(plan, group, gathered, pace, parts_of(group, at), saved)
    builder.check_kept(at)
    last = replace(pace.turn, offset=pace.turn.stride * (pace.count - 1), stride=0)
    body = (*builder.turn(pace.turn), *builder.advance())
    loop = Repeat(pace.count - 1, body, tuple(builder.carried))
    before = [step for step in group.before if not (isinstance(step, Move) and step.target in saved)]
    steps = (*before, *builder.first, loop, *builder.turn(last), *builder.completions(), *group.after)
    used = {name for step in steps for name in _named(step)} | {name for _, name in (*plan.inputs, *plan.outputs)}
    buffers = tuple(buffer for buffer in builder.names.buffers if buffer.name in used)
    return replace(plan, buffers=buffers, steps=steps, derived=(*plan.derived, *builder.derived.values()))


def _named(step: PlanStep) -> set[BufferName]:
    match step:
        case Local(operands=operands, results=results):
            return {name for _, name in (*operands, *results)}
        case Move(source=source, target=target):
            return {source, target}
        case Combine(left=left, right=right, target=target):
            return {left, right, target}
        case Fill(target=target):
            return {target}
        case Put(part=part, whole=whole, target=target):
            return {part, whole, target}
        case Repeat(steps=steps, carried=carried):
            return {name for one in steps for name in _named(one)} | {name for names in carried for name in names}


@dataclass
class _Builder:
    """Makes the steps of a turn; buffers are the same in all turns.

    `first`: steps before the loop; `carried`: what goes from turn to turn; `derived`: Einsums that the workload lacks.
    """

    plan: Plan
    group: Group
    gathered: Mapping[BufferName, Gathered]
    pace: Pace
    parts: Parts
    saved: set[BufferName]
    names: Names = field(init=False)
    first: list[PlanStep] = field(default_factory=list)
    carried: list[tuple[BufferName, BufferName, BufferName]] = field(default_factory=list)
    derived: dict[str, Einsum] = field(default_factory=dict)
    _made: dict[tuple[str, str], BufferName] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sizes = {buffer.tensor: buffer.sizes for buffer in self.plan.buffers}
        self.names = Names(sizes, [buffer for buffer in self.plan.buffers if buffer.name not in self.saved])

    def turn(self, turn: Turn) -> list[PlanStep]:
        """One turn; `turn` says which block it takes."""
        steps: list[PlanStep] = []
        blocks: dict[BufferName, BufferName] = {}
        for member in self.group.members:
            part = self.parts.of[member.einsum.name]
            if (same := self._same(member, part, blocks)) is not None:
                blocks[member.step.results[0][1]] = same
                continue
            einsum = part_einsum(member, part)
            if einsum.name != member.einsum.name:
                self.derived[einsum.name] = einsum
            operands = []
            for tensor, name in member.step.operands:
                if tensor not in einsum.inputs:
                    continue
                if name in blocks:
                    operands.append((tensor, blocks[name]))
                elif name in self.gathered:
                    operands.append((tensor, self._here(self.gathered[name])))
                else:
                    operands.append((tensor, self._cut(steps, member, tensor, name, turn)))
            results, afterwards = self._results(member, blocks, turn)
            loop = LocalLoop(member.variable, self.pace.block_axes, member.extent, self.pace.size, turn)
            loops = tuple(loop if other.variable == member.variable else other for other in member.step.loops)
            steps += [Local(einsum.name, tuple(operands), tuple(results), loops), *afterwards]
        return steps

    def advance(self) -> list[PlanStep]:
        """Steps for what the next turn reads: from the next PE, or gathered."""
        steps: list[PlanStep] = []
        for gathered in {one.move.source: one for one in self.gathered.values()}.values():
            source, here = self.plan.by_name[gathered.move.source], self._here(gathered)
            following = self._once("next", source.name, gathered.tensor, "G" if self.pace.panels else "H", here)
            if self.pace.panels:
                begin = replace(self.pace.turn, stride=0)
                self.first += self._panel(gathered, here, begin)
                steps += self._panel(gathered, following, replace(self.pace.turn, offset=self.pace.turn.stride))
                self.carried.append((here, here, following))
                continue
            start = source.name
            if self.pace.skewed:
                start = self._once("skewed", source.name, gathered.tensor, "H", source.placement)
                self.first.append(self._skew(gathered, start))
            self.carried.append((start, here, following))
            steps.append(Move("shift", here, following, gathered.move.axes, offset=1))
        return steps

    def _skew(self, gathered: Gathered, target: BufferName) -> Move:
        """PEs at (i, j) exchange blocks so that each has block i + j."""
        axes = gathered.move.axes
        (other,) = [one for one in self.pace.turn.over if one != axes]
        return Move("shift", gathered.move.source, target, (*other, *axes), offset=-1, skew=other)

    def _panel(self, gathered: Gathered, target: BufferName, turn: Turn) -> list[PlanStep]:
        """A part of each block, gathered."""
        move = gathered.move
        source = self.plan.by_name[move.source]
        split = source.placement.of(move.gather or "")
        assert split is not None
        part = _split_as(source.placement, split, Split(split.rank, split.axes, split.block // self.pace.count))
        pieces = turn.pieces // self.plan.mesh.parts(move.axes)
        cut = self._once("panel", source.name, gathered.tensor, "S", part)
        return [
            Move("slice", source.name, cut, move.axes, scatter=split.rank, turn=replace(turn, pieces=pieces)),
            replace(move, source=cut, target=target),
        ]

    def _once(
        self, use: str, name: str, tensor: TensorName, letter: str, placement: Placement | BufferName
    ) -> BufferName:
        """One buffer for each use, placed so or as another buffer; made when it is asked for first."""
        if (use, name) not in self._made:
            if isinstance(placement, str):
                placement = next(buffer.placement for buffer in self.names.buffers if buffer.name == placement)
            self._made[use, name] = self.names.make(tensor, letter, placement)
        return self._made[use, name]

    def _here(self, gathered: Gathered) -> BufferName:
        """The buffer of a turn for a tensor that would be gathered: a block, or a gathered panel."""
        move = gathered.move
        source = self.plan.by_name[move.source]
        if not self.pace.panels:
            return self._once("here", source.name, gathered.tensor, "H", source.placement)
        split = source.placement.of(move.gather or "")
        assert split is not None
        size = split.block // self.pace.count * self.plan.mesh.parts(move.axes)
        panel = _split_as(source.placement, split, Split(split.rank, (), size))
        return self._once("here", source.name, gathered.tensor, "G", panel)

    def _cut(
        self, steps: list[PlanStep], member: Member, tensor: TensorName, name: BufferName, turn: Turn
    ) -> BufferName:
        """The block of an operand that the PE has whole; all of it where no single rank is led by the variable."""
        ranks = member.ranks(tensor)
        if len(ranks) != 1:
            return name
        ((rank, factor),) = ranks
        block = self._once("cut", name, tensor, "S", self._block(name, rank, factor))
        if not any(isinstance(step, Move) and step.target == block for step in steps):
            steps.append(Move("slice", name, block, self.pace.axes, scatter=rank, turn=turn))
        return block

    def _block(self, name: BufferName, rank: Rank, factor: int) -> Placement:
        whole = self.plan.by_name[name].placement
        return _split_as(whole, None, Split(rank, self.pace.block_axes, self.pace.size * factor))

    def _results(
        self, member: Member, blocks: dict[BufferName, BufferName], turn: Turn
    ) -> tuple[list[tuple[TensorName, BufferName]], list[PlanStep]]:
        """Where an Einsum writes, and what is done with it: added up, or put to its place."""
        results: list[tuple[TensorName, BufferName]] = []
        steps: list[PlanStep] = []
        for tensor, name in member.step.results:
            ranks = member.ranks(tensor)
            if not ranks:
                part = self._once("part", name, tensor, "L", self.plan.by_name[name].placement)
                reduction = member.einsum.operation.reduction
                total = self._total(tensor, name)
                so_far = self._so_far(name, total, Fill(name, reduction))
                if any(kind == "exp" for kind, _ in self.parts.factors[tensor]):
                    so_far = self._rescale(steps, member, tensor, so_far)
                steps.append(Combine(so_far, part, total, reduction))
            else:
                ((rank, factor),) = ranks
                part = blocks[name] = self._once("part", name, tensor, "B", self._block(name, rank, factor))
                if name in self.group.read_later(self.plan):
                    so_far = self._so_far(name, name, Fill(name))
                    steps.append(Put(part, so_far, name, rank, turn))
            results.append((tensor, part))
        return results, steps

    def check_kept(self, at: At | None) -> None:
        """Raise SpecError for a result that is put together block by block, but changes with totals so far."""
        for member in self.group.members:
            for tensor, name in member.step.results:
                factors = self.parts.factors[tensor]
                if member.ranks(tensor) and factors and name in self.group.read_later(self.plan):
                    totals = " and ".join(repr(total) for _, total in factors)
                    text = f"blocks of {tensor!r}, which is read after the turns, are not complete before {totals}"
                    raise SpecError(text, at=at, hint="leave it out of the turns")

    def completions(self) -> list[PlanStep]:
        """Steps that give totals what they lack until other totals are complete."""
        steps: list[PlanStep] = []
        complete = {tensor: name for name, tensor in self.group.made.items()}
        for member in self.group.members:
            for tensor, name in member.step.results:
                if not member.ranks(tensor) and (total := self._total(tensor, name)) != name:
                    factors = self.parts.factors[tensor]
                    einsum, step = completed(self._described(member, tensor), factors, complete, total, name)
                    self.derived[einsum.name] = einsum
                    steps.append(step)
        return steps

    def _rescale(self, steps: list[PlanStep], member: Member, tensor: TensorName, so_far: BufferName) -> BufferName:
        """A total so far with the factors that it has now."""
        name = dict(member.step.results)[tensor]
        target = self._once("rescaled", name, tensor, "A", so_far)
        changing = [total for kind, total in self.parts.factors[tensor] if kind == "exp"]
        buffers = {total: made for made, total in self.group.made.items()}
        before = {total: self._made["so far", buffers[total]] for total in changing}
        now = {total: self._total(total, buffers[total]) for total in changing}
        total = self._described(member, tensor)
        einsum, step = rescaled(total, self.parts.factors[tensor], before, now, so_far, target)
        self.derived[einsum.name] = einsum
        steps.append(step)
        return target

    def _described(self, member: Member, tensor: TensorName) -> Total:
        buffer = self.plan.by_name[dict(member.step.results)[tensor]]
        return total_of(buffer, member.einsum.by_tensor[tensor].bits_per_value)

    def _total(self, tensor: TensorName, name: BufferName) -> BufferName:
        """Where a total is kept: where the result is to be, unless a factor is missing there until the end."""
        factors = self.parts.factors[tensor]
        if not any(kind == "power" for kind, _ in factors):
            return name
        return self._once("total", name, tensor, "A", self.plan.by_name[name].placement)

    def _same(self, member: Member, part: Part, blocks: Mapping[BufferName, BufferName]) -> BufferName | None:
        """The block that an Einsum would only copy, once its factors are left for later."""
        match part.map, member.step.results:
            case Operand(read), ((tensor, name),) if part.map != member.einsum.operation.map:
                source = dict(member.step.operands)[read]
                accesses = member.einsum.by_tensor
                kept = name in self.group.read_later(self.plan) or not member.ranks(tensor)
                if source in blocks and not kept and accesses[read].projection == accesses[tensor].projection:
                    return blocks[source]
        return None

    def _so_far(self, name: BufferName, total: BufferName, fill: Fill) -> BufferName:
        """The buffer of a result before a turn; `total`: after it."""
        known = ("so far", name) in self._made
        buffer = self.plan.by_name[name]
        so_far = self._once("so far", name, buffer.tensor, "A", buffer.placement)
        if not known:
            self.first.append(replace(fill, target=so_far))
            self.carried.append((so_far, so_far, total))
        return so_far


def _split_as(placement: Placement, old: Split | None, new: Split) -> Placement:
    """The placement with a split in place of another one, or beside those that there are."""
    return replace(placement, splits=(*(one for one in placement.splits if one != old), new))
