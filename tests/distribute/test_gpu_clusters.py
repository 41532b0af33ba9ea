"""Times of operators and collectives on GPUs, against what was measured."""

from dataclasses import replace

import pytest

from einmap import load
from einmap.distribute.costs.cluster import ProcessingElement
from einmap.distribute.operators import Attention, Exchange, Pointwise, Product, operator_seconds
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.read_cluster import cluster_of


def test_an_einsum_takes_the_longer_of_what_is_reached_of_both_rates_and_its_launch():
    pe = ProcessingElement(
        ((16, 100e12),),
        memory_bandwidth=1e12,
        launch=5e-6,
        efficiency=((1e9, 0.5), (1e12, 0.8)),
        memory_efficiency=((1e6, 0.25), (1e8, 0.8)),
    )
    assert pe.seconds(1e9, 0, 16) == pytest.approx(25e-6)
    assert pe.seconds(2e12, 0, 16) == pytest.approx(2e12 / 80e12 + 5e-6)
    assert pe.seconds(0, 1e6, 16) == pytest.approx(9e-6)
    assert pe.seconds(1e6, 4e8, 16) == pytest.approx(4e8 / 0.8e12 + 5e-6)
    # a host starts no Einsum sooner
    assert replace(pe, dispatch=50e-6).seconds(0, 1e6, 16) == 50e-6
    assert replace(pe, dispatch=50e-6).seconds(2e12, 0, 16) == pe.seconds(2e12, 0, 16)
    # halfway between two sizes halfway between their times
    assert pe.seconds(0, (1e6 + 1e8) / 2, 16) == pytest.approx((4e-6 + 125e-6) / 2 + 5e-6)


def gpt3_layer_on_4_gpus():
    """Operators of a GPT-3 layer for 8 sequences of 2,048 on one of 4 A100 that divide it: operations, bytes."""
    tokens, hidden, heads, length, width = 8 * 2048, 12288, 96 // 4 * 8, 2048, 128

    def product(m, n, k, batch=1):
        return 2 * batch * m * n * k, 2 * batch * (m * k + k * n + m * n)

    scores = heads * length * length
    return {
        "query, key, value": product(tokens, 3 * hidden // 4, hidden),
        "scores": product(length, length, width, heads),
        "softmax": (5 * scores, 2 * 2 * scores),
        "attention": product(length, width, length, heads),
        "projection": product(tokens, hidden, hidden // 4),
        "layer norm": (5 * tokens * hidden, 2 * 2 * tokens * hidden),
        "up": product(tokens, hidden, hidden),
        "gelu": (8 * tokens * hidden, 2 * 2 * tokens * hidden),
        "down": product(tokens, hidden, hidden),
    }


MEASURED_LAYER = {
    "query, key, value": 13.72,
    "scores": 1.88,
    "softmax": 2.80,
    "attention": 1.18,
    "projection": 4.54,
    "layer norm": 0.68,
    "up": 17.46,
    "gelu": 0.52,
    "down": 17.49,
}
"""Milliseconds on A100 (LLMCompass, Zhang et al., ISCA 2024)."""


def test_operators_of_a_gpt3_layer_on_a100_are_within_25_percent_and_the_layer_within_10():
    cluster = cluster_of(load("a100_training"))
    taken = {name: 1e3 * cluster.pe.seconds(*work, 16) for name, work in gpt3_layer_on_4_gpus().items()}
    for name, measured in MEASURED_LAYER.items():
        assert taken[name] == pytest.approx(measured, rel=0.25), name
    passed = 2 * 8 * 2048 * 12288
    reduced = 1e3 * cluster.seconds("all_reduce", Mesh((("x", 4),)), ("x",), passed, passed)
    assert reduced == pytest.approx(2.89, rel=0.1)
    layer = sum(taken.values()) + taken["layer norm"] + 2 * reduced
    assert layer == pytest.approx(sum(MEASURED_LAYER.values()) + 0.68 + 2 * 2.89, rel=0.1)


def test_a_gpt3_layer_on_a100_as_it_is_served_is_within_10_percent():
    """Scores are written whole; PyTorch's softmax reads rows of more than 1,024 values three times, its norm twice."""
    cluster = cluster_of(load("a100_nodes"))
    rows, hidden, heads, length = 8 * 2048, 12288, 96 // 4 * 8, 2048
    operators = {
        "query, key, value": Product(rows, 3 * hidden // 4, hidden),
        "scores": Product(length, length, 128, batch=heads),
        "softmax": Pointwise(2 * 2 * heads * length * length, again=2 * 2 * heads * length * length),
        "attention": Product(length, 128, length, batch=heads),
        "projection": Product(rows, hidden, hidden // 4),
        "layer norm": Pointwise(2 * 2 * rows * hidden, again=2 * rows * hidden),
        "up": Product(rows, hidden, hidden),
        "gelu": Pointwise(2 * 2 * rows * hidden),
        "down": Product(rows, hidden, hidden),
    }
    taken = {name: 1e3 * operator_seconds(cluster, operator) for name, operator in operators.items()}
    for name, measured in MEASURED_LAYER.items():
        assert taken[name] == pytest.approx(measured, rel=0.25), name
    reduced = 1e3 * operator_seconds(cluster, Exchange(2 * rows * hidden, 4))
    assert reduced == pytest.approx(2.89, rel=0.01)
    layer = sum(taken.values()) + taken["layer norm"] + 2 * reduced
    assert layer == pytest.approx(sum(MEASURED_LAYER.values()) + 0.68 + 2 * 2.89, rel=0.1)


@pytest.mark.parametrize(
    ("name", "kind", "parts", "size", "measured", "within"),
    [
        ("a100_training", "all_reduce", 4, 2**10, 13.0, 0.01),
        ("a100_training", "all_reduce", 8, 2**24, 232.4, 0.06),
        ("a100_training", "all_reduce", 8, 2**30, 8193, 0.06),
        ("a100_nodes", "all_reduce", 4, 2**30, 7219, 0.08),
        ("a100_nodes", "all_reduce", 8, 2**30, 8193, 0.1),
        ("h100_node", "all_reduce", 4, 2**29, 2305, 0.08),
        ("h100_nodes", "all_gather", 8, 2**25, 125.5, 0.01),
        ("h100_nodes", "all_to_all", 8, 2**28, 763.9, 0.06),
        ("h200_nodes", "all_to_all", 8, 2**28, 770.8, 0.08),
        ("b200_nodes", "all_to_all", 8, 2**28, 437.7, 0.12),
        ("b200_nodes", "all_reduce", 8, 2**28, 715.4, 0.12),
        ("gb200_racks", "all_to_all", 4, 2**28, 428.0, 0.15),
        ("gb300_racks", "all_reduce", 4, 2**28, 656.7, 0.12),
    ],
)
def test_collectives_within_a_node_take_the_microseconds_that_were_measured(name, kind, parts, size, measured, within):
    """LLMCompass and vTrain for A100, tables of aiconfigurator_core 0.12.0 for the others."""
    cluster = cluster_of(load(name))
    taken = 1e6 * cluster.seconds(kind, Mesh((("x", parts),)), ("x",), size, size)
    assert taken == pytest.approx(measured, rel=within)


@pytest.mark.parametrize(
    ("name", "operator", "measured", "within"),
    [
        ("h100_node", Product(4353, 12288, 4096), 582.5, 0.05),
        ("h100_node", Product(17, 3584, 12288), 35.5, 0.05),
        ("h100_node", Product(113, 10240, 51200), 396.9, 0.05),
        ("h100_node", Product(48, 12288, 5120, 8, cast_from=16), 30.1, 0.1),
        ("h100_node", Product(4353, 12288, 4096, 8, cast_from=16), 427.1, 0.1),
        ("h100_node", Attention(4, 8, 2, 1024), 13.0, 0.1),
        ("h100_node", Attention(1, 24, 4, 10240, queries=10240), 1227.7, 0.1),
        ("h200_node", Product(12, 3072, 51200), 78.8, 0.05),
        ("h200_node", Product(512, 8192, 16384), 177.4, 0.1),
        ("h200_node", Attention(16, 4, 1, 3072, queries=3072), 363.5, 0.1),
        ("a100_nodes", Product(17, 8192, 65536), 650.0, 0.05),
        ("a100_nodes", Product(8192, 7168, 4096), 1932.4, 0.05),
        ("a100_nodes", Attention(16, 40, 8, 8192), 346.0, 0.05),
    ],
)
def test_operators_of_models_that_are_served_take_the_microseconds_that_were_measured(name, operator, measured, within):
    """Medians over TensorRT-LLM, vLLM and SGLang of the tables of aiconfigurator_core 0.12.0 (PyPI, Apache-2.0)."""
    assert 1e6 * operator_seconds(cluster_of(load(name)), operator) == pytest.approx(measured, rel=within)
