"""`einmap show`: what is drawn, where it is written, what is refused."""

from pathlib import Path

import pytest

FUSED = ("simple", "two_matvecs", "simple_two_matvecs_fused")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_without_a_name_the_picture_has_that_of_the_file_that_is_drawn(run):
    done = run("show", *reversed(FUSED))
    assert (done.status, done.out) == (0, "")
    assert "wrote simple_two_matvecs_fused.svg" in done.err
    assert "EinsumB" in Path("simple_two_matvecs_fused.svg").read_text()


def test_an_earlier_drawing_is_replaced_but_no_other_file_that_was_not_named(run):
    Path("simple_two_matvecs_fused.svg").write_text("<svg/>")
    done = run("show", *FUSED)
    assert done.status == 2
    assert "einmap did not draw it" in done.err
    assert Path("simple_two_matvecs_fused.svg").read_text() == "<svg/>"
    assert run("show", *FUSED, "-o", "simple_two_matvecs_fused.svg").status == 2
    assert run("show", *FUSED, "--force").status == 0
    assert run("show", *FUSED, "--costs").status == 0
    assert "of energy" in Path("simple_two_matvecs_fused.svg").read_text()


def test_a_mapping_alone_needs_no_architecture_and_no_workload(run):
    assert run("show", "simple_two_matvecs_fused", "-o", "alone.svg").status == 0
    assert "<ellipse" in Path("alone.svg").read_text()


def test_costs_do(run):
    done = run("show", "simple_two_matvecs_fused", "--costs")
    assert (done.status, "costs need the architecture and the workload too" in done.err) == (2, True)
    assert not list(Path().iterdir())


@pytest.mark.parametrize(("name", "held"), [("tpu_v4i", "ArrayFanout"), ("gpt3_6.7b", "QK_softmax")])
def test_an_architecture_or_a_workload_alone_is_drawn(run, name, held):
    done = run("show", name, "-o", "-")
    assert done.status == 0
    assert held in done.out
    assert done.out.startswith("<svg") and done.out.endswith("</svg>\n")
    assert not list(Path().iterdir())


def test_of_both_one_must_be_chosen(run):
    done = run("show", "eyeriss", "conv")
    assert (done.status, "choose with --what arch or --what workload" in done.err) == (2, True)
    assert "DRAM" in run("show", "eyeriss", "conv", "--what", "arch", "-o", "-").out
    assert "conv" in run("show", "eyeriss", "conv", "--what", "workload", "-o", "-").out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--what", "arc"), "did you mean 'arch'?"),
        (("--theme", "drak"), "did you mean 'dark'?"),
        (("--einsum", "EinsumC"), "did you mean 'EinsumB'?"),
        (("--what", "workload", "--costs"), "costs belong to a mapping"),
        (("-o", "fused.png"), "name it fused.svg"),
        (("-o", "nowhere/fused.svg"), "does not exist"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(run, words, text):
    done = run("show", *FUSED, *words)
    assert done.status == 2
    assert text in " ".join(done.err.replace("│", " ").split())
    assert not list(Path().iterdir())


def test_the_picture_never_replaces_an_input(run):
    Path("input.svg").write_text("mapping: {nodes: [!Compute {einsum: Z, component: MAC}]}\n")
    done = run("show", "input.svg", "-o", "input.svg")
    assert (done.status, "would replace a file" in done.err) == (2, True)
    assert Path("input.svg").read_text().startswith("mapping")


def test_values_for_templates_are_those_of_the_other_commands(run):
    done = run("show", "simple_matmul_chain_fused", "-D", "N_EINSUMS=3", "-o", "-")
    assert "T3" in done.out
    assert "no file has a template variable X" in run("show", "simple", "-D", "X=3", "-o", "-").err
