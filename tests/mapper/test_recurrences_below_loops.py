"""Loops outside of the steps of a recurrence: the best mapping against an enumeration, and worked out by hand."""

import random
from itertools import product

import pytest
from tests.execute.agreement import differences
from tests.mapper.test_recurrences import held
from tests.random_specs.recurrences import architecture, loop, storage

import einmap
from einmap import Spec
from einmap.mapping.nodes import Temporal
from einmap.model.evaluate import workings_of
from einmap.spec.forms.rewritten import rewritten

T, B = 4, 2
ROOMS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)


def samples(rng=None, room=10_000):
    """Samples that do not need each other, and what the last step has left of each."""
    arch = architecture(rng)
    arch["nodes"] = [node for node in arch["nodes"] if node["name"] not in ("Row", "Register")]
    arch["nodes"][1]["size"] = room
    einsums = ["R[t, b] = H[S: t, b] * U[t]", "H[S: t + 1, b] = P[t, b] + R[t, b]", f"Y[b] = H[S: {T}, b] * V[b]"]
    fields = {"rank_sizes": {"B": B}, "iteration_space_shape": {"t": f"0 <= t < {T}"}, "bits_per_value": {"All": 1}}
    return Spec.from_dict({"arch": arch, "workload": {**fields, "einsums": einsums}})


def every_mapping():
    """With the loop over samples above all, above the steps, below them or in each branch, tensors in the buffer anywhere."""
    for outer, mine in (("all", ["all"]), ("steps", ["steps"]), ("below", ["below"]), ("branches", ["loops"])):
        inputs, state = ["none", "top", "time", "branch", *mine], ["main", "top", *mine * (outer == "all")]
        made = ["main", "top", "time", *mine * (outer != "branches")]
        for h, r, u, p, v, y in product(state, made, inputs, inputs, ["none", "loops"], ["none", "loops"]):
            yield tree(outer, {"H": h, "R": r, "U": u, "P": p, "V": v, "Y": y})


def tree(outer, at):
    """`at`: where each tensor is held in the buffer; main memory holds the others alone."""

    def here(place, tensors="HRUPVY"):
        return held([t for t in tensors if at[t] == place])

    def branch(einsum, tensors, is_looped):
        nodes = [*here("branch", tensors), *([loop("b", 1)] * is_looped), *here("loops", tensors)]
        return {"type": "Nested", "nodes": [*nodes, {"type": "Compute", "einsum": einsum, "component": "MAC"}]}

    steps = {
        "type": "Sequential",
        "nodes": [branch(e, t, outer == "branches") for e, t in (("R", "HRU"), ("H", "HRP"))],
    }
    below = [*([loop("b", 1), *here("steps")] * (outer == "steps")), loop("t", 1), *here("time")]
    below += [*([loop("b", 1), *here("below")] * (outer == "below")), steps]
    split = {"type": "Sequential", "nodes": [{"type": "Nested", "nodes": below}, branch("Y", "VYH", outer != "all")]}
    above = [loop("b", 1), *here("all")] * (outer == "all")
    main = storage("Main", [*"UPVY", *(t for t in "HR" if at[t] == "main")])
    return [main, *here("top"), *above, split]


@pytest.mark.parametrize(
    ("room", "energy", "outside"),
    [
        # two steps of H of one sample, and a value of R: all others come from main memory for each use
        pytest.param(2 + 1, 18 + 10 * (8 + 8 + 2 + 2) + 34, True, id="a sample after the other"),
        # H of both samples, and a value of R and U, which comes once for both
        pytest.param(4 + 1 + 1, 18 + 10 * (4 + 8 + 2 + 2) + 4 + 8 + 34, False, id="all samples in each step"),
    ],
)
def test_samples_are_outside_of_the_steps_where_room_is_short(room, energy, outside):
    spec = samples(room=room)
    found = einmap.map_workload(spec, metrics="energy")
    assert found.optimal
    assert found.cost.energy == pytest.approx(energy)
    assert differences(spec.with_mapping(found.mapping), found.cost) == []
    nodes = [placed.node for placed in found.mapping.path_of["R"]]
    variables = [node.rank_variable.of("R") for node in nodes if isinstance(node, Temporal)]
    assert variables.index("b") < variables.index("t") if outside else variables.index("t") < variables.index("b")


def check(seed, metrics, rooms):
    spec = samples(random.Random(seed))
    rows = []
    for nodes in every_mapping():
        cost = workings_of(spec.set("mapping", {"nodes": nodes}), unlimited=True).cost
        usage = next(row.usage for row in cost.memory_usage if row.component == "Buffer")
        rows.append((cost.energy, cost.latency, round(usage * 10_000)))
    for room, metric in product(rooms, metrics):
        least = min((row[metric == "latency"] for row in rows if row[2] <= room), default=None)
        given = samples(random.Random(seed), room)
        found = einmap.map_workload(given, metrics=metric)
        assert found.optimal
        assert getattr(found.cost, metric) == pytest.approx(least, rel=1e-9), (room, metric)
        assert differences(given.with_mapping(found.mapping), found.cost) == []


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("seed", range(3))
def test_the_best_mapping_below_loops_over_samples_is_that_of_an_enumeration(seed):
    check(seed, ("energy", "latency"), ROOMS)


@pytest.mark.slow
@pytest.mark.mapper
def test_tiles_of_queries_are_outside_of_blocks_of_keys_where_room_is_short():
    sizes = {"HEADS": 1, "N_TOKENS": 8, "N_CACHED": 32, "D_HEAD": 4}
    spec = einmap.load("simple", "attention_core", define=sizes)
    spec = spec.with_workload(rewritten(spec.workload, ["online_softmax P=8"])).set("arch.nodes.GlobalBuffer.size", 320)
    found = einmap.map_workload(spec, metrics="energy")
    assert found.optimal
    assert differences(spec.with_mapping(found.mapping), found.cost) == []
    for name in spec.workload.recurrences[0].einsums:
        loops = [p.node.rank_variable.of(name) for p in found.mapping.path_of[name] if isinstance(p.node, Temporal)]
        assert loops[:2] == ["m", "p1"]
