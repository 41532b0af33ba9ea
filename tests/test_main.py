"""The program itself, before it knows its commands."""

import dataclasses
import gc
import os
import subprocess
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
    monkeypatch.setattr(dataclasses, "_create_fn", getattr(dataclasses, "_create_fn", None), raising=False)
    monkeypatch.setattr(sys, "meta_path", [InterruptsTyper(), *sys.meta_path])
    if not loaded:
        monkeypatch.setattr("einmap.cli.main.main", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert gc.isenabled()


LATER = """
import dataclasses
from dataclasses import dataclass, field, FrozenInstanceError
from einmap.later_methods import compile_methods_later

compile_methods_later()
compile_methods_later()

@dataclass(frozen=True)
class One:
    a: int
    b: list = field(default_factory=list, compare=False)

class Two(One):
    pass

@dataclass(frozen=True, slots=True)
class Slim:
    a: int

@dataclass
class Loose:
    a: int

def is_compiled(method):
    return method.__code__.co_filename == "<string>"

print(*(is_compiled(getattr(One, name)) for name in ("__eq__", "__hash__", "__setattr__")))
for kind in (One, Slim):
    assert kind(1) == kind(1) != kind(2) and kind(1) != 1 and hash(kind(1)) == hash((1,)) != hash(kind(2))
    assert len({kind(1), kind(1), kind(2)}) == 2
    assert kind.__eq__.__qualname__ == kind.__qualname__ + ".__eq__"
    for change in (lambda one: setattr(one, "a", 3), lambda one: delattr(one, "a")):
        try:
            change(kind(1))
        except FrozenInstanceError as error:
            assert "field 'a'" in str(error)
        else:
            raise AssertionError("it was changed")
print(*(is_compiled(getattr(One, name)) for name in ("__eq__", "__hash__", "__setattr__")))
two = Two(1)
two.c = 3  # as without waiting: what is no field of the frozen class may be set
assert two == Two(1) != One(1) and two.c == 3
assert repr(One(1, [2])) == "One(a=1, b=[2])" and repr(two) == "Two(a=1, b=[])" and repr(Slim(1)) == "Slim(a=1)"
loose = Loose(1)
loose.a = 2
assert loose == Loose(2) and Loose.__hash__ is None
assert dataclasses.replace(One(1), a=2) == One(2)
"""


def test_methods_of_dataclasses_that_wait_are_as_those_that_do_not():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", LATER], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if sys.version_info < (3, 13):
        assert done.stdout.split() == ["False"] * 3 + ["True"] * 3
