"""`einmap examples`, and the version."""

from pathlib import Path

from einmap.cli.commands.catalogue.examples import first_comment
from einmap.frontends.yaml.spec import example_paths
from einmap.matmul.machine.read_machine import machine_paths
from einmap.sweep.definition.read import sweep_paths

SHIPPED = {**example_paths(), **machine_paths(), **sweep_paths()}


def test_features_that_do_not_go_together_are_listed(run):
    done = run("examples", "--features")
    assert done.status == 0
    assert "why" in done.out.splitlines()[0]
    assert "who waits for whom" in done.out


def test_every_shipped_file_is_listed_with_its_first_comment(run):
    done = run("examples")
    assert done.status == 0
    assert [name for name in SHIPPED if f"  {name}  " not in done.out] == []
    assert "A teaching architecture" in done.out
    assert done.out.index("arches") < done.out.index("workloads") < done.out.index("mappings")


def test_a_first_comment_that_goes_on_ends_in_dots():
    assert first_comment("# One matrix product.\n# More.\n") == "One matrix product."
    assert first_comment("# One matrix product, of any\n# shape.\n") == "One matrix product, of any ..."


def test_copies_are_equal_and_copying_again_changes_nothing(run, tmp_path):
    folder = tmp_path / "my" / "specs"
    assert run("examples", "--copy", folder).status == 0
    copies = {path.stem: path for path in folder.rglob("*.yaml")}
    assert copies.keys() == SHIPPED.keys()
    assert all(copies[name].read_text() == path.read_text() for name, path in SHIPPED.items())
    assert run("examples", "--copy", folder).status == 0


def test_copies_can_be_evaluated(run, tmp_path):
    run("examples", "--copy", tmp_path)
    files = (
        tmp_path / "arches/simple.yaml",
        tmp_path / "workloads/matmul.yaml",
        tmp_path / "mappings/simple_matmul.yaml",
    )
    assert run("evaluate", *files).out == run("evaluate", "simple", "matmul", "simple_matmul").out


def test_a_changed_file_is_never_overwritten_and_nothing_else_is_written(run, tmp_path):
    mine = tmp_path / "arches" / "simple.yaml"
    mine.parent.mkdir()
    mine.write_text("# mine\n")
    done = run("examples", "--copy", tmp_path)
    assert done.status == 2
    assert f"error: {mine}: a different file is there already" in done.err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "# mine\n"


def test_a_directory_that_cannot_be_made_is_an_error(run, tmp_path):
    (tmp_path / "file").touch()
    done = run("examples", "--copy", tmp_path / "file")
    assert (done.status, done.out) == (2, "")
    assert "error: " in done.err


def test_version_is_printed(run):
    done = run("--version")
    assert done.status == 0
    assert done.out.startswith("einmap ")


def test_every_shipped_file_has_its_row_in_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "examples.md").read_text()
    assert [path.name for path in SHIPPED.values() if f"`{path.name}`" not in text] == []
