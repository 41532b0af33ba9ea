"""A search that begins with what another one has found looks for nothing that is no better."""

import pytest
from tests.mapper.test_recurrences import problem

from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.fusion.steps import with_steps
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import NOTHING, Known
from einmap.progress import Progress


def search(metric, most_fused, known=NOTHING):
    spec, steps = with_steps(problem(buffer=8), readers=False, fuse=True)
    options = read_options(spec, metrics=metric, workers=1, max_fused_loops=most_fused, share_inputs=False)
    return FusedSearch(spec, options, steps=steps, known=known)


@pytest.mark.parametrize(("metric", "most_fused"), [("energy", 1), ("energy_delay_product", 2)])
def test_what_is_no_better_than_what_was_found_is_not_found_again(metric, most_fused):
    first = search(metric, most_fused)
    assert first.run(Progress())
    again = search(metric, most_fused, first.reached())
    assert again.run(Progress()) == []
    assert again.lower_bound() == pytest.approx(first.value)
    # from a value that is a little worse on, the same best is found, with fewer options
    worse = search(metric, most_fused, Known(first.value * 1.001))
    assert worse.run(Progress())
    assert worse.value == pytest.approx(first.value)
    assert worse.meter.listed <= first.meter.listed
