"""What the command line does with a sample of the catalogue: exit status 2, a message, and nothing else."""

import subprocess
import sys

import pytest
from tests.catalogue.cases import written
from tests.catalogue.rows import ROWS

from einmap.cli.main import main

ONE_OF_EACH = list(
    {case.row: case for case in reversed(ROWS) if case.outcome == "error" and case.run != "strict"}.values()
)
"""The first case of each row."""


def words(case, files):
    """The command that reads what the case is about."""
    if case.run == "plan":
        of_cluster = case.path.startswith("cluster")
        return ["plan", *files, "--mesh", "x=2", "--cluster", files[0]] if of_cluster else ["run", *files]
    return ["map" if case.run == "map" else "evaluate", *files]


def check(case, status, out, err):
    assert status == 2
    assert out == ""
    assert "Traceback" not in err
    assert "error: " in err
    if case.line is not None:
        assert f"{case.file}:{case.line}" in err


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_a_refused_input_ends_with_status_2_and_nothing_on_stdout(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = written(case, tmp_path)
    here = sorted(tmp_path.iterdir())
    with pytest.raises(SystemExit) as ended:
        main([*words(case, before), "--json"])
    said = capsys.readouterr()
    check(case, ended.value.code, said.out, said.err)
    assert sorted(tmp_path.iterdir()) == here


@pytest.mark.parametrize(
    "row", [66, *(pytest.param(row, marks=[pytest.mark.slow, pytest.mark.hostile]) for row in (2, 105))]
)
def test_the_same_in_a_process_of_its_own(row, tmp_path):
    case = next(case for case in ONE_OF_EACH if case.row == row)
    files = written(case, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "from einmap.cli.main import main; main()", *words(case, files)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    check(case, done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "case", [case for case in ROWS if case.outcome == "error" and case.run == "map" and case.row in (85, 127)], ids=str
)
def test_a_search_without_result_writes_no_file(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["map", *written(case, tmp_path), "-o", "best.yaml"])
    check(case, ended.value.code, *capsys.readouterr())
    assert not (tmp_path / "best.yaml").exists()
