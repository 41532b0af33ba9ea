"""Einsums with the same tables: alike but for what else uses their tensors, such as the first or last of a network.

One of them may have all dataplacements of another one, with the same loops and lanes. That one uses its tables and
bounds then, which take most of the time of an Einsum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from einmap.einsum.einsum import Einsum
from einmap.mapper.branch_and_bound.isomorphism import plan_key, tables_key
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.request import Request
from einmap.mapper.templates.chain_template import ChainTemplate

type Own = dict[Any, ChainTemplate]
"""Dataplacements by all that their tables depend on."""


def share_tables(every: Sequence[EinsumFronts]) -> None:
    """Let fronts whose dataplacements are sorted use the tables of others that have them all."""
    alike: dict[Any, list[EinsumFronts]] = {}
    for chains in every:
        alike.setdefault(tables_key(chains.einsum, chains.arch, chains.paths), []).append(chains)
    for same in alike.values():
        lenders: list[tuple[EinsumFronts, Own]] = []
        for chains, own in sorted(((chains, _own(chains)) for chains in same), key=lambda pair: -len(pair[1])):
            table_owner = next((table_owner for table_owner in lenders if own.keys() <= table_owner[1].keys()), None)
            if table_owner is None:
                lenders.append((chains, own))
            else:
                _use_tables_of(chains, table_owner[0], {table_owner[1][key] for key in own})


def _own(chains: EinsumFronts) -> Own:
    number = {path: i for i, path in enumerate(chains.paths)}
    return {
        (number[path], group.lanes.bounds.tobytes(), plan_key(chains.einsum, plan)): plan
        for path, group in chains.by_lanes
        for plan in group.plans
    }


def _use_tables_of(chains: EinsumFronts, table_owner: EinsumFronts, plans: set[ChainTemplate]) -> None:
    """Speak of the table owner's tensors and dataplacements from here on; who uses them is asked as before."""
    chains.table_owner, request = table_owner, _renamed(chains.request, chains.einsum, table_owner.einsum)
    chains.einsum, chains.arch, chains.request = table_owner.einsum, table_owner.arch, request
    chains.paths = [
        path.with_plans(request, [plan for plan in path.plans if plan in plans]) for path in table_owner.paths
    ]


def _renamed(request: Request, old: Einsum, new: Einsum) -> Request:
    accesses = list(zip(old.accesses, new.accesses, strict=True))
    tensor = {a.tensor: b.tensor for a, b in accesses}
    rank = {
        (a.tensor, own): (b.tensor, other)
        for a, b in accesses
        for (own, _), (other, _) in zip(a.projection, b.projection, strict=True)
    }
    return replace(
        request,
        shared=frozenset(tensor[t] for t in request.shared),
        intermediates=frozenset(tensor[t] for t in request.intermediates),
        joint=frozenset(tensor[t] for t in request.joint),
        wider={tensor[t]: factor for t, factor in request.wider.items()},
        uncut=frozenset(rank[pair] for pair in request.uncut if pair in rank),
    )
