"""Tables: shared where they are equal, finite where something can stand; many uses of the fanouts, few at a time."""

import random

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.test_optimal import covers, front
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_problem

import einmap
from einmap.mapper.branch_and_bound import einsum_search, path_search
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch, SearchRun
from einmap.mapper.branch_and_bound.sparse_search import new_search
from einmap.mapper.cost_bounds import relaxed_bounds
from einmap.mapper.cost_bounds.cost_to_go.dense_kernels import moves_inside
from einmap.mapper.cost_bounds.cost_to_go.dense_tables import Tables
from einmap.mapper.cost_bounds.cost_to_go.table_blocks import numbered
from einmap.mapper.cost_bounds.path_costs import PathCosts
from einmap.mapper.mapspace.tile_lattice import Axis, Lattice
from einmap.mapper.problem import request
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import why_not_searchable
from einmap.model.counting.semantics import semantics_named
from einmap.progress import Progress

WIDE = (
    ("Z[p,m] = A[c, W: 2*p+r] * B[m,c,r]", {"M": (4, 6), "C": (1, 2, 3), "P": (3, 4), "R": (1, 2)}),
    ("Z[p,m] = A[c, W: 3*p+r] * B[m,c,r]", {"M": (2, 6), "C": (2, 4), "P": (4, 6), "R": (1, 2)}),
    ("Z[p,q,m] = A[H: p+r, W: 2*q] * B[m,r]", {"M": (2, 4), "P": (2, 3), "Q": (4, 6), "R": (1, 2)}),
    ("Z[m,n] = A[m,k] * B[k,n]", {"M": (6, 12), "K": (3, 8), "N": (2, 6)}),
)
GOALS = ["energy", "latency", "energy_delay_product", "energy", "energy_delay_product"]


def draw_wide(rng, most):
    """A problem with many uses of large fanouts, windows with strides among them; at most so many nodes beside these."""
    problem = draw_problem(rng)
    text, ranks = rng.choice(WIDE)
    workload = problem["workload"]
    workload["einsums"] = [text]
    workload["rank_sizes"] = {rank: rng.choice(sizes) for rank, sizes in ranks.items()}
    nodes = [node for node in problem["arch"]["nodes"] if node["type"] not in ("Container", "Toll")][-most:]
    for node in nodes:
        node.pop("spatial", None)
        if node.get("tensors"):
            node["tensors"].pop("tile_shape", None)
    dimensions = [
        {"name": name, "fanout": rng.choice((6, 8, 12, 14)), "may_reuse": rng.choice(("All", "A | B", "Z", "Nothing"))}
        for name in ("X", "Y")
    ]
    below = rng.randrange(1, len(nodes)) if len(nodes) > 1 else 0
    nodes.insert(below, {"type": "Container", "name": "Fan", "spatial": dimensions})
    problem["arch"]["nodes"] = nodes
    return problem


def wide(seed, most, nodes=3):
    """Compare the search with brute force on one of these; False when that takes too long."""
    rng = random.Random(seed)
    given = spec_of(draw_wide(rng, nodes))
    semantics = rng.choice(["exact", "accelforge"])
    goals = [rng.choice(GOALS)]
    try:
        theirs, result = front(given, goals, semantics=semantics, brute_force=True, max_evaluations=most)
    except einmap.SpecError:
        return False
    if result is None or not result.optimal:
        return False
    ours, found = front(given, goals, semantics=semantics)
    assert covers(ours, theirs), (seed, ours, theirs)
    assert covers(theirs, ours), (seed, ours, theirs)
    assert found.optimal
    parts = found.stats.by_einsum.values()
    return all(part["brute_force"] is None and part["lanes"] > 20 for part in parts)


@few_and_many("seeds, least", (range(11_000, 11_008), 2), (range(11_008, 11_038), 7))
def test_many_uses_of_the_fanouts_are_searched_completely(seeds, least):
    assert sum(wide(seed, 3_000) for seed in seeds) >= least


@pytest.fixture
def three_lanes(monkeypatch):
    """Uses of the fanouts are searched three at a time."""
    monkeypatch.setattr(einsum_search, "FIRST_LANES", 2)
    monkeypatch.setattr(relaxed_bounds, "FIRST_LANES", 0)
    monkeypatch.setattr(einsum_search, "MOST_LANES", 3)


@pytest.mark.usefixtures("three_lanes")
@few_and_many("seeds, least", (range(11_100, 11_106), 1), (range(11_100, 11_130), 5))
def test_so_they_are_in_portions_of_three(seeds, least):
    assert sum(wide(seed, 3_000) for seed in seeds) >= least


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(2))
def test_many_uses_of_the_fanouts_are_searched_completely_on_many_problems(part):
    assert sum(wide(seed, 50_000, 4) for seed in range(12_000 + 60 * part, 12_020 + 60 * part)) >= 2


def search_of(problem, semantics, goal):
    """Filled tables of the first path of a problem, one for each plan's first block and what is inside."""
    given = spec_of(problem)
    einsum = given.workload.einsums[0]
    arch = given.bound[einsum.name].arch
    if why_not_searchable(einsum, arch, (goal,)) is not None:
        return None
    search = EinsumSearch.over_all(einsum, arch, Request((goal,), semantics_named(semantics)), Progress())
    path = search.paths[0]
    group = next(path.groups(), None)
    if group is None:
        return None
    found = new_search(path, group.lanes, 1)
    found.take(group.plans[:20], 10**9)
    assert found.tables.fill(lambda: False)
    return found


def whole(search, block, prefix):
    """The table of a block and prefix over the whole lattice."""
    tables = search.tables
    found = np.full((tables.costs.lattice.size, len(tables.columns)), np.inf)
    points = tables.points[block]
    begin = tables.begins(block)[prefix]
    found[points] = tables.pool[begin : begin + len(points)]
    return found


def test_prefixes_share_a_table_only_where_theirs_are_equal(monkeypatch):
    shared = 0
    for seed in range(13_000, 13_030):
        rng = random.Random(seed)
        problem = draw_wide(rng, 4) if seed % 2 else draw_problem(rng)
        semantics, goal = rng.choice(["exact", "accelforge"]), rng.choice(["energy", "energy_delay_product"])
        try:
            ours = search_of(problem, semantics, goal)
        except einmap.SpecError:
            continue
        if ours is None:
            continue
        with monkeypatch.context() as plain:
            plain.setattr(Tables, "alike", lambda self, recipe: np.arange(self.width(recipe.level.r))[:, None])
            plain.setattr(PathCosts, "inside", lambda self, node: np.arange(self.lattice.size))
            theirs = search_of(problem, semantics, goal)
        assert len(ours.tables.recipes) == len(theirs.tables.recipes)
        for block, own in enumerate(ours.tables.table_of):
            for prefix in range(0, len(own), 1 + len(own) // 8):
                assert np.array_equal(whole(ours, block, prefix), whole(theirs, block, prefix)), (seed, block, prefix)
        shared += theirs.tables.n_rows - ours.tables.n_rows
    assert shared > 0


def test_little_room_for_tables_changes_nothing(monkeypatch):
    given = einmap.load("eyeriss", "conv")
    best = einmap.map_workload(given)
    sizes = []
    with_room = SearchRun.with_room

    def noted(self, path, plans, lanes, chosen):
        found = with_room(self, path, plans, lanes, chosen)
        sizes.append((len(chosen), len(found)))
        return found

    monkeypatch.setattr(SearchRun, "with_room", noted)
    monkeypatch.setattr(request, "POOL_BYTES", 2_000_000)
    monkeypatch.setattr(einsum_search, "PART_OF_ROOM", 0.1)
    little = einmap.map_workload(given, workers=1)
    assert little.optimal
    assert little.cost.edp == best.cost.edp
    assert any(found < asked for asked, found in sizes)


@pytest.mark.parametrize("axes", [(), (0,), (1,), (0, 1)])
def test_moves_in_order_reach_all_points_inside(axes):
    lattice = Lattice((Axis((("m", 12),), (1, 2, 3, 4, 6, 12)), Axis((("n", 10),), (1, 2, 5, 10))))
    mask = np.isin(range(2), axes)
    points = np.arange(lattice.size)
    moves = moves_inside(
        points, points, mask, lattice.coord, lattice.strides, lattice.offsets, *lattice.packed("covers")
    )
    found = [{point} for point in points]
    for outer, inner in moves:
        found[outer] |= found[inner]
    shapes = [(int(lattice.shapes(0)[p]), int(lattice.shapes(1)[p])) for p in points]
    for p, reached in enumerate(found):
        inside = {q for q in points for m, n in [shapes[q]] if not shapes[p][0] % m and not shapes[p][1] % n}
        assert reached == {q for q in inside if all(a in axes or shapes[q][a] == shapes[p][a] for a in (0, 1))}


def test_equal_rows_have_one_table():
    rows = np.array([[1.0, np.inf], [0.0, 2.0], [1.0, np.inf], [0.0, 3.0], [0.0, 2.0]])
    number, first = numbered(rows)
    assert number.tolist() == [0, 1, 0, 2, 1]
    assert first.tolist() == [0, 1, 3]


def test_arguments_of_plans_are_kept_as_long_as_they_are_few_numbers(monkeypatch):
    search = next(
        found
        for seed in range(13_000, 13_030)
        if (found := search_of(draw_problem(random.Random(seed)), "exact", "energy")) and len(found.compiled) > 2
    )
    kept = []
    for most in (10**9, 0):
        monkeypatch.setattr(path_search, "MOST_KEPT", most)
        search.gather()
        kept.append([search.arrays(plan) is search.arrays(plan) for plan in search.compiled])
    assert kept == [[True] * len(search.compiled), [False] * len(search.compiled)]
