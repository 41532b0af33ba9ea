"""What the README shows is what happens."""

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.frontends.huggingface.configs import PUBLISHED
from tests.pages import output_of

README = (Path(__file__).parent.parent / "README.md").read_text()


def block(language, number=0):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)[number]


def test_the_worked_example_prints_what_the_readme_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("matmul.yaml").write_text(block("yaml"))
    Path("example.py").write_text(block("python"))
    assert output_of(["python", "example.py"]) == README.split("prints\n\n```\n")[1].split("```")[0]


DEMO = "map tpu_v4i gpt3_6.7b"


def test_what_the_demo_prints_is_shown_shortened():
    """Parts between lines "..." stand in what the command of `make demo` prints, in this order; blanks may differ."""
    assert f"$(BIN)/einmap {DEMO}" in (Path(__file__).parent.parent / "Makefile").read_text()
    shown = README.split("`make demo` prints (shortened):\n\n```\n")[1].split("```")[0]
    shown, printed = (
        " ".join(re.sub(r"\([\d,]+ evaluated in [\d.]+ s\)", "(SO MANY)", text).split())
        for text in (shown, output_of(["einmap", *DEMO.split()]))
    )
    for part in shown.split(" ... "):
        assert part.removesuffix(" ...") in printed
        printed = printed.split(part.removesuffix(" ..."), 1)[1]


COMMANDS = [c for c in re.findall(r"^\| `(einmap .*?)`", README, re.MULTILINE) if "FILES" not in c]
LONG = [pytest.mark.slow, pytest.mark.distribute]
SHORTER = {"einmap sweep": "--workers 0", "einmap search": "--workers 1", "--engine jax": "--engine local"}
"""What keeps a command in this process, as others take seconds to start: added, or in the place of `--engine jax`."""


def rows():
    """Each command; those that start processes as they stand in the slow tests, and always in this process."""
    for command in COMMANDS:
        part = next((part for part in SHORTER if part in command), None)
        yield pytest.param(command, marks=LONG if part or "train-plan" in command else [])
        if part == "--engine jax":
            yield command.replace(part, SHORTER[part])
        elif part:
            yield f"{command} {SHORTER[part]}"


@pytest.mark.parametrize("command", [*rows()])
def test_commands_of_the_table_work(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a store of `sweep` is made there
    Path("config.json").write_text(json.dumps(PUBLISHED["Llama-3.1-8B"][0]))
    words = shlex.split(command)
    if words[1:] in (["partition"], ["map", "tpu_v4i", "gpt3_6.7b"]) or "--with" in words:
        pytest.skip("named only, or run by another test")
    assert not output_of(words).startswith(("error", "Usage"))
