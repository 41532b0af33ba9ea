"""Seconds of operators on a cluster, worked out by hand."""

from dataclasses import replace

import pytest

from einmap import EinmapError
from einmap.distribute.costs.cluster import Cluster, Kernel, Link, ProcessingElement
from einmap.distribute.operators import Attention, Exchange, Pointwise, Product, operator_seconds, step_seconds

PE = ProcessingElement(((8, 200e12), (16, 100e12)), memory_bandwidth=1e12, launch=2e-6)
CLUSTER = Cluster(PE, (("x", Link(100e9, 1e-6, "switch", size=8)), ("y", Link(10e9, 5e-6, "switch"))))


@pytest.mark.parametrize(
    ("operator", "seconds"),
    [
        # few rows: weights are read; 2 (8 x 1000 + 1000 x 500 + 8 x 500) bytes
        (Product(8, 500, 1000), 1.024e-6 + 2e-6),
        # many rows: 2 x 10^4 x 10^3 x 10^3 operations
        (Product(10000, 1000, 1000), 200e-6 + 2e-6),
        (Product(10000, 1000, 1000, bits=8), 100e-6 + 2e-6),
        # 10^6 weights of half a byte, 2 x 10^3 activations and results of 2 bytes
        (Product(1, 1000, 1000, weight_bits=4), 0.504e-6 + 2e-6),
        (Product(1, 1000, 1000, batch=3), 3 * 2.004e-6 + 2e-6),
        # a cast of 10^6 values from 2 bytes to 1
        (Product(1000, 1000, 1000, bits=8, cast_from=16), 10e-6 + 2e-6 + 3e-6 + 2e-6),
        # 4 sequences of 1000 positions, 8 heads of keys and of values, queries and results of 32 heads
        (Attention(4, 32, 8, 1000), 4 * 2 * 128 * (8 * 1000 + 32) * 2e-12 + 2e-6),
        # half of the scores of 1000 new positions are masked: 500.5 are seen on average
        (Attention(4, 32, 8, 1000, queries=1000), 4 * 2 * 2 * 128 * 32 * 1000 * 500.5 / 100e12 + 2e-6),
        (Attention(1, 8, 8, 10**6, width=64, value_width=32, bits=8), 96 * (8e6 + 16) * 1e-12 + 2e-6),
        (Pointwise(5e6), 5e-6 + 2e-6),
        # an all-reduce through a switch: 2 x 3/4 of the bytes, 4 messages
        (Exchange(1e6, 4), 15e-6 + 4e-6),
        (Exchange(1e6, 4, "all_gather"), 7.5e-6 + 2e-6),
        (Exchange(1e6, 1), 0.0),
    ],
)
def test_an_operator_takes_what_its_work_takes_and_a_launch(operator, seconds):
    assert operator_seconds(CLUSTER, operator) == pytest.approx(seconds)


def test_the_shorter_of_computing_and_moving_is_hidden_but_for_a_part():
    pe = replace(PE, exposed=0.25)
    # 2 x 100 x 1000 x 1000 operations take 2 us, 2.4 x 10^6 bytes 2.4 us
    assert operator_seconds(replace(CLUSTER, pe=pe), Product(100, 1000, 1000)) == pytest.approx(2.4e-6 + 0.5e-6 + 2e-6)


def test_rows_that_are_read_again_come_from_the_cache():
    pe = replace(PE, cache_bandwidth=10e12)
    assert operator_seconds(replace(CLUSTER, pe=pe), Pointwise(5e6, again=2e6)) == pytest.approx(5e-6 + 0.2e-6 + 2e-6)
    assert operator_seconds(CLUSTER, Pointwise(5e6, again=2e6)) == pytest.approx(5e-6 + 2e-6)


def test_sums_that_fill_no_more_than_a_pipeline_hide_nothing():
    cluster = replace(CLUSTER, pe=replace(PE, pipeline=200))
    # 2 x 10^6 x 100 operations take 2 us, 2.4 x 10^6 bytes 2.4 us
    assert operator_seconds(cluster, Product(1000, 1000, 100)) == pytest.approx(2e-6 + 2.4e-6 + 2e-6)
    assert operator_seconds(cluster, Product(1000, 1000, 101)) == pytest.approx(2.404e-6 + 2e-6)
    assert operator_seconds(CLUSTER, Product(1000, 1000, 100)) == pytest.approx(2.4e-6 + 2e-6)


def test_narrow_products_and_attention_reach_what_is_said_of_their_kernels():
    narrow = Kernel(1e-6, efficiency=((1e9, 0.5),), memory_efficiency=((1e6, 0.1),))
    pe = replace(PE, kernels=((8, narrow),), attention=Kernel(5e-6, memory_efficiency=((1e6, 0.5),)))
    cluster = replace(CLUSTER, pe=pe)
    assert operator_seconds(cluster, Product(10000, 1000, 1000, bits=8)) == pytest.approx(310e-6 + 1e-6)
    assert operator_seconds(cluster, Product(10000, 1000, 1000)) == pytest.approx(200e-6 + 2e-6)
    assert pe.seconds(1e9, 0, 4) == pytest.approx(10e-6 + 1e-6)
    read = 4 * 2 * 128 * (8 * 1000 + 32) * 2e-12
    assert operator_seconds(cluster, Attention(4, 32, 8, 1000)) == pytest.approx(2 * read + 5e-6)


def test_a_group_of_devices_reaches_its_own_part_of_the_links():
    link = Link(100e9, 1e-6, "switch", ((1e6, 0.5),), groups=((2, ((1e6, 0.25),)), (4, ((1e6, 0.8),))))
    cluster = Cluster(PE, (("x", link),))
    assert operator_seconds(cluster, Exchange(1e6, 2)) == pytest.approx(40e-6 + 2e-6)
    assert operator_seconds(cluster, Exchange(1e6, 4)) == pytest.approx(15e-6 / 0.8 + 4e-6)
    assert operator_seconds(cluster, Exchange(1e6, 8)) == pytest.approx(17.5e-6 / 0.5 + 6e-6)


def test_more_devices_than_a_node_has_exchange_between_nodes_too():
    within, between = operator_seconds(CLUSTER, Exchange(1e6, 8)), operator_seconds(CLUSTER, Exchange(1e6, 16))
    # an eighth of the bytes goes between two nodes, twice a half of that, in two messages
    assert between == pytest.approx(within + 12.5e-6 + 10e-6)


def test_a_step_is_the_sum_of_its_operators():
    operators = [(Pointwise(5e6), 3), (Exchange(1e6, 4), 2.0)]
    assert step_seconds(CLUSTER, operators) == pytest.approx(3 * 7e-6 + 2 * 19e-6)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Product(0, 1, 1),
        lambda: Product(1, 1, 1, bits=-8),
        lambda: Attention(1, 1, 1, 10, queries=11),
        lambda: Pointwise(float("inf")),
        lambda: replace(PE, exposed=1.5),
        lambda: Link(1e9, groups=((4, ()), (2, ()))),
        lambda: operator_seconds(Cluster(PE, (("x", Link(1e9, size=8)),)), Exchange(1, 16)),
    ],
)
def test_what_is_not_positive_or_does_not_fit_is_refused(build):
    with pytest.raises(EinmapError):
        build()
