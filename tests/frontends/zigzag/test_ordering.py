"""Temporal orderings of ZigZag's mappings as partly given mappings."""

import re

import pytest
from tests.frontends.zigzag.test_read import HARDWARE, imported, left

from einmap import SpecError
from einmap.frontends.foreign import GIVEN_FILE

PRODUCT = """
- {id: 0, operator_type: Gemm, equation: "O[b][k]+=W[k][c]*I[b][c]", loop_dims: [B, K, C], loop_sizes: [4, 8, 6],
   operand_precision: {W: 8, I: 8, O: 16, O_final: 8}}
"""
SPREAD = 'spatial_mapping: {D1: ["K, 4"], D2: ["C, 2"]}'
"""Of 4, 8 and 6 iterations 4, 2 and 3 are left to loops in time."""


def ordered(folder, ordering, spread=SPREAD, workload=PRODUCT):
    mapping = f"- name: default\n  {spread}\n  temporal_ordering: {ordering}\n"
    hardware = HARDWARE.replace("  systolic_dimensions: [D2]\n", "")
    return imported(folder, hardware=hardware, workload=workload, mapping=mapping)


def nodes_of(result):
    """Given nodes in short: `.` where storage nodes may come in, `*` where anything may, loops with tile shapes."""
    found = re.findall(r"!(\w+) \{(.*)\}", result.files[GIVEN_FILE])
    short = {("Any", ""): "*", ("Any", "temporal: false"): "."}
    return [
        short.get(entry) or re.sub(r"rank_variable: (\w)\d+(?:, tile_shape: )?", r"\1", entry[1]) for entry in found
    ]


def test_a_whole_ordering_leaves_the_memories_of_each_loop_to_the_mapper(tmp_path):
    result = ordered(tmp_path, "[[C, 3], [B, 4], [K, 2]]")
    assert nodes_of(result) == [".", "k4", ".", "b1", ".", "c2", "."]
    assert not [entry for entry in left(result) if "ordering" in entry[1]]


@pytest.mark.parametrize(
    ("ordering", "nodes", "reasons"),
    [
        # a loop may be cut in several, with others between
        ("[[B, 2], [C, 3], [B, 2], [K, 2]]", ". k4 . b2 . c2 . b1 .", []),
        # the loops of a part are the innermost ones; above them the others stand in any order
        ("[[C, 3], [B, 2]]", "* c6 b2 . b1 . c2 .", []),
        ('[[C, "*"]]', "* . c2 .", []),
        ('[[B, 2], ["*", "*"], [B, 2]]', ". b2 * b2 . b1 .", []),
        ('[["*", "*"], [K, 2]]', ". k4 * .", []),
        # the tile shape between two loops of any factor is not known
        ('[[B, "*"], [C, 3], [B, 2], [K, 2]]', "* c6 k8 . k4 . b . c2 . b1 .",
         ["B: beside loops over B of any factor, its place is kept, and its factor is searched"]),
        ("[[C, 3], [B, 5]]", "* c6 . b . c2 .",
         ["B: 5 does not divide the 4 iterations: its place is kept, and its factor is searched"]),
        ("[[C, 6]]", "* . c .",
         ["C: 6 does not divide the 6 iterations, of which 2 are spread: its place is kept, and its factor is searched"]),
        ("[[Z, 3], [C, 3]]", "* c6 . c2 .", ["Z: some layer of the mapping has no such loop"]),
    ],
)  # fmt: skip
def test_what_an_ordering_leaves_open_is_searched(tmp_path, ordering, nodes, reasons):
    result = ordered(tmp_path, ordering)
    assert " ".join(nodes_of(result)) == nodes
    prefix = "temporal_ordering."
    found = [f"{key.removeprefix(prefix)}: {why}" for _, key, why in left(result) if key.startswith(prefix)]
    assert found == reasons


def test_where_the_mapping_leaves_open_what_is_spread_the_order_alone_is_kept(tmp_path):
    result = ordered(tmp_path, "[[C, 6], [B, 4]]", spread="spatial_mapping_hint: {D1: [K], D2: [C]}")
    assert " ".join(nodes_of(result)) == "* . b . c ."
    reason = "its place is kept, and its factor is searched, as the mapping leaves open what is spread"
    assert [(key, why) for _, key, why in left(result) if "ordering" in key] == [
        ("temporal_ordering.B", reason), ("temporal_ordering.C", reason),
    ]  # fmt: skip


def test_a_factor_that_rounds_up_is_what_is_left(tmp_path):
    # 5 of 7 iterations: 4 lanes take two steps, which no tile shape of perfect factors says
    result = ordered(tmp_path, "[[C, 3], [B, 4], [K, 2]]", workload=PRODUCT.replace("[4, 8, 6]", "[4, 7, 6]"))
    assert " ".join(nodes_of(result)) == ". k . b1 . c2 ."
    assert not [entry for entry in left(result) if "ordering" in entry[1]]


@pytest.mark.parametrize(
    ("ordering", "message"),
    [
        ("3", "[0].temporal_ordering: expected a list of at most 10,000 items, found 3"),
        ("[C, 3]", "[0].temporal_ordering[0]: expected a list"),
        ("[[C, 3, 4]]", "[0].temporal_ordering[0]: expected a loop dimension and its factor, found a list of 3"),
        ("[[C, 0]]", "[0].temporal_ordering[0][1]: expected an integer of at least 1, at most 1,099,511,627,776, found 0"),
        ("[[C, many]]", "temporal_ordering[0][1]: expected an integer of at least 1"),
        ('[["*", 3]]', 'temporal_ordering[0]: expected ["*", "*"], once'),
        ('[["*", "*"], [C, 3], ["*", "*"]]', 'temporal_ordering[2]: expected ["*", "*"], once'),
    ],
)  # fmt: skip
def test_a_wrong_ordering_is_told_with_its_place(tmp_path, ordering, message):
    with pytest.raises(SpecError) as raised:
        ordered(tmp_path, ordering)
    assert message in str(raised.value)
    assert "mapping.yaml:3:" in str(raised.value)
