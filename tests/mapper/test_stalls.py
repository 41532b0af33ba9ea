"""The mapper is optimal where turns stall: against every mapping of random problems, in every order of its loops."""

import math
import random

import numpy as np
from tests.amounts import few_and_many
from tests.mapper.fusion.every import judged, reordered
from tests.mapper.specs import MATMUL, memory
from tests.mapper.specs import compute as mac
from tests.mapper.specs import spec as written
from tests.random_specs import networks
from tests.random_specs.features import ports, rates
from tests.random_specs.nodes import memories, spec_of
from tests.random_specs.problems import draw_problem

import einmap
from einmap.errors import NotSupportedError
from einmap.mapper.branch_and_bound import stalled
from einmap.mapper.mapspace.mapspace import mapspace_of
from einmap.mapping.mapping import Mapping
from einmap.model.timing.stalls import winding_up

VALUES = {
    "latency": lambda cost: cost.latency,
    "energy": lambda cost: cost.energy,
    "energy_delay_product": lambda cost: cost.edp,
}


def drawn(rng, problem_of=draw_problem):
    """A problem in which an inner memory stalls; None where there is none."""
    problem = problem_of(rng)
    inner = memories(problem)[1:]
    if not inner:
        return None
    rng.choice(inner).update(stalls="tile_by_tile", buffering=rng.choice(("ideal", "ideal", "double")))
    if rng.random() < 0.3:
        ports(rng, problem)
    rates(rng, problem, (1, 2, 3, 4, 8, "inf"))
    return spec_of(problem)


def with_any_network(rng):
    """A problem with networks."""
    return networks.draw(rng, (*networks.TOPOLOGIES, *networks.ROUND, *networks.HANDED_ON))


def every_cost(spec):
    """The costs of all mappings that can be counted; none takes longer where memories wind up in place of stalling."""
    (einsum,) = spec.workload.einsums
    space = mapspace_of(einsum, spec.arch(), backed_outside=einsum.tensors, first_partial_matters=False)
    relaxed = spec.with_altered_archs(winding_up)
    seen = set()
    for subspace in space.subspaces:
        for point in subspace.points_at(np.arange(subspace.size)):
            for nodes in reordered(subspace.mapping(tuple(int(x) for x in point)).nodes):
                mapping = Mapping(nodes)
                if mapping in seen:
                    continue
                seen.add(mapping)
                try:
                    cost = einmap.evaluate(spec, mapping, strict=True)
                except (NotSupportedError, einmap.MappingError):
                    continue
                assert einmap.evaluate(relaxed, mapping).latency <= cost.latency * (1 + 1e-9)
                yield cost


def compared(seed, most, problem_of=draw_problem):
    """Compare the mapper with all mappings of one random problem; False when these are too many, or none fits."""
    rng = random.Random(seed)
    spec, goal = drawn(rng, problem_of), rng.choice(("latency", "latency", "energy_delay_product", "energy"))
    if spec is None:
        return False
    (einsum,) = spec.workload.einsums
    space = mapspace_of(einsum, spec.arch(), backed_outside=einsum.tensors, first_partial_matters=False)
    if space.size > most:
        return False
    best = min(map(VALUES[goal], every_cost(spec)), default=math.inf)
    try:
        result = einmap.map_workload(spec, metrics=goal)
    except einmap.NoMappingError:
        assert math.isinf(best), seed
        return False
    assert result.optimal, seed
    assert math.isclose(VALUES[goal](result.cost), best, rel_tol=1e-9), (seed, best)
    assert VALUES[goal](einmap.evaluate(spec, result.mapping)) == VALUES[goal](result.cost)
    return True


@few_and_many("seeds, most, least", (range(30), 100, 2), (range(1000, 1240), 1_500, 12), parts=4)
def test_the_optimum_is_the_best_of_all_mappings(seeds, most, least):
    assert sum(compared(seed, most) for seed in seeds) >= least


@few_and_many("seeds, most, least", ((3, 19, 26, 36), 100, 4), (range(1000, 1240), 1_500, 12), parts=4)
def test_below_networks_too(seeds, most, least):
    assert sum(compared(seed, most, with_any_network) for seed in seeds) >= least


@few_and_many("seeds, most, least", ((4, 5, 6), 60, 3), (range(100, 220), 3_000, 10), parts=4, part="fusion")
def test_cascades_are_mapped_as_well_as_can_be(seeds, most, least):
    found = [outcome for seed in seeds if (outcome := judged(seed, "stalls", most))]
    assert set(found) == {"proven"}
    assert len(found) >= least


def stalling():
    """A buffer of 6 values, between which and main memory partial results come and go."""
    nodes = [memory("Main", "inf", 10, {"keep": "All"}), memory("Buffer", 48, 1, {"keep": "All"}), mac()]
    nodes[1]["stalls"] = "tile_by_tile"
    for node, throughput in zip(nodes, (1, "inf", 1), strict=True):
        for action in node["actions"]:
            action["throughput"] = throughput
    return written(nodes, MATMUL, {"M": 4, "K": 4, "N": 2})


def test_more_orders_than_are_tried_leave_a_result_unproven(monkeypatch):
    proven = einmap.map_workload(stalling(), metrics="latency")
    assert "with stalls that can be counted turn by turn" in proven.reason
    monkeypatch.setattr(stalled, "MOST_ORDERS", 1)
    result = einmap.map_workload(stalling(), metrics="latency")
    assert not result.optimal
    assert "some orders of loops of Z" in result.reason
    assert result.lower_bound <= proven.cost.latency <= result.cost.latency
