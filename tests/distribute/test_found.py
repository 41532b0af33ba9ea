"""What the planner finds at realistic sizes without being told, and plans that once were many times dearer."""

import random

import pytest
from tests.distribute.drawn_plans import draw_workload

from einmap import distribute_workload, load
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement, flat_cluster
from einmap.distribute.costs.cost import plan_cost
from einmap.distribute.costs.cost_model import ClusterCost, traffic_first
from einmap.distribute.derive import context_of
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.request import checked_request
from einmap.distribute.planner.patterns import patterns
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.plans.plan import Move
from einmap.distribute.search.search import cheapest
from einmap.distribute.search.space import Options, search_space

EIGHT = (("x", 8),)
LLAMA_70B = {"D_MODEL": 8192, "HEADS": 64, "KV_HEADS": 8, "D_HEAD": 128, "D_FF": 28672}


def planned(name, sizes, mesh=EIGHT, memory=None):
    """The best plan on A100s with the rates of Calculon's stock file, in fp16, nothing placed."""
    pe = ProcessingElement(((16, 312e12),), memory=80 * 2**30, memory_bandwidth=2048e9)
    links = tuple((axis, Link(0.65 * 300e9, 10e-6, "switch")) for axis, _ in mesh)
    request = PlanRequest(Mesh(mesh), Cluster(pe, links), memory=memory)
    best = plan_workload(load(name, define={"BITS": 16, **sizes}).workload, request).best
    assert best.proven
    return best


def kinds(chosen):
    return [step.kind for step in chosen.plan.steps if isinstance(step, Move) and step.kind != "slice"]


def test_few_tokens_are_worked_on_in_columns_then_rows_of_the_weights():
    best = planned("feed_forward", {"N_TOKENS": 32, "D_MODEL": 8192, "D_FF": 28672})
    assert patterns(best) == ("x: column then row tensor parallel, columns in U, rows in Z",)
    assert kinds(best) == ["reduce_scatter"]


def test_of_plans_at_the_same_cost_weights_are_kept_in_the_blocks_that_are_read():
    best = planned("feed_forward", {"N_TOKENS": 256, "D_MODEL": 8192, "D_FF": 28672})
    assert {name: str(place) for name, (place,) in best.homes.items() if name[0] == "W"} == {"W1": "S: x", "W2": "S: x"}
    tight = planned("feed_forward", {"N_TOKENS": 256, "D_MODEL": 8192, "D_FF": 28672}, memory=best.peak.bytes)
    assert (tight.cost, tight.homes) == (best.cost, best.homes)


def test_many_tokens_are_split_themselves():
    best = planned("feed_forward", {"N_TOKENS": 4096, "D_MODEL": 8192, "D_FF": 28672})
    assert patterns(best) == ("x: data parallel, m in U, Z",)
    assert kinds(best) == []


def test_attention_of_one_sequence_is_split_by_heads():
    best = planned("attention", {"N_TOKENS": 2048, "D_IN": 4096, "D_MODEL": 4096, "HEADS": 32, "D_HEAD": 128})
    of_heads = ("K", "Q", "V", "QK", "GM", "SN", "SD", "A", "AV")
    assert {name: best.loops[name] for name in of_heads} == {name: {"h": ("x",)} for name in of_heads}


def test_attention_of_a_large_batch_is_split_by_it():
    sizes = {"BATCH": 8, "N_TOKENS": 2048, "D_IN": 4096, "D_MODEL": 4096, "HEADS": 32, "D_HEAD": 128}
    best = planned("attention", sizes)
    assert all(loops == {"b": ("x",)} for loops in best.loops.values())
    assert kinds(best) == []


def test_a_long_product_that_fits_nowhere_whole_is_reduce_scattered():
    # 8 MiB for each operand, of which a PE can hold a part only, and any other part is needed elsewhere
    best = planned("matmul", {"M": 64, "K": 65536, "N": 64}, memory=4 * 2**20)
    assert best.loops == {"Z": {"k": ("x",)}}
    assert kinds(best) == ["reduce_scatter"]


def test_short_memory_splits_a_layer_by_heads_and_its_norms_by_tokens():
    best = planned("llama3_8b", {"N_TOKENS": 2048, **LLAMA_70B}, memory=0.35 * 2**30)
    assert all(best.loops[name] == {"m": ("x",)} for name in ("XS", "XN", "Y", "YS", "YN", "O"))
    assert all(best.loops[name] == {"h": ("x",)} for name in ("K", "V", "Q", "QK", "AV", "Z"))
    assert all(best.loops[name] == {"s": ("x",)} for name in ("FFG", "FFU", "FFA", "FFD"))
    assert kinds(best) == ["all_gather", "reduce_scatter", "all_gather", "reduce_scatter"]


# plans that once were many times dearer


def test_a_layer_of_70_billion_on_512_by_8_sends_what_its_placements_ask_for():
    """Weights over both axes, the batch over d and tokens over t, as fully sharded weights in tensor parallel lie.

    Each PE gathers its eighth of 855.6 million weights, 427 MB in float32, and four times 7/8 of 4096 x 8192 values
    of one sequence, 470 MB.
    """
    workload = load("llama3_8b", define={"BATCH": 512, "N_TOKENS": 4096, **LLAMA_70B}).workload
    columns = {weight: {"D": "d", "H": "t"} for weight in ("WQ", "WK", "WV", "WZ")}
    columns |= {weight: {"D": "d", "S": "t"} for weight in ("WFFG", "WFFU", "WFFD")}
    tokens = {"B": "d", "M": "t"}
    plan = distribute_workload(workload, {"d": 512, "t": 8}, {**columns, "X": tokens, "O": tokens}, dtype="float32")
    weights = 8192 * (2 * 8192 + 2 * 1024 + 3 * 28672) * 4 / 8 * 511 / 512
    activations = 4 * 4096 * 8192 * 4 * 7 / 8
    assert plan_cost(plan).sent_bytes == weights + activations
    assert plan_cost(plan).sent_bytes <= 897e6


def test_two_axes_of_two_send_no_more_than_one_of_four():
    workload = load("llama3_8b", define={"N_TOKENS": 2048, **LLAMA_70B}).workload

    def sent(mesh, axes):
        columns = {weight: {"H": axes} for weight in ("WQ", "WK", "WV", "WZ")}
        columns |= {weight: {"S": axes} for weight in ("WFFG", "WFFU", "WFFD")}
        return plan_cost(distribute_workload(workload, mesh, {**columns, "X": {"M": axes}}, dtype="float32")).sent_bytes

    assert sent({"x": 2, "y": 2}, ["x", "y"]) <= sent({"x": 4}, ["x"])


def test_an_operand_that_is_split_by_the_reduced_rank_does_not_make_every_PE_compute_the_whole():
    workload = load("matmul", define={"M": 1024, "K": 1024, "N": 1024}).workload
    plan = distribute_workload(workload, {"x": 8}, {"B": {"K": "x"}})
    assert plan_cost(plan).points == 1024**3 // 8


@pytest.mark.parametrize("placed", ["A: M", "A: K", "B: K", "B: N", "Z: M", "Z: N"])
def test_loops_that_are_asked_for_give_no_plan_cheaper_than_the_one_without(placed):
    workload = load("matmul", define={"M": 64, "K": 512, "N": 16}).workload
    tensor, rank = placed.split(": ")
    model = traffic_first(Mesh(EIGHT))

    def seconds(loops):
        plan = distribute_workload(workload, {"x": 8}, {tensor: {rank: "x"}}, loops=loops, cost=model)
        return plan_cost(plan, model.cluster).latency

    assert min(seconds({"Z": {variable: "x"}}) for variable in "mkn") == pytest.approx(seconds({}), rel=1e-6)


# permuting and splitting axes


@pytest.mark.parametrize("seed", range(10))
def test_exchanging_or_splitting_axes_makes_no_plan_dearer(seed):
    rng = random.Random(seed)
    workload = draw_workload(rng)

    def least(*shape):
        # each axis in powers of 2, so that blocks of the split mesh are those of the whole
        mesh = Mesh(tuple(zip("xyz", shape, strict=False)))
        context = context_of(workload, mesh)
        model = ClusterCost(flat_cluster(mesh, 1e9, 0.0, 1e10))
        bits = dict.fromkeys(workload.tensors, 64.0)
        return cheapest(search_space(context, checked_request(context), model, bits, Options(True))).cost

    # each further move counts as a millionth of a microsecond, and a split axis may need some more
    slack = 1e-12 * 20
    assert least(2, 4) == pytest.approx(least(4, 2), abs=slack)
    assert least(2, 2) <= least(4) + slack
    assert least(2, 4) <= least(8) + slack
    assert least(4, 2) <= least(8) + slack
