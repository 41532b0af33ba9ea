"""Partial sums that are wider than results: worked out by hand, and judged by the simulator on random mappings."""

import random

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.emit.running import run_python
from tests.execute.agreement import differences
from tests.machines import machine
from tests.nests import nest
from tests.random_specs.cases import valid_case
from tests.random_specs.nodes import changed
from tests.random_specs.simulated import partial_sums

import einmap
from einmap.errors import NotSupportedError
from einmap.model.explanation.explain import explain
from einmap.report.explanations.explanation import count_line
from einmap.spec.forms.write_workload import write_workload


def drawn(seed):
    rng = random.Random(seed)
    spec = changed(rng, valid_case(rng)[0], partial_sums)
    try:
        return spec, einmap.evaluate(spec)
    except (einmap.CapacityError, NotSupportedError):
        return None


@few_and_many("seeds, most, some", (range(12), 4, 3), (range(30), 10, 8), part="simulator")
def test_random_mappings_cost_what_they_do(seeds, most, some):
    compared = differing = 0
    for seed in seeds:
        if (case := drawn(seed)) is None:
            continue
        spec, cost = case
        try:
            execution = einmap.execute(spec)
        except einmap.SpecError:
            continue
        assert differences(spec, cost, execution) == [], seed
        compared += 1
        differing += any(e.partial_bits for e in spec.workload.einsums)
    assert compared >= most
    assert differing >= some


ARCH = machine("""
    Main inf 1/1 @1 {tensors: {keep: All}} / Buffer 1000 1/1 @1 {tensors: {keep: Z}} / Row: X 2 {may_reuse: All}
    Register 1000 1/1 @1 {tensors: {keep: Z}} / MAC 0 @1
""")
# K 8: 2 in time above Buffer, 2 in lanes, 2 in time below Register; M 3 between Buffer and Register
SUMS = """
workload:
  rank_sizes: {M: 3, K: 8}
  bits_per_value: {All: 8}
  partial_bits_per_value: {Z: 32}
  einsums: ["Z[m] = A[m, k]"]
""" + nest("Main: A Z / k 4 / Buffer: Z / m 1 / k 2 @ Row.X / Register: Z / k 1 / Z @ MAC")


def bits(spec):
    return {(r.component, r.action): r.count for r in einmap.evaluate(spec).actions if r.tensor == "Z"}


def test_the_last_write_back_of_each_element_is_as_wide_as_a_result():
    spec = einmap.loads(ARCH + SUMS)
    assert bits(spec) == {
        # written twice: 3 partial sums, then 3 results; read once in between
        ("Main", "write"): 3 * 32 + 3 * 8,
        ("Main", "read"): 3 * 32,
        # 2 fills, the first of nothing; the lanes' sums come in 2 x 3, the last 3 of them complete
        ("Buffer", "write"): 3 * 32 + (3 * 32 + 3 * 8),
        # it writes back as Main is written, and fills the first lane of each pair where there is something
        ("Buffer", "read"): (3 * 32 + 3 * 8) + 3 * 32,
        # 2 lanes x 2 x 3 visits: each lane has a part of the sum, which is never complete there
        ("Register", "write"): 3 * 32 + 24 * 32,
        # of 24 operations 9 find nothing: the first 3 of all, and the first 6 of the second lane
        ("Register", "read"): 12 * 32 + 15 * 32,
    }
    assert differences(spec) == []


def test_memories_have_room_for_partial_sums_unless_they_say_how_wide_values_are():
    spec = einmap.loads(ARCH + SUMS)
    assert {r.component: r.usage for r in einmap.evaluate(spec).memory_usage}["Buffer"] == 3 * 32 / 1000
    spec = spec.set("arch.nodes[1].bits_per_value", {"Z": 16})
    found = bits(spec)
    assert {r.component: r.usage for r in einmap.evaluate(spec).memory_usage}["Buffer"] == 3 * 16 / 1000
    assert (found["Buffer", "write"], found["Main", "write"]) == (9 * 16, 3 * 32 + 3 * 8)


def test_without_a_sum_and_for_equal_widths_nothing_changes():
    spec = einmap.loads(ARCH + SUMS)
    plain = spec.set("workload.partial_bits_per_value", {})
    assert bits(spec.set("workload.partial_bits_per_value", {"Z": 8})) == bits(plain)
    single = spec.set("workload.rank_sizes.K", 1)
    assert single.workload.einsums[0].partial_bits == {}


def test_an_explanation_says_how_many_values_are_complete():
    found = explain(einmap.loads(ARCH + SUMS))
    counts = {(d.component, d.action): d for d in found.derivations if d.tensor == "Z"}
    written = counts["Main", "write"]
    assert (written.values, written.complete, written.count, written.moved_bits) == (6, 3, 120, 120)
    assert "32 actions each (32 bits, 1 bit an action), 24 less for 3 that are complete" in count_line(written)
    assert {key: d.count for key, d in counts.items()} == bits(einmap.loads(ARCH + SUMS))


def test_emitted_code_does_the_same():
    spec = einmap.loads(ARCH + SUMS)
    outputs, _ = run_python(einmap.emit(spec, lang="python"), spec)
    assert np.allclose(outputs["Z"], einmap.execute(spec).tensors["Z"])


def test_it_is_written_and_read_back():
    spec = einmap.loads(ARCH + SUMS)
    again = einmap.Spec.from_dict({**spec.to_dict(), "workload": write_workload(spec.workload)})
    assert again.workload == spec.workload


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("workload.partial_bits_per_value", {"Z": 4}, "partial sums of 'Z' have 4 bits, fewer than the 8"),
        ("workload.einsums", [{"einsum": "Z[m] = A[m, k]", "tensor_accesses": [{"name": "A", "partial_bits_per_value": 9}]}],
         "Einsum 'Z' reads 'A'"),
        ("workload.einsums", [{"einsum": "Z[P: m + j] = A[m, k] * B[j]", "rank_sizes": {"J": 2}}],
         "indexes by sums of rank variables"),
        ("arch.nodes[1].wind_up", True, "wind_up of 'Buffer' has one width for each tensor"),
        ("model", {"semantics": "accelforge"}, "the preset 'accelforge' has one width for each tensor"),
    ],
)  # fmt: skip
def test_what_is_wrong_or_not_supported_is_told(path, value, words):
    with pytest.raises((einmap.SpecError, NotSupportedError)) as caught:
        einmap.evaluate(einmap.loads(ARCH + SUMS).set(path, value))
    assert words in str(caught.value)
