"""Iteration spaces that linear inequalities cut, such as causal attention: results, points of the busiest PE, refusals."""

import itertools
import random

import numpy as np
import pytest
from tests.amounts import some
from tests.distribute.drawn_plans import AXES, draw_loops, draw_placements

from einmap import Spec, SpecError, load
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement, flat_cluster
from einmap.distribute.costs.cost import plan_cost
from einmap.distribute.costs.cost_model import ClusterCost
from einmap.distribute.derive import distribute_workload
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.request import Turns
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.plans.plan import Local, LocalLoop
from einmap.distribute.plans.points import points_of
from einmap.distribute.rewrites.turns import in_turns
from einmap.distribute.steps.notation import lines
from einmap.einsum.spaces.space import inside_of, parse_constraint
from einmap.errors import NotSupportedError

CASCADES = (
    [("Z[m] = A[m, p] * B[p]", "sum", ["m <= p"])],
    [("Z[m] = A[m, p]", "max", ["m < p"])],
    [("Z[m] = A[p] * B[m]", "min", ["p <= m", "m < p + 4"])],
    [("Z[m, p] = A[m, k] * B[p, k]", "sum", ["p <= m"])],
    [("Z[m, p] = A[m] + B[p]", "sum", ["2*p < 3*m + 1"])],
    [("Z[m] = A[p]", "sum", ["p + m < 6", "m <= 2*p"])],
    [("S[p, m] = Q[p, e] * K[m, e]", "sum", ["m <= p"]), ("Z[p, n] = S[p, m] * C[m, n]", "sum", ["m <= p"])],
    [
        ("S[p, m] = Q[p, e] * K[m, e]", "sum", ["m <= p"]),
        ("G[p] = S[p, m]", "max", ["m <= p"]),
        ("N[p, m] = exp(S[p, m] - G[p])", "sum", ["m <= p"]),
        ("D[p] = N[p, m]", "sum", ["m <= p"]),
        ("U[p, f] = N[p, m] * V[m, f]", "sum", ["m <= p"]),
        ("Z[p, f] = U[p, f] / D[p]", "sum", []),
    ],
    [("T[m, p] = A[m, k] * B[k, p]", "sum", []), ("Z[m, p] = T[m, p]", "copy", ["p < m + 2"])],
    [("Z[m] = A[m, k] * B[p, k]", "sum", ["m + k <= p + 3"])],
    [("Z[n] = A[m, p] * B[n]", "sum", ["m < p"])],
    [("Z[m, n] = A[m, p] * B[n, q]", "sum", ["m <= p", "n < q + 3"])],
)
MESHES = ((2,), (3,), (4,), (2, 2), (2, 4), (1, 4), (2, 2, 2))


def draw_cut(seed):
    """A workload with inequalities, a mesh, and its plan."""
    rng = random.Random(seed)
    cascade = CASCADES[seed % len(CASCADES)]
    sizes = {rank: rng.randint(2, 9) for rank in "EFKMNPQV"}
    written = " ".join(text for text, _, _ in cascade)
    sizes = {rank: size for rank, size in sizes.items() if rank.lower() in written}
    einsums = [
        {
            "einsum": text,
            "iteration_space_shape": cuts,
            **({"is_copy_operation": True} if kind == "copy" else {"reduction": kind}),
        }
        for text, kind, cuts in cascade
    ]
    while True:
        given = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}
        try:
            workload = Spec.from_dict(workload=given).workload
            break
        except SpecError:  # an inequality may bound a rank variable more than in another Einsum
            sizes = dict.fromkeys(sizes, 5)
    # with three axes long cascades have many plans
    mesh = Mesh(tuple(zip(AXES, rng.choice(MESHES if len(cascade) < 3 else MESHES[:-1]), strict=False)))
    placements = draw_placements(rng, workload, mesh)
    loops = draw_loops(rng, workload, mesh) if rng.random() < 0.5 else {}
    try:
        return distribute_workload(workload, mesh, placements, loops=loops)
    except SpecError:
        return distribute_workload(workload, mesh, placements)


def counted(plan, step, device):
    """The points of one PE, one by one."""
    einsum = plan.workload.find(step.einsum)
    first = dict(einsum.first_values)
    grid = []
    for loop in step.loops:
        begin = plan.mesh.position(device, loop.axes) * loop.block if loop.axes else 0
        low = first.get(loop.variable, 0)
        grid.append([low + v for v in range(begin, min(begin + loop.block, loop.extent))])
    cuts = [parse_constraint(text) for text in einsum.cuts]
    names = [loop.variable for loop in step.loops]
    return sum(bool(inside_of(cuts, dict(zip(names, point, strict=True)))) for point in itertools.product(*grid))


@pytest.mark.parametrize("seed", some(3, range(60), "distribute"))
def test_drawn_plans_give_the_whole_result(seed):
    plan = draw_cut(seed)
    inputs = sample_inputs(plan.workload, seed)
    checks = check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs)
    assert [check for check in checks if not check.agrees] == []
    for step in plan.steps:
        einsum = plan.workload.find(step.einsum) if isinstance(step, Local) else None
        linked = {v for cut in einsum.cuts for v in parse_constraint(cut).names} if einsum else set()
        if linked == {*einsum.rank_variables} if einsum else False:
            each = [counted(plan, step, device) for device in range(plan.mesh.n_devices)]
            points = points_of(einsum, step.loops, plan.mesh)
            assert (points.busiest, points.mean) == (max(each), pytest.approx(np.mean(each)))


def causal(**sizes):
    return load("attention_causal", define={"BATCH": 1, "HEADS": 2, "N_TOKENS": 8, "D_HEAD": 2} | sizes).workload


def test_causal_attention_is_that_of_numpy():
    workload = causal()
    plan = distribute_workload(workload, {"x": 4}, {"Q": {"M": "x"}, "AV": {"M": "x"}})
    inputs = sample_inputs(workload, 3)
    q, k, v = (inputs[name] for name in "QKV")
    scores = np.einsum("bhme,bhpe->bhmp", q, k) / np.sqrt(2)
    scores[..., np.triu(np.ones((8, 8), dtype=bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = np.einsum("bhmp,bhpf->bhmf", weights / weights.sum(axis=-1, keepdims=True), v)
    assert LocalEngine().run(plan, inputs).outputs["AV"] == pytest.approx(expected)


def test_the_last_block_of_queries_has_nearly_twice_the_points_of_the_mean():
    einsum = causal(N_TOKENS=4096, HEADS=1, D_HEAD=1).find("GM")
    loops = tuple(LocalLoop(v, ("x",) if v == "m" else (), n, n // 8 if v == "m" else n) for v, n in einsum.bounds)
    points = points_of(einsum, loops, Mesh((("x", 8),)))
    # 512 rows of 3,585 to 4,096 keys, of 4096 * 4097 / 2 in all
    assert points.busiest == 512 * (3585 + 4096) // 2
    assert points.mean == 4096 * 4097 / 2 / 8
    assert points.busiest / points.mean == pytest.approx(1.875, rel=1e-3)


def test_blocks_of_keys_and_queries_leave_one_pe_a_whole_block_and_another_none():
    einsum = causal(N_TOKENS=8, HEADS=1, D_HEAD=1).find("GM")
    axes = {"m": ("x",), "p": ("y",)}
    loops = tuple(LocalLoop(v, axes.get(v, ()), n, n // 2 if v in axes else n) for v, n in einsum.bounds)
    points = points_of(einsum, loops, Mesh((("x", 2), ("y", 2))))
    assert (points.busiest, points.mean) == (16, 36 / 4)


def test_the_cheapest_plan_avoids_the_imbalance():
    workload = causal(N_TOKENS=64, HEADS=4)
    by_heads = distribute_workload(workload, {"x": 4}, {name: {"H": "x"} for name in ("Q", "K", "V", "AV")})
    by_rows = distribute_workload(workload, {"x": 4}, {"Q": {"M": "x"}, "AV": {"M": "x"}}, loops={"QK": {"m": "x"}})
    assert plan_cost(by_heads).points == plan_cost(by_heads).mean_points
    assert plan_cost(by_rows).points > 1.7 * plan_cost(by_heads).points
    assert plan_cost(by_rows).computation_seconds > 1.7 * plan_cost(by_heads).computation_seconds
    request = PlanRequest(Mesh((("x", 4),)), flat_cluster(Mesh((("x", 4),)), 100e9, 1e-6, 100e12))
    best = plan_workload(workload, request).best
    assert best.loops["QK"] == {"h": ("x",)}


def test_energy_is_that_of_all_points_not_of_the_busiest_pe_times_all():
    mesh = Mesh((("x", 4),))
    pe = ProcessingElement(((64, 1e12),), energy_per_operation=1.0)
    model = ClusterCost(Cluster(pe, (("x", Link(1e9)),)), "energy")
    workload = causal(N_TOKENS=64, HEADS=1, D_HEAD=1)
    placements = {name: {"M": "x"} for name in ("Q", "AV")}
    request = PlanRequest(mesh, model.cluster, "energy", placements=placements)
    best = plan_workload(workload, request).best
    # a maximum at each of 64 * 65 / 2 points
    (energy,) = [part.cost for part in best.parts if part.what == "computing GM"]
    assert energy == pytest.approx(64 * 65 / 2)


def test_a_notation_says_which_points_take_part():
    plan = distribute_workload(causal(), {"x": 4}, {"Q": {"M": "x"}, "AV": {"M": "x"}}, loops={"QK": {"m": "x"}})
    (line,) = [line for line in lines(plan) if line.einsum.startswith("QK")]
    assert line.where == "m = x*2 + m0, m - p >= 0"


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        ("(m + k) mod 2 = 0", "only boxes and linear inequalities can be distributed"),
        ("m < 2 or k < 2", "only boxes and linear inequalities can be distributed"),
    ],
)
def test_a_space_that_is_not_linear_is_refused(cut, message):
    given = {"einsum": "Z[m] = A[m, k]", "iteration_space_shape": [cut]}
    sizes = {"rank_sizes": {"M": 4, "K": 4}, "bits_per_value": {"All": 8}}
    workload = Spec.from_dict(workload=sizes | {"einsums": [given]}).workload
    with pytest.raises(NotSupportedError, match=message):
        distribute_workload(workload, {"x": 2})


def test_a_space_whose_points_would_have_to_be_listed_is_refused():
    given = {"einsum": "Z[m] = A[m, k, n] * B[j]", "iteration_space_shape": ["m + k + n + j < 5000"]}
    sizes = {"rank_sizes": dict.fromkeys("MKNJ", 2000), "bits_per_value": {"All": 8}}
    workload = Spec.from_dict(workload=sizes | {"einsums": [given]}).workload
    with pytest.raises(NotSupportedError, match="links m, k, n, j"):
        distribute_workload(workload, {"x": 2})


def test_blocks_of_keys_that_travel_meet_the_diagonal_once():
    given = {"einsum": "S[m, p] = Q[m] * K[p]", "iteration_space_shape": ["p <= m"]}
    sizes = {"rank_sizes": {"M": 8, "P": 8}, "bits_per_value": {"All": 8}}
    workload = Spec.from_dict(workload=sizes | {"einsums": [given]}).workload
    placements = {"Q": {"M": "x"}, "K": {"P": "x"}, "S": {"M": "x"}}
    plan = distribute_workload(workload, {"x": 4}, placements, loops={"S": {"m": "x"}})
    turned = in_turns(plan, Turns(("S",), "p", ("x",)))
    inputs = sample_inputs(workload, 0)
    (check,) = check_outputs(workload, inputs, LocalEngine().run(turned, inputs).outputs)
    assert check.agrees
    # blocks on the diagonal have 3 of 4 points; in every other turn some PE has a whole block
    assert plan_cost(turned).points == 3 + 4 + 4 + 4
    assert plan_cost(turned).mean_points == 36 / 4


@pytest.mark.parametrize(
    "cuts", [["p <= m"], ["m <= p"], ["p <= m", "m < p + 3"], ["p + m < 12", "p + m >= 3"]], ids=" and ".join
)
@pytest.mark.parametrize("size", [4, 10])
def test_the_online_softmax_leaves_out_what_is_cut(cuts, size):
    texts = (
        ("QK[m, p] = Q[m, e] * K[p, e]", "sum", cuts),
        ("GM[m] = QK[m, p]", "max", cuts),
        ("SN[m, p] = exp(QK[m, p] - GM[m])", "sum", cuts),
        ("SD[m] = SN[m, p]", "sum", cuts),
        ("AN[m, f] = SN[m, p] * V[p, f]", "sum", cuts),
        ("AV[m, f] = AN[m, f] / SD[m]", "sum", []),
    )
    einsums = [{"einsum": text, "reduction": kind, "iteration_space_shape": bounds} for text, kind, bounds in texts]
    sizes = {"rank_sizes": {"M": size, "P": size, "E": 2, "F": 2}, "bits_per_value": {"All": 8}}
    workload = Spec.from_dict(workload=sizes | {"einsums": einsums}).workload
    group = ("QK", "GM", "SN", "SD", "AN")
    placements = {"Q": {"M": "x"}, "K": {"P": "x"}, "V": {"P": "x"}, "AV": {"M": "x"}}
    plan = distribute_workload(workload, {"x": 4}, placements, loops={name: {"m": "x"} for name in group})
    turned = in_turns(plan, Turns(group, "p", ("x",)))
    inputs = sample_inputs(workload, 0)
    (check,) = check_outputs(workload, inputs, LocalEngine().run(turned, inputs).outputs)
    assert check.agrees
