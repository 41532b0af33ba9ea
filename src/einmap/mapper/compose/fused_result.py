"""The result of a fused search, and what it leaves out: Einsums that tables cannot search, and what had no room."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.fusion.paths.lower_envelope import corners
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import Found, MapResult, MapStats
from einmap.mapper.result.verdict import Coverage, ended_after, judged, narrowed_by


def fused_result(
    searches: Sequence[FusedSearch],
    front: list[Found],
    asked: Options,
    start: float,
    left_out: Sequence[str] = (),
) -> MapResult:
    """What some searches of the same cascade found together.

    `start`: when they began; `left_out`: what no search looked at, in words.
    """
    by_einsum: dict[str, dict[str, Any]] = {}
    steps: dict[str, float] = {}
    for search in searches:
        by_einsum |= search.stats()
        for step, seconds in search.seconds.items():
            steps[step] = steps.get(step, 0.0) + seconds
    distinct = [part for part in by_einsum.values() if part["same_as"] is None]
    kept = {name for found in front for name in found.spec.workload.by_name}
    kept |= {part["same_as"] for name, part in by_einsum.items() if name in kept}
    total = time.perf_counter() - start
    stats = MapStats(
        mapspace_size=float(sum(part["mapspace_size"] for part in by_einsum.values())),
        templates=sum(part["templates"] for part in distinct),
        evaluated=sum(search.budget.work for search in searches),
        seconds=total,
        by_einsum={name: part for name, part in by_einsum.items() if name in kept},
        steps={**steps, "evaluation": max(total - sum(steps.values()), 0.0)},
    )
    pruned = (*not_searched_by(searches), *left_out)
    inside = all(search.inside for search in searches)
    kind = "fused mapping" if inside else "unfused mapping (each Einsum by itself)"
    covered = Coverage(
        every=f"other {kind}" if pruned else kind,
        narrowed=narrowed_by(asked, fused=inside),
        ended=ended_after(stats.evaluated) if any(map(_cut, searches)) else None,
        pruned=pruned,
        bound=None if left_out else bound_of(searches),
    )
    return judged(front, asked.goals, covered, stats)


def _cut(search: FusedSearch) -> bool:
    """Whether a search was stopped, or had no time to list all dataplacements."""
    return search.budget.cut or any(member.chains.is_cut for member in search.distinct)


def bound_of(searches: Sequence[FusedSearch]) -> float | None:
    """What the one objective is at least (J, s, J*s), whatever the searches left out.

    None for several objectives, or where it is not known.
    """
    if any(len(search.options.goals) > 1 for search in searches):
        return None
    bounds = [known_bound(search) for search in searches]
    return None if None in bounds else min(bound for bound in bounds if bound is not None)


def known_bound(search: FusedSearch) -> float | None:
    """What the one objective of a search is at least, also where it was stopped or had to leave something out."""
    members = {member.einsum.name: member for member in search.members}
    proven = 0.0
    if search.least and all(member.chains.covers_mapspace for member in search.members):
        proven = search.lower_bound()
    total = np.zeros(len(search.weights))
    for einsum in search.workload.einsums:
        member = members.get(einsum.name)
        costs = np.array(least_costs(einsum, search.spec.bound[einsum.name].arch, search.goals))
        # an infinite latency counts for nothing where its weight is 0, as a sum of products would not have it
        floor = np.multiply(search.weights, costs, where=search.weights > 0, out=np.zeros(search.weights.shape)).sum(1)
        searched = np.full(len(floor), -np.inf)
        if member is not None and member.chains.covers_mapspace and member.chains in search.least:
            # where there was no time for bounds it is nothing
            searched = search.least[member.chains]
        least = np.fmax(searched, floor)
        if (least == -np.inf).any():
            return proven if proven > 0 else None
        total += search.times(einsum) * least
    return max(proven, float(corners(search.weights, total[None])[0].prod(axis=1).min()))


def not_searched_by(searches: Sequence[FusedSearch]) -> tuple[str, ...]:
    """What some searches left out, in words."""
    return tuple(dict.fromkeys(text for search in searches for text in _not_searched(search)))


def _not_searched(search: FusedSearch) -> list[str]:
    texts: list[str] = []
    for member in search.distinct:
        chains, name = member.chains, member.einsum.name
        texts += chains.omissions
        if chains.why_brute_force is not None and chains.request.intermediates:
            texts.append(
                f"mappings that keep {_kept(search, name)} inside tile by tile, and some that keep them whole: "
                f"{_alone(search, name, chains.why_brute_force)}"
            )
    return texts


def _alone(search: FusedSearch, name: str, why: str) -> str:
    """Why an Einsum is searched by brute force."""
    alike = sum(name in (member.einsum.name, member.same_as) for member in search.members) - 1
    others = f" and {alike} like it" if alike else ""
    return f"Einsum {name!r}{others} is searched mapping by mapping ({why})"


def _kept(search: FusedSearch, name: str) -> str:
    """Intermediate tensors of an Einsum."""
    copies = [search.workload.by_name[copy] for copy in search.optional]
    copied = {t: source for copy in copies for t in copy.outputs for source in copy.inputs}
    einsum = search.workload.by_name[name]
    inside = [a.tensor for a in einsum.accesses if a.tensor in search.workload.intermediates]
    return " or ".join(f"a copy of {copied[t]}" if t in copied else t for t in dict.fromkeys(inside))
