"""A directory that keeps texts: whole or not at all, whatever stands in it."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from einmap.errors import SpecError
from einmap.frontends.files import MAX_TEXT
from einmap.frontends.store import Store, own_code

KILLED = """
import os, signal, sys
from pathlib import Path
from einmap.frontends.store import Store

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(*((os, "fsync") if sys.argv[2] == "fsync" else (Path, "replace")), kill)
Store.opened(sys.argv[1]).write("key", "new" * 1000)
"""


def test_what_is_written_is_read(tmp_path):
    store = Store.opened(str(tmp_path / "of" / "results"))
    assert store.read("key") is None
    store.write("key", "é\n")
    assert Store.opened(tmp_path / "of" / "results").read("key") == "é\n"
    assert [file.name for file in (tmp_path / "of" / "results").iterdir()] == ["key.json"]


@pytest.mark.parametrize("directory", ["", 3, None, "a\0b", "x" * 300])
def test_what_names_no_directory_is_refused(directory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match="directory"):
        Store.opened(directory)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SpecError, match="cannot keep results in this directory") as failure:
            Store.opened(directory)
        assert failure.value.at.file == str(directory)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_write_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(SpecError, match="Permission denied"):
        Store.opened(tmp_path)
    tmp_path.chmod(0o700)


def test_a_file_system_that_takes_no_files_is_refused():
    with pytest.raises(SpecError, match="cannot keep results in this directory"):
        Store.opened("/proc")


def directory(file):
    file.mkdir()
    (file / "inside").touch()


def huge(file):
    file.touch()
    os.truncate(file, MAX_TEXT + 1)


@pytest.mark.parametrize(
    "place",
    [
        directory,
        os.mkfifo,
        lambda file: file.write_bytes(b"\xff\xfe"),
        lambda file: file.symlink_to(file),
        lambda file: file.symlink_to("gone"),
        huge,
    ],
)
def test_what_is_no_text_is_not_there(tmp_path, place):
    store = Store.opened(tmp_path)
    place(store.file("key"))
    assert store.read("key") is None
    store.write("key", "new")
    assert store.read("key") == ("new" if place is not directory else None)


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "mine").write_text("old")
    (tmp_path / "mine").chmod(0o400)
    store = Store.opened(tmp_path / "results")
    store.file("key").symlink_to(tmp_path / "mine")
    store.write("key", "new")
    assert (tmp_path / "mine").read_text() == "old"
    assert (store.file("key").read_text(), store.file("key").is_symlink()) == ("new", False)
    assert stat.S_IMODE(store.file("key").stat().st_mode) != 0o400


def test_a_full_disk_is_no_error_and_leaves_what_was_there(tmp_path, monkeypatch):
    store = Store.opened(tmp_path)
    store.write("key", "old")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    store.write("key", "new")
    assert store.read("key") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["key.json"]


def test_a_text_that_would_not_be_read_is_not_written(tmp_path):
    store = Store.opened(tmp_path)
    store.write("key", "x" * (MAX_TEXT + 1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("before", [None, "old"])
def test_a_writer_that_is_killed_leaves_nothing_that_is_read(tmp_path, step, before):
    store = Store.opened(tmp_path)
    if before is not None:
        store.write("key", before)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), step], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".*.tmp"))) == 1
    assert store.read("key") == before


def test_the_hash_of_the_code_changes_with_a_file(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.py").write_text("2")
    real = own_code()
    own_code.cache_clear()
    monkeypatch.setattr("einmap.errors.__file__", str(tmp_path / "a.py"))
    found = []
    for text in ("2", "3", "2"):
        Path(tmp_path, "sub", "b.py").write_text(text)
        found.append(own_code())
        own_code.cache_clear()
    assert found[0] == found[2]
    assert len({real, *found}) == 3
