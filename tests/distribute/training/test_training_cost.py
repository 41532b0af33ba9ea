"""Costs of training steps beside formulas: of rings, of tensor parallel transformers, of ZeRO, of pipelines."""

from dataclasses import replace

import pytest
from tests.distribute.training.models import experts, perceptron, transformer, workload

from einmap.distribute.costs.cluster import Cluster, Kernel, Link, ProcessingElement
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.training.machine import fills, machine_for, machine_of
from einmap.distribute.training.model import Layer, Ranks, TrainingModel
from einmap.distribute.training.plan import TrainingPlan
from einmap.distribute.training.step import TrainingCosts, training_cost
from einmap.errors import SpecError

PE = ProcessingElement(peak=((16, 1e12),), memory_bandwidth=1e11)
RING = Cluster(PE, (("x", Link(1e9)),))


def collectives(model, plan, cluster=RING):
    cost = TrainingCosts(model, cluster).layer(model.layers[0], plan)
    return [(one.phase, one.kind, one.sent, one.seconds) for one in cost.collectives if one.seconds]


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_collectives_of_a_ring_send_all_but_one_part_and_an_all_reduce_twice_that(devices):
    """V / W (G - 1) / G for V bytes over links of W bytes/s among G devices."""
    machine, ring = machine_of(RING, (1, 1, 1, devices, 1)), 4096 / 1e9 * (devices - 1) / devices
    assert machine.seconds("all_gather", ("dp",), 4096) == pytest.approx(ring)
    assert machine.seconds("reduce_scatter", ("dp",), 4096) == pytest.approx(ring)
    assert machine.seconds("all_reduce", ("dp",), 4096) == pytest.approx(2 * ring)


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_a_tensor_parallel_layer_has_four_all_reduces_of_samples_positions_and_features(devices):
    plan = TrainingPlan(tp=devices, micro_batch=2, sequence_parallel=False)
    volume = 2 * 64 * 64 * 2
    ring = 2 * volume * (devices - 1) / devices
    found = collectives(transformer(), plan)
    assert [(phase, kind) for phase, kind, *_ in found] == [
        ("forward", "all_reduce"),
        ("forward", "all_reduce"),
        ("input", "all_reduce"),
        ("input", "all_reduce"),
    ]
    assert {sent for _, _, sent, _ in found} == {ring}
    assert all(seconds == pytest.approx(ring / 1e9) for *_, seconds in found)


def test_a_sequence_parallel_layer_has_halves_of_them_and_gathers_again_for_gradients_of_weights():
    found = collectives(transformer(), TrainingPlan(tp=4, micro_batch=2))
    half = 2 * 64 * 64 * 2 * 3 / 4
    assert {sent for _, _, sent, _ in found} == {half}
    kinds = [(phase, kind) for phase, kind, *_ in found if phase != "weight"]
    for phase in ("forward", "input"):
        assert sorted(kind for one, kind in kinds if one == phase) == ["all_gather"] * 2 + ["reduce_scatter"] * 2
    assert [kind for phase, kind, *_ in found if phase == "weight"] == ["all_gather"] * 2


@pytest.mark.parametrize(
    ("zero", "each", "sent"), [(0, 16.0, 4), (1, 4 + 12 / 8, 4), (2, 2 + 14 / 8, 4), (3, 16 / 8, 6)]
)
def test_zero_holds_and_sends_so_many_bytes_for_each_weight(zero, each, sent):
    model = transformer(batch=8)
    step = training_cost(model, RING, TrainingPlan(dp=8, zero=zero))
    weights = 4 * (4 * 64 * 64 + 2 * 64 * 256)
    held = step.peak
    assert held.weights + held.gradients + held.state == pytest.approx(each * weights)
    assert step.sent_bytes == pytest.approx(sent * 7 / 8 * weights)


def test_a_step_takes_what_its_parts_take():
    model = transformer(layers=8, batch=16)
    plan = TrainingPlan(dp=2, tp=2, pp=2, zero=1, recompute="full", overlap=())
    step = training_cost(model, RING, plan)
    assert step.seconds == pytest.approx(sum(part.seconds for part in step.parts))
    assert {part.what for part in step.parts} >= {"computing", "computing again", "bubble", "update"}


def test_a_pipeline_without_transfers_has_the_bubble_of_its_formula():
    model = perceptron([64] * 5, batch=8)
    link = Link(1e30)
    step = training_cost(model, Cluster(PE, (("x", link),)), TrainingPlan(pp=4))
    alone = training_cost(model, Cluster(PE, (("x", link),)), TrainingPlan())
    each = next(part.seconds for part in alone.parts if part.what == "computing") / 8 / 4
    assert step.timeline.makespan == pytest.approx((8 + 3) * each)


def test_what_is_computed_again_is_not_held():
    model = transformer(batch=4)
    held = {
        kind: training_cost(model, RING, TrainingPlan(recompute=kind)).peak.activations
        for kind in ("none", "selective", "full")
    }
    # QK is read by its own derivative and by that of AV
    assert held["none"] - held["selective"] == 3 * 64 * 64 * 8 * 2
    assert held["full"] == 3 * 64 * 64 * 2 + held["none"] / 4


def test_tensor_parallel_devices_each_send_a_part_to_the_next_stage_over_slow_links():
    """A quarter of the activations, which then are gathered over fast links."""
    size, micro_batches = 2 * 64 * 64 * 2, 4
    plan = TrainingPlan(tp=4, pp=2, micro_batch=2, sequence_parallel=False)
    step, faster = (
        training_cost(transformer(), Cluster(PE, (("x", Link(1e9, size=4)), ("y", Link(slow)))), plan)
        for slow in (5e7, 1e8)
    )
    shift = next(part for part in step.parts if part.what == "pipeline shift")
    assert shift.sent == size / 4 * micro_batches
    # of the first micro-batch to the last stage, and of the last one back
    waited = step.timeline.makespan - faster.timeline.makespan
    assert waited >= 2 * size / 4 / 1e8 * (1 - 1e-9)
    assert waited < 2 * micro_batches * size / 4 / 1e8


def test_the_last_layer_is_not_computed_again_as_its_backward_pass_follows_at_once():
    again = {}
    for layers in (1, 2, 4):
        step = training_cost(transformer(layers), RING, TrainingPlan(recompute="full"))
        again[layers] = sum(part.seconds for part in step.parts if part.what == "computing again")
    assert again[1] == 0
    assert again[4] == pytest.approx(3 * again[2])


def test_a_loss_is_spread_over_classes_so_that_no_device_has_all_of_them():
    head = ["L[b, m, c] = X[b, m, d] * W[d, c]", "R[b, m] = exp(L[b, m, c])"]
    layer = Layer("head", workload(head, B=1, M=64, D=64, C=4096), Ranks())
    found = collectives(TrainingModel((layer,), 8), TrainingPlan(tp=4, micro_batch=2))
    assert max(sent for _, _, sent, _ in found) <= 2 * 64 * 64 * 2


def test_narrow_products_run_at_their_peak_and_cost_a_cast_of_what_is_no_weight():
    """64 samples, 2,048 features in and out: three products, casts of inputs before the first and of gradients before
    the second; gradients of weights read what has been cast before.
    """
    einsums = ["Z[b, f] = X[b, d] * W[d, f]"]
    wide = Layer("product", workload(einsums, B=1, D=2048, F=2048), Ranks("B", None))
    pe = ProcessingElement(peak=((8, 2e12), (16, 1e12)), memory_bandwidth=1e13)
    cluster = Cluster(pe, (("x", Link(1e9)),))
    plan = TrainingPlan(micro_batch=64)
    product, cast = 2 * 64 * 2048 * 2048, 64 * 2048 * (2 + 2 * 1) / 1e13
    for layer, seconds in ((wide, 3 * product / 1e12), (replace(wide, product_bits=8), 3 * product / 2e12 + 2 * cast)):
        compute = TrainingCosts(TrainingModel((layer,), 64), cluster).layer(layer, plan).compute
        assert sum(compute.values()) == pytest.approx(seconds)


def test_values_for_experts_are_sent_to_them_where_that_is_less_than_gathering_all_samples():
    """Each position goes to one of 8 experts on 4 devices: 3/4 of the activations are sent, each way in each pass."""
    einsums = [
        "N[b, m, d] = gelu(X[b, m, d])",
        "XE[b, c, x, d] = N[b, M: 8*c + x, d]",
        "U[b, c, x, s] = XE[b, c, x, d] * WU[x, d, s]",
        "F[b, c, x, d] = U[b, c, x, s] * WF[x, s, d]",
        "O[b, M: 8*c + x, d] = F[b, c, x, d]",
    ]
    experts = Layer("experts", workload(einsums, B=1, M=64, C=8, X=8, D=64, S=64), Ranks("B", "M", "X"))
    found = collectives(TrainingModel((experts,), 4), TrainingPlan(ep=4))
    assert [(phase, kind) for phase, kind, *_ in found] == [("forward", "all_to_all")] * 2 + [
        ("input", "all_to_all")
    ] * 2
    assert {sent for _, _, sent, _ in found} == {64 * 64 * 2 * 3 / 4}


def test_operations_of_a_step_do_not_depend_on_the_micro_batch():
    model = perceptron([64, 32], batch=8)
    steps = [training_cost(model, RING, TrainingPlan(micro_batch=size)) for size in (1, 4)]
    assert [step.operations for step in steps] == [3 * 8 * 64 * 32 * 2] * 2


def test_a_model_of_too_many_layers_is_refused():
    with pytest.raises(SpecError, match="10,001 layers; expected at most 10,000"):
        TrainingModel((replace(transformer().layers[0], count=10_001),), 8)


@pytest.mark.parametrize(
    ("rooms", "sizes", "fit"),
    [
        ((8, 2), (8, 4, 4), True),
        ((8, 2), (4, 8, 4), True),
        ((8, 2), (6, 6, 2, 2), True),
        ((8, 2), (6, 5, 5), False),
        ((8, 2), (12, 4), False),
        ((8, 3), (16, 8), True),
        ((3,), (2, 1), True),
        ((2, 2, 2), (4, 2, 1, 1), True),
    ],
)
def test_sub_meshes_are_parts_of_the_nearest_devices_or_whole_groups_of_them(rooms, sizes, fit):
    assert fills(rooms, sizes) == fit


def test_stages_on_sub_meshes_share_the_network_card_of_their_node_with_the_others_there():
    """Four devices of a node share 8e9 bytes/s, though the stage has but two of them."""
    links = (("x", Link(1e11)), ("y", Link(8e9, shared_by=("x",))))
    cluster, plan = Cluster(PE, links), TrainingPlan(pp=3, meshes=((2, 1), (2, 1), (4, 1)), micro_batch=2)
    machine = machine_for(cluster, plan, Mesh((("x", 4), ("y", 2))))
    assert dict(machine.cluster.links)["pp_y"].bandwidth == 2e9
    assert machine.mesh.size("dp_x") == 2


def test_each_boundary_of_a_pipeline_moves_its_own_bytes():
    """H1 has 8 samples of 32 values of 2 bytes, H2 twice that; sub-meshes of 2 devices get half of it each, and the
    device behind them all of it.
    """
    model = perceptron([64, 32, 64, 16], batch=8)
    step = training_cost(model, RING, TrainingPlan(pp=3, micro_batch=8))
    assert step.costs.transfers == pytest.approx((8 * 32 * 2 / 1e9, 8 * 64 * 2 / 1e9))
    plan = TrainingPlan(pp=3, micro_batch=8, meshes=((1, 1), (2, 1), (1, 1)))
    assert training_cost(model, RING, plan).costs.transfers == pytest.approx(step.costs.transfers)
    sent = [parts["pipeline shift"] for parts in TrainingCosts(model, RING).sent(plan)]
    assert sent == [8 * 32 * 2, (8 * 32 * 2 + 8 * 64 * 2) / 2, 8 * 64 * 2]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pp": 2, "meshes": ((2, 1), (1, 1), (1, 1))}, "meshes are 3, stages 2 x 1"),
        ({"pp": 2, "meshes": ((2, 1), (1, 1)), "dp": 4}, "dp 4 and tp 1, but the first sub-mesh has 2 x 1"),
        ({"pp": 2, "meshes": ((2, 0), (1, 1))}, "meshes is"),
    ],
)
def test_sub_meshes_that_are_not_those_of_the_stages_are_refused(fields, said):
    with pytest.raises(SpecError, match=said):
        TrainingPlan(**fields)


def test_samples_that_the_groups_of_a_sub_mesh_do_not_divide_are_refused_with_the_stage():
    plan = TrainingPlan(pp=2, meshes=((1, 1), (2, 1)), micro_batch=1)
    with pytest.raises(SpecError, match="micro-batches of 1 sample are not divided by dp 2 of stage 1"):
        training_cost(perceptron([64, 32, 64], batch=8), RING, plan)


def test_an_update_takes_as_long_as_large_kernels_on_32_bits_need_to_move_it():
    wide = (16, Kernel(memory_efficiency=((1.0, 0.25),))), (32, Kernel(memory_efficiency=((1.0, 0.5), (1e3, 0.8))))
    model, slow = perceptron([64, 64]), Cluster(replace(PE, kernels=wide), RING.links)
    steps = [training_cost(model, cluster, TrainingPlan()) for cluster in (RING, slow)]
    whole, part = (next(one.seconds for one in step.parts if one.what == "update") for step in steps)
    # weights, master copies and both moments are written, all but weights are read, gradients beside them
    assert whole == pytest.approx(64 * 64 * (2 + 3 * 4 + 3 * 4 + 2) / 1e11)
    assert part == pytest.approx(whole / 0.8)


def test_a_host_starts_a_kernel_for_each_expert_of_a_device():
    model, host = experts(dense=0, layers=1, n=4), Cluster(replace(PE, dispatch=1e-3), RING.links)
    for ep in (1, 2, 4):
        cost = TrainingCosts(model, host).layer(model.layers[0], TrainingPlan(ep=ep))
        products, others = 2, 3
        assert cost.compute["forward"] == pytest.approx((products * 4 / ep + others) * 1e-3)


@pytest.mark.parametrize(
    ("meshes", "ahead", "back"),
    [
        # with the sequence in parts each device gets, or sends, its part of all samples, or all of its part of these
        (((2, 1), (1, 2)), 1 / 2, 1 / 2),
        (((1, 2), (2, 1)), 1 / 2, 1 / 2),
        (((4, 1), (1, 2)), 1 / 4, 1 / 2),
        (((1, 4), (2, 1)), 1 / 4, 1 / 2),
    ],
)
def test_what_passes_between_other_sub_meshes_is_sent_once_and_not_gathered_before(meshes, ahead, back):
    model = transformer(layers=2, batch=8)
    plan = TrainingPlan(pp=2, meshes=meshes, micro_batch=8 // meshes[0][0])
    result = 8 * 64 * 64 * 2
    devices = Mesh((("x", sum(dp * tp for dp, tp in meshes)),))
    costs = TrainingCosts(model, RING, devices)
    found = [sent["pipeline shift"] for sent in costs.sent(plan)]
    assert found == pytest.approx([result * ahead, result * back])
