"""In what portions dataplacements are looked at, and where a tensor that passes by may be."""

import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from tests.mapper.fusion.prepared import prepared
from tests.mapper.fusion.test_repeated_structure import ARCH

import einmap
from einmap.mapper.branch_and_bound.sparse_search import new_search
from einmap.mapper.fusion.fronts import table_store
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.fronts.nests.pruned_bounds import PrunedBounds
from einmap.mapper.fusion.fronts.table_store import TableStore
from einmap.mapper.fusion.problem import CascadeProblem

# A passes by while C is made
EINSUMS = ["A[m, n] = X[m, n]", "B[m, k] = A[m, n] * W[n, k]", "C[m, k] = B[m, k]", "D[m, n] = C[m, k] * A[m, n]"]


def cascade(size: float = 1000, lanes: int = 1) -> CascadeProblem:
    """Four Einsums on a buffer of so many 8-bit values and some lanes below it."""
    arch = deepcopy(ARCH)
    arch["nodes"][1]["size"] = 8 * size
    if lanes > 1:
        spatial = [{"name": "x", "fanout": lanes, "may_reuse": "All"}]
        arch["nodes"].insert(2, {"type": "Container", "name": "Array", "spatial": spatial})
    sizes = {"M": 8, "N": 6, "K": 4}
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": EINSUMS}
    spec = einmap.Spec.from_dict(arch=arch, workload=workload)
    return prepared(spec)


def least_of_outlines(cascade: CascadeProblem, monkeypatch, **limits):
    """For each Einsum all signatures with the least cost of their outer nests, with other limits of portions."""
    found = []
    with monkeypatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(table_store, name, value)
        for member in cascade.distinct:
            chains = member.chains
            assert isinstance(chains, EinsumFronts)
            tables = TableStore(0, 0)
            owner = chains.table_owner and replace(chains.table_owner, tables=tables)
            chains = replace(chains, tables=tables, table_owner=owner)
            chains.least(cascade.weights)
            chains.survey(dict.fromkeys(chains.signature_classes))
            found.append({signature: chains.bounds(signature)[:, 0].min() for signature in chains.signatures})
    return found


@pytest.mark.parametrize(
    "limits",
    [
        {"FEW_TABLES": 0},
        {"FEW_TABLES": 0, "FAR_BETTER": 0.0},
        {"FEW_TABLES": 0, "AT_ONCE": 1, "OF_FIRST": 0.0},
        {"FEW_TABLES": 0, "AT_ONCE": 1, "OF_FIRST": 0.0, "MOST_AT_ONCE": 10_000},
        {"MOST_READY": 0, "MOST_MADE": 1},
    ],
)
def test_portions_change_nothing_about_what_is_listed(monkeypatch, limits):
    own = cascade(lanes=4)
    whole, parts = least_of_outlines(own, monkeypatch), least_of_outlines(own, monkeypatch, **limits)
    assert all(whole)
    for of_whole, of_parts in zip(whole, parts, strict=True):
        assert of_parts == pytest.approx(of_whole)


def bytes_of(path, group, plans) -> int:
    """Bytes of tables where a third of those of all is made at once."""
    together = new_search(path, group.lanes, 1)
    together.take(plans, table_store.NO_LIMIT)
    room, found = together.tables.bytes / 3, 0
    while plans:
        search = new_search(path, group.lanes, 1)
        plans = plans[search.take(plans, room) :]
        found += search.tables.bytes
    return found


def test_dataplacements_are_in_an_order_in_which_neighbours_share_tables():
    sorted_bytes = other_bytes = 0
    for member in cascade(lanes=4).distinct:
        for path, group in member.chains.groups.all:
            sorted_bytes += bytes_of(path, group, group.plans)
            listed = sorted(group.plans, key=path.plans.index)
            other_bytes += bytes_of(path, group, listed)
    assert sorted_bytes < other_bytes


def test_space_counts_where_the_whole_of_a_tensor_that_passes_by_has_room():
    def crossed(size: float) -> list[frozenset[str]]:
        return [member.chains.crossed for member in cascade(size).members]

    # A has 48 values, and C is made while it waits
    nothing, buffer = frozenset(), frozenset({"GLB"})
    assert crossed(48) == [nothing, nothing, buffer, nothing]
    assert crossed(47) == [nothing] * 4


@pytest.mark.parametrize(("kept", "memories"), [("~DRAM", ("GLB",)), ("Nothing", ("GLB", "Registers"))])
def test_space_has_no_memory_in_which_nothing_stays_while_others_run(kept, memories):
    # registers hold tiles of all tensors, below the buffer where that holds what main memory does not
    arch = deepcopy(ARCH)
    buffer = arch["nodes"][1]
    arch["nodes"].insert(2, {**buffer, "name": "Registers", "size": 8 * 4, "tensors": {"keep": "All"}})
    buffer["tensors"] = {"keep": kept, "may_keep": "All"}
    workload = {"rank_sizes": {"M": 8, "N": 6, "K": 4}, "bits_per_value": {"All": 8}, "einsums": EINSUMS}
    assert prepared(einmap.Spec.from_dict(arch=arch, workload=workload)).space.memories == memories


def surveyed(room: float) -> TableStore:
    """What is held once all Einsums were listed, of which each has at most so many bytes of tables while it is."""
    own, tables = cascade(lanes=4), TableStore(room, 0)
    for member in own.distinct:
        chains = replace(member.chains, tables=tables)
        chains.least(own.weights)
        chains.survey(dict.fromkeys(chains.signature_classes))
        *others, _ = [search.tables.bytes for search in tables.held]
        # what was filled last stays, however large it is
        assert sum(others) <= room
    return tables


def test_einsums_together_keep_no_more_tables_than_there_is_room_for():
    every = surveyed(math.inf)
    sizes = [search.tables.bytes for search in every.held]
    assert len(set(map(id, every.held.values()))) == len(cascade().distinct)
    some = surveyed(sum(sizes) / 2)
    assert 0 < len(some.held) < len(sizes)
    assert all(search.has_tables for search in some.held)


def test_few_uses_of_the_fanouts_leave_nothing_cheaper_and_all_come_back(monkeypatch):
    monkeypatch.setattr(table_store, "FEW_TABLES", 0)
    (member, *_) = cascade(lanes=12).distinct
    chains = member.chains

    def least(uses):
        chains.begin_again(math.inf, uses=uses)
        lanes = {len(search.lanes) for search in chains.groups.searches(limits, {p: PrunedBounds(2) for p in limits})}
        chains.survey(dict.fromkeys(chains.signature_classes))
        costs = [chains.bounds(signature)[:, 0].min() for signature in chains.signatures]
        return lanes, len(costs), min(costs)

    chains.least(np.eye(len(chains.request.goals)))
    limits = {plan: None for path in chains.paths for plan in path.plans}
    lanes, n, best = least(math.inf)
    assert min(lanes) > 2
    few, n_few, best_few = least(2)
    assert few == {2}
    assert 0 < n_few < n
    assert best_few >= best
    assert least(math.inf) == (lanes, n, best)


def growing(own: CascadeProblem):
    """The groups of all Einsums with tables of their own, those that have tables of some dataplacements."""
    for member in own.distinct:
        groups = member.chains.groups
        yield from ((groups, number, tables) for number, tables in groups._growing.items())


@pytest.mark.parametrize("lanes", [1, 4])
def test_what_bounds_nothing_has_no_tables_until_it_is_asked_for(lanes):
    own = cascade(lanes=lanes)
    few = [(groups, number, tables, len(tables.has)) for groups, number, tables in growing(own)]
    assert 0 < sum(n for *_, n in few) < sum(len(tables.plans) for _, _, tables, _ in few)
    for groups, _, tables, _ in few:
        limits = dict.fromkeys(tables.plans)
        for _ in groups.searches(limits, {plan: PrunedBounds(1) for plan in tables.plans}):
            pass
        assert tables.has == set(tables.plans)
        assert [compiled.plan for compiled in tables.search.compiled] == tables.plans


@pytest.mark.parametrize(("size", "lanes"), [(1000, 1), (20, 4)])
def test_bounds_of_signature_classes_are_those_of_all_tables(size, lanes):
    own = cascade(size, lanes)
    for groups, _, tables in growing(own):
        first = {plan: values.min(initial=math.inf) for plan, values in groups.bounds}
        tables.take(tables.plans, math.inf)
        groups.fill(tables.search)
        rows = {c.plan: tables.search.root_values(c).min(initial=math.inf) for c in tables.search.compiled}
        assert all(rows[plan] >= first[plan] * (1 - 1e-12) for plan in rows)
        kinds: dict[object, list] = {}
        for plan in rows:
            kinds.setdefault(tuple(sorted({t: m for m, t in reversed(plan.placement.nodes)}.items())), []).append(plan)
        for plans in kinds.values():
            assert min(first[p] for p in plans) == min(rows[p] for p in plans)


def test_tables_that_grow_are_those_that_are_made_at_once():
    for groups, number, tables in growing(cascade(lanes=4)):
        tables.take(tables.plans, math.inf)
        groups.fill(tables.search)
        path, group = groups.all[number]
        whole = new_search(path, group.lanes, 1)
        whole.take(group.plans, table_store.NO_LIMIT)
        whole.tables.fill(lambda: False)
        for grown, made in zip(tables.search.compiled, whole.compiled, strict=True):
            assert grown.plan is made.plan
            for a, b in zip(grown.blocks, made.blocks, strict=True):
                rows, others = (search.tables.begins(n) for search, n in ((tables.search, a), (whole, b)))
                n = np.arange(len(tables.search.tables.points[a]))
                same = tables.search.tables.pool[rows[:, None] + n] == whole.tables.pool[others[:, None] + n]
                assert same.all()
