"""Collectives message by message over the links of each axis: an independent count of what links carry."""

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from einmap import load
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.costs.cost import plan_cost
from einmap.distribute.costs.cost_model import ClusterCost, hop_cost
from einmap.distribute.hops.every import hops_between
from einmap.distribute.hops.part_of_mesh import broadcast_rounds, reduce_rounds
from einmap.distribute.hops.routes import Routes
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement, Split
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.plans.collectives import SINGLE, TOPOLOGIES

PE = ProcessingElement(((64, 1e12),))


class Wires:
    """Bytes over each link of one axis, per group: links are what one rate is of (`Link.bandwidth`)."""

    def __init__(self, topology, parts):
        self.topology, self.parts = topology, parts
        self.load, self.passed = Counter(), Fraction(0)

    def send(self, start, end, amount):
        """Along the shortest way, half each way round where both are as long."""
        if start == end:
            return
        if self.topology in ("ring", "torus"):
            ahead, back = (end - start) % self.parts, (start - end) % self.parts
            ways = [(1, ahead)] if ahead < back else [(-1, back)] if back < ahead else [(1, ahead), (-1, back)]
            for step, length in ways:
                at = start
                for _ in range(length):
                    link = frozenset({(at, step), ((at + step) % self.parts, -step)})
                    self.load[link if self.topology == "ring" else (at, step)] += Fraction(amount) / len(ways)
                    self.passed += Fraction(amount) / len(ways)
                    at = (at + step) % self.parts
            return
        self.passed += amount
        if self.topology == "tree":
            self._through_tree(0, self.parts, start, end, amount)
        else:
            self.load["out", start] += amount
            self.load["in", end] += amount

    def _through_tree(self, begin, stop, start, end, amount):
        if stop - begin > 1:
            middle = (begin + stop + 1) // 2
            for low, high in ((begin, middle), (middle, stop)):
                here, there = low <= start < high, low <= end < high
                if here != there:
                    self.load["up" if here else "down", low, high] += amount
                self._through_tree(low, high, start, end, amount)

    def busiest(self):
        return max(self.load.values(), default=0)


def both_ways(wires, start, end, amount):
    """What goes all the way round a torus does so half each way."""
    if wires.topology == "torus":
        wires.send(start, end, Fraction(amount) / 2)
        wires.send(end, start, Fraction(amount) / 2)
    else:
        wires.send(start, end, amount)


def simulated(kind, topology, parts, whole):
    """Every message of a collective along one axis."""
    wires = Wires(topology, parts)
    for pe in range(parts):
        if kind == "all_to_all":
            for other in range(parts):
                wires.send(pe, other, Fraction(whole, parts))
        elif kind in ("all_gather", "reduce_scatter", "all_reduce"):
            # each block goes round, from neighbour to neighbour, in an all-reduce twice
            for _ in range((parts - 1) * (2 if kind == "all_reduce" else 1)):
                both_ways(wires, pe, (pe + 1) % parts, Fraction(whole, parts))
        elif kind == "shift":
            wires.send(pe, (pe + 1) % parts, whole)
        elif kind == "halo" and pe:
            wires.send(pe, pe - 1, whole)
    return wires


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "shift", "halo"])
def test_a_collective_takes_what_its_busiest_link_carries(kind, topology):
    for parts in range(2, 13):
        whole = 5040 * parts
        wires = simulated(kind, topology, parts, whole)
        link = Link(1.0, 0.0, topology)
        operand, result = (whole // parts, whole) if kind == "all_gather" else (whole, whole)
        # two PEs have two links in a ring; of those only one is used where there is one message
        carried = max(wires.busiest(), whole) if kind in SINGLE else wires.busiest()
        assert link.seconds(kind, parts, operand, result) == pytest.approx(float(carried), rel=1e-12), parts
        if kind != "halo":
            joules = Cluster(PE, (("x", Link(1.0, 0.0, topology, energy_per_bit=1.0)),)).energy(
                kind, Mesh((("x", parts),)), ("x",), whole
            )
            assert joules == pytest.approx(float(wires.passed), rel=1e-12)


@pytest.mark.parametrize("parts", [2, 3, 4, 5, 8, 9])
def test_an_all_to_all_in_a_ring_takes_a_quarter_of_its_length(parts):
    # G/4 for even G, (G - 1/G)/4 for odd G
    quarter = parts / 4 if parts % 2 == 0 else (parts - 1 / parts) / 4
    assert Link(1e9).seconds("all_to_all", parts, 3600, 3600) == pytest.approx(3600 * quarter / 1e9)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_rounds_of_a_broadcast_get_in_no_ones_way(topology):
    for parts, root in product(range(2, 18), (0, 1)):
        for rounds in (broadcast_rounds(parts, root), reduce_rounds(parts, root)):
            have = {root}
            for pairs in rounds if rounds[0][0][0] == root else ():
                assert {sender for sender, _ in pairs} <= have
                have |= {receiver for _, receiver in pairs}
            routes = Routes((parts,), rounds)
            for pairs, carried in zip(rounds, routes.loads(0, topology), strict=True):
                wires = Wires(topology, parts)
                for sender, receiver in pairs:
                    wires.send(sender, receiver, 1)
                assert (carried.busiest, carried.passed) == (max(1, wires.busiest()), wires.passed)
                if topology != "tree" or root == 0:
                    assert carried.busiest == 1


def test_messages_between_single_pes_load_the_links_of_each_axis_that_they_take():
    generator = np.random.default_rng(5)
    for _ in range(40):
        sizes = tuple(int(size) for size in generator.integers(2, 5, size=generator.integers(1, 4)))
        count = math.prod(sizes)
        receivers = generator.permutation(count)
        pairs = tuple((s, int(r)) for s, r in enumerate(receivers) if s != r)
        if not pairs:
            continue
        routes = Routes(sizes, (pairs,))
        for axis, topology in product(range(len(sizes)), TOPOLOGIES):
            lines = {}
            for sender, receiver in pairs:
                before, after = (np.unravel_index(place, sizes) for place in (sender, receiver))
                line = (*after[:axis], *before[axis + 1 :])
                lines.setdefault(line, Wires(topology, sizes[axis])).send(int(before[axis]), int(after[axis]), 1)
            (carried,) = routes.loads(axis, topology)
            most = max(wires.busiest() for wires in lines.values())
            assert carried.busiest == (max(1, most) if most else 0)
            assert carried.passed == sum(wires.passed for wires in lines.values())


# several axes


def axis_by_axis(kind, sizes, order, whole):
    """What each PE sends along each axis, block by block: (kind, axis, bytes) in order.

    Every PE has a set of blocks of the whole; an all-gather along an axis joins the sets of those along it.
    """
    blocks = math.prod(sizes)
    held = {place: {number} for number, place in enumerate(product(*map(range, sizes)))}
    stages = []
    for axis in order:
        size = len(next(iter(held.values())))
        stages.append((axis, Fraction(whole * size * (sizes[axis] - 1), blocks)))
        lines = {}
        for place, own in held.items():
            lines.setdefault(place[:axis] + place[axis + 1 :], set()).update(own)
        held = {place: set(lines[place[:axis] + place[axis + 1 :]]) for place in held}
    assert all(len(own) == blocks for own in held.values())
    return [(kind, axis, sent) for axis, sent in stages]


AXES = [(2e9, 3e-6, 1e-12), (5e9, 1e-6, 7e-12), (1e9, 2e-6, 4e-12)]


@pytest.mark.parametrize("sizes", [(2, 4), (4, 2), (3, 5), (2, 3, 4), (4, 4, 2)])
def test_a_collective_over_several_axes_takes_each_of_them_in_the_best_order(sizes):
    names = "xyz"[: len(sizes)]
    mesh = Mesh(tuple(zip(names, sizes, strict=True)))
    links = tuple(
        (name, Link(b, latency, energy_per_bit=e)) for name, (b, latency, e) in zip(names, AXES, strict=False)
    )
    cluster = Cluster(PE, links)
    count, whole = mesh.n_devices, 960_000
    times, joules = [], []
    for order in permutations(range(len(sizes))):
        stages = axis_by_axis("all_gather", sizes, order, whole)
        times.append(sum(float(sent) / AXES[a][0] + (sizes[a] - 1) * AXES[a][1] for _, a, sent in stages))
        joules.append(sum(float(sent) * AXES[a][2] * count for _, a, sent in stages))
    axes = tuple(names)
    assert cluster.seconds("all_gather", mesh, axes, whole / count, whole) == pytest.approx(min(times))
    assert cluster.seconds("reduce_scatter", mesh, axes, whole, whole / count) == pytest.approx(min(times))
    # down to blocks and up again, with the axis in the middle once each way
    assert cluster.seconds("all_reduce", mesh, axes, whole, whole) == pytest.approx(2 * min(times))
    assert cluster.energy("all_gather", mesh, axes, whole) == pytest.approx(min(joules))
    assert cluster.energy("all_reduce", mesh, axes, whole) == pytest.approx(2 * min(joules))
    each = [float(simulated("all_to_all", "ring", size, whole * size).busiest()) / size for size in sizes]
    along = sum(sent / b + (size - 1) * latency for sent, size, (b, latency, _) in zip(each, sizes, AXES, strict=False))
    assert cluster.seconds("all_to_all", mesh, axes, whole, whole) == pytest.approx(along)
    # nothing is faster than its part along any one axis
    for kind in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast"):
        together = cluster.seconds(kind, mesh, axes, whole, whole)
        for axis in axes:
            assert together > cluster.seconds(kind, mesh, (axis,), whole / count, whole / count)


def test_pes_that_share_a_link_divide_it_by_the_messages_that_cross_it():
    mesh = Mesh((("y", 2), ("x", 4)))
    cluster = Cluster(PE, (("y", Link(1e9, shared_by=("x",))), ("x", Link(4e9))))
    shift = Routes((2, 4), (tuple((place, (place + 1) % 8) for place in range(8)),))
    # of a ring over both axes, one message passes from node to node, and one back
    assert cluster.routed_seconds(mesh, ("y", "x"), shift, 1000) == pytest.approx(1000 / 1e9)
    swap = Routes((2,), (((0, 1), (1, 0)),))
    # along y alone all four groups do so at once
    assert cluster.routed_seconds(mesh, ("y",), swap, 1000) == pytest.approx(4 * 1000 / 1e9)


def test_a_slow_axis_gets_the_small_part():
    mesh = Mesh((("x", 4), ("y", 2)))
    cluster = Cluster(PE, (("x", Link(8e9)), ("y", Link(1e9))))
    # 3/4 of 1600 bytes along x, 1/2 of a quarter of them along y, and back
    assert cluster.seconds("all_reduce", mesh, ("y", "x"), 1600, 1600) == pytest.approx(2 * (1200 / 8e9 + 200 / 1e9))
    assert cluster.seconds("all_reduce", mesh, ("x", "y"), 1600, 1600) == pytest.approx(2 * (1200 / 8e9 + 200 / 1e9))


def test_axes_of_a_torus_are_used_at_once_unless_one_of_them_is_slow():
    mesh = Mesh((("x", 4), ("y", 4)))
    equal = Cluster(PE, tuple((axis, Link(1e9, 0.0, "torus")) for axis in "xy"))
    assert equal.seconds("all_gather", mesh, ("x", "y"), 100, 1600) == pytest.approx(1500 / 4e9)
    slow = Cluster(PE, (("x", Link(1e9, 0.0, "torus")), ("y", Link(1e7, 0.0, "torus"))))
    # along y first, 3 blocks of 100, both ways; then 12 blocks along x
    assert slow.seconds("all_gather", mesh, ("x", "y"), 100, 1600) == pytest.approx(300 / 2e7 + 1200 / 2e9)
    late = Cluster(PE, (("x", Link(1e9, 0.0, "torus")), ("y", Link(1.01e9, 1e-3, "torus"))))
    assert late.seconds("all_gather", mesh, ("x", "y"), 100, 1600) > 3e-3
    mixed = Cluster(PE, (*equal.links, ("z", Link(1e9, 0.0))))
    wide = Mesh((("x", 4), ("y", 4), ("z", 2)))
    # half of 1600 bytes along z; before that 15/16 of 800 over both axes of the torus
    assert mixed.seconds("all_gather", wide, ("x", "y", "z"), 50, 1600) == pytest.approx(
        min(750 / 4e9 + 800 / 1e9, 50 / 1e9 + 1500 / 4e9)
    )


# plans


def two_axes(bandwidths=(100e9, 101e9), latencies=(0.0, 1e-3), joules=(0.0, 0.0)):
    links = zip("xy", bandwidths, latencies, joules, strict=True)
    return Cluster(
        ProcessingElement(((16, 1e12),), energy_per_operation=1e-12),
        tuple((axis, Link(b, latency, energy_per_bit=e)) for axis, b, latency, e in links),
    )


def matmul():
    return load("matmul", define={"M": 64, "K": 4096, "N": 64, "BITS": 16}).workload


def test_a_plan_waits_for_the_messages_of_each_axis():
    placements = {"A": {"K": ["y"]}, "B": {"K": ["y"]}, "Z": "replicated"}
    planned = plan_workload(matmul(), PlanRequest(Mesh((("x", 2), ("y", 4))), two_axes(), placements=placements))
    assert planned.best.proven
    # what all PEs along y have a part of needs two collectives along y of three messages, or one of each operand
    assert planned.best.cost >= 6e-3


def test_energy_is_that_of_the_links_that_bits_cross():
    placements = {"A": {"K": ["x", "y"]}, "B": {"K": ["x", "y"]}, "Z": "replicated"}
    cluster = two_axes(latencies=(0.0, 0.0), joules=(1e-12, 50e-12))
    request = PlanRequest(Mesh((("x", 2), ("y", 4))), cluster, "energy", placements=placements)
    best = plan_workload(matmul(), request).best
    bits = 64 * 64 * 16
    # an all-reduce of Z: half of it along x, 3/4 of that half along y, there and back, on 8 PEs
    moving = 2 * (bits / 2 * 1e-12 + bits / 2 * 3 / 4 * 50e-12) * 8
    assert best.cost == pytest.approx(moving + 2 * 64 * 64 * 4096 * 1e-12)


def test_energy_leaves_padding_out_which_is_sent():
    mesh = Mesh((("x", 4),))
    cluster = Cluster(PE, (("x", Link(1e9, energy_per_bit=1e-12)),))
    before, after = Placement((Split("M", ("x",), 2),)), Placement()
    (hop,) = hops_between(mesh, {"M": 5, "N": 3}, before, after)
    # 5 rows of 3 values of 8 bits, each sent three times; 8 rows with padding
    assert hop_cost(ClusterCost(cluster, "energy"), mesh, hop, 8) == pytest.approx(3 * 5 * 3 * 8 * 1e-12, rel=1e-3)
    assert hop_cost(ClusterCost(cluster, "time"), mesh, hop, 8) == pytest.approx(3 * 2 * 3 / 1e9, rel=1e-3)


def test_energy_of_local_memory_leaves_padding_out():
    pe = ProcessingElement(((16, 1e12),), energy_per_bit=1e-12)
    workload = load("matmul", define={"M": 5, "K": 3, "N": 2, "BITS": 16}).workload
    placements = {"A": {"M": ["x"]}, "Z": {"M": ["x"]}}
    request = PlanRequest(Mesh((("x", 4),)), Cluster(pe, (("x", Link(1e9)),)), "energy", placements=placements)
    # 5 rows of A and of Z over all PEs, and B on each of them
    assert plan_workload(workload, request).best.cost == pytest.approx((5 * 3 + 5 * 2 + 4 * 3 * 2) * 16 * 1e-12)


def test_exchanges_of_blocks_take_the_axes_that_they_cross():
    mesh = Mesh((("x", 2), ("y", 2)))
    cluster = two_axes(bandwidths=(100e9, 1e9), latencies=(1e-6, 1e-3), joules=(1e-12, 50e-12))
    before, after = (Placement((Split("M", axes, 2),)) for axes in (("x", "y"), ("y", "x")))
    (hop,) = hops_between(mesh, {"M": 5}, before, after)
    # PEs 1 and 2 exchange their blocks, of 2 rows and of one, over both axes; two PEs share two links
    energy = (2 + 1) * 8 * 51e-12
    assert hop_cost(ClusterCost(cluster, "energy"), mesh, hop, 8) == pytest.approx(energy, abs=2e-12)
    assert hop_cost(ClusterCost(cluster, "time"), mesh, hop, 8) == pytest.approx(2 / 1e9 + 1.001e-3, abs=2e-12)


def test_a_plan_costs_what_its_moves_do_on_every_topology():
    for first, second in product(TOPOLOGIES, repeat=2):
        cluster = Cluster(PE, (("x", Link(3e9, 1e-7, first)), ("y", Link(1e9, 3e-7, second))))
        mesh = Mesh((("x", 2), ("y", 3)))
        workload = load("feed_forward", define={"N_TOKENS": 8, "D_MODEL": 48, "D_FF": 96, "BITS": 16}).workload
        best = plan_workload(workload, PlanRequest(mesh, cluster, placements={"X": {"M": ["x", "y"]}})).best
        assert plan_cost(best.plan, cluster, best.bits).latency == pytest.approx(best.cost, rel=1e-6)
