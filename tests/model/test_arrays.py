"""Memories spread over an array: by hand, against the simulator, and what is refused. 8 bits for each value."""

import random

import pytest
from tests.amounts import few_and_many
from tests.execute.agreement import differences
from tests.model.executed import differences as unexplained
from tests.model.worked import counts, latencies, usages
from tests.nests import nest
from tests.random_specs.arrays import draw_arrays

from einmap import MappingError, Spec, SpecError, dump, evaluate, execute, loads
from einmap.errors import NotSupportedError
from einmap.model.explanation.explain import explain

ARRAY = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0,
             actions: [{{name: read, energy: 10, throughput: inf}}, {{name: write, energy: 12, throughput: inf}}]}}
  - !Array
    name: Array
    spatial: [{{name: X, fanout: 4}}, {{name: Y, fanout: 4}}]
    nodes:
    - !Memory {{name: Buf, size: 64, leak_power: 1, area: 3, {units}
               actions: [{{name: read, energy: 1, throughput: 8}}, {{name: write, energy: 1, throughput: 8}}]}}
    - !Network {{name: Noc, leak_power: 0, area: 0, {topology}
                actions: [{{name: hops, energy: 2, latency: 1, throughput: 8}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: inf}}]}}
"""
OUTER = """
workload:
  iteration_space_shape: {m: 0 <= m < 4, n: 0 <= n < 4}
  bits_per_value: {All: 8}
  einsums: ["Z[m, n] = A[m] * B[n]"]
""" + nest("DRAM: A B Z / Buf: A B / m 1 @ Array.X / n 1 @ Array.Y / Z @ MAC")
FOUR = "spatial: [{name: X, fanout: 2}, {name: Y, fanout: 2}],"


def outer(units=FOUR, topology=""):
    return loads(ARRAY.format(units=units, topology=topology) + OUTER)


def actions(spec):
    """Values by tensor, component and action, in model and machine alike."""
    cost = evaluate(spec)
    assert list(differences(spec, cost, execute(spec))) == []
    return {(t, c, a): n / 8 for (_, t, c, a), n in counts(cost).items() if c in ("Buf", "Noc")}


def test_values_lie_next_to_their_lanes_and_those_that_units_share_are_dealt_out():
    found = actions(outer())
    # A: in each pair of columns one value goes a step along X, then each of 4 goes along all of Y, wherever it begins;
    # B: along all of X, then in each of 4 columns 2 values go a step along Y; Z comes from its lane at the first place
    assert found["A", "Noc", "hop"] == 2 + 4 * 3
    assert found["B", "Noc", "hop"] == 4 * 3 + 4 * 2
    assert found["A", "Buf", "read"] == found["A", "Buf", "write"] == 4
    cost = evaluate(outer())
    # two units share 2 values of A, and two share 2 of B: each has one of each, which it is written and read
    assert usages(cost)["Buf"] == 2 * 8 / 64
    assert latencies(cost, "Z")["Buf"] == 2 + 2
    assert cost.energy_by("component")["Buf",] == 16 * 8 + 4 * evaluate(outer()).latency


def longest(m, n, units):
    """Steps of the longest route, all tensors of the outer product in the units, in model and machine alike."""
    text = ARRAY.format(units=units, topology="").replace("latency: 1, throughput: 8", "latency: 1, throughput: inf")
    text = text.replace("size: 64", "size: 640")
    text += OUTER.replace("[A, B], component", "[A, B, Z], component").replace("m < 4", f"m < {m}")
    spec = loads(text.replace("n < 4", f"n < {n}"))
    cost, execution = evaluate(spec), execute(spec)
    assert list(differences(spec, cost, execution)) == []
    assert latencies(cost, "Z")["Noc"] == execution.longest_route["Z", "Noc"]
    return execution.longest_route["Z", "Noc"]


def test_the_longest_route_is_that_of_one_value_from_where_it_lies():
    # A[1] is the second value that two units share: it lies at place 2 of Y and goes a lane along X; A[0], at place 0,
    # is 3 lanes from the last one along Y, but goes none along X
    assert longest(4, 4, FOUR) == (1 + 1) + (2 + 1)
    # B[1] lies in the second unit, 2 lanes from the first one along X, and one from its own along Y
    assert longest(4, 2, "spatial: [{name: X, fanout: 2}],") == (2 + 1) + (1 + 1)
    # B[3] lies in the second unit, too; B[2] in the first one, 3 lanes from the last one along X, and 2 from its own
    assert longest(4, 4, "spatial: [{name: X, fanout: 2}],") == (2 + 1) + (3 + 1)
    assert longest(4, 4, FOUR + " replicate: Inputs,") == (1 + 1) + (1 + 1)


def test_copies_are_written_in_each_unit_and_read_there():
    found = actions(outer(FOUR + " replicate: Inputs,"))
    # 2 of the 4 units have a value: it is written twice, read once in each, and goes to the other lanes of its unit
    assert found["A", "Buf", "write"] == found["A", "Buf", "read"] == 4 * 2
    # A: a step along X in each of the 2 rows of units, then a step along Y for each of 4 values in each of 2 units
    assert found["A", "Noc", "hop"] == 2 * 2 + 4 * 2
    assert found["B", "Noc", "hop"] == 4 * 2 + 4 * 2
    assert usages(evaluate(outer(FOUR + " replicate: A,")))["Buf"] == (2 + 1) * 8 / 64


def test_one_unit_is_an_ordinary_memory_and_one_for_each_lane_needs_no_hops():
    single = actions(outer(""))
    assert (single["A", "Noc", "hop"], single["B", "Noc", "hop"]) == (1 + 2 + 3 + 4 * 3, 4 * 3 + 4 * (1 + 2 + 3))
    every = "spatial: [{name: X, fanout: 4}, {name: Y, fanout: 4}], replicate: All,"
    everywhere = actions(outer(every))
    assert ("A", "Noc", "hop") not in everywhere
    assert everywhere["A", "Buf", "read"] == everywhere["A", "Buf", "write"] == 16


def test_values_that_a_stride_leaves_out_lie_with_those_of_their_lane():
    # no lanes: A's values 0, 2, 4 and 6, and what is between, lie in the first unit
    loops = "".join(f"  - !Temporal {{rank_variable: {v}, tile_shape: 1}}\n" for v in "mn")
    head, tail = OUTER.replace("A[m]", "A[H: 2 * m]").split("  - !Spatial", 1)
    text = head.replace("[A, B], component", "[A], component") + loops + tail[tail.index("  - !Compute") :]
    spec = loads(ARRAY.format(units=FOUR, topology="") + text)
    cost = evaluate(spec)
    assert list(differences(spec, cost, execute(spec))) == []
    assert usages(cost)["Buf"] == 7 * 8 / 64
    # lanes that take turns over m lie beside each other: 1 and 3 go a step along X, all of them along Y
    turns = OUTER.replace(
        "  - !Spatial {rank_variable: m",
        "  - !Temporal {rank_variable: m, tile_shape: 2}\n  - !Spatial {rank_variable: m",
    )
    assert actions(loads(ARRAY.format(units=FOUR, topology="") + turns))["A", "Noc", "hop"] == 2 + 4 * 3


def test_all_to_all_takes_a_step_to_each_lane_but_that_of_the_unit():
    found = actions(outer(topology="topology: all_to_all,"))
    assert (found["A", "Noc", "hop"], found["B", "Noc", "hop"]) == (2 + 4 * 3, 4 * 3 + 4 * 2)


def test_area_leakage_and_instances_are_of_units():
    spec = outer()
    assert spec.arch().instances == {"DRAM": 1, "Buf": 4, "Noc": 1, "Array": 16, "MAC": 16}
    assert (spec.arch().total_area, spec.arch().total_leak_power) == (12, 4)
    assert [leaf.name for leaf in spec.arch().path("MAC")] == ["DRAM", "Buf", "Noc", "Array", "MAC"]


def test_an_array_is_dumped_and_read():
    spec = outer(FOUR + " replicate: A,")
    assert counts(evaluate(loads(dump(spec)))) == counts(evaluate(spec))


def test_every_number_of_an_explanation_is_what_an_execution_counts():
    explained = 0
    for seed in range(16):
        spec = Spec.from_dict(draw_arrays(random.Random(seed)))
        try:
            said = explain(spec)
        except (MappingError, NotSupportedError) as error:
            assert "not supported" in str(error)
            continue
        explained += 1
        assert list(unexplained(spec, said)) == [], seed
        assert said.unexplained == ()
    assert explained >= 12


def judged(seeds):
    """How many random mappings could be counted, all of which cost what they do."""
    counted = 0
    for seed in seeds:
        spec = Spec.from_dict(draw_arrays(random.Random(seed)))
        try:
            cost = evaluate(spec)
        except (MappingError, NotSupportedError):
            continue
        counted += 1
        assert list(differences(spec, cost, execute(spec))) == [], seed
    return counted


@few_and_many("seeds, least", (range(10), 8), (range(1000, 1600), 130), parts=4, part="simulator")
def test_random_mappings_over_arrays_cost_what_they_do(seeds, least):
    assert judged(seeds) >= least


FUSED = """
workload:
  iteration_space_shape: {m: 0 <= m < 4, n: 0 <= n < 4}
  bits_per_value: {All: 8}
  einsums: ["Y[m, n] = A[m] * B[n]", "Z[m, n] = Y[m, n] * C[n]"]
""" + nest("DRAM: A B C Z / Buf: Y / (m 1 @ Array.X / n 1 / Y @ MAC | m 1 @ Array.X / n 1 / Z @ MAC)")


def test_fused_einsums_find_a_tensor_in_the_units_where_it_was_written():
    spec = loads(ARRAY.format(units=FOUR, topology="") + FUSED)
    assert list(differences(spec)) == []
    assert usages(evaluate(spec))["Buf"] == 8 * 8 / 64
    head, _, tail = FUSED.rpartition("rank_variable: m, tile_shape: 1")
    moved = tail.replace("rank_variable: n", "rank_variable: m")
    other = loads(ARRAY.format(units=FOUR, topology="") + head + "rank_variable: n, tile_shape: 1" + moved)
    with pytest.raises(NotSupportedError, match=r"'Y' is held once in the units of 'Buf'.*other parts"):
        evaluate(other)


@pytest.mark.parametrize(
    ("units", "topology", "words"),
    [
        ("spatial: [{name: X, fanout: 3}],", "", "3 units of 'Buf' do not divide the 4 lanes of Array.X"),
        ("spatial: [{name: Z, fanout: 2}],", "", "'Array' has no dimension 'Z'.*X"),
        ("spatial: [{name: X, fanout: 2, may_reuse: A}],", "", "only the number of units may be said, not 'may_reuse'"),
        (FOUR + " wind_up: true,", "", "'wind_up' of 'Buf', which is several units"),
        (FOUR, "topology: ring,", "'Noc' is a ring beside the units of 'Buf'"),
        ("", "spatial: [{name: X, fanout: 2}],", "'Noc' stands inside an array"),
        (FOUR + " replicate: Q,", "", "'Q'|Q"),
    ],
)
def test_bad_units_are_named_with_their_place(units, topology, words):
    with pytest.raises(SpecError, match=f"(?s){words}") as error:
        evaluate(outer(units, topology))
    assert "arch.nodes" in str(error.value)


@pytest.mark.parametrize("tag", ["Compute", "Fork", "Hierarchical", "Container", "Array"])
def test_only_memories_networks_and_tolls_stand_in_an_array(tag):
    text = ARRAY.format(units="", topology="").replace(
        "    nodes:\n", f"    nodes:\n    - !{tag} {{name: Odd, nodes: []}}\n", 1
    )
    with pytest.raises(SpecError, match=f"a !{tag} cannot stand inside an !Array"):
        loads(text + OUTER).arch()


@pytest.mark.parametrize(
    ("option", "words"),
    [("buffering: single", "take turns beside 'Buf', which is several units"), ("stalls: tile_by_tile", "beside a memory")],
)  # fmt: skip
def test_what_takes_turns_with_units_is_refused(option, words):
    text = ARRAY.format(units=FOUR, topology="").replace("name: DRAM,", f"name: DRAM, {option},")
    network = text[text.index("    - !Network") : text.index("  - !Compute")]
    with pytest.raises(NotSupportedError, match=words):
        evaluate(loads(text.replace(network, "") + OUTER))


def test_an_output_that_units_would_have_copies_of_is_refused_where_it_is_replicated():
    # each value of Z is needed by the lanes of one unit
    held = OUTER.replace("[A, B], comp", "[A, B, Z], comp")
    plain, copied = (
        ARRAY.replace("size: 64", "size: 96").format(units=FOUR + r, topology="") for r in ("", " replicate: Z,")
    )
    assert counts(evaluate(loads(copied + held))) == counts(evaluate(loads(plain + held)))
    summed = held.replace("Z[m, n] = A[m] * B[n]", "Z[n] = A[m] * B[m, n]")
    with pytest.raises(NotSupportedError, match=r"'Z'.*units of 'Buf'.*copies.*\n.*leave it out of replicate") as error:
        evaluate(loads(copied + summed))
    assert 'nodes[0] "Buf".replicate:' in str(error.value)


def test_replicate_outside_an_array_is_refused():
    text = ARRAY.format(units="", topology="").replace("name: DRAM,", "name: DRAM, replicate: A,")
    with pytest.raises(SpecError, match="'DRAM' is one memory, which stands in no array"):
        evaluate(loads(text + OUTER))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"m < 4": "m < 5", "rank_variable: m, tile_shape: 1, component": "rank_variable: m, tile_shape: 2, component",
          "  - !Compute": "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Compute"}, "'m' do not divide evenly"),
        ({"  - !Spatial {rank_variable: n": "  - !Spatial {rank_variable: n, tile_shape: 2, component: Array, name: Y}\n"
          "  - !Spatial {rank_variable: n"}, ""),
    ],
)  # fmt: skip
def test_tiles_that_lanes_do_not_cut_evenly_are_refused(change, words):
    text = OUTER
    for old, new in change.items():
        text = text.replace(old, new)
    spec = loads(ARRAY.format(units=FOUR, topology="") + text)
    if not words:
        assert list(differences(spec)) == []
        return
    with pytest.raises((NotSupportedError, MappingError), match=words):
        evaluate(spec)


def test_lanes_that_do_not_fit_units_are_named():
    text = ARRAY.format(units="spatial: [{name: X, fanout: 3}],", topology="").replace("X, fanout: 4", "X, fanout: 6")
    loops = "  - !Spatial {rank_variable: n, tile_shape: 1, component: Array, name: X}\n"
    tree = OUTER.replace("m < 4", "m < 2").replace("n < 4", "n < 3")
    tree = tree.replace("  - !Spatial {rank_variable: n, tile_shape: 1, component: Array, name: Y}\n", loops)
    with pytest.raises(MappingError, match=r"'m' stand 3 places apart in Array.X.*serves 2"):
        evaluate(loads(text + tree))


def test_windows_that_lanes_share_are_refused_and_what_units_share_under_accelforge():
    tree = OUTER.replace('"Z[m, n] = A[m] * B[n]"', '"Z[m, n] = A[H: m + n] * B[n]"')
    with pytest.raises(NotSupportedError, match=r"'A'.*'Buf'.*overlap"):
        evaluate(loads(ARRAY.format(units=FOUR, topology="") + tree))
    with pytest.raises(NotSupportedError, match=r"accelforge does not know how units of 'Buf' share 'A'"):
        evaluate(outer(), semantics="accelforge")
