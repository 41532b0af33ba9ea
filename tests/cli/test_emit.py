"""`einmap emit`: languages, files, what is refused."""

import pytest

import einmap

SIMPLE = ("simple", "matmul", "simple_matmul")
SMALL = (*SIMPLE, "-D", "M=16", "-D", "K=8", "-D", "N=16")


@pytest.mark.parametrize("lang", ["pseudo", "python", "c"])
def test_the_code_is_printed(run, lang):
    spec = einmap.load(*SIMPLE, define={"M": 16, "K": 8, "N": 16})
    done = run("emit", *SMALL, "--lang", lang)
    assert (done.status, done.out, done.err) == (0, einmap.emit(spec, lang), "")


def test_the_code_is_written(run, tmp_path):
    file = tmp_path / "matmul.c"
    done = run("emit", *SMALL, "--lang", "c", "-o", file)
    assert (done.status, done.out) == (0, "")
    assert "int main(void)" in file.read_text()


def test_a_file_that_exists_is_kept_without_force(run, tmp_path):
    file = tmp_path / "matmul.txt"
    file.write_text("mine")
    done = run("emit", *SMALL, "-o", file)
    assert (done.status, "the file exists" in done.err, "--force" in done.err) == (2, True, True)
    assert file.read_text() == "mine"
    assert run("emit", *SMALL, "-o", file, "--force").status == 0
    assert file.read_text().startswith("# A loop nest")


def test_a_file_of_the_specification_is_never_replaced(run, tmp_path):
    file = tmp_path / "given.yaml"
    file.write_text(einmap.dump_mapping(einmap.load(*SIMPLE).mapping))
    done = run("emit", "simple", "matmul", file, "-o", file, "--force")
    assert (done.status, "would replace a file of the specification" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("simple", "matmul"), "no mapping given"),
        ((*SIMPLE, "--lang", "cc"), "'cc'"),
        ((*SIMPLE, "-D", "M=3"), "tile shape 16 of 'm' exceeds the extent 3"),
        ((*SIMPLE, "-o", "nowhere/nest.c"), "does not exist"),
        (("simple", "matmul", "tpu_v4i_matmul"), "the architecture has no component"),
    ],
)
def test_bad_input_is_an_error(run, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    done = run("emit", *words)
    assert (done.status, done.out, list(tmp_path.iterdir())) == (2, "", [])
    assert said in done.err.replace("\n", " ")


def test_a_failed_emission_leaves_the_file_as_it_was(run, tmp_path):
    file = tmp_path / "nest.c"
    file.write_text("mine")
    assert run("emit", *SIMPLE, "-D", "M=3", "-o", file, "--force").status == 2
    assert file.read_text() == "mine"
    assert [f.name for f in tmp_path.iterdir()] == ["nest.c"]
