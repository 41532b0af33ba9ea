"""docs/components.md names every model and alias, its examples run, and its shape of AlexNet holds."""

import re
from pathlib import Path

import pytest

import einmap
from einmap.components.registry import builtin

PAGE = (Path(__file__).parents[2] / "docs" / "components.md").read_text()


def test_every_model_is_on_the_page():
    missing = [name for model in builtin() for name in (model.name, *model.aliases) if f"`{name}`" not in PAGE]
    assert not missing


def test_examples_of_the_page_run():
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, {})


@pytest.mark.parametrize(
    ("sizes", "dominant"),
    [
        ({"C": 256, "M": 384, "P": 13, "Q": 13}, {"WeightSpad", "InputSpad", "PsumSpad"}),
        ({"C": 4096, "M": 1000, "P": 1, "Q": 1, "R": 1, "S": 1}, {"DRAM"}),
    ],
    ids=["conv3", "fc3"],
)
def test_register_files_dominate_convolutions_and_dram_fully_connected_layers(sizes, dominant):
    spec = einmap.load("eyeriss", "conv", define={"N": 16, "BITS": 16, **sizes})
    cost = einmap.map_workload(spec, metrics="energy").cost
    energies = {component: energy for (component,), energy in cost.energy_by("component").items()}
    assert 0.55 < sum(energies[component] for component in dominant) / cost.energy < 0.75


# Convolutions of AlexNet, of one of their groups: C, M, P, R, STRIDE, groups.
ALEXNET = [(3, 96, 55, 11, 4, 1), (48, 128, 27, 5, 1, 2), (256, 384, 13, 3, 1, 1), (192, 192, 13, 3, 1, 2)]
ALEXNET.append((192, 128, 13, 3, 1, 2))


@pytest.mark.parametrize("arch", ["eyeriss", "eyeriss_components"])
def test_numbers_beside_those_of_the_chip_are_those_of_the_page(arch):
    macs = accesses = joules = seconds = 0.0
    for c, m, p, r, stride, groups in ALEXNET:
        sizes = {"N": 4, "C": c, "M": m, "P": p, "Q": p, "R": r, "S": r, "STRIDE": stride, "BITS": 16}
        cost = einmap.map_workload(einmap.load(arch, "conv", define=sizes), metrics="energy").cost
        macs += groups * cost.count_by("component")[("MAC",)]
        accesses += groups * cost.count_by("component")[("DRAM",)] / 16
        joules += groups * (cost.energy - cost.energy_by("component")[("DRAM",)])
        seconds += groups * cost.latency
    assert macs / 4 == pytest.approx(666e6, rel=0.01)
    ours = f"{accesses / macs:.4f}", f"{joules / macs * 1e12:.1f}", f"{seconds / 4 * 1e3:.0f}"
    column = {"eyeriss": 2, "eyeriss_components": 3}[arch]
    rows = ("| DRAM accesses for each MAC |", "| energy on the chip for each MAC, pJ |", "| time of a frame, ms |")
    written = [line.split("|") for row in rows for line in PAGE.splitlines() if line.startswith(row)]
    assert ours == tuple(cells[column + 1].strip() for cells in written)
