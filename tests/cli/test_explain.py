"""`einmap explain`: the report, the JSON document, the filters, and what the documentation shows."""

import json
import math
import re
import shlex
from pathlib import Path

import pytest

from einmap import evaluate, load
from einmap.model.explanation.explain import explain
from einmap.report.explanations.explanation import case_rows, change_line, count_line, piece_line

SIMPLE = ("simple", "matmul", "simple_matmul")
DOCS = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()


def test_the_report_has_every_section(run):
    done = run("explain", *SIMPLE, "--all")
    assert done.status == 0
    assert run("explain", *SIMPLE, "--full").out == done.out
    for title in ("Storage nodes:", "Stationary:", "Counts:", "Lives of", "Memories at", "Bottlenecks", "What one"):
        assert f"\n{title}" in done.out


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_no_line_is_wider_than_the_terminal(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    words = ("explain", "simple", "two_matvecs", "simple_two_matvecs_fused")
    out = run(*words).out + run(*words, "--all").out
    assert [line for line in out.splitlines() if line != line.rstrip() or len(line) > int(columns)] == []


LARGE = {
    "six Einsums": ("simple", "attention_core", "simple_attention_fused"),
    "five memories": ("eyeriss", "resnet50_layer", "eyeriss_conv", "-D", "LAYER=conv2_2", "-D", "BITS=16"),
}


@pytest.mark.parametrize("words", LARGE.values(), ids=LARGE)
def test_it_begins_with_what_matters(run, words):
    out = run("explain", *words).out
    assert len(out.splitlines()) <= 40
    assert len(run("explain", *words, "--all").out.splitlines()) > 60
    for title in (
        "What limits the latency",
        "Where the energy goes",
        "What moves most in each memory",
        "What one change",
    ):
        assert f"\n{title}" in out
    assert "--all" in out


def test_the_summary_says_why(run):
    done = run("explain", *SIMPLE)
    text = " ".join(done.out.split())
    assert "Z 262 µs 100% limited by MAC, 2.7 x ahead of GlobalBuffer" in text
    # B is read four times, once for each tile of m: 16,384 values where it has 4,096
    assert "read B 67%: 16,384 values down to GlobalBuffer, each chunk 4 x since m 4 stands above" in text
    assert "GlobalBuffer: 1.02 MiB moved; 2.25 KiB of 64 KiB in use at most" in text
    assert "Storage nodes:" not in done.out
    assert "Storage nodes:" in run("explain", *SIMPLE, "--tensor", "A").out


def test_json_is_one_document_with_the_numbers_of_the_library(run):
    done = run("explain", *SIMPLE, "--json")
    found = json.loads(done.out, parse_constant=pytest.fail)
    explanation = explain(load(*SIMPLE))
    assert [d["count"] for d in found["derivations"]] == [d.count for d in explanation.derivations]
    assert found["fullest"][0]["capacity"] is None  # infinite
    assert found["cases"][0]["address"] == "nodes[0]"


def test_tensors_components_and_einsums_can_be_chosen(run):
    done = run("explain", *SIMPLE, "--json", "--tensor", "A", "--component", "GlobalBuffer")
    found = json.loads(done.out)
    assert {(d["tensor"], d["component"]) for d in found["derivations"]} == {("A", "GlobalBuffer")}
    cascade = "simple", "two_matvecs", "simple_two_matvecs_fused"
    found = json.loads(run("explain", *cascade, "--json", "--einsum", "EinsumB").out)
    assert {n["einsum"] for n in found["cases"]} == {"EinsumB"}


@pytest.mark.parametrize("option", ["--tensor", "--component", "--einsum"])
def test_unknown_names_are_refused(run, option):
    done = run("explain", *SIMPLE, option, "GlobalBufer")
    assert done.status == 2
    assert f"error: {option} GlobalBufer" in done.err


def test_a_specification_without_a_mapping_is_refused(run):
    done = run("explain", "simple", "matmul")
    assert done.status == 2
    assert "no mapping given" in done.err


def test_other_counting_rules_are_named_in_a_note(run, tmp_path):
    (tmp_path / "rules.yaml").write_text("model: {semantics: accelforge}\n")
    assert "explained is what exact counts" in run("explain", *SIMPLE, tmp_path / "rules.yaml").err


def test_lines_say_what_counts_are_made_of():
    explanation = explain(load(*SIMPLE, define={"M": 16, "K": 8, "N": 16}))
    (read,) = [d for d in explanation.derivations if (d.component, d.tensor, d.action) == ("GlobalBuffer", "Z", "read")]
    made_of = "2,048 values x 8 actions each (8 bits, 1 bit an action), 8.19 nJ"
    assert count_line(read) == f"GlobalBuffer read Z: 16,384 = {made_of}"
    assert [piece_line(piece, read) for piece in read.pieces] == [
        "1,792 down to MAC: 2,048 x 1 value (k 8, m 16, n 16); less 256 first touches",
        "256 written back to MainMemory: 1 tile x 256 values (m 16, n 16 below)",
    ]
    (fill,) = [d for d in explain(load(*SIMPLE)).derivations if (d.action, d.tensor) == ("write", "B")]
    assert piece_line(fill.pieces[0], fill) == (
        "16,384 filled from MainMemory: 16 tiles x 1,024 values (m 4, n 4 above; k 64, n 16 below)"
    )
    (a,) = [n for n in explanation.cases if (n.tensor, n.component) == ("A", "GlobalBuffer")]
    assert case_rows(a) == [
        ("rank not in A", "-\neach chunk fetched 1 x", "n 16\neach value used 16 x by MAC"),
        ("rank in A", "-\n1 distinct chunk", "k 8, m 16\ntile 16x8 (M, K), 1,024 bits"),
    ]


def test_lines_say_which_rewrite_makes_a_change():
    explanation = explain(load(*SIMPLE))
    lines = [change_line(change) for change in explanation.changes if change.kind == "capacity"]
    assert lines == [
        "GlobalBuffer: hold B above the loops over n, m; fits: 5.25 KiB of 64 KiB (hoist B@nodes[4] above nodes[1])"
    ]


SCALED = """arch:
  nodes:
  - !Memory {name: Main, size: inf, component_class: LPDDR4, bits_per_action: 64}
  - !Compute
    name: MAC
    leak_power: 1e-3
    area: 0
    actions: [{name: compute, energy: 1e-12, energy_scale: 3, throughput: 1e9}]
workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ["Z[m] = A[m]"]}
mapping:
  nodes:
  - !Storage {tensors: [A, Z], component: Main}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""


def test_the_energy_is_a_sum_with_the_place_of_each_number(run, tmp_path):
    file = tmp_path / "\x1b[31mscaled.yaml"
    file.write_text(SCALED)
    out = run("explain", file, "--energy").out
    assert "\x1b" not in out
    lines = [" ".join(line.replace("\\x1b[31m", "").split()) for line in out.splitlines()]
    assert "MAC compute 4 3 pJ 12 pJ 2% [3]" in lines
    assert "[3] MAC compute 3 pJ = 1 pJ x energy_scale 3 (scaled.yaml:8), from" in lines
    assert "total 528 pJ 100%" in lines


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_the_sum_fits_the_terminal_and_its_parts_can_be_chosen(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    cascade = "simple", "two_matvecs", "simple_two_matvecs_fused"
    out = run("explain", *cascade, "--energy").out
    assert [line for line in out.splitlines() if line != line.rstrip() or len(line) > int(columns)] == []
    found = json.loads(run("explain", *cascade, "--energy", "--json").out, parse_constant=pytest.fail)
    assert math.fsum(p["energy"] for term in found["terms"] for p in term["parts"]) == found["energy"]
    assert found["energy"] == evaluate(load(*cascade)).energy
    some = json.loads(run("explain", *cascade, "--energy", "--json", "--tensor", "A", "--einsum", "EinsumB").out)
    assert {(t["tensor"], p["einsum"]) for t in some["terms"] for p in t["parts"]} == {("A", "EinsumB")}


def shown():
    """Every command of the documentation with what it says that it prints."""
    return re.findall(r"```\n\$ (einmap .*)\n((?:.*\n)*?)```", DOCS)


@pytest.mark.parametrize(("command", "printed"), shown())
def test_the_documentation_shows_what_is_printed(run, monkeypatch, command, printed):
    monkeypatch.setenv("COLUMNS", "100")
    out = run(*shlex.split(command)[1:]).out
    for part in printed.split("...\n"):
        assert part.strip("\n") in out


def test_the_documentation_shows_both_commands():
    assert {command.split()[1] for command, _ in shown()} == {"explain", "diff"}
