"""Limits on the memory of a PE at every moment of a plan.

At an Einsum, in this order: each operand is moved to where it is read, the Einsum is evaluated, its operands are given
up, and each result is moved to its home. Graph inputs are kept all the time, outputs to the end, other homes until
their last reader has evaluated them or has moved them to where it reads them; so is the second home of a graph input,
which is made when its first reader moves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.search.homes import Costs, Homes, Numbers
from einmap.distribute.search.problem import Problem
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.selection.problem import Limit
from einmap.einsum.einsum import Einsum, TensorName


def memory_limits(space: SearchSpace, problem: Problem, limit: float) -> list[Limit]:
    """One limit in bytes for each moment."""
    made: list[Limit] = []
    kept = _Kept(space)
    for position, einsum in enumerate(space.context.workload.einsums):
        base = {problem.nodes.tensor(tensor): size for tensor, size in kept.at(position).items()}
        made += _moments(space, problem, einsum, base, limit)
        after = kept.at(position + 1)
        base = {problem.nodes.tensor(tensor): after[tensor] for tensor in after if tensor not in einsum.outputs}
        made += _result_moments(space, problem, einsum, base, limit)
    return made


class _Kept:
    """Bytes of the tensors that are at home at each moment."""

    def __init__(self, space: SearchSpace) -> None:
        workload = space.context.workload
        self._workload = workload
        self._first = {tensor: _first_bytes(space, tensor) for tensor in workload.tensors}
        self._home = {tensor: home_bytes(space, tensor) for tensor in workload.tensors}
        uses: dict[TensorName, list[int]] = {tensor: [] for tensor in workload.tensors}
        for position, einsum in enumerate(workload.einsums):
            for tensor in einsum.tensors:
                uses[tensor].append(position)
        self._uses = {tensor: (min(some), max(some)) for tensor, some in uses.items()}

    def at(self, position: int) -> dict[TensorName, Costs]:
        """When the Einsum at `position` begins."""
        kept: dict[TensorName, Costs] = {}
        for tensor, (first, last) in self._uses.items():
            is_between = first < position <= last
            if tensor not in self._workload.producers:
                kept[tensor] = self._home[tensor] if is_between else self._first[tensor]
            elif is_between or (first < position and not self._workload.consumers[tensor]):
                kept[tensor] = self._home[tensor]
        return kept


def _first_bytes(space: SearchSpace, tensor: TensorName) -> Costs:
    homes = space.homes[tensor]
    return np.asarray(homes.paths.places.values[homes.first] * space.bits[tensor] / 8)


def home_bytes(space: SearchSpace, tensor: TensorName) -> Costs:
    """Bytes of one PE for each home of a tensor, or pair of homes."""
    homes = space.homes[tensor]
    values = homes.paths.places.values
    second = np.where(homes.second == homes.first, 0, values[homes.second])
    return np.asarray((values[homes.first] + second) * space.bits[tensor] / 8)


def _moments(
    space: SearchSpace, problem: Problem, einsum: Einsum, base: Mapping[int, Costs], limit: float
) -> list[Limit]:
    """While each operand is moved, and while the Einsum is evaluated."""
    made: list[Limit] = []
    nodes, moved = dict(base), dict[int, Costs]()
    ways = space.ways[einsum.name]
    results: Costs = np.zeros(len(ways.costs))
    for access, lies in zip(einsum.accesses, ways.lies, strict=True):
        homes, width = space.homes[access.tensor], space.bits[access.tensor] / 8
        if access.output:
            results = results + homes.paths.places.values[lies] * width
            continue
        edge, node = problem.edges[einsum.name, access.tensor], problem.nodes.tensor(access.tensor)
        away = _is_away(homes, lies)
        lying = homes.paths.places.values[lies][:, None] * width
        is_input = access.tensor not in space.context.workload.producers
        if is_input and _is_read(space, einsum, access.tensor, 0):
            making = homes.paths.temporary(homes.first, homes.second) * width
            made.append(Limit(limit, {**nodes, node: nodes[node] + making}, dict(moved)))
            nodes[node] = home_bytes(space, access.tensor)
        if not _is_read(space, einsum, access.tensor, -1):
            made.append(Limit(limit, dict(nodes), {**moved, edge: _temporary(homes, lies) * width}))
            moved[edge] = np.where(away, lying, 0.0)
        elif is_input:
            nodes[node] = _first_bytes(space, access.tensor)
            made.append(Limit(limit, dict(nodes), {**moved, edge: _leaving_second(homes, lies) * width}))
            at_second = (lies[:, None] == homes.second) & (homes.first != homes.second)
            moved[edge] = np.where(away | at_second, lying, 0.0)
        else:
            del nodes[node]
            made.append(Limit(limit, dict(nodes), {**moved, edge: _leaving(homes, lies) * width}))
            moved[edge] = np.where(away, lying, home_bytes(space, access.tensor)[None, :])
    made.append(Limit(limit, {**nodes, problem.nodes.einsum(einsum.name): results}, moved))
    return made


def _is_read(space: SearchSpace, einsum: Einsum, tensor: TensorName, which: int) -> bool:
    """Whether the first reader of a tensor (`which` 0), or the last one (-1), is this Einsum."""
    return space.context.workload.consumers[tensor][which] == einsum.name


def _is_away(homes: Homes, lies: Numbers) -> NDArray[np.bool_]:
    """Whether an operand does not lie where it is kept, by way and home."""
    return np.asarray((lies[:, None] != homes.first) & (lies[:, None] != homes.second))


def _source(homes: Homes, lies: Numbers) -> Numbers:
    """The home from which an operand is moved, by home and way."""
    return np.where(homes.nearest[:, lies], homes.second[:, None], homes.first[:, None])


def _temporary(homes: Homes, lies: Numbers) -> Costs:
    """Values beside the homes while an operand is moved, by way and home."""
    return homes.paths.temporary(_source(homes, lies), lies[None, :]).T.astype(float)


def _leaving(homes: Homes, lies: Numbers) -> Costs:
    """Values while an operand is moved whose home is given up then, by way and home."""
    values, source = homes.paths.places.values, _source(homes, lies)
    other = np.where(homes.first == homes.second, 0, values[homes.first] + values[homes.second])[:, None]
    rest = np.where(other > 0, other - values[source], 0)
    return np.asarray((homes.paths.held_while_moving(source, lies[None, :]) + rest).T.astype(float))


def _leaving_second(homes: Homes, lies: Numbers) -> Costs:
    """Values beside the first home while a graph input is moved whose second home is given up then, by way and home."""
    source = _source(homes, lies)
    is_second = homes.nearest[:, lies]
    leaving = homes.paths.held_while_moving(source, lies[None, :])
    return np.where(is_second, leaving, homes.paths.temporary(source, lies[None, :])).T.astype(float)


def _result_moments(
    space: SearchSpace, problem: Problem, einsum: Einsum, base: Mapping[int, Costs], limit: float
) -> Sequence[Limit]:
    """While each result is moved to its home, those before it at home and those after it as they came out."""
    made: list[Limit] = []
    ways = space.ways[einsum.name]
    results = [(access.tensor, lies) for access, lies in zip(einsum.accesses, ways.lies, strict=True) if access.output]
    for position, (tensor, lies) in enumerate(results):
        nodes = dict(base)
        for done, _ in results[:position]:
            nodes[problem.nodes.tensor(done)] = home_bytes(space, done)
        waiting: Costs = np.zeros(len(ways.costs))
        for other, other_lies in results[position + 1 :]:
            waiting = waiting + space.homes[other].paths.places.values[other_lies] * space.bits[other] / 8
        nodes[problem.nodes.einsum(einsum.name)] = waiting
        homes = space.homes[tensor]
        paths, values = homes.paths, homes.paths.places.values
        first = paths.held_while_moving(lies[:, None], homes.first)
        second = np.where(
            homes.first == homes.second, 0, values[homes.first] + paths.temporary(homes.first, homes.second)
        )
        usage = np.maximum(first, second[None, :]) * (space.bits[tensor] / 8)
        made.append(Limit(limit, nodes, {problem.edges[einsum.name, tensor]: usage.astype(float)}))
    return made
