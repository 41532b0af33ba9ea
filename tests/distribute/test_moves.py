"""The cheapest way from one placement to another."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.distribute.drawn_plans import draw
from tests.distribute.routes import cheapest_route, places_of

from einmap.distribute.hops.permute import permuted_axes, permuted_pairs
from einmap.distribute.hops.shortest import shortest_paths
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement, Split
from einmap.distribute.plans.collectives import KINDS, rounds, sent

LINE = Mesh((("x", 4),))
GRID = Mesh((("x", 2), ("y", 2)))
SIZES = (("M", 8), ("N", 12))


def placed(partial=(), reduction="sum", **splits):
    return Placement(tuple(Split(rank, axes, block) for rank, (axes, block) in splits.items()), partial, reduction)


def kinds(mesh, start, target):
    route = cheapest_route(mesh, SIZES, (start,), target)
    return None if route is None else [(hop.kind, "".join(hop.axes), hop.sent_values) for hop in route.hops]


@pytest.mark.parametrize(
    ("start", "target", "expected"),
    [
        (placed(), placed(), []),
        (placed(), placed(M=(("x",), 2)), [("slice", "x", 0)]),
        (placed(M=(("x",), 2)), placed(), [("all_gather", "x", 4 * 3 * 24)]),
        (placed(("x",)), placed(), [("all_reduce", "x", 4 * 2 * 3 * 24)]),
        (placed(("x",)), placed(M=(("x",), 2)), [("reduce_scatter", "x", 4 * 3 * 24)]),
        (placed(M=(("x",), 2)), placed(N=(("x",), 3)), [("all_to_all", "x", 4 * 3 * 6)]),
        (placed(("x",), "max"), placed(M=(("x",), 2)), [("all_reduce", "x", 4 * 2 * 3 * 24), ("slice", "x", 0)]),
        (placed(), placed(("x",)), None),
        # blocks of 3 do not nest in blocks of 2: by way of N, in blocks of 3 as well
        (
            placed(M=(("x",), 3)),
            placed(M=(("x",), 2)),
            [("all_to_all", "x", 4 * 3 * 9), ("all_to_all", "x", 4 * 3 * 6)],
        ),
    ],
)
def test_the_route_along_one_axis(start, target, expected):
    assert kinds(LINE, start, target) == expected


def test_several_axes_are_reduced_at_once_since_that_sends_less():
    assert kinds(GRID, placed(("x", "y")), placed()) == [("all_reduce", "xy", 4 * 2 * 3 * 24)]


def test_the_last_axes_of_a_split_are_gathered_first():
    start, target = placed(M=(("x", "y"), 2)), placed(M=(("x",), 4))
    assert kinds(GRID, start, target) == [("all_gather", "y", 4 * 1 * 24)]
    # to the other axis: two PEs exchange their blocks of 2 x 12 values, then two blocks are joined
    moves = kinds(GRID, start, placed(M=(("y",), 4)))
    assert moves == [("permute", "xy", 2 * 24), ("all_gather", "x", 4 * 1 * 24)]


@pytest.mark.parametrize(
    ("start", "target", "pairs"),
    [
        # PE 2x + y holds block 2x + y, then 2y + x
        (placed(M=(("x", "y"), 2)), placed(M=(("y", "x"), 2)), ((1, 2), (2, 1))),
        # block x of M and y of N, then the other way round
        (placed(M=(("x",), 4), N=(("y",), 6)), placed(M=(("y",), 4), N=(("x",), 6)), ((1, 2), (2, 1))),
        # block x, which two PEs have, then block y
        (placed(M=(("x",), 4)), placed(M=(("y",), 4)), ((1, 2), (2, 1))),
        # addends have no order, but blocks of M have
        (placed(("x",), M=(("y",), 4)), placed(("y",), M=(("x",), 4)), ((1, 2), (2, 1))),
    ],
)
def test_pes_exchange_blocks_of_the_same_shape(start, target, pairs):
    assert permuted_pairs(GRID, start, target) == pairs
    values = prod({**dict(SIZES), **{split.rank: split.block for split in start.splits}}.values())
    assert kinds(GRID, start, target) == [("permute", "xy", 2 * values)]


def test_axes_that_mean_the_same_in_both_placements_are_not_crossed():
    mesh = Mesh((("x", 2), ("z", 3), ("y", 2)))
    start, target = placed(M=(("x", "y"), 2), N=(("z",), 4)), placed(M=(("y", "x"), 2), N=(("z",), 4))
    (hop,) = cheapest_route(mesh, SIZES, (start,), target).hops
    assert (hop.kind, hop.axes, hop.senders, hop.sent_values) == ("permute", ("x", "y"), 1 / 2, 6 * 2 * 4)


@given(st.permutations("xyz"), st.permutations("xyz"), st.integers(0, 3), st.integers(0, 3))
def test_every_pe_has_its_block_after_a_permute(old, new, cut, other):
    # two ranks over axes of 2, 3 and 2 PEs, some of them left out
    mesh = Mesh((("x", 2), ("y", 3), ("z", 2)))

    def some(order):
        first, second = tuple(order[:cut]), tuple(order[cut : cut + other])
        splits = [Split(rank, axes, 1) for rank, axes in (("M", first), ("N", second)) if axes]
        return Placement(tuple(splits))

    def block(placement, device):
        return [mesh.position(device, split.axes) for split in placement.splits]

    start, target = some(old), some(new)
    if any(mesh.parts(a.axes) != mesh.parts(b.axes) for a, b in zip(start.splits, target.splits, strict=True)):
        return
    held = [block(start, device) for device in range(12)]
    axes = permuted_axes(mesh, start, target)
    for group in mesh.groups(axes).listed:
        before = [held[device] for device in group]
        for sender, receiver in permuted_pairs(mesh, start, target):
            held[group[receiver]] = before[sender]
    assert held == [block(target, device) for device in range(12)]


@pytest.mark.parametrize("sizes", [(("M", 16), ("N", 32)), (("M", 10), ("N", 3))])
def test_no_sequence_of_moves_on_4_by_4_is_cheaper(sizes):
    mesh = Mesh((("x", 4), ("y", 4)))
    places = places_of(mesh, sizes, partial=("x", "y"))
    paths = shortest_paths(places, lambda hop: hop.sent_values)
    distances = paths.distances
    # no move shortens a path, so none is shorter; and each is as long as it says
    for here, there, hop in places.hops:
        assert (distances[:, there] <= distances[:, here] + hop.sent_values).all()
    for start, end in np.argwhere(np.isfinite(distances)):
        assert paths.route(start, end).sent_values == distances[start, end]


def test_one_axis_cut_in_two_makes_no_way_dearer():
    sizes = (("M", 8), ("N", 12))
    whole = places_of(LINE, sizes, partial=("x",))
    cut = places_of(GRID, sizes, partial=("x", "y"))
    joined = [
        Placement(
            tuple(Split(split.rank, ("x", "y"), split.block) for split in placement.splits),
            ("x", "y") if placement.partial else (),
        )
        for placement in whole.placements
    ]
    numbers = [cut.number[placement] for placement in joined]
    before = shortest_paths(whole, lambda hop: hop.sent_values).distances
    after = shortest_paths(cut, lambda hop: hop.sent_values).distances[np.ix_(numbers, numbers)]
    assert (after <= before).all()


def test_the_cheapest_of_several_versions_is_the_start():
    versions = (placed(M=(("x",), 2)), placed())
    assert cheapest_route(LINE, SIZES, versions, placed()).hops == ()


def test_rings_send_what_the_formulas_say():
    assert {kind: float(sent(kind, 4, 100, 100)) for kind in KINDS} == {
        "all_gather": 75,
        "reduce_scatter": 75,
        "all_reduce": 150,
        "all_to_all": 75,
        "shift": 100,
        "permute": 100,
        "halo": 100,
        "broadcast": 200,
        "reduce": 200,
        "slice": 0,
    }
    assert {kind: rounds(kind, 4) for kind in KINDS} == {
        "all_gather": 3,
        "reduce_scatter": 3,
        "all_reduce": 6,
        "all_to_all": 3,
        "shift": 1,
        "permute": 1,
        "halo": 1,
        "broadcast": 2,
        "reduce": 2,
        "slice": 0,
    }
    assert not any(sent(kind, 1, 100, 100) for kind in KINDS)


def test_drawn_plans_use_every_kind_of_collective():
    # otherwise the tests on drawn plans say little
    found = {move.kind for seed in range(40) for move in moves(draw(seed).plan.steps)}
    # these are drawn in test_halo and test_part_of_mesh
    assert found == set(KINDS) - {"halo", "broadcast", "reduce"}


def moves(steps):
    for step in steps:
        if hasattr(step, "kind"):
            yield step
        yield from moves(getattr(step, "steps", ()))


def test_replicas_hold_the_same():
    from einmap.distribute.backends.base import deal

    plan = draw(3).plan
    rng = np.random.default_rng(0)
    for _, name in plan.inputs:
        buffer = plan.by_name[name]
        dealt = deal(plan, buffer, rng.random([size for _, size in buffer.sizes]))
        copies = [axis for axis in plan.mesh.names if axis not in buffer.placement.used]
        for group in plan.mesh.groups(copies).listed:
            assert all(np.array_equal(dealt[group[0]], dealt[one], equal_nan=True) for one in group)
