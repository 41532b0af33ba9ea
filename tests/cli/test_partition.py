"""`einmap partition`: steps in the order given, what is printed and written, and what is refused."""

import pytest
from tests.einsum.cascades_to_partition import without_texts

from einmap import load, split

MATVEC = ("partition", "matrix_vector", "-D", "K=10")


def test_without_steps_the_workload_is_printed(run):
    assert run(*MATVEC).out == "K = 10, M = 16\nZ[m] = A[k, m] * B[k]\n"


def test_steps_are_done_in_the_order_of_the_command_line(run):
    done = run(*MATVEC, "--split", "K=4", "--delay", "K1", "--split", "M/2", "--flatten=K1,K0")
    assert done.out.splitlines()[1:] == [
        "ZT[k1, m1, m0] = A[K1K0: 4*k1 + k0, m1, m0] * B[K1K0: 4*k1 + k0]   where 4*k1 + k0 < 10",
        "Z[m1, m0] = ZT[k1, m1, m0]",
    ]
    done = run("partition", "--delay", "K", "--split", "K=4", *MATVEC[1:])
    assert done.out.splitlines()[1:] == [
        "ZT[k1, k0, m] = A[k1, k0, m] * B[k1, k0]   where 4*k1 + k0 < 10",
        "Z[m] = ZT[k1, k0, m]   where 4*k1 + k0 < 10",
    ]


def test_loops(run):
    words = ("--split", "K=4", "--print", "loops", "--parallel", "k1, m", "--order", "k0,k1")
    assert run(*MATVEC, *words).out.splitlines()[:3] == [
        "for k0 in [0, 4)",
        "  spatial-for k1 in [0, 3)",
        "    spatial-for m in [0, 16)",
    ]


def test_yaml_and_the_file_are_the_partitioned_specification(run, tmp_path):
    printed = run(*MATVEC, "--split", "K=4", "--print", "yaml").out
    done = run(*MATVEC, "--split", "K=4", "-o", tmp_path / "new.yaml")
    assert f"wrote {tmp_path / 'new.yaml'}" in done.err.replace("\n", "")
    text = (tmp_path / "new.yaml").read_text()
    assert text == f"# Partitioned by: einmap partition matrix_vector -D K=10 --split K=4\n{printed}"
    expected = split(load("matrix_vector", define={"K": 10}).workload, "K", 4)
    assert without_texts(load(tmp_path / "new.yaml").workload) == without_texts(expected)


def test_a_mapping_is_left_out_and_that_is_said(run, tmp_path):
    done = run("partition", "simple", "matmul", "simple_matmul", "--split", "K=16", "-o", tmp_path / "new.yaml")
    assert "the mapping is left out" in done.err
    assert load(tmp_path / "new.yaml").mapping is None
    assert "mapping" not in run("partition", "simple", "matmul", "simple_matmul", "--split", "K=16").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--split", "J=4"), "split J=4: no tensor of the workload has a rank 'J'"),
        (("--split", "k=4"), "hint: did you mean 'K'?"),
        (("--split", "K=0"), "the tile shape of rank K must be a positive integer, found 0"),
        (("--split", "K/7"), "choose 5 parts"),
        (("--split", "K=20"), "larger than rank K, which has 10 values"),
        (("--delay", "M"), "delay M: no Einsum reduces over rank M: 'Z' keeps m"),
        (("--split", "K=4", "--split", "K=2"), "split K=2: no tensor of the workload has a rank 'K'"),
        (("--split", "K=4", "--flatten", "M=K1,K0"), "the name M is taken"),
        (("--linearise", "K1K0"), "no tensor of the workload has a rank 'K1K0'"),
        (("--print", "loops", "--parallel", "k1"), "the parallel loops: the workload has no rank variable 'k1'"),
        (("--print", "loops", "--order", "m,m"), "the order: rank variable 'm' is given twice"),
        (("-o", "missing/new.yaml"), "missing"),
    ],
)
def test_bad_input(run, words, said):
    done = run(*MATVEC, *words)
    assert done.status == 2
    assert said in " ".join(done.err.split())
    assert done.out == "" or "-o" in words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--split", "K"), "split 'K' cannot be read; write RANK=SHAPE"),
        (("--delay", ""), "delay '' cannot be read"),
        (("--parallel", "k"), "loops are shown by --print loops only"),
        (("--print", "einsum"), "einsums"),
        (("--splt", "K=4"), "--split"),
    ],
)
def test_wrong_use(run, words, said):
    done = run(*MATVEC, *words)
    assert (done.status, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())


def test_a_specification_that_would_be_none_is_not_written(run, tmp_path):
    path = tmp_path / "w.yaml"
    renames = "renames: {einsums: [{name: default, rank_variables: {inner: k}}]}\n"
    path.write_text(run(*MATVEC, "--print", "yaml").out.split("renames:\n")[0] + renames)
    assert run("partition", path, "--split", "K=2").status == 0
    done = run("partition", path, "--split", "K=2", "-o", tmp_path / "new.yaml")
    assert (done.status, done.out) == (2, "")
    assert "k" in done.err
    assert not (tmp_path / "new.yaml").exists()


def test_the_output_is_no_input(run, tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(run(*MATVEC, "--print", "yaml").out)
    before = path.read_text()
    done = run("partition", path, "--split", "K=2", "-o", path)
    assert (done.status, path.read_text()) == (2, before)
    assert "would replace a file of the specification" in done.err


def test_text_of_an_operation_cannot_steer_the_terminal(run, tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text('workload: {bits_per_value: {All: 8}, rank_sizes: {M: 2}, einsums: ["Z[m] = \\x1b[31m A[m]"]}')
    done = run("partition", path)
    assert "\x1b" not in done.out + done.err
