"""What docs/emit.md and docs/tutorial-systolic.md show is what happens, where a line "..." stands for any lines."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from tests.emit.running import needs_compiler, problems, problems_in_c, run_c, run_python
from tests.pages import matches

import einmap
from einmap.cli.main import main

ROOT = Path(__file__).parent.parent.parent
EMIT = (ROOT / "docs" / "emit.md").read_text()
TUTORIAL = (ROOT / "docs" / "tutorial-systolic.md").read_text()
STEPS = range(1, 5)


def shown(text):
    """Commands of a page, each with what it prints."""
    return [tuple(block.split("\n", 1)) for block in re.findall(r"```console\n\$ (.*?)```", text, re.DOTALL)]


def settings(step):
    """The architecture of a step: what its command says."""
    words = shlex.split(shown(TUTORIAL)[step - 1][0])
    return [word for word in words if "=" in word]


def step_of(number):
    define = {name: int(value) for name, value in (one.split("=") for one in settings(number))}
    files = [str(ROOT / "docs" / "systolic" / name) for name in ("array.yaml", "matmul.yaml", f"{number}.yaml")]
    return einmap.load(*files, define=define)


@cache
def moved_in(number):
    """Values moved by the code of a step, which is right."""
    spec = step_of(number)
    text = einmap.emit(spec, "python")
    assert problems(text, spec) == []
    return run_python(text, spec)[1]


@pytest.mark.parametrize(("command", "printed"), shown(EMIT) + shown(TUTORIAL))
def test_commands_print_what_is_shown(command, printed, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert not ended.value.code
    assert matches(printed, capsys.readouterr().out)


@needs_compiler
def test_the_c_file_prints_what_is_shown(tmp_path):
    wanted = re.search(r"prints\n\n```\n(.*?)```", EMIT, re.DOTALL)[1]
    spec = einmap.load("simple", "matmul", "simple_matmul", define={"M": 16, "K": 8, "N": 16})
    assert run_c(einmap.emit(spec, "c"), tmp_path)[:2] == (0, wanted)


def test_there_are_four_steps():
    assert len(shown(TUTORIAL)) == len(STEPS)
    assert [f"docs/systolic/{n}.yaml" in command for n, (command, _) in zip(STEPS, shown(TUTORIAL), strict=True)]


@pytest.mark.parametrize("number", STEPS)
def test_the_mapper_finds_the_mappings_of_the_tutorial(number, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    given = [word for one in settings(number) for word in ("-D", one)]
    words = ["map", "docs/systolic/array.yaml", "docs/systolic/matmul.yaml", *given, "--metrics", "energy"]
    found = tmp_path / "found.yaml"
    with pytest.raises(SystemExit) as ended:
        main([*words, "-o", str(found)])
    assert not ended.value.code
    stored = (ROOT / "docs" / "systolic" / f"{number}.yaml").read_text().splitlines()
    assert [line for line in found.read_text().splitlines() if not line.startswith("#")] == stored[1:]
    assert stored[0] == f"# Found by: {shlex.join(['einmap', *words])}"


@pytest.mark.parametrize("number", STEPS)
def test_the_table_says_what_the_code_moves(number):
    moved = moved_in(number)
    values = [moved["DRAM", "IA", "read"], moved["DRAM", "W", "read"], moved["DRAM", "OA", "write"]]
    energy = f"{einmap.evaluate(step_of(number)).energy * 1e6:.1f} µJ"
    assert f"| {number} | {energy} | " + " | ".join(f"{n:,}" for n in values) + " |\n" in TUTORIAL


M, N, K = 64, 64, 32


@pytest.mark.parametrize(
    ("number", "ia", "w"),
    [(1, M * K, N * K), (2, M * K, 4 * N * K), (3, M * K, 2 * N * K), (4, 2 * M * K, N * K)],
)
def test_operands_move_as_the_formulas_say(number, ia, w):
    moved = moved_in(number)
    assert (moved["DRAM", "IA", "read"], moved["DRAM", "W", "read"]) == (ia, w)


@needs_compiler
def test_the_last_step_is_right_in_c(tmp_path):
    spec = step_of(4)
    assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path) == []
