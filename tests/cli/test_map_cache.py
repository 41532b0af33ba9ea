"""`einmap map --cache`: the second search comes from the directory, and says so."""

import json

import pytest
from tests.cli.test_map import SMALL


def test_the_second_report_says_where_it_comes_from(run, tmp_path):
    words = ("map", *SMALL, "--cache", tmp_path / "results")
    first, second = run(*words), run(*words)
    assert (first.status, second.status) == (0, 0)
    assert "from the cache" not in first.out
    assert " ".join(second.out.split()).startswith("proven optimal in EDP of")
    assert ", now from the cache)" in " ".join(second.out.split())
    assert second.out.split("\n\n", 1)[1] == first.out.split("\n\n", 1)[1]


def test_json_says_so_too(run, tmp_path):
    first, second = (json.loads(run("map", *SMALL, "--cache", tmp_path, "--json").out) for _ in range(2))
    assert (first.pop("cached"), second.pop("cached")) == (False, True)
    assert first == second


@pytest.mark.parametrize("directory", ["file", ""])
def test_a_directory_that_cannot_be_used_is_bad_input(run, tmp_path, monkeypatch, directory):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    done = run("map", *SMALL, "--cache", directory)
    assert (done.status, done.out) == (2, "")
    assert "name a directory in which files may be written" in " ".join(done.err.split())


def test_functions_of_the_user_turn_it_off_and_that_is_said(run, tmp_path):
    (tmp_path / "code.py").write_text("def twice(x):\n    return 2 * x\n")
    for _ in range(2):
        done = run("map", *SMALL, "--cache", tmp_path / "results", "--allow-code", tmp_path / "code.py")
        assert "not cached" in done.err
        assert "from the cache" not in done.out
    assert list((tmp_path / "results").iterdir()) == []
