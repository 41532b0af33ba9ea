"""Limits on the memory of a PE at every moment of a plan.

At an Einsum, in this order: each operand is moved to where it is read, the Einsum is evaluated, its operands are given
up, and each result is moved to its home. Graph inputs are kept all the time, outputs to the end, other homes until
their last reader has evaluated them or has moved them to where it reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.search.problem import Problem
from einmap.distribute.search.space import Costs, Homes, Numbers, SearchSpace
from einmap.distribute.selection.problem import Limit
from einmap.einsum.einsum import Einsum, TensorName


def memory_limits(space: SearchSpace, problem: Problem, limit: float) -> list[Limit]:
    """One limit in bytes for each moment."""
    made: list[Limit] = []
    for position, einsum in enumerate(space.context.workload.einsums):
        kept = _kept(space, position)
        base = {problem.nodes.tensor(tensor): _home_bytes(space, tensor) for tensor in kept}
        made += _moments(space, problem, einsum, base, limit)
        after = {
            problem.nodes.tensor(tensor): _home_bytes(space, tensor) for tensor in _kept(space, position + 1, einsum)
        }
        made += _result_moments(space, problem, einsum, after, limit)
    return made


def _kept(space: SearchSpace, position: int, without: Einsum | None = None) -> list[TensorName]:
    """Tensors that are at home when the Einsum at `position` begins; not the results of `without`."""
    workload = space.context.workload
    before = {tensor for einsum in workload.einsums[:position] for tensor in einsum.outputs}
    later = {tensor for einsum in workload.einsums[position:] for tensor in einsum.inputs}
    results = without.outputs if without else frozenset()
    return [
        tensor
        for tensor in workload.tensors
        if tensor not in results
        and (
            tensor not in workload.producers
            or (tensor in before and (tensor in later or not workload.consumers[tensor]))
        )
    ]


def _home_bytes(space: SearchSpace, tensor: TensorName) -> Costs:
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
        edge = problem.edges[einsum.name, access.tensor]
        if _is_read_last(space, einsum, access.tensor):
            del nodes[problem.nodes.tensor(access.tensor)]
            made.append(Limit(limit, dict(nodes), {**moved, edge: _leaving(homes, lies) * width}))
            moved[edge] = np.where(
                _is_away(homes, lies),
                homes.paths.places.values[lies][:, None] * width,
                _home_bytes(space, access.tensor)[None, :],
            )
        else:
            made.append(Limit(limit, dict(nodes), {**moved, edge: _temporary(homes, lies) * width}))
            moved[edge] = np.where(_is_away(homes, lies), homes.paths.places.values[lies][:, None] * width, 0.0)
    made.append(Limit(limit, {**nodes, problem.nodes.einsum(einsum.name): results}, moved))
    return made


def _is_read_last(space: SearchSpace, einsum: Einsum, tensor: TensorName) -> bool:
    """Whether a tensor is given up at this Einsum: at the first move of it, if it is moved."""
    workload = space.context.workload
    return tensor in workload.producers and workload.consumers[tensor][-1] == einsum.name


def _is_away(homes: Homes, lies: Numbers) -> NDArray[np.bool_]:
    """Whether an operand does not lie where it is kept, by way and home."""
    return np.asarray((lies[:, None] != homes.first) & (lies[:, None] != homes.second))


def _source(homes: Homes, lies: Numbers) -> Numbers:
    """The home from which an operand is moved, by home and way."""
    return np.where(homes.nearest[:, lies], homes.second[:, None], homes.first[:, None])


def _temporary(homes: Homes, lies: Numbers) -> Costs:
    """Values beside the homes while an operand is moved, by way and home."""
    return homes.paths.temporary[_source(homes, lies), lies[None, :]].T.astype(float)


def _leaving(homes: Homes, lies: Numbers) -> Costs:
    """Values while an operand is moved whose home is given up then, by way and home."""
    values, source = homes.paths.places.values, _source(homes, lies)
    other = np.where(homes.first == homes.second, 0, values[homes.first] + values[homes.second])[:, None]
    rest = np.where(other > 0, other - values[source], 0)
    return np.asarray((homes.paths.held_while_moving[source, lies[None, :]] + rest).T.astype(float))


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
            nodes[problem.nodes.tensor(done)] = _home_bytes(space, done)
        waiting: Costs = np.zeros(len(ways.costs))
        for other, other_lies in results[position + 1 :]:
            waiting = waiting + space.homes[other].paths.places.values[other_lies] * space.bits[other] / 8
        nodes[problem.nodes.einsum(einsum.name)] = waiting
        homes = space.homes[tensor]
        paths, values = homes.paths, homes.paths.places.values
        first = paths.held_while_moving[np.ix_(lies, homes.first)]
        second = np.where(
            homes.first == homes.second, 0, values[homes.first] + paths.temporary[homes.first, homes.second]
        )
        usage = np.maximum(first, second[None, :]) * (space.bits[tensor] / 8)
        made.append(Limit(limit, nodes, {problem.edges[einsum.name, tensor]: usage.astype(float)}))
    return made
