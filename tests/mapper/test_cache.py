"""Results kept on disk: given again for the same call only, and never trusted blindly."""

import inspect
import json
import multiprocessing
from dataclasses import fields, replace

import pytest
from tests.mapper.specs import MAIN, MATMUL, SPECS, compute, memory, spec, two_level

import einmap
from einmap import facade
from einmap.errors import NoMappingError, SpecError
from einmap.mapper import mapper
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import Problem
from einmap.mapper.result import result_cache
from einmap.mapper.result.outcome import Outcome
from einmap.mapper.result.result import MapResult, MapStats
from einmap.mapper.result.result_cache import Entry
from einmap.mapping.template import AnyPlace, OpenCompute, PartialMapping
from einmap.model.counting.semantics import EXACT

CHAIN = ["X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]"]


def cascade():
    return spec([MAIN, memory("Buf", 120, 1), compute()], CHAIN, {"M": 2, "N": 2, "K": 2, "P": 2})


@pytest.fixture
def searches(monkeypatch):
    """The searches that were done, as a list of their results."""
    found, search = [], mapper._searched

    def counted(*arguments):
        found.append(search(*arguments))
        return found[-1]

    monkeypatch.setattr(mapper, "_searched", counted)
    return found


def entries(folder):
    return sorted(folder.iterdir())


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (two_level, {}),
        (two_level, {"metrics": "energy|latency"}),
        (two_level, {"metrics": "resource_usage"}),
        (two_level, {"brute_force": True}),
        (two_level, {"semantics": "accelforge"}),
        (SPECS["lanes with reuse"], {"metrics": "energy|latency"}),
        (SPECS["toll"], {}),
        (cascade, {"metrics": "energy|latency"}),
        (cascade, {"fuse": False}),
    ],
)
def test_the_second_call_gives_an_equal_result_without_a_search(tmp_path, searches, given, options):
    first = einmap.map_workload(given(), cache=tmp_path, **options)
    second = einmap.map_workload(given(), cache=str(tmp_path), **options)
    assert len(searches) == 1
    assert first.optimal
    assert second == first
    assert (first.cached, second.cached) == (False, True)
    assert [found.mapping for found in second.front] == [found.mapping for found in first.front]
    assert [found.cost.to_dict() for found in second.front] == [found.cost.to_dict() for found in first.front]
    assert second.gap == 0


def test_without_a_directory_nothing_is_kept(tmp_path, monkeypatch, searches):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert not einmap.map_workload(two_level()).cached
    assert len(searches) == 2
    assert entries(tmp_path) == []


GIVEN = PartialMapping((AnyPlace(), OpenCompute("Z")))
CHANGES = {
    "a size": lambda s: (s.set("arch.nodes.Buf.size", 121), {}),
    "an energy": lambda s: (s.set("arch.nodes.Main.actions.read.energy", 11), {}),
    "a rank size": lambda s: (s.set("workload.rank_sizes.M", 8), {}),
    "an option of the specification": lambda s: (s.set("mapper.tiling_coarseness", 2), {}),
    "metrics": lambda s: (s, {"metrics": "energy"}),
    "the order of metrics": lambda s: (s, {"metrics": "latency,energy"}),
    "semantics": lambda s: (s, {"semantics": "accelforge"}),
    "semantics of one's own": lambda s: (s, {"semantics": replace(EXACT, lane_first_touch="every lane")}),
    "fuse": lambda s: (s, {"fuse": False}),
    "max_evaluations": lambda s: (s, {"max_evaluations": 10**9}),
    "seed": lambda s: (s, {"seed": 1}),
    "brute_force": lambda s: (s, {"brute_force": True}),
    "objective_tolerance": lambda s: (s, {"objective_tolerance": 0.01}),
    "memory_limit": lambda s: (s, {"memory_limit": 8 * 10**9}),
    "given": lambda s: (s, {"given": einmap.map_workload(s, metrics="latency").mapping}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_is_searched(tmp_path, searches, change):
    changed, options = change(two_level())
    searches.clear()
    einmap.map_workload(two_level(), cache=tmp_path)
    assert not einmap.map_workload(changed, cache=tmp_path, **options).cached
    assert len(searches) == 2
    assert einmap.map_workload(changed, cache=tmp_path, **options).cached


def test_another_version_of_einmap_is_searched(tmp_path, monkeypatch):
    versions = (
        (result_cache, "_version", lambda: "0"),
        (facade, "own_code", lambda: "other"),
        (result_cache, "FORMAT", 0),
    )
    for version in versions:
        einmap.map_workload(two_level(), cache=tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(*version)
            assert not einmap.map_workload(two_level(), cache=tmp_path).cached
    assert len(entries(tmp_path)) == 4


def test_what_says_the_same_is_found(tmp_path):
    einmap.map_workload(two_level(), cache=tmp_path, metrics="edp")
    written = einmap.loads(einmap.dump(two_level()))
    same = {"metrics": ["energy_delay_product"], "semantics": "exact", "workers": 1, "time_limit_s": 99, "given": GIVEN}
    assert einmap.map_workload(written, cache=tmp_path, **same).cached


@pytest.fixture(scope="module")
def two_processes():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        yield pool


def test_the_key_is_the_same_in_every_process(two_processes):
    keys = set(two_processes.map(key_with_a_given_set, range(2)))
    assert keys == {key_with_a_given_set(0)}


def key_with_a_given_set(_):
    given = two_level()
    patterns = mapper.patterns_of(einmap.map_workload(given, metrics="energy").mapping, given)
    return result_cache.key_of("code", Problem(given, read_options(given), patterns))


def test_results_that_are_not_complete_are_not_kept(tmp_path):
    result = einmap.map_workload(two_level(), cache=tmp_path, max_evaluations=1, brute_force=True)
    assert not result.optimal
    assert entries(tmp_path) == []


def test_that_nothing_fits_is_not_kept(tmp_path, searches):
    for _ in range(2):
        with pytest.raises(NoMappingError):
            einmap.map_workload(
                spec([memory("Main", 8, 1), compute()], MATMUL, {"M": 4, "K": 4, "N": 4}), cache=tmp_path
            )
    assert entries(tmp_path) == []


def test_functions_of_the_user_are_not_taken_to_be_the_same(tmp_path):
    def with_factor(factor):
        given = two_level().set("arch.nodes.Buf.size", "120 * factor()").to_dict()
        return einmap.Spec.from_dict(given, functions={"factor": lambda: factor})

    for factor in (1, 2):
        result = einmap.map_workload(with_factor(factor), cache=tmp_path)
        assert not result.cached
        assert result == replace(einmap.map_workload(with_factor(factor)), stats=result.stats)
    assert entries(tmp_path) == []


def resealed(text, change):
    """An entry that says something else, with the hash that belongs to it."""
    entry = json.loads(text)
    change(entry["result"])
    holder = Entry(None, entry["key"], None)
    return json.dumps({**entry, "sha256": holder._check(entry["result"])})


def with_other_digit(text, field):
    """An entry whose first character behind the name of a field is another digit."""
    before, after = text.split(field, 1)
    return f"{before}{field}{(int(after[0], 16) + 1) % 10}{after[1:]}"


def energy(result):
    result["points"][0]["values"][0] *= 1 + 1e-15


def tile(result):
    loop = next(node for node in result["points"][0]["mapping"]["nodes"] if node["type"] == "Temporal")
    loop["tile_shape"] = 3


def unknown(result):
    result["stats"]["more"] = 1


BROKEN = {
    "empty": lambda text: "",
    "truncated": lambda text: text[: len(text) // 2],
    "one character less": lambda text: text[:-1],
    "another format": lambda text: text.replace('{"format":3', '{"format":2'),
    "another key": lambda text: with_other_digit(text, '"key":"'),
    "another hash": lambda text: with_other_digit(text, '"sha256":"'),
    "another digit": lambda text: with_other_digit(text, '"values":['),
    "more than was written": lambda text: text.replace("{", '{"more":1,', 1),
    "another reason": lambda text: text.replace('"every":"mapping', '"every":"other mapping'),
    "no dictionary": lambda text: "[1]",
    "foreign": lambda text: '{"name": "mine"}',
    "deep": lambda text: "[" * 100_000,
    "zeros": lambda text: "\0" * len(text),
    "another cost": lambda text: resealed(text, energy),
    "a mapping that does not fit": lambda text: resealed(text, tile),
    "no mapping": lambda text: resealed(text, lambda result: result.update(points=[])),
    "other metrics": lambda text: resealed(text, lambda result: result.update(goals=["energy"])),
    "other statistics": lambda text: resealed(text, unknown),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_broken_entries_are_ignored_and_replaced(tmp_path, searches, broken):
    first = einmap.map_workload(two_level(), cache=tmp_path)
    (file,) = entries(tmp_path)
    good = file.read_text()
    file.write_text(broken(good))
    assert file.read_text() != good
    again = einmap.map_workload(two_level(), cache=tmp_path)
    assert (again.cached, len(searches)) == (False, 2)
    assert again.cost == first.cost
    assert einmap.map_workload(two_level(), cache=tmp_path).cached
    assert entries(tmp_path) == [file]


def test_an_entry_under_another_key_is_ignored(tmp_path):
    einmap.map_workload(two_level(), cache=tmp_path)
    (file,) = entries(tmp_path)
    text = file.read_text()
    einmap.map_workload(two_level(), cache=tmp_path, seed=1)
    (other,) = set(entries(tmp_path)) - {file}
    other.write_text(text)
    assert not einmap.map_workload(two_level(), cache=tmp_path, seed=1).cached


def test_a_directory_that_cannot_be_used_is_an_error_before_the_search(tmp_path, searches):
    (tmp_path / "file").touch()
    with pytest.raises(SpecError, match="cannot keep results in this directory"):
        einmap.map_workload(two_level(), cache=tmp_path / "file")
    assert searches == []


def test_a_result_is_not_lost_when_the_directory_is(tmp_path, monkeypatch):
    folder, search = tmp_path / "results", mapper._searched

    def then_removed(*arguments):
        found = search(*arguments)
        folder.rmdir()
        return found

    monkeypatch.setattr(mapper, "_searched", then_removed)
    assert einmap.map_workload(two_level(), cache=folder).optimal
    assert not folder.exists()


def test_two_processes_may_write_at_the_same_time(tmp_path, two_processes):
    costs = two_processes.map(write_and_read_often, [tmp_path] * 2, chunksize=1)
    assert costs[0] == costs[1]
    assert len(entries(tmp_path)) == 1
    assert einmap.map_workload(two_level(), cache=tmp_path).cached


def write_and_read_often(folder):
    given = two_level()
    result = einmap.map_workload(given, cache=folder)
    entry = facade.results_in(folder).entry(Problem(given, read_options(given)))
    outcome = entry.read()
    for _ in range(30):
        entry.write(outcome)
        assert entry.read().points == outcome.points
    return result.cost


def test_what_is_added_to_calls_and_results_must_be_thought_of_here():
    """A new argument must be part of the key or make no difference; a new field must be kept or be made anew."""
    in_the_key = {"metrics", "semantics", "max_evaluations", "seed", "brute_force", "given", "fuse", "options"}
    no_difference = {"time_limit_s", "workers", "progress", "cache"}
    one_by_one = {"rewrites"}  # each cascade is a workload with a key of its own
    assert set(inspect.signature(einmap.map_workload).parameters) == {"spec"} | in_the_key | no_difference | one_by_one
    kept = {"front", "metrics", "optimal", "lower_bound", "reason", "stats", "cached", "ties_broken"}
    kept |= {"not_searched", "stopped"}  # nothing is kept where something was not searched
    kept |= {"unfused"}  # a comparison searches it anew
    assert {f.name for f in fields(MapResult)} == kept
    anew = {"goals", "points", "stats", "cached", "ended", "left_out", "unfit", "unfused"}
    anew |= {"planned"}  # for the tie of the same call
    assert {f.name for f in fields(Outcome)} == {*result_cache.CLAIMS} | anew
    assert {f.name for f in fields(MapStats)} == {
        "mapspace_size", "templates", "evaluated", "seconds", "by_einsum", "steps",
    }  # fmt: skip
