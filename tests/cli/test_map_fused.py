"""`einmap map` of cascades: what it says of fusion, the comparison with unfused mappings, files that load again."""

import io
import json
import math

import pytest
from rich.console import Console

from einmap import load
from einmap.cli.commands import map as map_of_cli
from einmap.cli.progress_bar import ProgressBar
from einmap.model.fusion import fusion_of

CHAIN = ("simple", "matmul_chain", "-D", "M=16", "-D", "N=8")
EXAMPLES = [
    (*CHAIN, "-D", "N_EINSUMS=3"),
    ("simple", "feed_forward", "-D", "N_TOKENS=8", "-D", "D_MODEL=8", "-D", "D_FF=16"),
    ("edge", "mobilenet_pair", "-D", "C=4", "-D", "M=4", "-D", "P=4", "-D", "Q=4"),
    ("simple", "attention_core", "-D", "N_TOKENS=4", "-D", "HEADS=2", "-D", "D_HEAD=2"),
]


def mapped(run, *words):
    return json.loads(run("map", *words, "--json").out)


def test_a_fused_result_says_where_tensors_are_kept_and_what_that_saves(run):
    out = run("map", *CHAIN).out
    fusion, saving = (next(s for s in out.split("\n\n") if s.startswith(w)) for w in ("Fusion", "Against"))
    # several mappings are equally good: with all of T1 at a time, or with some rows
    assert fusion.splitlines()[2].split()[:2] == ["T1", "GlobalBuffer"]
    # 2,048 bits less: T1 is neither written nor read outside
    assert saving.splitlines()[5].split() == ["MainMemory", "traffic", "3,072", "bits", "5,120", "bits", "-40%"]


def test_what_fusion_saves_is_said_also_where_no_time_is_left_for_a_search_of_its_own(run, monkeypatch):
    monkeypatch.setattr(map_of_cli, "LEAST_TIME", math.inf)
    out = run("map", *CHAIN, "--time-limit", "60").out
    assert "Against the best mapping that fuses nothing\n" in out
    assert "-40%" in out


def test_the_json_document_has_the_fused_tensors_and_the_saving(run):
    found = mapped(run, *CHAIN)
    kept = found["fusion"]["intermediates"][0]
    assert (kept["tensor"], kept["memory"], kept["einsums"], kept["fused"]) == (
        "T1",
        "GlobalBuffer",
        ["T1", "T2"],
        True,
    )
    assert kept["bits"] == math.prod(kept["shape"]) * 8
    assert found["fusion"]["nests"] == ([["T1", "T2"]] if kept["loops"] else [])
    unfused = mapped(run, *CHAIN, "--no-fuse")
    assert found["saving"]["optimal"]
    assert found["saving"]["energy"] == {
        "unfused": unfused["cost"]["energy"],
        "best": found["cost"]["energy"],
        "ratio": found["cost"]["energy"] / unfused["cost"]["energy"],
    }
    assert found["saving"]["outside"]["best"] == (16 * 8 * 2 + 8 * 8 * 2) * 8


def test_a_result_that_fuses_nothing_says_so(run):
    out = run("map", *CHAIN, "--no-fuse").out
    assert "none: every intermediate tensor goes through MainMemory" in out
    assert "Against" not in out


def test_the_comparison_can_be_left_out(run):
    assert mapped(run, *CHAIN, "--no-compare")["saving"] is None


def test_one_einsum_has_no_section_on_fusion(run):
    assert "Fusion" not in run("map", "simple", "matmul", "-D", "M=4", "-D", "N=4", "-D", "K=4").out


@pytest.mark.parametrize(
    ("option", "size", "loops", "best"),
    [
        # with 320 bits one loop is better than none, and two are no better; with 200 bits one gains nothing
        ("max_fused_loops=1", 320, 1, {1, 2}),
        ("max_fused_loops=0", 200, 0, {2}),
        ("max_fused_loops_per_rank_variable=0", 200, 0, {2}),
    ],
)
def test_limits_on_fused_loops_are_options(run, tmp_path, option, size, loops, best):
    small = tmp_path / "small.yaml"
    text = (
        "arch: {nodes: ["
        "!Memory {name: Main, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},"
        " actions: [{name: read, energy: 10, throughput: inf}, {name: write, energy: 10, throughput: inf}]},"
        "!Memory {name: Buffer, size: SIZE, leak_power: 0, area: 0, tensors: {keep: All},"
        " actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]},"
        "!Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}]}"
    )
    small.write_text(text.replace("SIZE", str(size)))
    words = (small, *CHAIN[1:])
    free, limited = (mapped(run, *words, *more)["fusion"]["intermediates"][0] for more in ((), ("--option", option)))
    assert len(free["loops"]) in best
    assert free["fused"]
    assert len(limited["loops"]) == loops
    assert limited["fused"] == (loops > 0)


@pytest.mark.parametrize("words", EXAMPLES)
def test_a_fused_mapping_that_was_written_costs_the_same_when_evaluated(run, tmp_path, words):
    path = tmp_path / "best.yaml"
    found = mapped(run, *words, "--no-compare", "-o", path)
    assert found["optimal"]
    evaluated = json.loads(run("evaluate", *words, path, "--json").out)
    del evaluated["notes"], found["cost"]["notes"]  # their places differ
    assert evaluated == found["cost"]
    define = dict(word.split("=") for word in words[3::2])
    spec = load(*words[:2], path, define={name: int(value) for name, value in define.items()})
    assert json.loads(json.dumps(fusion_of(spec.mapping, spec).to_dict())) == found["fusion"]


def test_the_progress_line_says_in_words_what_a_fused_search_does(run, monkeypatch):
    told = []

    class Told(ProgressBar):
        def report(self, report):
            told.append(report.what)

    monkeypatch.setattr("einmap.cli.progress_bar.ProgressBar", Told)
    monkeypatch.setattr("einmap.cli.progress_bar.error_console", _terminal)
    run("map", *CHAIN)
    assert "T1: where its tensors may be kept" in told
    for what in ("loops above the tensors of T1", "ways to fuse T2", "the best chains of T1", "up to T2"):
        assert any(what in line for line in told)
    assert any(what.startswith("without fusion, to compare: T1") for what in told)


def _terminal():
    return Console(file=io.StringIO(), force_terminal=True)
