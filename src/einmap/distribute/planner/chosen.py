"""One plan with what it costs, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from einmap.distribute.costs.cost import communication, step_costs
from einmap.distribute.costs.cost_model import ClusterCost, CostModel, LocalWork, hop_cost
from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.placements.placement import Placement
from einmap.distribute.placements.request import Turns
from einmap.distribute.plans.lifetimes import PeakMemory, peak_memory
from einmap.distribute.plans.plan import BYTES, Dtype, Local, Move, Plan, PlanStep
from einmap.distribute.plans.points import points_of
from einmap.distribute.search.search import Found
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.steps.actions import Computed, Moved, PlanAction
from einmap.distribute.steps.naming import named_plan
from einmap.einsum.einsum import TensorName
from einmap.einsum.spaces.projection import RankVar
from einmap.visible import brief


@dataclass(frozen=True, slots=True)
class Part:
    """Cost of one step of a plan. `what`: "computing Z" or "all-gather of K"; `sent`: bytes that one PE sends."""

    what: str
    cost: float
    sent: float


@dataclass(frozen=True)
class ChosenPlan:
    """A plan. `cost`, `bound`: in the unit of the metric; `proven`: none costs less; `bits`: of a value by tensor;
    `turns`: what runs in turns in `plan`, which `actions` do one after another, None: nothing.
    """

    __repr__ = brief

    plan: Plan
    actions: tuple[PlanAction, ...]
    homes: Mapping[TensorName, tuple[Placement, ...]]
    cost: float
    bound: float
    proven: bool
    parts: tuple[Part, ...]
    bits: Mapping[TensorName, float]
    turns: Turns | None = None

    @cached_property
    def peak(self) -> PeakMemory:
        """The largest memory of a PE."""
        return peak_memory(self.plan, self.bits)

    @cached_property
    def loops(self) -> Mapping[str, Mapping[RankVar, tuple[AxisName, ...]]]:
        """Of each Einsum the axes that its rank variables are split over."""
        return {
            action.einsum: {loop.variable: loop.axes for loop in action.loops if loop.is_split}
            for action in self.actions
            if isinstance(action, Computed)
        }

    @property
    def sent_bytes(self) -> float:
        """Bytes that one PE sends."""
        return sum(part.sent for part in self.parts)


def chosen_plan(space: SearchSpace, found: Found, model: CostModel, dtype: Dtype = "float32") -> ChosenPlan:
    """A plan that was found, with the parts of its cost in the order of its steps."""
    context = space.context
    sizes = {tensor: tuple(ranks.items()) for tensor, ranks in context.sizes.items()}
    workload = context.workload
    inputs = {tensor: found.homes[tensor][0] for tensor in workload.tensors if tensor not in workload.producers}
    plan = named_plan(context.mesh, workload, sizes, inputs, found.actions, dtype)
    parts = tuple(_part(space, action, model) for action in found.actions)
    return ChosenPlan(plan, found.actions, found.homes, found.cost, found.bound, found.proven, parts, space.bits)


def in_turns(chosen: ChosenPlan, turns: Turns, plan: Plan, model: ClusterCost) -> ChosenPlan:
    """A plan with Einsums in turns, as `plan` has them; nothing is proven of it."""
    parts = _parts_in_turns(plan, turns, model, chosen.bits)
    cost = sum(part.cost for part in parts)
    return replace(chosen, plan=plan, turns=turns, cost=cost, bound=0.0, proven=False, parts=parts)


def parts_of(space: SearchSpace, chosen: ChosenPlan, model: ClusterCost) -> tuple[Part, ...]:
    """Costs of the steps by a cost model, which need not be the one that it was chosen by."""
    if chosen.turns is not None:
        return _parts_in_turns(chosen.plan, chosen.turns, model, chosen.bits)
    return tuple(_part(space, action, model) for action in chosen.actions)


def _parts_in_turns(plan: Plan, turns: Turns, model: ClusterCost, bits: Mapping[TensorName, float]) -> tuple[Part, ...]:
    def what(step: PlanStep) -> str:
        match step:
            case Local(einsum=name):
                return f"computing {name}"
            case Move(kind=kind, source=source):
                return f"the {kind.replace('_', '-')} of {plan.by_name[source].tensor}"
            case _:
                return f"turns of {', '.join(turns.einsums)}"

    width = 8 * BYTES[plan.dtype]
    made: dict[str, Part] = {}
    for step, cost in zip(plan.steps, step_costs(plan, model, bits), strict=True):
        rows = communication(replace(plan, steps=(step,)))
        sent = sum(row.total_sent_bytes * bits.get(row.tensor, width) / width for row in rows)
        if cost or sent:
            before = made.get(what(step), Part(what(step), 0.0, 0.0))
            made[what(step)] = Part(before.what, before.cost + cost, before.sent + sent)
    return tuple(made.values())


def _part(space: SearchSpace, action: PlanAction, model: CostModel) -> Part:
    mesh = space.context.mesh
    match action:
        case Moved(tensor=tensor, hop=hop):
            bits = space.bits[tensor]
            sent = float(hop.sent_values / mesh.n_devices * bits / 8)
            if hop.kind == "slice":
                return Part(f"cutting {tensor}", 0.0, 0.0)
            cost = hop_cost(model, mesh, hop, bits)
            return Part(f"the {hop.kind.replace('_', '-')} of {tensor}", cost, sent)
        case Computed(einsum=name, loops=loops):
            einsum = space.context.workload.find(name)
            touched = (*action.operands, *action.results)
            moved = actual = 0.0
            for tensor, placement in touched:
                places = space.homes[tensor].paths.places
                moved += float(places.values[places.number[placement]]) * space.bits[tensor]
                actual += float(places.actual[places.number[placement]]) * space.bits[tensor]
            widest = max(space.bits[tensor] for tensor, _ in touched)
            work = LocalWork.of(einsum, loops, points_of(einsum, loops, mesh), (moved, actual), widest)
            return Part(f"computing {name}", model.of(einsum).compute(mesh, work), 0.0)
