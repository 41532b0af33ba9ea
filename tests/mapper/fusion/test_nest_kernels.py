"""The compiled listing of outer nests: however it is cut into parts, and dominance as its definition says."""

import itertools

import numpy as np
import pytest
from tests.mapper.fusion.test_met_loops import chains_of

from einmap.mapper.fusion.fronts.nests import listing
from einmap.mapper.fusion.fronts.nests.nest_kernels import undominated


def listed(position):
    chains = chains_of(4, position)
    chains.survey(dict.fromkeys(chains.signature_classes))
    nests = [nest for of in chains.listed.values() for listed in of.values() for _, nest in listed]
    return [
        (n.prefix, n.points.tolist(), n.gaps, n.signature, n.kept[n.kept > 0].tolist(), n.backed, n.costs.tolist())
        for n in nests
    ]


@pytest.mark.parametrize("position", range(4))
def test_a_listing_in_small_parts_with_little_room_is_the_same(position, monkeypatch):
    whole = listed(position)
    assert len(whole) > 1
    monkeypatch.setattr(listing, "AT_ONCE", 3)
    monkeypatch.setattr(listing, "BUDGET", 1)
    monkeypatch.setattr(listing, "FIRST_CHOICES", 1)
    assert listed(position) == whole


@pytest.mark.parametrize("seed", range(20))
def test_what_is_worse_than_another_of_its_group_goes_and_of_equal_rows_the_first_stays(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (24, 3)).astype(np.float64)
    starts = np.array([0, *sorted(rng.choice(np.arange(1, 24), 3, replace=False)), 24])
    expected = []
    for begin, end in itertools.pairwise(starts):
        for i in range(begin, end):
            others = [j for j in range(begin, end) if j != i and (rows[j] <= rows[i]).all()]
            expected.append(not any(j < i or (rows[j] < rows[i]).any() for j in others))
    assert undominated(rows, starts).tolist() == expected
    assert sum(expected) < 24
