"""What docs/distribute.md prints is what its commands print, where a line "..." stands for any lines; its program runs.

`python -m tests.test_distribute_docs` writes the page anew.
"""

import contextlib
import io
import os
import re
import shlex
from pathlib import Path
from unittest import mock

import pytest
from tests.machines import workload
from tests.pages import matches

from einmap.cli.main import main
from einmap.frontends.yaml.spec import example_paths

PAGE = Path(__file__).parent.parent / "docs" / "distribute.md"
BLOCK = re.compile(r"^```\n\$ (einmap [^\n]*)\n(.*?)```$", re.MULTILINE | re.DOTALL)
COMMANDS = [match[1] for match in BLOCK.finditer(PAGE.read_text())]
ROW = re.compile(r"^\| `(\w+ \w+(?: -D \w+=\w+)*)` \| ([^|]*) \|[^|]*\|[^|]*\|$", re.MULTILINE)
EXAMPLES = [match[0] for match in ROW.finditer(PAGE.read_text())]
SUMMARY = re.compile(r"each PE sends (\S+)\s+bytes,.*\sbuffers\s+of\s+(\S+)\s+bytes", re.DOTALL)


def printed(command: str) -> str:
    """What a command of the page prints, in a wide terminal."""
    shown = io.StringIO()
    wide = {"COLUMNS": "110", "NO_COLOR": "1"}
    with mock.patch.dict(os.environ, wide), contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main(shlex.split(command)[1:])
    return shown.getvalue()


def row(match: re.Match) -> str:
    """A row of the table of examples, with the figures that its command prints."""
    figures = SUMMARY.search(printed(f"einmap run {match[1]} --dry-run"))
    return f"| `{match[1]}` | {match[2]} | {' | '.join(figures.groups())} |"


def block(match: re.Match) -> str:
    """A command with what it prints; one that is shown with "..." stays."""
    return match[0] if "...\n" in match[2] else f"```\n$ {match[1]}\n{printed(match[1])}```"


def filled(text: str) -> str:
    """The page with the output of each command, and the figures of each example."""
    return ROW.sub(row, BLOCK.sub(block, text))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_shows_what_the_command_prints(command):
    shown = next(match[2] for match in BLOCK.finditer(PAGE.read_text()) if match[1] == command)
    assert shown
    assert matches(shown, printed(command))


def test_every_shipped_distribution_is_shown():
    shipped = {name for name, path in example_paths().items() if path.parent.name == "distributions"}
    assert shipped == {ROW.search(example)[1].split()[1] for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_table_has_the_figures_of_each_example(example):
    assert row(ROW.search(example)) == example


def test_the_program_of_the_page_runs():
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(program, str(PAGE), "exec"), {})


def test_the_distribution_of_the_page_is_one():
    from einmap import loads, plan_of

    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    einsums = workload(
        "M: 4, K: 8, G: 32, N: 4",
        "Y[m, n] = C[m, g] * W[g, n]",
        "Z[m, n] = A[m, k] * B[k, n]",
        "V[m, n] = Y[m, n] * D[n]",
    )
    plan = plan_of(loads(text + einsums))
    assert plan.mesh.n_devices == 8


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
