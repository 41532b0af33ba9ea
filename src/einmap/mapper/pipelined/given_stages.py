"""Which given stages of Pipelines are searched: what is handed on is right above the Pipeline, all else in a stage."""

from __future__ import annotations

from einmap.errors import At, NotSupportedError
from einmap.mapper.given.pattern import Free, GivenHolder, GivenLoop, GivenStage
from einmap.mapper.problem.problem import Problem
from einmap.spec.spec import Spec


def check_given_stages(problem: Problem) -> At:
    """Where the first Pipeline was written. Raises NotSupportedError for what is not searched."""
    stages = {name: pattern.stage for name, pattern in problem.given.items() if pattern.stage is not None}
    order = {einsum.name: position for position, einsum in enumerate(problem.spec.workload.einsums)}
    together: dict[str, list[str]] = {}
    for name in sorted(stages, key=order.__getitem__):
        together.setdefault(stages[name].begin.pipeline, []).append(name)
    for names in together.values():
        first = stages[names[0]]
        numbers = [stages[name].begin.number for name in names]
        positions = [order[name] for name in names]
        text = f"the Pipeline of {', '.join(names)}"
        if len({*numbers}) < 2:
            raise NotSupportedError(f"{text} has one stage", at=first.at, hint="give two stages or more")
        if positions != list(range(positions[0], positions[0] + len(names))) or numbers != sorted(numbers):
            hint = "its stages are successive Einsums of the workload, in order"
            raise NotSupportedError(f"{text} is in another order than the workload", at=first.at, hint=hint)
        for name in names:
            _check(problem.spec, name, frozenset(names), stages[name])
    return next(iter(stages.values())).at


def _check(spec: Spec, name: str, names: frozenset[str], stage: GivenStage) -> None:
    """Check that tensors handed on in a Pipeline are held below all loops above it, and nothing else there."""
    workload, einsum = spec.workload, spec.workload.by_name[name]
    handed = {t for t in einsum.tensors & workload.intermediates if names.issuperset(workload.users[t])}
    above = stage.above
    last = max((i for i, token in enumerate(above) if isinstance(token, GivenLoop)), default=-1)
    right = above[last + 1 :]
    if any(isinstance(token, Free) for token in right) or last < 0:
        return
    held = {t for token in right if isinstance(token, GivenHolder) for t in token.tensors}
    if missing := sorted(handed - held):
        text = f"{missing[0]!r} is handed on, and is not held between the loops above the Pipeline and the Pipeline"
        hint = f"write !Storage {{tensors: [{missing[0]}], ...}} or !Any {{}} right above the !Pipeline"
        raise NotSupportedError(f"{text}; that is not searched", at=stage.at, hint=hint)
    if others := sorted(held - handed):
        text = f"{others[0]!r} is held right above the Pipeline, and is not handed on from stage to stage"
        hint = f"hold {others[0]} in the stages that use it, or above a loop"
        raise NotSupportedError(f"{text}; that is not searched", at=stage.at, hint=hint)
