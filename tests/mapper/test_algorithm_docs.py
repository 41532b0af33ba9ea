"""The cascade that docs/algorithm.md works through costs what the page says."""

import re
from pathlib import Path

import pytest

import einmap

PAGE = (Path(__file__).parents[2] / "docs" / "algorithm.md").read_text()
CASCADE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
ROWS = re.findall(r"^\| (\d+) \| (no|yes) \| (\d+) \| in (\w+)", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("bits", "fused", "energy", "memory"), ROWS)
def test_a_row_of_the_worked_cascade(bits, fused, energy, memory):
    spec = einmap.loads(CASCADE).set("arch.nodes[1].size", int(bits))
    result = einmap.map_workload(spec, metrics="energy", fuse=fused == "yes")
    assert (result.optimal, result.cost.energy) == (True, float(energy))
    outermost = next(
        n.component for n in result.mapping.paths[0] if "X" in getattr(n.node, "tensors", ()) for n in [n.node]
    )
    assert outermost == memory


def test_all_rows_are_there():
    assert len(ROWS) == 4
