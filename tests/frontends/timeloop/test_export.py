"""Specifications as Timeloop's files: what they say is read as it was."""

import pytest
from tests.frontends.timeloop.designs import FORMS, design
from tests.frontends.timeloop.test_design import imported, spec_of

from einmap import SpecError, evaluate, load, loads
from einmap.frontends.timeloop.write import write


def counts(spec, bits=1):
    """Actions of `bits` of a value each, and how full the memories are."""
    cost = evaluate(spec)
    rows = {(r.component, r.tensor, r.action): r.count / (bits if r.tensor else 1) for r in cost.actions if r.count}
    return rows, {row.component: row.usage for row in cost.memory_usage if row.usage}


@pytest.mark.parametrize("form", FORMS)
def test_an_exported_design_has_the_same_cost(tmp_path, form):
    spec = spec_of(imported(tmp_path, design(form)))
    written = write(spec)
    again = spec_of(imported(tmp_path, "\n".join(written.files.values())))
    assert counts(again) == counts(spec)
    first, second = evaluate(spec), evaluate(again)
    assert (second.energy, second.latency) == pytest.approx((first.energy, first.latency))
    assert written.left_out == ()


def test_the_shipped_mapping_is_written_with_factors(tmp_path):
    spec = load("simple", "matmul", "simple_matmul")
    written = write(spec)
    nodes = written.files["mapping.yaml"].splitlines()
    # main memory runs m and n by 16 of 64, from the inside out n, m
    assert (
        nodes[1].strip() == "- {target: MainMemory, type: temporal, factors: [M=4, K=1, N=4], permutation: [N, M, K]}"
    )
    # an action moves one bit in the shipped architecture, a word of 8 bits in Timeloop's
    assert counts(spec_of(imported(tmp_path, "\n".join(written.files.values())))) == counts(spec, bits=8)
    assert {entry.key for entry in written.left_out} == {
        "MainMemory: energies",
        "GlobalBuffer: energies",
        "MAC: energies",
        "MainMemory.separate_read_write_ports",
    }


ARCH = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, component_class: Dummy, total_latency: 0, actions: []}
  - !Memory {name: Buf, size: 10000, component_class: Dummy, total_latency: 0, actions: []}
  - !Container {name: PE, spatial: [{name: X, fanout: 4}]}
  - !Memory {name: Reg, size: 10000, component_class: Dummy, total_latency: 0, actions: []}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, throughput: 1e9}]}
workload:
  rank_sizes: {M: 6, K: 8}
  bits_per_value: {All: 8}
  einsums: [{einsum: "Z[m] = A[m, k] * B[k]"}]
"""


def mapped(*nodes):
    listed = "\n".join(f"  - {node}" for node in nodes)
    return loads(f"{ARCH}mapping:\n  nodes:\n{listed}\n  - !Compute {{einsum: Z, component: MAC}}\n")


MAIN = "!Storage {component: Main, tensors: [A, B, Z]}"


SPREAD = "!Spatial {rank_variable: k, tile_shape: 2, component: PE, name: X}"


def loop(variable, shape):
    return f"!Temporal {{rank_variable: {variable}, tile_shape: {shape}}}"


def holds(component, *tensors):
    return f"!Storage {{component: {component}, tensors: [{', '.join(tensors)}]}}"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((MAIN, loop("m", 4), loop("m", 3), loop("k", 1), loop("m", 1)), "m in tiles of 4 that are cut into 3 leaves"),
        ((MAIN, holds("Buf", "A"), holds("Reg", "A"), loop("m", 3), loop("k", 1), loop("m", 1)), "two loops over m"),
        (
            (MAIN, holds("Buf", "A"), loop("m", 1), holds("Buf", "B"), loop("k", 1)),
            "A in Buf stands above the loop over m",
        ),
        (
            (MAIN, SPREAD, loop("k", 1), holds("Reg", "A"), loop("m", 1)),
            "crosses loops in time over it",
        ),
    ],
)
def test_a_tree_that_is_no_mapping_of_timeloop_is_refused(nodes, message):
    with pytest.raises(SpecError) as caught:
        write(mapped(*nodes))
    assert message in str(caught.value)
    assert caught.value.at.line is not None


def test_a_remainder_is_written_beside_its_factor():
    # m of 6 in tiles of 4, the last of 2
    written = write(mapped(MAIN, loop("m", 4), loop("k", 1), holds("Buf", "A"), loop("m", 1)))
    assert "factors: [M=2, K=8]" in written.files["mapping.yaml"]
    assert "M=4,2" in written.files["mapping.yaml"]


def test_what_is_counted_otherwise_is_listed():
    written = write(mapped(MAIN, loop("k", 2), loop("m", 1), holds("Buf", "B"), loop("k", 1)))
    found = {entry.key: entry.reason for entry in written.left_out}
    assert found["B in Buf"] == "it is fetched again in each iteration over m; Timeloop keeps it"


def test_loops_above_the_outermost_memory_count_for_what_is_inside():
    written = write(mapped(loop("m", 1), MAIN, holds("Buf", "B"), loop("k", 1)))
    assert [entry.key for entry in written.left_out if "Buf" in entry.key] == ["B in Buf"]


def test_words_of_several_widths_and_sums_that_are_brought_in_are_listed():
    text = (
        f"{ARCH}mapping: {{nodes: [{MAIN}, {loop('m', 1)}, {loop('k', 1)}, !Compute {{einsum: Z, component: MAC}}]}}\n"
    )
    text = text.replace("{All: 8}", "{A: 8, B: 8, Z: 16}").replace(
        "name: MAC,", "name: MAC, skip_initial_output_write: false,"
    )
    found = {entry.key for entry in write(loads(text)).left_out}
    assert {"Main: bits of values", "Buf: bits of values", "MAC.skip_initial_output_write"} <= found
