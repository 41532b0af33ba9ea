"""Convolutions in blocks of rows: what a filter reaches beyond a block comes from the next PE, and nothing else does."""

import random
import re
from math import prod

import pytest
from tests.distribute.checking import check_run
from tests.distribute.routes import cheapest_route

from einmap import Spec, SpecError, load, loads, plan_of
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost import communication, plan_cost
from einmap.distribute.derive import distribute_workload
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement, Split
from einmap.distribute.planner.best import best_plan
from einmap.distribute.planner.document import distribution_text
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.plans.plan import BYTES
from einmap.frontends.yaml.spec import dump


def conv(P=16, R=3, stride=1, dilation=1):
    """One row of two channels, to three."""
    return workload_of([f"O[m, p] = I[c, H: {stride}*p + {dilation}*r] * F[m, c, r]"], P=P, R=R, C=2, M=3)


def workload_of(einsums, **sizes):
    spec = {"rank_sizes": sizes, "bits_per_value": {"All": 64}, "einsums": einsums}
    return Spec.from_dict(workload=spec).workload


def rows(workload, devices, split="x"):
    return distribute_workload(workload, {"x": devices}, {"I": {"H": split}}, loops={"O": {"p": "x"}})


def sent(plan):
    """Kinds, and values that all PEs together send."""
    return [
        (t.kind, t.tensor, t.total_sent_bytes / BYTES[plan.dtype] * plan.mesh.n_devices) for t in communication(plan)
    ]


def agree(plan):
    inputs = sample_inputs(plan.workload, 0)
    return all(c.agrees for c in check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs))


def test_the_shipped_convolution_sends_two_rows_to_each_neighbour():
    # 16 x 16 x 16 inputs: 4 rows on each of 4 PEs; a filter of 3 rows reaches 2 rows of 16 channels and 16 columns further
    spec = load(["conv", "conv_rows"])
    plan = plan_of(spec)
    (halo,) = communication(plan)
    assert (halo.kind, halo.tensor, halo.count, halo.operand_bytes) == ("halo", "I", 1, 2 * 16 * 16 * 8)
    # the last PE has nobody behind it, the first one nobody before it
    assert halo.rounds == (((1, 0), (2, 1), (3, 2)),)
    assert plan_cost(plan).sent_bytes == 3 / 4 * 2 * 16 * 16 * 8
    assert agree(plan)


@pytest.mark.parametrize(
    ("workload", "devices", "values"),
    [
        (conv(), 4, [3 * 2 * 2]),  # 18 coordinates in blocks of 5, 5, 5 and 3; two more of two channels, three times
        (conv(dilation=2), 4, [3 * 4 * 2]),
        (
            conv(P=9, R=5, dilation=2),
            4,
            [3 * 5 * 2, 3 * 3 * 2],
        ),  # blocks of 5, a halo of 8: 5 from the next, 3 through it
        (conv(P=3, R=6), 4, [3 * 2 * 2, 3 * 2 * 2, 3 * 1 * 2]),  # blocks of 2, a halo of 5
        (conv(stride=4), 4, []),  # filters of 3 never reach beyond their 4 inputs
        (conv(P=8, stride=2, R=4), 3, [2 * 2 * 2]),  # 18 in blocks of 6: a halo of 2
    ],
)
def test_as_much_is_sent_as_filters_reach_beyond_blocks(workload, devices, values):
    plan = rows(workload, devices)
    assert sent(plan) == [("halo", "I", pytest.approx(count)) for count in values]
    assert agree(plan)


def test_what_a_stride_does_not_divide_is_gathered_unless_the_block_is_given():
    # 33 coordinates in blocks of 9 begin in the middle of a step of 2
    assert [kind for kind, _, _ in sent(rows(conv(stride=2), 4))] == ["all_gather"]
    plan = rows(conv(stride=2), 4, {"axes": "x", "block": 10})
    assert sent(plan) == [("halo", "I", 3 * 1 * 2)]
    assert agree(plan)


def test_an_input_may_be_put_with_its_halo_and_then_nothing_is_sent():
    # 4 outputs on each PE, 6 inputs: 4 * 4 + 2 coordinates
    plan = rows(conv(), 4, {"axes": "x", "block": 4, "halo": 2})
    assert communication(plan) == ()
    assert plan.by_name[dict(plan.inputs)["I"]].shape == (2, 6)
    assert agree(plan)


def test_both_ranks_of_an_image_may_be_split_and_corners_come_through_a_neighbour():
    workload = load("conv", define={"P": 10, "Q": 6, "C": 2, "M": 3}).workload
    asked = {"I": {"H": "x", "W": "y"}}
    plan = distribute_workload(workload, {"x": 2, "y": 2}, asked, loops={"O": {"p": "x", "q": "y"}})
    # 12 x 8 in blocks of 6 x 4: 2 rows of 4, then 2 columns of 8, of 2 channels
    assert sent(plan) == [("halo", "I", 2 * 2 * 4 * 2), ("halo", "I", 2 * 8 * 2 * 2)]
    assert agree(plan)


def test_a_halo_is_fetched_block_by_block_and_given_up_for_nothing():
    mesh, sizes = Mesh((("x", 4),)), (("M", 12), ("N", 2))
    bare, wide = Placement((Split("M", ("x",), 3),)), Placement((Split("M", ("x",), 3, 7),))
    there = cheapest_route(mesh, sizes, (bare,), wide)
    assert [(hop.kind, hop.sent_values) for hop in there.hops] == [("halo", 18), ("halo", 18), ("halo", 6)]
    back = cheapest_route(mesh, sizes, (wide,), bare)
    assert [(hop.kind, hop.sent_values) for hop in back.hops] == [("slice", 0)]


def drawn(seed, devices=8):
    """A random convolution in blocks, perhaps with another one behind it, and a random mesh."""
    rng = random.Random(seed)
    shape = rng.choice([s for s in ((2,), (3,), (4,), (8,), (2, 2), (2, 4), (3, 2)) if prod(s) <= devices])
    mesh = dict(zip("xy", shape, strict=False))
    axes = list(mesh)
    stride, dilation = rng.choice([(1, 1), (1, 1), (2, 1), (1, 2), (3, 2)])
    sizes = {"P": rng.randint(2, 9), "R": rng.randint(1, 5), "C": 2, "M": 2}
    einsums = [f"O[m, p] = I[c, H: {stride}*p + {dilation}*r] * F[m, c, r]"]
    if rng.random() < 0.4:
        sizes |= {"P": 2 * sizes["P"] + 3, "K": 2, "S": 2, "Q": sizes["P"] * 2 + 2}
        einsums.append("Z[k, q] = O[m, P: q + s] * G[k, m, s]")
    rng.shuffle(axes)
    loops = {"O": {"p": axes}} if rng.random() < 0.7 else {}
    return distribute_workload(workload_of(einsums, **sizes), mesh, {"I": {"H": axes}}, loops=loops)


def test_drawn_convolutions_compute_what_the_workload_says():
    plans = [drawn(seed) for seed in range(30)]
    assert all(agree(plan) for plan in plans)
    assert sum(any(t.kind == "halo" for t in communication(plan)) for plan in plans) > 10


def test_they_send_what_is_predicted(engine):
    for seed in range(30, 36):
        check_run(engine, drawn(seed), seed)


@pytest.mark.slow
@pytest.mark.distribute
def test_a_hundred_more_send_what_is_predicted(engine):
    for seed in range(100, 200):
        check_run(engine, drawn(seed), seed)


def test_the_planner_finds_halos_for_two_convolutions_and_the_plan_is_read_back():
    # outputs are too many to be gathered, channels too few to be split
    einsums = ["T[p] = I[H: p + r] * F[r]", "O[q] = T[P: q + s] * G[s]"]
    spec = Spec.from_dict(
        workload={"rank_sizes": {"P": 66, "R": 3, "Q": 64, "S": 3}, "bits_per_value": {"All": 64}, "einsums": einsums}
    )
    mesh = Mesh((("x", 4),))
    best = best_plan(Planning(spec.workload, PlanRequest(mesh, flat_cluster(mesh, 1e9, 0.0, 1e9)))).chosen
    assert best.proven
    # the input is put with its halo; of the intermediate, two values go to each neighbour
    assert sent(best.plan) == [("halo", "T", 3 * 2)]
    assert plan_of(loads(dump(spec) + "\n" + distribution_text(best))) == best.plan


@pytest.mark.parametrize(
    ("tensor", "value", "message"),
    [
        ("I", {"H": {"axes": "x", "halo": -1}}, "halo must be a whole number from 0 to 17, found -1"),
        ("I", {"H": {"axes": "x", "halo": 18}}, "halo must be a whole number from 0 to 17, found 18"),
        ("I", {"H": {"axes": "x", "hallo": 1}}, "did you mean 'halo'"),
        ("I", {"H": {"axes": "x", "block": 3, "halo": 2}}, "block must be a whole number from 4 to"),
        ("O", {"P": {"axes": "x", "halo": 1}}, "no Einsum reads 'O': it has no halo"),
    ],
)
def test_halos_that_cannot_be_are_told(tensor, value, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        distribute_workload(conv(), {"x": 4}, {tensor: value})
