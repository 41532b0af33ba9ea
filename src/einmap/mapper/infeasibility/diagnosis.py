"""Why an Einsum has no mapping: what clashes, and the three smallest changes that would leave one.

Every finite memory, fanout and constraint on the path to each compute is changed by itself, and a search that ends with
the first mapping says whether there is one then. Where no single change helps, pairs are tried.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations

from einmap.arch.component import Compute
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import NoMappingError, Remedy, SpecError
from einmap.mapper.infeasibility.oracle import Oracle, UndecidedError
from einmap.mapper.infeasibility.remedies import Candidates
from einmap.mapper.infeasibility.remedy_steps import Candidate, RelaxationStep
from einmap.mapper.mapspace.dataplacement import kept_nowhere
from einmap.mapper.mapspace.lanes.dimension_ways import limited_variables, unusable
from einmap.mapper.mapspace.tile_lattice import lattice_of
from einmap.mapper.problem.request import Request
from einmap.progress import Progress
from einmap.spec.spec import Spec

REPORTED = 3
"""Changes that are reported."""
PATIENCE = 1.0
"""Seconds that there are for finding them where the time of the search is over."""
MOST_SECONDS = 10.0
"""Time for finding them where the search has no limit (s)."""
MOST_PAIRS = 100
"""Pairs of changes that are tried."""


@dataclass
class PathReasons:
    """Reasons found for one compute: changes that help (by field), pairs of them, whether all was tried."""

    compute: Compute
    clash: str = ""
    steps: dict[str, RelaxationStep] = field(default_factory=dict)
    pairs: list[tuple[tuple[str, RelaxationStep], tuple[str, RelaxationStep]]] = field(default_factory=list)
    complete: bool = True


def reasons(
    spec: Spec, einsum: Einsum, request: Request, instances: int, progress: Progress, looked_at: str
) -> NoMappingError:
    """The error for an Einsum whose mapspace is empty; `looked_at`: how much that was, in words.

    Takes no more than what is left of the time (at least a second, 10 s where there is no limit); what was not
    tried by then is not reported.
    """
    arch = spec.bound[einsum.name].arch
    oracle = Oracle(einsum, request, _patient(progress), instances)
    with suppress(UndecidedError):
        if oracle.fit(arch) is not None:
            raise SpecError(
                f"mappings of Einsum {einsum.name!r} fit, but what each costs is not a finite number",
                at=spec.provenance("arch.nodes"),
                hint="look at energy, throughput, leak_power, scales and total_latency of its components",
            )
    paths = [PathSearcher(spec, einsum, arch.only(unit.name), unit, oracle).run() for unit in arch.computes]
    remedies = _remedies(spec, paths)
    enabled = [path for path in paths if path.compute.enabled]
    if len(enabled) == 1:
        clash = enabled[0].clash
    else:
        clash = "; ".join(f"on the path to {path.compute.name}, {path.clash}" for path in enabled)
    return NoMappingError(
        f"no mapping of Einsum {einsum.name!r}: {clash} ({looked_at})",
        at=remedies[0].at if remedies else spec.provenance("arch.nodes"),
        hint=hint_of(remedies, all(path.complete for path in paths)),
        remedies=remedies,
        complete=all(path.complete for path in paths),
    )


def is_empty(spec: Spec, einsum: Einsum, request: Request, instances: int, progress: Progress) -> bool:
    """Whether it can be proven, in a second or what is left of the time, that an Einsum has no mapping."""
    try:
        return not Oracle(einsum, request, _patient(progress), instances).admits(spec.bound[einsum.name].arch)
    except UndecidedError:
        return False


def _patient(progress: Progress) -> Progress:
    """The token with the time that there is for reasons."""
    now = time.monotonic()
    if progress.deadline is None:
        return progress.within(MOST_SECONDS)
    return replace(progress, deadline=min(max(progress.deadline, now + PATIENCE), now + MOST_SECONDS))


@dataclass
class PathSearcher:
    """Looks for the changes that help on the path to one compute, the only one that may be enabled in `arch`."""

    spec: Spec
    einsum: Einsum
    arch: Architecture
    unit: Compute
    oracle: Oracle
    reasons: PathReasons = field(init=False)

    def __post_init__(self) -> None:
        self.reasons = PathReasons(self.unit)

    def run(self) -> PathReasons:
        """Try all single changes, then pairs if none helps; stops early when time is over."""
        force = self.oracle.request.force_hierarchy_order
        every = Candidates(self.spec, self.einsum, self.arch, self.unit.name, force).all()
        # a disabled compute must be enabled before anything else matters
        candidates = [candidate for candidate in every if self.unit.enabled or candidate.field.endswith(".enabled")]
        for candidate in candidates:
            step = self.least(candidate, self.arch)
            if step is not None:
                self.reasons.steps[candidate.field] = step
        if not self.reasons.steps and self.unit.enabled:
            self.pairs([candidate for candidate in candidates if candidate.relaxed is not None])
        if self.unit.enabled:
            self.reasons.clash = self.clash()
        return self.reasons

    def least(self, candidate: Candidate, arch: Architecture) -> RelaxationStep | None:
        """The least change of one field; None as well where that was not decided in time."""
        try:
            return candidate.least(arch, self.oracle)
        except UndecidedError:
            self.reasons.complete = False
            return None

    def pairs(self, candidates: Sequence[Candidate]) -> None:
        """Two changes together: the first as small as the second allows, then the second."""
        for candidate, other in list(combinations(candidates, 2))[:MOST_PAIRS]:
            if len(self.reasons.pairs) >= REPORTED or self.oracle.progress.stopped:
                return
            assert other.relaxed is not None
            first = self.least(candidate, other.relaxed(self.arch))
            second = self.least(other, first.edit(self.arch)) if first else None
            if first and second:
                self.reasons.pairs.append(((candidate.field, first), (other.field, second)))

    # the clash

    def clash(self) -> str:
        """Clash that leaves nothing, in words."""
        missing = kept_nowhere(self.einsum, self.arch.path(self.unit.name))
        if missing:
            leaves = " - ".join(leaf.name for leaf in self.arch.path(self.unit.name))
            return f"no memory may keep {', '.join(map(repr, missing))} on the path {leaves}"
        unused = self.unusable()
        if unused:
            return unused
        steps = sorted(self.reasons.steps.values(), key=lambda step: step.size)
        overflow = next((step.clash for step in steps if step.clash), "")
        if overflow:
            return overflow
        if steps:
            # what helps when it is changed alone has a part in every contradiction
            places = [shown(self.spec, name) for name in self.reasons.steps]
            return "its constraints contradict each other: " + ", ".join(places)
        together = [step.clash for pair in self.reasons.pairs[:1] for _, step in pair if step.clash]
        if together:
            return "several things at a time: " + "; ".join(together)
        return "its constraints and capacities together leave nothing"

    def unusable(self) -> str:
        """The dimension of which no use keeps the constraints, not even that it is left idle."""
        leaves = self.arch.path(self.unit.name)
        lattice = lattice_of(self.einsum, limited_variables(self.einsum, leaves))
        for leaf in leaves:
            for dimension in leaf.spatial:
                if unusable(self.einsum, dimension, lattice):
                    limits = ", ".join(limit.text for limit in dimension.loop_bounds)
                    return f"no loops over {leaf.name}.{dimension.name} (fanout {dimension.fanout}) keep {limits}"
        return ""


def shown(spec: Spec, name: str) -> str:
    """A path as users read it: `arch.nodes[1] "GLB".size`."""
    return spec.provenance(name).path


def _remedies(spec: Spec, paths: Sequence[PathReasons]) -> list[Remedy]:
    """The smallest changes of all paths, one for each field; pairs where there is no single one."""
    best: dict[str, RelaxationStep] = {}
    for path in paths:
        for name, step in path.steps.items():
            if name not in best or step.size < best[name].size:
                best[name] = step
    remedies = [
        Remedy(f"{shown(spec, name)}: {step.text}", step.settings, step.size, spec.provenance(name))
        for name, step in best.items()
    ]
    if not remedies:
        for (first_field, first), (second_field, second) in (pair for path in paths for pair in path.pairs):
            text = f"{shown(spec, first_field)}: {first.text}, and {shown(spec, second_field)}: {second.text}"
            settings = (*first.settings, *second.settings)
            remedies.append(Remedy(text, settings, first.size * second.size, spec.provenance(first_field)))
    # what is switched off was meant to be: among changes of one size it comes last
    return sorted(remedies, key=lambda r: (r.size, r.settings[0][0].endswith(".enabled")))[:REPORTED]


def hint_of(remedies: Sequence[Remedy], complete: bool) -> str:
    """The changes as a list; `complete`: whether all were tried."""
    rest = "" if complete else "\n    (not all changes could be tried in time)"
    if not remedies and not complete:
        return "no change of a size, fanout or constraint that was tried helps" + rest
    if not remedies:
        return "no single change of a size, fanout or constraint helps, and no pair that was tried"
    if all(len(remedy.settings) == 1 for remedy in remedies):
        least = "the least changes that help" if complete else "the least changes of those tried that help"
        opening = f"{least}, each by itself"
    else:
        opening = "no single change helps; these do together" if complete else "these changes help together"
    return opening + ":" + "".join(f"\n    {remedy.text}" for remedy in remedies) + rest
