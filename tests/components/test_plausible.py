"""Values that are a slip of a unit are noticed, values of real hardware are not."""

import pytest

from einmap.components.plausible import implausible, implausible_area
from einmap.components.registry import builtin

KB = 8 * 1024


@pytest.mark.parametrize(
    ("kind", "quantity", "value", "slip"),
    [
        ("memory", "energy_per_bit", 1.2, "was 1.2 pJ meant?"),
        ("memory", "energy_per_bit", 1.2e-12, None),
        ("dram", "energy_per_bit", 8e-15, "was 8 pJ meant?"),
        ("dram", "energy_per_bit", 8e-12, None),
        ("compute", "energy", 1.3, "usual are 100 aJ to 10 nJ"),
        ("compute", "energy", 1.3e-12, None),
        ("compute", "area", 278, "was 278 um^2 meant?"),
        ("compute", "throughput", 1.0, "was 1 G/s meant?"),
        ("compute", "energy", 1e30, "in a compute unit is 1 QJ"),
        ("compute", "energy", -1.0, None),
        ("compute", "energy", 0.0, None),
        ("memory", "throughput", float("inf"), None),
        ("pump", "energy", 1.0, None),
    ],
)
def test_a_slip_of_a_unit_is_noticed(kind, quantity, value, slip):
    text = implausible(kind, quantity, value)
    assert text is None if slip is None else slip in text


def test_an_area_of_square_millimetres_for_a_kilobyte_is_noticed():
    text = implausible_area(KB, 10e-6)
    assert text.startswith("area of 1 KiB is 1e-05 m^2, that is 10 mm^2, usual are")
    assert text.endswith("was 10 um^2 meant?")
    assert "usual are" in implausible_area(KB, 1e-15)
    assert implausible_area(KB, 10e-10) is None and implausible_area(KB, 0) is None


@pytest.mark.parametrize("node", [7, 45, 130])
@pytest.mark.parametrize("name", ["SRAM", "RegisterFile"])
def test_built_in_memories_are_plausible(name, node):
    for size in (128, KB, 1024 * KB):
        estimate = builtin().estimate(name, {"size": size, "tech_node": node, "bits_per_action": 1}, {})
        assert implausible_area(size, estimate.area) is None
        assert implausible("memory", "leak_power_per_bit", estimate.leak_power / size) is None
        if name == "SRAM":
            assert implausible("memory", "energy_per_bit", estimate.actions["read"].energy) is None
