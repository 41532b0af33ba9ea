"""Properties of every evaluation, and the model against a machine that runs each loop."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from einmap import CapacityError, EinmapError, evaluate
from tests.model.interpreter import Machine
from tests.model.strategies import Case, cases
from tests.model.worked import counts, energies, latencies, usages

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
