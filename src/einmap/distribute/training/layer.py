"""A layer on the devices of one stage: seconds and collectives of its passes, what it holds, the weights it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from einmap.distribute.plans.plan import LocalLoop
from einmap.distribute.search.search import NotFound, cheapest
from einmap.distribute.search.space import Options, search_space
from einmap.distribute.steps.actions import Computed, Moved
from einmap.distribute.training.backward import Backward, with_backward
from einmap.distribute.training.machine import Machine
from einmap.distribute.training.model import Layer
from einmap.distribute.training.plan import DIMS, Dim, Recompute
from einmap.distribute.training.products import cost_of_products
from einmap.einsum.einsum import Einsum, TensorName
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
    `bits`: of each; `copies`: the ways.
    """

    values: float
    bits: float
    copies: tuple[Dim, ...]

    @property
    def bytes(self) -> float:
        """Bytes of all values."""
        return self.values * self.bits / 8


@dataclass(frozen=True)
class LayerCost:
    """A layer for one micro-batch on one device. `compute`: seconds by phase; `attention`: seconds of computing what
    has two ranks of positions; `saved`: bytes that wait for the backward pass, by what is computed again; `passing`:
    bytes of a result, the same on devices of the ways `passing_copies`; `working`: bytes of gradients and operands of
    the largest Einsum of the backward pass.
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
    backward = with_backward(layer.of_samples(samples), layer.arriving)
    joint = backward.workload
    mesh = machine.inner()
    context = context_of(joint, mesh)
    bits = {access.tensor: access.bits_per_value for einsum in joint.einsums for access in einsum.accesses}
    gradients = {backward.gradients[weight] for weight in layer.weights if weight in backward.gradients}
    counted = {tensor: bits[tensor] * (ONCE_A_STEP if tensor in gradients else 1.0) for tensor in bits}
    model = cost_of_products(layer, backward, machine.cluster)
    request = replace(checked_request(context), same=_ends(layer, backward))
    rules = _Rules(layer, machine, sequence_parallel, gradients)
    space = search_space(context, request, model, counted, Options(True, False, rules.allow, rules.keep))
    found = cheapest(space)
    if isinstance(found, NotFound):
        raise SpecError(f"layer {layer.name!r} has no way over {mesh}", hint="fewer tensor or context parallel devices")
    return _Costed(layer, backward, machine, context, bits, chosen_plan(space, found, model)).cost()


def _ends(layer: Layer, backward: Backward) -> tuple[tuple[TensorName, TensorName], ...]:
    """Results that lie as graph inputs do: of a layer as its input, of its backward pass as the gradient that arrives,
    of gradients of weights as the weights.
    """
    gradients, sizes = backward.gradients, layer.workload.tensor_shape
    ends = [(gradients[weight], weight) for weight in layer.weights if weight in gradients]
    for result in layer.results[:1]:
        for tensor in layer.arriving[:1]:
            if tuple(sizes(tensor).values()) == tuple(sizes(result).values()):
                ends.append((result, tensor))
                if tensor in gradients:
                    ends.append((gradients[tensor], gradients[result]))
    return tuple(ends)


@dataclass(frozen=True)
class _Rules:
    """How Einsums may be split along axes. `gradients`: of weights."""

    layer: Layer
    machine: Machine
    sequence_parallel: bool
    gradients: set[TensorName]

    def allow(self, einsum: Einsum, loops: Sequence[LocalLoop]) -> bool:
        """Whether an Einsum may be spread so."""
        over = {axis: loop.variable for loop in loops for axis in loop.axes}
        rules: Mapping[Dim, Callable[[Einsum, Sequence[str | None]], bool]] = {
            "tp": self._tensor,
            "cp": self._context,
            "ep": self._expert,
        }
        return all(
            rule(einsum, [over.get(axis) for axis in self.machine.axes[dim]])
            for dim, rule in rules.items()
            if self.machine.axes[dim]
        )

    def keep(self, tensor: TensorName, placement: Placement) -> bool:
        """Whether a tensor may be kept so: a weight may not be in parts along `cp`, as it is used whole there."""
        if tensor not in self.layer.weights and tensor not in self.gradients:
            return True
        return placement.used <= set(self.machine.over(("tp", "ep"))) and not placement.partial

    def _weight(self, einsum: Einsum) -> frozenset[str] | None:
        """The rank variables of the weight, or gradient of one, of an Einsum."""
        for access in einsum.accesses:
            if access.tensor in self.layer.weights or access.tensor in self.gradients:
                return access.variables
        return None

    def _tensor(self, einsum: Einsum, variables: Sequence[str | None]) -> bool:
        weight, layer = self._weight(einsum), self.layer
        if weight is not None and len(weight) > 1:
            return all(variable in weight - layer.batch - layer.sequence for variable in variables)
        # what lies as results do: norms and residual sums
        written = {variable for access in einsum.accesses if access.output for variable in access.variables}
        along = self.layer.passing
        if written <= along:
            kept = layer.sequence if self.sequence_parallel else frozenset[str]()
            # such as classes, of which a loss is the sum
            kept |= frozenset(einsum.rank_variables) - along - layer.batch - layer.sequence
            return all(variable is None or variable in kept for variable in variables)
        banned = layer.batch | along if len(layer.sequence & set(einsum.rank_variables)) > 1 else along - layer.sequence
        return all(variable not in banned | layer.batch for variable in variables)

    def _context(self, einsum: Einsum, variables: Sequence[str | None]) -> bool:
        positions = self.layer.sequence & set(einsum.rank_variables)
        if len(positions) > 1 and self._weight(einsum) is None:
            return all(variable is not None and variable not in self.layer.batch for variable in variables)
        return not positions or all(variable in positions for variable in variables)

    def _expert(self, einsum: Einsum, variables: Sequence[str | None]) -> bool:
        names = set(einsum.rank_variables)
        wanted = self.layer.experts & names or self.layer.batch & names
        if self._weight(einsum) is not None:
            return not wanted or all(variable in wanted for variable in variables)
        # values for experts are made where the samples are and sent, or near the experts of samples that were gathered
        wanted |= self.layer.batch & names
        return all(variable is None or variable in wanted for variable in variables)


@dataclass(frozen=True)
class _Costed:
    """Costs of a layer as a chosen plan of its forward and backward pass says."""

    layer: Layer
    backward: Backward
    machine: Machine
    context: Context
    bits: Mapping[TensorName, float]
    chosen: ChosenPlan

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
        (result, *_) = self.layer.results
        home = self.chosen.homes[result][0]
        return LayerCost(
            compute,
            attention,
            tuple(collectives),
            self._saved(),
            self._bytes(result, home),
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

    def _gathered_again(self) -> Iterator[Collective]:
        """All-gathers of what is kept in parts and read whole by the backward pass."""
        for tensor, some in self._read_later.items():
            kept = self._kept[tensor]
            for phase, placement in some:
                axes = tuple(axis for axis in kept.used if axis not in placement.used)
                if axes:
                    dims, whole = self._dims(axes), self._bytes(tensor, placement)
                    seconds = self.machine.seconds("all_gather", dims, whole)
                    sent = self.machine.sent("all_gather", dims, whole)
                    yield Collective(phase, "all_gather", tensor, dims, seconds, sent)
                    break

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
        alike: dict[tuple[tuple[Dim, ...], float], float] = {}
        for weight in self.layer.weights:
            placement = self.chosen.homes[weight][0]
            split = {self.machine.dim_of(axis) for axis in placement.used}
            copies: tuple[Dim, ...] = tuple(dim for dim in DIMS if dim != "pp" and dim not in split)
            kind = copies, self.bits[weight]
            alike[kind] = alike.get(kind, 0.0) + values_of(self.context.sizes[weight], placement)
        for (copies, bits), values in alike.items():
            yield Weights(values, bits, copies)
