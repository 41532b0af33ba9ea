"""Actions, energy and busy times of one Einsum whose tensors have zeros."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from einmap.arch.component import Component, Memory, is_carrying
from einmap.arrays import Amounts
from einmap.errors import NotSupportedError
from einmap.model.cost import ActionRow
from einmap.model.sparsity.expected import EinsumZeros, Passed
from einmap.model.sparsity.slowest import slower_operations, slower_passing
from einmap.model.traffic.actions import Actions
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.tensor_traffic import TensorTraffic
from einmap.sparse.savings import STATES, Sparsity


@dataclass
class SparseNumbers:
    """Expected numbers of one Einsum before instance factors.

    `done`: actions by component, tensor (None: operations), and name of the action, among them `gated_read`,
    `skipped_write`, `metadata_read`, `gated_compute` and the like. `busiest`: actions that take time, of the instance
    that has most of them; `busiest_operations`: those that are not skipped.
    """

    done: dict[tuple[str, str | None, str], float] = field(default_factory=dict)
    busiest: dict[str, Actions] = field(default_factory=dict)
    busiest_operations: float = 0.0


def sparse_numbers(traffic: EinsumTraffic, sparsity: Sparsity) -> SparseNumbers:
    """Expected numbers of an Einsum. Raises NotSupportedError for what is not known beside zeros."""
    _refuse(traffic)
    numbers = SparseNumbers()
    timed: dict[tuple[str, str], Amounts] = {}
    longer: dict[tuple[str, str], float] = {}
    zeros = EinsumZeros(sparsity, traffic)
    for tensor in zeros.tensors:
        for passed in tensor.passed():
            busy = _add(numbers, sparsity, passed, timed)
            if sparsity.takes_slowest:
                key = passed.station.component.name, passed.action
                more = float(np.max(busy)) * (slower_passing(tensor, passed) - 1)
                longer[key] = longer.get(key, 0.0) + more
    names = dict.fromkeys(name for name, _ in timed)
    for name in names:
        most = {
            action: float(np.max(timed[name, action])) + longer.get((name, action), 0.0)
            if (name, action) in timed
            else 0.0
            for action in ("read", "write")
        }
        numbers.busiest[name] = Actions(most["read"], most["write"])
    split = zeros.operations()
    compute = traffic.path.compute.component.name
    for state, amount in zip(STATES, split.totals, strict=True):
        numbers.done[compute, None, _name("compute", state)] = amount
    loads = split.timed
    numbers.busiest_operations = float(np.max(loads))
    if sparsity.takes_slowest:
        numbers.busiest_operations *= slower_operations(zeros, loads)
    zeros.nest.keep()
    return numbers


def _name(action: str, state: str) -> str:
    return action if state == "actual" else f"{state}_{action}"


def _add(numbers: SparseNumbers, sparsity: Sparsity, passed: Passed, timed: dict[tuple[str, str], Amounts]) -> Amounts:
    """Count what passes a station; what each instance is busy with of it, in actions."""
    unit, tensor, action = passed.station.component, passed.tensor, passed.action
    per_value = unit.action(action).actions_per_value[tensor]
    busy = passed.values.timed * per_value
    for state, amount in zip(STATES, passed.values.totals, strict=True):
        _count(numbers, (unit.name, tensor, _name(action, state)), amount, per_value)
    if passed.metadata is not None:
        is_own = unit.name in sparsity.own_metadata
        per_bit = 1.0 if is_own else _actions_per_bit(unit, tensor, action)
        moved = passed.metadata.timed
        actual, gated, skipped = passed.metadata.totals
        done = actual if sparsity.shares_metadata else actual + gated
        if sparsity.reads_skipped:
            done += skipped
        _count(numbers, (unit.name, tensor, f"metadata_{action}"), done, per_bit)
        if sparsity.shares_metadata or not is_own:
            per_bit = _actions_per_bit(unit, tensor, action)
            busy = busy + moved * per_bit
    before = timed.get((unit.name, action))
    timed[unit.name, action] = busy if before is None else before + busy
    return busy


def _actions_per_bit(unit: Component, tensor: str, action: str) -> float:
    assert isinstance(unit, Memory)
    bits = unit.bits[tensor]
    if not bits:
        raise NotSupportedError(f"values of {tensor!r} have no bits in {unit.name!r}", about=unit.name)
    return unit.action(action).actions_per_value[tensor] / bits


def _count(numbers: SparseNumbers, key: tuple[str, str | None, str], amount: float, factor: float) -> None:
    numbers.done[key] = numbers.done.get(key, 0.0) + amount * factor


def _refuse(traffic: EinsumTraffic) -> None:
    """Raise NotSupportedError for features whose counts are not yet divided."""
    path = traffic.path
    why, about = "", ""
    for leaf in path.leaves:
        if is_carrying(leaf):
            why, about = f"the network {leaf.name!r}", leaf.name
        elif isinstance(leaf, Memory):
            odd = {
                "layout": leaf.layout,
                "startup": leaf.starts,
                "units": leaf.is_spread,
                "stalls": leaf.stalls != "average",
            }
            odd |= {"wind_up": leaf.wind_up, "buffering: single": leaf.buffering == "single"}
            named = [name for name, there in odd.items() if there]
            if named:
                why, about = f"{named[0]} of {leaf.name!r}", leaf.name
    if path.einsum.is_copy:
        why = f"the copy {path.einsum.name!r}"
    if path.einsum.cuts:
        why = f"the iteration space of {path.einsum.name!r}, which is not a box,"
    for tensor in traffic.tensors:
        if tensor.access.gathered or tensor.access.partial_bits is not None or _is_shared(tensor):
            why = f"{tensor.access.tensor!r} (gathered, in a buffer of several Einsums, or of two widths)"
        elif tensor.access.output and not all(group.is_plain for group in tensor.counts.groups):
            why = f"the output {tensor.access.tensor!r}, which is indexed by sums,"
    if traffic.semantics.name != "exact":
        why = f"the preset {traffic.semantics.name!r}"
    if why:
        raise NotSupportedError(
            f"{why} beside sparsity is not supported yet", hint="leave out one of them", about=about
        )


def _is_shared(tensor: TensorTraffic) -> bool:
    """Whether several Einsums share a buffer of a tensor that is filled from another one."""
    children = {exchange.child.position for exchange in tensor.exchanges}
    return any(name == tensor.access.tensor and position in children for name, position in tensor.charges)


def action_rows(
    einsum: str,
    numbers: SparseNumbers,
    sparsity: Sparsity,
    components: Mapping[str, Component],
    instances: int,
) -> Iterator[ActionRow]:
    """Rows of all actions, those that are saved and those of metadata with their own energies."""
    for (name, tensor, action), count in numbers.done.items():
        if not count:
            continue
        unit = components[name]
        times = count * instances * unit.actions_scale
        energies: Mapping[tuple[str, str], float] = sparsity.energies
        if action in ("read", "write", "compute"):
            energy = unit.action(action).energy
        elif action.startswith("metadata_") and name not in sparsity.own_metadata:
            energy = unit.action(action.removeprefix("metadata_")).energy
        else:
            energy = energies.get((name, action), 0.0)
        yield ActionRow(einsum, name, tensor, action, times, times * energy)
