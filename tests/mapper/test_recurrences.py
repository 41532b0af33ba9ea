"""The mapper and recurrences: optimal against an enumeration, valid as it is evaluated, weights and states where they belong."""

import random
from contextlib import suppress
from itertools import permutations, product

import pytest
from tests.amounts import few_and_many
from tests.execute.agreement import differences
from tests.random_specs.networks import HANDED_ON, ROUND, TOPOLOGIES, network
from tests.random_specs.recurrences import architecture, draw, loop, mapping, storage

import einmap
from einmap import NoMappingError, Spec
from einmap.mapping.nodes import PerEinsum, Storage, Temporal
from einmap.mapping.template import AnyPlace, OpenCompute, PartialMapping
from einmap.model.evaluate import workings_of

RNN = ["R[t, n] = H[S: t, M: m] * U[m, n]", "H[S: t + 1, M: n] = P[t, n] + R[t, n]"]
TENSORS = {"R": ("H", "U", "R"), "H": ("P", "R", "H")}


def problem(rng=None, buffer=10_000, einsums=RNN, noc=None, **sizes):
    arch = architecture(rng)
    left_out = ("Row", "Register") if noc is None else ("Register",)
    arch["nodes"] = [node for node in arch["nodes"] if node["name"] not in left_out]
    arch["nodes"][1]["size"] = buffer
    if noc is not None:
        arch["nodes"].insert(*noc)
    sizes = {"T": 3, "M": 2, "N": 2, **sizes}
    time = {"t": f"0 <= t < {sizes.pop('T')}"}
    fields = {"rank_sizes": sizes, "iteration_space_shape": time, "bits_per_value": {"All": 1}, "einsums": einsums}
    return Spec.from_dict({"arch": arch, "workload": fields})


def structures():
    """What stands above the split, and the tensors that each branch may hold besides."""
    backings = product(("main", "above", "step", "tile"), ("main", "above", "step"), (False, True), (False, True))
    for (r, h, u, p), shared in product(backings, (False, True)):
        if r == "tile" and not shared:
            continue
        where = {"R": r, "H": h}
        main = ["U", "P", *(t for t in where if where[t] == "main")]
        above = [*("U" * u), *("P" * p), *(t for t in where if where[t] == "above")]
        step, tile = ([t for t in where if where[t] == place] for place in ("step", "tile"))
        nodes = [storage("Main", main), *held(above), loop("t", 1), *held(step)]
        nodes += [loop("n", 1), *held(tile)] if shared else []
        yield nodes, shared, {*above, *step, *tile}


def held(tensors):
    return [storage("Buffer", tensors)] if tensors else []


def branches(einsum, shared, kept, most_lanes=0):
    """Every order of an Einsum's loops with storage nodes between them, and of at most so many over lanes."""
    variables = [v for v in {"R": "nm", "H": "n"}[einsum] if not (shared and v == "n")]
    free = [t for t in TENSORS[einsum] if t not in kept]
    for n, loops in product(range(min(most_lanes, len(variables)) + 1), permutations(variables)):
        order = loops[: len(loops) - n]
        lanes = [{**loop(v, 1), "type": "Spatial", "component": "Row", "name": "X"} for v in loops[len(order) :]]
        for places in product(range(-1, len(order) + 1), repeat=len(free)):
            nodes = []
            for i in range(len(order) + 1):
                nodes += held([t for t, place in zip(free, places, strict=True) if place == i])
                nodes += [loop(order[i], 1)] if i < len(order) else []
            yield [*nodes, *lanes, {"type": "Compute", "einsum": einsum, "component": "MAC"}]


def every_cost(spec, of=None, most_lanes=0):
    """For each structure, or some `of` them, and Einsum the energy, latency and room of every branch: other branches change none of them."""
    for nodes, shared, kept in of or structures():
        options = {name: list(branches(name, shared, kept, most_lanes)) for name in ("R", "H")}
        rows = {}
        for name, other in (("R", "H"), ("H", "R")):
            for nest in options[name]:
                nests = {name: nest, other: options[other][0]}
                split = {"type": "Sequential", "nodes": [{"type": "Nested", "nodes": nests[e]} for e in ("R", "H")]}
                workings = workings_of(spec.set("mapping", {"nodes": [*nodes, split]}), unlimited=True)
                energy = sum(row.energy for row in workings.cost.actions if row.einsum == name)
                latency = max(row.latency for row in workings.cost.latencies if row.einsum == name)
                room = sum(b.bits for b in workings.live[name] if b.memory.name == "Buffer")
                rows.setdefault(name, []).append((energy, latency, room))
        yield rows


def best(costs, metric, room):
    """The least sum over the Einsums of what fits."""
    column = ("energy", "latency").index(metric)
    inf = float("inf")
    return min(
        sum(min((row[column] for row in rows if row[2] <= room), default=inf) for rows in of_structure.values())
        for of_structure in costs
    )


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("seed", range(4))
def test_the_best_mapping_of_a_recurrence_is_that_of_an_enumeration(seed):
    costs = list(every_cost(problem(random.Random(seed))))
    for room, metric in product((1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20), ("energy", "latency")):
        found = einmap.map_workload(problem(random.Random(seed), room), metrics=metric)
        assert found.optimal
        assert getattr(found.cost, metric) == pytest.approx(best(costs, metric, room), rel=1e-9)


def given_above(spec, nodes):
    """What stands above the split of a structure, for each Einsum, and places for what stands below."""
    given = {}
    for einsum in spec.workload.einsums:
        row = []
        for node in nodes:
            if node["type"] == "Temporal":
                row.append(Temporal(PerEinsum(node["rank_variable"]), PerEinsum(node["tile_shape"])))
            elif held := tuple(t for t in node["tensors"] if t in einsum.tensors):
                row.append(Storage(held, node["component"]))
        given[einsum.name] = PartialMapping((*row, AnyPlace(), OpenCompute(einsum.name)))
    return given


def completed(seed):
    """Whether there is a mapping that is like a given one, after the comparison with an enumeration."""
    rng = random.Random(seed)
    structure = rng.choice(list(structures()))
    costs = list(every_cost(problem(random.Random(seed)), [structure]))
    room, metric = rng.choice((4, 6, 8, 12, 20, 40)), rng.choice(("energy", "latency"))
    least, spec = best(costs, metric, room), problem(random.Random(seed), room)
    if least == float("inf"):
        with pytest.raises(NoMappingError):
            einmap.map_workload(spec, metrics=metric, given=given_above(spec, structure[0]))
        return False
    found = einmap.map_workload(spec, metrics=metric, given=given_above(spec, structure[0]))
    assert found.optimal, seed
    assert getattr(found.cost, metric) == pytest.approx(least, rel=1e-9), seed
    return True


@few_and_many("seeds, least", ((1,), 0), (range(10, 50), 20))
def test_a_given_mapping_of_a_recurrence_is_completed_as_an_enumeration_does_it(seeds, least):
    assert sum(map(completed, seeds)) >= least


@few_and_many("seeds", ([0],), (range(1, 5),))
def test_unfused_all_that_einsums_exchange_goes_through_the_outermost_memory(seeds):
    outside = [found for found in structures() if not found[1] and {"R", "H"} <= {*found[0][0]["tensors"]}]
    for seed in seeds:
        costs = list(every_cost(problem(random.Random(seed)), outside))
        for room, metric in product((2, 8), ("energy", "latency")):
            found = einmap.map_workload(problem(random.Random(seed), room), metrics=metric, fuse=False)
            assert found.optimal
            assert getattr(found.cost, metric) == pytest.approx(best(costs, metric, room), rel=1e-9)


def some_network(seed):
    """A place among the components, above the buffer or the lanes, and a network."""
    rng = random.Random(seed)
    found = network(rng, topologies=(*TOPOLOGIES, *ROUND, *HANDED_ON))
    found.pop("bits_per_value", None)
    return rng.choice((1, 2, 2, 2)), found


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("seed", range(4))
def test_the_best_mapping_of_a_recurrence_below_a_network_is_that_of_an_enumeration(seed):
    def given(room=10_000):
        return problem(random.Random(seed), room, noc=some_network(seed), T=2)

    costs = list(every_cost(given(), most_lanes=2))
    for room, metric in product((1, 2, 4, 6, 8, 12, 20), ("energy", "latency")):
        found = einmap.map_workload(given(room), metrics=metric)
        assert found.optimal
        assert getattr(found.cost, metric) == pytest.approx(best(costs, metric, room), rel=1e-9)


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize(
    ("room", "energy", "values"),
    [
        # U (9) is kept across steps beside two steps of H (3 each), a value of R and one of P: each input comes once
        pytest.param(9 + 6 + 1 + 1, 534, 9 + 15, id="weight and state are kept"),
        # H goes through main memory, 15 values there and back, and U stays
        pytest.param(9 + 6 + 1, 534 + 15 * 20 + 15 + 15, 9 + 15 + 30, id="the weight is kept"),
        # H stays, and U comes in each of the 5 steps
        pytest.param(6 + 1 + 1, 534 + 36 * 10 + 36, 45 + 15, id="the state is kept"),
        pytest.param(6 + 1, 534 + 36 * 10 + 36 + 15 * 20 + 15 + 15, 45 + 15 + 30, id="neither is kept"),
    ],
)
def test_what_is_kept_across_steps_is_a_matter_of_room(room, energy, values, crossed):
    # each of the values that come and go takes one step on the bus; a state that stays takes none
    hop = {"name": "hop", "energy": 1, "latency": 0, "throughput": 1}
    bus = {"type": "Network", "name": "Noc", "topology": "bus", "area": 0, "leak_power": 0, "actions": [hop]}
    energy += values if crossed else 0
    spec = problem(buffer=room, noc=(1, bus) if crossed else None, T=5, M=3, N=3)
    spec = spec.set("arch.nodes.Row.spatial", []) if crossed else spec
    for memory in ("Main", "Buffer"):
        spec = spec.set(f"arch.nodes.{memory}.tensors.keep", "~Intermediates" if memory == "Main" else "All")
    found = einmap.map_workload(spec, metrics="energy")
    assert found.optimal
    assert found.cost.energy == pytest.approx(energy)
    assert differences(spec.with_mapping(found.mapping), found.cost) == []


def test_results_leave_in_the_loop_or_behind_it():
    einsums = [*RNN, "Y[t, n] = H[S: t + 1, M: n]"]
    # U (9), two steps of H, a value of R and of P or Y; or all five steps of H, and Y in a loop of its own
    for room, loops in ((17, 1), (100, None)):
        spec = problem(buffer=room, einsums=einsums, T=5, M=3, N=3)
        spec = spec.set("arch.nodes.Main.tensors.keep", "~Intermediates").set("arch.nodes.Buffer.tensors.keep", "All")
        found = einmap.map_workload(spec, metrics="energy")
        assert found.optimal
        assert found.cost.energy == pytest.approx(534 + 15 * 10 + 15 * 4)
        assert differences(spec.with_mapping(found.mapping), found.cost) == []
        over_time = [placed for placed in found.mapping.loops if placed.node.rank_variable.of("Y") == "t"]
        assert loops is None or len({placed.address for placed in over_time}) == loops


def small(rng, networks):
    """A random cascade on a random machine with little room."""
    case = draw(rng, networks)
    memories = {node["name"]: node for node in case["arch"]["nodes"]}
    memories["Buffer"]["size"] = rng.choice([8, 16, 24, 40, 10_000])
    memories["Register"]["size"] = rng.choice([4, 8, 16, 10_000])
    return Spec.from_dict({"arch": case["arch"], "workload": case["workload"]})


def beaten(seed, tries, networks=False):
    """Random mappings that are better than the best one, which costs what it does in the simulator."""
    rng = random.Random(seed)
    spec, metric = small(rng, networks), rng.choice(["energy", "latency"])
    found = einmap.map_workload(spec, metrics=metric, time_limit_s=60)
    assert found.optimal, seed
    assert differences(spec.with_mapping(found.mapping), found.cost) == [], seed
    names = list(spec.workload.einsum_names)
    first = names.index(spec.workload.recurrences[0].einsums[0])
    last = first + len(spec.workload.recurrences[0].einsums)
    least = getattr(found.cost, metric) * (1 - 1e-9)
    for _ in range(tries):
        with suppress(einmap.EinmapError):
            drawn = spec.set("mapping", {"nodes": mapping(rng, spec, first, last)})
            if getattr(einmap.evaluate(drawn), metric) < least:
                yield seed, drawn


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(5))
def test_no_random_mapping_of_100_recurrences_beats_the_best_one(part):
    assert [found for seed in range(100 + 20 * part, 120 + 20 * part) for found in beaten(seed, 100)] == []


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_no_random_mapping_of_40_recurrences_with_networks_beats_the_best_one(part):
    seeds = range(300 + 10 * part, 310 + 10 * part)
    assert [found for seed in seeds for found in beaten(seed, 100, networks=True)] == []


def test_no_room_is_told():
    with pytest.raises(NoMappingError, match="R, H run step by step below one loop over t"):
        einmap.map_workload(problem(buffer=1).set("arch.nodes.Buffer.tensors.keep", "All"))


@pytest.mark.parametrize(("einsums", "steps"), [(RNN, 3), (RNN, 1), ([*RNN, "Y[t, n] = H[S: t + 1, M: n] * V[n]"], 3)])
def test_a_search_that_ends_at_once_gives_each_einsum_a_mapping_below_one_loop(einsums, steps):
    given = problem(einsums=einsums, T=steps)
    result = einmap.map_workload(given, max_evaluations=1)
    assert not result.optimal
    assert list(differences(given.with_mapping(result.mapping))) == []
    assert result.cost.energy >= einmap.map_workload(given).cost.energy


def test_an_input_that_several_einsums_read_is_not_shared_and_nothing_is_called_proven():
    given = problem(einsums=[*RNN, "Y[t, n] = P[t, n] * V[n]"])
    result = einmap.map_workload(given)
    assert not result.optimal
    assert "mappings that fill P once for all Einsums that read it: the cascade has a recurrence" in result.reason
    assert einmap.map_workload(given, share_inputs=False).optimal


@pytest.mark.parametrize("most", [1, 2, 4])
def test_few_dataplacements_of_a_recurrence_give_a_mapping_that_is_not_proven(most):
    spec = problem(buffer=4)
    best = einmap.map_workload(spec, metrics="energy").cost.energy
    result = einmap.map_workload(spec, metrics="energy", max_pmapping_templates_per_einsum=most)
    assert not result.optimal
    assert result.lower_bound <= best <= result.cost.energy
    assert einmap.evaluate(spec, result.mapping, strict=True) == result.cost
