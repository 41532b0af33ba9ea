"""Plans that are chosen for the shipped workloads: written, read again and run they compute what the whole workload
does, and send what the planner said and no byte else.
"""

import pytest
from tests.distribute.checking import check_run

from einmap import load, loads
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.costs.cost import communication
from einmap.distribute.costs.cost_model import PLAN_METRICS
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.best import best_plan
from einmap.distribute.planner.document import distribution_text
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.read import plan_of
from einmap.einsum.numeric import rank_sizes
from einmap.errors import NotSupportedError
from einmap.frontends.yaml.spec import dump, example_paths

TINY = {"N_TOKENS": 6, "D_IN": 8, "D_MODEL": 8, "HEADS": 4, "KV_HEADS": 2, "D_HEAD": 2, "D_FF": 12, "N_CACHED": 5}
TINY |= {"M": 10, "K": 12, "N": 9, "I": 13, "NI": 6, "NA": 8, "NB": 10, "C": 4, "P": 6, "Q": 6, "R": 3, "S": 3}
TINY |= {"IMAGE": 32, "SHRINK": 32, "BITS": 32}
EVEN = {"N_TOKENS": 8, "HEADS": 8, "KV_HEADS": 4, "D_HEAD": 4, "D_FF": 16}
"""Of the layers with most ranks, which have many blocks to lie in where sizes do not divide."""
LAYERS = {"mobilenet_v1": "dw7", "resnet50": "conv3_1a", "vgg16": "fc6"}
"""Of networks whose layers do not depend on one another one each: depthwise, with a stride, of a whole image."""
SHIPPED = sorted(name for name, path in example_paths().items() if path.parent.name == "workloads")
SAME = {"resnet50_layer": "resnet50", "gpt3_6.7b": "gpt3_175b", "gpt3_6.7b_decode": "gpt3_175b_decode"}
"""Those that have the Einsums of another one."""
REFUSED = {"lstm": "recurrences", "mixture_of_experts_top_k": "looks up rows"}
"""Those that distribution refuses by name, and what it says."""
SMALL = [name for name in SHIPPED if name not in SAME.keys() | REFUSED.keys()]
LONG = {"llama3_8b_decode"}
"""Whose integer programs take longer than those of all others together; grouped heads and a step are in others too."""

ONE, TWO, EIGHT = (("x", 4),), (("x", 2), ("y", 2)), (("x", 8),)
QUICK = [(ONE, "time", False), (TWO, "time", False), (EIGHT, "memory", False), (ONE, "bytes", True)]
"""Mesh, metric, and whether graph inputs lie in parts: where they may lie anywhere, few bytes are sent by none."""
SECONDS = 5.0
"""For an integer program: the least memory on two axes takes up to a minute to prove, and what is there by then runs."""


def small(name):
    """A shipped workload of a few thousand points."""
    text = example_paths()[name].read_text()
    tiny = {**TINY, **EVEN} if name.startswith("llama") else TINY
    sizes = {key: value for key, value in tiny.items() if key in text.split("workload:")[0]}
    if name in LAYERS:
        sizes["LAYER"] = LAYERS[name]
    return load(name, define=sizes)


def cluster(mesh):
    pe = ProcessingElement(((32, 1e9),), energy_per_operation=1e-12, energy_per_bit=1e-13)
    return Cluster(pe, tuple((axis, Link(1e9, 1e-8, energy_per_bit=1e-11)) for axis, _ in mesh))


def in_parts(workload, mesh):
    """Each graph input cut along its first rank that has a coordinate for each PE of the first axis."""
    (axis, parts), *_ = mesh
    found = {}
    for tensor, ranks in rank_sizes(workload).items():
        long = [rank for rank, size in ranks.items() if size >= parts]
        if tensor not in workload.producers and long:
            found[tensor] = {long[0]: axis}
    return found


def chosen(name, mesh, metric, parted=False, memory=None):
    """A specification with the plan that was written for it, read again, and the plan as it was chosen."""
    spec = small(name)
    placements = in_parts(spec.workload, mesh) if parted else None
    request = PlanRequest(Mesh(mesh), cluster(mesh), metric, memory, placements, time_limit=SECONDS)
    best = best_plan(Planning(spec.workload, request)).chosen
    return plan_of(loads(dump(spec) + "\n" + distribution_text(best))), best


def check_sent(plan, best):
    """The report of a run says what the planner said; a plan in float32 has values of the 32 bits that were planned."""
    assert plan == best.plan
    assert sum(row.total_sent_bytes for row in communication(plan)) == pytest.approx(best.sent_bytes, rel=1e-12)


def by_turns():
    """Each workload with two of QUICK, and marked slow with the others; those of LONG with all of them in the slow ones."""
    slow = [pytest.mark.slow, pytest.mark.distribute]
    for position, name in enumerate(SMALL):
        few = [] if name in LONG else [QUICK[0], QUICK[1 + position % 3]]
        if few:
            yield pytest.param(name, few, id=name)
        yield pytest.param(name, [case for case in QUICK if case not in few], marks=slow, id=f"{name}-others")


@pytest.mark.parametrize(("name", "cases"), list(by_turns()))
def test_a_plan_that_was_written_computes_what_the_whole_does(name, cases):
    for case in cases:
        plan, best = chosen(name, *case)
        check_sent(plan, best)
        inputs = sample_inputs(plan.workload, 0, plan.dtype)
        checks = check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs, plan.dtype)
        assert checks
        assert all(check.agrees for check in checks), (case, checks)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_distributed_is_refused_by_name(name):
    with pytest.raises(NotSupportedError, match=REFUSED[name]):
        chosen(name, *QUICK[0])


@pytest.mark.parametrize("name", ["attention", "feed_forward", "llama3_8b", "matmul_chain"])
def test_what_a_chosen_plan_sends_is_what_is_lowered(engine, name):
    plan, best = chosen(name, ONE, "time")
    check_run(engine, plan)
    check_run(engine, chosen(name, ONE, "time", memory=0.9 * best.peak.bytes)[0])
    check_run(engine, chosen(name, TWO, "time")[0])


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("parted", [False, True], ids=["anywhere", "in parts"])
@pytest.mark.parametrize("metric", PLAN_METRICS)
@pytest.mark.parametrize("mesh", [ONE, TWO, EIGHT], ids=["4", "2x2", "8"])
@pytest.mark.parametrize("name", SMALL)
def test_all_that_is_chosen_is_lowered_as_it_was_planned(engine, name, mesh, metric, parted):
    plan, best = chosen(name, mesh, metric, parted)
    check_sent(plan, best)
    check_run(engine, plan)
