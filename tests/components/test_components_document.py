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
