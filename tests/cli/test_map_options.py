"""`einmap map`: metrics and options by the mapper's names, and what --stats shows."""

import json

import pytest
from tests.cli.test_map import SMALL

import einmap


@pytest.mark.parametrize("metric", ["dynamic_energy", "leak_energy", "resource_usage"])
def test_all_metrics_of_the_mapper_are_accepted(run, metric):
    mapped = json.loads(run("map", *SMALL, "--metrics", metric, "--json").out)
    assert (mapped["metrics"], mapped["optimal"]) == ([metric], True)


def test_the_metric_is_named_as_people_read_it(run):
    assert run("map", *SMALL, "--metrics", "dynamic_energy").out.startswith("proven optimal in dynamic energy of")


def test_options_have_the_names_of_the_specification(run):
    mapped = json.loads(
        run("map", *SMALL, "--option", "metrics=latency", "--option", "max_fused_loops=1", "--json").out
    )
    assert mapped["metrics"] == ["latency"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--option", "objective_tolerence=0.1"], "did you mean 'objective_tolerance'"),
        (["--option", "objective_tolerance"], "write NAME=VALUE, for example objective_tolerance=0.01"),
        (["--option", "metrics=energy", "--metrics", "edp"], "--metrics gives them too"),
        (["--option", "seed=3"], "no option 'seed'"),
        (["--option", "objective_tolerance=much"], "expected a number, found 'much'"),
        (["--metrics", "enrgy"], "did you mean 'energy'"),
    ],
)
def test_wrong_options_are_errors(run, words, text):
    done = run("map", *SMALL, *words)
    assert (done.status, done.out) == (2, "")
    assert text in " ".join(done.err.replace("│", " ").split())


def test_stats_show_the_mapspace_and_what_became_of_it(run):
    out = run("map", *SMALL, "--stats").out
    shown = einmap.map_workload(einmap.load("simple", "matmul", define={"M": 4, "N": 4, "K": 4})).stats
    row = shown.by_einsum["Z"]
    assert f"mapspace   10^{len(str(int(shown.mapspace_size))) - 1}." in out
    for title in ("Search", "Mapspace of each Einsum", "What became of its mappings"):
        assert title in out.splitlines()
    (sizes, fates) = [line.split() for line in out.splitlines() if line.startswith("  Z ")]
    counts = (row[key] for key in ("templates", "lanes", "lattice_points", "loops", "loops_removed", "nodes"))
    assert sizes[2:] == [str(n) for n in counts]
    assert fates[-1] == "0"
    assert all(len(line) <= 80 for line in out.splitlines())


def test_stats_of_alike_einsums_point_at_the_one_that_was_searched(run):
    out = run("map", "simple", "attention", "-D", "N_TOKENS=2", "-D", "D_MODEL=4", "--stats").out
    assert "like " in out


def test_without_stats_there_are_none(run):
    assert "Mapspace" not in run("map", *SMALL).out


def test_json_carries_the_statistics(run):
    stats = json.loads(run("map", *SMALL, "--json").out)["stats"]
    assert set(stats["steps"]) == {"planning", "bounds", "tables", "search", "evaluation"}
    outcomes = stats["by_einsum"]["Z"]["outcomes"]
    assert sum(part["mappings"] for part in outcomes.values()) == stats["mapspace_size"]
    assert stats["by_einsum"]["Z"]["loops_removed"] > 0
