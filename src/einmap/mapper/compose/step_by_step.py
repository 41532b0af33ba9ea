"""A first mapping of a cascade with recurrences: each Einsum by itself, one loop above those of a recurrence."""

from __future__ import annotations

from einmap.arch.tree import outermost_memory
from einmap.einsum.spaces.recurrence import Recurrence
from einmap.errors import EinmapError
from einmap.mapper.given.pattern import FREE, GivenCompute, GivenHolder, GivenLoop, Pattern
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.problem.problem import Problem
from einmap.mapper.result.outcome import evaluated
from einmap.mapper.result.result import Found
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress
from einmap.spec.spec import Spec


def step_by_step(problem: Problem, token: Progress) -> list[Found]:
    """A mapping whose tensors all lie in the outermost memory between Einsums; none where that is not valid.

    Each Einsum has a mapping of its own, with the loop over the steps of its recurrence outside of all others; these
    loops are then one. It takes up to LONGEST seconds of its own, so it is there when time is over. None are looked for
    that are like a given mapping.
    """
    spec = problem.spec
    if problem.given:
        return []
    given = {name: _each_step(spec, name, r.variable) for r in _looped(spec) for name in r.einsums}
    if None in given.values():
        return []
    patterns = {name: pattern for name, pattern in given.items() if pattern is not None}
    try:
        apart = IndependentSearch(spec, problem.options, patterns).quick_mapping(token)
        return [evaluated(spec, _with_one_loop(spec, apart), problem.options.rules)]
    except EinmapError:
        return []


def _looped(spec: Spec) -> list[Recurrence]:
    """The recurrences of more than one step."""
    workload = spec.workload
    return [r for r in workload.recurrences if workload.by_name[r.einsums[0]].extents[r.variable] > 1]


def _each_step(spec: Spec, einsum: str, variable: str) -> Pattern | None:
    """All tensors in the outermost memory, a loop over the steps, and below it anything."""
    arch = spec.arch(einsum)
    outermost = {
        memory.name for unit in arch.computes if unit.enabled and (memory := outermost_memory(arch.path(unit.name)))
    }
    if len(outermost) != 1:
        return None
    tokens = (
        GivenHolder(outermost.pop(), spec.workload.by_name[einsum].tensors),
        GivenLoop(variable, 1),
        FREE,
        GivenCompute(),
    )
    return Pattern(tokens, (spec.place_of_einsum(einsum),) * len(tokens))


def _with_one_loop(spec: Spec, apart: LoopTree) -> LoopTree:
    """The branches of each recurrence below one loop over its steps, in place of one in each."""
    *outer, split = apart.nodes
    assert isinstance(split, tree.Sequential)
    branches = {einsum.name: branch for einsum, branch in zip(spec.workload.einsums, split.branches, strict=True)}
    for recurrence in _looped(spec):
        steps = [branches.pop(name) for name in recurrence.einsums]
        below = tree.Sequential(tuple(step[1:] for step in steps))
        branches[recurrence.einsums[0]] = (steps[0][0], *(below.branches[0] if len(steps) == 1 else (below,)))
    joined = [branches[einsum.name] for einsum in spec.workload.einsums if einsum.name in branches]
    return LoopTree((*outer, *(joined[0] if len(joined) == 1 else (tree.Sequential(tuple(joined)),))))
