"""Dense machines on which actions cost what they cost with the zeros of tensors in a mapping that was found.

What is best there is a mapping that is good with the zeros, if zeros save about as much in it as in the one found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from einmap.arch.component import Action, Compute, Memory, Toll
from einmap.arch.tree import Architecture
from einmap.errors import EinmapError
from einmap.mapper.problem.problem import Problem
from einmap.mapper.result.result import Found
from einmap.mapper.zeros.dense_bound import with_room
from einmap.model.cost import Cost
from einmap.model.evaluate import evaluate
from einmap.spec.spec import Spec

type Place = tuple[str, str, str | None, str]
"""An Einsum, a component, a tensor (None: operations) and an action."""
SAVED = ("gated_", "skipped_", "metadata_")
"""Beginnings of names of actions that dense tensors do not have."""
LEAST = 1e-9
"""Part that is left at least, so that no rate is infinite."""


def as_found(problem: Problem, found: Found) -> Spec | None:
    """Specification of dense tensors whose actions take energy and time, and their tiles room, as in a mapping.

    None where the mapping cannot be evaluated with dense tensors.
    """
    sparse = problem.spec
    stored = {memory for sparsity in sparse.sparsity.values() for memory, _ in sparsity.formats}
    dense = sparse.dense()
    try:
        cost = evaluate(sparse, found.mapping, problem.options.rules)
        roomy = dense.with_altered_archs(lambda arch: with_room(arch, stored))
        before = evaluate(roomy, found.mapping, problem.options.rules)
    except EinmapError:
        return None
    own = {memory for sparsity in sparse.sparsity.values() for memory in sparsity.own_metadata}
    energies, times = _parts(cost, before, _energies), _parts(cost, before, lambda one: _counts(one, own))
    rooms: dict[str, float] = {}
    for memory in stored:
        rows = [row for row in cost.tiles if row.component == memory]
        taken = sum(row.worst for row in rows)
        rooms[memory] = sum(row.dense for row in rows) / taken if taken else 1.0
    return dense.with_einsums(dense.workload, _Left(energies, times, rooms).altered)


def _energies(cost: Cost) -> dict[Place, float]:
    """J by place, those of saved actions and of metadata with the actions that they belong to."""
    found: dict[Place, float] = {}
    for row in cost.actions:
        place = row.einsum, row.component, row.tensor, _plain(row.action)
        found[place] = found.get(place, 0.0) + row.energy
    return found


def _counts(cost: Cost, own_metadata: set[str]) -> dict[Place, float]:
    """Actions by place that take time."""
    found: dict[Place, float] = {}
    for row in cost.actions:
        in_own_store = row.action.startswith("metadata_") and row.component in own_metadata
        if row.count is not None and not row.action.startswith("skipped_") and not in_own_store:
            place = row.einsum, row.component, row.tensor, _plain(row.action)
            found[place] = found.get(place, 0.0) + row.count
    return found


def _plain(action: str) -> str:
    for beginning in SAVED:
        action = action.removeprefix(beginning)
    return action


def _parts(sparse: Cost, dense: Cost, of: Callable[[Cost], dict[Place, float]]) -> dict[Place, float]:
    """Parts that zeros leave of amounts of dense tensors, by place."""
    whole, left = of(dense), of(sparse)
    return {place: left.get(place, 0.0) / amount for place, amount in whole.items() if amount > 0}


@dataclass(frozen=True)
class _Left:
    """Parts that zeros leave of energies and times of dense tensors, by place, and room in memories for one."""

    energies: Mapping[Place, float]
    times: Mapping[Place, float]
    rooms: Mapping[str, float]

    def altered(self, einsum: str, arch: Architecture) -> Architecture:
        """The architecture of an Einsum on which zeros of dense tensors save what they saved."""
        for name, unit in arch.components.items():
            if not isinstance(unit, Compute | Memory | Toll):
                continue
            actions = tuple(self._action(einsum, name, action) for action in unit.actions)
            if isinstance(unit, Memory):
                size = unit.size_bits * self.rooms.get(name, 1.0)
                arch = arch.with_leaf(replace(unit, actions=actions, size_bits=size))
            else:
                arch = arch.with_leaf(replace(unit, actions=actions))
        return arch

    def _action(self, einsum: str, component: str, action: Action) -> Action:
        """An action: energies by tensor, and the throughput of all tensors together."""
        tensors: list[str | None] = [tensor for tensor, _ in action.per_value]
        places = [(einsum, component, tensor, action.name) for tensor in tensors or [None]]
        slower = [self.times[at] / max(self.energies.get(at, 1.0), LEAST) for at in places if at in self.times]
        throughput = action.throughput / max(sum(slower) / len(slower), LEAST) if slower else action.throughput
        left = [self.energies.get(at, 1.0) for at in places]
        if not tensors:  # operations
            timed = self.times.get(places[0], 1.0)
            return replace(action, energy=action.energy * left[0], throughput=action.throughput / max(timed, LEAST))
        per_value = tuple((t, n * part) for (t, n), part in zip(action.per_value, left, strict=True))
        return replace(action, throughput=throughput, per_value=per_value)
