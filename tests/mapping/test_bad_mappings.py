"""Bad mappings are refused, and the message says which node is wrong and why."""

import pytest
from tests.machines import workload

from einmap import CapacityError, EinmapError, FanoutError, MappingError, evaluate, loads

ARCH = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, component_class: Dummy}
  - !Toll {name: Link, direction: down, component_class: Dummy}
  - !Memory {name: Buffer, size: 100, component_class: Dummy%s}
  - !Compute {name: MAC, component_class: Dummy, spatial: [{name: X, fanout: 2}]}
  - !Compute {name: Spare, component_class: Dummy, enabled: false}
"""
ONE = workload("M: 4, K: 3", "C[m] = A[m, k]")
TWO = workload("M: 4, K: 3", "C[m] = A[m, k]", "D[m] = C[m]")


def tree(*nodes):
    return "mapping:\n  nodes:\n" + "".join(f"  - {node}\n" for node in nodes)


def lacking(text, words, kind=EinmapError, strict=False):
    """Those of the words that the message about `text` does not contain."""
    with pytest.raises(kind) as caught:
        evaluate(loads(text), strict=strict)
    said = str(caught.value)
    return [word for word in words if word.lower() not in said.lower()]


MAIN = "!Storage {component: Main, tensors: [A, C]}"
M1 = "!Temporal {rank_variable: m, tile_shape: 1}"
K1 = "!Temporal {rank_variable: k, tile_shape: 1}"
UNIT = "!Compute {einsum: C, component: MAC}"


def loop(variable, shape):
    return f"!Temporal {{rank_variable: {variable}, tile_shape: {shape}}}"


def lanes(variable, shape, component="MAC", name="X"):
    return f"!Spatial {{rank_variable: {variable}, tile_shape: {shape}, component: {component}, name: {name}}}"


def held(component, *tensors):
    return f"!Storage {{component: {component}, tensors: [{', '.join(tensors)}]}}"


def test_the_plain_mapping_is_good():
    assert evaluate(loads(ARCH % "" + ONE + tree(MAIN, M1, K1, UNIT)), strict=True).latency == 0


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        pytest.param([MAIN, "!Loop {rank_variable: m}", M1, K1, UNIT], ["!Loop", "unknown", "Temporal"], id="101 unknown tag"),
        pytest.param([MAIN, "{rank_variable: m, tile_shape: 1}", K1, UNIT], ["tag", "!Temporal"], id="101 no tag"),
        pytest.param([MAIN, "!Temporal {rank_variable: m, n_iterations: 4}", K1, UNIT], ["n_iterations", "tile_shape"], id="102 iterations"),
        pytest.param([MAIN, "!Temporal {rank_variable: m, tile_shap: 1}", K1, UNIT], ["'tile_shap'", "did you mean 'tile_shape'"], id="102 unknown field"),
        pytest.param([MAIN, "!Temporal {rank_variable: m}", K1, UNIT], ["tile_shape"], id="no tile shape"),
        pytest.param([MAIN, K1, UNIT], ["'m'", "'C'", "tile shape 1", "innermost tile 4"], id="104 no loop"),
        pytest.param([MAIN, loop("m", 2), K1, UNIT], ["'m'", "'C'", "innermost tile 2"], id="104 not down to one"),
        pytest.param([MAIN, loop("m", 100), M1, K1, UNIT], ["100", "'m'", "extent 4"], id="105 larger than the extent"),
        pytest.param([MAIN, M1, loop("m", 2), K1, UNIT], ["2", "'m'", "grows inward"], id="106 grows inward"),
        pytest.param([MAIN, loop("m", 0), K1, UNIT], ["tile shape", ">= 1", "0"], id="107 zero"),
        pytest.param([MAIN, loop("m", -2), K1, UNIT], ["tile shape", ">= 1", "-2"], id="107 negative"),
        pytest.param([MAIN, loop("m", 1.5), K1, UNIT], ["1.5"], id="107 fraction"),
        pytest.param([MAIN, loop("zz", 1), M1, K1, UNIT], ["'zz'", "not a rank variable", "'C'", "k, m"], id="108 unknown variable"),
        pytest.param([MAIN, loop("M", 1), K1, UNIT], ["'M'", "did you mean 'm'"], id="109 a rank for a variable"),
        pytest.param([held("Main", "A", "C", "QQ"), M1, K1, UNIT], ["no tensor 'QQ'", "A, C"], id="110 unknown tensor"),
        pytest.param([held("Main", "A"), M1, K1, UNIT], ["'C'", "no memory holds"], id="111 held nowhere"),
        pytest.param([MAIN, held("GLB", "A"), M1, K1, UNIT], ["'GLB'", "no component", "Buffer"], id="112 unknown component"),
        pytest.param([MAIN, held("Bufer", "A"), M1, K1, UNIT], ["'Bufer'", "did you mean 'Buffer'"], id="112 misspelt component"),
        pytest.param([MAIN, held("MAC", "A"), M1, K1, UNIT], ["'MAC'", "is a Compute", "Memory"], id="113 storage in a Compute"),
        pytest.param([MAIN, held("Link", "A"), M1, K1, UNIT], ["'Link'", "is a Toll", "Memory"], id="113 storage in a Toll"),
        pytest.param([MAIN, "!Toll {component: Buffer, tensors: [A]}", M1, K1, UNIT], ["'Buffer'", "is a Memory", "Toll"], id="113 toll in a Memory"),
        pytest.param([MAIN, M1, K1, "!Compute {einsum: C, component: Main}"], ["'Main'", "is a Memory", "Compute"], id="113 compute in a Memory"),
        pytest.param([MAIN, M1, K1, "!Compute {einsum: C, component: ALU}"], ["'ALU'", "no component", "MAC"], id="112 unknown unit"),
        pytest.param([MAIN, M1, K1, "!Compute {einsum: CC, component: MAC}"], ["no Einsum 'CC'", "did you mean 'C'"], id="114 unknown Einsum"),
        pytest.param([MAIN, M1, K1], ["Compute", "end"], id="115 no compute"),
        pytest.param([MAIN, M1, K1, UNIT, held("Buffer", "A")], ["follow", "Compute"], id="115 compute not last"),
        pytest.param([MAIN, M1, K1, UNIT, UNIT], ["follow", "Compute"], id="115 two computes"),
        pytest.param([MAIN, held("Main", "A"), M1, K1, UNIT], ["'A'", "twice", "'Main'"], id="116 held twice"),
        pytest.param([held("Main", "A", "A", "C"), M1, K1, UNIT], ["'A'", "twice"], id="116 listed twice"),
        pytest.param([held("Buffer", "A"), MAIN, M1, K1, UNIT], ["'A'", "hierarchy", "'Main'", "'Buffer'"], id="117 against the hierarchy"),
        pytest.param([MAIN, lanes("m", 2, name="Y"), M1, K1, UNIT], ["'Y'", "MAC", "dimension", "X"], id="118 unknown dimension"),
        pytest.param([MAIN, lanes("m", 2, component="PE"), M1, K1, UNIT], ["'PE'", "no component", "MAC"], id="118 unknown component"),
        pytest.param([MAIN, lanes("m", 2, component="Buffer"), M1, K1, UNIT], ["'Buffer'", "dimension"], id="118 no dimensions"),
        pytest.param(["!Toll {component: Link, tensors: [A]}", MAIN, M1, K1, UNIT], ["Toll", "outermost", "'A'"], id="a toll first"),
        pytest.param([held("Main", "C"), held("Buffer", "A"), M1, K1, UNIT], ["'A'", "'Buffer'", "Main"], id="input from nowhere"),
        pytest.param(["!Pipeline {nodes: []}"], ["Pipeline", "needs a list of branches"], id="pipeline"),
    ],
)  # fmt: skip
def test_a_bad_mapping(nodes, words):
    assert lacking(ARCH % "" + ONE + tree(*nodes), words) == []


@pytest.mark.parametrize("mapping", ["", "mapping: {nodes: []}"])
def test_there_must_be_something_to_evaluate(mapping):
    said = ["mapping"] if mapping else ["no mapping", "mapping:", "map"]
    assert lacking(ARCH % "" + ONE + mapping, said, MappingError) == []


def test_an_error_names_the_line_and_the_node():
    text = ARCH % "" + ONE + tree(MAIN, M1, loop("m", 2), K1, UNIT)
    line = text.splitlines().index(f"  - {loop('m', 2)}") + 1
    assert lacking(text, [f"<text>:{line}:", "mapping.nodes[2]"], MappingError) == []


def test_more_instances_than_a_fanout_has():
    text = ARCH % "" + ONE + tree(MAIN, lanes("m", 1), K1, UNIT)
    assert lacking(text, ["4 instances", "MAC.X", "fanout is 2"], FanoutError) == []


def test_ragged_lanes_are_rounded_up_before_they_are_compared_with_the_fanout():
    good = tree(MAIN, lanes("k", 2), loop("k", 1), M1, UNIT)
    assert evaluate(loads(ARCH % "" + ONE + good)).spatial_usage[0].usage == 1
    bad = ONE.replace("K: 3", "K: 5") + tree(MAIN, lanes("k", 2), loop("k", 1), M1, UNIT)
    assert lacking(ARCH % "" + bad, ["3 instances", "MAC.X"], FanoutError) == []


def test_a_memory_that_is_too_small():
    text = ARCH % "" + ONE + tree(MAIN, held("Buffer", "A", "C"), M1, K1, UNIT)
    # A 4*3 and C 4 values of 8 bits
    with pytest.raises(CapacityError) as caught:
        evaluate(loads(text))
    error = caught.value
    assert (error.component, error.needed_bits, error.capacity_bits) == ("Buffer", 128, 100)
    said = str(error)
    assert [w for w in ("'Buffer'", "128", "100", "A 96", "C 32", "nodes[1]", "tile shape") if w not in said] == []


def split(first, second):
    """Two branches below Main and a loop over m."""
    lines = [
        "mapping:", "  nodes:", "  - !Storage {component: Main, tensors: [A, C, D]}", "  - !Sequential", "    nodes:",
    ]  # fmt: skip
    for branch in (first, second):
        lines += ["    - !Nested", "      nodes:", *(f"      - {node}" for node in branch)]
    return "\n".join(lines) + "\n"


SECOND = [M1, "!Compute {einsum: D, component: MAC}"]


def test_a_split_with_two_branches_is_good():
    assert evaluate(loads(ARCH % "" + TWO + split([M1, K1, UNIT], SECOND))).latency == 0


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        pytest.param(split([M1, K1, UNIT], [M1, K1, UNIT]), ["'C'", "twice", "'D'", "not mapped"], id="114 mapped twice"),
        pytest.param(tree(held("Main", "A", "C", "D"), M1, K1, UNIT), ["'D'", "not mapped"], id="114 not mapped"),
        pytest.param(split(SECOND, [M1, K1, UNIT]), ["'D'", "'C'", "before", "order"], id="123 consumer first"),
        pytest.param(split([M1, K1, UNIT], [M1]), ["Compute"], id="115 a branch without compute"),
        pytest.param(split([M1, K1, UNIT], SECOND) + "  - " + M1 + "\n", ["follow", "Sequential"], id="121 after a split"),
        pytest.param(
            tree("!Nested {nodes: [" + UNIT + "]}", MAIN, M1, K1), ["follow", "Nested"], id="121 Nested in the middle"
        ),
        pytest.param(
            tree(held("Main", "A", "C", "D"), "!Sequential {nodes: [" + UNIT + "]}"), ["!Nested", "wrap"], id="122 a bare compute"
        ),
        pytest.param(tree(held("Main", "A", "C", "D"), "!Sequential {nodes: []}"), ["branches"], id="122 no branches"),
        pytest.param(
            split([held("Buffer", "C"), M1, K1, UNIT], SECOND).replace("[A, C, D]", "[A, D]"), ["'C'"], id="124 held in one branch"
        ),
        pytest.param(
            split([held("Buffer", "C"), M1, K1, UNIT], [held("Main", "C"), *SECOND]).replace("[A, C, D]", "[A, D]"),
            ["'C'", "'Buffer'", "'Main'", "'D'"],
            id="124 backed in two places",
        ),
        pytest.param(
            tree(
                held("Main", "A", "D"), "!Temporal {rank_variable: k, tile_shape: 1}", held("Buffer", "C"),
                "!Sequential {nodes: [!Nested {nodes: [" + M1 + ", " + UNIT + "]}, !Nested {nodes: [" + ", ".join(SECOND) + "]}]}",
            ),
            ["'k'", "'D'", "rank variable"],
            id="a loop above a split on a variable that one branch lacks",
        ),
        pytest.param(
            tree(
                held("Main", "A", "D"),
                "!Sequential {nodes: [!Nested {nodes: [" + ", ".join([M1, K1, held("Buffer", "C"), UNIT])
                + "]}, !Nested {nodes: [" + ", ".join([M1, held("Buffer", "C"), SECOND[1]]) + "]}]}",
            ),
            ["'k'", "'C'", "half-reduced"],
            id="a reduction above the intermediate",
        ),
    ],
)  # fmt: skip
def test_a_bad_split(mapping, words):
    assert lacking(ARCH % "" + TWO + mapping, words, EinmapError) == []


# what the architecture demands: a note, or an error on request


@pytest.mark.parametrize(
    ("demand", "nodes", "said"),
    [
        pytest.param(", tensors: {keep: A}", [MAIN, M1, K1, UNIT], "Buffer must keep 'A'", id="keep"),
        pytest.param(
            ", tensors: {keep: C}", [MAIN, M1, held("Buffer", "A", "C"), K1, UNIT], "Buffer may not keep 'A'", id="may_keep"
        ),
        pytest.param("", [MAIN, M1, K1, UNIT.replace("MAC", "Spare")], "Spare is not enabled", id="disabled Compute"),
        pytest.param(
            ", enabled: len(All) == 3", [MAIN, M1, held("Buffer", "A"), K1, UNIT], "Buffer is not enabled", id="disabled Memory"
        ),
        pytest.param("", [held("Main", "A"), M1, held("Buffer", "C"), K1, UNIT], "the result 'C' stays in Buffer", id="a result that stays"),
        pytest.param(
            "", [held("Main", "A"), M1, held("Buffer", "A"), held("Main", "C"), K1, UNIT], "against the hierarchy", id="order of the hierarchy"
        ),
    ],
)  # fmt: skip
def test_a_demand_of_the_architecture(demand, nodes, said):
    text = ARCH % demand + ONE + tree(*nodes)
    assert any(said in str(note) and "'C'" in str(note) for note in evaluate(loads(text)).notes)
    assert lacking(text, [said], MappingError, strict=True) == []


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("min_usage: 1", "min_usage"),
        ("reuse: A", "must reuse 'A'"),
        ("loop_bounds: [{expression: m, operator: ==, value: 1}]", "loop_bounds"),
        ("usage_scale: 3", "usage"),
    ],
)
def test_a_demand_of_a_fanout(limit, said):
    text = (ARCH % "").replace("{name: X, fanout: 2}", f"{{name: X, fanout: 4, {limit}}}")
    mapping = tree(MAIN, lanes("m", 2), M1, K1, UNIT)
    assert lacking(text + ONE + mapping, [said, "MAC.X"], MappingError, strict=True) == []
    assert any(said in str(note) for note in evaluate(loads(text + ONE + mapping)).notes)


def hint_of(nodes, workload=ONE):
    with pytest.raises(MappingError) as caught:
        evaluate(loads(ARCH % "" + workload + (nodes if isinstance(nodes, str) else tree(*nodes))))
    return str(caught.value)


def test_splits_are_mentioned_only_where_there_is_one():
    assert "split" not in hint_of([MAIN, loop("zz", 1), M1, K1, UNIT])
    above = tree(
        held("Main", "A", "D"), K1, held("Buffer", "C"),
        "!Sequential {nodes: [!Nested {nodes: [" + M1 + ", " + UNIT + "]}, !Nested {nodes: [" + ", ".join(SECOND) + "]}]}",
    )  # fmt: skip
    assert "a loop above a split must be on a variable of every Einsum below it" in hint_of(above, TWO)


def lasting(component, *tensors):
    return held(component, *tensors).replace("}", ", persistent: true}")


def test_what_lasts_for_the_whole_run_stands_above_all_temporal_loops():
    words = ["persistent", "'Buffer'", "loop over 'm'", "above all temporal loops", "mapping.nodes[2]"]
    assert lacking(ARCH % "" + ONE + tree(MAIN, M1, lasting("Buffer", "A"), K1, UNIT), words, MappingError) == []
    for good in (
        [MAIN, lasting("Buffer", "A"), M1, K1, UNIT],
        [MAIN, loop("m", 4), lasting("Buffer", "A"), M1, K1, UNIT],
    ):
        evaluate(loads(ARCH % "" + ONE + tree(*good)))
