"""The mapper is optimal on architectures with networks: against brute force on random problems, and by hand."""

import math
import random

import pytest
from tests.amounts import few_and_many
from tests.mapper.test_features import compared
from tests.mapper.test_optimal import agrees
from tests.random_specs.networks import HANDED_ON, ROUND, TOPOLOGIES, draw_two_places, draw_wide
from tests.random_specs.nodes import spec_of

from einmap import evaluate, loads, map_workload
from einmap.mapper.cost_bounds import compute_path, use_dominance
from einmap.mapper.mapspace.lanes.fanout_table import with_orders


def test_the_optimum_is_that_of_brute_force_where_the_busiest_link_may_be_on_the_way_back():
    assert sum(compared(seed, 1_000, lambda rng: draw_wide(rng, ("torus", "ring"))) for seed in range(3)) >= 1


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("topologies", [ROUND, HANDED_ON, ("mesh", "all_to_all")])
def test_the_optimum_is_that_of_brute_force_along_long_fanouts(topologies):
    assert sum(compared(seed, 3_000, lambda rng: draw_wide(rng, topologies)) for seed in range(100, 160)) >= 30


def cheapest_in_two_places(seed):
    return agrees(spec_of(draw_two_places(random.Random(seed))), ["energy"], "exact", 2_000, seed)


@few_and_many("seeds, least", ((1, 3, 6), 3), (range(100, 300), 180))
def test_the_optimum_is_that_of_brute_force_where_lanes_above_a_network_reduce(seeds, least):
    assert sum(map(cheapest_in_two_places, seeds)) >= least


ROW = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {{keep: All}}, {more}
             actions: [{{name: read, energy: 0, throughput: inf}}, {{name: write, energy: 0, throughput: inf}}]}}
  - !Network {{name: Noc, leak_power: 0, area: 0, topology: {topology},
              actions: [{{name: hop, energy: 1, latency: 1, throughput: inf}}]}}
  - !Memory {{name: REG, size: inf, leak_power: 0, area: 0, tensors: {{keep: All}}, spatial: [{{name: X, fanout: 8, min_usage: 1}}],
             actions: [{{name: read, energy: 0, throughput: inf}}, {{name: write, energy: 0, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 0, throughput: 1}}]}}
workload:
  iteration_space_shape: {{m: 0 <= m < 2, n: 0 <= n < 4}}
  bits_per_value: {{A: 1, B: {bits}, Z: 1}}
  einsums: ["Z[m, n] = A[m] * B[n]"]
"""


def best(metric="energy", bits=1, topology="mesh", **options):
    return map_workload(loads(ROW.format(bits=bits, topology=topology, more="")), metrics=metric, **options)


def lanes(result):
    return [node.rank_variable.of("Z") for node in result.mapping.nodes if type(node).__name__ == "Spatial"]


def test_the_loop_that_shares_the_wider_tensor_goes_inside():
    # m outside: A to the lane 4 steps away and along both groups of 4 (4 + 2 * 3), B from group to group in 4 steps and
    # on to its lane (4 * 4 + 2 * (1 + 2 + 3)), Z one value from each lane (0 + 1 + ... + 7)
    # n outside: A one step in each pair and 2 steps from pair to pair (4 + 3 * 2 * 2), B 2 * (1 + 2 + 3) and 4 * 1
    cheap = best()
    assert cheap.cost.energy == min(10 + 28 + 28, 16 + 16 + 28)
    assert lanes(cheap) == ["n", "m"]
    assert cheap.optimal
    wide = best(bits=10)
    assert wide.cost.energy == 16 + 10 * 16 + 28
    assert wide.cost.energy == evaluate(wide.spec, wide.mapping).energy


@pytest.mark.parametrize("topology", ["torus", "ring", "systolic", "tree", "bus"])
def test_each_topology_has_its_own_optimum(topology):
    found = best(topology=topology)
    assert found.optimal
    assert found.cost.energy == evaluate(found.spec, found.mapping).energy
    # n outside. Round the end: A as on the mesh, B (0 + 2 + 4 + 2) + 4, Z two values each along n, then one step for four.
    # In the tree A has 2 + 4 + 4 links to every other leaf, B 1 + 1 + 2 to a pair, Z 3 to each
    round_the_end = 16 + 12 + 2 * (0 + 2 + 4 + 2) + 4
    expected = {
        "torus": round_the_end, "ring": round_the_end, "systolic": 16 + 16 + 28, "tree": 2 * 10 + 4 * 4 + 8 * 3,
        "bus": 2 + 4 + 8,
    }  # fmt: skip
    assert found.cost.energy == expected[topology]
    assert found.stats.by_einsum["Z"]["brute_force"] is None


def test_a_network_that_is_not_enabled_is_as_none():
    found = best("energy,latency", topology="tree, enabled: false")
    assert found.optimal
    assert (found.cost.energy, found.cost.latency) == (0, 1)
    assert found.cost.notes == ()


def test_lanes_that_are_idle_in_the_last_tile_save_hops():
    # 5 by 3 on 3 lanes. m over them, 3 and then 2: a value for each lane 0 + 1 + 2 and then 0 + 1 hops, of A once and of
    # Z for each n, and each of 3 values of B along 2 steps and then 1. n over them: A along 2 steps, B and Z 0 + 1 + 2
    text = ROW.format(bits=1, topology="mesh", more="").replace("fanout: 8", "fanout: 3")
    given = loads(text.replace("m < 2", "m < 5").replace("n < 4", "n < 3"))
    uneven = map_workload(given, metrics="energy", explore_imperfect_temporal_loops=True)
    assert uneven.optimal
    assert uneven.cost.energy == 4 + 3 * (2 + 1) + 3 * 4
    assert map_workload(given, metrics="energy").cost.energy == 5 * 2 + 3 + 5 * 3


@pytest.mark.parametrize("loops", [True, False])
def test_hops_that_gain_energy_are_as_many_as_there_can_be_beside_idle_lanes(loops):
    text = ROW.format(bits=1, topology="mesh", more="").replace("fanout: 8, min_usage: 1", "fanout: 3")
    given = loads(
        text.replace("energy: 1, latency", "energy: -1, latency").replace("m < 2", "m < 5").replace("n < 4", "n < 3")
    )
    options = {"explore_imperfect_temporal_loops": loops, "explore_imperfect_spatial_loops": not loops}
    # n over 3 lanes: each time A goes to two of them, and B and Z take 0 + 1 + 2 hops; all 5 times
    assert map_workload(given, metrics="energy", **options).cost.energy == -5 * (2 + 3 + 3)


def test_what_links_can_do_counts():
    plain = loads(ROW.format(bits=1, topology="mesh, multicast: false", more=""))
    # each lane gets its own copies: 0 + 1 + ... + 7 steps for each tensor
    assert map_workload(plain, metrics="energy").cost.energy == 3 * 28


def test_the_longest_route_may_be_the_latency():
    assert best("latency").cost.latency == 2 * 4 + 2
    assert best("latency", topology="all_to_all").cost.latency == 2


ARRAY = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {{keep: All}},
             actions: [{{name: read, energy: 100, throughput: 16}}, {{name: write, energy: 100, throughput: 16}}]}}
  - !Network {{name: Noc, topology: {topology}, leak_power: 0, area: 0,
              actions: [{{name: hop, energy: 1, latency: 1, throughput: 4}}]}}
  - !Memory {{name: REG, size: 512, leak_power: 0, area: 0, tensors: {{keep: All}},
             spatial: [{{name: X, fanout: 4, may_reuse: All}}, {{name: Y, fanout: 4, may_reuse: All}}],
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
workload:
  iteration_space_shape: {{m: 0 <= m < 16, n: 0 <= n < 16, k: 0 <= k < 16}}
  bits_per_value: {{All: 8}}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
"""


@pytest.mark.parametrize("topology", ["mesh", "torus", "tree"])
@pytest.mark.parametrize("metrics", ["energy", "latency", "energy,latency"])
def test_uses_of_the_lanes_that_are_left_out_are_never_better(topology, metrics, monkeypatch):
    given = loads(ARRAY.format(topology=topology))
    fewer = map_workload(given, metrics=metrics)
    monkeypatch.setattr(
        compute_path, "undominated", lambda pricer, *given: with_orders(given[-1], pricer.leaves, math.inf)
    )
    every = map_workload(given, metrics=metrics)
    for goal in metrics.split(","):
        costs = [sorted(getattr(found.cost, goal) for found in result.front) for result in (fewer, every)]
        assert costs[0] == pytest.approx(costs[1])
    assert subspaces(fewer) < subspaces(every)


def test_links_count_for_energy_where_something_leaks_meanwhile():
    given = spec_of(draw_wide(random.Random(42), (*TOPOLOGIES[1:], "bus", "torus", "ring", "systolic", "tree")))
    assert any(unit.leak_power for unit in given.arch("Z").components.values())
    assert agrees(given, ["energy"], "exact", 1_000, 42)


def subspaces(result):
    return sum(outcome["subspaces"] for outcome in result.stats.by_einsum["Z"]["outcomes"].values())


def test_where_there_are_too_many_orders_the_result_says_so(monkeypatch):
    monkeypatch.setattr(use_dominance, "MOST_ORDERS", 100)
    found = map_workload(loads(ARRAY.format(topology="mesh")), metrics="energy")
    assert not found.optimal
    assert "most uses of the fanouts" in found.reason
