"""The program itself, before it knows its commands."""

import gc
import sys

import pytest

import einmap.cli.main  # noqa: F401 - loaded: what is taken away below was there
from einmap.__main__ import main


class InterruptsTyper:
    """Ctrl-C while Typer is imported."""

    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt


@pytest.mark.parametrize("loaded", [("einmap.cli.main", "typer"), ()])
def test_ctrl_c_ends_the_program_without_a_traceback(monkeypatch, loaded):
    def interrupted():
        raise KeyboardInterrupt

    for name in loaded:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "__all__")
    monkeypatch.setattr(sys, "meta_path", [InterruptsTyper(), *sys.meta_path])
    if not loaded:
        monkeypatch.setattr("einmap.cli.main.main", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert gc.isenabled()
