"""What docs/engines.md shows is what happens, but for times, rounding errors and the version of JAX."""

import importlib.metadata
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from einmap.cli.main import main
from einmap.distribute.backends.jax.engine import OLDEST_JAX

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "engines.md").read_text()
VARIES = r"\bjax [\d.]+|seconds [\d.e-]+|max error\s+[\d.e-]+|relative\s+[\d.e-]+"


def comparable(text):
    return re.sub(VARIES, "...", text)


@pytest.mark.parametrize("block", re.findall(r"```console\n\$ (.*?)```", TEXT, re.DOTALL))
def test_commands_print_what_is_shown(block, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    command, _, shown = block.partition("\n")
    if (version := re.search(r"\bjax ([\d.]+),", shown)[1]) != importlib.metadata.version("jax"):
        pytest.skip(f"what is shown was compiled by JAX {version}")
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    printed = capsys.readouterr().out
    assert not ended.value.code
    if shown.startswith("...\n"):
        assert comparable(printed).endswith(comparable(shown.removeprefix("...\n")))
    else:
        assert comparable(printed) == comparable(shown)


def test_the_program_does_what_it_says():
    exec(compile(re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1], "engines.md", "exec"), {})


def test_the_oldest_version_is_the_one_that_is_asked_for():
    oldest = ".".join(map(str, OLDEST_JAX)).removesuffix(".0")
    assert f"JAX {oldest} or newer" in TEXT
    assert f'"jax>={oldest}"' in (ROOT / "pyproject.toml").read_text()
