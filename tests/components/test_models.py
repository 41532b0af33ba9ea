"""Built-in models equal their sources at the cited points, and grow with size, width, node and voltage."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einmap.components.models.dram import KINDS
from einmap.components.models.technology import energy_factor
from einmap.components.registry import builtin
from einmap.errors import SpecError

KB = 8 * 1024
REGISTRY = builtin()
TO_45, TO_65 = energy_factor(40e-9, 45e-9), energy_factor(40e-9, 65e-9)


def cost(name, action, **attributes):
    return REGISTRY.estimate(name, attributes, {action: {}}).actions[action]


POINTS = [
    ("HorowitzAdder", "add", {"width": 8, "tech_node": 45}, 0.03),
    ("HorowitzAdder", "add", {"width": 32, "tech_node": 45}, 0.1),
    ("HorowitzAdder", "add", {"width": 8, "tech_node": 7}, 0.007),
    ("HorowitzAdder", "add", {"width": 32, "tech_node": 7}, 0.03),
    ("HorowitzMultiplier", "multiply", {"width": 8, "tech_node": 45}, 0.2),
    ("HorowitzMultiplier", "multiply", {"width": 32, "tech_node": 45}, 3.1),
    ("HorowitzMultiplier", "multiply", {"width": 8, "tech_node": 7}, 0.07),
    ("FPAdder", "add", {"width": 16, "tech_node": 45}, 0.4),
    ("fp_adder", "add", {"width": 32, "tech_node": 45}, 0.9),
    ("fpadder", "add", {"width": 32, "tech_node": 7}, 0.38),
    ("fpmultiplier", "multiply", {"width": 16, "tech_node": 45}, 1.1),
    ("fpmultiplier", "multiply", {"width": 32, "tech_node": 45}, 3.7),
    ("fpmultiplier", "multiply", {"width": 32, "tech_node": 7}, 1.31),
    ("fpmac", "compute", {"width": 32, "tech_node": 45}, 4.6),
    ("SRAM", "read", {"size": 8 * KB, "width": 64, "tech_node": "45nm"}, 10),
    ("SRAM", "read", {"size": 32 * KB, "width": 64, "tech_node": "45nm"}, 20),
    ("SRAM", "write", {"size": 1024 * KB, "width": 64, "tech_node": "45nm"}, 100),
    ("SRAM", "read", {"memory_depth": 1024, "memory_width": 64, "datawidth": 16, "technology": "7nm"}, 7.5),
    ("SRAM", "read", {"size": 32 * KB, "width": 64, "tech_node": 7}, 8.5),
    ("SRAM", "read", {"size": 1024 * KB, "width": 64, "tech_node": 7}, 14),
    ("intadder", "add", {"width": 32, "tech_node": 40}, 0.21),
    ("intmultiplier", "multiply", {"width": 32, "tech_node": 40}, 12.68),
    ("register", "read", {"width": 1, "tech_node": 40}, 0.009),
    ("comparator", "compare", {"tech_node": 40}, 0.02947),
    ("counter", "count", {"tech_node": 40}, 0.25074),
    ("shifter", "shift", {"tech_node": 40}, 0.417),
    ("bitwise", "compute", {"tech_node": 40}, 0.0181),
    ("crossbar", "transfer", {"tech_node": 40}, 0.6804),
    ("AladdinFPAdder", "add", {"width": 32, "tech_node": 40}, 16.679),
    ("AladdinFPAdder", "add", {"width": 64, "tech_node": 40}, 43.754),
    ("AladdinFPMultiplier", "multiply", {"width": 32, "tech_node": 40}, 35.3),
    ("AladdinFPMultiplier", "multiply", {"width": 64, "tech_node": 40}, 113.763),
    ("AladdinIntMAC", "mac", {"multiplier_width": 8, "adder_width": 16, "tech_node": 65}, 1.28138),
    ("regfile", "read", {"depth": 12, "width": 16, "tech_node": 65}, 0.202442),
    ("regfile", "write", {"depth": 24, "width": 16, "tech_node": 65}, 0.2191),
    ("regfile", "read", {"depth": 224, "width": 16, "tech_node": 65}, 1.976602),
    ("DRAM", "read", {"type": "LPDDR4", "width": 64}, 512),
    ("DRAM", "read", {"type": "ddr4", "width": 64}, 1300),
    ("LPDDR", "write", {"bits_per_action": 1}, 40),
    ("DRAM_DDR3", "read", {"bits_per_action": 1}, 70),
    ("HBM2", "read", {"bits_per_action": 1}, 6.25),
    ("HBM2E", "read", {"bits_per_action": 1}, 6.0),
    ("HBM3", "read", {"bits_per_action": 1}, 4.05),
    ("HBM4", "read", {"bits_per_action": 1}, 3.2),
    ("GDDR6", "read", {"bits_per_action": 1}, 7.5),
    ("Wire", "hop", {"width": 256, "length": 10e-3, "tech_node": 40}, 310),
    ("EDRAM", "read", {"tech_node": 32}, 20.45),
    ("Router", "hop", {"tech_node": 32}, 20.74),
    ("ADC", "convert", {"tech_node": 32}, 1.6667),
    ("ShiftAdd", "compute", {"tech_node": 32}, 0.021),
    ("EDRAMBus", "read", {"tech_node": 32}, 0.054),
    ("DAC", "convert", {"tech_node": 32}, 0.41667),
    ("ChipLink", "read", {}, 26),
    ("HorowitzMultiplier", "multiply", {"width": 32, "tech_node": 7}, 1.48),
    ("HorowitzIntMAC", "mac", {"width": 8, "tech_node": 45}, 0.23),
    ("HorowitzIntMAC", "mac", {"width": 32, "tech_node": 7}, 1.51),
    ("FPAdder", "add", {"width": 16, "tech_node": 7}, 0.16),
    ("FPMultiplier", "multiply", {"width": 16, "tech_node": 7}, 0.34),
    ("FPMAC", "mac", {"width": 16, "tech_node": 7}, 0.5),
    ("SRAM", "read", {"size": 8 * KB, "width": 64, "tech_node": 7}, 7.5),
    # 1024 words: an adder of 10 of 32 bits beside the access
    ("SmartBufferSRAM", "read", {"size": 8 * KB, "width": 64, "tech_node": 45}, 10 + 0.21 * 10 / 32 * TO_45),
    ("SmartBufferRF", "write", {"depth": 224, "width": 16, "tech_node": 65}, 1.881657 + 0.21 * 7.807355 / 32 * TO_65),
    ("Multiplexer", "select", {"width": 32, "n_inputs": 4, "tech_node": 40}, 2 * 0.0181),
    ("regfile", "read", {"depth": 24, "width": 16, "tech_node": 65}, 0.2513),
    ("regfile", "write", {"depth": 12, "width": 16, "tech_node": 65}, 0.176713),
    ("regfile", "write", {"depth": 224, "width": 16, "tech_node": 65}, 1.881657),
    ("DDR4", "write", {}, 1300),
    ("LPDDR4", "read", {}, 512),
    ("LPDDR5", "read", {"bits_per_action": 1}, 0.8 * 8),
    ("GDDR6X", "write", {"bits_per_action": 1}, 7.25),
    ("Wire", "hop", {"width": 256, "length": 10e-3, "tech_node": 10}, 200),
    ("PackageLink", "hop", {"bits_per_action": 1}, (0.82 + 1.75) / 2),
]


@pytest.mark.parametrize(("name", "action", "attributes", "picojoules"), POINTS)
def test_energy_equals_the_source_at_a_cited_point(name, action, attributes, picojoules):
    estimate = REGISTRY.estimate(name, attributes, {action: {}})
    assert estimate.actions[action].energy == pytest.approx(picojoules * 1e-12, rel=1e-4)
    assert estimate.actions[action].source and estimate.log


def test_every_model_has_a_cited_point():
    cited = {REGISTRY.find(name).name for name, *_ in POINTS}
    assert {model.name for model in REGISTRY} - cited == set()


AREAS = [
    ("SRAM", {"size": 8 * KB, "tech_node": 65}, 8 * KB * 0.57 / 0.6),
    ("SRAM", {"size": 8 * KB, "tech_node": 45}, 8 * KB * 0.346 / 0.6),
    ("SRAM", {"size": 8 * KB, "tech_node": 7}, 8 * KB * 0.027 / 0.6),
    ("RegisterFile", {"size": 100, "tech_node": 40}, 598),
    ("AladdinRegister", {"width": 1, "tech_node": 40}, 5.98),
    ("AladdinIntMAC", {"multiplier_width": 32, "adder_width": 32, "tech_node": 40}, 6350 + 278),
    ("Router", {"tech_node": 32}, 0.151e6),
    ("ChipLink", {}, 22.88e6),
    ("EDRAM", {"size": 64 * KB, "tech_node": 32}, 0.083e6),
    ("EDRAMBus", {"width": 384, "tech_node": 32}, 0.090e6),
    ("ADC", {"tech_node": 32}, 0.0012e6),
    ("DAC", {"rows": 1024, "tech_node": 32}, 0.00017e6),
    ("ShiftAdd", {"tech_node": 32}, 0.00006e6),
    ("DDR4", {}, 0),
]


@pytest.mark.parametrize(("name", "attributes", "square_micrometres"), AREAS)
def test_area_equals_the_source_at_a_cited_point(name, attributes, square_micrometres):
    estimate = REGISTRY.estimate(name, attributes, {})
    assert estimate.area == pytest.approx(square_micrometres * 1e-12)
    assert estimate.origin("area").source and estimate.origin("leak_power").source


def test_leakage_of_sram_is_that_of_the_source_at_its_node_and_voltage():
    """Wang et al., JSSC 43(1), 2008: 12 uA for a Mbit at 65 nm and 1.2 V."""
    megabit = {"size": 2**20, "tech_node": 65, "voltage": 1.2}
    assert REGISTRY.estimate("SRAM", megabit, {}).leak_power == pytest.approx(12e-6 * 1.2)


@pytest.mark.parametrize(("text", "metres"), [("45nm", 45e-9), (45, 45e-9), ("7 nm", 7e-9), (65e-9, 65e-9)])
def test_a_node_is_the_published_one_to_the_last_bit(text, metres):
    estimate = REGISTRY.estimate("SRAM", {"size": KB, "tech_node": text}, {})
    assert estimate == REGISTRY.estimate("SRAM", {"size": KB, "tech_node": metres}, {})
    if metres != 65e-9:
        assert estimate.actions["read"].scaling == ()


def test_area_and_leakage_equal_the_source():
    adder = REGISTRY.estimate("adder", {"width": 32, "tech_node": 40}, {})
    multiplier = REGISTRY.estimate("multiplier", {"width": 32, "tech_node": 40}, {})
    assert (adder.area, adder.leak_power) == pytest.approx((278e-12, 2.40e-6))
    assert (multiplier.area, multiplier.leak_power) == pytest.approx((6350e-12, 80e-6))
    assert energy_factor(40e-9, 65e-9) == pytest.approx(1.4277, rel=1e-4)


GROWING = {
    "size": st.floats(64, 1e8),
    "width": st.integers(1, 512),
    "tech_node": st.floats(5e-9, 180e-9),
    "voltage": st.floats(0.4, 1.4),
    "n_inputs": st.integers(2, 64),
    "n_outputs": st.integers(2, 64),
    "width_a": st.integers(1, 64),
    "width_b": st.integers(1, 64),
    "length": st.floats(1e-5, 1e-2),
    "resolution": st.integers(1, 12),
    "rows": st.integers(1, 512),
    "multiplier_width": st.integers(1, 64),
    "adder_width": st.integers(1, 64),
}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("model", list(REGISTRY), ids=lambda model: model.name)
def test_costs_grow_with_size_width_node_and_voltage(model, data):
    names = [attribute.name for attribute in model.attributes if attribute.name in GROWING]
    base = {name: data.draw(GROWING[name], name) for name in names}
    if not names:
        return
    factor, tolerance = data.draw(st.floats(1.01, 4)), 1 + 1e-9
    before = model.estimate(base, {})
    for grown in names:  # one at a time
        larger = {**base, grown: base[grown] * factor}
        if grown == "width" and "size" in base:  # as many words, each longer
            larger["size"] = base["size"] * factor
        after = model.estimate(larger, {})
        for action in model.actions:
            assert 0 < before.actions[action].energy <= after.actions[action].energy * tolerance
        assert 0 <= before.area <= after.area * tolerance
        assert 0 <= before.leak_power <= after.leak_power * tolerance


def test_what_grows_is_an_attribute_of_most_models():
    """A model without node and voltage is off the chip."""
    without = {model.name for model in REGISTRY if "tech_node" not in {at.name for at in model.attributes}}
    assert without == {kind.name for kind in KINDS} | {"DRAM", "ChipLink", "PackageLink"}
    assert {at.name for model in REGISTRY for at in model.attributes} >= GROWING.keys()
    sized = {model.name for model in REGISTRY if "size" in {at.name for at in model.attributes}}
    assert sized == {"SRAM", "SmartBufferSRAM", "RegisterFile", "SmartBufferRF", "EDRAM", "AladdinRegister"}


@settings(max_examples=15, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("model", list(REGISTRY), ids=lambda model: model.name)
def test_extreme_attributes_are_an_error_or_have_finite_costs(model, data):
    positive = st.floats(1e-300, 1e300)
    attributes = {at.name: data.draw(positive, at.name) for at in model.attributes if not at.choices}
    try:
        estimate = model.estimate(attributes, {})
    except SpecError:
        return
    assert math.isfinite(estimate.area) and math.isfinite(estimate.leak_power)
    assert all(math.isfinite(priced.energy) and priced.latency >= 0 for priced in estimate.actions.values())


def test_costs_of_an_eyeriss_like_design_are_about_1_2_6_200():
    """Chen et al., ISCA 2016, table IV, within 25 %: 16 bits at 65 nm, wires over half of a die of 3.5 mm."""
    node = {"tech_node": "65nm", "bits_per_action": 16}
    file = cost("regfile", "read", size=224 * 16, width=16, **node).energy
    wire = cost("wire", "transfer", width=16, length=1.75e-3, **node).energy
    buffer = cost("SRAM", "read", size=108 * KB, width=64, **node).energy
    dram = cost("DRAM", "read", type="DDR4", bits_per_action=16).energy
    assert [wire / file, buffer / file, dram / file] == pytest.approx([2, 6, 200], rel=0.25)


def test_banks_make_an_access_cheaper_and_ports_make_a_memory_larger():
    plain, banked = (cost("SRAM", "read", size=1024 * KB, tech_node=45, n_banks=n) for n in (1, 16))
    assert banked.energy < plain.energy / 2
    one, two = (REGISTRY.estimate("SRAM", {"size": KB, "tech_node": 45, "n_rw_ports": n}, {}) for n in (1, 2))
    assert two.area > one.area and two.actions["read"].throughput == 2 * one.actions["read"].throughput


def test_an_action_has_attributes_of_its_own():
    actions = REGISTRY.estimate(
        "SRAM", {"size": KB, "width": 64, "tech_node": 45}, {"read": {"bits_per_action": 8}, "write": {}}
    ).actions
    assert actions["write"].energy == pytest.approx(8 * actions["read"].energy)
    assert actions["read"].throughput == pytest.approx(8 * actions["write"].throughput)


@pytest.mark.parametrize(
    ("name", "action", "attributes", "message"),
    [
        ("SRAM", "read", {"tech_node": 45}, "needs size, or depth and width"),
        ("SRAM", "raed", {"tech_node": 45, "size": 8}, "no action 'raed'"),
        ("DRAM", "read", {"type": "LPDDR9"}, "expected one of"),
        ("intmac", "compute", {"width": 8}, "needs tech_node"),
    ],
)
def test_impossible_components_are_errors(name, action, attributes, message):
    with pytest.raises(SpecError, match=message):
        cost(name, action, **attributes)


def test_converters_work_side_by_side():
    one = builtin().estimate("ADC", {"tech_node": 32, "resolution": 8}, {"read": {}})
    four = builtin().estimate("ADC", {"tech_node": 32, "resolution": 8, "n_adcs": 4}, {"read": {}})
    assert (four.area, four.actions["read"].throughput) == pytest.approx((4 * one.area, 4e9))
    assert four.actions["read"].energy == one.actions["read"].energy
    shared = builtin().estimate("ADC", {"tech_node": 32, "n_adcs": 4, "throughput": 7e8}, {"read": {}})
    assert shared.actions["read"].throughput == 7e8


NODE = {"tech_node": 45e-9}


@pytest.mark.parametrize(
    ("name", "size"), [("SRAM", 2**18), ("SmartBufferSRAM", 2**18), ("RegisterFile", 2048), ("SmartBufferRF", 2048)]
)
def test_a_row_is_what_an_action_moves_unless_it_is_written_or_outside_the_range(name, size):
    def memory(**attributes):
        return builtin().estimate(name, {**NODE, "size": size, **attributes}, {"read": {}, "write": {}})

    rows, written = memory(bits_per_action=128), memory(bits_per_action=128, width=128)
    assert (rows.actions, rows.area, rows.warnings) == (written.actions, written.area, ())
    assert "width 128 bits" in rows.priced_for
    too_wide = memory(bits_per_action=8192)
    assert any("width is not given" in text for text in too_wide.warnings)


def test_an_action_that_moves_less_is_a_part_of_the_component_s_row():
    attributes = {**NODE, "size": 2**18, "bits_per_action": 128}
    part = builtin().estimate("SRAM", attributes, {"read": {"bits_per_action": 32}}).actions["read"]
    whole = builtin().estimate("SRAM", attributes, {"read": {}}).actions["read"]
    assert (part.energy * 4, part.throughput / 4) == pytest.approx((whole.energy, whole.throughput))


@pytest.mark.parametrize(
    ("name", "attributes", "words"),
    [
        ("intmac", {}, "width is not given, priced for 32 bits (the default of AladdinIntMAC); set width in"),
        ("intmac", {"multiplier_width": 8}, None),
        ("intmac", {"data-width": 8}, None),
        ("multiplier", {"width_a": 8}, "width is not given"),
        ("multiplier", {"width_a": 8, "width_b": 4}, None),
        ("Wire", {"width": 8}, "length is not given, priced for 1 mm"),
        ("DRAM", {}, "type is not given, priced for LPDDR4"),
        ("DDR4", {}, None),
    ],
)
def test_a_size_that_is_a_default_is_told(name, attributes, words):
    warnings = builtin().estimate(name, {**NODE, **attributes}, {}).warnings
    assert warnings == () if words is None else words in " ".join(warnings)
