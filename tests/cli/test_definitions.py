"""Values of template variables: a name of `-D` that nothing asks for is an error with a suggestion."""

from pathlib import Path

import pytest

SIMPLE = ("simple", "matmul", "simple_matmul")
ARCH = """arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, actions: [
      {name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("arch.yaml").write_text(ARCH)


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", *SIMPLE),
        ("map", *SIMPLE[:2]),
        ("rewrite", *SIMPLE, "--do", "split k 8"),
        ("partition", "matmul", "--split", "K=2"),
        ("gradient", "matmul", "--of", "Z", "--by", "A"),
        ("simulate", *SIMPLE),
        ("emit", *SIMPLE),
        ("run", "matmul", "matmul_reduce_scatter"),
        ("dump", *SIMPLE),
        ("explain", *SIMPLE),
        ("diff", "simple_matmul", "simple_matmul", "--with", "matmul"),
        ("show", *SIMPLE),
    ],
    ids=lambda words: words[0],
)
def test_a_name_that_no_template_asks_for_is_answered_with_the_closest_one(run, words):
    done = run(*words, "-D", "M=64", "-D", "BITTS=16")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: -D BITTS: no file has a template variable BITTS\n  hint: did you mean 'BITS'?")


def test_a_size_of_no_rank_is_noted_by_every_command_that_uses_the_workload(run):
    given = "workload: {rank_sizes: {M: 64, K: 64, N: 64, KK: 2}, bits_per_value: {All: 8}, "
    Path("sized.yaml").write_text(given + "einsums: ['Z[m, n] = A[m, k] * B[k, n]']}\n")
    Path("spread.yaml").write_text("distribution: {mesh: {x: 2}, placements: {A: {M: x}}}\n")
    whole = ("simple", "sized.yaml", "simple_matmul")
    for words in (
        ("evaluate", *whole), ("map", *whole[:2], "--max-evaluations", 9), ("simulate", *whole), ("emit", *whole),
        ("explain", *whole), ("rewrite", *whole, "--do", "split k 8"), ("partition", "sized.yaml", "--split", "K=2"),
        ("gradient", "sized.yaml", "--of", "Z", "--by", "A"), ("run", "sized.yaml", "spread.yaml"),
    ):  # fmt: skip
        done = run(*words)
        assert done.status == 0, done.err
        assert "workload.rank_sizes.KK: the size of rank 'KK' is not used" in done.err, words


def test_without_templates_the_hint_says_what_such_a_value_is_for(run):
    done = run("plan-matmul", 128, 128, 128, "--machine", "chiplet_256", "--dtype", "fp8", "-D", "X=1")
    assert (done.status, "write {{ X }} into a file where the value belongs" in done.err) == (2, True)


def test_all_names_that_nothing_asks_for_are_reported(run):
    assert run("dump", "matmul", "-D", "X=1", "-D", "Y=2").err.count("error: -D ") == 2


def test_a_name_counts_wherever_a_file_that_is_read_asks_for_it(run):
    Path("main.yaml").write_text(
        "{% if SMALL is defined %}{% set N = LEAST %}{% endif %}\n"
        "{% macro size(n) %}{{ n * FACTOR | default(1) }}{% endmacro %}\n"
        "{% for i in range(0) %}{{ NEVER }}{% endfor %}\n"
        "{% include 'jinja.txt' %}\n"
        "variables: {{ include('part.yaml') }}\n"
        "workload:\n"
        "  rank_sizes: {M: {{ size(N | default(4)) }}}\n"
        "  bits_per_value: {All: 8}\n"
        "  einsums: [!include tagged.yaml]\n"
    )
    Path("jinja.txt").write_text("# {{ JINJA | default('') }}\n")
    Path("part.yaml").write_text("x: {{ PART | default(1) }}\n")
    Path("tagged.yaml").write_text("{einsum: 'Z[m] = A[m]', n_instances: {{ TAGGED | default(1) }}}\n")
    for name in ("SMALL", "LEAST", "FACTOR", "NEVER", "JINJA", "PART", "TAGGED"):
        others = ["-D", "LEAST=2"] if name == "SMALL" else []
        done = run("dump", "arch.yaml", "main.yaml", "-D", f"{name}=3", *others)
        assert (done.status, done.err) == (0, ""), name


def test_a_name_that_the_file_sets_itself_is_not_asked_for(run):
    Path("main.yaml").write_text("{% set N = 4 %}\nvariables: {n: {{ N }}, m: {{ M | default(1) }}}\n")
    assert "error: -D N: no file has a template variable N" in run("dump", "main.yaml", "-D", "N=3").err
    Path("main.yaml").write_text("{% set N = N | default(4) %}\nvariables: {n: {{ N }}}\n")
    assert run("dump", "main.yaml", "-D", "N=3").err == ""


def test_a_name_of_the_given_mapping_or_of_one_side_of_a_difference_counts(run):
    Path("workload.yaml").write_text(
        "workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ['Z[m] = A[m]']}\n"
    )
    Path("given.yaml").write_text(
        "mapping:\n  nodes:\n  - !Storage {tensors: [A, Z], component: Main}\n"
        "  - !Temporal {rank_variable: m, tile_shape: {{ TILE | default(2) }}}\n"
        "  - !Any {}\n  - !Compute {einsum: Z, component: MAC}\n"
    )
    words = ("arch.yaml", "workload.yaml")
    assert run("map", *words, "--given", "given.yaml", "-D", "TILE=1", "--no-compare").status == 0
    assert "did you mean 'TILE'?" in run("map", *words, "--given", "given.yaml", "-D", "TILES=1").err
    done = run("diff", "matmul", "workload.yaml", "-D", "M=4")
    assert (done.status, "template variable" in done.err) == (0, False)
