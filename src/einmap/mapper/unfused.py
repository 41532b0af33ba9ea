"""Search every Einsum of a workload by itself, alike ones once, and put the best parts into one tree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.tree import outermost_memory
from einmap.einsum.einsum import Einsum
from einmap.errors import NoMappingError, NotSupportedError
from einmap.mapper.brute_force import brute_force
from einmap.mapper.canonical import canonical_key, renamed
from einmap.mapper.cascade import nondominated, sums
from einmap.mapper.dataplacement import kept_nowhere
from einmap.mapper.einsum_search import EinsumSearch, Optimum, Request, why_not
from einmap.mapper.listing import share_of
from einmap.mapper.options import Options
from einmap.mapper.tally import STEPS
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress
from einmap.spec.spec import Spec

PARTS = {
    "energy": ("energy",),
    "latency": ("latency",),
    "energy_delay_product": ("energy", "latency"),
    "dynamic_energy": ("dynamic_energy",),
    "leak_energy": ("leak_energy",),
}
"""What has to be added up over Einsums for each objective."""


@dataclass
class Part:
    """One Einsum: how it is searched, whose result it shares, and what was found."""

    einsum: Einsum
    search: EinsumSearch | None
    why: str | None
    same_as: str | None = None
    optimum: Optimum | None = None


@dataclass
class Whole:
    """A workload with what is asked for; `run` fills `parts`."""

    spec: Spec
    options: Options
    parts: dict[str, Part] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workload = self.spec.workload
        self.single = len(self.workload.einsums) == 1
        self.goals = self._goals()

    def _goals(self) -> tuple[str, ...]:
        """Objectives of each Einsum's search: those asked for, or what they are made of."""
        goals = self.options.goals
        if "resource_usage" in goals:
            if not self.single:
                raise NotSupportedError("resource_usage as an objective of a cascade is not supported yet")
            return (*(g for g in goals if g != "resource_usage"), *self._usages())
        if self.single:
            return goals
        return tuple(dict.fromkeys(part for goal in goals for part in PARTS[goal]))

    def _usages(self) -> list[str]:
        arch = self.spec.bound[self.workload.einsums[0].name].arch
        return [
            f"usage of {name}"
            for name, unit in arch.components.items()
            if math.isfinite(getattr(unit, "size_bits", math.inf))
        ]

    def weight(self, einsum: Einsum) -> int:
        """How often an Einsum runs."""
        return self.workload.n_instances * einsum.n_instances

    def run(self, token: Progress) -> None:
        """Search each distinct Einsum once; time and evaluations are shared out evenly."""
        self.prepare(token)
        own = [part for part in self.parts.values() if part.same_as is None]
        evaluations = self.options.max_evaluations
        for position, part in enumerate(own):
            share = share_of(token, 1 / (len(own) - position))
            budget = math.inf if evaluations is None else max(evaluations // len(own), 1)
            part.optimum = self.search(part, share, budget, position)
            if not part.optimum.mappings:
                raise self.nothing(part)

    def prepare(self, token: Progress) -> None:
        """The searches, and which are the same."""
        known: dict[Any, str] = {}
        for einsum in self.workload.einsums:
            arch = self.spec.bound[einsum.name].arch
            why = "brute force was asked for" if self.options.brute_force else why_not(einsum, arch)
            if why is not None:
                self.parts[einsum.name] = Part(einsum, None, why)
                continue
            search = EinsumSearch(einsum, arch, self.request(), token, self.weight(einsum))
            search.prepare()
            key = canonical_key(einsum, arch, search.paths)
            first = known.setdefault(key, einsum.name)
            self.parts[einsum.name] = Part(einsum, search, None, first if first != einsum.name else None)

    def request(self) -> Request:
        """What is asked of each Einsum's search."""
        return Request(
            self.goals,
            self.options.rules,
            self.options.force_memory_hierarchy_order,
            self.options.objective_tolerance,
        )

    def search(self, part: Part, token: Progress, budget: float, position: int) -> Optimum:
        """Search one Einsum."""
        if part.search is None:
            rng = np.random.default_rng([self.options.seed, position])
            arch = self.spec.bound[part.einsum.name].arch
            return brute_force(part.einsum, arch, self.request(), token, budget, rng)
        part.search.progress = token
        part.search.max_work = budget
        return part.search.run()

    def nothing(self, part: Part) -> NoMappingError:
        """Why there is no mapping of an Einsum."""
        assert part.optimum is not None
        name, found = part.einsum.name, part.optimum
        if not found.complete:
            text = f"the search was stopped before any mapping of Einsum {name!r} was found"
            return NoMappingError(text, hint="give it more time or evaluations")
        unkept = self.unkept(part.einsum)
        if unkept is not None:
            return unkept
        return NoMappingError(
            f"no mapping of Einsum {name!r} keeps the constraints and fits its memories: "
            f"{found.plans:,} dataplacements, {found.lanes:,} uses of the fanouts",
            hint="enlarge a memory, or let tensors bypass it (tensors.keep / may_keep)",
        )

    def unkept(self, einsum: Einsum) -> NoMappingError | None:
        """The error when no path of the architecture keeps some tensor of the Einsum."""
        arch = self.spec.bound[einsum.name].arch
        paths = [arch.path(unit.name) for unit in arch.computes if unit.enabled]
        missing = [kept_nowhere(einsum, path) for path in paths]
        if not all(missing):
            return None
        shown = "; ".join(
            f"{', '.join(repr(tensor) for tensor in tensors)} on the path {' - '.join(leaf.name for leaf in path)}"
            for tensors, path in zip(missing, paths, strict=True)
        )
        return NoMappingError(
            f"no memory may keep a tensor of Einsum {einsum.name!r}: {shown}",
            at=self.spec.provenance("arch.nodes"),
            hint="name it in tensors.keep or tensors.may_keep of a Memory",
        )

    # results

    def optimum(self, einsum: Einsum) -> Optimum:
        """What was found for an Einsum, or for the one that it is like."""
        part = self.parts[einsum.name]
        found = self.parts[part.same_as].optimum if part.same_as else part.optimum
        assert found is not None
        return found

    def best(self) -> list[LoopTree]:
        """The mappings of the whole workload that are best, or its front, best first by the first objective."""
        einsums = self.workload.einsums
        fronts = [np.array(self.optimum(e).values, dtype=np.float64) for e in einsums]
        total = sums(fronts, [self.weight(e) for e in einsums])
        values = self.objectives(total.values)
        rows = [int(np.argmin(values[:, 0]))] if values.shape[1] == 1 else [int(i) for i in nondominated(values)]
        return [
            self.join([self.mapping(e, i) for e, i in zip(einsums, total.chosen[row], strict=True)]) for row in rows
        ]

    def objectives(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The objectives that were asked for, from sums of what they are made of."""
        if self.single:
            return parts
        columns = []
        for goal in self.options.goals:
            product = np.ones(len(parts))
            for part in PARTS[goal]:
                product = product * parts[:, self.goals.index(part)]
            columns.append(product)
        return np.stack(columns, axis=1)

    def mapping(self, einsum: Einsum, row: int) -> LoopTree:
        """One mapping of an Einsum's front."""
        found = self.optimum(einsum).mappings[row]
        same_as = self.parts[einsum.name].same_as
        return found if same_as is None else renamed(found, self.workload.by_name[same_as], einsum)

    def bound(self) -> float:
        """What the one objective is at least."""
        total = np.zeros(len(self.goals))
        for einsum in self.workload.einsums:
            total += np.array(self.optimum(einsum).bound) * self.weight(einsum)
        if self.single and self.goals == ("energy_delay_product",):
            total *= self.weight(self.workload.einsums[0])
        return float(self.objectives(total[None, :])[0, 0])

    def join(self, parts: list[LoopTree]) -> LoopTree:
        """One tree: what the outermost memory holds stands above the split, the rest in a branch each."""
        if len(parts) == 1:
            return parts[0]
        head: dict[tuple[str, bool], dict[str, None]] = {}
        branches = []
        for part in parts:
            lead = 0
            last = part.nodes[-1]
            assert isinstance(last, tree.Compute)
            outer = outermost_memory(self.spec.arch(last.einsum).path(last.component))
            for node in part.nodes:
                if not (isinstance(node, tree.Storage) and outer is not None and node.component == outer.name):
                    break
                head.setdefault((node.component, node.persistent), {}).update(dict.fromkeys(node.tensors))
                lead += 1
            branches.append(part.nodes[lead:])
        storage = [tree.Storage(tuple(tensors), name, lasting) for (name, lasting), tensors in head.items()]
        return LoopTree((*_once(storage), tree.Sequential(tuple(branches))))

    def stats(self) -> Mapping[str, dict[str, Any]]:
        """How the search of each Einsum went."""
        found: dict[str, dict[str, Any]] = {}
        for name, part in self.parts.items():
            optimum = self.optimum(part.einsum)
            found[name] = {
                "mapspace_size": optimum.size,
                "templates": optimum.plans,
                "searched": optimum.searched,
                "lanes": optimum.lanes,
                "nodes": optimum.nodes,
                "evaluated": optimum.work,
                "complete": optimum.complete,
                "same_as": part.same_as,
                "brute_force": part.why,
            }
            if optimum.tally is not None:
                found[name] |= {
                    "lattice_points": optimum.points,
                    "loops": optimum.tally.loops,
                    "loops_removed": optimum.tally.loops_removed,
                    "outcomes": optimum.tally.outcomes(),
                }
        return found

    def seconds(self) -> dict[str, float]:
        """Wall time of the steps of all searches; empty where brute force searched."""
        tallies = [part.search.tally for part in self.parts.values() if part.search is not None]
        return {step: math.fsum(tally.seconds[step] for tally in tallies) for step in STEPS if tallies}


def _once(storage: list[tree.Storage]) -> list[tree.Storage]:
    """A tensor that is persistent for one Einsum is held persistently, once."""
    seen: set[str] = set()
    found = []
    for node in sorted(storage, key=lambda node: not node.persistent):
        tensors = tuple(t for t in node.tensors if t not in seen)
        seen.update(tensors)
        if tensors:
            found.append(tree.Storage(tensors, node.component, node.persistent))
    return found
