"""Shipped mappings: accepted in full size, executed in a reduced one."""

from dataclasses import replace

import pytest
from tests.execute.agreement import differences

import einmap
from einmap.frontends.yaml.spec import example_paths
from einmap.mapping.nodes import PerEinsum, Spatial, Temporal

MAPPINGS = {
    "edge_mobilenet_pair_fused": ("edge", "mobilenet_pair", {}),
    "edge_vector_attention_pipeline": ("edge_vector", "attention_core", {}),
    "edge_mobilenet_pair_unfused": ("edge", "mobilenet_pair", {}),
    "eyeriss_conv": ("eyeriss", "resnet50_layer", {"BITS": 16}),
    "simba_conv": ("simba", "resnet50_layer", {"LAYER": "conv4_2"}),
    "simple_attention_fused": ("simple", "attention_core", {}),
    "simple_matmul": ("simple", "matmul", {}),
    "simple_matmul_chain_fused": ("simple", "matmul_chain", {"N_EINSUMS": 3}),
    "simple_matmul_chain_unfused": ("simple", "matmul_chain", {"N_EINSUMS": 3}),
    "simple_two_matvecs_fused": ("simple", "two_matvecs", {}),
    "simple_two_matvecs_unfused": ("simple", "two_matvecs", {}),
    "tpu_v4i_matmul": ("tpu_v4i", "matmul", {"M": 512, "K": 512, "N": 512}),
}
"""Architecture, workload, template values of the mapping's own size."""


def loaded(name, **define):
    arch, workload, full = MAPPINGS[name]
    return einmap.load(arch, workload, name, define={**full, **define})


def test_every_mapping_is_tried():
    assert MAPPINGS.keys() == {name for name, path in example_paths().items() if path.parent.name == "mappings"}


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_strict_evaluation_accepts_every_mapping_without_a_warning(name):
    cost = einmap.evaluate(loaded(name), strict=True)
    assert [note for note in cost.notes if note.kind == "warning"] == []


SMALL = {
    "edge_mobilenet_pair_fused": {"C": 64, "M": 64, "P": 2, "Q": 14, "ROWS": 1},
    "edge_vector_attention_pipeline": {"HEADS": 2, "N_TOKENS": 8, "D_HEAD": 8},
    "simple_attention_fused": {"BATCH": 2, "HEADS": 2, "N_TOKENS": 16, "D_HEAD": 4},
    "simple_matmul": {"M": 16, "K": 8, "N": 16},
    "simple_matmul_chain_fused": {"M": 16, "N": 4},
    "simple_matmul_chain_unfused": {"M": 16, "N": 4},
    "simple_two_matvecs_fused": {"NI": 4, "NA": 5, "NB": 6},
    "simple_two_matvecs_unfused": {"NI": 4, "NA": 5, "NB": 6},
}


@pytest.mark.parametrize("name", SMALL)
def test_model_and_execution_agree(name):
    assert list(differences(loaded(name, **SMALL[name]))) == []


def with_tile_shapes(spec, tile_shapes):
    """The same tree of one branch with other tile shapes, outermost first."""
    left = iter(tile_shapes)
    nodes = tuple(
        replace(node, tile_shape=PerEinsum(next(left))) if isinstance(node, Temporal | Spatial) else node
        for node in spec.mapping.nodes
    )
    assert list(left) == []
    return spec.with_mapping(replace(spec.mapping, nodes=nodes))


def test_model_and_execution_agree_on_simba_conv_with_small_tiles():
    # p by 2; m by 8, 4 on rows; c by 4 on columns; p; m by 2, 1 on lanes; c by 2; r; s; c on the vector; q
    size = {"C": 8, "M": 16, "P": 4, "Q": 2, "R": 3, "S": 2}
    spec = einmap.load("simba", "conv", "simba_conv", define=size)
    assert list(differences(with_tile_shapes(spec, [2, 8, 4, 4, 1, 2, 1, 2, 1, 1, 1, 1]))) == []


def test_simba_conv_uses_every_mac_and_reads_the_filters_twice():
    cost = einmap.evaluate(loaded("simba_conv"))
    assert {row.usage for row in cost.spatial_usage} == {1}
    read = cost.count_by("component", "tensor", "action")
    assert read["DRAM", "F", "read"] == 2 * 256 * 256 * 9 * 8
    assert read["DRAM", "O", "write"] == 256 * 14 * 14 * 8
    assert cost.latency == pytest.approx(256 * 256 * 9 * 14 * 14 / 1024 / 1e9)


def test_fusing_the_mobilenet_pair_saves_just_the_traffic_of_what_is_between():
    fused, unfused = (einmap.evaluate(loaded(f"edge_mobilenet_pair_{kind}")) for kind in ("fused", "unfused"))
    d = 256 * 28 * 28 * 8
    there_and_back = 2 * d * 20e-12 + 2 * d * 20e-12 / 64
    assert unfused.energy - fused.energy == pytest.approx(there_and_back)
    assert {row.usage for row in fused.spatial_usage} == {1}


def test_the_fused_attention_keeps_scores_out_of_main_memory():
    moved = einmap.evaluate(loaded("simple_attention_fused")).count_by("component", "tensor")
    assert {tensor for component, tensor in moved if component == "MainMemory"} == {"Q", "K", "V", "AV"}


def test_attention_as_a_pipeline_takes_as_long_as_its_products_on_half_of_the_array():
    cost = einmap.evaluate(loaded("edge_vector_attention_pipeline"))
    cycles = 4 * 64 * 64 * 16 / 32
    softmax, tile = 3 * 4 * 64 * 64 / 8, 1 / 16
    # the division of 64 x 16 values of each head comes after the pipeline
    assert cost.latency * 500e6 == pytest.approx(cycles + (softmax + cycles) * tile + 4 * 64 * 16 / 8)
    # K, V and AN of a head, QK and SN twice
    assert cost.memory_usage[1].usage * 256 * 1024 == 3 * 1024 + 4 * 16 + 4 * 4 * 64 + 64 + 4
    alone = einmap.evaluate(loaded("edge_vector_attention_pipeline", PIPELINE=0))
    assert alone.latency * 500e6 == pytest.approx(cycles + softmax + 4 * 64 * 16 / 8)
