"""docs/tutorial-first.md: its files load, its commands and its program print what it shows, its counts are right."""

import re
import shlex
from pathlib import Path

import pytest

import einmap
from einmap.cli.main import main

PAGE = (Path(__file__).parents[1] / "docs" / "tutorial-first.md").read_text()
FILES = dict(re.findall(r"`([\w.]+\.yaml)`:\n\n```yaml\n(.*?)```", PAGE, re.DOTALL))
CONSOLE = re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", PAGE)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def without_times(text):
    return re.sub(r"evaluated in [\d.]+ s\)", "evaluated)", text)


@pytest.mark.parametrize(("command", "shown"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_the_command_prints_what_the_page_shows(command, shown, capsys):
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert not ended.value.code
    captured = capsys.readouterr()
    assert without_times(captured.out + captured.err) == without_times(shown)


def test_the_program_prints_what_the_page_shows(capsys):
    program, shown = re.search(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", PAGE, re.DOTALL).groups()
    exec(compile(program, "tutorial-first.md", "exec"), {})
    assert capsys.readouterr().out == shown


def test_the_table_of_counts_is_right():
    cost = einmap.evaluate(einmap.load("first.yaml", "product.yaml", "rows.yaml"))
    counted = cost.count_by("component", "tensor", "action")
    totals = cost.count_by("component", "action")
    rows = re.findall(r"^\| (DRAM|Buffer) (read|write)s(?: (\w))? \| ([\d +]+) \|", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for component, action, tensor, values in rows:
        found = counted[component, tensor, action] if tensor else totals[component, action]
        assert found == sum(map(int, values.split("+")))
