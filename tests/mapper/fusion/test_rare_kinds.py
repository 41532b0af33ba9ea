"""Cascades with what others draw seldom: what is proven is the best of all mappings, and bounds hold."""

import random
from collections import Counter

import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.every import beside_all
from tests.random_specs.by_einsum import RARE, draw_rare

import einmap


def compare(seed, kind, most):
    """How the mapper does beside all mappings, or the first of them; None where nothing fits or is supported."""
    try:
        spec, metric, limits = draw_rare(random.Random(f"rare {kind} {seed}"), kind)
        return beside_all(spec, metric, limits, most, (kind, seed))
    except einmap.SpecError:
        return None  # a value is longer than a line, say


@pytest.mark.parametrize("kind", RARE)
@few_and_many("seeds, most, least", (range(2), 30, 1), (range(100, 200), 1_000, 20), parts=2, part="fusion")
def test_cascades_of_rare_kinds_are_mapped_as_well_as_can_be(seeds, most, least, kind):
    found = Counter(compare(seed, kind, most) for seed in seeds)
    assert found["proven"] + found["best"] >= least
