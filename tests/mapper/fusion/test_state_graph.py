"""The graph of options: its edges by definition, unexpanded options, and what is not made anew."""

import weakref
from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.mapper.fusion.behind import NOTHING, by_definition, stages_by_definition
from tests.mapper.fusion.graphs import LANES, OUTERMOST, combinations, option_of, smalls, ways, wild_of

from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL
from einmap.mapper.fusion.fronts.nests.signatures import Key
from einmap.mapper.fusion.paths.boundary_states import (
    ANY_LOOPS,
    OWN,
    BoundaryState,
    BoundaryStates,
    EinsumOptions,
    Live,
    Option,
    StateNumbers,
)
from einmap.mapper.fusion.paths.stage_edges import KeysAhead, edges_of
from einmap.mapper.fusion.paths.state_graph import KEPT, StateGraph

FEW = settings(max_examples=20)
M, N = (TEMPORAL, "M", 2, 3), (TEMPORAL, "N", 2, 3)


def ways_by_definition(steps):
    """Options of each way to fuse, by number: each option tried behind each boundary state."""
    found = [((), NOTHING)]
    for step in steps:
        tried = [
            (*way, o, by_definition(before, option, step))
            for way, before in found
            for o, option in enumerate(step.options)
        ]
        found = [((*way, o), after) for *way, o, after in tried if after is not None]
    return {way for way, _ in found}


def edges_in(graph: StateGraph):
    return [
        {(stage.before[i], o, stage.boundary_states[j]) for i, o, j in stage.edges.tolist()} for stage in graph.stages
    ]


@given(smalls())
def test_ways_are_all_options_that_fit_one_behind_the_other(small):
    graph, expected = small.graph(), ways_by_definition(small.steps)
    assert {tuple(edge.option for edge in way) for way in ways(graph)} == expected
    assert graph.exists == bool(expected)


@given(smalls())
def test_stages_meet_in_boundary_states_that_some_way_has(small):
    graph = small.graph()
    assume(graph.exists)
    for stage, behind in zip(graph.stages, [*graph.stages[1:], None], strict=True):
        assert len(set(stage.before)) == len(stage.before)
        assert behind is None or behind.before == stage.boundary_states
        assert len(np.unique(stage.edges, axis=0)) == len(stage.edges)
    used = [{edge.before for edge in edges} for edges in zip(*ways(graph), strict=True)]
    assert [{int(i) for i in stage.edges[:, 0]} for stage in graph.stages] == used


@st.composite
def cascades(draw: st.DrawFn):
    """Steps whose options have nodes inside, cuts of other ranks and of other Einsums, and states of a recurrence."""
    depth, memory = st.integers(0, 2), st.sampled_from(("near", "near", ""))
    steps = {}
    every = draw(smalls(boundless=True)).steps
    for step in dict.fromkeys(every):
        options = []
        for option in step.options:
            held, cuts = {}, dict(option.cuts)
            for t in option.keys if not (option.unexpanded or option.absent) else ():
                if draw(st.integers(0, 3)) == 0:
                    held[t] = tuple(sorted(draw(st.sets(st.tuples(depth, memory), max_size=2))))
                if draw(st.integers(0, 5)) == 0:
                    rank = draw(st.sampled_from(("M", "N", OWN + "n")))
                    cuts[t] = ((TEMPORAL, rank, 2), *cuts.get(t, ()))
            options.append(replace(option, held=held, cuts=cuts))
        steps[step] = replace(
            step, options=tuple(options), states=frozenset(t for t in step.slots if draw(st.booleans()))
        )
    return [steps[step] for step in every]


@settings(max_examples=60)
@given(cascades(), st.randoms(use_true_random=False))
def test_edges_are_those_of_the_definition_in_its_order(steps, random):
    """The first time, and again by what was found with fewer options."""
    fewer = {step: replace(step, options=tuple(o for o in step.options if random.random() < 0.7)) for step in steps}
    graph = StateGraph([f"E{k}" for k in range(len(steps))])
    for some in (steps, [fewer[step] for step in steps], steps):
        graph.build(some)
        for stage, (before, edges) in zip(graph.stages, stages_by_definition(some), strict=True):
            assert list(stage.before) == before
            assert [(stage.before[i], o, stage.boundary_states[j]) for i, o, j in stage.edges.tolist()] == edges


# unexpanded options


@given(smalls(unexpanded=False))
def test_a_wild_option_fits_wherever_an_option_of_its_family_does(small):
    listed, graph = small.graph(), small.with_unlisted().graph()
    assume(listed.exists)
    options = [stage.step.options for stage in graph.stages]
    possible = {tuple(edge.option for edge in way) for way in ways(graph)}
    for way in ways(listed):
        chosen = [stage.step.options[edge.option] for stage, edge in zip(listed.stages, way, strict=True)]
        either = [
            (
                own.index(option),
                next(o for o, other in enumerate(own) if other.signature_class == wild_of(option).signature_class),
            )
            for own, option in zip(options, chosen, strict=True)
        ]
        assert set(product(*either)) <= possible


@FEW
@given(smalls())
def test_options_with_other_memories_never_meet(small):
    graph = small.graph()
    for way in ways(graph):
        memories: dict[int, str] = {}
        for stage, edge in zip(graph.stages, way, strict=True):
            keys = stage.step.options[edge.option].keys
            for slot, key in keys.items():
                assert slot in stage.step.born or memories[slot] == key.memory
            memories |= {slot: key.memory for slot, key in keys.items()}


@given(smalls(unexpanded=False))
def test_with_what_is_not_listed_the_bound_is_no_higher(small):
    graph = small.graph()
    assume(graph.exists)
    wider = small.with_unlisted()
    bound = wider.paths(wider.graph())
    assert (bound.least <= small.paths(graph).least + 1e-9).all()
    fitting = [found.costs.sum(axis=0) @ small.weights.T for found in combinations(small, graph) if found.fits]
    assert all((bound.least <= costs + 1e-9).all() for costs in fitting)


def step(options, needed, born):
    """A step that runs once, and whose tensors are all intermediate."""
    return EinsumOptions(tuple(options), frozenset(needed), frozenset(born), frozenset(needed) | frozenset(born), 1)


def behind(boundary_state: BoundaryState, option: Option, of: EinsumOptions) -> BoundaryState | None:
    """As a graph has it, which is as it is defined."""
    numbers, row = StateNumbers(), []
    for live in boundary_state.live:
        held, written = numbers.held.of(live.held), numbers.cuts.of(live.written)
        parts = live.slot, numbers.key(live.key), live.shared, held, written, numbers.bits_of(live.bits)
        number = int(numbers.lives.size[0])
        numbers.lives.rows[number], numbers.lives.size[0] = parts, number + 1
        row.append(number)
    rows = np.array([[*row, numbers.loops.of(boundary_state.loops), boundary_state.partial]], dtype=np.int64)
    before = BoundaryStates(numbers, tuple(live.slot for live in boundary_state.live), rows)
    assert before[0] == boundary_state
    states, edges = edges_of(replace(of, options=(option,)), before, KeysAhead({}, {}, stays=True), lambda: None)
    found = states[0] if len(edges) else None
    assert found == by_definition(boundary_state, option, of)
    return found


PRODUCED = option_of({0: ("near", 1)}, [M, N], {0: 5})
USED_AND_PRODUCED = option_of({0: ("near", 1), 1: ("near", 2)}, [M, N], {0: 5, 1: 3})
FIRST, SECOND = step([PRODUCED], {0}, {0}), step([USED_AND_PRODUCED], {0, 1}, {1})


def test_behind_a_wild_option_only_memories_are_known():
    after = behind(NOTHING, wild_of(PRODUCED), FIRST)
    assert after == BoundaryState((Live(0, Key("near", ANY_LOOPS), 0, (), (), 0.0),), (), True)


def test_behind_a_wild_option_that_no_loops_are_above_all_is_known():
    option = option_of({0: (OUTERMOST, 0)}, [M], {0: 5})
    assert behind(NOTHING, wild_of(option), FIRST) == BoundaryState(
        (Live(0, Key(OUTERMOST, ()), 0, (), (), 0.0),), (), False
    )


def test_keys_of_a_listed_option_are_known_behind_what_is_not_listed():
    after = behind(NOTHING, wild_of(PRODUCED), FIRST)
    found = behind(after, USED_AND_PRODUCED, SECOND)
    lives = [Live(t, USED_AND_PRODUCED.keys[t], 0, (), (), 0.0) for t in (0, 1)]
    assert found == BoundaryState(tuple(lives), (), True)


def test_keys_that_a_wild_option_uses_stay_and_those_that_pass_it_are_forgotten():
    boundary_state = behind(NOTHING, PRODUCED, FIRST)
    unknown = Live(1, Key("near", ANY_LOOPS), 0, (), (), 0.0)
    found = behind(boundary_state, wild_of(USED_AND_PRODUCED), SECOND)
    assert found == BoundaryState((Live(0, PRODUCED.keys[0], 0, (), (), 0.0), unknown), (), True)
    # so that two Einsums later those fit that have the same key
    third = step([], set(), set())
    other = option_of({0: ("near", 1), 1: ("near", 1)}, [N], {0: 5, 1: 3})
    assert behind(found, other, third) is None
    for option in (USED_AND_PRODUCED, wild_of(other)):
        assert behind(found, option, third) == NOTHING
    passed = behind(boundary_state, wild_of(option_of({1: ("near", 1)}, [N], {1: 3})), SECOND)
    assert passed == BoundaryState((Live(0, Key("near", ANY_LOOPS), 0, (), (), 0.0), unknown), (), True)
    assert behind(passed, other, third) == NOTHING


def test_a_tensor_that_is_kept_as_a_whole_is_known_to_be():
    whole = option_of({0: ("near", 0), 1: ("near", 2)}, [M, N], {0: 50, 1: 3})
    found = behind(behind(NOTHING, wild_of(PRODUCED), FIRST), whole, SECOND)
    assert [(live.key, live.bits) for live in found.live] == [(Key("near", ()), 50.0), (USED_AND_PRODUCED.keys[1], 0.0)]
    assert behind(found, USED_AND_PRODUCED, step([], set(), set())) is None
    assert behind(found, whole, step([], set(), set())) == NOTHING


def test_a_wild_option_refuses_other_memories():
    boundary_state = behind(NOTHING, PRODUCED, FIRST)
    far = option_of({0: ("far", 1), 1: ("near", 1)}, [M], {0: 5, 1: 3})
    assert behind(boundary_state, wild_of(far), SECOND) is None
    unknown = behind(NOTHING, wild_of(PRODUCED), FIRST)
    assert behind(unknown, far, SECOND) is None
    assert behind(unknown, wild_of(far), SECOND) is None
    assert behind(unknown, wild_of(USED_AND_PRODUCED), SECOND) is not None


def test_listed_options_do_not_meet_in_other_loops_and_lanes():
    boundary_state = behind(NOTHING, PRODUCED, FIRST)
    for pool in ([N, M], [(LANES, "M", 2, 3), N], [(TEMPORAL, "M", 1, 3), N], [(TEMPORAL, "M", 2, 4), N]):
        other = option_of({0: ("near", 1), 1: ("near", 2)}, pool, {0: 5, 1: 3})
        assert behind(boundary_state, other, SECOND) is None
        assert behind(boundary_state, wild_of(other), SECOND) is not None
    assert behind(boundary_state, USED_AND_PRODUCED, SECOND).loops == ((TEMPORAL, 3), (TEMPORAL, 3))


def test_a_listed_option_that_meets_nothing_of_what_is_unknown_is_known_itself():
    # an unexpanded Einsum whose tensors nobody needs any more
    last = step([wild_of(PRODUCED)], set(), {0})
    assert behind(NOTHING, wild_of(PRODUCED), last) == NOTHING
    assert behind(NOTHING, PRODUCED, FIRST) == BoundaryState(
        (Live(0, PRODUCED.keys[0], 1, (), (), 5.0),), ((TEMPORAL, 3),)
    )


# what is not made anew


@FEW
@given(smalls())
def test_a_graph_built_again_has_the_same_stages(small):
    graph = small.graph()
    before = list(graph.stages)
    graph.build(small.steps)
    assert all(own is known for own, known in zip(graph.stages, before, strict=True))


@FEW
@given(smalls(structures=("three", "residual", "used late", "four")), st.integers(0, 3), st.data())
def test_with_one_more_option_what_is_before_stays(small, k, data):
    graph = small.graph()
    assume(graph.exists)
    k = min(k, len(small.steps) - 1)
    before, changed = list(graph.stages), small.steps[k]
    options = [*changed.options, changed.options[data.draw(st.integers(0, len(changed.options) - 1))]]
    more = EinsumOptions(tuple(options), changed.needed, changed.born, changed.intermediates, changed.times)
    steps = [*small.steps[:k], more, *small.steps[k + 1 :]]
    graph.build(steps)
    # the same option once more leads from and to the same boundary states
    assert [own is known for own, known in zip(graph.stages, before, strict=True)] == [
        i != k for i in range(len(steps))
    ]
    assert edges_in(graph) == edges_of_new(steps)
    graph.build(small.steps)
    assert all(own is known for own, known in zip(graph.stages, before, strict=True))


@FEW
@given(smalls(), st.integers(0, 3))
def test_a_graph_with_fewer_options_is_that_of_a_new_one(small, k):
    graph = small.graph()
    k = min(k, len(small.steps) - 1)
    changed = small.steps[k]
    fewer = EinsumOptions(changed.options[1:], changed.needed, changed.born, changed.intermediates, changed.times)
    steps = [*small.steps[:k], fewer, *small.steps[k + 1 :]]
    graph.build(steps)
    assert edges_in(graph) == edges_of_new(steps)


def edges_of_new(steps):
    """Of a graph that knows nothing yet."""
    graph = StateGraph([f"E{k}" for k in range(len(steps))])
    graph.build(steps)
    return edges_in(graph)


def test_stages_that_no_graph_had_for_long_are_forgotten():
    graph = StateGraph(["E0"])
    graph.build([step([PRODUCED], set(), {0})])
    first = weakref.ref(graph.stages[0])
    for _ in range(KEPT - 1):
        graph.build([step([PRODUCED], set(), {0})])
    assert first() is not None
    graph.build([step([PRODUCED], set(), {0})])
    assert first() is None


@FEW
@given(smalls(structures=("twice the same",)))
def test_what_repeats_has_the_same_stages(small):
    graph = small.graph()
    assert graph.stages[0] is graph.stages[2]
    assert graph.stages[1] is graph.stages[3]


def test_stages_before_a_change_stay_and_stages_behind_it_too_where_the_same_comes_out():
    steps = [FIRST, step([USED_AND_PRODUCED], {1}, {1}), step([option_of({1: ("near", 2)}, [M, N], {1: 3})], set(), ())]
    graph = StateGraph(["E0", "E1", "E2"])
    graph.build(steps)
    first = list(graph.stages)
    # nothing uses the other option: its stage is new, the first one and the last one are not
    unused = option_of({0: ("near", 1), 1: ("near", 2)}, [(TEMPORAL, "M", 2, 4), N], {0: 5, 1: 3})
    graph.build([steps[0], step([USED_AND_PRODUCED, unused], {1}, {1}), steps[2]])
    assert [own is known for own, known in zip(graph.stages, first, strict=True)] == [True, False, True]
    # another option that something reaches, and that leads on: all that is behind it is new
    other = option_of({0: ("near", 1), 1: ("near", 1)}, [M, N], {0: 5, 1: 3})
    last = step([*steps[2].options, option_of({1: ("near", 1)}, [M, N], {1: 3})], set(), ())
    graph.build([steps[0], step([USED_AND_PRODUCED, other], {1}, {1}), last])
    assert [own is known for own, known in zip(graph.stages, first, strict=True)] == [True, False, False]
    assert [len(stage.edges) for stage in graph.stages] == [1, 2, 2]


def test_keys_that_no_listed_option_behind_has_are_not_told_apart():
    keys = [option_of({0: ("near", n)}, [M, N], {0: 5}) for n in (1, 2)]
    keys.append(option_of({0: ("near", 2)}, [N, M], {0: 5}))
    user = option_of({0: ("near", 2), 1: ("near", 2)}, [M, N], {0: 5, 1: 3})
    graph = StateGraph(["E0", "E1", "E2"])
    graph.build([step(keys, {0}, {0}), step([wild_of(user)], {0, 1}, {1}), step([wild_of(user), user], set(), ())])
    # behind the first: the key that the last one has, and any other; of both the second one stays unknown
    assert [len(stage.boundary_states) for stage in graph.stages] == [2, 2, 1]
    assert [len(stage.edges) for stage in graph.stages] == [3, 2, 3]
    assert len(list(ways(graph))) == len(keys) + 1
