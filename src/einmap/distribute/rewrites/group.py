"""Einsums of a plan that run together in turns: which steps they are, and which of their ranks go block by block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from einmap.distribute.placements.indices import mixed_radix
from einmap.distribute.placements.request import Turns
from einmap.distribute.plans.plan import BufferName, Local, Move, Plan, PlanStep, Repeat, buffers_read, buffers_written
from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.spaces.projection import Rank, RankVar
from einmap.errors import At, SpecError


@dataclass(frozen=True, slots=True)
class Member:
    """One Einsum of the group, and its rank variable that goes block by block."""

    step: Local
    einsum: Einsum
    variable: RankVar

    def ranks(self, tensor: TensorName) -> tuple[tuple[Rank, int], ...]:
        """The ranks of a tensor that the variable leads, with its factor: one of its values is so many coordinates."""
        return led(self.einsum, self.einsum.by_tensor[tensor], self.variable)

    @property
    def extent(self) -> int:
        """Values of the variable."""
        return self.einsum.extents[self.variable]


@dataclass(frozen=True, slots=True)
class Group:
    """The Einsums in order, and the other steps of the plan: those that come before all of them, and those after."""

    members: tuple[Member, ...]
    before: tuple[PlanStep, ...]
    after: tuple[PlanStep, ...]

    @property
    def made(self) -> Mapping[BufferName, TensorName]:
        """Buffers that the Einsums write, and their tensors."""
        return {name: tensor for member in self.members for tensor, name in member.step.results}

    def read_later(self, plan: Plan) -> frozenset[BufferName]:
        """Buffers that steps outside of the group read, or that are outputs."""
        return frozenset(name for step in (*self.before, *self.after) for name in buffers_read(step)) | frozenset(
            name for _, name in plan.outputs
        )


@dataclass(frozen=True, slots=True)
class Gathered:
    """A tensor that is gathered for the group: `move` is the all-gather."""

    tensor: TensorName
    move: Move


def group_of(plan: Plan, asked: Turns, at: At | None) -> Group:
    """The steps of the Einsums. Raises SpecError, with the reason, where they cannot run together in turns."""
    steps = {step.einsum: step for step in plan.steps if isinstance(step, Local) and step.einsum in asked.einsums}
    for name in asked.einsums:
        if name not in steps or any(name in _einsums(step) for step in plan.steps if isinstance(step, Repeat)):
            raise SpecError(f"Einsum {name!r} is in a loop already", at=at, hint="name it in one place only")
    locals_ = list(steps.values())
    before, after = _around(plan, locals_, at)
    members: list[Member] = []
    for step in locals_:
        members.append(_member(plan, step, members, asked, at))
    return Group(tuple(members), before, after)


def _einsums(step: PlanStep) -> set[str]:
    match step:
        case Local(einsum=name):
            return {name}
        case Repeat(steps=steps):
            return {name for inner in steps for name in _einsums(inner)}
    return set()


def _around(plan: Plan, locals_: Sequence[Local], at: At | None) -> tuple[tuple[PlanStep, ...], tuple[PlanStep, ...]]:
    """The other steps, in order: what stands between the Einsums and depends on none of them comes before."""
    inside: set[BufferName] = set()
    later: dict[BufferName, PlanStep] = {}
    before: list[PlanStep] = []
    after: list[PlanStep] = []
    last = plan.steps.index(locals_[-1])
    for position, step in enumerate(plan.steps):
        read = buffers_read(step)
        if isinstance(step, Local) and step in locals_:
            for name in sorted(read & set(later)):
                other = later[name]
                what = other.kind.replace("_", "-") if isinstance(other, Move) else "another Einsum"
                raise SpecError(
                    f"Einsum {step.einsum!r} reads {plan.by_name[name].tensor!r} after {what}, which waits for an "
                    "Einsum of the same turns",
                    at=at,
                    hint="name the Einsums between them as well, or keep the placements of what they pass on",
                )
            inside |= buffers_written(step)
        elif position > last or read & (inside | set(later)):
            after.append(step)
            later.update(dict.fromkeys(buffers_written(step), step))
        else:
            before.append(step)
    return tuple(before), tuple(after)


def _member(plan: Plan, step: Local, others: Sequence[Member], asked: Turns, at: At | None) -> Member:
    """The Einsum with the variable that goes through what the Einsums before it pass on in blocks."""
    einsum = plan.einsum(step.einsum)
    blocks = {tensor: other.ranks(tensor) for other in others for tensor, _ in other.step.results}
    found: set[RankVar] = set()
    for tensor, _ in step.operands:
        for rank, _ in blocks.get(tensor, ()):
            radix = mixed_radix(einsum, dict(einsum.by_tensor[tensor].projection)[rank])
            if radix is None or radix.leading is None:
                raise SpecError(f"{step.einsum!r} reads rank {rank} of {tensor!r} in no order of blocks", at=at)
            found.add(radix.leading[0])
    variables = found or {asked.variable}
    if len(variables) > 1 or not variables <= set(einsum.extents):
        names = ", ".join(sorted(variables))
        text = f"Einsum {step.einsum!r} does not go along with the turns: they would be over {names} in it"
        raise SpecError(text, at=at, hint="leave it out")
    member = Member(step, einsum, min(variables))
    loop = next(loop for loop in step.loops if loop.variable == member.variable)
    if loop.is_split:
        raise SpecError(
            f"rank variable {loop.variable!r} of {step.einsum!r} is split over {'*'.join(loop.axes)}, "
            "not whole on each PE",
            at=at,
            hint=f"pin its loops so that each PE has all of {loop.variable}",
        )
    for tensor, _ in step.results:
        access = einsum.by_tensor[tensor]
        if member.variable in access.variables and not member.ranks(tensor):
            text = f"{tensor!r} cannot be written in blocks of {member.variable!r}, which leads none of its indices"
            raise SpecError(text, at=at)
    return member


def led(einsum: Einsum, access: TensorAccess, variable: RankVar) -> tuple[tuple[Rank, int], ...]:
    """Ranks of a tensor that a variable leads, with its factor."""
    found: list[tuple[Rank, int]] = []
    for rank, index in access.projection:
        radix = mixed_radix(einsum, index)
        if radix is not None and radix.leading is not None and radix.leading[0] == variable:
            found.append((rank, radix.leading[1]))
    return tuple(found)


def gathers(plan: Plan, group: Group, axes: Iterable[str]) -> dict[BufferName, Gathered]:
    """Tensors that are all-gathered over some of the axes for nobody else, in the rank that goes block by block, by the
    gathered buffer.
    """
    later = group.read_later(plan)
    moves = {
        step.target: step
        for step in group.before
        if isinstance(step, Move) and step.kind == "all_gather" and step.target not in later
    }
    found: dict[BufferName, Gathered] = {}
    for member in group.members:
        for tensor, name in member.step.operands:
            move = moves.get(name)
            ranks = member.ranks(tensor)
            if move and set(move.axes) <= set(axes) and [rank for rank, _ in ranks] == [move.gather]:
                found[name] = Gathered(tensor, move)
    return found
