"""The brute force over fused mappings finds what can be worked out by hand."""

import json
import math
import random
from itertools import product

import pytest
from tests.amounts import few_and_many
from tests.execute.agreement import differences
from tests.mapper.fusion.chains import EinsumFronts
from tests.mapper.fusion.combine import CascadeProblem, front, optimum
from tests.mapper.fusion.placements import dataplacements
from tests.mapper.fusion.tree import tree_of
from tests.model.worked import ARCH_A
from tests.random_specs.fused import CASCADES, draw_problem
from tests.random_specs.nodes import spec_of

import einmap
from einmap.mapping import nodes as tree
from einmap.model.counting.semantics import PRESETS


def cascade(sizes, einsums, glb="inf", dram_keeps="~Intermediates"):
    """DRAM costs 100 J for each value, GLB 1 J, computing nothing; a value is one bit."""
    actions = "actions: [{name: read, energy: E, throughput: inf}, {name: write, energy: E, throughput: inf}]"
    return einmap.loads(
        f"""
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {{keep: {dram_keeps}, may_keep: All}},
             {actions.replace("E", "100")}}}
  - !Memory {{name: GLB, size: {glb}, leak_power: 0, area: 0, tensors: {{may_keep: All}}, {actions.replace("E", "1")}}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 0, throughput: 1}}]}}
workload: {{rank_sizes: {json.dumps(sizes)}, bits_per_value: {{All: 1}}, einsums: {json.dumps(einsums)}}}
"""
    )


MATMULS = ["X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]"]


@pytest.mark.parametrize(("intermediates", "count"), [("", 16), ("Z", 27), ("AZ", 46), ("ABZ", 79)])
def test_dataplacements_of_a_matmul_with_intermediates(intermediates, count):
    given = cascade({"M": 2, "N": 2, "K": 2}, ["Z[m, n] = A[m, k] * B[k, n]"], dram_keeps=_but(intermediates))
    (einsum,) = given.workload.einsums
    leaves = given.bound["Z"].arch.path("MAC")
    found = {nodes for _, nodes, _ in dataplacements(einsum, leaves, frozenset(intermediates))}
    assert len(found) == count


def _but(tensors):
    return " - ".join(["All", *tensors])


COPIES = ["X[m] = A[m]", "Z[m] = X[m]"]


@pytest.mark.parametrize("semantics", PRESETS)
def test_chains_of_an_elementwise_pair_counted_by_hand(semantics):
    # X in DRAM: 0, 1 or 2 tensors in GLB, 1 + 2*2 + 2*3 places of the one loop; X in GLB alone: GLB has X (2 places of
    # the loop), X above the other one (3) or below it (3)
    counts = {("DRAM", 0): 11, ("GLB", 0): 1 + 2 + 1, ("GLB", 1): 1 + 1 + 2}
    space = CascadeProblem(cascade({"M": 2}, COPIES), semantics)
    for rows in space.rows:
        found = dict.fromkeys(counts, 0)
        for boundary_state, chains in rows.items():
            found[boundary_state.key_of["X"][0], boundary_state.depth("X")] += len(chains.energy)
        assert found == counts
    pairs = sum(
        math.prod(len(r[i].energy) for r, i in zip(space.rows, f.boundary_states, strict=True)) for f in space.fitting()
    )
    assert pairs == 11 * 11 + 4 * 4 + 4 * 4


@pytest.mark.parametrize("semantics", PRESETS)
def test_the_optimum_is_the_best_of_all_trees(semantics):
    space = CascadeProblem(cascade({"M": 2}, COPIES, glb=64), semantics)
    found = []
    for fitting in space.fitting():
        sizes = [range(len(r[i].energy)) for r, i in zip(space.rows, fitting.boundary_states, strict=True)]
        for rows in product(*sizes):
            cost = einmap.evaluate(space.spec, space.mapping(fitting, rows), semantics=semantics)
            (usage,) = (row.usage for row in cost.memory_usage if row.component == "GLB")
            found.append((cost.energy, cost.latency, usage * 64))
    for glb in range(1, 7):
        best = min(energy for energy, _, bits in found if bits <= glb)
        assert optimum(cascade({"M": 2}, COPIES, glb), "energy", semantics) == best


def test_the_worked_example_of_a_fused_pair_is_in_the_space():
    text = "\nworkload: {rank_sizes: {M: 4, K: 6, N: 8, P: 5}, bits_per_value: {All: 8}, einsums: [%s, %s]}"
    given = einmap.loads(ARCH_A + text % tuple(f'"{e}"' for e in MATMULS))
    outer_nests = {
        "X": ["A DRAM", "B DRAM", "B GLB", ("m", 2), "X GLB", "A GLB"],
        "Z": ["D DRAM", "Z DRAM", "D GLB", ("m", 2), "X GLB", "Z GLB"],
    }
    chosen = []
    for name, outer_nest in outer_nests.items():
        space = EinsumFronts(given, given.workload.by_name[name], PRESETS["accelforge"], most=1)
        frames = [
            f
            for f in space.frames()
            if _written(f.nodes(f.natural, 0), loops=False) == [h for h in outer_nest if isinstance(h, str)]
        ]
        found = [rows.chain(r) for f in frames for _, rows in f.blocks() for r in range(len(rows.energy))]
        (chain,) = (
            c
            for c in found
            if _written(c.nodes)[: len(outer_nest)] == outer_nest and len(c.nodes) == len(outer_nest) + 4
        )
        chosen.append(chain)
    assert [(c.energy, c.latency) for c in chosen] == [(21345.5, 404), (18057.5, 340)]
    mapping = tree_of(chosen, [1], given.workload, {"X": "DRAM", "Z": "DRAM"})
    cost = einmap.evaluate(given, mapping, semantics="accelforge")
    assert (cost.energy, cost.latency) == (39403, 744)
    # the loops below A stand in a better order here (m, k, n), so that A needs 8 bits instead of 48, and so for Z
    assert {row.component: row.usage for row in cost.memory_usage}["GLB"] == (384 + 320 + 128 + 8) / 4096


def _written(nodes, loops=True):
    found = []
    for node in nodes:
        if isinstance(node, tree.Storage):
            found.append(f"{node.tensors[0]} {node.component}")
        elif loops and isinstance(node, tree.Temporal):
            found.append((node.rank_variable.default, node.tile_shape.default))
    return found


# Each matmul of 2 x 2 x 2 has 8 operations. A tensor of 4 values that goes through GLB once costs 400 J in DRAM, 4 J to
# fill GLB and 8 J for the operations; an output is written 8 times, read again 4 times and read out 4 times.
INPUT, OUTPUT = 400 + 4 + 8, 400 + 8 + 4 + 4
SQUARE = {"M": 2, "K": 2, "N": 2, "P": 2}


@pytest.mark.parametrize("semantics", PRESETS)
def test_the_best_energy_of_two_matmuls_with_and_without_fusion(semantics):
    apart = 2 * (INPUT + INPUT + OUTPUT)
    assert optimum(cascade(SQUARE, MATMULS, dram_keeps="All"), "energy", semantics) == apart
    # X never leaves GLB: no fill, no read-out
    together = apart - 400 - 4 - 400 - 4
    assert optimum(cascade(SQUARE, MATMULS), "energy", semantics) == together


def test_fusion_without_fused_loops_needs_the_whole_intermediate():
    # X 4; then one row of B and one value of A, or one column of D and one value of Z
    best = 2 * (INPUT + INPUT + OUTPUT) - 808
    assert optimum(cascade(SQUARE, MATMULS, glb=7), "energy", max_fused_loops=0) == best
    assert optimum(cascade(SQUARE, MATMULS, glb=6), "energy", max_fused_loops=0) > best


TALL = {"M": 4, "K": 1, "N": 2, "P": 2}


def test_weights_kept_above_the_shared_loop_count_while_the_other_einsum_runs():
    # all once from DRAM: A 4, B 2, D 4 values, Z 8 values to it; 8 and 16 operations
    once = (400 + 4 + 8) + (200 + 2 + 8) + 8 + 16 + (400 + 4 + 16) + (800 + 8 + 16 + 8)
    # under the shared loop over m: B 2, D 4, a row of X 2, and one value of A or Z. Alone X needs 5 and Z 7.
    assert optimum(cascade(TALL, MATMULS, glb=9), "energy") == once
    # one bit less: B is read from DRAM for each of the 8 operations
    assert optimum(cascade(TALL, MATMULS, glb=8), "energy") == once - (200 + 2 + 8) + 800
    # nothing is shared without a fused loop: X 8, B 2, one value of A
    assert optimum(cascade(TALL, MATMULS, glb=11), "energy", max_fused_loops=0) == once
    assert optimum(cascade(TALL, MATMULS, glb=10), "energy", max_fused_loops=0) > once


SOFTMAX = ["X[m, n] = A[m] * B[n]", "Y[m] = X[m, n]", "Z[m, n] = X[m, n] * Y[m]"]


def test_nobody_reads_an_intermediate_that_is_not_complete():
    given = cascade({"M": 2, "N": 2}, SOFTMAX)

    def shared_variables(space):
        return {lp.variable for f in space.fitting() for lp in f.boundary_states[2].loops[: f.between[1]]}

    # Z would read Y while the loop over n still adds to it
    assert shared_variables(CascadeProblem(given, "exact")) == {"m"}
    loose = CascadeProblem(given, "exact", whole_values=False)
    assert shared_variables(loose) == {"m", "n"}
    fitting = next(
        f for f in loose.fitting() if [lp.variable for lp in f.boundary_states[2].loops[: f.between[1]]] == ["n"]
    )
    cost = einmap.evaluate(given, loose.mapping(fitting, (0, 0, 0)))
    assert any("half-reduced" in note.text for note in cost.notes)


def test_a_front_holds_the_optima():
    problem = draw_problem(random.Random(9), ("three matmuls",), small=True)
    args = (problem.spec, problem.semantics, problem.max_fused_loops, problem.per_variable)
    points = front(*args)
    spec, semantics, *limits = args
    assert points == sorted(points)
    assert points[0][0] == optimum(spec, "energy", semantics, *limits)
    assert points[-1][1] == optimum(spec, "latency", semantics, *limits)
    assert min(energy * latency for energy, latency in points) == optimum(
        spec, "energy_delay_product", semantics, *limits
    )


@pytest.mark.parametrize("name", CASCADES)
@few_and_many("tries", (range(1),), (range(6),), part="fusion")
def test_evaluate_agrees_with_sums_and_space_of_random_combinations(name, tries):
    rng = random.Random(name)
    for _ in tries:
        agrees(draw_problem(rng, (name,), small=True), rng, most=6)


def agrees(problem, rng, most):
    """Random combinations of chains, those included that do not fit together, evaluated as trees."""
    space = CascadeProblem(problem.spec, problem.semantics, problem.max_fused_loops, problem.per_variable)
    found = list(space.fitting())
    for fitting in rng.sample(found, min(most, len(found))):
        each = [r[i] for r, i in zip(space.rows, fitting.boundary_states, strict=True)]
        rows = [rng.randrange(len(one.energy)) for one in each]
        usage = space.usage(fitting, rows)
        mapping = space.mapping(fitting, rows)
        # under lowering a node may need less in the tree than in its chain, where another one follows it
        exactly = problem.semantics == "exact"
        if any(bits > space.sizes[m] for m, bits in usage.items()):
            if not exactly:
                continue
            with pytest.raises(einmap.CapacityError):
                einmap.evaluate(space.spec, mapping, semantics=problem.semantics)
            continue
        cost = einmap.evaluate(space.spec, mapping, semantics=problem.semantics)
        assert cost.energy == pytest.approx(sum(float(one.energy[r]) for one, r in zip(each, rows, strict=True)))
        assert cost.latency == pytest.approx(sum(float(one.latency[r]) for one, r in zip(each, rows, strict=True)))
        for row in cost.memory_usage:
            size = space.sizes[row.component]
            expected = 0 if math.isinf(size) else usage[row.component] / size
            assert row.usage <= expected + 1e-9
            assert not exactly or row.usage == pytest.approx(expected)


@pytest.mark.parametrize("name", ["softmax", "residual of a matmul", "into a convolution"])
def test_the_simulator_agrees_on_random_combinations(name):
    rng = random.Random(name)
    for _ in range(2):
        problem = draw_problem(rng, (name,), small=True)
        space = CascadeProblem(problem.spec, "exact", problem.max_fused_loops, problem.per_variable)
        found = list(space.fitting())
        for fitting in rng.sample(found, min(4, len(found))):
            rows = (0,) * len(space.rows)
            if all(bits <= space.sizes[m] for m, bits in space.usage(fitting, rows).items()):
                assert differences(space.spec.with_mapping(space.mapping(fitting, rows))) == []


def test_without_fusion_the_optimum_is_that_of_the_mapper():
    done = 0
    for seed in range(9):
        problem = draw_problem(random.Random(seed), small=True)
        data = json.loads(json.dumps(problem.data))
        data["arch"]["nodes"][0]["tensors"] = {"keep": "All"}
        spec = spec_of(data)
        goal = ("energy", "latency", "energy_delay_product")[seed % 3]
        try:
            result = einmap.map_workload(spec, metrics=goal, semantics=problem.semantics)
        except einmap.NoMappingError:
            assert optimum(spec, goal, problem.semantics) == math.inf
            continue
        cost = result.front[0].cost
        value = {"energy": cost.energy, "latency": cost.latency}.get(goal, cost.energy * cost.latency)
        assert optimum(spec, goal, problem.semantics) == pytest.approx(value, rel=1e-9)
        done += 1
    assert done > 5
