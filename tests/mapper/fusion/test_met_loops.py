"""What neighbours cannot meet is not listed, and large signature classes are listed last: the optimum stays."""

import random

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.test_against_brute_force import compare
from tests.mapper.fusion.test_table_store import cascade

from einmap.mapper.fusion.fronts.nests.met_loops import ANYTHING, MetLoops
from einmap.mapper.fusion.refinement import front_listing, lazy_refinement, sample
from einmap.mapper.fusion.refinement.front_listing import TooLarge
from einmap.mapper.problem.request import Remainder


def chains_of(lanes, position):
    chains = cascade(lanes=lanes).distinct[position].chains
    chains.least(np.eye(1))
    return chains


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("position", range(4))
def test_of_the_keys_that_others_can_meet_all_nests_are_listed_and_no_others(lanes, position):
    chains, other = chains_of(lanes, position), chains_of(lanes, position)
    chains.survey(dict.fromkeys(chains.signature_classes))
    rng = random.Random(position)
    fewer = 0
    for signature_class in chains.signature_classes:
        everything = {s: chains.bounds(s).tolist() for s in chains.listed[signature_class]}
        keys = {t: {dict(s.keys)[t].loops for s in everything} for t, _ in signature_class}
        # what the outermost memory keeps has no loops above it
        some = {
            t: frozenset(loops for loops in sorted(of) if not loops or rng.random() < 0.5) for t, of in keys.items()
        }
        good = {s: rows for s, rows in everything.items() if all(key.loops in some[t] for t, key in s.keys)}
        other.begin_again(2)
        other.survey({signature_class: None}, {signature_class: MetLoops(some)})
        assert {s: other.bounds(s).tolist() for s in other.listed[signature_class]} == good
        fewer += len(good) < len(everything)
    assert fewer


@pytest.mark.parametrize("position", range(4))
def test_what_was_put_aside_is_listed_as_before_and_a_few_tile_shapes_are_a_part_of_all(position):
    chains = chains_of(4, position)
    chains.survey(dict.fromkeys(chains.signature_classes))
    everything = {s: chains.bounds(s).tolist() for s in chains.signatures}
    back = chains.put_aside()
    chains.begin_again(2, 4)
    assert not chains.signatures
    chains.survey(dict.fromkeys(chains.signature_classes))
    some = {s: chains.bounds(s).tolist() for s in chains.signatures}
    assert some.keys() < everything.keys()
    back()
    assert {s: chains.bounds(s).tolist() for s in chains.signatures} == everything


def test_a_class_with_too_many_nests_stays_as_it_was():
    chains = chains_of(1, 1)
    surveyed = chains.survey(dict.fromkeys(chains.signature_classes), most=20)
    assert surveyed.anew
    assert surveyed.postponed
    assert surveyed.anew | surveyed.postponed.keys() == set(chains.signature_classes)
    for signature_class in surveyed.postponed:
        assert signature_class not in chains.listed
        assert chains.survey({signature_class: None}).anew == {signature_class}
    assert all(chains.listed.values())


@few_and_many("seeds", (range(2_000, 2_002),), ((2_002, *range(3_000, 3_200)),), parts=4, part="fusion")
def test_where_nearly_all_classes_are_listed_late_optima_are_those_of_brute_force(seeds, monkeypatch):
    monkeypatch.setattr(front_listing, "FIRST_LISTED", 0.4)
    monkeypatch.setattr(front_listing, "MORE", 2)
    # a few of all loops are tried before them, however near the best is
    monkeypatch.setattr(lazy_refinement, "SAMPLED_FIRST", -1.0)
    monkeypatch.setattr(sample, "APART", (4, 2))
    for seed in seeds:
        compare(seed, wide=seed % 3 == 0)


@pytest.mark.parametrize(
    ("limit", "met", "most", "holds"),
    [
        (10.0, ANYTHING, 0.0, True),  # as far as before
        (9.0, ANYTHING, 4.0, True),  # most of what is known is left
        (9.0, ANYTHING, 2.0, False),  # half of it is not
        (9.0, MetLoops({0: frozenset()}), 4.0, False),  # others can meet less
    ],
)
def test_a_large_class_is_listed_again_where_less_is_left_of_it(limit, met, most, holds):
    # the others add nothing
    some, remainder = np.array([[1.0], [2.0], [3.0], [4.0]]), Remainder(np.array([[0.0]]), most)
    assert TooLarge(10.0, ANYTHING, some).holds(limit, met, lambda: remainder) == holds
