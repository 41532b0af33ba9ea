"""Times of operators and collectives on GPUs, against what was measured."""

import pytest

from einmap.distribute.costs.cluster import ProcessingElement


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
    # halfway between two sizes halfway between their times
    assert pe.seconds(0, (1e6 + 1e8) / 2, 16) == pytest.approx((4e-6 + 125e-6) / 2 + 5e-6)
