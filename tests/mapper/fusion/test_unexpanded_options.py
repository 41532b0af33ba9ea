"""What stands for the chains of three real Einsums that are not listed: it fits and bounds whatever may be listed."""

from functools import cache
from itertools import product

import pytest
from tests.mapper.fusion.graphs import ways
from tests.mapper.fusion.prepared import prepared
from tests.mapper.fusion.test_repeated_structure import ARCH

import einmap
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.paths.boundary_states import ANY_LOOPS
from einmap.mapper.fusion.paths.options import OptionTable, option_of, unexpanded_option
from einmap.mapper.fusion.paths.state_graph import StateGraph
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.option_bounds import bounds_of

# X is used twice, the second time beside what the first use makes of it
EINSUMS = ["X[m, n] = A[m] * B[n]", "Y[m] = X[m, n]", "Z[m, n] = X[m, n] * Y[m]"]


@cache
def cascade() -> CascadeProblem:
    """Three Einsums with all that can be listed of them: two loops at most are fused."""
    spec = einmap.Spec.from_dict(
        arch=ARCH,
        workload={"rank_sizes": {"M": 2, "N": 3}, "bits_per_value": {"All": 8}, "einsums": EINSUMS},
    )
    found = prepared(spec)
    for member in found.distinct:
        assert isinstance(member.chains, EinsumFronts)
        member.chains.survey(dict.fromkeys(member.chains.signature_classes))
    return found


def options_of(k, slots, *, unexpanded, listed):
    member = cascade().members[k]
    found = []
    if unexpanded:
        found += [
            unexpanded_option(member.einsum, member.chains, signature_class, slots)
            for signature_class in member.chains.signature_classes
        ]
    if listed:
        found += [option_of(member.einsum, member.chains, signature, slots) for signature in member.chains.signatures]
    return found


def graph_of(unexpanded, listed) -> StateGraph:
    """All ways, with unexpanded options and listed ones of the Einsums at these positions."""
    chains = [member.chains for member in cascade().members]
    steps = OptionTable(cascade().slots, chains, [1, 1, 1], [()] * 3)
    graph = StateGraph(["X", "Y", "Z"])
    graph.build(steps.all(lambda k, of: options_of(k, of, unexpanded=k in unexpanded, listed=k in listed)))
    return graph


def families_of(graph):
    """For each way the signature class or signature of each option."""
    return {
        tuple(
            option.signature_class or option.signature
            for option in (s.step.options[e.option] for s, e in zip(graph.stages, way, strict=True))
        )
        for way in ways(graph)
    }


def test_families_are_all_choices_of_memories():
    memories = [
        {memory for _, memory in signature_class}
        for member in cascade().members
        for signature_class in member.chains.signature_classes
    ]
    assert set().union(*memories) == {"DRAM", "GLB"}
    assert [len(member.chains.signature_classes) for member in cascade().members] == [2, 4, 4]


def test_of_a_wild_option_the_loops_are_known_in_the_outermost_memory_alone():
    for k, slots in enumerate(({"X": 0}, {"X": 0, "Y": 1}, {"X": 0, "Y": 1})):
        for option in options_of(k, slots, unexpanded=True, listed=False):
            assert option.unexpanded
            assert option.loops == ()
            assert {key for key in option.keys.values() if key.loops == ()} == {
                key for key in option.keys.values() if key.memory == "DRAM"
            }
            assert all(key.loops in ((), ANY_LOOPS) for key in option.keys.values())


def test_no_loop_stands_above_a_listed_tensor_in_the_outermost_memory():
    for member in cascade().members:
        for signature in member.chains.signatures:
            assert signature.signature_class in member.chains.signature_classes
            assert all(not key.loops for _, key in signature.keys if key.memory == "DRAM")


def test_nothing_that_is_listed_costs_less_than_its_family():
    for k, slots in enumerate(({"X": 0}, {"X": 0, "Y": 1}, {"X": 0, "Y": 1})):
        chains = cascade().members[k].chains
        least = {
            option.signature_class: bounds_of(chains, option).min(axis=0)
            for option in options_of(k, slots, unexpanded=True, listed=False)
        }
        for option in options_of(k, slots, unexpanded=False, listed=True):
            assert (bounds_of(chains, option).min(axis=0) >= least[option.signature.signature_class] * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    "unexpanded", [set(own) for own in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))], ids=str
)
def test_whatever_is_listed_may_be_something_that_is_not(unexpanded):
    listed = families_of(graph_of(set(), {0, 1, 2}))
    # X and Y are each in DRAM, in GLB, or in GLB below a loop over m that all three share
    assert len(listed) == 9
    mixed = families_of(graph_of(unexpanded, {0, 1, 2} - unexpanded))
    for way in listed:
        assert tuple(own.signature_class if k in unexpanded else own for k, own in enumerate(way)) in mixed


def test_ways_with_all_options_are_those_of_each_choice_of_what_is_listed():
    together = families_of(graph_of({0, 1, 2}, {0, 1, 2}))
    apart = set()
    for unexpanded in product((True, False), repeat=3):
        apart |= families_of(
            graph_of({k for k in range(3) if unexpanded[k]}, {k for k in range(3) if not unexpanded[k]})
        )
    assert together == apart


def test_unlisted_neighbours_agree_in_the_memories_of_what_they_share():
    # X in two memories, and Y in two
    memories = [
        tuple(dict(signature_class) for signature_class in way) for way in families_of(graph_of({0, 1, 2}, set()))
    ]
    assert len(memories) == 4
    for first, second, third in memories:
        assert first[2] == second[0] == third[0]
        assert second[1] == third[1]
