import os
import stat
from pathlib import Path

import pytest

from einmap.errors import SpecError
from einmap.frontends.files import write_atomically


def test_the_text_is_written(tmp_path):
    path = tmp_path / "a.yaml"
    write_atomically(path, "é\n")
    write_atomically(str(path), "ü\n")
    assert path.read_bytes() == "ü\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.yaml"]


def test_the_mode_of_a_replaced_file_is_kept(tmp_path):
    path = tmp_path / "a"
    path.touch()
    path.chmod(0o640)
    write_atomically(path, "x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to("a")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "a"
    path.write_text("old")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), fail)
    with pytest.raises(SpecError, match="cannot write the file: No space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_text_that_is_no_utf8_is_refused(tmp_path):
    with pytest.raises(SpecError, match="cannot be written as UTF-8"):
        write_atomically(tmp_path / "a", "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_bad_targets_are_refused(tmp_path):
    with pytest.raises(SpecError, match=r"the directory .*gone does not exist\n  hint: create it first"):
        write_atomically(tmp_path / "gone" / "a", "x")
    with pytest.raises(SpecError, match="this is a directory"):
        write_atomically(tmp_path, "x")
    with pytest.raises(SpecError, match="not a regular file"):
        write_atomically("/dev/null", "x")


def test_a_directory_without_write_access_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(SpecError, match="is not writable"):
        write_atomically(tmp_path / "a", "x")
