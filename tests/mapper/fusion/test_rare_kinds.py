"""Cascades with what others draw seldom: what is proven is the best of all mappings, and bounds hold."""

import random
from collections import Counter

import pytest
from tests.mapper.fusion.every import beside_all
from tests.mapper.fusion.rare import KINDS, draw_rare

import einmap


def compare(seed, kind, most):
    """How the mapper does beside all mappings, or the first of them; None where nothing fits or is supported."""
    try:
        spec, metric, limits = draw_rare(random.Random(f"rare {kind} {seed}"), kind)
        return beside_all(spec, metric, limits, most, (kind, seed))
    except einmap.SpecError:
        return None  # a value is longer than a line, say


@pytest.mark.parametrize("kind", KINDS)
def test_cascades_of_rare_kinds_are_mapped_as_well_as_can_be(kind):
    found = Counter(compare(seed, kind, 30) for seed in range(2))
    assert found["proven"] + found["best"] >= 1


@pytest.mark.slow
@pytest.mark.fusion
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(2))
def test_many_cascades_of_rare_kinds_are_mapped_as_well_as_can_be(part, kind):
    found = Counter(compare(seed, kind, 1_000) for seed in range(100 + 50 * part, 150 + 50 * part))
    assert found["proven"] + found["best"] >= 20
