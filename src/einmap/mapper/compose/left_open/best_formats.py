"""Formats of sparse tensors that are left open: which one is best in each memory, with the mapping that is best for it.

One search covers all combinations where it can (`together`): parts of them have a bound in common, and what was found
with one rules out others. Else each combination is searched by itself, with an even part of the time that is left; the
best mapping of all is the result. What fits with one format may not fit with another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from einmap.errors import NoMappingError, SpecError
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.problem import Budget, NotTogetherError
from einmap.mapper.result.outcome import Outcome, united
from einmap.spec.open_formats import FormatChoice
from einmap.spec.spec import Spec

MOST_COMBINATIONS = 1_000
"""Combinations of formats that are searched, at most."""
FEW_COMBINATIONS = 64
"""Combinations of formats that are searched one after another where Einsums may be fused, so that each is proven."""
SLIGHTLY_MORE = 1 + 1e-6
"""Factor of the best mapping with other formats up to which mappings are looked for: those that are as good, too."""
STOPPED = "stopped before all choices of formats were searched"
"""Why a search ended that was done for some choices."""


def best_formats(
    spec: Spec, choices: Sequence[FormatChoice], asked: Options, search: Callable[..., Outcome]
) -> Outcome:
    """The best mapping, or the front, over all formats; the `spec` of each point has those that it is for.

    `choices`: what is open, at least one; `search`: searches one specification within `time_limit_s` and
    `max_evaluations`, and may leave out what is not `below` a value. The outcome is complete where that of each
    combination is, or where nothing fits with it. Raises NoMappingError where no combination has a mapping that was
    found.
    """
    count = _checked_count(spec, choices)
    budget, work = Budget.of(asked, None), 0
    outcomes, failed, missed = list[Outcome](), list[NoMappingError](), 0
    for done, settled in enumerate(combinations(choices)):
        left = budget.after(work)
        if done and left.is_over:
            missed += count - done
            break
        left = left.share(1 / (count - done))
        most = None if math.isinf(left.work) else int(left.work)
        limits = {"time_limit_s": left.progress.seconds_left(), "max_evaluations": most}
        if outcomes and len(asked.goals) == 1:
            # what is worse than what another combination has need not be found
            limits["below"] = min(found.value for found in outcomes) * SLIGHTLY_MORE
        try:
            found = search(spec.with_formats(settled), **limits)
        except NoMappingError as error:
            failed.append(error)
            missed += not error.complete
            continue
        work += found.stats.evaluated
        outcomes.append(found)
    if not outcomes:
        raise _nothing(failed, count)
    best = united(outcomes)
    return replace(
        best,
        ended=best.ended or (STOPPED if missed else None),
        bound=None if missed else best.bound,
        ties_broken=best.ties_broken and not missed,
        notes=(*best.notes, _note(count, missed, len(failed))),
    )


def together(
    first: Spec, choices: Sequence[FormatChoice], search: Callable[..., Outcome], limits: Mapping[str, Any]
) -> Outcome | None:
    """The best over all formats in one search, in which they share what was found and bounds; None where none can.

    `first`: the specification with the first ones; `search`: also takes `formats`. Tensors that several Einsums use
    have one format, so that each combination of these is searched by itself. Raises NoMappingError.
    """
    if of_several(first, choices):
        return None
    count = _checked_count(first, choices)
    try:
        return search(first, formats=tuple(choices), **limits)
    except NotTogetherError:
        return None
    except NoMappingError as error:
        raise _nothing([error], count) from None


def one_by_one(spec: Spec, choices: Sequence[FormatChoice], fuse: bool) -> Sequence[FormatChoice]:
    """The choices whose combinations are searched by themselves where not all are in one search.

    Those for tensors that several Einsums use, or all of them, where there are none, or Einsums may be fused and the
    combinations are few.
    """
    several = fuse and len(spec.workload.einsums) > 1
    if several and math.prod(len(choice.alternatives) for choice in choices) <= FEW_COMBINATIONS:
        return choices
    return of_several(spec, choices) or choices


def of_several(spec: Spec, choices: Sequence[FormatChoice]) -> list[FormatChoice]:
    """The choices for tensors that several Einsums use."""
    einsums = spec.workload.einsums
    return [one for one in choices if sum(one.tensor in einsum.tensors for einsum in einsums) > 1]


def first_formats(choices: Sequence[FormatChoice]) -> dict[str, dict[str, Any]]:
    """The first alternative of each choice, by memory and tensor."""
    return next(combinations(choices))


def combinations(choices: Sequence[FormatChoice]) -> Iterator[dict[str, dict[str, Any]]]:
    """All combinations of formats, by memory and tensor; those of the last choice one after another."""
    for formats in product(*(choice.alternatives for choice in choices)):
        settled: dict[str, dict[str, Any]] = {}
        for choice, chosen in zip(choices, formats, strict=True):
            settled.setdefault(choice.memory, {})[choice.tensor] = chosen
        yield settled


def _checked_count(spec: Spec, choices: Sequence[FormatChoice]) -> int:
    count = math.prod(len(choice.alternatives) for choice in choices)
    if count > MOST_COMBINATIONS:
        raise SpecError(
            f"{count:,} combinations of formats are left open; the mapper searches at most {MOST_COMBINATIONS:,}",
            at=spec.provenance("sparsity.formats"),
            hint="leave fewer formats open, or name fewer alternatives",
        )
    return count


def _nothing(failed: Sequence[NoMappingError], count: int) -> NoMappingError:
    """Why no mapping was found with any combination: why not with the first one, and how many there are."""
    error = next((one for one in failed if not one.complete), failed[0])
    return error if count == 1 else error.with_message(f"with none of {count:,} choices of formats: {error.message}")


def _note(count: int, missed: int, failed: int) -> str:
    note = f"{count - missed:,} of {count:,}" if missed else f"all {count:,}"
    one = f"{note} choices of formats were searched"
    return f"{one}, with {failed:,} of which no mapping was found" if failed else one
