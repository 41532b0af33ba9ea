"""Laws of the combinators, on searches of a few numbers: each mapping is a pair of energy and latency."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.mapper.specs import two_level

from einmap.errors import NoMappingError
from einmap.mapper.compose.combinators import (
    NoneInTimeError,
    attempted,
    best_of,
    bounded_by,
    over,
    relaxed,
    tie_broken,
    with_fallback,
)
from einmap.mapper.compose.einsum_by_einsum import einsum_by_einsum
from einmap.mapper.compose.ways import Way, Ways
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import NOTHING, Budget, Known, Problem
from einmap.mapper.result.outcome import Outcome, united
from einmap.mapper.result.result import Found, MapStats, objective
from einmap.progress import Progress

SPEC = two_level()
GOALS = (("energy",), ("latency",), ("energy_delay_product",), ("energy", "latency"))
NO_LIMIT = Budget(Progress())


def problem(goals=("energy",)):
    return Problem(SPEC, replace(read_options(SPEC), goals=goals))


def point(pair):
    energy, latency = pair
    return Found(SimpleNamespace(energy=energy, latency=latency, edp=energy * latency, notes=()), pair, SPEC)


def values(outcome):
    return {found.mapping for found in outcome.points}


class Toy:
    """All of some pairs, or the best of those that a search looks at before its choices are used up."""

    def __init__(self, pairs, *, seen=None, left_out=()):
        self.pairs, self.seen, self.left_out, self.budgets = list(pairs), seen, left_out, []

    def __call__(self, problem, budget, way=None):
        self.budgets.append(budget.work)
        goals, known = problem.options.goals, problem.known
        looked_at = self.pairs[: int(min(budget.work, len(self.pairs)))]
        points = [point(pair) for pair in looked_at]
        if known.limit is not None:
            points = [p for p in points if objective(p.cost, known.limit[0]) < known.limit[1]]
        points = [p for p in points if len(goals) > 1 or objective(p.cost, goals[0]) <= known.value]
        ended = None if len(looked_at) == len(self.pairs) else "stopped"
        least = min(objective(point(pair).cost, goals[0]) for pair in self.pairs) if len(goals) == 1 else None
        stats = MapStats(0.0, 0, len(looked_at), 0.0, {"Z": {}})
        found = Outcome(goals, tuple(points), stats, ended=ended, left_out=self.left_out, bound=least)
        best = united([found, replace(found, points=(), stats=replace(stats, evaluated=0))])
        best = replace(best, ties_broken=known.limit is not None and ended is None)
        return best if way is None else (best, replace(known, value=min(known.value, best.value)))


def drawn(rng, most=6):
    return [(rng.randint(1, 5), rng.randint(1, 5)) for _ in range(rng.randint(1, most))]


def front(pairs, goals):
    """The pairs that no other one beats; of one goal the best value."""
    rows = {pair: tuple(objective(point(pair).cost, goal) for goal in goals) for pair in pairs}
    if len(goals) == 1:
        return {min(rows.values())}
    beaten = {
        p
        for p in rows
        for q in rows
        if rows[q] != rows[p] and all(a <= b for a, b in zip(rows[q], rows[p], strict=True))
    }
    return {rows[pair] for pair in rows if pair not in beaten}


def reached(outcome):
    return {tuple(objective(found.cost, goal) for goal in outcome.goals) for found in outcome.points}


@pytest.mark.parametrize("goals", GOALS)
def test_the_best_of_searches_is_that_of_all_their_mappings(goals):
    for seed in range(50):
        rng = random.Random(seed)
        parts = [drawn(rng) for _ in range(3)]
        outcome = best_of(*map(Toy, parts))(problem(goals), NO_LIMIT)
        every = [pair for part in parts for pair in part]
        assert reached(outcome) == front(every, goals)
        assert outcome.is_complete
        if len(goals) == 1:
            assert outcome.lower_bound == outcome.value == min(min(front(part, goals)) for part in parts)[0]
        assert outcome.stats.evaluated == len(every)


def test_the_bound_of_searches_is_the_least_and_what_one_leaves_out_all_leave_out():
    whole, part = Toy([(3, 1)]), Toy([(4, 1), (2, 1)])
    outcome = best_of(whole, part)(problem(), Budget(Progress(), 2))
    assert (outcome.value, outcome.lower_bound, outcome.ended) == (3, 2, "stopped")
    named = best_of(whole, Toy([(5, 1)], left_out=("some",)))(problem(), NO_LIMIT)
    assert (named.left_out, named.is_complete, named.result().optimal) == (("some",), False, False)


def test_a_search_has_what_those_before_it_left():
    first, second = Toy([(1, 1)] * 3), Toy([(1, 1)] * 9)
    outcome = best_of(first, second)(problem(), Budget(Progress(), 8))
    assert (first.budgets, second.budgets) == ([8], [5])
    assert outcome.stats.evaluated == 8


def ways(*parts, left_out=()):
    """Ways, and a search that knows the pairs of each."""
    own = [Way(SPEC, lambda tree: tree) for _ in parts]
    toys = dict(zip(map(id, own), map(Toy, parts), strict=True))
    return lambda problem: Ways(tuple(own), left_out), lambda problem, budget, way: toys[id(way)](problem, budget, way)


@pytest.mark.parametrize("goals", GOALS)
def test_over_ways_is_what_is_on_all_of_them(goals):
    for seed in range(50):
        rng = random.Random(seed)
        parts = [drawn(rng) for _ in range(rng.randint(1, 3))]
        outcome = over(*ways(*parts))(problem(goals), NO_LIMIT)
        assert reached(outcome) == front([pair for part in parts for pair in part], goals)
        assert outcome.is_complete


def test_what_is_on_no_way_is_named_and_no_bound_holds():
    outcome = over(*ways([(2, 1)], left_out=("copies",)))(problem(), NO_LIMIT)
    assert (outcome.left_out, outcome.lower_bound) == (("copies",), None)


def test_a_later_way_looks_for_nothing_worse():
    outcome = over(*ways([(2, 1)], [(3, 1)]))(problem(), NO_LIMIT)
    assert values(outcome) == {(2, 1)}
    assert outcome.stats.evaluated == 2


@pytest.mark.parametrize(("goal", "other"), [("energy", "latency"), ("latency", "energy")])
def test_a_broken_tie_is_the_best_by_the_other_metric(goal, other):
    for seed in range(80):
        pairs = drawn(random.Random(seed), 9)
        toy = Toy(pairs)
        # the first of equal ones, as a search comes to it
        search = tie_broken(lambda problem, budget, toy=toy: only_first(toy(problem, budget)))
        outcome = search(problem((goal,)), NO_LIMIT)
        key = lambda pair: tuple(objective(point(pair).cost, name) for name in (goal, other))  # noqa: E731
        assert key(outcome.points[0].mapping) == min(map(key, pairs))
        assert outcome.ties_broken


def only_first(outcome):
    return replace(outcome, points=outcome.points[:1])


def test_ties_are_left_where_that_is_asked_for_or_the_search_was_stopped():
    toy = Toy([(1, 2), (1, 1)])
    asked = problem(("energy",)).asking(breaks_ties=False)
    assert not tie_broken(toy)(asked, NO_LIMIT).ties_broken
    stopped = tie_broken(toy)(problem(("energy",)), Budget(Progress(), 1))
    assert (stopped.ended, stopped.ties_broken, len(toy.budgets)) == ("stopped", False, 2)


class Quick:
    """A fallback with one mapping; None: it has none."""

    def __init__(self, pair, known=NOTHING):
        self.pair, self.known, self.begun = pair, known, 0

    def __call__(self, problem, budget):
        self.begun += 1
        self.left = budget.share(1 / 2)
        return self

    def instead(self, outcome):
        if self.pair is None:
            raise NoneInTimeError("nothing in time")
        if outcome.ended is None:
            return replace(outcome, points=(*outcome.points, point(self.pair)))
        own = replace(outcome, points=(point(self.pair),), bound=outcome.bound, ended="in place of it")
        return united([outcome, own])


def test_a_fallback_is_asked_where_a_search_was_stopped_and_is_never_worse():
    for seed in range(80):
        rng = random.Random(seed)
        pairs, pair, work = drawn(rng), drawn(rng, 1)[0], rng.choice((2, 4, 100))
        alone = Toy(pairs)(problem(), Budget(Progress(), work / 2))
        outcome = with_fallback(Toy(pairs), Quick(pair))(problem(), Budget(Progress(), work))
        if alone.ended is None:
            assert (outcome.value, outcome.is_complete) == (alone.value, True)
        else:
            assert outcome.value == min(alone.value, pair[0])
            assert not outcome.is_complete
            assert outcome.lower_bound <= min(pair[0] for pair in pairs)


def test_a_search_is_told_what_its_fallback_found_and_proves_that_where_nothing_is_better():
    told = []

    def search(problem, budget):
        told.append(problem.known)
        return replace(Toy([(2, 2)])(problem, budget), points=())

    outcome = with_fallback(search, Quick((1, 1), Known(1.0)))(problem(), NO_LIMIT)
    assert told == [Known(1.0)]
    assert (outcome.value, outcome.is_complete) == (1, True)


def test_a_fallback_does_not_begin_where_mappings_are_known():
    quick = Quick((1, 1))
    with_fallback(Toy([(2, 2)]), quick)(replace(problem(), known=Known(3.0)), NO_LIMIT)
    assert quick.begun == 0
    assert problem().known is NOTHING


def test_what_was_not_found_in_time_may_exist():
    search = with_fallback(Toy([(2, 2), (1, 1)]), Quick(None))
    with pytest.raises(NoneInTimeError):
        search(problem(), Budget(Progress(), 1))
    assert isinstance(attempted(search, problem(), Budget(Progress(), 1)), NoMappingError)


def test_a_relaxed_search_bounds_and_its_mappings_are_counted_as_they_are():
    # on a machine whose outer memory reads for nothing
    easier = SPEC.set("arch.nodes[0].actions[0].energy", 0)
    search = relaxed(einsum_by_einsum, lambda it: replace(it, spec=easier))
    outcome = search(problem(), NO_LIMIT)
    real = einsum_by_einsum(problem(), NO_LIMIT)
    assert outcome.bound < real.value <= outcome.value
    assert outcome.points[0].spec is SPEC
    assert not outcome.is_complete
    assert outcome.lower_bound == outcome.bound


def test_mappings_are_proven_where_they_reach_a_bound():
    parts = [Toy([(4, 1)])(problem(), NO_LIMIT), replace(Toy([(3, 1)])(problem(), NO_LIMIT), left_out=("some",))]
    proven, open_one = (bounded_by(parts, bound, problem()) for bound in (3, 2.5))
    assert (proven.value, proven.is_complete, proven.lower_bound) == (3, True, 3)
    assert (open_one.value, open_one.is_complete, open_one.lower_bound) == (3, False, 2.5)
    assert not bounded_by(parts, None, problem()).is_complete
