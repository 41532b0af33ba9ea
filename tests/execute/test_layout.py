"""The simulator judges lines: it finds those of each tile from the addresses of its values, on random mappings."""

import random

from tests.amounts import few_and_many
from tests.execute.agreement import differences
from tests.random_specs.cases import valid_case
from tests.random_specs.nodes import changed
from tests.random_specs.simulated import lines

import einmap
from einmap.errors import NotSupportedError


def drawn(seed):
    """A random mapping with layouts and its cost, or None where that is not counted."""
    rng = random.Random(seed)
    try:
        spec = changed(rng, valid_case(rng)[0], lines)
        return spec, einmap.evaluate(spec)
    except (einmap.SpecError, einmap.CapacityError, NotSupportedError):
        return None


@few_and_many("seeds, least", (range(12), 6), (range(30), 15), part="simulator")
def test_random_mappings_move_the_lines_that_their_values_lie_in(seeds, least):
    compared = 0
    for seed in seeds:
        if (case := drawn(seed)) is None:
            continue
        spec, cost = case
        try:
            execution = einmap.execute(spec)
        except einmap.SpecError:
            continue
        found = [d for d in differences(spec, cost, execution) if d[0] != "usage"]
        assert found == [], (seed, found)
        compared += 1
    assert compared >= least
