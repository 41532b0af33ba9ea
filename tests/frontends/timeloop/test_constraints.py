"""Constraints of Timeloop: where dimensions lie on a fanout of two dimensions, contradictions, and what is left out."""

import re

import pytest
from tests.frontends.timeloop.designs import FORMS, MAPPING, NODES, PROBLEM, SUBTREES
from tests.frontends.timeloop.test_design import BY_NAME, COMPOUND, CONSTRAINTS, OF_LEVELS, imported, spec_of

from einmap import NoMappingError, SpecError, map_workload

MESH = """
problem: {version: 0.4, shape: cnn-layer, instance: {R: 1, S: 1, P: 4, Q: 4, C: 32, K: 32, N: 1}}
architecture:
  version: 0.4
  nodes:
  - !Container {name: System, attributes: {technology: 45nm}}
  - !Component {name: Main, class: SRAM, attributes: {depth: 65536, width: 8, datawidth: 8}}
  - !Container
    name: PE
    spatial: {meshX: 16, meshY: 16}
    constraints: {spatial: {SPATIAL}}
  - !Component {name: Reg, class: regfile, attributes: {depth: 64, width: 8, datawidth: 8}}
  - !Component {name: MAC, class: intmac, attributes: {datawidth: 8}}
"""


def bounds(tmp_path, spatial, text=MESH):
    """Limits along X and Y by rank variable, and what is left out."""
    result = imported(tmp_path, text.replace("SPATIAL", spatial))
    nodes = spec_of(result).to_dict()["arch"]["nodes"]
    found = {}
    for entry in next(node for node in nodes if node["name"] == "PE")["spatial"]:
        for bound in entry.get("loop_bounds", []):
            for variable in bound["expression"].split(" | "):
                found.setdefault((entry["name"], variable), []).append((bound["operator"], bound["value"]))
    return {key: value[0] if len(value) == 1 else value for key, value in found.items()}, result.left_out


ORDER = "permutation: [C, N, R, S, P, Q, K], split: 1"
C_BY_K = {("X", "c"): ("==", 16), ("Y", "c"): ("==", 1), ("X", "k"): ("==", 1), ("Y", "k"): ("==", 16)}


@pytest.mark.parametrize(
    "spatial",
    [
        f"factors: [C=16, K=16, N=1, S=1, R=1, P=1, Q=1], {ORDER}",
        "factors: C16 K16, permutation: C, split: 1",  # what is not named lies behind
        "factors: C16 K16, permutation: C_K, split: 6",
        "factors: C16 K16, permutation: CNRSPQK",  # without split: no other place of it leaves room for both
    ],
)
def test_permutation_and_split_say_which_dimension_lies_where(tmp_path, spatial):
    found, left_out = bounds(tmp_path, spatial)
    assert {key: found[key] for key in C_BY_K} == C_BY_K
    assert not left_out


def test_what_lies_along_one_dimension_is_not_spread_over_the_other(tmp_path):
    found, left_out = bounds(tmp_path, "permutation: CPKQNRS, split: 2")
    assert {axis for axis, variable in found if variable in ("c", "p")} == {"Y"}
    assert {axis for axis, variable in found if variable in ("k", "q", "n")} == {"X"}
    assert {*found.values()} == {("==", 1)}
    assert not left_out
    found, _ = bounds(tmp_path, "split: 0")  # nothing lies along X
    assert {axis for axis, _ in found} == {"X"}


def test_limits_and_factors_of_earlier_constraints_are_joined(tmp_path):
    more = "architecture_constraints:\n  targets:\n  - {type: spatial, target: PE, factors: C<=8 K>=2 P=1}\n"
    found, left_out = bounds(tmp_path, ORDER, MESH + more)
    assert found["X", "c"] == ("<=", 8)
    assert found["Y", "k"] == (">=", 2)
    assert found["Y", "c"] == found["X", "k"] == ("==", 1)
    assert not left_out
    found, _ = bounds(tmp_path, "default_max_factor: 4, " + ORDER)
    assert (found["X", "c"], found["Y", "k"]) == (("<=", 4), ("<=", 4))


def test_where_both_dimensions_are_possible_the_loss_is_named(tmp_path):
    found, left_out = bounds(tmp_path, "factors: C=16 K=16")
    assert {key: found[key] for key in C_BY_K} == dict.fromkeys(C_BY_K, ("<=", 16))
    assert [entry.key for entry in left_out] == ["C=16", "K=16"]
    assert "it may lie along X or Y" in left_out[0].reason
    assert bounds(tmp_path, "factors: C<=4")[1][0].key == "C<=4"
    assert bounds(tmp_path, "factors: C>=4")[1][0].key == "C>=4"
    text = MESH.replace("meshX: 16", "meshX: 4")  # 16 do not fit along X
    found, left_out = bounds(tmp_path, "factors: C=16 K=4", text)
    assert {key: found[key] for key in C_BY_K} == {
        **{("X", "c"): ("==", 1), ("Y", "c"): ("==", 16), ("X", "k"): ("==", 4), ("Y", "k"): ("==", 1)}
    }
    assert not left_out


@pytest.mark.parametrize(
    ("spatial", "key", "reason"),
    [
        ("factors: C=0 K=16, permutation: K, split: 1", "C=0", "what is left of C is no limit"),
        ("factors: {C: -1}", "C=0", "what is left of C is no limit"),
        ("factors: C=64", "C=64", "C has 32: Timeloop passes over a factor that is larger"),
        ("factors: ['C=4,3'], permutation: C, split: 1", "C=4,3", "a limit is on the iterations of all but the last"),
        ("no_link_transfer: [Weights]", "no_link_transfer", "this spatial constraint has no counterpart"),
    ],
)
def test_what_limits_nothing_is_named(tmp_path, spatial, key, reason):
    _, left_out = bounds(tmp_path, spatial)
    assert [(entry.key, reason in entry.reason) for entry in left_out] == [(key, True)]


AGAIN = "\narchitecture_constraints:\n  targets:\n  - {type: spatial, target: PE, MORE}\n"


@pytest.mark.parametrize(
    ("spatial", "more", "message"),
    [
        (
            f"factors: C=16 K=32, {ORDER}",
            "",
            "C=16 K=32 have no room in PE, which has 16 copies along X and 16 along Y",
        ),
        ("factors: C=16 K=16, permutation: CKNRSPQ, split: 2", "", "with the first 2 of the permutation along X"),
        ("factors: C=32", "", "C=32 have no room"),
        ("factors: C=16 K=16 P=2", "", "have no room"),
        ("factors: C=16", "factors: C=8", "different C=16 and C=8"),
        ("split: 1", "split: 2", "different split"),
        ("permutation: CK", "permutation: KC", "different permutation"),
        ("factors: C=16", "factors: C<=8", "C is to have a factor of at least 16 and of at most 8"),
        ("factors: C=-2", "", "is not a number of iterations"),
        ("no_reuse: [Weight]", "", "'Weight' is not a data space"),
    ],
)
def test_contradictions_are_errors_with_their_place(tmp_path, spatial, more, message):
    text = MESH + (AGAIN.replace("MORE", more) if more else "")
    with pytest.raises(SpecError) as caught:
        bounds(tmp_path, spatial, text)
    assert message in str(caught.value)
    assert caught.value.at.line is not None


def test_a_level_that_is_to_keep_and_to_bypass_is_a_contradiction(tmp_path):
    both = "architecture_constraints:\n  targets:\n  - {type: dataspace, target: Reg, keep: [Z]}\n"
    both += "  - {type: bypass, target: Reg, bypass: [Z]}\n"
    with pytest.raises(SpecError, match="constraints both keep and bypass Z in Reg"):
        imported(tmp_path, PROBLEM + SUBTREES + both)


@pytest.mark.parametrize("factors", ["M=2", "{M: 2}", "K=1 M>=2"])
def test_a_factor_of_a_level_without_copies_is_an_error_with_its_place(tmp_path, factors):
    more = f"architecture_constraints:\n  targets:\n  - {{type: spatial, target: Main, factors: {factors}}}\n"
    with pytest.raises(SpecError, match=r"Main has no copies, over which M>?=2 could be spread") as caught:
        imported(tmp_path, PROBLEM + SUBTREES + more)
    assert caught.value.at.line == len((PROBLEM + SUBTREES + more).splitlines())


def test_the_mapper_keeps_weights_where_the_constraints_say(tmp_path):
    spec = spec_of(imported(tmp_path, MESH.replace("SPATIAL", f"factors: C=16 K=16 P=1 Q=1, {ORDER}")))
    best = map_workload(spec, metrics="energy")
    lanes = {(node.rank_variable.default, node.name) for node in best.mapping.nodes if type(node).__name__ == "Spatial"}
    assert lanes == {("c", "X"), ("k", "Y")}
    with pytest.raises(NoMappingError):  # 3 does not divide 32
        map_workload(spec_of(imported(tmp_path, MESH.replace("SPATIAL", "factors: C=3, permutation: C, split: 1"))))


def test_lists_of_tensors_that_are_not_shared_are_joined(tmp_path):
    more = AGAIN.replace("MORE", "no_multicast_no_reduction: [Weights]")
    result = imported(tmp_path, MESH.replace("SPATIAL", "no_reuse: [Inputs]") + more)
    assert result.files["architecture.yaml"].count("may_reuse: All - Input - Weights") == 2


OTHERS = """
architecture_constraints:
  targets:
  - {type: temporal, target: Reg, permutation: [N, M, K], factors: M=1, no_temporal_reuse: [A], rmw_first_update: [Z]}
  - {type: utilization, target: Reg, min: 0.5}
  - {type: max_overbooked_proportion, target: Buffer, proportion: 0.1}
  - {type: dataspace, target: Reg, keep: [Z], no_coalesce: [A]}
  - {type: dataspace, target: Rag, keep: [Z]}
  - {type: spatial, target: Main, factors: M=1 N<=4}
"""


def test_all_other_constraints_are_named(tmp_path):
    result = imported(tmp_path, PROBLEM + SUBTREES + OTHERS)
    assert [entry.key for entry in result.left_out] == [
        *("Reg: temporal permutation", "Reg: temporal factors"),
        *("Reg: temporal no_temporal_reuse", "Reg: temporal rmw_first_update"),
        *("Reg: utilization", "Buffer: max_overbooked_proportion", "no_coalesce", "Rag: dataspace"),
    ]


def test_fields_may_stand_below_attributes_and_a_level_be_called_by_its_name(tmp_path):
    text = "architecture_constraints:\n  targets:\n"
    text += "  - {type: bypass, name: Reg, attributes: {keep: [Z], bypass: [A, B]}}\n"
    result = imported(tmp_path, PROBLEM + SUBTREES + text)
    assert "tensors: {keep: Z, may_keep: Nothing}" in result.files["architecture.yaml"]
    assert not result.left_out


FREE = ("variables: {", "factors: {", "word: 8")
"""Where any name may stand."""
SAID = MAPPING + "- {target: Reg, type: dataspace, keep: [A, B, Z], bypass: []}\n"


def with_another_key(text):
    """`text` with one further key, in each dictionary in turn."""
    for match in re.finditer(r"\{(?=\w+:)", text):
        before = text[: match.end()]
        is_of_class = "classes:" in before and before.endswith("attributes: {")  # what Accelergy's formulas read
        if not before.endswith(FREE) and not is_of_class:
            yield f"{text[: match.end()]}another_key: 1, {text[match.end() :]}"
    for match in re.finditer(r"^( *(?:- )?)(?=\w[\w-]*:)", text, re.MULTILINE):
        indent = match[1]
        if indent:
            yield f"{text[: match.end()]}another_key: 1\n{' ' * len(indent)}{text[match.end() :]}"


@pytest.mark.parametrize(
    "text",
    [
        *(PROBLEM + form + SAID.replace("SPATIAL", "PE" if name == "0.4" else "Buffer") for name, form in FORMS.items() if name in ("0.1", "0.2", "0.4")),
        PROBLEM + SUBTREES + CONSTRAINTS,
        PROBLEM + SUBTREES + OF_LEVELS,
        PROBLEM + SUBTREES + BY_NAME.partition("  constraints_others")[0],
        MESH.replace("SPATIAL", ORDER),
        PROBLEM + NODES.replace("class: regfile", "class: magic") + COMPOUND,
    ],
    ids=["0.1", "0.2", "0.4", "constraints", "of levels", "by name", "of nodes", "compound"],
)  # fmt: skip
def test_every_key_is_read_or_named(tmp_path, text):
    imported(tmp_path, text)
    count = 0
    for changed in with_another_key(text):
        count += 1
        try:
            result = imported(tmp_path, changed)
        except SpecError:
            continue
        assert any("another_key" in entry.key for entry in result.left_out), changed
    assert count > 8
