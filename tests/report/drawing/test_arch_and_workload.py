"""What the pictures of architectures and workloads say."""

import pytest
from tests.report.drawing.geometry import problems

from einmap import SpecError, load, loads
from einmap.report.drawing.arch import arch_picture
from einmap.report.drawing.draw import draw, what_to_draw
from einmap.report.drawing.workload import equation, workload_picture


def texts(picture):
    return [" | ".join(line.text for line in placed.shape.lines) for placed in picture.shapes]


def joined(picture):
    """Each edge as the names of the shapes that it joins."""
    names = [placed.shape.lines[0].text for placed in picture.shapes]
    return [(names[edge.source], names[edge.target]) for edge in picture.edges]


def test_an_architecture_without_a_workload_shows_sizes_and_what_they_depend_on():
    assert texts(arch_picture(load("tpu_v4i"))) == [
        "MainMemory | unlimited",
        "GlobalBuffer | 128 MiB",
        "LocalBuffer | Z × 4",
        "LocalBuffer | 4 MiB | 4 instances",
        "ScalarUnit | 4 instances",
        "ArrayFanout | reuse_input × 128 | reuse_output × 128",
        "Register | weight.bits_per_value if weight else 0 | 65,536 instances",
        "MAC | 65,536 instances",
    ]


def test_with_a_workload_they_are_those_for_an_einsum():
    spec = load("tpu_v4i", "gpt3_6.7b")
    assert "Register | 8 bits | 65,536 instances" in texts(arch_picture(spec))
    softmax = arch_picture(spec, einsum="QK_softmax")
    assert "MAC | 65,536 instances | disabled" in texts(softmax)
    assert "as it is for Einsum QK_softmax" in [text.line.text for text in softmax.texts]


FORKED = """
arch:
  variables: {width: 3}
  nodes:
  - !Memory {name: DRAM, size: inf}
  - !Fork
    nodes:
    - !Memory {name: Side, size: 8 * 1024 * width}
    - !Compute {name: Vector}
  - !Hierarchical
    nodes:
    - !Toll {name: Net, direction: up, spatial: [{name: x, fanout: width}]}
  - !Compute {name: Scalar}
  - !Container {name: Plain}
  - !Compute {name: MAC}
"""


def test_forks_and_inner_computes_are_branches_and_the_main_line_is_the_last_one():
    picture = arch_picture(loads(FORKED))
    assert problems(picture) == []
    assert joined(picture) == [
        ("DRAM", "Side"),
        ("Side", "Vector"),
        ("DRAM", "Net"),
        ("Net", "Net"),
        ("Net", "Scalar"),
        ("Net", "Plain"),
        ("Plain", "MAC"),
    ]
    assert "Side | 3 KiB" in texts(picture)
    assert "Net | 3 instances" in texts(picture)


NETWORK = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy}
  - !Network {name: Noc, topology: all_to_all, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy, spatial: [{name: X, fanout: 4}]}
"""
MATVEC = "workload: {rank_sizes: {M: 4, K: 2}, bits_per_value: {All: 8}, einsums: ['Z[m] = A[m, k] * B[k]']}"


@pytest.mark.parametrize("text", [NETWORK, NETWORK + MATVEC])
def test_a_network_says_its_topology(text):
    picture = arch_picture(loads(text))
    assert problems(picture) == []
    assert ("DRAM", "Noc") in joined(picture)
    assert "Noc | all to all" in texts(picture)
    assert [p.shape.kind for p in picture.samples] == ["cylinder", "double box", "pill", "ellipse"]
    assert "Network Noc, all_to_all" in picture.description


ARRAY = """
arch:
  nodes:
  - !Array
    name: PEs
    spatial: [{name: X, fanout: 4}]
    nodes: [!Memory {name: Rows, size: inf, component_class: Dummy, spatial: [{name: X, fanout: 2}]}]
  - !Compute {name: MAC, component_class: Dummy}
"""


@pytest.mark.parametrize("text", [ARRAY, ARRAY + MATVEC])
def test_a_memory_in_an_array_says_how_many_units_it_is(text):
    picture = arch_picture(loads(text))
    assert problems(picture) == []
    assert "Rows | unlimited | in PEs: X × 2 units" in texts(picture)
    assert ("Rows", "PEs") in joined(picture)


@pytest.mark.parametrize("name", ["simple", "tpu_v4i", "eyeriss", "nvdla"])
def test_shipped_architectures_fit_their_page(name):
    assert problems(arch_picture(load(name))) == []


def test_tensors_flow_into_einsums_and_out_of_them():
    picture = workload_picture(load("two_matvecs").workload)
    assert sorted(joined(picture)) == sorted(
        [
            ("I", "EinsumA"),
            ("WA", "EinsumA"),
            ("EinsumA", "A"),
            ("A", "EinsumB"),
            ("WB", "EinsumB"),
            ("EinsumB", "B"),
        ]
    )
    assert "WA | 64 × 64 | 4 KiB" in texts(picture)
    one = workload_picture(load("two_matvecs").workload, einsum="EinsumB")
    assert [placed.shape.lines[0].text for placed in one.shapes] == ["EinsumB", "A", "WB", "B"]


def test_equations_have_the_indices_of_every_tensor():
    einsums = load("gpt3_6.7b").workload.by_name
    assert (
        equation(einsums["QK_softmax"]).replace("\N{NO-BREAK SPACE}", " ")
        == "QK_softmax[b, m, p, h] = exp(QK[b, m, p, h])"
    )
    conv = equation(load("conv").workload.einsums[0]).replace("\N{NO-BREAK SPACE}", " ")
    assert "p + r" in conv


def test_what_is_drawn_follows_from_what_is_there():
    assert what_to_draw(load("simple")) == "arch"
    assert what_to_draw(load("matmul")) == "workload"
    assert what_to_draw(load("simple", "matmul", "simple_matmul")) == "mapping"
    assert what_to_draw(load("simple", "matmul"), "workload") == "workload"
    with pytest.raises(SpecError, match="which one"):
        what_to_draw(load("simple", "matmul"))
    with pytest.raises(SpecError, match="no mapping to draw"):
        what_to_draw(load("simple"), "mapping")
    with pytest.raises(SpecError, match="nothing to draw"):
        what_to_draw(loads("variables: {a: 1}"))


@pytest.mark.parametrize("what", ["arch", "workload", "mapping"])
def test_an_unknown_einsum_is_an_error_with_the_one_that_was_meant(what):
    spec = load("simple", "two_matvecs", "simple_two_matvecs_fused")
    with pytest.raises(Exception, match="EinsumX") as error:
        draw(spec, what, einsum="EinsumX")
    assert "did you mean" in str(error.value)
