"""Layouts that are left open: the mapper's choice is the best of all, and travels with the mapping."""

import itertools
import json
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.machines import machine
from tests.random_specs.fused import draw_problem as draw_cascade
from tests.random_specs.nodes import memories, spec_of
from tests.random_specs.problems import draw_problem

import einmap
from einmap.errors import SpecError
from einmap.frontends.yaml.spec import dump_mapping
from einmap.mapper.compose.einsum_by_einsum import einsum_by_einsum
from einmap.mapper.compose.left_open.best_layouts import best_layouts
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import Budget, Problem
from einmap.progress import Progress
from einmap.spec.open_layouts import open_layouts

VALUES = {"energy": lambda c: c.energy, "latency": lambda c: c.latency, "energy_delay_product": lambda c: c.edp}


def opened(rng, problem, workload):
    """Layouts of which some are left open; what they may be, by memory and tensor."""
    ranks = {a.tensor: [rank for rank, _ in a.projection] for e in workload.einsums for a in e.accesses}
    spread = next((i for i, n in enumerate(problem["arch"]["nodes"]) if n.get("spatial")), math.inf)
    open_ones = {}
    for node in memories(problem)[:2]:
        if problem["arch"]["nodes"].index(node) >= spread:
            continue
        layout = node["layout"] = {"line": rng.choice((32, 64)), "order": {}}
        for tensor in rng.sample(sorted(ranks), min(2, len(ranks))):
            own = ranks[tensor]
            every = [list(order) for order in itertools.permutations(own)]
            if rng.random() < 0.4:
                every = [*rng.sample(every, min(2, len(every))), {rng.choice(own): 2}]
                layout["order"][tensor] = every
            else:
                layout["order"][tensor] = "best" if rng.random() < 0.8 else every[0]
            if layout["order"][tensor] != every[0]:
                open_ones[node["name"], tensor] = every
        if not layout["order"]:
            del node["layout"]
    return open_ones


def closed(problem, open_ones):
    """The problem with each choice of what is open."""
    for chosen in itertools.product(*open_ones.values()):
        written = json.loads(json.dumps(problem))
        for (memory, tensor), lies in zip(open_ones, chosen, strict=True):
            layout = next(n for n in memories(written) if n["name"] == memory)["layout"]
            if isinstance(lies, dict):
                del layout["order"][tensor]
                layout.setdefault("block", {})[tensor] = lies
            else:
                layout["order"][tensor] = lies
        yield spec_of(written)


def compared(seed, most, cascade=False):
    """Compare the mapper's choice with each choice by itself; False where these are too many or nothing fits."""
    rng = random.Random(seed)
    problem = draw_cascade(rng, small=True).data if cascade else draw_problem(rng)
    goal = rng.choice(sorted(VALUES))
    open_ones = opened(rng, problem, spec_of(problem).workload)
    if not open_ones or math.prod(map(len, open_ones.values())) > most:
        return False
    try:
        result = einmap.map_workload(spec_of(problem), metrics=goal, semantics="exact")
        every = [einmap.map_workload(spec, metrics=goal, semantics="exact") for spec in closed(problem, open_ones)]
    except (einmap.NoMappingError, SpecError):
        return False
    if not all(other.optimal for other in every):
        return False
    assert result.optimal, seed
    best = min(VALUES[goal](other.cost) for other in every)
    assert math.isclose(VALUES[goal](result.cost), best, rel_tol=1e-9), (seed, best)
    found = result.front[0]
    assert {(m, t) for m, by_tensor in found.layouts.items() for t in by_tensor} == open_ones.keys()
    written = [f"{key}: {json.dumps(value)}" for key, value in problem.items()]
    again = einmap.loads("\n".join([dump_mapping(found.mapping, found.copies, found.layouts), *written]))
    assert VALUES[goal](einmap.evaluate(again, semantics="exact")) == VALUES[goal](result.cost)
    return True


def test_the_choice_is_the_best_of_all():
    assert sum(compared(seed, 12) for seed in range(5)) >= 2
    assert compared(1, 12, cascade=True)


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_the_choice_is_the_best_of_all_in_many_problems(part):
    assert sum(compared(seed, 72) for seed in range(1000 + 50 * part, 1050 + 50 * part)) >= 15
    assert sum(compared(seed, 16, cascade=True) for seed in range(1000 + 15 * part, 1015 + 15 * part)) >= 3


ARCH = machine("""
    DRAM inf 9/9 @8 {layout: {line: 32, order: {A: best, Z: [M, N]}}, tensors: {keep: All}}
    GLB 96 1/1 @8 {tensors: {keep: All}} / MAC 1 @1
""")
WORK = """
workload: {rank_sizes: {M: 8, K: 4, N: 4}, bits_per_value: {All: 8}, einsums: ["Z[m, n] = A[m, k] * B[k, n]"]}
"""


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (
            "A: best",
            "A: bets",
            r"arch.nodes\[0\] \"DRAM\".layout.order.A: expected ranks of 'A', alternatives, or 'best'",
        ),
        ("A: best", "A: [[M, K], [K, L]]", r"layout.order.A: 'A' has no rank 'L'"),
        ("A: best", "A: [[M, K], [K]]", r"an alternative of 'A' must name each of its ranks once"),
        ("A: best", "A: [[M, K], {}]", r"an alternative of 'A' must name each of its ranks once"),
        ("A: best", "A: [[M, K], {K: 9}]", r"a line of 'A' holds 9 values of 8 bits, which is more than its 32 bits"),
        (
            "A: best, ",
            "A: best}, block: {A: {K: 2}}, chosen: {",
            r"'A' has a block in 'DRAM', so that its order cannot",
        ),
        ("A: best", "A: [K, M]}, chosen: {A: [M, K]", r"the layout of 'A' in 'DRAM' is not left open"),
    ],
)
def test_what_is_no_choice_is_told_with_its_place(old, new, match):
    with pytest.raises(SpecError, match=match):
        einmap.map_workload(einmap.loads((ARCH + WORK).replace(old, new)))


MAPPING = """
mapping:
  nodes: [!Storage {tensors: [A, B, Z], component: DRAM}, !Temporal {rank_variable: m, tile_shape: 1},
          !Temporal {rank_variable: n, tile_shape: 1}, !Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: Z, component: MAC}]
"""


def test_evaluation_needs_layouts_that_are_chosen():
    with pytest.raises(SpecError, match=r"layout.order.A: how 'A' lies in 'DRAM' is left open") as refused:
        einmap.evaluate(einmap.loads(ARCH + WORK + MAPPING))
    assert refused.value.at.line == 4
    chosen = MAPPING.replace("mapping:", "mapping:\n  layouts: {DRAM: {A: [K, M]}}")
    spec = einmap.loads(ARCH + WORK + chosen)
    assert spec.layouts == {"DRAM": {"A": ["K", "M"]}}
    assert einmap.Spec.from_dict(spec.to_dict()) == spec
    plain = einmap.loads((ARCH + WORK + MAPPING).replace("A: best", "A: [K, M]"))
    assert einmap.evaluate(spec).energy == einmap.evaluate(plain).energy
    with pytest.raises(SpecError, match=r"mapping.layouts.GLB: 'GLB' has no layout"):
        einmap.loads(ARCH + WORK + chosen.replace("DRAM: {A", "GLB: {A"))


def test_a_search_that_ends_early_gives_a_mapping_and_a_bound():
    spec = einmap.loads((ARCH + WORK).replace("Z: [M, N]", "Z: best, B: best"))
    best = einmap.map_workload(spec, metrics="energy")
    early = einmap.map_workload(spec, metrics="energy", max_evaluations=10)
    assert best.optimal
    assert not early.optimal
    assert early.stopped
    assert (early.lower_bound or 0) <= best.cost.energy <= early.cost.energy


def searches(old, new, used=None, **options):
    """The options of each search over the layouts that are left open; of choices each looks at `used`, where given."""
    spec = einmap.loads((ARCH + WORK).replace(old, new))
    choices = open_layouts(spec)
    settled = spec.with_layouts({"DRAM": {choice.tensor: [] for choice in choices}})
    given = []

    def search(chosen, **limits):
        given.append(SimpleNamespace(**limits))
        outcome = einsum_by_einsum(Problem(chosen, read_options(chosen, metrics="energy")), Budget(Progress()))
        return outcome if used is None else replace(outcome, stats=replace(outcome.stats, evaluated=used))

    best_layouts(spec, choices, read_options(settled, metrics="energy", **options), search)
    return given


def test_one_choice_of_layouts_has_all_of_the_limit():
    # of two tensors with one layout each there is one choice, too
    for new in ("A: [[M, K]]", "A: [[M, K]], B: [[K, N]]"):
        (limits,) = searches("A: best", new, max_evaluations=1000)
        assert limits.max_evaluations == 1000
        (limits,) = searches("A: best", new, time_limit_s=1000)
        assert 999 < limits.time_limit_s <= 1000


def test_what_one_choice_of_layouts_leaves_goes_on_to_the_next():
    # halves of 1,000; the first one leaves 490 of its 500
    halves = searches("A: best", "A: [[M, K], [K, M]]", used=10, max_evaluations=1000)
    assert [limits.max_evaluations for limits in halves] == [500, 990]


def test_bounds_of_layouts_have_a_half_of_the_limit_together():
    both = searches("A: best", "A: [[M, K], [K, M]], B: [[K, N], [N, K]]", used=10, max_evaluations=1000)
    # 1000/2/2, and what is left of the 500; then a quarter of what is left
    assert [limits.max_evaluations for limits in both][:3] == [250, 490, 245]


def test_a_layout_that_costs_what_its_bound_says_leaves_out_the_next_one():
    # two bounds for the orders of A, and three of four pairs: with one order of A the first order of B is as good as none
    assert len(searches("A: best", "A: best, B: best")) == 5
