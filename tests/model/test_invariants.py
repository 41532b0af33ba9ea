"""Properties of every evaluation, and the model against a machine that runs each loop."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.model.interpreter import Machine
from tests.model.strategies import Case, action, cases, memory
from tests.model.worked import counts, energies, latencies, usages

from einmap import CapacityError, EinmapError, evaluate

PRESETS = st.sampled_from(["exact", "accelforge"])


def evaluated(case: Case, semantics="exact"):
    """The cost of a case; mappings in which a spatial loop would cross another one are passed over."""
    try:
        return evaluate(case.spec, semantics=semantics)
    except EinmapError as error:
        assume("cross" not in str(error))
        raise


def numbers(cost):
    """Everything that a property may compare, without names of places."""
    times = {(row.einsum, row.component): row.latency for row in cost.latencies}
    return counts(cost), energies(cost), times, usages(cost), cost.leak_energy, cost.area


# against the loops


@given(cases())
def test_the_model_counts_what_the_loops_move(case):
    cost = evaluated(case)
    machine = Machine(case.spec)
    moved = {("E", t, c, a): values * case.bits[t] for (c, t, a), values in machine.totals().items()}
    moved["E", None, "MAC", "compute"] = len(machine.points)
    assert counts(cost) == moved


@given(cases())
def test_the_latency_is_that_of_the_busiest_instance(case):
    times = latencies(evaluated(case), "E")
    machine = Machine(case.spec)
    expected = {"MAC": machine.operations_of_the_busiest()}
    for name in times.keys() - {"MAC"}:
        busy = [machine.busiest(name, action, case.bits) for action in ("read", "write")]
        ports = (2, 1) if name.startswith("Link") else (4, 2)
        expected[name] = busy[0] / ports[0] + busy[1] / ports[1]
    assert times == pytest.approx(expected)


@given(cases())
def test_a_memory_holds_the_largest_tiles_of_its_nodes(case):
    cost = evaluated(case)
    held: dict = {}
    for (holder, tensor), values in Machine(case.spec).tiles.items():
        if holder.name.startswith("Buffer"):
            held[holder.name] = held.get(holder.name, 0) + values * case.bits[tensor]
    assert {name: round(usage * 10**6) for name, usage in usages(cost).items()} == held


# found by searching for more examples


def small(einsum, sizes, dimensions, nodes):
    """Main, Buffer0 (perhaps fanned out) and a MAC with a fanout X, values of 4 bits."""
    unit = {"type": "Compute", "name": "MAC", "leak_power": 0, "actions": [action("compute", 1, 1)]}
    arch = [
        memory("Main", "inf", skip=True),
        {**memory("Buffer0", 10**6, skip=True), "spatial": dimensions},
        {**unit, "spatial": [{"name": "X", "fanout": 8}]},
    ]
    loops_and_holders = [
        {"type": "Temporal", "rank_variable": n[0], "tile_shape": n[1]}
        if len(n) == 2 and isinstance(n[1], int)
        else {"type": "Spatial", "rank_variable": n[0], "tile_shape": n[1], "component": n[2], "name": "X"}
        if len(n) == 3
        else {"type": "Storage", "component": n[0], "tensors": list(n[1])}
        for n in nodes
    ]
    compute = {"type": "Compute", "einsum": "E", "component": "MAC"}
    return Case(einsum, sizes, arch, [*loops_and_holders, compute], {"A": 4, "B": 4, "Z": 4})


def test_a_loop_that_meets_an_extent_of_one_does_not_cut_the_tile_of_a_memory_outside_the_lanes():
    # The lanes of the MAC take one value of p each, so the temporal loop over p iterates once and is absent:
    # Buffer0 stands outside the lanes and holds all of A, 2 + 3 - 1 values, fetched once.
    nodes = [("p", 1, "MAC"), ("p", 1), ("Main", "ABZ"), ("Buffer0", "A"), ("r", 1)]
    case = small("Z[p] = A[H: p + r] * B[r]", {"p": 2, "r": 3}, [], nodes)
    cost = evaluate(case.spec)
    assert counts(cost)["E", "A", "Main", "read"] == 4 * 4
    assert usages(cost) == {"Buffer0": 4 * 4 / 10**6}
    without = case.with_nodes([case.nodes[0], *case.nodes[2:]])
    assert numbers(evaluate(without.spec)) == numbers(cost)


def test_a_spatial_loop_of_one_iteration_has_no_second_lane():
    # Each of two lanes holds A, B and Z for one k at a time; Z is filled in 4 of 5 visits, and there is no lane
    # over k that would be filled in all of them. Written: A 5, B 5, Z 4 and 5; read: A 5, B 5, Z 4 and 5.
    fanout = [{"name": "X", "fanout": 8, "may_reuse": "Nothing"}]
    nodes = [("k", 5, "Buffer0"), ("n", 1, "Buffer0"), ("k", 1), ("Main", "ABZ"), ("Buffer0", "ABZ")]
    case = small("Z[m, n] = A[m, k] * B[k, n]", {"m": 1, "n": 2, "k": 5}, fanout, nodes)
    assert latencies(evaluate(case.spec), "E")["Buffer0"] == 4 * 19 / 2 + 4 * 19 / 4
    assert numbers(evaluate(case.with_nodes(case.nodes[1:]).spec)) == numbers(evaluate(case.spec))


def test_the_busiest_lane_may_be_one_that_is_refilled_with_what_another_lane_wrote():
    # Four lanes hold one element of Z = p + r each: 0, 1, 1 and 2. The third is refilled with the second one's
    # result. It writes A, B, the refill and the MAC's result, 4 values; the others write three.
    fanout = [{"name": "X", "fanout": 8, "may_reuse": "Nothing"}]
    nodes = [("p", 1, "Buffer0"), ("r", 1, "Buffer0"), ("Main", "ABZ"), ("Buffer0", "ABZ")]
    case = small("Z[H: p + r] = A[p] * B[r]", {"p": 2, "r": 2}, fanout, nodes)
    cost = evaluate(case.spec)
    assert counts(cost)["E", "Z", "Buffer0", "write"] == (1 + 4) * 4
    # 4 values written at 2 bits/s; read are A, B, Z for the write-back and, after the refill, Z once more
    assert latencies(cost, "E")["Buffer0"] == 4 * 4 / 2 + 4 * 4 / 4


def test_holes_in_the_tile_of_a_strided_output_count_as_data_at_every_level():
    # p = 0, 1 and one r at a time: Buffer0 holds 0..2, then 1..3. The first visit writes back its whole tile, the
    # hole 1 too, so the second is filled with 1 and 2, and the MAC reads 1 where it adds the only product to it.
    nodes = [("r", 1), ("Main", "ABZ"), ("Buffer0", "Z"), ("p", 1)]
    case = small("Z[H: 2*p + r] = A[p] * B[r]", {"p": 2, "r": 2}, [], nodes)
    found = {key[2:]: n / 4 for key, n in counts(evaluate(case.spec)).items() if key[1] == "Z"}
    assert found == {
        ("Main", "read"): 2, ("Main", "write"): 6, ("Buffer0", "read"): 6 + 1, ("Buffer0", "write"): 2 + 4,
    }  # fmt: skip


# of every result


@given(cases(), PRESETS)
def test_every_number_is_finite_and_not_negative(case, semantics):
    cost = evaluated(case, semantics)
    assert all(count > 0 for count in counts(cost).values())
    assert all(row.energy >= 0 and math.isfinite(row.energy) for row in cost.actions)
    assert all(row.latency >= 0 and math.isfinite(row.latency) for row in cost.latencies)
    assert cost.energy == pytest.approx(sum(row.energy for row in cost.actions))
    assert cost.latency == max(row.latency for row in cost.latencies)
    assert all(0 < row.usage <= 1 for row in cost.spatial_usage)
    n_points = math.prod(case.sizes.values())
    assert counts(cost)["E", None, "MAC", "compute"] == n_points


@given(cases(), PRESETS, st.permutations("ABZ"), st.permutations("mnkpr"))
def test_names_mean_nothing(case, semantics, tensors, variables):
    new = {**dict(zip("ABZ", (f"T{t}" for t in tensors), strict=True))}
    new |= dict(zip("mnkpr", (f"{v}x" for v in variables), strict=True))

    def renamed(text):
        return "".join(new.get(letter, letter) for letter in text)

    def node(given):
        changed = dict(given)
        if "tensors" in given:
            changed["tensors"] = [new[t] for t in given["tensors"]]
        if "rank_variable" in given:
            changed["rank_variable"] = new[given["rank_variable"]]
        return changed

    def unit(given):
        dimensions = [{**d, "may_reuse": renamed_set(d["may_reuse"])} for d in given.get("spatial", [])]
        return {**given, "spatial": dimensions} if dimensions else given

    def renamed_set(text):
        return text if text == "Nothing" else " | ".join(new[t] for t in text.split(" | "))

    other = Case(
        renamed(case.einsum),
        {new[v]: n for v, n in case.sizes.items()},
        [unit(component) for component in case.arch],
        [node(n) for n in case.nodes],
        {new[t]: bits for t, bits in case.bits.items()},
    )
    before, after = evaluated(case, semantics), evaluated(other, semantics)
    assert {(e, new.get(t), c, a): n for (e, t, c, a), n in counts(before).items()} == counts(after)
    assert latencies(before, "E") == latencies(after, "E")
    assert usages(before) == usages(after)
    assert before.energy == pytest.approx(after.energy)


@given(cases(), st.data())
def test_the_order_of_tensors_in_a_node_means_nothing_under_exact(case, data):
    nodes = [
        {**node, "tensors": data.draw(st.permutations(node["tensors"]))} if "tensors" in node else node
        for node in case.nodes
    ]
    assert numbers(evaluated(case)) == numbers(evaluated(case.with_nodes(nodes)))


@given(cases(), st.data())
def test_a_loop_of_one_iteration_means_nothing_under_exact(case, data):
    before = evaluated(case)
    nodes = list(case.nodes)
    at = data.draw(st.integers(0, len(nodes) - 1))
    variable = data.draw(st.sampled_from(sorted(case.sizes)))
    above = [n["tile_shape"] for n in nodes[:at] if n.get("rank_variable") == variable]
    loop = {"type": "Temporal", "rank_variable": variable, "tile_shape": [case.sizes[variable], *above][-1]}
    dimensions = [(unit["name"], d["name"]) for unit in case.arch for d in unit.get("spatial", [])]
    if dimensions and data.draw(st.booleans()):
        component, name = data.draw(st.sampled_from(dimensions))
        loop |= {"type": "Spatial", "component": component, "name": name}
    nodes.insert(at, loop)
    assert numbers(evaluate(case.with_nodes(nodes).spec)) == numbers(before)


@given(cases(), PRESETS, st.integers(0, 400), st.integers(0, 400))
def test_a_larger_memory_never_makes_a_mapping_invalid(case, semantics, size, more):
    def bounded(bits):
        return replace(case, arch=[{**n, "size": bits} if n["name"].startswith("Buffer") else n for n in case.arch])

    roomy = evaluated(case, semantics)
    needed = {name: round(usage * 10**6) for name, usage in usages(roomy).items()}
    for bits in (size, size + more):
        if max(needed.values(), default=0) <= bits:
            assert counts(evaluate(bounded(bits).spec, semantics=semantics)) == counts(roomy)
            continue
        with pytest.raises(EinmapError) as caught:
            evaluate(bounded(bits).spec, semantics=semantics)
        for problem in getattr(caught.value, "problems", [caught.value]):
            assert isinstance(problem, CapacityError)
            assert problem.needed_bits == needed[problem.component]
            assert problem.capacity_bits == bits


@given(cases(perfect=True))
def test_both_presets_move_the_same_inputs_when_tiles_divide(case):
    def inputs(semantics):
        return {key: n for key, n in counts(evaluated(case, semantics)).items() if key[1] in ("A", "B")}

    assert inputs("exact") == inputs("accelforge")


@given(cases())
def test_accelforge_never_needs_more_space_than_exact(case):
    exact, lowered = usages(evaluated(case)), usages(evaluated(case, "accelforge"))
    assert all(lowered[name] <= exact[name] for name in lowered)


@given(cases())
def test_a_mapping_survives_being_written_and_read(case):
    spec = case.spec
    assert numbers(evaluated(case)) == numbers(evaluate(spec.with_mapping(spec.mapping)))
