"""Costs that hardware does not have are noted at their place; relative energies, 0 and infinity are not."""

from pathlib import Path

import pytest

import einmap

ARCH = """arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    area: 0
    actions:
    - {name: read, energy: 8e-12, throughput: 1e9}
    - {name: write, energy: 8e-12, throughput: inf}
  - !Memory
    name: Buffer
    size: 8192
    leak_power: 1e-6
    area: 1e-9
    actions:
    - {name: read, energy: 1e-12, throughput: 1e9}
    - {name: write, energy: 1e-12, latency: 1e-9}
  - !Compute
    name: MAC
    leak_power: 0
    area: 1e-9
    actions: [{name: compute, energy: 1e-12, throughput: 1e9}]
"""
WORKLOAD = """workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ["Y[m] = A[m]", "Z[m] = Y[m]"]}
"""


def notes(old="", new=""):
    assert old in ARCH
    return [str(note) for note in einmap.loads(ARCH.replace(old, new, 1) + WORKLOAD).notes]


def test_an_area_of_square_millimetres_that_was_meant_in_micrometres_is_noted_once():
    (note,) = notes("area: 1e-9", "area: 10e-6  # 10 um^2")
    assert note.startswith(
        '<text>:15:11: arch.nodes[1] "Buffer".area: Buffer: area of 1 KiB is 1e-05 m^2, that is 10 mm^2'
    )
    assert note.endswith("was 10 um^2 meant?")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "energy: 1e-12, throughput",
            "energy: 1.2, throughput",
            ["Buffer.actions[0]", "<text>:17:", "was 1.2 pJ meant?"],
        ),
        ("energy: 8e-12, throughput: 1e9", "energy: 8e-15, throughput: 1e9", ["Main", "off-chip", "was 8 pJ meant?"]),
        ("latency: 1e-9", "latency: 1", ["<text>:18:", ".latency: ", "1 /s", "was 1 G/s meant?"]),
        ("leak_power: 1e-6", "leak_power: 0.1", ["leak power of a bit", "12.2 µW"]),
        ("area: 1e-9\n    actions: [", "area: 3\n    actions: [", ["area in a compute unit", "was 3 um^2 meant?"]),
    ],
)
def test_each_kind_of_slip_has_its_place_and_a_likely_value(old, new, words):
    (note,) = notes(old, new)
    assert [word for word in words if word.replace("Buffer.", 'Buffer".') not in note] == []


def test_zero_infinity_and_relative_energies_are_as_meant():
    assert notes() == []
    relative = ARCH.replace("e-12", "").replace("area: 1e-9", "area: 5").replace("1e-6", "3")
    assert einmap.loads(relative + WORKLOAD).notes == ()


def test_scales_and_instances_that_work_as_one_count():
    assert notes("energy: 1e-12, throughput", "energy: 1, energy_scale: 1e-12, throughput") == []
    assert len(notes("area: 1e-9", "area: 4e-6\n    n_parallel_instances: 100")) == 0
    assert len(notes("area: 1e-9", "area: 4e-6\n    area_scale: 100")) == 1


def test_an_outermost_memory_may_be_on_the_chip():
    assert notes("size: inf", "size: 2**20") == []
    inside = ARCH.replace("size: inf", "size: 2**20").replace("energy: 8e-12", "energy: 8e-14")
    assert einmap.loads(inside + WORKLOAD).notes == ()


def test_a_component_of_a_class_is_asked_among_relative_energies():
    text = ARCH.replace("e-12", "").replace(
        "    size: 8192\n    leak_power: 1e-6\n",
        "    size: 8192\n    component_class: SRAM\n    extra_attributes_for_component_model: {tech_node: 45nm}\n",
    )
    found = [str(note) for note in einmap.loads(text.replace("area: 1e-9", "area: 10e-6", 1) + WORKLOAD).notes]
    assert any("area of 1 KiB" in note for note in found)
    assert not any("MAC" in note or "Main" in note for note in found)


ARCHES = sorted(p.stem for p in (Path(einmap.__file__).parent / "examples" / "arches").glob("*.yaml"))


@pytest.mark.parametrize("name", ARCHES)
def test_shipped_architectures_are_plausible(name):
    assert [note for note in einmap.load(name, "conv").notes if "usual are" in note.text] == []


def test_an_energy_far_above_others_in_joules_is_noted_among_more_such():
    """Three of four energies are some joules: not relative ones beside 1 pJ, so each is noted, and areas are not."""
    text = ARCH.replace("energy: 8e-12", "energy: 100").replace("area: 1e-9", "area: 5")
    given = text.replace("{name: read, energy: 1e-12", "{name: read, energy: 0.02", 1).replace(
        "{name: write, energy: 1e-12", "{name: write, energy: 0.02", 1
    )
    found = [note for note in einmap.loads(given + WORKLOAD).notes if "usual are" in note.text]
    assert [note.text.split(",")[0] for note in found] == [
        *["Main: energy of a bit in an off-chip memory is 100 J"] * 2,
        *["Buffer: energy of a bit in an on-chip memory is 20 mJ"] * 2,
    ]
    assert found[0].text.endswith("was 100 pJ meant?")
    wide = given.replace("energy: 100", "energy: 0.9").replace("energy: 1e-12", "energy: 0.9e-9")
    assert [note for note in einmap.loads(wide + WORKLOAD).notes if "usual are" in note.text] == []
