"""What `costs=True` writes into the nodes."""

import pytest
from hypothesis import given, settings
from tests.random_specs.cases import cases
from tests.report.drawing.geometry import problems

from einmap import evaluate, load, loads
from einmap.mapping.nodes import Storage, Temporal
from einmap.report.drawing.costs import cost_annotations
from einmap.report.drawing.looptree import looptree_picture


def test_a_matrix_product_by_hand():
    spec = load("simple", "matmul", "simple_matmul")
    cost = evaluate(spec)
    texts = [" | ".join(line.text for line in p.shape.lines) for p in looptree_picture(spec.mapping, spec, cost).shapes]
    # M = K = N = 64, 8 bits; blocks of 16 x 16: A is read once, B four times, Z written once, at 10 pJ a bit:
    # (4096 + 4 * 4096 + 4096) * 8 * 10 pJ = 1.97 uJ of the whole.
    share = (6 * 4096 * 8 * 10e-12) / cost.energy
    assert texts[0].replace("\N{NO-BREAK SPACE}", " ") == (
        f"MainMemory | A 64×64, B 64×64, Z 64×64 | 12 KiB | {share:.0%} of energy"
    )
    assert texts[1] == "for m by 16 | 4 iterations"
    assert texts[2].replace("\N{NO-BREAK SPACE}", " ").startswith("GlobalBuffer | A 16×64 | 1 KiB of 64 KiB | ")
    assert texts[-1].startswith("Z | MAC | 262,144 operations | ")


def test_lanes_are_those_of_the_fanout():
    spec = load("tpu_v4i", "matmul", "tpu_v4i_matmul", define={"M": 512, "K": 512, "N": 512})
    picture = looptree_picture(spec.mapping, spec, evaluate(spec))
    assert problems(picture) == []
    lanes = [placed.shape.lines[-1].text for placed in picture.shapes if placed.shape.kind == "double box"]
    assert lanes == ["4 of 4 lanes", "128 of 128 lanes", "128 of 128 lanes"]


@given(cases())
@settings(max_examples=25)
def test_every_node_is_annotated_and_the_energy_is_shared_out_completely(case):
    spec, cost = case
    found = cost_annotations(spec.mapping, spec, cost)
    assert problems(looptree_picture(spec.mapping, spec, cost)) == []
    for placed in spec.mapping.placed:
        if isinstance(placed.node, Storage):
            assert found.nodes[placed.address].facts.tiles.keys() <= set(placed.node.tensors)
        if isinstance(placed.node, Temporal):
            assert found.nodes[placed.address].lines(0)[0].endswith(("iteration", "iterations"))
    copies = any(einsum.is_copy for einsum in spec.workload.einsums)
    if not copies:
        assert found.elsewhere == pytest.approx(cost.leak_energy, abs=1e-9 * cost.energy)


LINES = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0, actions: [{name: read, energy: 9, throughput: 1}, {name: write, energy: 9, throughput: 1}]}
  - !Network {name: Noc, leak_power: 0, area: 0, actions: [{name: hop, energy: 1, latency: 1, throughput: 1}]}
  - !Memory {name: Lines, size: 99, component_class: Dummy, spatial: [{name: X, fanout: 2, may_reuse: All}]}
  - !Compute {name: MAC, component_class: Dummy}
workload: {rank_sizes: {P: 8, R: 3, M: 2}, bits_per_value: {All: 1}, einsums: ["O[p, m] = I[H: p + r] * F[r, m]"]}
mapping:
  nodes:
  - !Storage {component: DRAM, tensors: [I, F, O]}
  - !Spatial {rank_variable: m, tile_shape: 1, component: Lines, name: X}
  - !Temporal {rank_variable: p, tile_shape: 1}
  - !Storage {component: Lines, tensors: [I], sliding_window: true}
  - !Temporal {rank_variable: r, tile_shape: 1}
  - !Compute {einsum: O, component: MAC}
"""


def test_networks_and_line_buffers_are_named():
    spec = loads(LINES)
    cost = evaluate(spec)
    found = cost_annotations(spec.mapping, spec, cost)
    # I: 10 values, each passed on to the second lane once
    hops = {row.tensor: row.count for row in cost.actions if row.action == "hop"}
    assert hops["I"] == 10
    assert found.networks == {"Noc": sum(hops.values())}
    assert found.elsewhere == 0
    assert f"network Noc {sum(hops.values()) / cost.energy:.0%} of energy" in str(found)
    shapes = looptree_picture(spec.mapping, spec, cost).shapes
    assert any("in sliding windows" in [line.text for line in placed.shape.lines] for placed in shapes)


def test_one_einsum_has_its_own_share_of_what_is_common():
    spec = load("simple", "two_matvecs", "simple_two_matvecs_fused")
    cost = evaluate(spec)
    parts = [cost_annotations(spec.mapping, spec, cost, name) for name in ("EinsumA", "EinsumB")]
    whole = cost_annotations(spec.mapping, spec, cost)
    for address, node in whole.nodes.items():
        energies = [part.nodes[address].energy or 0.0 for part in parts if address in part.nodes]
        assert sum(energies) == pytest.approx(node.energy or 0.0)
    assert sum(part.energy for part in parts) == pytest.approx(cost.energy)
    assert parts[1].nodes[0,].facts.tiles.keys() == {"WB", "B"}


def test_a_node_that_costs_no_energy_says_nothing_of_it():
    spec = load("tpu_v4i", "matmul", "tpu_v4i_matmul", define={"M": 512, "K": 512, "N": 512})
    texts = [line.text for p in looptree_picture(spec.mapping, spec, evaluate(spec)).shapes for line in p.shape.lines]
    assert sum("of energy" in text for text in texts) > 3
    assert "0% of energy" not in texts
