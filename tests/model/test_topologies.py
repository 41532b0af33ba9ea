"""Topologies and abilities of networks: by hand, and against routes that are laid value by value on a grid."""

import random
from itertools import pairwise, product

import pytest
from tests.amounts import few_and_many
from tests.model.test_networks import HOP, ROW, SCALED, hops, spec
from tests.model.worked import counts, latencies

from einmap import SpecError, evaluate
from einmap.errors import NotSupportedError
from einmap.spec.spec import Spec


def network(topology, more="", hop=HOP):
    return f"topology: {topology}, {hop}{more}"


def test_a_torus_goes_the_shorter_way_round():
    # 8 lanes: 0, 1, 2, 3, 4, 3, 2, 1 steps; forward pass 1 to 4, and 1 to 4 pass the first link
    moved, link = hops(spec("Z[n] = A[n] * B[n]", {"n": 8}, "X n 1", network=network("torus")))
    assert moved == dict.fromkeys("ABZ", 16)
    assert link == 3 * 4
    # what lanes share goes from lane to lane all the same
    assert hops(spec(*ROW, network=network("torus")))[0] == {"A": 2 * (1 + 2 + 3), "B": 2 * 3, "Z": 1 + 2 + 3}
    # 4 of 8 steps to the farthest lane, and the one into the first
    slow = HOP.replace("latency: 0.5, throughput: 4", "latency: 3, throughput: inf")
    found = spec("Z[n] = A[n] * B[n]", {"n": 8}, "X n 1", network=network("torus", hop=slow))
    assert latencies(evaluate(found), "Z")["Noc"] == (4 + 1) * 3


def test_a_ring_joins_the_lanes_of_all_fanouts():
    # 32 places: lane (x, y) is number 4 x + y; n over X stands 4, 8, 12 steps away
    moved, _ = hops(spec(*ROW, network=network("ring")))
    assert moved == {"A": 2 * (4 + 8 + 12), "B": 2 * 12, "Z": 4 + 8 + 12}
    # 8 lanes along X: 0, 4, 8, 12, 16, 12, 8, 4 steps
    moved, _ = hops(spec("Z[n] = A[n] * B[n]", {"n": 8}, "X n 1", network=network("ring")))
    assert moved == dict.fromkeys("ABZ", 64)


def test_a_bus_takes_one_step_whoever_it_is_for():
    # A: 2 values for each of 4 lanes; B: 2 values for all; Z: one value from each lane. All pass the one bus
    assert hops(spec(*ROW, network=network("bus"))) == ({"A": 8, "B": 2, "Z": 4}, 14)
    # lanes that reduce send their own results
    assert hops(spec("Z[n] = A[k, n] * B[k]", {"n": 1, "k": 4}, "X k 1", network=network("bus")))[0]["Z"] == 4
    assert latencies(evaluate(spec(*ROW, network=network("bus"))), "Z")["Noc"] == 14 * 8 / 4


def test_a_tree_passes_each_link_once_for_all_leaves_behind_it():
    # 32 leaves, 5 links to each. Along X leaves 0, 4, 8, 12: they share two links, then 1 + 1, 2, 2 + 2, ... below
    moved, link = hops(spec(*ROW, network=network("tree")))
    shared = 2 + 2 + 4 + 4 + 4 - 1
    assert shared == len({(h, leaf >> h) for leaf in (0, 4, 8, 12) for h in range(5)})
    assert moved == {"A": 2 * 4 * 5, "B": 2 * shared, "Z": 4 * 5}
    # the root's link to the first half carries everything
    assert link == 8 + 2 + 4
    # in a tree sums are added where the ways meet
    reduces = spec("Z[n] = A[k, n] * B[k]", {"n": 1, "k": 4}, "X k 1", network=network("tree"))
    assert hops(reduces)[0]["Z"] == shared
    alone = spec("Z[n] = A[k, n] * B[k]", {"n": 1, "k": 4}, "X k 1", network=network("tree", ", reduction: at_parent"))
    assert hops(alone)[0]["Z"] == 4 * 5


def test_a_tree_reaches_the_lanes_at_work_alone_where_tiles_are_ragged():
    # k 0 and 1 on leaves 0 and 4, which share 2 of 5 links; then k 2 on leaf 0, which its partial sum comes back to
    reduces = spec("Z[n] = A[k, n] * B[k]", {"n": 1, "k": 3}, "k 2", "X k 1", network=network("tree"))
    assert hops(reduces)[0] == {"A": 3 * 5, "B": 3 * 5, "Z": 8 + 5 + 5}
    # the same where no memory holds the tiles
    inner = spec("Z[n] = A[k, n] * B[k]", {"n": 1, "k": 3}, "k 2", "X k 1", network=network("tree"), held="")
    assert hops(inner)[0] == {"A": 3 * 5, "B": 3 * 5, "Z": 8 + 5 + 5}
    # what they share passes 8 links, then 5, for each of two operations
    shares = spec("Z[m, n] = A[m] * B[n]", {"m": 3, "n": 2}, "m 2", "X m 1", network=network("tree"))
    assert hops(shares)[0]["B"] == 2 * (8 + 5)


def test_a_systolic_array_hands_on_what_lanes_share():
    # n over X, k over Y: A is shared by none and handed on along Y; B is shared along X, Z summed along Y
    moved, _ = hops(spec(SCALED, {"n": 2, "k": 4}, "X n 1", "Y k 1", network=network("systolic")))
    assert moved == {"A": 2 * (1 + 2 + 3), "B": 4 * 1, "Z": 2 * 3}
    # on a mesh A and B have to come to their column first
    mesh, _ = hops(spec(SCALED, {"n": 2, "k": 4}, "X n 1", "Y k 1", network=network("mesh")))
    assert mesh == {"A": 4 + 2 * (1 + 2 + 3), "B": 4 + 2 * (1 + 2 + 3), "Z": 2 * 3 + 1}


def test_a_network_that_cannot_multicast_sends_copies():
    moved, link = hops(spec(*ROW, network=network("mesh", ", multicast: false")))
    assert moved == {"A": 2 * (1 + 2 + 3), "B": 2 * (1 + 2 + 3), "Z": 1 + 2 + 3}
    assert link == 6 + 6 + 3


def test_results_that_are_added_at_the_parent_come_one_by_one():
    reduces = "Z[n] = A[k, n] * B[k]", {"n": 1, "k": 8}, "k 4", "X k 1"
    assert hops(spec(*reduces, network=network("mesh", ", reduction: at_parent")))[0]["Z"] == 2 * (1 + 2 + 3)
    assert hops(spec(*reduces, network=network("mesh", ", reduction: in_network")))[0]["Z"] == 2 * 3


@pytest.mark.parametrize("topology", ["mesh", "all_to_all", "bus"])
def test_links_of_their_own_carry_one_tensor(topology):
    _, all_of_them = hops(spec(*ROW, network=network(topology)))
    _, largest = hops(spec(*ROW, network=network(topology, ", links: per_tensor")))
    assert largest == (8 if topology == "bus" else 6)
    assert all_of_them > largest


def test_eight_lanes_that_each_send_to_all_others_make_56_crossings():
    moved, _ = hops(spec("Z[m, n] = A[m, n] * B[n]", {"m": 8, "n": 8}, "m 1", "X n 1", network=network("all_to_all")))
    assert moved["A"] == 8 * 7


@pytest.mark.parametrize(("n", "s", "v"), [(2, 1, 1), (4, 2, 3), (2, 4, 5), (3, 2, 1)])
def test_a_multicast_takes_n_minus_1_strides_and_single_copies_the_sum(n, s, v):
    sizes = {"j": n, "i": s, "w": v}
    inner = v * s * (s - 1) // 2
    moved, _ = hops(spec("Z[i, j, w] = A[i, w] * B[i, j, w]", sizes, "X j 1", "X i 1"))
    assert moved["A"] == s * (n - 1) * s * v + n * inner
    assert moved["B"] == s * sum(i * s * v for i in range(n)) + n * inner


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("topology: star", "unknown topology 'star'"),
        ("reduction: at_paren", "unknown reduction 'at_paren'.*at_parent"),
        ("links: own", "unknown links 'own'.*per_tensor"),
        ("topology: bus, reduction: in_network", "cannot be added on their way over the bus 'Noc'.*at_parent"),
    ],
)
def test_a_bad_network_is_named(fields, words):
    with pytest.raises(SpecError, match=f"(?s){words}"):
        evaluate(spec(*ROW, network=f"{fields}, {HOP}"))


def test_accelforge_knows_plain_networks_alone():
    with pytest.raises(NotSupportedError, match=r"accelforge.*'Noc'"):
        evaluate(spec(*ROW, network=network("torus")), semantics="accelforge")


# routes on a grid, value by value


def route(begin, end):
    """The links from one place to another: along X first, then along Y."""
    row, column = (range(a, b + (1 if b >= a else -1), 1 if b >= a else -1) for a, b in zip(begin, end, strict=True))
    places = [*((x, begin[1]) for x in row), *((end[0], y) for y in column[1:])]
    return {frozenset(pair) for pair in pairwise(places)}


def reached(begin, ends):
    """Links to several places, each once."""
    return set().union(*(route(begin, end) for end in ends))


def test_routes_go_along_x_then_along_y():
    assert len(route((0, 0), (2, 2))) == 4
    assert len(reached((1, 0), [(0, 2), (2, 2)])) == 6
    assert len(reached((0, 0), [(0, 0), (0, 2), (2, 0), (2, 2)])) == 6


EINSUMS = {
    "Z[m, n] = A[m, k] * B[k, n]": {"A": "mk", "B": "kn", "Z": "mn"},
    "Z[m] = A[m, k] * B[k]": {"A": "mk", "B": "k", "Z": "m"},
    "Z[m, n] = A[m] * B[n]": {"A": "m", "B": "n", "Z": "mn"},
}


def case(rng, dimensions):
    """A mapping with one loop over each fanout, everything else in the registers of the lanes."""
    text = rng.choice(list(EINSUMS))
    indices = EINSUMS[text]
    bounds = {v: rng.randint(2, 6) for v in sorted({v for used in indices.values() for v in used})}
    loops = [(name, rng.choice(list(bounds))) for name in "XY"[:dimensions]]
    tiles, left = [], dict(bounds)
    for name, v in loops:
        tiles.append((name, v, shape := rng.randint(1, left[v])))
        left[v] = shape
    reuse = {name: rng.choice(["All", "Nothing", "Inputs", "Outputs"]) for name in "XY"}
    spatial = [{"name": d, "fanout": n, "may_reuse": reuse[d]} for d, n in zip("XY", (6, 6), strict=True)]
    actions = [{"name": a, "energy": 0, "throughput": "inf"} for a in ("read", "write")]
    plain = {"size": "inf", "leak_power": 0, "area": 0, "actions": actions}
    hop = {"name": "hop", "energy": 1, "latency": 0, "throughput": "inf"}
    nodes = [
        {"type": "Memory", "name": "DRAM", **plain},
        {"type": "Network", "name": "Noc", "leak_power": 0, "area": 0, "topology": "mesh", "actions": [hop]},
        {"type": "Memory", "name": "REG", "spatial": spatial, **plain},
        {"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0, "actions": [{**hop, "name": "compute"}]},
    ]
    tree = [{"type": "Storage", "tensors": ["A", "B", "Z"], "component": "DRAM"}]
    tree += [
        {"type": "Spatial", "rank_variable": v, "tile_shape": shape, "component": "REG", "name": d}
        for d, v, shape in tiles
    ]
    tree += [{"type": "Storage", "tensors": ["A", "B", "Z"], "component": "REG"}]
    tree += [{"type": "Temporal", "rank_variable": v, "tile_shape": 1} for v in bounds]
    tree += [{"type": "Compute", "einsum": "Z", "component": "MAC"}]
    shape = {v: f"0 <= {v} < {n}" for v, n in bounds.items()}
    workload = {"iteration_space_shape": shape, "bits_per_value": {"All": 1}, "einsums": [text]}
    found = Spec.from_dict({"arch": {"nodes": nodes}, "workload": workload, "mapping": {"nodes": tree}})
    return found, indices, bounds, tiles, reuse


def parts(bounds, tiles):
    """For each lane the values of each rank variable that it works on, those first that come first in time."""
    found = [((), {v: range(n) for v, n in bounds.items()})]
    for _, v, shape in tiles:
        cut = []
        for place, mine in found:
            for i, begin in enumerate(range(0, len(mine[v]), shape)):
                cut.append(((*place, i), {**mine, v: mine[v][begin : begin + shape]}))
        found = cut
    return [((*place, 0, 0)[:2], mine) for place, mine in found]


def laid(tensor, used, bounds, tiles, reuse):
    """Hops of one tensor: each value by itself, to all lanes that share a copy at once."""
    shared = {"A": ("All", "Inputs"), "B": ("All", "Inputs"), "Z": ("All", "Outputs")}[tensor]
    sends: dict[tuple, list] = {}
    for place, mine in parts(bounds, tiles):
        # lanes along a fanout that does not index the tensor, and may not share it, get copies of their own
        apart = tuple(
            place[i] if v not in used and reuse[d] not in shared else None for i, (d, v, _) in enumerate(tiles)
        )
        for value in product(*(mine[v] for v in used)):
            sends.setdefault((value, apart), []).append(place)
    total = sum(len(reached((0, 0), places)) for places in sends.values())
    if tensor != "Z":
        return total
    # each value comes back once for each group of lanes; where groups take turns, all but the first one of a value are
    # refilled in their first lane
    first: dict[tuple, tuple] = {}
    for value, apart in sends:
        first.setdefault(value, apart)
    return total + sum(
        len(route((0, 0), min(places))) for (value, apart), places in sends.items() if apart != first[value]
    )


def compare(seed):
    found, indices, *rest = case(random.Random(seed), dimensions=1 + seed % 2)
    moved = {t: n for (_, t, c, _), n in counts(evaluate(found)).items() if c == "Noc"}
    expected = {t: laid(t, used, *rest) for t, used in indices.items()}
    assert moved == {t: n for t, n in expected.items() if n}, seed


@few_and_many("seeds", (range(5),), (range(200),), part="simulator")
def test_hops_are_those_of_routes_that_are_laid_value_by_value(seeds):
    for seed in seeds:
        compare(seed)
