"""Every joule of a result has a line or a publication, and the parts add up to the energy."""

import math

import pytest
from tests.machines import workload
from tests.nests import nest

import einmap
from einmap.model.explanation.energy_terms import explain_energy
from einmap.spec.cost_sources import cost_sources, cost_sources_of_all

SHIPPED = {
    ("simple", "matmul", "simple_matmul"): {},
    ("simple", "two_matvecs", "simple_two_matvecs_fused"): {},
    ("simple", "attention_core", "simple_attention_fused"): {},
    ("edge", "mobilenet_pair", "edge_mobilenet_pair_fused"): {},
    ("tpu_v4i", "matmul", "tpu_v4i_matmul"): {"M": 512, "K": 512, "N": 512},
    ("eyeriss_components", "resnet50_layer", "eyeriss_conv"): {"LAYER": "conv2_2", "BITS": 16},
    ("simba_components", "resnet50_layer", "simba_conv"): {"LAYER": "conv4_2"},
}


def product(each):
    """The number of the source times the factors of the specification."""
    value = each.before
    for factor in each.factors:
        value = value / factor.value if factor.divides else value * factor.value
    return value


@pytest.mark.parametrize("names", SHIPPED, ids="-".join)
def test_the_parts_add_up_to_the_energy_of_the_result_exactly(names):
    spec = einmap.load(*names, define=SHIPPED[names])
    cost = einmap.evaluate(spec)
    explained = explain_energy(spec, cost)
    parts = [part.energy for term in explained.terms for part in term.parts]
    assert math.fsum(parts) == cost.energy == explained.energy
    assert math.fsum(term.energy for term in explained.terms) == pytest.approx(cost.energy, rel=1e-15)
    assert math.fsum(term.share for term in explained.terms) == pytest.approx(1)
    assert sorted(parts) == sorted(row.energy for row in cost.actions)
    energies = [term.energy for term in explained.terms]
    assert energies == sorted(energies, reverse=True)
    for term in explained.terms:
        assert product(term.each) == pytest.approx(term.each.value)
        assert term.each.source not in ("", "not given")
        if term.action == "leak":
            watts = term.each.value * term.instances * term.powered
            assert watts * term.seconds == pytest.approx(term.energy)
        else:
            assert all(part.count * term.each.value == part.energy for part in term.parts)
            assert term.count == math.fsum(part.count for part in term.parts)


SCALED = (
    """arch:
  nodes:
  - !Memory {name: Main, size: inf, component_class: Dummy}
  - !Memory
    name: Buffer
    size: 2**18
    component_class: SRAM
    leak_power: 1e-3
    leak_power_scale: 2
    area_scale: 3
    energy_scale: 5
    latency_scale: 2
    n_parallel_instances: 4
    extra_attributes_for_component_model: {tech_node: 45nm, width: 64}
    actions:
    - {name: read, energy: 1e-12, energy_scale: 0.5, throughput_scale: 8}
    - {name: write, latency: 1e-9}
  - !Compute
    name: MAC
    leak_power: 0
    area: 0
    actions: [{name: compute, energy: 1e-12 * len(All), throughput: 1e9}]
"""
    + workload("M: 4, N: 2", "B[m] = A[m]", "Z[m, n] = B[m] * C[n]")
    + nest("Main: A B C Z / (Buffer: A B / m 1 / B @ MAC | Buffer: C / m 1 / n 1 / Z @ MAC)")
)


def test_scales_stand_beside_the_number_that_they_scale():
    spec = einmap.loads(SCALED)
    terms = {(t.component, t.tensor, t.action): t for t in explain_energy(spec).terms}
    read = terms["Buffer", "A", "read"]
    assert (read.count, read.each.value) == (32, pytest.approx(2.5e-12))
    assert (read.each.source, read.each.before) == ("<text>:16", 1e-12)
    assert read.each.steps == ("x energy_scale 5 (<text>:11)", "x energy_scale 0.5 (<text>:16)")
    write = terms["Buffer", "A", "write"]
    assert write.each.before == pytest.approx(20e-12)  # Horowitz, ISSCC 2014: a row of 64 bits
    assert write.each.steps == ("/ 64 bits of a row", "x energy_scale 5 (<text>:11)")
    leak = terms["Buffer", None, "leak"]
    assert (leak.each.before, leak.each.value, leak.instances) == (1e-3, 8e-3, 1)
    assert leak.each.steps == ("x leak_power_scale 2 (<text>:9)", "x n_parallel_instances 4 (<text>:13)")
    assert leak.energy == pytest.approx(8e-3 * leak.seconds)


def test_costs_beside_the_energy_have_their_scales_too():
    rows = {(r.component, r.action, r.quantity): r for r in cost_sources(einmap.loads(SCALED), "B")}
    assert rows["Buffer", None, "area"].steps == ("x area_scale 3 (<text>:10)", "x n_parallel_instances 4 (<text>:13)")
    read, write = (rows["Buffer", action, "latency"] for action in ("read", "write"))
    parallel = "/ n_parallel_instances 4 (<text>:13)"
    slower = "x latency_scale 2 (<text>:12)"
    assert read.before == pytest.approx(1e-9)  # without cycle_period a row takes 1 ns
    assert read.steps == ("/ 64 bits of a row", slower, "/ throughput_scale 8 (<text>:16)", parallel)
    assert (write.before, write.steps) == (1e-9, (slower, parallel))
    assert [product(each) for each in (read, write)] == pytest.approx([read.value, write.value])


def test_a_number_that_differs_between_einsums_is_a_term_and_an_entry_for_each():
    spec = einmap.loads(SCALED)
    computes = [t for t in explain_energy(spec).terms if t.action == "compute"]
    assert {t.einsums: t.each.value for t in computes} == {("B",): pytest.approx(2e-12), ("Z",): pytest.approx(3e-12)}
    entries = [row for row in cost_sources_of_all(spec) if (row.action, row.quantity) == ("compute", "energy")]
    assert [(row.einsums, row.value) for row in entries] == [(("B",), 2e-12), (("Z",), pytest.approx(3e-12))]
    assert {row.einsums for row in cost_sources_of_all(spec) if row.component == "Buffer"} == {()}


def test_a_part_can_be_chosen_and_keeps_its_share_of_the_whole():
    explained = explain_energy(einmap.loads(SCALED))
    chosen = explained.only(einsums=["B"], components=["Buffer"])
    assert {term.einsums for term in chosen.terms} == {("B",)}
    (leak,) = [term for term in chosen.terms if term.action == "leak"]
    assert leak.share == pytest.approx(leak.energy / explained.energy)
    assert leak.each.value * leak.seconds == pytest.approx(leak.energy)
    assert {term.tensor for term in explained.only(tensors=["A"]).terms} == {"A"}


def test_what_is_gated_leaks_for_a_part_of_the_time():
    text = SCALED.replace(
        "  - !Compute\n    name: MAC\n    leak_power: 0",
        """  - !Compute
    name: MAC
    spatial: [{name: X, fanout: 4, may_reuse: All, power_gateable: true}]
    leak_power: 2""",
    )
    (leak,) = [t for t in explain_energy(einmap.loads(text)).terms if (t.component, t.action) == ("MAC", "leak")]
    assert (leak.instances, leak.powered) == (4, pytest.approx(0.25))
    assert leak.energy == pytest.approx(2 * leak.seconds)


def test_steps_of_a_network_are_told_apart_from_its_links():
    network = """  - !Network
    name: Mesh
    leak_power: 0
    area: 0
    latency_scale: 3
    spatial: [{name: X, fanout: 2, may_reuse: All}]
    actions: [{name: hop, energy: 1e-12, throughput: 1e9, latency: 2e-9}]
"""
    spec = einmap.loads(SCALED.replace("  - !Compute\n", network + "  - !Compute\n", 1))
    rows = {r.quantity: r for r in cost_sources(spec, "B") if (r.component, r.action) == ("Mesh", "hop")}
    assert (rows["latency"].value, rows["latency"].factors) == (1e-9, ())
    assert rows["hop_latency"].value == pytest.approx(6e-9)
    assert (rows["hop_latency"].before, rows["hop_latency"].factors[0].field) == (2e-9, "latency_scale")
