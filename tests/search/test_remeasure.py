"""The best mappings of a run, executed."""

import importlib.util

import pytest
from tests.emit.running import needs_compiler
from tests.mapper.specs import SPECS

import einmap
from einmap.errors import NotSupportedError, SpecError
from einmap.search.problem import problem_of
from einmap.search.remeasure import remeasured, timed
from einmap.search.run import search
from einmap.search.strategy import Budget


@pytest.fixture(scope="module", params=["energy", "latency", "edp"])
def result(request):
    problem = problem_of(SPECS["lanes with reuse"](), metrics=request.param)
    return search(problem, "annealing", Budget(80))


def test_candidates_are_the_best_mappings_each_once(result):
    found = result.candidates(5)
    values = [one.value for one in found]
    assert values == sorted(values) and values[0] == result.best_value
    assert len({one.mapping for one in found}) == len(found) == 5


def test_the_simulator_counts_what_the_model_predicts(result):
    found = remeasured(result, "simulator", top=4)
    assert len(found) == 4
    for one in found:
        assert one.measured == pytest.approx(one.predicted, rel=1e-9)


def test_machines_whose_components_wait_are_refused_by_name():
    spec = SPECS["lanes with reuse"]()
    name = spec.arch().memories[-1].name
    path = next(".".join(map(str, leaf.path)) for leaf in spec.arch_inputs.leaves if leaf.given.name == name)
    waiting = spec.set(f"arch.nodes[{path.rpartition('.')[2]}].buffering", "single")
    result = search(problem_of(waiting, metrics="latency"), "annealing", Budget(40))
    with pytest.raises(NotSupportedError, match=f"cannot judge latencies with {name!r}"):
        remeasured(result, "simulator", top=2)


@needs_compiler
def test_compiled_mappings_come_in_the_order_of_their_seconds():
    problem = problem_of(einmap.load("simple", "matmul"))
    found = remeasured(search(problem, "annealing", Budget(60)), "c", top=3)
    seconds = [one.measured for one in found]
    assert len(found) == 3 and seconds == sorted(seconds) and seconds[-1] > 0
    assert sorted(one.place for one in found) == [1, 2, 3]


def test_counters_are_left_out_of_what_is_timed():
    text = 'static long long A_read;\n    A_read++;\n    A_read += 4*n;\n    nest();\n    printf("%s%lld\\n", "A", A_read);\n'
    assert "A_read++" not in timed(text) and "A_read +=" not in timed(text) and "lld" not in timed(text)
    assert timed(text).index("clock()") < timed(text).index("nest();") < timed(text).index("CLOCKS_PER_SEC")


def test_another_way_is_refused_with_a_suggestion(result):
    with pytest.raises(SpecError, match="measured by 'simulater'") as error:
        remeasured(result, "simulater")
    assert "simulator" in (error.value.hint or "")
    with pytest.raises(SpecError, match="nothing to measure"):
        remeasured(result, top=0)


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="extra")
def test_the_candidates_of_a_beam_search_are_measured():
    problem = problem_of(SPECS["lanes with reuse"]())
    found = remeasured(search(problem, "tree", Budget(70)), "simulator", top=2)
    assert found[0].measured <= found[-1].measured
