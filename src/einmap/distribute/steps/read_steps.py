"""Steps of a file as actions, each checked against what is there at that time.

A step reads versions of tensors, told by their placements; the first ones are the graph inputs where they are put. An
Einsum is spread by its loops in one of the ways of `choices`, which says how its results come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from einmap.distribute.choices import Choice, Scene, choices
from einmap.distribute.hops.every import hops_between
from einmap.distribute.hops.hop import Hop
from einmap.distribute.placements.blocks import Part
from einmap.distribute.placements.placement import REPLICATED, Placement, block_of
from einmap.distribute.placements.request import (
    Context,
    Request,
    Where,
    axes_at,
    check_block,
    dictionary_at,
    loop_axes_at,
    placement_at,
)
from einmap.distribute.plans.collectives import KINDS
from einmap.distribute.steps.actions import Computed, Moved, PlanAction
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.numeric import graph_inputs
from einmap.einsum.spaces.projection import RankVar
from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.visible import short

STEPS = "steps"
_COMPUTE, _MOVE = ("compute", "loops", "reads"), ("move", "by", "over", "before", "after")
_EXAMPLE = "write {compute: Z, loops: {m: x}, reads: {A: {M: x}}} or {move: Z, by: all_gather, over: x, before: {M: x}}"


def read_steps(context: Context, request: Request, value: Any) -> tuple[PlanAction, ...]:
    """The actions that `value`, the list at the key `steps`, says, graph inputs where `request` puts them.

    Raises SpecError for the first step that cannot be done, for Einsums that are missing, and where the other keys of
    the request say something else (all of these together).
    """
    if not isinstance(value, list):
        raise context.error((STEPS,), f"expected a list of steps, found {short(value)}", _EXAMPLE)
    reader = _Reader(context, request)
    for position, step in enumerate(value):
        reader.read((STEPS, position), step)
    raise_all(reader.contradictions())
    return tuple(reader.actions)


class _Reader:
    """State after the steps so far. `held`: versions of each tensor, in the order in which they were made."""

    def __init__(self, context: Context, request: Request) -> None:
        self.context = context
        self.request = request
        self.actions: list[PlanAction] = []
        self.held: dict[TensorName, list[Placement]] = {
            tensor: [request.placements.get(tensor, REPLICATED)] for tensor in graph_inputs(context.workload)
        }
        self.spread: dict[str, Mapping[RankVar, tuple[str, ...]]] = {}

    def read(self, where: Where, step: Any) -> None:
        """Take one more step. Raises SpecError where it cannot be done."""
        fields = dictionary_at(self.context, where, step, "what a step does")
        known = _COMPUTE if "compute" in fields else _MOVE if "move" in fields else ()
        if not known:
            raise self.context.error(where, "a step is called `compute` or `move`, this one is neither", _EXAMPLE)
        for key in fields:
            if key not in known:
                hint = did_you_mean(key, known, listing="fields")
                raise self.context.error((*where, key), f"a step to {known[0]} has no field {key!r}", hint)
        if known is _COMPUTE:
            self._compute(where, fields)
        else:
            self._move(where, fields)

    def contradictions(self) -> list[EinmapError]:
        """Problems: what is missing, and what the other keys say that the steps do not."""
        context, request = self.context, self.request
        problems: list[EinmapError] = [
            context.error((STEPS,), f"no step computes Einsum {name!r}")
            for name in context.workload.einsum_names
            if name not in self.spread
        ]
        for tensor, placement in request.placements.items():
            if placement not in self.held.get(tensor, [placement]):
                made = " and ".join(map(str, self.held[tensor]))
                text = f"{tensor!r} is asked for as {placement}, but the steps make it {made}"
                problems.append(context.error(("placements", tensor), text, _DERIVE))
        for name, loops in request.loops.items():
            if dict(loops) != dict(self.spread.get(name, loops)):
                text = f"Einsum {name!r} is spread in another way by the steps: {_loops(self.spread[name])}"
                problems.append(context.error(("loops", name), text, _DERIVE))
        return problems

    # Einsums

    def _compute(self, where: Where, fields: Mapping[str, Any]) -> None:
        context, name = self.context, fields["compute"]
        here = (*where, "compute")
        if not isinstance(name, str) or name not in context.workload.by_name:
            hint = did_you_mean(str(name), context.workload.by_name, listing="Einsums")
            raise context.error(here, f"the workload has no Einsum {short(name)}", hint)
        if name in self.spread:
            raise context.error(here, f"Einsum {name!r} was computed before")
        einsum = context.workload.find(name)
        parts = self._parts((*where, "loops"), einsum, fields.get("loops"))
        reads = self._reads((*where, "reads"), einsum, fields.get("reads"))
        choice = self._way(where, einsum, parts, reads)
        lies = [(access.tensor, place) for access, place in zip(einsum.accesses, choice.placements, strict=True)]
        results = tuple((tensor, place) for tensor, place in lies if tensor in einsum.outputs)
        operands = tuple((tensor, place) for tensor, place in lies if tensor not in einsum.outputs)
        self.actions.append(Computed(name, choice.loops, operands, results))
        self.spread[name] = {variable: axes for variable, (axes, _) in parts.items()}
        for tensor, place in results:
            self.held.setdefault(tensor, []).append(place)

    def _parts(self, where: Where, einsum: Einsum, value: Any) -> dict[RankVar, Part]:
        """Axes and block of each rank variable that is split."""
        context, parts = self.context, dict[RankVar, Part]()
        for variable, text in dictionary_at(context, where, value, "rank variables and their mesh axes").items():
            here = (*where, variable)
            fields = dict(text) if isinstance(text, Mapping) else {"axes": text}
            if not {"axes"} <= set(fields) <= {"axes", "block"}:
                raise context.error(here, f"expected axes and perhaps block, found {', '.join(map(str, fields))}")
            axes, extent = loop_axes_at(context, here, einsum, fields["axes"]), einsum.extents[variable]
            count = context.mesh.parts(axes)
            block = fields.get("block", block_of(extent, count))
            check_block(context, here, block, extent, count)
            parts[variable] = axes, block
        used = [axis for axes, _ in parts.values() for axis in axes]
        for axis in used:
            if used.count(axis) > 1:
                raise context.error(where, f"mesh axis {axis!r} is used twice in the loops of {einsum.name!r}")
        return parts

    def _reads(self, where: Where, einsum: Einsum, value: Any) -> dict[TensorName, Placement]:
        """Where each operand lies."""
        context, asked = self.context, dictionary_at(self.context, where, value, "tensors and their placements")
        for tensor in asked:
            if tensor not in einsum.inputs:
                hint = did_you_mean(tensor, einsum.inputs, listing="operands")
                raise context.error((*where, tensor), f"Einsum {einsum.name!r} does not read {tensor!r}", hint)
        return {
            access.tensor: self._version((*where, access.tensor), access.tensor, asked.get(access.tensor))
            for access in einsum.accesses
            if not access.output
        }

    def _way(
        self, where: Where, einsum: Einsum, parts: Mapping[RankVar, Part], reads: Mapping[TensorName, Placement]
    ) -> Choice:
        """The way to spread an Einsum that reads its operands as they lie."""
        context = self.context
        scene = Scene(
            context.mesh,
            einsum,
            tuple(tuple(context.sizes[access.tensor].items()) for access in einsum.accesses),
            tuple((variable, (part,)) for variable, part in parts.items()),
            tuple((tensor, (place.reduction, place.partial)) for tensor, place in reads.items() if place.partial),
            tuple({place.on: None for place in reads.values() if place.on}),
        )
        ways = choices(scene, tuple((variable, axes) for variable, (axes, _) in parts.items()))
        for choice in ways:
            pairs = zip(einsum.accesses, choice.placements, strict=True)
            if all(access.output or reads[access.tensor] == place for access, place in pairs):
                return choice
        if not ways:
            text = f"Einsum {einsum.name!r} cannot be spread over {_loops(self._axes(parts))}"
            raise context.error(where, text, "split the rank variable that leads each index of the results")
        placed = zip(einsum.accesses, ways[0].placements, strict=True)
        needed = "; ".join(f"{access.tensor} as {place}" for access, place in placed if not access.output)
        found = "; ".join(f"{tensor} as {place}" for tensor, place in reads.items())
        text = f"Einsum {einsum.name!r} spread over {_loops(self._axes(parts))} reads {needed}; here it reads {found}"
        raise context.error((*where, "reads"), text, "move the operands there before, or spread it in another way")

    @staticmethod
    def _axes(parts: Mapping[RankVar, Part]) -> dict[RankVar, tuple[str, ...]]:
        return {variable: axes for variable, (axes, _) in parts.items()}

    # moves

    def _move(self, where: Where, fields: Mapping[str, Any]) -> None:
        context, tensor = self.context, fields["move"]
        if not isinstance(tensor, str) or tensor not in context.workload.tensors:
            hint = did_you_mean(str(tensor), context.workload.tensors, listing="tensors")
            raise context.error((*where, "move"), f"the workload has no tensor {short(tensor)}", hint)
        kind = fields.get("by")
        if kind not in KINDS:
            text = f"expected a kind of move, found {short(kind)}"
            raise context.error((*where, "by"), text, did_you_mean(str(kind), KINDS, listing="kinds"))
        axes = axes_at(context, (*where, "over"), fields.get("over"))
        before = self._version((*where, "before"), tensor, fields.get("before"))
        after = placement_at(context, (*where, "after"), tensor, fields.get("after"))
        hop = self._hop(tensor, before, after, kind, axes)
        if hop is None:
            text = f"no {kind} over {'*'.join(axes)} brings {tensor!r} from {before} to {after}"
            raise context.error(where, text, _EXAMPLE)
        self.actions.append(Moved(tensor, before, hop))
        self.held[tensor].append(hop.after)

    def _hop(
        self, tensor: TensorName, before: Placement, after: Placement, kind: str, axes: tuple[str, ...]
    ) -> Hop | None:
        target = Placement(after.splits, after.partial, before.reduction, after.on)
        hops = hops_between(self.context.mesh, self.context.sizes[tensor], before, target)
        return next((hop for hop in hops if (hop.kind, hop.axes) == (kind, axes)), None)

    def _version(self, where: Where, tensor: TensorName, value: Any) -> Placement:
        """The version of a tensor that lies so; how addends are joined is known from where they were made."""
        asked = placement_at(self.context, where, tensor, value)
        for place in self.held.get(tensor, ()):
            if (place.splits, place.partial, place.on) == (asked.splits, asked.partial, asked.on):
                return place
        raise self._not_there(where, tensor, asked)

    def _not_there(self, where: Where, tensor: TensorName, asked: Placement) -> SpecError:
        if tensor not in self.held:
            return self.context.error(where, f"{tensor!r} is not there yet", "compute it in a step before this one")
        there = "; or ".join(dict.fromkeys(map(str, self.held[tensor])))
        return self.context.error(where, f"{tensor!r} is not there as {asked}", f"it lies as {there}")


_DERIVE = "change the steps too, or leave `steps` out to have them derived"


def _loops(loops: Mapping[RankVar, tuple[str, ...]]) -> str:
    return ", ".join(f"{variable}: {'*'.join(axes)}" for variable, axes in loops.items()) or "nothing"
