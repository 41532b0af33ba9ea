"""Keys of signature classes with too many outer nests: they are those of a list, and the optimum stays."""

import random

import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.test_against_brute_force import compare
from tests.mapper.fusion.test_met_loops import chains_of

from einmap.mapper.fusion.fronts.nests.met_loops import ANYTHING, MetLoops
from einmap.mapper.fusion.refinement import front_listing, keys_of_large, lazy_refinement
from einmap.mapper.fusion.refinement.met_keys import LargeKeys

MANY = 10**9


def keys_of(signatures, t):
    return {dict(signature.keys)[t].loops for signature in signatures}


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("position", range(4))
def test_the_keys_of_a_class_are_those_of_its_list(lanes, position):
    chains, other = chains_of(lanes, position), chains_of(lanes, position)
    chains.survey(dict.fromkeys(chains.signature_classes))
    rng = random.Random(position)
    for of, signatures in chains.listed.items():
        keys = other.keys(of, None, ANYTHING, MANY)
        assert keys.n >= len(signatures)
        assert keys.loops == {t: keys_of(signatures, t) for t, _ in of}
        assert other.keys(of, None, ANYTHING, keys.n) is not None
        assert other.keys(of, None, ANYTHING, keys.n - 1) is None
        # of the keys that others can meet there are those of the nests that have them
        some = {t: frozenset(x for x in sorted(keys_of(signatures, t)) if not x or rng.random() < 0.5) for t, _ in of}
        met = [s for s in signatures if all(key.loops in some[t] for t, key in s.keys)]
        fewer = other.keys(of, None, MetLoops(some), MANY)
        assert {t: fewer.loops.get(t, set()) for t, _ in of} == {t: keys_of(met, t) for t, _ in of}
    assert not other.listed


def test_a_class_is_looked_at_again_where_others_meet_half_of_its_keys_or_the_limit_is_higher():
    loops = [((("", ""), "0", size),) for size in (1, 2, 4, 8)]
    known = LargeKeys(1.0, MetLoops({0: frozenset(loops)}), {0: 4}, 100)
    assert not known.again(1.0, ANYTHING, 1_000)
    assert known.again(1.1, ANYTHING, 100)
    assert not known.again(0.9, MetLoops({0: frozenset(loops[:2])}), 100)
    assert known.again(0.9, MetLoops({0: frozenset(loops[:1])}), 100)
    too_many = LargeKeys(1.0, None, {0: 4}, 100)
    assert not too_many.again(1.1, MetLoops({0: frozenset(loops)}), 100)
    assert too_many.again(1.0, ANYTHING, 101)
    assert too_many.again(1.0, MetLoops({1: frozenset(loops)}), 100)


@few_and_many("seeds", ((2_104, 2_108),), ((2_110, *range(4_000, 4_200)),), parts=4, part="fusion")
def test_where_keys_of_nearly_all_classes_are_looked_for_optima_are_those_of_brute_force(seeds, monkeypatch):
    asked, narrowed = [], keys_of_large.narrowed

    def counted(*arguments):
        asked.append(narrowed(*arguments))
        return asked[-1]

    monkeypatch.setattr(front_listing, "FIRST_LISTED", 0.4)
    monkeypatch.setattr(front_listing, "MORE", 2)
    monkeypatch.setattr(lazy_refinement, "narrowed", counted)
    monkeypatch.setattr(keys_of_large, "NEAR", 10.0)
    for seed in seeds:
        rng = random.Random(seed)
        monkeypatch.setattr(keys_of_large, "LOOKED_AT", rng.choice(((4, 64), (1_000,))))
        monkeypatch.setattr(keys_of_large, "MOST_KEYS", rng.choice((2, 1_000)))
        compare(seed, wide=seed % 3 == 0)
    assert any(asked)
