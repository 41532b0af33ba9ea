"""The choices of the Einsums of a workload, listed before they are searched, and which Einsums are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from einmap.arch.constraint import Names
from einmap.einsum.einsum import Einsum
from einmap.errors import NotSupportedError
from einmap.mapper.branch_and_bound.isomorphism import canonical_key, rules_key
from einmap.mapper.branch_and_bound.narrowed_plans import planned
from einmap.mapper.given.pattern import Pattern
from einmap.mapper.independent.einsum_result import EinsumResult
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import check_stalls_searchable, why_not_fused, why_not_searchable
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Storage, Toll
from einmap.progress import Progress
from einmap.spec.spec import Spec

OF_LEFT = 0.5
"""Part of what is left of a limited time in which the choices of one Einsum are listed."""


class Whole(Protocol):
    """A workload of which every Einsum is searched by itself; see `IndependentSearch`."""

    spec: Spec
    options: Options
    given: Mapping[str, Pattern]
    parts: dict[str, EinsumResult]
    goals: tuple[str, ...]

    @property
    def exchanged_whole(self) -> Names:
        """Tensors that Einsums exchange whole below the outermost memory."""

    def weight(self, einsum: Einsum) -> int:
        """How often an Einsum runs."""

    def request(self, einsum: str) -> Request:
        """Request to an Einsum's search."""

    def is_given(self, part: EinsumResult) -> bool:
        """Whether the mapping of an Einsum must be like a given one."""


def plan_all(whole: Whole, token: Progress, plan_first: bool) -> None:
    """The searches of all Einsums, and which are the same; see `IndependentSearch.prepare`."""
    first_of: dict[object, str] = {}
    before, whole.parts = whole.parts, {}
    for position, einsum in enumerate(whole.spec.workload.einsums):
        arch = whole.spec.bound[einsum.name].arch
        exchanged = tuple(access.tensor in whole.exchanged_whole for access in einsum.accesses)
        rules = einsum.name if einsum.name in whole.given else (rules_key(einsum, arch), exchanged, einsum.n_instances)
        first = first_of.setdefault(rules, einsum.name)
        alike = whole.parts.get(first)
        if alike is not None and alike.why is None:
            whole.parts[einsum.name] = EinsumResult(einsum, alike.search, alike.why, alike.same_as or first)
            continue
        part = before.get(einsum.name) or new_part(whole, einsum)
        part.same_as = None
        whole.parts[einsum.name] = part
        must_be = whole.is_given(part) or (plan_first and not position)
        if not part.is_planned and (must_be or not token.stopped):
            plan(whole, part, share_of(token, OF_LEFT))
        if part.search is not None and not whole.is_given(part):
            key = first_of.setdefault(canonical_key(einsum, arch, part.search.paths), einsum.name)
            part.same_as = key if key != einsum.name else None


def begin_with(whole: Whole, mappings: Mapping[str, LoopTree]) -> None:
    """Take good mappings of some Einsums, by name, that were found before; those of other tensors are left out."""
    for name, mapping in mappings.items():
        einsum = whole.spec.workload.by_name.get(name)
        held = {tensor for node in mapping.nodes if isinstance(node, Storage | Toll) for tensor in node.tensors}
        if einsum is not None and name not in whole.given and held <= einsum.tensors:
            whole.parts.setdefault(name, new_part(whole, einsum)).early.append(mapping)


def is_hardly_planned(parts: Mapping[str, EinsumResult]) -> bool:
    """Whether most Einsums have no choices listed, so that a few times as long would not do for all."""
    distinct = [part for part in parts.values() if part.same_as is None]
    return 3 * sum(part.is_planned for part in distinct) < len(distinct)


def why_no_tables(whole: Whole, einsum: Einsum) -> str | None:
    """Why an Einsum is searched by brute force, as far as that is known before its choices are listed."""
    if whole.options.brute_force:
        return "brute force was asked for"
    is_alone = einsum.name not in whole.given and not whole.exchanged_whole & einsum.tensors
    why = why_not_searchable if is_alone else why_not_fused
    return why(einsum, whole.spec.bound[einsum.name].arch, whole.goals)


def new_part(whole: Whole, einsum: Einsum) -> EinsumResult:
    """An Einsum of which nothing is listed."""
    part = EinsumResult(einsum, None, why_no_tables(whole, einsum))
    check_searched(whole, part)
    return part


def check_searched(whole: Whole, part: EinsumResult) -> None:
    """Raise NotSupportedError where an Einsum cannot be searched as it would have to be."""
    einsum, why = part.einsum, part.why
    if why is not None and whole.is_given(part):
        raise NotSupportedError(
            f"Einsum {einsum.name!r} is searched mapping by mapping ({why}), which takes no given mapping",
            at=whole.given[einsum.name].places[0],
            hint="leave it out of what is given",
        )
    check_stalls_searchable(einsum, whole.spec.bound[einsum.name].arch, why)


def plan(whole: Whole, part: EinsumResult, token: Progress) -> None:
    """The dataplacements and uses of the fanouts of one Einsum, or why it is searched without tables."""
    einsum, arch = part.einsum, whole.spec.bound[part.einsum.name].arch
    part.search = planned(einsum, arch, whole.request(einsum.name), token, whole.weight(einsum))
    if any(path.lanes_above() for path in part.search.paths):
        part.search, part.why = None, "lanes may stand above its outermost memory"
        check_searched(whole, part)
