"""A lower bound for all mappings of an Einsum whose tensors have zeros: the optimum of an easier dense machine.

There every action costs as if each saving were as great as for single values, which is the greatest that it can be,
metadata costs nothing, and memories with formats have room for everything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from math import prod

from einmap.arch.component import Action, Compute, Memory, Toll
from einmap.arch.tree import Architecture
from einmap.errors import EinmapError
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.problem.problem import Problem
from einmap.progress import Progress
from einmap.sparse.savings import Saving, Sparsity

WORK = 500_000
"""Choices that are looked at, at most."""


def least_cost(problem: Problem, token: Progress, sparsity: Sparsity) -> float | None:
    """Lower bound of the one metric (J, s, J*s) for every mapping; None where nothing is known.

    Energies are not negative.
    """
    spec = problem.spec.with_altered_archs(lambda arch: easier(arch, sparsity))
    whole = IndependentSearch(spec, replace(problem.options, breaks_ties=False, brute_force=False))
    try:
        whole.run(token, WORK)
        bound = whole.bound()
    except EinmapError:
        return None
    return bound if math.isfinite(bound) else None


def with_room(arch: Architecture, memories: Collection[str]) -> Architecture:
    """An architecture on which some memories have room for everything: formats may make it."""
    for name, unit in arch.components.items():
        if isinstance(unit, Memory) and name in memories:
            arch = arch.with_leaf(replace(unit, size_bits=math.inf))
    return arch


def easier(arch: Architecture, sparsity: Sparsity) -> Architecture:
    """The architecture on which no mapping costs more dense than on the given one with zeros."""
    for unit in arch.components.values():
        match unit:
            case Compute():
                arch = arch.with_leaf(replace(unit, actions=_operations(unit, sparsity)))
            case Memory():
                has_format = any(memory == unit.name for memory, _ in sparsity.formats)
                size = math.inf if has_format else unit.size_bits
                arch = arch.with_leaf(replace(unit, actions=_moved(unit, sparsity), size_bits=size))
            case Toll():
                arch = arch.with_leaf(replace(unit, actions=_moved(unit, sparsity)))
            case _:
                pass
    return arch


def _least_part(savings: Iterable[Saving], sparsity: Sparsity) -> float:
    """Part of what is asked for that is done at least: where every tensor that is looked at has a nonzero."""
    leaders = dict.fromkeys(leader for saving in savings for leader in saving.on)
    return prod(sparsity.densities[leader].part for leader in leaders)


def _operations(unit: Compute, sparsity: Sparsity) -> tuple[Action, ...]:
    """Actions of a compute: an operation is saved by what it looks at, and by what saves its inputs."""
    done = _least_part(sparsity.savings, sparsity)
    timed = _least_part([saving for saving in sparsity.savings if saving.kind == "skip"], sparsity)
    return tuple(
        replace(action, energy=action.energy * done, throughput=action.throughput / timed if timed else math.inf)
        for action in unit.actions
    )


def _moved(unit: Memory | Toll, sparsity: Sparsity) -> tuple[Action, ...]:
    """Actions of a memory or toll.

    Savings of a tensor may stand anywhere further out, and whoever sends its values may leave out zeros.
    """
    found = []
    for action in unit.actions:
        per_value = []
        for tensor, number in action.per_value:
            part = _least_part([saving for saving in sparsity.savings if saving.tensor == tensor], sparsity)
            senders = [unit.name] if isinstance(unit, Memory) else [memory for memory, _ in sparsity.formats]
            if any(sparsity.compresses(memory, tensor) for memory in senders):
                part *= sparsity.densities[tensor].part
            per_value.append((tensor, number * part))
        found.append(replace(action, per_value=tuple(per_value)))
    return tuple(found)
