"""What a listing left out: when it has to be made anew, and when that would bring nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mapper.fusion.test_table_store import cascade

from einmap.mapper.fusion.fronts import table_store
from einmap.mapper.fusion.fronts.nests import pruned_bounds
from einmap.mapper.fusion.fronts.nests.pruned_bounds import PrunedBounds
from einmap.mapper.problem.request import Remainder

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def rows_of(kept: PrunedBounds):
    return kept.rows[: kept.n]


@given(seeds, st.integers(1, 3))
def test_the_least_rows_are_kept(rng, goals):
    kept, added = PrunedBounds(goals), np.zeros((0, goals))
    for _ in range(4):
        more = rng.integers(0, 6, (rng.integers(0, 5), goals)).astype(float)
        kept.add(more)
        added = np.concatenate([added, more])
    distinct = np.unique(added, axis=0)
    least = [row for row in distinct if not ((distinct <= row).all(axis=1) & (distinct < row).any(axis=1)).any()]
    assert sorted(rows_of(kept).tolist()) == sorted(np.array(least).reshape(-1, goals).tolist())


def test_where_there_is_no_room_one_row_stands_for_several():
    kept = PrunedBounds(2)
    n = pruned_bounds.MOST_ROWS + 5
    points = np.stack([np.arange(n), np.arange(n)[::-1]], axis=1).astype(float)
    kept.add(points)
    assert kept.n <= pruned_bounds.MOST_ROWS
    assert all((rows_of(kept) <= point).all(axis=1).any() for point in points)


def test_what_was_left_out_stays_out_as_long_as_it_costs_too_much():
    kept = PrunedBounds(1)
    assert kept.stays_out(None)
    kept.add(np.array([[5.0], [7.0]]))
    assert kept.stays_out(Remainder(np.array([[1.0]]), 5.9))
    assert not kept.stays_out(Remainder(np.array([[1.0]]), 6.0))
    assert not kept.stays_out(None)


@pytest.mark.parametrize("lanes", [1, 4])
def test_listing_further_gives_what_listing_at_once_gives(lanes):
    steps, at_once = cascade(lanes=lanes), cascade(lanes=lanes)
    skipped = listed = 0
    for step, whole in zip(steps.distinct, at_once.distinct, strict=True):
        chains, other = step.chains, whole.chains
        for factor in (1.0, 1.0001, 1.2, 1.2001, 2.0, 2.0001, np.inf):
            for signature_class, least in chains.signature_classes.items():
                limit = None if np.isinf(factor) else Remainder(np.zeros((1, 1)), factor * float(least.min()))
                anew = chains.survey({signature_class: limit}).anew
                assert other.survey({signature_class: None}).anew <= {signature_class}
                everything = {o: other.bounds(o) for o in other.listed[signature_class]}
                good = {o for o, rows in everything.items() if limit is None or not limit.exceeds_cutoff(rows).all()}
                assert set(chains.listed[signature_class]) >= good
                assert set(chains.listed[signature_class]) <= set(everything)
                skipped += not anew
                listed += bool(anew)
    assert skipped > 10
    assert listed > 10


def test_a_family_is_not_listed_anew_for_a_little_more():
    chains = cascade().distinct[1].chains
    (signature_class, least), *_ = chains.signature_classes.items()
    limit = Remainder(np.zeros((1, 1)), 1.5 * float(least.min()))
    assert chains.survey({signature_class: limit}).anew == {signature_class}
    before = chains.listed[signature_class]
    rest = chains._pruned[signature_class].rows[0, 0]
    assert chains.survey({signature_class: Remainder(np.zeros((1, 1)), float(rest) * 0.999)}).anew == set()
    assert chains.listed[signature_class] is before
    assert chains.survey({signature_class: Remainder(np.zeros((1, 1)), float(rest))}).anew == {signature_class}
    chains.begin_again(2)
    assert chains.survey({signature_class: limit}).anew == {signature_class}


def test_families_may_be_listed_with_the_same_others(monkeypatch):
    # without tables at the beginning, so that dataplacements are left out before their outer nests are looked at
    monkeypatch.setattr(table_store, "FEW_TABLES", 0)
    monkeypatch.setattr(table_store, "FAR_BETTER", np.inf)
    chains = replace(cascade().distinct[1].chains, tables=table_store.TableStore(0, 0))
    chains.least(np.eye(1))
    assert len(chains.signature_classes) > 1
    nothing = Remainder(np.zeros((1, 1)), 0.0)
    assert chains.survey(dict.fromkeys(chains.signature_classes, nothing)).anew == set(chains.signature_classes)
    assert not any(chains.listed.values())
    assert chains.survey(dict.fromkeys(chains.signature_classes)).anew == set(chains.signature_classes)
    assert all(chains.listed.values())
