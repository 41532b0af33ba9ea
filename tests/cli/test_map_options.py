"""`einmap map`: metrics and options by the mapper's names, and what --stats shows."""

import json

import pytest
from tests.cli.test_map import SMALL
from tests.machines import machine

import einmap
from einmap.mapper.objective.metrics import METRICS


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


TIMELESS = """
workload: {rank_sizes: {M: 4, N: 4, K: 4}, bits_per_value: {All: 8}, einsums: ["Z[m, n] = A[m, k] * B[k, n]"]}
""" + machine("""
    Main inf 1/2 @1 {leak_power: 1, total_latency: 0}
    Buf 64 0.1/0.1 @0.1 {tensors: {may_keep: All}, total_latency: LATENCY} / MAC 1 @inf
""")


def test_a_latency_of_0_is_told_before_anything_is_called_optimal(run, tmp_path):
    spec = tmp_path / "timeless.yaml"
    spec.write_text(TIMELESS.replace("LATENCY", "0"))
    out = " ".join(run("map", str(spec)).out.split())
    assert out.index("warning: the latency is 0, and with it every EDP") < out.index("proven optimal")
    assert "warning" not in run("map", str(spec), "--metrics", "dynamic_energy").out


def test_a_front_shows_every_metric_and_says_which_mapping_is_written(run, tmp_path):
    spec, target = tmp_path / "front.yaml", tmp_path / "first.yaml"
    spec.write_text(TIMELESS.replace(", total_latency: LATENCY", "").replace(" total_latency: 0,", ""))
    front = run("map", str(spec), "--metrics", "dynamic_energy,latency", "-o", str(target))
    points = json.loads(run("map", str(spec), "--metrics", "dynamic_energy,latency", "--json").out)["front"]
    assert len(points) > 1
    assert all({"dynamic_energy", "latency"} <= point.keys() for point in points)
    assert "dynamic energy" in front.out
    assert f"wrote the first of {len(points)} mappings" in " ".join(front.err.split())


def test_the_help_names_every_metric(run):
    text = run("map", "--help").out
    assert [m.name for m in METRICS.values() if not any(word in text for word in (m.name, *m.aliases))] == []
