"""A layer on the devices of one stage: seconds and collectives of its passes, what it holds, the weights it has."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from einmap.distribute.costs.cost_model import operations_per_point
from einmap.distribute.derive import context_of
from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.placements.placement import Placement, values_of
from einmap.distribute.placements.request import Context, checked_request
from einmap.distribute.planner.chosen import ChosenPlan, Part, chosen_plan
from einmap.distribute.plans.collectives import Kind
from einmap.distribute.search.search import NotFound, cheapest
from einmap.distribute.search.space import Options, search_space
from einmap.distribute.steps.actions import Computed, Moved
from einmap.distribute.training.backward import Backward
from einmap.distribute.training.machine import Machine
from einmap.distribute.training.model import Layer
from einmap.distribute.training.plan import DIMS, Dim, Recompute
from einmap.distribute.training.products import cost_of_products
from einmap.distribute.training.rules import Rules
from einmap.einsum.einsum import TensorName
from einmap.errors import SpecError
from einmap.visible import brief

type Phase = Literal["forward", "input", "weight"]
"""Passes: forward, backward for the gradient of inputs, backward for that of weights."""
ONCE_A_STEP = 1e-3
"""Bits of gradients of weights beside what they are: they move once a step, whatever way is taken here."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of a layer for one micro-batch. `sent`: bytes that one device sends; `again`: whether it runs once
    more where attention is computed again.
    """

    phase: Phase
    kind: Kind
    tensor: TensorName
    dims: tuple[Dim, ...]
    seconds: float
    sent: float
    again: bool = False


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of a layer on one device, of one width, that have copies over the same ways. `values`: on one device;
    `bits`: of each; `copies`: the ways; `addends`: those of them over which gradients are sums, over others each device
    has all of it; `again`: whether the backward pass reads them.
    """

    values: float
    bits: float
    copies: tuple[Dim, ...]
    addends: tuple[Dim, ...]
    again: bool = True

    @property
    def bytes(self) -> float:
        """Bytes of all values."""
        return self.values * self.bits / 8


@dataclass(frozen=True)
class LayerCost:
    """A layer for one micro-batch on one device. `compute`: seconds by phase; `attention`: seconds of computing what
    has two ranks of positions; `saved`: bytes that wait for the backward pass, by what is computed again; `passing`:
    bytes of results, the same on devices of the ways `passing_copies`; `working`: bytes of gradients and operands of
    the largest Einsum of the backward pass; `gathered`: what waits in parts and is read whole by the backward pass, how
    it lies then and how it is read; `brought`: collectives for gradients of weights that come out of their Einsums
    elsewhere than the weights lie, once a step; `placed`: how tensors lie that lie as they are told.
    """

    __repr__ = brief

    compute: Mapping[Phase, float]
    attention: float
    collectives: tuple[Collective, ...]
    saved: Mapping[Recompute, float]
    passing: float
    passing_copies: tuple[Dim, ...]
    working: float
    weights: tuple[Weights, ...]
    operations: float
    chosen: ChosenPlan
    gathered: Mapping[TensorName, tuple[Placement, Placement]]
    brought: tuple[Collective, ...]
    placed: Mapping[TensorName, Placement]

    def seconds(self, phase: Phase) -> float:
        """Seconds of computing in a phase."""
        return self.compute[phase]

    @cached_property
    def moving(self) -> Mapping[Phase, float]:
        """Seconds of collectives by phase."""
        phases: tuple[Phase, ...] = ("forward", "input", "weight")
        return {phase: sum(one.seconds for one in self.collectives if one.phase == phase) for phase in phases}


def layer_cost(layer: Layer, machine: Machine, samples: int, sequence_parallel: bool) -> LayerCost:
    """The cheapest way to spread forward and backward pass of a layer over tensor, context and expert parallel devices.

    `samples`: of a micro-batch, on all expert parallel devices together. Along `tp` each weight with two ranks or more
    is split in one of its ranks, the Einsum in kept or reduced ranks; along `cp` an Einsum with weights is split in
    positions; along `ep` in experts, or in samples where it has none. The planner chooses all else; results lie as
    inputs do. Raises SpecError where none does.
    """
    backward = layer.step(samples)
    joint = backward.workload
    mesh = machine.inner
    context = context_of(joint, mesh)
    bits = {access.tensor: access.bits_per_value for einsum in joint.einsums for access in einsum.accesses}
    gradients = {backward.gradients[weight] for weight in layer.weights if weight in backward.gradients}
    counted = {tensor: bits[tensor] * (ONCE_A_STEP if tensor in gradients else 1.0) for tensor in bits}
    model = cost_of_products(layer, backward, machine.cluster)
    placed = layer.placements(machine.axes, sequence_parallel)
    request = replace(checked_request(context, placed), same=_ends(layer, backward, placed))
    rules = Rules(layer, machine, sequence_parallel, gradients)
    space = search_space(context, request, model, counted, Options(True, False, rules.allow, rules.keep))
    found = cheapest(space)
    if isinstance(found, NotFound):
        raise SpecError(f"layer {layer.name!r} has no way over {mesh}", hint="fewer tensor or context parallel devices")
    chosen = chosen_plan(space, found, model)
    return _Costed(layer, backward, machine, context, bits, chosen, request.placements).cost()


def _ends(
    layer: Layer, backward: Backward, placed: Collection[TensorName]
) -> tuple[tuple[TensorName, TensorName], ...]:
    """Results that lie as graph inputs do: of a layer as its input, of its backward pass as the gradient that arrives,
    of gradients of weights as the weights. `placed`: what lies as it is told.
    """
    gradients, sizes = backward.gradients, layer.workload.tensor_shape
    ends = [(gradients[weight], weight) for weight in layer.weights if weight in gradients]
    for result in layer.results[:1]:
        for tensor in layer.arriving[:1]:
            if not {result, tensor} & set(placed) and tuple(sizes(tensor).values()) == tuple(sizes(result).values()):
                ends.append((result, tensor))
                if tensor in gradients:
                    ends.append((gradients[tensor], gradients[result]))
    return tuple(ends)


@dataclass(frozen=True)
class _Costed:
    """Costs of a layer as a chosen plan of its forward and backward pass says."""

    layer: Layer
    backward: Backward
    machine: Machine
    context: Context
    bits: Mapping[TensorName, float]
    chosen: ChosenPlan
    placed: Mapping[TensorName, Placement]

    def cost(self) -> LayerCost:
        compute: dict[Phase, float] = {"forward": 0.0, "input": 0.0, "weight": 0.0}
        attention, collectives = 0.0, []
        for phase, action, part in self._phased():
            match action:
                case Computed(einsum=name):
                    compute[phase] += part.cost
                    attention += part.cost if phase == "forward" and name in self.attention else 0.0
                case Moved(tensor=tensor, hop=hop) if hop.kind != "slice" and tensor not in self.weight_gradients:
                    again = phase == "forward" and tensor in self.inner
                    dims = self._dims(hop.axes)
                    collectives.append(Collective(phase, hop.kind, tensor, dims, part.cost, part.sent, again))
                case _:
                    pass
        collectives += self._gathered_again()
        results = {t: self.placed.get(t, self.chosen.homes[t][0]) for t in self.layer.results}
        home = next(iter(results.values()))
        return LayerCost(
            compute,
            attention,
            tuple(collectives),
            self._saved(),
            sum(self._bytes(tensor, placement) for tensor, placement in results.items()),
            () if set(self.machine.axes["tp"]) & home.used else ("tp",),
            self._working(),
            tuple(self._weights()),
            float(
                sum(
                    e.n_computes * operations_per_point(e)
                    for e in self.context.workload.einsums
                    if e.name in self.forward
                )
            ),
            self.chosen,
            {tensor: (kept, read) for tensor, (_, kept, read) in self._gathered.items()},
            tuple(self._brought()),
            self.placed,
        )

    @cached_property
    def forward(self) -> frozenset[str]:
        """Einsums of the forward pass."""
        return frozenset(self.layer.workload.einsum_names)

    @cached_property
    def weight_gradients(self) -> frozenset[TensorName]:
        """Gradients of weights."""
        gradients = self.backward.gradients
        return frozenset(gradients[weight] for weight in self.layer.weights if weight in gradients)

    @cached_property
    def inner(self) -> frozenset[TensorName]:
        """Tensors of the forward pass with two ranks of positions: they grow with the square of the length."""
        workload = self.layer.workload
        return frozenset(
            tensor
            for tensor, name in workload.producers.items()
            if len(self.layer.sequence & workload.by_name[name].by_tensor[tensor].variables) > 1
        )

    @cached_property
    def attention(self) -> frozenset[str]:
        """Einsums that write such tensors."""
        return frozenset(self.layer.workload.producers[tensor] for tensor in self.inner)

    def _phase(self, name: str) -> Phase:
        part = self.backward.workload.by_name[name].part
        return part if part in ("input", "weight") else "forward"

    def _phased(self) -> Iterator[tuple[Phase, Computed | Moved, Part]]:
        """Actions with their phase: a move goes with the Einsum that it follows if that wrote the tensor, else with the
        next one.
        """
        waiting: list[tuple[Moved, Part]] = []
        last: Computed | None = None
        for action, part in zip(self.chosen.actions, self.chosen.parts, strict=True):
            match action:
                case Computed(einsum=name):
                    phase = self._phase(name)
                    yield from ((phase, moved, of_move) for moved, of_move in waiting)
                    waiting = []
                    yield phase, action, part
                    last = action
                case Moved(tensor=tensor):
                    if last is not None and any(tensor == result for result, _ in last.results):
                        yield self._phase(last.einsum), action, part
                    else:
                        waiting.append((action, part))

    def _dims(self, axes: Sequence[AxisName]) -> tuple[Dim, ...]:
        over = {self.machine.dim_of(axis) for axis in axes}
        return tuple(dim for dim in DIMS if dim in over)

    def _bytes(self, tensor: TensorName, placement: Placement) -> float:
        return values_of(self.context.sizes[tensor], placement) * self.bits[tensor] / 8

    @cached_property
    def _kept(self) -> Mapping[TensorName, Placement]:
        """How tensors of the forward pass wait for the backward pass: in the smallest form that there is."""
        forms: dict[TensorName, set[Placement]] = {}
        for action in self.chosen.actions:
            if isinstance(action, Computed) and action.einsum in self.forward:
                for tensor, placement in (*action.operands, *action.results):
                    forms.setdefault(tensor, set()).add(placement)
        for tensor, homes in self.chosen.homes.items():
            forms.setdefault(tensor, set()).update(homes)
        return {
            tensor: min(
                (one for one in some if not one.partial),
                key=lambda one: (self._bytes(tensor, one), str(one)),
                default=Placement(),
            )
            for tensor, some in forms.items()
        }

    @cached_property
    def _read_later(self) -> Mapping[TensorName, tuple[tuple[Phase, Placement], ...]]:
        """Activations of the forward pass that the backward pass reads, and how they lie then."""
        workload = self.layer.workload
        read: dict[TensorName, dict[tuple[Phase, Placement], None]] = {}
        for action in self.chosen.actions:
            if isinstance(action, Computed) and action.einsum not in self.forward:
                for tensor, placement in action.operands:
                    if tensor in workload.tensors and tensor not in self.layer.weights:
                        read.setdefault(tensor, {})[self._phase(action.einsum), placement] = None
        return {tensor: tuple(some) for tensor, some in read.items()}

    @cached_property
    def _gathered(self) -> Mapping[TensorName, tuple[Phase, Placement, Placement]]:
        """Tensors that wait in parts and that the backward pass reads whole: when, how they wait, and how it reads."""
        found: dict[TensorName, tuple[Phase, Placement, Placement]] = {}
        for tensor, some in self._read_later.items():
            kept = self._kept[tensor]
            for phase, placement in some:
                if not kept.used <= placement.used:
                    found.setdefault(tensor, (phase, kept, placement))
        return found

    def _gathered_again(self) -> Iterator[Collective]:
        for tensor, (phase, kept, placement) in self._gathered.items():
            dims = self._dims(tuple(axis for axis in kept.used if axis not in placement.used))
            whole = self._bytes(tensor, placement)
            seconds = self.machine.seconds("all_gather", dims, whole)
            yield Collective(phase, "all_gather", tensor, dims, seconds, self.machine.sent("all_gather", dims, whole))

    def _saved(self) -> Mapping[Recompute, float]:
        workload = self.layer.workload
        read = set(self._read_later)
        needed = {t for name in self.attention for t in workload.by_name[name].inputs if t not in self.layer.weights}
        sizes = {tensor: self._bytes(tensor, self._kept[tensor]) for tensor in read | needed | set(self.layer.arriving)}
        return {
            "none": sum(sizes[tensor] for tensor in read),
            "selective": sum(sizes[tensor] for tensor in (read | needed) - self.inner),
            "full": sum(sizes[tensor] for tensor in self.layer.arriving),
        }

    def _working(self) -> float:
        """Bytes of operands and results that are made in the backward pass, of the Einsum with most of them."""
        given = set(self.layer.workload.tensors)
        most = 0.0
        for action in self.chosen.actions:
            if isinstance(action, Computed):
                touched = [pair for pair in (*action.operands, *action.results) if pair[0] not in given]
                most = max(most, math.fsum(self._bytes(*pair) for pair in touched))
        return most

    def _weights(self) -> Iterator[Weights]:
        alike: dict[tuple[float, tuple[Dim, ...], tuple[Dim, ...], bool], float] = {}
        for weight in self.layer.weights:
            placement = self.chosen.homes[weight][0]
            split = {self.machine.dim_of(axis) for axis in placement.used}
            is_trained = weight in self.backward.gradients
            copies: tuple[Dim, ...] = tuple(d for d in DIMS if is_trained and d != "pp" and d not in split)
            kind = self.bits[weight], copies, self._addends(weight, copies), weight in self._read_again
            alike[kind] = alike.get(kind, 0.0) + values_of(self.context.sizes[weight], placement)
        for kind, values in alike.items():
            yield Weights(values, *kind)

    def _addends(self, weight: TensorName, copies: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Ways over which a gradient is a sum as it comes out of its Einsum: always over samples."""
        gradient = self.backward.gradients.get(weight)
        made = self._made.get(gradient) if gradient not in self._elsewhere else None
        over = {self.machine.dim_of(axis) for axis in made.partial} if made else set()
        return tuple(dim for dim in copies if dim == "dp" or dim in over)

    @cached_property
    def _made(self) -> Mapping[TensorName | None, Placement]:
        """How results come out of their Einsums."""
        return dict(pair for action in self.chosen.actions if isinstance(action, Computed) for pair in action.results)

    @cached_property
    def _elsewhere(self) -> frozenset[TensorName | None]:
        """Gradients of weights that come out in other parts than those of the weights."""
        pairs = ((weight, self.backward.gradients.get(weight)) for weight in self.layer.weights)
        homes = self.chosen.homes
        return frozenset(g for weight, g in pairs if g and self._made[g].splits != homes[weight][0].splits)

    def _brought(self) -> Iterator[Collective]:
        for action in self.chosen.actions:
            if isinstance(action, Moved) and action.tensor in self._elsewhere and action.hop.kind != "slice":
                hop, dims, width = action.hop, self._dims(action.hop.axes), self.bits[action.tensor] / 8
                seconds = self.machine.seconds(hop.kind, dims, max(hop.operand, hop.result) * width)
                sent = float(hop.sent_values / self.context.mesh.n_devices * width)
                yield Collective("weight", hop.kind, action.tensor, dims, seconds, sent)

    @cached_property
    def _read_again(self) -> frozenset[TensorName]:
        """Tensors that the backward pass reads."""
        einsums = self.backward.workload.einsums
        return frozenset(tensor for e in einsums if e.name not in self.forward for tensor in e.inputs)
