"""Architectures and mappings of Timeloop in every version's form: counts worked out by hand."""

import random
import re

import pytest
from tests.frontends.timeloop.designs import FORMS, MAPPING, NODES, PROBLEM, PROCESSED, SUBTREES, design

from einmap import EinmapError, SpecError, evaluate, execute, loads
from einmap.errors import ManyErrors
from einmap.frontends.timeloop.read import read


def imported(tmp_path, text, **options):
    path = tmp_path / "design.yaml"
    path.write_text(text)
    return read([path], define={}, **options)


def spec_of(result):
    return loads("\n".join(result.files.values()))


# The loops are m 2 at Main, k 2 at Buffer, k 4 over the copies, m 2 and n 2 at Reg: 64 operations, 16 in each copy.
# Main gives Buffer 16 values of A for each m, and all 16 of B once, since m does not index B.
# Each Reg takes 2 values of A and of B for each m and k of the 2 x 2; its 4 sums of each m stay while k runs.
READS = {("Main", "A"): 32, ("Main", "B"): 16, ("Buffer", "A"): 32, ("Buffer", "B"): 32, ("Buffer", "Z"): 8}
READS |= {("Reg", "A"): 64, ("Reg", "B"): 64}
READS[("Reg", "Z")] = 64 - 4 * 2 * 4 + 4 * 2 * 4  # a sum that begins is not read, and each one is read to go out
WRITES = {("Main", "Z"): 8, ("Buffer", "A"): 32, ("Buffer", "B"): 16, ("Buffer", "Z"): 8}
WRITES |= {("Reg", "A"): 4 * 4 * 2, ("Reg", "B"): 4 * 4 * 2, ("Reg", "Z"): 64}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_counts_worked_out_by_hand(tmp_path, form):
    result = imported(tmp_path, design(form))
    assert list(result.files) == ["workload.yaml", "architecture.yaml", "mapping.yaml"]
    cost = evaluate(spec_of(result))
    counts = cost.count_by("action", "component", "tensor")
    assert {key[1:]: n for key, n in counts.items() if key[0] == "read" and n} == READS
    assert {key[1:]: n for key, n in counts.items() if key[0] == "write" and n} == WRITES
    assert counts["compute", "MAC", None] == 64
    # 72 reads of Buffer at 2 a cycle take longer than the 16 operations of a copy
    assert cost.latency == pytest.approx((32 + 32 + 8) / 2 * 1e-9)
    instances = {row.component: row.instances for row in cost.components}
    assert instances == {"Main": 1, "Buffer": 1, "Reg": 4, "MAC": 4}
    assert cost.energy > 0
    assert result.left_out == ()


def test_the_simulator_moves_what_the_imported_design_counts(tmp_path):
    spec = spec_of(imported(tmp_path, design("0.4")))
    counted = {(row.component, row.tensor, row.action): row.count for row in evaluate(spec).actions if row.count}
    assert {(row.component, row.tensor, row.action): row.count for row in execute(spec).actions if row.count} == counted


def test_a_window_is_a_line_buffer_where_it_is_the_innermost_loop(tmp_path):
    text = """
problem:
  shape:
    dimensions: [P, R, K]
    data-spaces:
    - {name: Weights, projection: [[[R]], [[K]]]}
    - {name: Inputs, projection: [[[P], [R]]]}
    - {name: Outputs, projection: [[[P]], [[K]]], read-write: true}
  instance: {P: 8, R: 3, K: 2}
architecture:
  subtree:
  - name: System
    local:
    - {name: Main, class: DRAM, attributes: {width: 8, word-bits: 8}}
    - {name: Reg, class: regfile, attributes: {depth: 64, width: 8, word-bits: 8}}
    - {name: MAC, class: intmac}
mapping:
- {target: Main, type: temporal, factors: P=4 K=2, permutation: ORDER}
- {target: Reg, type: temporal, factors: P=2 R=3}
"""
    # P innermost: of tiles of 4 values each after the first brings 2; for each of the two k anew
    cost = evaluate(spec_of(imported(tmp_path, text.replace("ORDER", "PKR"))))
    assert cost.count_by("action", "component", "tensor")["read", "Main", "Input"] == 2 * (4 + 3 * 2)
    # K innermost: the tile stays while k runs, and each of the 4 is brought in whole, as Timeloop's outputs have it
    result = imported(tmp_path, text.replace("ORDER", "KPR"))
    assert evaluate(spec_of(result)).count_by("action", "component", "tensor")["read", "Main", "Input"] == 4 * 4
    said = " ".join(note.text for note in result.notes)
    assert "fetched whole, 16 values in place of 10, as outputs of Timeloop have it; with sliding_window: true" in said
    slid = evaluate(spec_of(result).set("model", {"sliding_window": True}))
    assert slid.count_by("action", "component", "tensor")["read", "Main", "Input"] == 4 + 3 * 2
    # what stays in Timeloop across two loops over P is fetched whole here, which is said: 8 = 2 * 2 * 2
    two = text.replace("ORDER", "PKR").replace("P=4 K=2", "P=2 K=2")
    two = two.replace(
        "    - {name: Reg,",
        "    - {name: Mid, class: SRAM, attributes: {depth: 64, width: 8, word-bits: 8}}\n    - {name: Reg,",
    )
    two += "- {target: Mid, type: temporal, factors: P=2}\n- {target: Mid, type: bypass, bypass: [Inputs]}\n"
    result = imported(tmp_path, two)
    assert any("two loops over P move the window of Input in Reg" in note.text for note in result.notes)
    cost = evaluate(spec_of(result))
    assert cost.count_by("action", "component", "tensor")["read", "Main", "Input"] == 2 * 2 * (4 + 2)


MULTICAST = """
problem:
  shape:
    dimensions: [K, C, R, P]
    data-spaces:
    - {name: Weights, projection: [[[K]], [[C]], [[R]]]}
    - {name: Inputs, projection: [[[C]], [[P], [R]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read-write: true}
  instance: {K: 4, C: 2, R: 7, P: 8}
architecture:
  nodes:
  - !Component {name: Main, class: SRAM, attributes: {depth: 65536, width: 8, datawidth: 8}}
  - !Container {name: PE, spatial: {meshX: 224}}
  - !Component {name: Reg, class: regfile, attributes: {depth: 256, width: 8, datawidth: 8}}
  - !Component {name: MAC, class: intmac, attributes: {datawidth: 8}}
mapping:
- {target: Main, type: temporal, factors: K=2}
- {target: PE, type: spatial, factors: K=2 C=2 R=7 P=8}
- {target: Reg, type: temporal}
"""


def test_lanes_over_both_variables_of_a_window_are_said_to_fetch_every_copy(tmp_path):
    result = imported(tmp_path, MULTICAST)
    assert [note.text for note in result.notes if "lanes" in note.text] == [
        "112 lanes over P and R and C fetch 112 values of Input at a time into Reg, of which 28 differ: Timeloop reads "
        "a value once for all lanes that use it, here it is read for each of them"
    ]
    # the two k of the lanes share a read, which both count once
    assert evaluate(spec_of(result)).count_by("action", "component", "tensor")["read", "Main", "Input"] == 112
    one = MULTICAST.replace("R=7 P=8", "P=8").replace("type: temporal}", "type: temporal, factors: R=7}")
    said = " ".join(note.text for note in imported(tmp_path, one).notes)
    assert "16 lanes over P and C fetch 112 values of Input at a time into Reg, of which 28 differ" in said
    none = MULTICAST.replace("R=7 P=8", "P=8").replace("K=2}", "K=2 R=7}")
    assert not [note for note in imported(tmp_path, none).notes if "lanes" in note.text]


def test_data_spaces_pass_levels_by(tmp_path):
    bypass = "- {target: Buffer, type: bypass, keep: [A], bypass: [B, Z]}\n"
    spec = spec_of(imported(tmp_path, design("0.2", MAPPING + bypass)))
    counts = evaluate(spec).count_by("action", "component", "tensor")
    # the copies take B from Main, each its own k: 2 values for each of 2 m and 2 k
    assert counts["read", "Main", "B"] == 4 * 4 * 2
    assert counts["write", "Main", "Z"] == 8
    assert not any(component == "Buffer" and tensor not in ("A", None) for _, component, tensor in counts)


CONSTRAINTS = """
architecture_constraints:
  targets:
  - {type: dataspace, target: Reg, keep: [Z], bypass: [A, B]}
  - {type: dataspace, target: Buffer, keep: [A]}
  - {type: spatial, target: Buffer, factors: [M=1, N<=2], permutation: [M, K, N], no_multicast_no_reduction: true}
  - {type: temporal, target: Reg, permutation: [N, M, K]}
"""


def test_constraints_become_those_of_the_architecture(tmp_path):
    result = imported(tmp_path, PROBLEM + SUBTREES + CONSTRAINTS)
    arch = spec_of(result).to_dict()["arch"]["nodes"]
    assert {node["name"]: node.get("tensors") for node in arch if node["type"] == "Memory"} == {
        "Main": {"keep": "All"},
        "Buffer": {"keep": "A", "may_keep": "All"},
        "Reg": {"keep": "Z", "may_keep": "Nothing"},
    }
    (array,) = [node for node in arch if node["type"] == "Container"]
    assert array["spatial"][0]["loop_bounds"] == [
        {"expression": "m", "operator": "==", "value": 1},
        {"expression": "n", "operator": "<=", "value": 2},
    ]
    assert array["spatial"][0]["may_reuse"] == "Nothing"
    assert {(entry.key, entry.at.line) for entry in result.left_out} == {("Reg: temporal permutation", 35)}
    # by themselves they decide what a level of a mapping keeps
    counts = evaluate(spec_of(imported(tmp_path, design("0.2") + CONSTRAINTS))).count_by("component", "tensor")
    assert {tensor for component, tensor in counts if component == "Reg"} == {"Z", None}


def test_a_fanout_in_two_dimensions_is_filled_as_split_says(tmp_path):
    arch = NODES.replace("meshX: 4", "meshX: 2, meshY: 4").replace(
        "PE,", "PE, constraints: {spatial: {permutation: [M, K, N], split: 1}},"
    )
    mapping = MAPPING.replace("[K=0], permutation: KMN, split: 3", "K=4 M=2, permutation: MKN, split: 1").replace(
        "M: 2,", "M: 1,"
    )
    text = PROBLEM + arch + mapping.replace("SPATIAL", "PE")
    spec = spec_of(imported(tmp_path, text))
    assert [(row.dimension, row.usage) for row in evaluate(spec).spatial_usage] == [("X", 1), ("Y", 1)]
    assert not [note for note in evaluate(spec).notes if "loop_bounds" in note.text]
    without = text.replace(", split: 1}", "}", 2)
    assert [row.usage for row in evaluate(spec_of(imported(tmp_path, without))).spatial_usage] == [1, 1]


def test_subtrees_beside_one_another_are_levels_in_written_order(tmp_path):
    beside = "{name: WBuf, class: SRAM, attributes: {depth: 32, width: 8, word-bits: 8}}"
    place = "      subtree:\n      - name: PE"
    text = PROBLEM + SUBTREES
    assert place in text
    one = text.replace(place, f"      - {beside}\n{place}")
    two = text.replace(place, f"      subtree:\n      - {{name: Side, local: [{beside}]}}\n      - name: PE")
    assert imported(tmp_path, two).files == imported(tmp_path, one).files
    assert "WBuf" in imported(tmp_path, two).files["architecture.yaml"]


WRONG = [
    ("M=2 K=1", "M=3 K=1", "the factors of M make 6, its size is 4"),
    ("M=2 K=1", "M=2 X=1", "'X' is not a dimension"),
    ("M=2 K=1", "M=2 M=1", "two factors of M"),
    ("M=2 K=1 N=1", "'M=2,3 K=1'", "the last time there are 1 to 2 iterations, not 3"),
    ("M=2 K=1 N=1", "['M=2,', 1]", "remainders in a list need quotes"),
    ("M=2 K=1 N=1", "'M=2,1 K=1'", "the factors of M with their remainders make 2, its size is 4"),
    ("M=2 K=1", "M=99999999999999 K=1", "is too large"),
    ("KNM", "KKM", "K stands twice"),
    ("KNM", "{K: 1}", "expected a text, found a dictionary"),
    ("{target: Main,", "{target: Maim,", "'Maim' is not a level"),
    ("{target: Main,", "{", "mapping.target is missing"),
    ("- {target: Reg,", "- {target: Main,", "two temporal directives for Main"),
    ("target: Reg, type: temporal", "target: MAC, type: temporal", "it has no loops"),
    ("PE[0..3]", "PE[0..1]", "K=4 needs more copies than PE has left along X"),
    ("PE[0..3]", "PE[0,3]", "is not a name with a range"),
    ("PE[0..3]", "PE[3..0]", "runs backwards"),
    ("PE[0..3]", "PE[0..999999999999]", "more than"),
    ("depth: 64", "depth: [64]", "expected a whole number, found a list"),
    ("depth: 64", "depth: -1", "must be >= 1"),
    ("depth: 64", "depth: __import__('math')", "not"),
    ("depth: 64", "depth: 9**9**9", ""),
    ("read_bandwidth: 2", "read_bandwidth: 0", "moves nothing"),
    ("class: SRAM, ", "", "Buffer.class is missing"),
    (
        "  - name: System",
        "  - {name: Other, local: [{name: ALU, class: intmac}]}\n  - name: System",
        "2 of 2 subtrees have compute units, expected one",
    ),
    ("  - name: System", "  - {name: Other, subtree: []}\n  - name: System", "found an empty list"),
    (
        "  - name: System",
        "  - {name: 'Other[0..3]', local: [{name: B, class: SRAM}]}\n  - name: System",
        "copies in a subtree beside",
    ),
    ("mapping:", "mapping: 7\nx-mapping:", "expected a list, found 7"),
    ("architecture:", "architecture: []\nx-architecture:", "expected a dictionary, found a list"),
    ("problem:", "x-problem:", "read together with its problem"),
    ("read_write: true", "read_write: false", "found 0 of 3"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[f"{o} {n}"[:50] for o, n, _ in WRONG])
def test_what_is_wrong_is_an_error_with_its_place(tmp_path, old, new, message):
    text = design("0.2")
    assert old in text
    with pytest.raises(SpecError) as caught:
        imported(tmp_path, text.replace(old, new))
    problem = caught.value
    assert message in str(problem)
    assert problem.at is not None
    assert problem.at.file == str(tmp_path / "design.yaml")
    assert problem.at.line is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NODES.replace("!Container {name: System", "!Cluster {name: System"), "found !Cluster"),
        (NODES.replace("meshX: 4", "meshX: 4e30"), "more than"),
        (NODES.replace("class: DRAM", "class: intmac"), "computes and has components inside of it"),
        (NODES.replace("name: Buffer", "name: Main"), "'Main' is given twice"),
        (PROCESSED.replace("[1..4]', class: regfile", "[1..3]', class: regfile"), "do not divide"),
        ("architecture: {nodes: []}", "expected a memory"),
        ("mapper: {threads: 3}", "no file has a section that is read"),
        ("architecture: &a {nodes: [*a]}", "inside the node that it names"),
        ("a: [1", ""),
        ("architecture: {subtree: " + "[{subtree: " * 80 + "}]" * 80 + "}", ""),
    ],
)
def test_architectures_that_cannot_be_are_refused(tmp_path, text, message):
    with pytest.raises(SpecError) as caught:
        imported(tmp_path, text)
    assert message in str(caught.value)


def test_unknown_classes_and_attributes_are_named(tmp_path):
    result = imported(
        tmp_path, NODES.replace("class: regfile", "class: magic").replace("depth: 64", "depth: 64, banana: 3")
    )
    found = {entry.key: entry for entry in result.left_out}
    assert found["class: magic"].at.line == 16
    assert found["Buffer.banana"].at.line == 12
    assert "component_class: Dummy" in result.files["architecture.yaml"]


COMPOUND = """
components:
  version: 0.4
  classes:
  - name: magic
    attributes: {technology: must_specify}
    subcomponents: [{name: logic, class: fog, attributes: {}}, {name: storage, class: regfile, attributes: {width: width}}]
"""


def test_a_compound_component_has_the_price_of_the_first_part_with_a_model(tmp_path):
    arch = NODES.replace("class: regfile", "class: magic").replace(
        "name: System, attributes: {technology: 45nm}", "name: S"
    )
    result = imported(tmp_path, PROBLEM + arch.replace("variables: {", "variables: {technology: SET ME, ") + COMPOUND)
    nodes = {node["name"]: node for node in spec_of(result).to_dict()["arch"]["nodes"]}
    assert nodes["Reg"]["component_class"] == "regfile"
    assert nodes["Reg"]["extra_attributes_for_component_model"] == {"tech_node": "45nm", "width": 8}
    assert nodes["Main"]["extra_attributes_for_component_model"]["type"] == "LPDDR4"
    assert ["of its part of the class regfile" in entry.reason for entry in result.left_out] == [True]
    assert ["says its technology" in note.text for note in result.notes] == [True]


def test_a_word_of_another_width_takes_its_own_bits(tmp_path):
    text = design("0.4").replace(
        "{depth: 2 * word, width: word, datawidth: word}", "{depth: 8, width: 16, datawidth: 16}"
    )
    cost = evaluate(spec_of(imported(tmp_path, text)))
    # 2 values of A and of B and 4 sums of 16 bits
    assert {row.component: row.usage for row in cost.memory_usage}["Reg"] == 8 * 16 / (8 * 16)
    assert cost.count_by("action", "component", "tensor")["write", "Reg", "Z"] == 64


WORDS = ("0", "-1", "inf", "nan", "[]", "{}", "null", "~", "'x'", "[1, 2]", "{a: 1}", "9" * 30, "*a", "!Memory {}", "K")
WORDS += ("M=", "P=0", "..", "PE[0..", "!Component {name: Reg, class: SRAM}", "\u202e", "a" * 300, "{{ 7 }}", "<<: *x")


def changed(text, rng):
    """`text` with some words in other places, missing, or replaced by others."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        words = re.findall(r"\w+|[^\w\s]|\s+", text)
        here, there = rng.randrange(len(words)), rng.randrange(len(words))
        match rng.randrange(4):
            case 0:
                words[here] = rng.choice(WORDS)
            case 1:
                del words[here]
            case 2:
                words[here], words[there] = words[there], words[here]
            case _:
                words.insert(here, rng.choice(WORDS))
        text = "".join(words)
    return text


def check_changed_files(tmp_path, seeds):
    for seed in seeds:
        rng = random.Random(seed)
        text = changed(design(rng.choice([*FORMS])) + rng.choice([CONSTRAINTS, COMPOUND, ""]), rng)
        try:
            imported(tmp_path, text)
        except EinmapError as problem:
            assert problem.at is not None or isinstance(problem, ManyErrors), text


def test_changed_files_are_read_or_refused_with_a_place(tmp_path):
    check_changed_files(tmp_path, range(12))


@pytest.mark.slow
@pytest.mark.hostile
def test_many_changed_files_are_read_or_refused_with_a_place(tmp_path):
    check_changed_files(tmp_path, range(12, 2000))


OF_LEVELS = """
mapspace:
  targets:
  - name: Buffer
    constraints:
    - {type: bypassing, attributes: {keep: [A], bypass: [B, Z]}}
    - {type: spatial, attributes: {factors: M=1 N=1 K=4}}
"""
BY_NAME = """
mapspace:
  template: uber
  constraints: mine
  constraints_mine:
  - {target: Buffer, type: datatype, keep: [A], bypass: [B, Z]}
  - {target: Buffer, type: spatial, factors: M1 N1 K4}
  constraints_others:
  - {target: Buffer, type: datatype, keep: [B]}
"""


@pytest.mark.parametrize(("text", "left_out"), [(OF_LEVELS, []), (BY_NAME, ["constraints_others"])])
def test_constraints_of_a_level_together_or_in_a_list_with_a_name_are_read(tmp_path, text, left_out):
    result = imported(tmp_path, PROBLEM + FORMS["0.2"] + text)
    assert [entry.key for entry in result.left_out] == left_out
    architecture = result.files["architecture.yaml"]
    assert "tensors: {keep: A, may_keep: Nothing}" in architecture
    assert "{expression: k, operator: ==, value: 4}" in architecture


def test_a_memory_without_entries_is_the_place_of_a_fanout(tmp_path):
    rows = FORMS["0.1"].replace(
        "  - {name: Buffer", "  - {name: Row, entries: 0, instances: 2, meshX: 2}\n  - {name: Buffer"
    )
    mapping = MAPPING.replace("SPATIAL, type: spatial, factors: [K=0]", "Buffer, type: spatial, factors: [K=2]")
    mapping += """- {target: Row, type: temporal, factors: M1 K1 N1, permutation: MKN}
- {target: Row, type: spatial, factors: K=2, permutation: KMN}
- {target: Row, type: bypass, bypass: [A, B, Z]}
"""
    cost = evaluate(spec_of(imported(tmp_path, PROBLEM + rows + mapping)))
    counts = cost.count_by("action", "component", "tensor")
    assert {key[1:]: n for key, n in counts.items() if key[0] == "read" and n} == READS
    assert {row.component: row.instances for row in cost.components}["MAC"] == 4
