"""docs/matmul-planner.md: its commands print what it shows, its program runs, its figures are those of plans."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from tests.pages import matches

from einmap import ComputeUnit, Level, Machine, map_workload, plan_matmul
from einmap.cli.main import main
from einmap.matmul.to_mapping import specification

PAGE = (Path(__file__).parents[2] / "docs" / "matmul-planner.md").read_text()
CONSOLE = re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", PAGE)


@pytest.mark.parametrize(("command", "shown"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_the_command_prints_what_the_page_shows(command, shown, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert not ended.value.code
    captured = capsys.readouterr()
    assert matches(shown, captured.out + captured.err)


def test_the_program_of_the_page_runs():
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(program, "docs/matmul-planner.md", "exec"), {})


def test_the_machine_of_the_page_can_be_read(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "machine.yaml"
    file.write_text(text)
    assert plan_matmul(256, 256, 256, file, dtype="fp32", method="level by level").feasible


def rows_of(header):
    """The cells of the table that begins with `header`."""
    lines = PAGE[PAGE.index(header) :].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index("")]]


WORKED = ((4096, 4096, 16384), "chiplet_256", "fp8")
CORE = ((2048, 2048, 2048), "cpu_core", "fp32")


@cache
def cached(case, rules):
    size, machine, dtype = case
    return plan_matmul(*size, machine, dtype=dtype, **dict(rules))


def planned(case, **rules):
    return cached(case, tuple(rules.items()))


def test_the_blocks_of_the_worked_example_are_those_of_its_plan():
    plan = planned(WORKED, fit="resident")
    rows = [
        [
            level.stage.level.name,
            str(level.stage.level.workers),
            choice.algorithm.resident,
            str(choice.algorithm.value),
            " x ".join(map(str, choice.block)),
        ]
        for level, choice in zip(plan.levels, plan.choices, strict=True)
    ]
    assert rows_of("| memory | workers | keeps |") == rows


def test_the_figures_of_both_capacity_rules_are_true():
    for (_, block, used, time, feasible), fit in zip(rows_of("| | L2 block |"), ("resident", "all"), strict=True):
        plan = planned(WORKED, fit=fit)
        assert block == " x ".join(str(size) for size in plan.choices[-1].block)
        assert used == f"{plan.levels[-1].used:.0%}"
        assert time == f"{plan.seconds * 1e6:.1f} us"
        assert feasible == ("yes" if plan.feasible else "no")


@pytest.mark.parametrize(
    ("row", "case", "rules", "scale"),
    [
        (0, WORKED, {}, 1e6),
        (1, WORKED, {"accumulator": "fp32"}, 1e6),
        (2, CORE, {}, 1e3),
        (3, CORE, {"double_buffer": True}, 1e3),
    ],
    ids=["fp8", "wide sums", "core", "core, double buffers"],
)
def test_the_gains_of_joint_plans_are_true(row, case, rules, scale):
    _, alone, joint, gain = rows_of("| | level by level |")[row]
    one, all_levels = planned(case, method="level by level", **rules), planned(case, **rules)
    assert all_levels.optimal
    assert float(alone.split()[0]) == round(one.seconds * scale, 1)
    assert float(joint.split()[0]) == round(all_levels.seconds * scale, 1)
    assert gain == f"{one.seconds / all_levels.seconds:.2f}"


def test_the_figures_of_double_buffering_are_true():
    times = [planned(case, double_buffer=True) for case in (WORKED, CORE)]
    assert f"takes {times[0].seconds * 1e6:.1f} us instead of 279.4 us" in PAGE
    assert f"{times[1].seconds * 1e3:.1f} ms instead of 106.7 ms, {times[1].peak_part:.0%} of the peak" in PAGE


@pytest.mark.parametrize("row", range(4))
def test_the_gap_to_the_mapper_is_true(row):
    values, *expected = (int(cell) for cell in rows_of("| S | planner |")[row])
    machine = Machine("two", (Level.of("L1", values * 8, 8.0),), ComputeUnit.of({"int8": 1e9}))
    plan = plan_matmul(12, 12, 12, machine, dtype="int8")
    found = map_workload(specification(machine, plan.product), metrics="energy", workers=1)
    (level,) = plan.levels
    assert [level.traffic.bits // 8, round(found.cost.energy / 8e-12), round(level.least / 8)] == expected
