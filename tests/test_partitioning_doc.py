"""What docs/partitioning.md shows is what happens, where a line "..." stands for any lines."""

import re
import shlex
from pathlib import Path

import pytest
from tests.machines import workload
from tests.pages import matches

from einmap.cli.main import main
from einmap.einsum.rewrites.steps import USAGE

TEXT = (Path(__file__).parent.parent / "docs" / "partitioning.md").read_text()
MY_HEADS = workload("H: 4, P: 8, F: 16, D: 64", "Z[p, d] = AV[h, p, f] * WZ[h, f, d]")


@pytest.mark.parametrize("block", re.findall(r"```console\n\$ (.*?)```", TEXT, re.DOTALL))
def test_commands_print_what_is_shown(block, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_heads.yaml").write_text(MY_HEADS)
    command, _, shown = block.partition("\n")
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    printed = capsys.readouterr()
    assert matches(shown, printed.out + printed.err)
    assert (ended.value.code or 0) == (2 if "error: " in shown else 0)


def test_the_program_prints_what_is_shown(capsys):
    code = re.search(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(code[1], "partitioning.md", "exec"), {})
    assert capsys.readouterr().out == code[2]


def test_the_table_has_every_step():
    assert {name.replace("-", "_") for name in re.findall(r"^\| `--([\w-]+) ", TEXT, re.MULTILINE)} == set(USAGE)


@pytest.mark.parametrize(
    "steps, shown", re.findall(r"^- `(--split \S+)` .*?`(Q\[.*?\* )\.\.\.`", TEXT, re.MULTILINE | re.DOTALL)
)
def test_equal_ranks(steps, shown, capsys):
    with pytest.raises(SystemExit):
        main(["partition", "attention", *steps.split()])
    assert shown in capsys.readouterr().out


def test_what_is_said_to_be_refused_is(capsys):
    with pytest.raises(SystemExit) as ended:
        main(shlex.split("partition attention --split P=2 --split M=3"))
    assert ended.value.code == 2
    assert "2*p1 + p0" in capsys.readouterr().err
