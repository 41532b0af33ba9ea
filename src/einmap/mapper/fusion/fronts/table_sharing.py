"""Einsums with the same tables: alike but for what else uses their tensors, such as the first or last of a network.

One of them may have all dataplacements of another one, with the same loops and lanes. That one uses its tables and
bounds then, which take most of the time of an Einsum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from einmap.einsum.isomorphism import Renaming
from einmap.mapper.branch_and_bound.isomorphism import plan_key, tables_key
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.templates.chain_template import ChainTemplate

type PlansByKey = dict[Any, ChainTemplate]
"""Dataplacements by all that their tables depend on."""


@dataclass(frozen=True)
class TableOwner:
    """Whose tables an Einsum uses, and its dataplacements as that one has them."""

    planned: PlannedEinsum
    plans: frozenset[ChainTemplate]

    def planned_as(self, other: PlannedEinsum) -> PlannedEinsum:
        """An Einsum in terms of the owner's tensors and dataplacements; who uses the tensors is asked as before."""
        request = other.request.renamed(Renaming(other.einsum, self.planned.einsum))
        paths = tuple(
            path.with_plans(request, [plan for plan in path.plans if plan in self.plans]) for path in self.planned.paths
        )
        return PlannedEinsum(self.planned.einsum, self.planned.arch, request, paths)


def table_owners(every: Sequence[PlannedEinsum]) -> dict[PlannedEinsum, TableOwner]:
    """For each Einsum that can use the tables of another one, which has all its dataplacements, that one."""
    alike: dict[Any, list[PlannedEinsum]] = {}
    for planned in every:
        alike.setdefault(tables_key(planned.einsum, planned.arch, planned.paths), []).append(planned)
    owner_of: dict[PlannedEinsum, TableOwner] = {}
    for same in alike.values():
        owners: list[tuple[PlannedEinsum, PlansByKey]] = []
        by_size = sorted(((planned, _plans(planned)) for planned in same), key=lambda pair: -len(pair[1]))
        for planned, plans in by_size:
            owner = next((owner for owner in owners if plans.keys() <= owner[1].keys()), None)
            if owner is None:
                owners.append((planned, plans))
            else:
                owner_of[planned] = TableOwner(owner[0], frozenset(owner[1][key] for key in plans))
    return owner_of


def _plans(planned: PlannedEinsum) -> PlansByKey:
    number = {path: i for i, path in enumerate(planned.paths)}
    plans: PlansByKey = {}
    for path, group in planned.groups:
        # a digest: the rows of thousands of groups with many uses of the fanouts take gigabytes
        lanes = blake2b(group.lanes.tobytes()).digest()
        plans |= {(number[path], lanes, plan_key(planned.einsum, plan)): plan for plan in group.plans}
    return plans
